import AnabranchCore

/// The name of a record: a small value that a door keeps along with the log of a file (`Spec/Doors.md`, section 2).
public struct RecordPlace: Hashable, Sendable, Comparable {
    /// The number of the door.
    public var space: UInt16
    /// The kind of record, as the door counts them.
    public var kind: UInt8
    /// The key, compared byte by byte.
    public var key: [UInt8]

    /// Creates the name of a record.
    public init(space: UInt16, kind: UInt8, key: [UInt8]) {
        self.space = space
        self.kind = kind
        self.key = key
    }

    /// Takes the key as it lies in memory.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(space)
        hasher.combine(kind)
        key.withUnsafeBytes { hasher.combine(bytes: $0) }
    }

    /// Orders by space, kind and the bytes of the key.
    public static func < (left: RecordPlace, right: RecordPlace) -> Bool {
        (left.space, left.kind) == (right.space, right.kind)
            ? left.key.precedes(right.key) : (left.space, left.kind) < (right.space, right.kind)
    }
}

/// A stored record: its name, its content and its expiry.
public struct DoorRecord: Equatable, Sendable {
    /// The name of the record.
    public var place: RecordPlace
    /// The content; its form is the door's own.
    public var value: [UInt8]
    /// The time from which the store may erase it, in seconds since 1970; 0: never.
    public var expiresAt: UInt64

    /// Creates a record; by default one that the store keeps until it is erased.
    public init(place: RecordPlace, value: [UInt8], expiresAt: UInt64 = 0) {
        self.place = place
        self.value = value
        self.expiresAt = expiresAt
    }
}

/// The sizes of the records of one kind together.
public struct RecordTotal: Equatable, Sendable {
    /// The number of the door.
    public var space: UInt16
    /// The kind of record.
    public var kind: UInt8
    /// The number of synced files that have such records.
    public var fileCount: Int
    /// The number of records.
    public var recordCount: Int
    /// The lengths of their keys and contents, in bytes.
    public var byteCount: UInt64

    /// Creates a total.
    public init(space: UInt16, kind: UInt8, fileCount: Int, recordCount: Int, byteCount: UInt64) {
        self.space = space
        self.kind = kind
        self.fileCount = fileCount
        self.recordCount = recordCount
        self.byteCount = byteCount
    }

    /// The totals of parts of a store, of which each file is in one.
    package static func sum(_ parts: some Sequence<RecordTotal>) -> [RecordTotal] {
        var sums: [RecordPlace: RecordTotal] = [:]
        for part in parts {
            let place = RecordPlace(space: part.space, kind: part.kind, key: [])
            var sum =
                sums[place]
                ?? RecordTotal(
                    space: part.space, kind: part.kind, fileCount: 0, recordCount: 0, byteCount: 0)
            sum.fileCount += part.fileCount
            sum.recordCount += part.recordCount
            sum.byteCount += part.byteCount
            sums[place] = sum
        }
        return sums.sorted { $0.key < $1.key }.map(\.value)
    }
}

/// A change of a record by a commit.
public struct RecordChange: Equatable, Sendable {
    /// The name of the record.
    public var place: RecordPlace
    /// The content afterwards; nil if there is none.
    public var value: [UInt8]?
    /// The time from which the store may erase it, in seconds since 1970; 0: never.
    public var expiresAt: UInt64

    /// Creates a change.
    public init(place: RecordPlace, value: [UInt8]?, expiresAt: UInt64 = 0) {
        self.place = place
        self.value = value
        self.expiresAt = expiresAt
    }
}

/// The records of one kind whose keys are in a range of bytes.
public struct RecordRange: Equatable, Sendable {
    /// The number of the door.
    public var space: UInt16
    /// The kind of record.
    public var kind: UInt8
    /// The first key that is in the range.
    public var lower: [UInt8]
    /// The first key after the range; nil if it goes to the end.
    public var upper: [UInt8]?

    /// Creates a range of keys from `lower` up to but without `upper`.
    public init(space: UInt16, kind: UInt8, from lower: [UInt8] = [], to upper: [UInt8]? = nil) {
        self.space = space
        self.kind = kind
        self.lower = lower
        self.upper = upper
    }

    /// The keys that begin with a prefix.
    public init(space: UInt16, kind: UInt8, prefix: [UInt8]) {
        var upper = prefix
        while let last = upper.popLast() {
            guard last == .max else {
                upper.append(last + 1)
                break
            }
        }
        self.init(space: space, kind: kind, from: prefix, to: upper.isEmpty ? nil : upper)
    }

    /// True if the record of that name is in the range.
    public func contains(_ place: RecordPlace) -> Bool {
        place.space == space && place.kind == kind && !place.key.precedes(lower)
            && upper.map { place.key.precedes($0) } ?? true
    }

    /// True if all records of another range are in this one.
    func covers(_ other: RecordRange) -> Bool {
        guard other.space == space, other.kind == kind, !other.lower.precedes(lower) else { return false }
        guard let upper else { return true }
        return other.upper.map { !upper.precedes($0) } ?? false
    }
}
