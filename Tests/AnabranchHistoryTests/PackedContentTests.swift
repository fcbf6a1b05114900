import AnabranchCore
import AnabranchTesting
import Foundation
import GRDB
import Testing

@testable import AnabranchHistory
@testable import AnabranchSQLite

/// Large contents of rows are compressed (`Spec/Durability.md`, section 3).
@Suite struct PackedContentTests {
    private static let mark: [UInt8] = [0xd7, 0x5a, 0x63, 0x01]
    private static let seeds =
        ProcessInfo.processInfo.environment["ANABRANCH_SEED"].flatMap(UInt64.init).map { [$0] } ?? Array(1...40)

    private static func unpacked(_ stored: [UInt8]) throws -> [UInt8] {
        try PackedContent.unpacked(stored) ?? stored
    }

    /// Of any size, some alike throughout, some of which nothing can be saved, some that look compressed.
    private static func content(_ random: inout SeededRandom) throws -> [UInt8] {
        let size = random.isOne(in: 3) ? random.below(100) : random.below(100_000)
        let kinds = [1, 2, 30, 256][random.below(4)]
        let content = (0..<size).map { _ in UInt8(random.below(kinds)) }
        return switch random.below(4) {
        case 0: mark + content
        case 1: Array(mark.prefix(random.below(4)))
        case 2: Array(try PackedContent.stored(content))
        default: content
        }
    }

    @Test(arguments: seeds) func contentsComeBack(_ seed: UInt64) throws {
        var random = SeededRandom(scrambling: seed)
        for _ in 0..<20 {
            let content = try Self.content(&random), stored = Array(try PackedContent.stored(content))
            let command = "ANABRANCH_SEED=\(seed) swift test --filter PackedContentTests"
            #expect(try Self.unpacked(stored) == content, "\(command)")
            #expect(stored.count <= content.count + 100, "\(command)")
            if content.count < PackedContent.bytesMin, !content.starts(with: Self.mark) {
                #expect(stored == content, "\(command)")
            }
        }
    }

    /// Whatever else stands in a row: an error or some contents, and no memory for what a size promises.
    @Test(arguments: seeds) func damageIsAnError(_ seed: UInt64) throws {
        var random = SeededRandom(scrambling: seed)
        let content = (0..<50_000).map { _ in UInt8(random.below(3)) }
        let stored = Array(try PackedContent.stored(content))
        try #require(stored.starts(with: Self.mark) && stored.count < 40_000)
        for _ in 0..<100 {
            var damaged = stored
            switch random.below(4) {
            case 0: damaged.removeLast(1 + random.below(stored.count - 4))
            case 1: damaged[4 + random.below(8)] ^= 1 << random.below(8)
            case 2: damaged[12...].shuffle(using: &random)
            default:
                for _ in 0...random.below(3) { damaged[4 + random.below(stored.count - 4)] ^= 1 << random.below(8) }
            }
            let code = try code { _ = try Self.unpacked(damaged) }
            #expect(code == nil || code == .storeDamaged, "ANABRANCH_SEED=\(seed)")
        }
        for size: UInt64 in [.max, 1 << 63, 1 << 40, 0] {
            let lie = Self.mark + withUnsafeBytes(of: size.littleEndian) { Array($0) } + stored[12...]
            #expect(try code { _ = try Self.unpacked(lie) } == .storeDamaged, "\(size)")
        }
        #expect(try code { _ = try Self.unpacked(Self.mark) } == .storeDamaged)
    }

    // MARK: Stores

    private static func creating(_ key: Int64, _ text: [UInt8]) -> [UInt8] {
        var changeset = ChangesetWriter()
        changeset.create(key)
        changeset.listInsert(key, at: 0, value: key, size: 0)
        changeset.write(
            .update(FieldPath(object: ObjectName(className: "T", key: .int(key)), field: "s"), .string(text)))
        return changeset.bytes
    }

