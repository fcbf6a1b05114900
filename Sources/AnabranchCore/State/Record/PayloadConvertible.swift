/// A Swift type whose values fields, elements and keys can hold: `note["title"] = title`. AnabranchServer and
/// AnabranchClient add the types of Foundation.
public protocol PayloadConvertible {
    /// The value of a payload; nil if it is of another type, or null.
    init?(payload: Payload)

    /// The value as it is written.
    var payload: Payload { get }
}

extension PayloadConvertible {
    /// The value of a primary key; nil if it is of another type.
    public init?(key: PrimaryKey) {
        switch key {
        case .null, .globalKey: return nil
        case .int(let value): self.init(payload: .int(value))
        case .string(let value): self.init(payload: .string(value))
        case .objectID(let value): self.init(payload: .objectID(value))
        case .uuid(let value): self.init(payload: .uuid(value))
        }
    }
}

extension Payload {
    /// A value of a Swift type.
    public init(_ value: some PayloadConvertible) { self = value.payload }
}

extension PrimaryKey {
    /// The key of a class whose keys are numbers.
    public init(_ number: Int) { self = .int(Int64(number)) }

    /// The key of a class whose keys are texts.
    public init(_ text: String) { self = .string(Array(text.utf8)) }
}

extension DynamicObject {
    /// A field's value as a Swift type, nil for null; assigning nil writes null. An error, such as a value of another
    /// type, is kept until the transaction ends, and reads as nil.
    public subscript<Value: PayloadConvertible>(field: String) -> Value? {
        get {
            var value: Value?
            transaction.assign { () throws(ApplyError) in value = try self.value(field, as: Value.self) }
            return value
        }
        nonmutating set {
            transaction.assign { () throws(ApplyError) in try set(field, to: newValue?.payload ?? .null) }
        }
    }

    /// A field's value as a Swift type, nil for null.
    /// - Throws: `ApplyError` if the object has no such field, or the value is of another type.
    public func value<Value: PayloadConvertible>(
        _ field: String, as type: Value.Type
    ) throws(ApplyError) -> Value? {
        let payload = try value(field)
        if payload == .null { return nil }
        guard let value = Value(payload: payload) else {
            throw transaction.located(.invalid("\(payload.type) is not of type \(type)"), try location(of: field))
        }
        return value
    }
}

extension Int: PayloadConvertible {
    public init?(payload: Payload) {
        guard case .int(let value) = payload else { return nil }
        self.init(exactly: value)
    }

    public var payload: Payload { .int(Int64(self)) }
}

extension Int64: PayloadConvertible {
    public init?(payload: Payload) {
        guard case .int(let value) = payload else { return nil }
        self = value
    }

    public var payload: Payload { .int(self) }
}

extension Bool: PayloadConvertible {
    public init?(payload: Payload) {
        guard case .bool(let value) = payload else { return nil }
        self = value
    }

    public var payload: Payload { .bool(self) }
}

extension Float: PayloadConvertible {
    public init?(payload: Payload) {
        guard case .float(let value) = payload else { return nil }
        self = value
    }

    public var payload: Payload { .float(self) }
}

extension Double: PayloadConvertible {
    public init?(payload: Payload) {
        guard case .double(let value) = payload else { return nil }
        self = value
    }

    public var payload: Payload { .double(self) }
}

extension String: PayloadConvertible {
    /// Bytes that are not UTF-8 are replaced, as wherever text is read.
    public init?(payload: Payload) {
        guard case .string(let value) = payload else { return nil }
        self.init(decoding: value, as: UTF8.self)
    }

    public var payload: Payload { .string(Array(utf8)) }
}

extension Timestamp: PayloadConvertible {
    public init?(payload: Payload) {
        guard case .timestamp(let value) = payload else { return nil }
        self = value
    }

    public var payload: Payload { .timestamp(self) }
}

extension Decimal128: PayloadConvertible {
    public init?(payload: Payload) {
        guard case .decimal(let value) = payload else { return nil }
        self = value
    }

    public var payload: Payload { .decimal(self) }
}

extension ObjectID: PayloadConvertible {
    public init?(payload: Payload) {
        guard case .objectID(let value) = payload else { return nil }
        self = value
    }

    public var payload: Payload { .objectID(self) }
}

extension UUIDBytes: PayloadConvertible {
    public init?(payload: Payload) {
        guard case .uuid(let value) = payload else { return nil }
        self = value
    }

    public var payload: Payload { .uuid(self) }
}
