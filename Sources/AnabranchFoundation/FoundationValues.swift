public import AnabranchCore
public import Foundation

// The types of Foundation that fields, elements and keys can hold.

extension Date: PayloadConvertible {
    public init?(payload: Payload) {
        guard let time = Timestamp(payload: payload) else { return nil }
        self.init(timeIntervalSince1970: Double(time.seconds) + Double(time.nanoseconds) / 1e9)
    }

    /// The millisecond that reads as this date, else the nearest microsecond: a `Date` of this era tells no more, and
    /// one of the years 1 or 9999 not even these. More than 285,000 years from 1970 it is whole seconds, and beyond all
    /// times the first or the last of them.
    public var payload: Payload {
        guard timeIntervalSince1970.magnitude < Self.exactSecondsMax else {
            let seconds = Int64(exactly: timeIntervalSince1970.rounded()) ?? (timeIntervalSince1970 < 0 ? .min : .max)
            return .timestamp(Timestamp(seconds: seconds, nanoseconds: 0))
        }
        let millisecond = Payload.timestamp(timestamp(perSecond: 1_000))
        return Date(payload: millisecond) == self ? millisecond : .timestamp(timestamp(perSecond: 1_000_000))
    }

    /// The number of seconds from 1970 up to which microseconds can be counted.
    private static let exactSecondsMax: Double = 9_000_000_000_000

    private func timestamp(perSecond count: Int64) -> Timestamp {
        let units = Int64((timeIntervalSince1970 * Double(count)).rounded())
        let (seconds, rest) = units.quotientAndRemainder(dividingBy: count)
        return Timestamp(seconds: seconds, nanoseconds: Int32(rest * (1_000_000_000 / count)))
    }
}

extension UUID: PayloadConvertible {
    public init?(payload: Payload) {
        guard case .uuid(let bytes) = payload else { return nil }
        self.init(bytes)
    }

    public var payload: Payload { .uuid(UUIDBytes(self)) }

    /// The UUID with these bytes.
    package init(_ bytes: UUIDBytes) {
        let words = (bytes.low.littleEndian, bytes.high.littleEndian)
        self = withUnsafeBytes(of: words) { UUID(uuid: $0.loadUnaligned(as: uuid_t.self)) }
    }
}

extension UUIDBytes {
    /// The bytes of a UUID.
    public init(_ id: UUID) {
        self = withUnsafeBytes(of: id.uuid) { bytes in
            UUIDBytes(
                low: UInt64(littleEndian: bytes.loadUnaligned(as: UInt64.self)),
                high: UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self)))
        }
    }
}

extension Data: PayloadConvertible {
    public init?(payload: Payload) {
        guard case .binary(let bytes) = payload else { return nil }
        self.init(bytes)
    }

    public var payload: Payload { .binary(Array(self)) }
}

extension PrimaryKey {
    /// The key of a class whose keys are UUIDs.
    public init(_ id: UUID) { self = .uuid(UUIDBytes(id)) }
}

extension PartitionValue {
    /// The partition whose value is this UUID.
    public static func uuid(_ id: UUID) -> PartitionValue { .uuid(UUIDBytes(id)) }
}
