import AnabranchCore

/// Splits an object into the values of its properties, as they are written.
final class ContentEncoder: Encoder {
    /// The values that were encoded so far.
    final class Output {
        let schema: ObjectSchema
        var contents: [_ValueContent]
        private var next = 0

        fileprivate init(_ schema: ObjectSchema) {
            self.schema = schema
            contents = Array(repeating: .null, count: schema.fields.count)
        }

        fileprivate func write<Value: Encodable>(_ value: Value, _ name: String) throws(ObjectError) {
            if next >= schema.fields.count || schema.fields[next].name != name {
                guard let index = schema.indices[name] else { return }
                next = index
            }
            let field = schema.fields[next]
            guard let codec = field.codec as? TypedCodec<Value> else {
                throw ObjectError(
                    .badClass, "\(schema.typeName).\(name): encoded as \(Value.self), and decoded otherwise")
            }
            do throws(ObjectError) {
                contents[next] = try codec.content(of: value)
            } catch {
                throw error.at("\(schema.className).\(name)")
            }
            next += 1
        }
    }

    let written: Output
    var codingPath: [any CodingKey] { [] }
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    init(of schema: ObjectSchema) { written = Output(schema) }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        KeyedEncodingContainer(Container<Key>(written: written))
    }

    // A type that decodes its properties by their names encodes them in the same way.
    func unkeyedContainer() -> any UnkeyedEncodingContainer { preconditionFailure("an object that encodes an array") }
    func singleValueContainer() -> any SingleValueEncodingContainer {
        preconditionFailure("an object that encodes a value")
    }

    private struct Container<Key: CodingKey>: KeyedEncodingContainerProtocol {
        let written: Output
        var codingPath: [any CodingKey] { [] }

        func encodeNil(forKey key: Key) {}
        func encode(_ value: Bool, forKey key: Key) throws { try written.write(value, key.stringValue) }
        func encode(_ value: String, forKey key: Key) throws { try written.write(value, key.stringValue) }
        func encode(_ value: Double, forKey key: Key) throws { try written.write(value, key.stringValue) }
        func encode(_ value: Float, forKey key: Key) throws { try written.write(value, key.stringValue) }
        func encode(_ value: Int, forKey key: Key) throws { try written.write(value, key.stringValue) }
        func encode(_ value: Int8, forKey key: Key) throws { try written.write(value, key.stringValue) }
        func encode(_ value: Int16, forKey key: Key) throws { try written.write(value, key.stringValue) }
        func encode(_ value: Int32, forKey key: Key) throws { try written.write(value, key.stringValue) }
        func encode(_ value: Int64, forKey key: Key) throws { try written.write(value, key.stringValue) }
        func encode(_ value: UInt, forKey key: Key) throws { try written.write(value, key.stringValue) }
        func encode(_ value: UInt8, forKey key: Key) throws { try written.write(value, key.stringValue) }
        func encode(_ value: UInt16, forKey key: Key) throws { try written.write(value, key.stringValue) }
        func encode(_ value: UInt32, forKey key: Key) throws { try written.write(value, key.stringValue) }
        func encode(_ value: UInt64, forKey key: Key) throws { try written.write(value, key.stringValue) }
        func encode<Value: Encodable>(_ value: Value, forKey key: Key) throws {
            try written.write(value, key.stringValue)
        }

        // A type that decodes each property as a whole has no such containers.
        func nestedContainer<NestedKey: CodingKey>(
            keyedBy keyType: NestedKey.Type, forKey key: Key
        ) -> KeyedEncodingContainer<NestedKey> { preconditionFailure("a nested container for \(key.stringValue)") }
        func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
            preconditionFailure("a nested container for \(key.stringValue)")
        }
        func superEncoder() -> any Encoder { preconditionFailure("a class that inherits") }
        func superEncoder(forKey key: Key) -> any Encoder { preconditionFailure("a class that inherits") }
    }
}