    private static func bytes(_ sql: String, in test: TestStore) throws -> Int {
        try #require(test.store as? SQLiteStore).shards[0].pool.read { db in try Int.fetchOne(db, sql: sql) } ?? 0
    }

    /// Log, state, what was received and reciprocal history: as they were, checked, and in a fraction of the room.
    @Test func largeChangesetsAreKeptWhole() throws {
        let test = try TestStore(.sqlite)
        var file = try SyncedFile.open(in: test.store, keepsState: true)
        _ = try file.allocateIdents(for: ["ann", nil], at: 1000)
        let schema = ChangesetWriter([
            .addTable("T"), .addColumn("T", "s", .string, nullable: true), .addColumn("T", "l", .int, .list),
        ]).bytes
        try #require(try file.integrate(Upload([schema]), from: 2) == nil)
        let long = [UInt8](repeating: UInt8(ascii: "a"), count: 600_000)
        var random = SeededRandom(seed: 5)
        let noise = (0..<60_000).map { _ in UInt8(ascii: "0") + UInt8(random.below(64)) }
        // Both clients write the same object, so that there is something to merge.
        for (index, text) in [long, noise, Array("short".utf8), long + noise].enumerated() {
            let number = UInt64(index), key = Int64(index)
            let upload = Upload([Self.creating(key, text)], from: ClientVersion(number + 2), base: 1)
            #expect(try file.integrate(upload, from: 2) == nil)
            let other = Upload(
                [Self.creating(key, text.reversed())], from: ClientVersion(number + 1), base: 1, timestamp: 400)
            #expect(try file.integrate(other, from: 3) == nil)
        }
        let range = VersionRange(after: 0, through: .largest)
        let log = try file.log(), forms = try file.reciprocals(of: 3)
        let digest = try file.withState { try StateDigest(of: $0) }
        let versions = try file.read { view throws(HistoryError) in try view.versions(in: range, excludingOrigin: 2) }
        #expect(try Self.bytes("SELECT COUNT(*) FROM log_entry WHERE content_bytes IS NOT NULL", in: test) > 2)
        #expect(try Self.bytes("SELECT SUM(length(changeset)) FROM log_entry", in: test) < 600_000)
        #expect(try Self.bytes("SELECT SUM(length(content)) FROM state_row", in: test) < 600_000)
        for table in ["log_entry", "received", "reciprocal"] {
            let packed = "SELECT COUNT(*) FROM \(table) WHERE substr(changeset, 1, 4) = x'd75a6301'"
            #expect(try Self.bytes(packed, in: test) > 0, "\(table)")
        }
        try test.restart()
        file = try SyncedFile.open(in: test.store, keepsState: true)
        #expect(try file.log() == log)
        #expect(try file.reciprocals(of: 3) == forms)
        #expect(try file.withState { try StateDigest(of: $0) } == digest)
        let found = try file.read { view throws(HistoryError) in try view.versions(in: range, excludingOrigin: 2) }
        #expect(found == versions)
        let catalog = try #require(test.store as? SQLiteStore).entries(of: file.path, after: 0, countMax: 100)
        #expect(catalog.map(\.changesetBytes) == log.map(\.changeset.count))
        try test.verify()
    }

    /// The size beside a compressed changeset is checked with it.
    @Test func aWrongSizeIsDamage() throws {
        let test = try TestStore(.sqlite)
        let file = try SyncedFile.open(in: test.store)
        _ = try file.allocateIdent()
        let long = [UInt8](repeating: UInt8(ascii: "a"), count: 100_000)
        #expect(try file.integrate(Upload([Self.creating(1, long)]), from: 2) == nil)
        for change in ["content_bytes + 1", "NULL"] {
            try #require(test.store as? SQLiteStore).shards[0].pool.write { db in
                try db.execute(sql: "UPDATE log_entry SET content_bytes = \(change)")
            }
            try test.restart()
            #expect(try code { _ = try SyncedFile.open(in: test.store).log() } == .storeDamaged, "\(change)")
        }
    }
}
