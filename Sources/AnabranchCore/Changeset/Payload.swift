/// A value as instructions carry it (`Spec/Changeset.md`, section 6). Text is bytes: the format does not demand UTF-8.
public enum Payload: Hashable, Sendable {
    /// Values, which fields and collections can hold.
    case null
    case int(Int64)
    case bool(Bool)
    case string([UInt8])
    case binary([UInt8])
    case timestamp(Timestamp)
    case float(Float)
    case double(Double)
    case decimal(Decimal128)
    case link(className: [UInt8], key: PrimaryKey)
    case objectID(ObjectID)
    case uuid(UUIDBytes)
    /// Create an embedded object here.
    case objectValue
    /// Make this place of a Mixed an empty dictionary.
    case dictionary
    /// Make this place of a Mixed an empty list.
    case list
    /// Part of the format; never accepted when applied.
    case set
    /// Remove this entry of a dictionary.
    case erased

    /// Its type, as it is written before the value.
    public var type: PayloadType {
        switch self {
        case .null: .null
        case .int: .int
        case .bool: .bool
        case .string: .string
        case .binary: .binary
        case .timestamp: .timestamp
        case .float: .float
        case .double: .double
        case .decimal: .decimal
        case .link: .link
        case .objectID: .objectID
        case .uuid: .uuid
        case .objectValue: .objectValue
        case .dictionary: .dictionary
        case .list: .list
        case .set: .set
        case .erased: .erased
        }
    }
}

/// The primary key of an object (`Spec/Changeset.md`, section 7).
public enum PrimaryKey: Hashable, Sendable {
    /// The keys that a class can have, by type.
    case null
    case int(Int64)
    case string([UInt8])
    case globalKey(GlobalKey)
    case objectID(ObjectID)
    case uuid(UUIDBytes)

    /// Its type, as it is written before the key.
    public var type: PayloadType {
        switch self {
        case .null: .null
        case .int: .int
        case .string: .string
        case .globalKey: .globalKey
        case .objectID: .objectID
        case .uuid: .uuid
        }
    }

    /// Takes texts, which can be long, as they lie in memory.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(type)
        switch self {
        case .null: break
        case .int(let value): hasher.combine(value)
        case .string(let bytes):
            hasher.combine(bytes.count)
            bytes.withUnsafeBytes { hasher.combine(bytes: $0) }
        case .globalKey(let key): hasher.combine(key)
        case .objectID(let key): hasher.combine(key)
        case .uuid(let key): hasher.combine(key)
        }
    }
}

/// The key of an object whose class has no primary key field (`Spec/Changeset.md`, section 7).
public struct GlobalKey: Hashable, Sendable {
    /// The ident of the client file that created the object.
    public var high: UInt64
    /// A counter of the class in that file.
    public var low: UInt64

    /// A key of both parts.
    public init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }
}

/// Seconds and nanoseconds since 1970-01-01 UTC; both have the same sign or one is 0, |nanoseconds| < 10^9.
public struct Timestamp: Hashable, Sendable {
    /// Whole seconds, negative before 1970.
    public var seconds: Int64
    /// Nanoseconds beyond the whole seconds, with the same sign.
    public var nanoseconds: Int32

    /// A time of both parts; their signs and range are not checked.
    public init(seconds: Int64, nanoseconds: Int32) {
        self.seconds = seconds
        self.nanoseconds = nanoseconds
    }
}

/// The 12 bytes of an ObjectId in textual order; the first byte is the lowest one of `low`.
public struct ObjectID: Hashable, Sendable {
    let low: UInt64
    let high: UInt64

    init(low: UInt64, high: UInt64) {
        self.low = low
        self.high = high & 0xFFFF_FFFF
    }

    /// Takes 12 bytes in textual order; nil for another number of them.
    public init?<Bytes: Collection>(_ bytes: Bytes) where Bytes.Element == UInt8 {
        guard bytes.count == 12 else { return nil }
        (low, high) = words(bytes)
    }

    /// The 12 bytes in textual order.
    public var bytes: [UInt8] { Array(rawBytes(low, high).prefix(12)) }
}

/// The 16 bytes of a UUID in textual order; the first byte is the lowest one of `low`.
public struct UUIDBytes: Hashable, Sendable {
    package let low: UInt64
    package let high: UInt64

    package init(low: UInt64, high: UInt64) {
        self.low = low
        self.high = high
    }

    /// Takes 16 bytes in textual order; nil for another number of them.
    public init?<Bytes: Collection>(_ bytes: Bytes) where Bytes.Element == UInt8 {
        guard bytes.count == 16 else { return nil }
        (low, high) = words(bytes)
    }

    /// The 16 bytes in textual order.
    public var bytes: [UInt8] { rawBytes(low, high) }
}

private func words<Bytes: Collection>(_ bytes: Bytes) -> (low: UInt64, high: UInt64) where Bytes.Element == UInt8 {
    var words: (low: UInt64, high: UInt64) = (0, 0)
    // As an array: the loop is not one over any collection, for callers of other modules.
    for (position, byte) in Array(bytes).enumerated() {
        if position < 8 {
            words.low |= UInt64(byte) << UInt64(8 * position)
        } else {
            words.high |= UInt64(byte) << UInt64(8 * (position - 8))
        }
    }
    return words
}

private func rawBytes(_ low: UInt64, _ high: UInt64) -> [UInt8] {
    withUnsafeBytes(of: (low.littleEndian, high.littleEndian)) { Array($0) }
}
