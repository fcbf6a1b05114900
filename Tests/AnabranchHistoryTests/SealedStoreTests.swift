import AnabranchCore
import AnabranchTesting
import Foundation
import GRDB
import Testing

@testable import AnabranchHistory
@testable import AnabranchSQLite

/// Segments in the SQLite store: crashes, damage, repair, restoration, and stores that have none yet
/// (`Spec/Durability.md`, sections 3, 4 and 8).
@Suite struct SealedStoreTests {
    /// A file with a state, of two clients that conflict, and of the server.
    private struct Fixture {
        let directory: TemporaryDirectory
        let store: SQLiteStore
        let file: SyncedFile

        init(writes: Int64 = 30) throws {
            directory = try TemporaryDirectory()
            store = try SQLiteStore(oneShardIn: directory.path)
            file = try SyncedFile.open(in: store, keepsState: true)
            _ = try file.allocateIdents(for: ["ann", nil, nil], at: 1000)
            try file.write(at: 1) { tx in
                try tx.addClass("T", key: "_id", .int)
                try tx.addColumn("n", .int, to: "T")
                for key in 0..<3 as Range<Int64> { try tx.create("T", key: .int(key)) }
            }
            for number in 1...UInt64(writes) {
                for ident in [2, 3] as [ClientFileID] {
                    let changeset = ChangesetWriter.setting(Int64(number % 3), to: Int64(number))
                    let upload = Upload(
                        [changeset], from: ClientVersion(number), base: 1, timestamp: ChangesetTime(number))
                    try file.enqueue(upload, from: ident)
                }
                #expect(try file.integrate(at: 1000).outcomes.allSatisfy { $0.refusal == nil })
            }
        }

        func seal() throws { try file.seal(SealingPolicy(entriesMax: 10, restMin: 4)) }

        /// Behind the back of the store, which is closed.
        func change(_ sql: String) throws {
            try store.close()
            try StoppedStore.change(directory.path, sql)
        }
    }

