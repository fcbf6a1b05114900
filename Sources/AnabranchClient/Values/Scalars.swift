public import AnabranchCore
public import AnabranchFoundation
public import Foundation

// The scalars that properties can have (`Spec/Objects.md`, section 2).

extension Int: _SyncedScalar, SyncedKey {
    public static var _samples: (Int, Int) { (0, 1) }
}

extension Int64: _SyncedScalar, SyncedKey {
    public static var _samples: (Int64, Int64) { (0, 1) }
}

extension Bool: _SyncedScalar {
    public static var _samples: (Bool, Bool) { (false, true) }
}

extension Float: _SyncedScalar {
    public static var _samples: (Float, Float) { (0, 1) }
}

extension Double: _SyncedScalar {
    public static var _samples: (Double, Double) { (0, 1) }
}

extension String: _SyncedScalar, SyncedKey {
    public static var _samples: (String, String) { ("", "1") }
}

extension Date: _SyncedScalar {
    public static var _samples: (Date, Date) { (Date(timeIntervalSince1970: 0), Date(timeIntervalSince1970: 1)) }
}

extension Data: _SyncedScalar {
    public static var _samples: (Data, Data) { (Data(), Data([1])) }
}

extension UUID: _SyncedScalar, SyncedKey {
    public static var _samples: (UUID, UUID) {
        (
            UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)),
            UUID(uuid: (1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
        )
    }
}

extension ObjectID: _SyncedScalar, SyncedKey {
    public static var _samples: (ObjectID, ObjectID) {
        (ObjectID(secondsSince1970: 0, rest: 0), ObjectID(secondsSince1970: 1, rest: 0))
    }
}

extension Decimal128: _SyncedScalar {
    public static var _samples: (Decimal128, Decimal128) { (Decimal128(0), Decimal128(1)) }
}

extension ObjectID {
    /// A new id: the time in seconds, and random bytes.
    public init() {
        self.init(
            secondsSince1970: UInt32(truncatingIfNeeded: Int64(Date().timeIntervalSince1970)),
            rest: .random(in: 0...UInt64.max))
    }
}

/// A type that primary keys can have: `Int`, `String`, `UUID` and `ObjectID`.
public protocol SyncedKey: SyncedValue, Hashable {}

extension SyncedKey {
    /// The key as objects are addressed by it.
    var primaryKey: PrimaryKey {
        get throws(ObjectError) {
            switch try _content().payload {
            case .int(let value): .int(value)
            case .string(let bytes): .string(bytes)
            case .objectID(let value): .objectID(value)
            case .uuid(let value): .uuid(value)
            default: throw ObjectError(.badValue, "\(Self.self) is not a type of a primary key")
            }
        }
    }

    init(_ key: PrimaryKey) throws(ObjectError) { try self.init(StateValue(key), .none) }
}
