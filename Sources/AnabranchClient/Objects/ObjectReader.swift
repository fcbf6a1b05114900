import AnabranchCore

/// Reads objects of a class as values of a type, one after the other.
final class ObjectReader {
    let schema: ObjectSchema
    private let properties: [Property?]
    private let classes: _BoundClasses
    private var object: StateObject?
    /// The property to expect next, if the type decodes itself in the order of its declaration.
    private var next = 0

    init(_ schema: ObjectSchema, _ properties: [Property?], _ classes: _BoundClasses) {
        self.schema = schema
        self.properties = properties
        self.classes = classes
    }

    /// - Throws: `ObjectError` with the code `badValue` that names the object and the property.
    func read<Value: Decodable>(_ type: Value.Type, _ object: StateObject) throws(ObjectError) -> Value {
        self.object = object
        next = 0
        do {
            return try Value(from: Decoding(reader: self))
        } catch let error as ObjectError {
            throw error.at(place)
        } catch {
            throw ObjectError(.badValue, "\(place): \(error)")
        }
    }

    private var place: String {
        schema.className + (object?.key.map { " \($0)" } ?? "")
    }

    private func index(of name: String) throws(ObjectError) -> Int {
        let expected = next
        if expected < schema.fields.count, schema.fields[expected].name == name {
            next = expected + 1
            return expected
        }
        guard let index = schema.indices[name] else {
            throw ObjectError(.badClass, "\(name) was not asked for when the type was looked at first")
        }
        next = index + 1
        return index
    }

    fileprivate func isNull(_ name: String) throws(ObjectError) -> Bool {
        let index = try index(of: name)
        // The type asks for its value next.
        next = index
        guard let property = properties[index], let object else { return true }
        if case .null = object.value(of: property) { return true }
        return false
    }

    fileprivate func value<Value: Decodable>(_ type: Value.Type, _ name: String) throws(ObjectError) -> Value {
        let index = try index(of: name)
        guard let codec = schema.fields[index].codec as? TypedCodec<Value> else {
            throw ObjectError(.badClass, "\(name) is asked for as another type than at first: \(type)")
        }
        let value: StateValue
        if let property = properties[index], let object {
            value = object.value(of: property)
        } else {
            let shape = schema.fields[index].shape
            value = .initial(shape.type, isNullable: shape.isNullable, shape.collection)
        }
        do throws(ObjectError) { return try codec.value(value, classes) } catch { throw error.at(name) }
    }

    private struct Decoding: Decoder {
        let reader: ObjectReader
        var codingPath: [any CodingKey] { [] }
        var userInfo: [CodingUserInfoKey: Any] { [:] }

        func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedDecodingContainer<Key> {
            KeyedDecodingContainer(Container<Key>(reader: reader))
        }

        func unkeyedContainer() throws -> any UnkeyedDecodingContainer { throw ObjectError(.badClass, "no array") }
        func singleValueContainer() throws -> any SingleValueDecodingContainer {
            throw ObjectError(.badClass, "no value")
        }
    }

    private struct Container<Key: CodingKey>: PropertyDecodingContainer {
        let reader: ObjectReader

        func contains(_ key: Key) -> Bool { true }
        func decodeNil(forKey key: Key) throws -> Bool { try reader.isNull(key.stringValue) }
        func value<Value: Decodable>(_ type: Value.Type, _ key: Key) throws -> Value {
            try reader.value(type, key.stringValue)
        }
    }
}