    private static func rowCounts(in directory: String) throws -> [Int] {
        let queue = try DatabaseQueue(path: directory + "/shard-00.sqlite")
        defer { try? queue.close() }
        return try queue.read { db in
            try ["log_entry", "log_segment"].map { try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM \($0)") ?? 0 }
        }
    }

    // MARK: Crashes

    @Test("a crash at any moment of sealing leaves rows or a segment, and never both or none")
    func crashes() throws {
        let fixture = try Fixture(), log = try fixture.file.log(), head = fixture.file.head
        try fixture.store.shards[0].pool.writeWithoutTransaction { db in _ = try db.checkpoint(.truncate) }
        try fixture.seal()
        let size = try Data(contentsOf: URL(fileURLWithPath: fixture.directory.path + "/shard-00.sqlite-wal")).count
        var segmentCounts: Set<Int> = []
        for cut in Array(stride(from: 0, to: size, by: max(1, size / 100))) + [size] {
            let copy = try StoppedStore.copy(of: fixture.directory.path, truncatingLogTo: cut)
            let store = try SQLiteStore(oneShardIn: copy.path), file = try SyncedFile.open(in: store, keepsState: true)
            #expect(try file.log() == log && file.head == head, "cut at \(cut)")
            try store.close()
            #expect(try StoppedStore.allDamages(in: copy.path) == [], "cut at \(cut)")
            let counts = try Self.rowCounts(in: copy.path)
            #expect(counts[0] + 10 * counts[1] == log.count, "cut at \(cut)")
            segmentCounts.insert(counts[1])
        }
        #expect(segmentCounts == Set(0...5))
    }

    // MARK: Damage

    @Test(
        "nothing of a segment that was changed is sent or merged, and the verification names it",
        arguments: [
            ("UPDATE log_segment SET block = substr(block, 1, 40) || x'ff' || substr(block, 42) WHERE last = 20", "20"),
            ("UPDATE log_segment SET block = x'00' WHERE last = 20", "20"),
            ("UPDATE log_segment SET block = 'x' WHERE last = 20", "20"),
            ("DELETE FROM log_segment WHERE last = 20", "30"),
            ("DELETE FROM log_segment WHERE last = 50", "51"),
            ("DELETE FROM log_entry WHERE version IN (51, 52, 53)", "54"),
            ("UPDATE log_segment SET last = 21 WHERE last = 20", "21"),
            ("UPDATE log_segment SET block = (SELECT block FROM log_segment WHERE last = 10) WHERE last = 20", "20"),
            ("UPDATE log_segment SET last = 70 WHERE last = 50", "70"),
        ])
    func damage(_ sql: String, place: String) throws {
        let fixture = try Fixture()
        try fixture.seal()
        try fixture.change(sql)
        let store = try SQLiteStore(oneShardIn: fixture.directory.path)
        let error = #expect(throws: HistoryError.self) {
            _ = try SyncedFile.open(in: store, keepsState: true).downloads(for: 4).download(
                after: DownloadCursor(), byteBudget: .max)
        }
        #expect(error?.code == .storeDamaged)
        let outcomes: [ClientOutcome]?
        do {
            let file = try SyncedFile.open(in: store, keepsState: true)
            let upload = Upload([ChangesetWriter.setting(1, to: 9)], from: 70, base: 1, timestamp: 99)
            try file.enqueue(upload, from: 3)
            outcomes = try file.integrate(at: 1).outcomes
        } catch {
            outcomes = nil
        }
        #expect(outcomes == nil || outcomes?.first?.refusal?.code == .storeDamaged)
        try store.close()
        let found = try StoppedStore.allDamages(in: fixture.directory.path)
        #expect(found.contains { $0.place.contains(place) }, "\(found)")
        // Nothing but a log that is whole makes a state or conflict keys.
        let repair = try StoreRepair(directory: fixture.directory.path)
        try repair.run { #expect($0.repaired.isEmpty && !$0.damages.isEmpty) }
        try repair.close()
    }

    @Test(
        "bits of a sealed store that flip are noticed, or nothing that counts was hit",
        arguments: 1...3 as ClosedRange<UInt64>)
    func flippedBits(seed: UInt64) throws {
        let fixture = try Fixture(), log = try fixture.file.log()
        try fixture.seal()
        try fixture.store.close()
        let original = try Data(contentsOf: URL(fileURLWithPath: fixture.directory.path + "/shard-00.sqlite"))
        var random = SeededRandom(seed: seed)
        for _ in 0..<100 {
            var bytes = original, place = 0
            repeat { place = random.below(bytes.count) } while bytes[place] == 0
            bytes[place] ^= 1 << UInt8(random.below(8))
            let copy = try TemporaryDirectory(copyingManifestOf: fixture.directory.path)
            try bytes.write(to: URL(fileURLWithPath: copy.path + "/shard-00.sqlite"))
            guard let store = try? SQLiteStore(oneShardIn: copy.path) else { continue }
            do throws(HistoryError) {
                let file = try SyncedFile.open(in: store)
                // SQLite's index of the names is all that knows them.
                if file.head == FileHead() { continue }
                let found = try file.log()
                #expect(found == log, "seed \(seed): byte \(place)")
            } catch {
                #expect(error.isStoreFailure, "seed \(seed): byte \(place): \(error)")
            }
        }
    }

    // MARK: Tools

    @Test(
        "states and conflict keys of a sealed log are made anew",
        arguments: [
            "DELETE FROM state_row WHERE class = 1", "DELETE FROM conflict_key WHERE version = 58",
            "INSERT INTO conflict_key VALUES (1, 1, 3, 2)",
        ])
    func repair(_ sql: String) throws {
        let fixture = try Fixture()
        let state = { (file: SyncedFile) in try file.withState { try $0.canonicalJSON() } }
        let expected = try state(fixture.file)
        try fixture.seal()
        try fixture.change(sql)
        #expect(try !StoppedStore.allDamages(in: fixture.directory.path).isEmpty)
        let repair = try StoreRepair(directory: fixture.directory.path)
        try repair.run { #expect(!$0.repaired.isEmpty && $0.damages.isEmpty, "\($0)") }
        try repair.close()
        let store = try SQLiteStore(oneShardIn: fixture.directory.path)
        #expect(try state(SyncedFile.open(in: store, keepsState: true)) == expected)
    }

    @Test("a sealed log is read by tools, at every version")
    func reader() throws {
        let fixture = try Fixture(), log = try fixture.file.log()
        try fixture.seal()
        try fixture.store.close()
        let file = try #require(try StoreReader(directory: fixture.directory.path).files().first)
        var entries: [LogEntry] = []
        try file.forEachEntry { entries.append($0) }
        #expect(entries == log.reversed())
        for version in [0, 1, 9, 10, 11, 49, 50, 51, 61] {
            var state = ObjectGraph()
            try state.replay(Array(log.prefix(version)))
            #expect(try StateDigest(of: file.state(at: ServerVersion(version))) == StateDigest(of: state))
        }
    }

    @Test("a sealed log is restored, and whose client knows less than its end goes on")
    func restoration() throws {
        let fixture = try Fixture()
        try fixture.seal()
        let (before, idents) = (try fixture.file.log(), try fixture.file.allocateIdents(for: [nil], at: 1))
        try fixture.file.change(idents[0].ident) { $0.lineage = .log }
        try fixture.store.close()
        let restoration = try StoreRestoration(directory: fixture.directory.path)
        try restoration.run { _ in }
        try restoration.close()
        #expect(try StoppedStore.allDamages(in: fixture.directory.path) == [])
        let store = try SQLiteStore(oneShardIn: fixture.directory.path), file = try SyncedFile.open(in: store)
        let log = try file.log()
        #expect(log.dropLast() == before.dropLast() && log.last?.salt != before.last?.salt)
        func ident(_ entry: LogEntry) -> IdentRequest {
            IdentRequest(
                file: idents[0], download: DownloadCursor(serverVersion: entry.version),
                latest: SaltedVersion(version: entry.version, salt: entry.salt))
        }
        _ = try file.identify(ident(before[30]))
        #expect(try code { _ = try file.identify(ident(before[before.count - 1])) } == .divergingHistories)
    }
}
