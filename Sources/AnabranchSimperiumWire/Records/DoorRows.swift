import AnabranchCore
import AnabranchHistory
import AnabranchSimperium

/// The kinds of records that the door keeps, in the space of Simperium (`Spec/Simperium.md`, section 6).
enum RecordKind: UInt8, CaseIterable {
    case door = 1
    case bucket, className, entity, recent, change, version, request, day, last

    /// The number of the door.
    static let space: UInt16 = 1

    func place(_ key: [UInt8]) -> RecordPlace { RecordPlace(space: Self.space, kind: rawValue, key: key) }
}

/// The record of the door itself, one a file. There is one exactly if the file has been opened by this wire.
struct DoorRow: Equatable {
    /// The last entry that the door has seen.
    var position: ServerVersion
    /// The salt of that entry: it differs once a backup was restored, since the log then continues with other entries.
    var logSalt: Salt
    /// The number of the history.
    var salt: UInt64
    /// The number of buckets so far.
    var bucketCount: UInt32
    /// How many bytes the changes that are kept count for.
    var changeBytes: UInt64 = 0

    /// The point after everything that the door has seen.
    var end: ChangePlace { .end(of: position) }

    /// True if the log ends with the last entry that the door has seen.
    func hasSeenAll(through head: SaltedVersion) -> Bool { position == head.version && logSalt == head.salt }
}

/// A bucket of a file: one class.
struct Bucket: Equatable, Sendable {
    /// The number by which the records of its entities begin.
    var number: UInt32
    var name: String
    var form: BucketForm
    var className: [UInt8]
}

/// The newest version of an entity.
struct EntityRow: Equatable {
    var version: UInt64
    /// The change that made it.
    var place: ChangePlace
    var isDeleted: Bool
}

/// An entity in the order of changes. The record of the change before is kept for a while, for listings under way.
struct RecentRow: Equatable {
    var place: ChangePlace
    var key: String
    var version: UInt64
    /// The next change of the entity; nil if this is the newest.
    var supersededAt: ChangePlace?
}

/// The step between two versions of an entity.
struct VersionRow {
    enum Kind: UInt8 {
        case change = 0
        case deletion, creation
    }

    var kind: Kind
    var place: ChangePlace
    /// The difference to this version from the one before; from no members in a creation.
    var diff: ObjectDiff
    /// The difference back. Of a deletion: from no members.
    var reverse: ObjectDiff
    /// The length of the record that was read.
    var byteCount = 0

    /// The content of its record.
    var bytes: [UInt8] {
        var writer = RecordWriter()
        writer.append(kind.rawValue)
        writer.append(place)
        writer.append(JSONValue.array([diff.json, reverse.json]).encoded.utf8)
        return writer.bytes
    }
}

/// The answer to a change request, kept for those who repeat it.
enum RequestRow: Equatable {
    case accepted(ChangePlace)
    /// It changed nothing: 412.
    case changedNothing
}

extension RecordReader {
    fileprivate mutating func text() throws(HistoryError) -> String { String(decoding: try counted(), as: UTF8.self) }
}

extension PendingRecords {
    /// Reads what every change of a commit needs.
    mutating func readAheadForChanges() throws(HistoryError) {
        for kind in [RecordKind.bucket, .className, .day, .last] {
            try readAhead(RecordRange(space: RecordKind.space, kind: kind.rawValue))
        }
    }

    // MARK: The door

    func door() throws(HistoryError) -> DoorRow? {
        guard let bytes = try value(at: RecordKind.door.place([])) else { return nil }
        var reader = RecordReader(bytes)
        var door = DoorRow(
            position: ServerVersion(rawValue: try reader.number()), logSalt: Salt(rawValue: try reader.number()),
            salt: try reader.number(), bucketCount: try reader.number())
        door.changeBytes = try reader.number()
        // What follows would be read as something that it is not.
        guard reader.rest.isEmpty else {
            throw HistoryError(
                .storeDamaged,
                "the records of Simperium's door are of another build of the server; export the file with the build "
                    + "that wrote them, and import it into a new store")
        }
        return door
    }

