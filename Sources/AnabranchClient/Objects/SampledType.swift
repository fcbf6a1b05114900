import AnabranchCore

/// The properties that a type decodes, in its order, and sample values that tell the properties apart
/// (`ObjectSchema.code`).
///
/// A type whose `Codable` conformance is synthesized asks a decoder for each stored property, by name and type: that is
/// its declaration.
struct SampledType {
    private(set) var fields: [ObjectSchema.Field] = []
    private(set) var samples: [any Sendable] = []

    init<Object: Decodable & Sendable>(_ type: Object.Type) throws(ObjectError) {
        let samples = _Samples()
        _ = try samples.make(type) { _ in false }
        let declared = samples.declared
        fields = declared.map(\.field)
        guard !fields.isEmpty else { throw ObjectError(.badClass, "\(type) has no properties that are stored") }
        let bits = ObjectSchema.code(of: fields.count - 1)
        for sample in 0..<(Int.bitWidth - bits.leadingZeroBitCount) {
            self.samples.append(try samples.make(type) { ObjectSchema.code(of: $0) >> sample & 1 == 1 })
        }
    }
}

/// Makes samples of a type, and of embedded objects in it.
public final class _Samples {
    /// A property for which the type has asked.
    struct Declared {
        var field: ObjectSchema.Field
    }

    /// The types whose samples are being made: a type that holds itself in a collection gets an empty one.
    private var making: Set<ObjectIdentifier>
    fileprivate(set) var declared: [Declared] = []
    fileprivate var indices: [String: Int] = [:]
    fileprivate var optionalKeys: Set<String> = []
    /// The optional properties of types without a sample.
    fileprivate var nullKeys: Set<String> = []
    fileprivate var isSecond: (Int) -> Bool = { _ in false }

    fileprivate init(making: Set<ObjectIdentifier> = []) { self.making = making }

    /// Makes a value of a type, whose property i is the second sample of its type if `isSecond(i)`.
    func make<Object: Decodable>(
        _ type: Object.Type, _ isSecond: @escaping (Int) -> Bool
    ) throws(ObjectError) -> Object {
        self.isSecond = isSecond
        making.insert(ObjectIdentifier(type))
        while true {
            do {
                return try Object(from: SampleDecoder(samples: self, typeName: "\(type)"))
            } catch is NullNeeded {
                // The next attempt takes it into account.
            } catch let error as ObjectError {
                throw error
            } catch {
                throw ObjectError(
                    .badClass, "\(type) cannot be decoded from values that any \(type) may have: \(error)")
            }
        }
    }

    func embedded<Object: EmbeddedObject>(_ type: Object.Type, _ isSecond: Bool) throws(ObjectError) -> Object? {
        guard !making.contains(ObjectIdentifier(type)) else { return nil }
        return try _Samples(making: making).make(type) { _ in isSecond }
    }

    /// The sample for a property of this name and type, for which the type asks.
    fileprivate func value<Value: SyncedValue>(_ type: Value.Type, _ name: String) throws -> Value {
        let first = try type._sample(false, self), second = try type._sample(true, self)
        let index = indices[name] ?? declared.count
        if index == declared.count {
            let isOptional = optionalKeys.contains(name)
            let shape = isOptional ? Value?._shape : type._shape
            if let problem = shape.problem { throw ObjectError(.badClass, problem) }
            let codec = try ValueCodec<Value>(isOptional: isOptional, samples: [first, second])
            indices[name] = index
            declared.append(
                Declared(field: ObjectSchema.Field(name: name, bytes: Array(name.utf8), shape: shape, codec: codec)))
        }
        if let value = isSecond(index) ? second ?? first : first { return value }
        guard optionalKeys.contains(name) else {
            throw ObjectError(
                .badClass, "it has to be optional: there is no \(Value.self) that a new object could have")
        }
        nullKeys.insert(name)
        throw NullNeeded()
    }

    private struct NullNeeded: Error {}
}

