import AnabranchCore
@testable import AnabranchHistory
@testable import AnabranchPostgres
import AnabranchPostgresWire
import AnabranchTesting
import Foundation
import Testing

/// What is true of several nodes over PostgreSQL alone (`Spec/Nodes.md`, section 7).
@Suite(.timeLimit(.minutes(30))) struct PostgresNodesTests {
    private static func stores(_ database: TestDatabase, seconds: Double = 60) throws -> [PostgresStore] {
        try (0..<2).map { _ in try PostgresStore(database, seconds: seconds, isShared: true) }
    }

    // MARK: What others have written

    @Test func allOpenFilesAreAskedAboutAtOnce() throws {
        let stores = try Self.stores(TestDatabase())
        let files = try ["/a", "/b", "/c"].map { try SyncedFile.open($0, in: stores[0], keepsState: true) }
        func heads() -> [SyncedFileID: FileHead] {
            Dictionary(uniqueKeysWithValues: files.map { ($0.id, $0.head) })
        }
        #expect(try stores[0].changed(since: heads()).isEmpty)
        try SyncedFile.open("/b", in: stores[1], keepsState: true).write(at: 1) { try $0.addClass("T") }
        let before = stores[0].roundTripCount
        #expect(try stores[0].changed(since: heads()) == [files[1].id])
        #expect(stores[0].roundTripCount - before == 1)
        try files[1].follow()
        #expect(try stores[0].changed(since: heads()).isEmpty)
        let gone = try SyncedFile.open("/c", in: stores[1])
        try gone.commit(gone.deletion())
        let unknown = SyncedFileID(1 << 40)
        let changed = try stores[0].changed(since: heads().merging([unknown: FileHead()]) { $1 })
        #expect(Set(changed) == [files[2].id, unknown])
    }

    @Test func manyEntriesAreTakenInTogether() throws {
        let stores = try Self.stores(TestDatabase())
        let reader = try SyncedFile.open(in: stores[0], keepsState: true)
        let author = try SyncedFile.open(in: stores[1], seed: 2, keepsState: true)
        try author.write(at: 1) { try $0.addClass("T", key: "_id", .int) }
        try reader.follow()
        for number in 1...30 as ClosedRange<Int64> {
            try author.write(at: 2) { try $0.create("T", key: .int(number)) }
        }
        let before = stores[0].roundTripCount
        try reader.follow()
        let count = stores[0].roundTripCount - before
        #expect(reader.version == 31 && count == 1, "\(count) round trips")
        #expect(try reader.log() == author.log())
    }

    /// First with nothing new, then with an entry each time.
    @Test func takingInIsOneRoundTrip() throws {
        let stores = try Self.stores(TestDatabase())
        let reader = try SyncedFile.open(in: stores[0], keepsState: true)
        let author = try SyncedFile.open(in: stores[1], seed: 2, keepsState: true)
        try author.write(at: 1) { try $0.addClass("T", key: "_id", .int) }
        try reader.follow()
        for number in 0...3 as ClosedRange<Int64> {
            if number > 0 { try author.write(at: 2) { try $0.create("T", key: .int(number)) } }
            let before = stores[0].roundTripCount
            try reader.follow()
            let count = stores[0].roundTripCount - before
            #expect(reader.version == author.version && count == 1, "\(count) round trips")
            let made = try reader.withState { try $0.canonicalJSON() }
            #expect(try made == author.withState { try $0.canonicalJSON() })
        }
    }

    /// Also if nothing was asked for after all.
    @Test func theHeadComesWithWhatIsRead() throws {
        let stores = try Self.stores(TestDatabase())
        let reader = try SyncedFile.open(in: stores[0], keepsState: true)
        let author = try SyncedFile.open(in: stores[1], seed: 2, keepsState: true)
        try author.write(at: 1) { try $0.addClass("T") }
        try reader.follow()
        let before = stores[0].roundTripCount
        let found = try reader.read { view throws(HistoryError) in try view.clientFile(1)?.ident }
        #expect(found == 1 && stores[0].roundTripCount - before == 1)
        try author.write(at: 2) { try $0.addClass("U") }
        for isAsked in [true, false] {
            let refusal = try code {
                _ = try reader.read { view throws(HistoryError) in isAsked ? try view.clientFile(1)?.ident : nil }
            }
            #expect(refusal == .conflict)
        }
    }

    @Test func aStateThatOthersHaveChangedIsReadAgain() throws {
        let stores = try Self.stores(TestDatabase())
        let reader = try SyncedFile.open(in: stores[0], keepsState: true, cachedObjectsMax: 0)
        let author = try SyncedFile.open(in: stores[1], seed: 2, keepsState: true)
        try author.write(at: 1) { transaction in
            try transaction.addClass("T", key: "_id", .int)
            try transaction.create("T", key: .int(1))
        }
        try reader.follow()
        var calls = 0
        let count = try reader.withState { state in
            calls += 1
            if calls == 1 { try author.write(at: 2) { try $0.create("T", key: .int(2)) } }
            return try state.read { try $0.objects("T").count }
        }
        #expect(calls == 2 && count == 2)
    }

    // MARK: Faults

    /// Nothing comes over a connection that was cut, not even its end.
    @Test func aListeningConnectionThatIsDeadIsMadeAgain() throws {
        let database = try TestDatabase(), store = try PostgresStore(database, seconds: 10)
        let wakes = StoreWakes(store.target, silentSecondsMax: 1), mayHaveMissed = DispatchSemaphore(value: 0)
        defer { wakes.close() }
        wakes.listen { if $0 == nil { mayHaveMissed.signal() } }
        mayHaveMissed.wait()
        let found = try PostgresConnection(database.url).query(
            """
            SELECT pid FROM pg_stat_activity WHERE datname = current_database()
            AND query IN ('LISTEN anabranch_wake', 'SELECT 1')
            """)
        let pid = try #require(found[0, 0].flatMap { Int32($0) })
        kill(pid, SIGSTOP)
        defer { kill(pid, SIGCONT) }
        #expect(mayHaveMissed.wait(timeout: .now() + 300) == .success)
    }

    /// The other node is about to remove just what this one has found.
    @Test func twoNodesFreeADeletedFileTogether() throws {
        let database = try TestDatabase(), store = try PostgresStore(database, isShared: true)
        let watch = try PostgresConnection(database.url)
        try watch.execute(
            """
            INSERT INTO anabranch_store.deleted_file VALUES (7);
            INSERT INTO anabranch_store.received SELECT 7, i, 1, '', '' FROM generate_series(1, 1001) i;
            DO $$ BEGIN CREATE ROLE other_node SUPERUSER LOGIN; EXCEPTION WHEN duplicate_object THEN END $$
            """)
        // One of the same role would be ended if this takes long.
        let other = try PostgresConnection(database.url.replacing("postgres@", with: "other_node@"))
        try other.execute(
            """
            BEGIN; SELECT 1 FROM anabranch_store.deleted_file WHERE file = 7 FOR UPDATE;
            DELETE FROM anabranch_store.received WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM anabranch_store.received WHERE file = 7 LIMIT 1000))
            """)
        let isOver = DispatchSemaphore(value: 0)
        Thread.detachNewThread {
            _ = try? store.freeDeleted { true }
            isOver.signal()
        }
        let waiting = """
            SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
            """
        while try watch.query(waiting)[0, 0] == "0" {}
        try other.execute("COMMIT")
        isOver.wait()
        #expect(try watch.query("SELECT count(*) FROM anabranch_store.received")[0, 0] == "0")
    }
}