    mutating func set(_ door: DoorRow) {
        var writer = RecordWriter()
        writer.append(door.position.rawValue)
        writer.append(door.logSalt.rawValue)
        writer.append(door.salt)
        writer.append(door.bucketCount)
        writer.append(door.changeBytes)
        set(writer.bytes, at: RecordKind.door.place([]))
    }

    // MARK: Buckets

    func bucket(named name: String) throws(HistoryError) -> Bucket? {
        try value(at: RecordKind.bucket.place(Array(name.utf8))).map { bytes throws(HistoryError) in
            try Self.bucket(name, bytes)
        }
    }

    func bucket(ofClass className: [UInt8]) throws(HistoryError) -> Bucket? {
        guard let name = try value(at: RecordKind.className.place(className)) else { return nil }
        return try bucket(named: String(decoding: name, as: UTF8.self))
    }

    /// All buckets of the file.
    func buckets() throws(HistoryError) -> [Bucket] {
        let range = RecordRange(space: RecordKind.space, kind: RecordKind.bucket.rawValue)
        return try records(in: range, countMax: .max >> 1).map { record throws(HistoryError) in
            try Self.bucket(String(decoding: record.place.key, as: UTF8.self), record.value)
        }
    }

    private static func bucket(_ name: String, _ value: [UInt8]) throws(HistoryError) -> Bucket {
        var reader = RecordReader(value)
        let number: UInt32 = try reader.number(), form: UInt8 = try reader.number()
        return Bucket(
            number: number, name: name, form: BucketForm(rawValue: form) ?? .flat, className: Array(reader.rest))
    }

    mutating func add(_ bucket: Bucket) {
        var writer = RecordWriter()
        writer.append(bucket.number)
        writer.append(bucket.form.rawValue)
        writer.append(bucket.className)
        set(writer.bytes, at: RecordKind.bucket.place(Array(bucket.name.utf8)))
        set(Array(bucket.name.utf8), at: RecordKind.className.place(bucket.className))
    }

    // MARK: Entities

    static func prefix(_ bucket: Bucket) -> RecordWriter {
        var writer = RecordWriter()
        writer.append(bucket.number)
        return writer
    }

    private static func entity(_ key: String, of bucket: Bucket) -> RecordWriter {
        var writer = prefix(bucket)
        writer.append(counted: key.utf8)
        return writer
    }

    func entity(_ key: String, of bucket: Bucket) throws(HistoryError) -> EntityRow? {
        try value(at: RecordKind.entity.place(Self.entity(key, of: bucket).bytes)).map { bytes throws(HistoryError) in
            try Self.entity(bytes)
        }
    }

    private static func entity(_ bytes: [UInt8]) throws(HistoryError) -> EntityRow {
        var reader = RecordReader(bytes)
        let version: UInt64 = try reader.number(), place = try reader.place(), isDeleted: UInt8 = try reader.number()
        return EntityRow(version: version, place: place, isDeleted: isDeleted != 0)
    }

    mutating func set(_ row: EntityRow?, _ key: String, of bucket: Bucket, expiresAt: UInt64 = 0) {
        let value = row.map { row in
            var writer = RecordWriter()
            writer.append(row.version)
            writer.append(row.place)
            writer.append(UInt8(row.isDeleted ? 1 : 0))
            return writer.bytes
        }
        set(value, at: RecordKind.entity.place(Self.entity(key, of: bucket).bytes), expiresAt: expiresAt)
    }

    /// The entities of a bucket that the records know, also deleted ones, by their keys; `countMax` after one at most.
    func entities(
        of bucket: Bucket, after last: String?, countMax: Int
    ) throws(HistoryError) -> [(key: String, row: EntityRow)] {
        var range = RecordRange(
            space: RecordKind.space, kind: RecordKind.entity.rawValue, prefix: Self.prefix(bucket).bytes)
        if let last { range.lower = Self.entity(last, of: bucket).bytes + [0] }
        return try records(in: range, countMax: countMax).map { record throws(HistoryError) in
            var reader = RecordReader(record.place.key.dropFirst(4))
            return (try reader.text(), try Self.entity(record.value))
        }
    }