/// Answers each request of a type with a sample.
private struct SampleDecoder: Decoder {
    let samples: _Samples
    let typeName: String
    var codingPath: [any CodingKey] { [] }
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedDecodingContainer<Key> {
        KeyedDecodingContainer(Container<Key>(samples: samples, typeName: typeName))
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer { throw noProperties() }
    func singleValueContainer() throws -> any SingleValueDecodingContainer { throw noProperties() }

    private func noProperties() -> ObjectError {
        ObjectError(.badClass, "\(typeName) decodes no properties by their names, as synchronized objects have to")
    }

    struct Container<Key: CodingKey>: PropertyDecodingContainer {
        let samples: _Samples
        let typeName: String

        func contains(_ key: Key) -> Bool { true }

        func decodeNil(forKey key: Key) -> Bool {
            samples.optionalKeys.insert(key.stringValue)
            return samples.nullKeys.contains(key.stringValue)
        }

        func value<Value: Decodable>(_ type: Value.Type, _ key: Key) throws -> Value {
            guard let known = type as? any SyncedValue.Type else {
                throw ObjectError(.badClass, "\(typeName).\(key.stringValue): \(Self.complaint(about: type))")
            }
            do {
                guard let value = try samples.value(known, key.stringValue) as? Value else {
                    throw ObjectError(.badClass, "\(type) is not itself")
                }
                return value
            } catch let error as ObjectError {
                throw error.at("\(typeName).\(key.stringValue)")
            }
        }

        private static func complaint(about type: Any.Type) -> String {
            let objects = (type as? any ArrayOfObjects.Type)?.element
            if let object = objects ?? type as? any SyncedObject.Type {
                let link = objects == nil ? "Link<\(object)>?" : "[Link<\(object)>]"
                return "\(object) has a key of its own, so others refer to it by \(link); a part of an object is an "
                    + "EmbeddedObject"
            }
            return "\(type) is not a SyncedValue: it may become one as an EmbeddedObject, a SyncedEnum or "
                + "Encoded<\(type)>?"
        }
    }
}

/// A container of a decoder of objects, which has properties by their names and nothing else.
protocol PropertyDecodingContainer: KeyedDecodingContainerProtocol {
    func value<Value: Decodable>(_ type: Value.Type, _ key: Key) throws -> Value
}

extension PropertyDecodingContainer {
    var codingPath: [any CodingKey] { [] }
    var allKeys: [Key] { [] }

    func decode(_ type: Bool.Type, forKey key: Key) throws -> Bool { try value(type, key) }
    func decode(_ type: String.Type, forKey key: Key) throws -> String { try value(type, key) }
    func decode(_ type: Double.Type, forKey key: Key) throws -> Double { try value(type, key) }
    func decode(_ type: Float.Type, forKey key: Key) throws -> Float { try value(type, key) }
    func decode(_ type: Int.Type, forKey key: Key) throws -> Int { try value(type, key) }
    func decode(_ type: Int8.Type, forKey key: Key) throws -> Int8 { try value(type, key) }
    func decode(_ type: Int16.Type, forKey key: Key) throws -> Int16 { try value(type, key) }
    func decode(_ type: Int32.Type, forKey key: Key) throws -> Int32 { try value(type, key) }
    func decode(_ type: Int64.Type, forKey key: Key) throws -> Int64 { try value(type, key) }
    func decode(_ type: UInt.Type, forKey key: Key) throws -> UInt { try value(type, key) }
    func decode(_ type: UInt8.Type, forKey key: Key) throws -> UInt8 { try value(type, key) }
    func decode(_ type: UInt16.Type, forKey key: Key) throws -> UInt16 { try value(type, key) }
    func decode(_ type: UInt32.Type, forKey key: Key) throws -> UInt32 { try value(type, key) }
    func decode(_ type: UInt64.Type, forKey key: Key) throws -> UInt64 { try value(type, key) }
    func decode<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value { try value(type, key) }

    func nestedContainer<NestedKey: CodingKey>(
        keyedBy type: NestedKey.Type, forKey key: Key
    ) throws -> KeyedDecodingContainer<NestedKey> { throw noNesting(key) }
    func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer { throw noNesting(key) }
    func superDecoder() throws -> any Decoder { throw ObjectError(.badClass, "a class that inherits") }
    func superDecoder(forKey key: Key) throws -> any Decoder { throw noNesting(key) }

    private func noNesting(_ key: Key) -> ObjectError {
        ObjectError(.badClass, "\(key.stringValue): a nested container; properties are decoded as a whole")
    }
}

private protocol ArrayOfObjects {
    static var element: any SyncedObject.Type { get }
}

extension Array: ArrayOfObjects where Element: SyncedObject {
    fileprivate static var element: any SyncedObject.Type { Element.self }
}
