import AnabranchChunks
import AnabranchCore
import AnabranchHistory

/// The kinds of records that the door keeps, in its space (`Spec/Files.md`, section 4).
enum FileRecord: UInt8, CaseIterable {
    /// The last entry that was seen.
    case position = 1
    /// The chunks that are here, by their hashes.
    case chunk = 2
    /// A use of a chunk: its hash, and the key of the file.
    case use = 3
    /// The bytes of all chunks together.
    case total = 4
    /// Since when a file or folder is in the trash.
    case trash = 5
    /// The folder in which a folder was before its last move.
    case formerParent = 6

    static let space: UInt16 = 3

    func place(_ key: [UInt8] = []) -> RecordPlace { RecordPlace(space: Self.space, kind: rawValue, key: key) }

    func range(prefix: [UInt8] = []) -> RecordRange {
        RecordRange(space: Self.space, kind: rawValue, prefix: prefix)
    }

    func range(after key: [UInt8]) -> RecordRange {
        RecordRange(space: Self.space, kind: rawValue, from: key + [0])
    }
}

/// A chunk that is here.
struct ChunkRow: Equatable {
    var byteCount: UInt32
    /// Seconds since 1970.
    var putAt: UInt64
    /// When a file last began or ceased to use it, in seconds since 1970; 0 if none ever did.
    var usedAt: UInt64 = 0
    /// The user who uploaded it; empty if unknown.
    var user: String

    /// The time from which it may go, if nothing uses it.
    func goesAt(keptSeconds: UInt64) -> UInt64 { max(putAt, usedAt) + keptSeconds }
}

/// An object that was put into the trash.
struct TrashRow: Equatable {
    /// Seconds since 1970.
    var since: UInt64
    /// The entry that did it.
    var version: ServerVersion
    /// The content that was deleted; empty for a folder.
    var content: [UInt8]
}

extension PendingRecords {
    func position() throws(HistoryError) -> ServerVersion? {
        guard let bytes = try value(at: FileRecord.position.place()) else { return nil }
        return ServerVersion(rawValue: Self.number(bytes[...]))
    }

    mutating func setPosition(_ version: ServerVersion) {
        set(Self.bytes(of: version.rawValue), at: FileRecord.position.place())
    }

    // MARK: Chunks

    func chunk(_ hash: ChunkHash) throws(HistoryError) -> ChunkRow? {
        guard let bytes = try value(at: FileRecord.chunk.place(hash.bytes)) else { return nil }
        return Self.chunk(bytes)
    }

    static func chunk(_ bytes: [UInt8]) -> ChunkRow? {
        guard bytes.count >= 20 else { return nil }
        return ChunkRow(
            byteCount: UInt32(truncatingIfNeeded: number(bytes[..<4])), putAt: number(bytes[4..<12]),
            usedAt: number(bytes[12..<20]), user: String(decoding: bytes[20...], as: UTF8.self))
    }

    mutating func set(_ row: ChunkRow?, of hash: ChunkHash) throws(HistoryError) {
        let former = try chunk(hash)?.byteCount ?? 0
        set(
            row.map {
                Array(Self.bytes(of: UInt64($0.byteCount)).suffix(4)) + Self.bytes(of: $0.putAt)
                    + Self.bytes(of: $0.usedAt) + Array($0.user.utf8)
            }, at: FileRecord.chunk.place(hash.bytes))
        guard former != row?.byteCount ?? 0 else { return }
        let total = try chunkBytes() + UInt64(row?.byteCount ?? 0) - UInt64(former)
        set(Self.bytes(of: total), at: FileRecord.total.place())
    }

    /// The bytes of all chunks together.
    func chunkBytes() throws(HistoryError) -> UInt64 {
        try value(at: FileRecord.total.place()).map { Self.number($0[...]) } ?? 0
    }

    // MARK: Uses

    func isUsed(_ hash: ChunkHash) throws(HistoryError) -> Bool { try !users(of: hash, countMax: 1).isEmpty }

    /// The keys of files that use a chunk, or did so before an entry that ended very many uses.
    func users(of hash: ChunkHash, countMax: Int) throws(HistoryError) -> [UUIDBytes] {
        try records(in: FileRecord.use.range(prefix: hash.bytes), countMax: countMax).compactMap {
            UUIDBytes($0.place.key.dropFirst(ChunkHash.byteCount))
        }
    }

    /// Records that a file begins or ceases to use a chunk.
    mutating func setUse(_ hash: ChunkHash, by file: UUIDBytes, _ isUsed: Bool, now: UInt64) throws(HistoryError) {
        set(isUsed ? [] : nil, at: FileRecord.use.place(hash.bytes + file.bytes))
        guard var row = try chunk(hash) else { return }
        row.usedAt = now
        try set(row, of: hash)
    }

    mutating func eraseUses() throws(HistoryError) {
        while true {
            let some = try records(in: FileRecord.use.range(), countMax: 1_000)
            for record in some { set(nil, at: record.place) }
            if some.count < 1_000 { return }
        }
    }

    // MARK: Trash, moves

    static func trash(_ bytes: [UInt8]) -> TrashRow? {
        guard bytes.count >= 16 else { return nil }
        return TrashRow(
            since: number(bytes[..<8]), version: ServerVersion(rawValue: number(bytes[8..<16])),
            content: Array(bytes[16...]))
    }

    func trash(_ object: SpaceObjectKey) throws(HistoryError) -> TrashRow? {
        try value(at: FileRecord.trash.place(object.bytes)).flatMap(Self.trash)
    }

    mutating func set(_ row: TrashRow?, of object: SpaceObjectKey) {
        set(
            row.map { Self.bytes(of: $0.since) + Self.bytes(of: $0.version.rawValue) + $0.content },
            at: FileRecord.trash.place(object.bytes))
    }

    func formerParent(of folder: UUIDBytes) throws(HistoryError) -> UUIDBytes? {
        try value(at: FileRecord.formerParent.place(folder.bytes)).flatMap { UUIDBytes($0) }
    }

    mutating func setFormerParent(_ parent: UUIDBytes?, of folder: UUIDBytes) {
        set(parent?.bytes, at: FileRecord.formerParent.place(folder.bytes))
    }

    // MARK: Numbers

    private static func bytes(of number: UInt64) -> [UInt8] { withUnsafeBytes(of: number.bigEndian) { Array($0) } }

    private static func number(_ bytes: ArraySlice<UInt8>) -> UInt64 { bytes.reduce(0) { $0 << 8 | UInt64($1) } }
}

/// The name of a file or folder.
struct SpaceObjectKey: Hashable {
    var isFolder: Bool
    var key: UUIDBytes

    init(isFolder: Bool, key: UUIDBytes) { (self.isFolder, self.key) = (isFolder, key) }

    /// - Parameter bytes: the key of its record.
    init?(_ bytes: [UInt8]) {
        guard let first = bytes.first, let key = UUIDBytes(bytes.dropFirst()) else { return nil }
        self.init(isFolder: first == 1, key: key)
    }

    var bytes: [UInt8] { [isFolder ? 1 : 0] + key.bytes }
    var className: String { isFolder ? SpaceClasses.folder : SpaceClasses.file }
}