    // MARK: The order of changes

    mutating func set(_ row: RecentRow, of bucket: Bucket, expiresAt: UInt64 = 0) {
        var writer = RecordWriter()
        writer.append(row.version)
        writer.append(row.supersededAt ?? .start)
        writer.append(row.key.utf8)
        let place = RecordKind.recent.place(Self.prefix(bucket).bytes + row.place.bytes)
        set(writer.bytes, at: place, expiresAt: expiresAt)
    }

    /// The entities of a bucket as they were changed before a place, the last ones first.
    func recent(
        of bucket: Bucket, before place: ChangePlace, countMax: Int
    ) throws(HistoryError) -> [RecentRow] {
        let prefix = Self.prefix(bucket).bytes
        let range = RecordRange(
            space: RecordKind.space, kind: RecordKind.recent.rawValue, from: prefix, to: prefix + place.bytes)
        return try records(in: range, countMax: countMax, isReversed: true).map { record throws(HistoryError) in
            var key = RecordReader(record.place.key.dropFirst(4)), value = RecordReader(record.value)
            let version: UInt64 = try value.number(), next = try value.place()
            return RecentRow(
                place: try key.place(), key: String(decoding: value.rest, as: UTF8.self), version: version,
                supersededAt: next == .start ? nil : next)
        }
    }

    // MARK: Changes

    /// - Parameters:
    ///   - text: the change as it is sent to clients.
    ///   - counted: the bytes that it counts for.
    mutating func addChange(
        _ text: String, counted: UInt32, at place: ChangePlace, of bucket: Bucket
    ) throws(HistoryError) {
        var writer = RecordWriter()
        writer.append(counted)
        writer.append(text.utf8)
        set(writer.bytes, at: RecordKind.change.place(Self.prefix(bucket).bytes + place.bytes))
        var kept = try keptChanges(of: bucket) ?? KeptChanges()
        kept.last = place
        kept.count += 1
        set(kept, of: bucket)
    }

    private static func change(_ record: [UInt8], at place: ChangePlace) throws(HistoryError) -> Change {
        var reader = RecordReader(record)
        let counted: UInt32 = try reader.number()
        return try Change(text: String(decoding: reader.rest, as: UTF8.self), place: place, counted: counted)
    }

    mutating func eraseChange(at place: ChangePlace, of bucket: Bucket) {
        set(nil, at: RecordKind.change.place(Self.prefix(bucket).bytes + place.bytes))
    }

    /// The changes after a place up to another, in their order.
    func changes(
        of bucket: Bucket, after place: ChangePlace, through end: ChangePlace, countMax: Int
    ) throws(HistoryError) -> [Change] {
        let prefix = Self.prefix(bucket).bytes
        let range = RecordRange(
            space: RecordKind.space, kind: RecordKind.change.rawValue, from: prefix + place.bytes + [0],
            to: prefix + end.bytes + [0])
        return try records(in: range, countMax: countMax).map { record throws(HistoryError) in
            var key = RecordReader(record.place.key.dropFirst(4))
            return try Self.change(record.value, at: try key.place())
        }
    }

    /// The place of the oldest change of a bucket; nil if no newer one is kept.
    func oldestChangePlace(of bucket: Bucket) throws(HistoryError) -> ChangePlace? {
        let range = RecordRange(
            space: RecordKind.space, kind: RecordKind.change.rawValue, prefix: Self.prefix(bucket).bytes)
        let oldest = try records(in: range, countMax: 2)
        guard oldest.count == 2 else { return nil }
        var key = RecordReader(oldest[0].place.key.dropFirst(4))
        return try key.place()
    }

    /// The change at a place; nil if it is not kept.
    func change(at place: ChangePlace, of bucket: Bucket) throws(HistoryError) -> Change? {
        let key = Self.prefix(bucket).bytes + place.bytes
        return try value(at: RecordKind.change.place(key)).map { bytes throws(HistoryError) in
            try Self.change(bytes, at: place)
        }
    }

    /// Erases all changes of a bucket.
    mutating func eraseChanges(of bucket: Bucket) throws(HistoryError) {
        for kind in [RecordKind.change, .version, .recent] {
            let range = RecordRange(space: RecordKind.space, kind: kind.rawValue, prefix: Self.prefix(bucket).bytes)
            for record in try records(in: range, countMax: .max >> 1) { set(nil, at: record.place) }
        }
        set(nil, at: RecordKind.last.place(Self.prefix(bucket).bytes))
    }

    // MARK: Versions

    private static func version(_ version: UInt64, _ key: String, of bucket: Bucket) -> RecordPlace {
        var writer = entity(key, of: bucket)
        writer.append(version)
        return RecordKind.version.place(writer.bytes)
    }

    func version(_ version: UInt64, _ key: String, of bucket: Bucket) throws(HistoryError) -> VersionRow? {
        guard let bytes = try value(at: Self.version(version, key, of: bucket)) else { return nil }
        var reader = RecordReader(bytes)
        let kind: UInt8 = try reader.number(), place = try reader.place()
        guard let kind = VersionRow.Kind(rawValue: kind),
            let diffs = try? JSONValue(parsing: reader.rest, depthMax: Change.jsonDepth).array, diffs.count == 2,
            let diff = try? ObjectDiff(parsing: diffs[0]), let reverse = try? ObjectDiff(parsing: diffs[1])
        else { throw HistoryError(.storeDamaged, "a version of an entity of Simperium's door is unreadable") }
        return VersionRow(kind: kind, place: place, diff: diff, reverse: reverse, byteCount: bytes.count)
    }

    /// - Parameter bytes: those of the row.
    mutating func setVersion(_ bytes: [UInt8], _ version: UInt64, _ key: String, of bucket: Bucket) {
        set(bytes, at: Self.version(version, key, of: bucket))
    }

    mutating func eraseVersion(_ version: UInt64, _ key: String, of bucket: Bucket) {
        set(nil, at: Self.version(version, key, of: bucket))
    }

    /// Sets the time from which the steps between the versions of an entity may be erased; 0: never.
    mutating func keepVersions(of key: String, of bucket: Bucket, until expiresAt: UInt64) throws(HistoryError) {
        let range = RecordRange(
            space: RecordKind.space, kind: RecordKind.version.rawValue, prefix: Self.entity(key, of: bucket).bytes)
        for record in try records(in: range, countMax: .max >> 1) {
            set(record.value, at: record.place, expiresAt: expiresAt)
        }
    }

    /// Erases the steps between the versions of an entity.
    mutating func eraseVersions(of key: String, of bucket: Bucket) throws(HistoryError) {
        let range = RecordRange(
            space: RecordKind.space, kind: RecordKind.version.rawValue, prefix: Self.entity(key, of: bucket).bytes)
        for record in try records(in: range, countMax: .max >> 1) { set(nil, at: record.place) }
    }

    // MARK: Requests

    private static func request(_ ccid: String, _ key: String, of bucket: Bucket) -> RecordPlace {
        var writer = entity(key, of: bucket)
        writer.append(ccid.utf8)
        return RecordKind.request.place(writer.bytes)
    }

    func request(_ ccid: String, _ key: String, of bucket: Bucket) throws(HistoryError) -> RequestRow? {
        guard let bytes = try value(at: Self.request(ccid, key, of: bucket)) else { return nil }
        guard !bytes.isEmpty else { return .changedNothing }
        var reader = RecordReader(bytes)
        return .accepted(try reader.place())
    }

    mutating func set(_ row: RequestRow, _ ccid: String, _ key: String, of bucket: Bucket, expiresAt: UInt64) {
        let value = if case .accepted(let place) = row { place.bytes } else { [UInt8]() }
        set(value, at: Self.request(ccid, key, of: bucket), expiresAt: expiresAt)
    }
}
