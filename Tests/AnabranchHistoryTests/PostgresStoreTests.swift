import AnabranchCore
@testable import AnabranchHistory
@testable import AnabranchPostgres
import AnabranchPostgresWire
import AnabranchTesting
import Foundation
import Synchronization
import Testing

/// The properties of the store in PostgreSQL alone (`Spec/Postgres.md`).
@Suite struct PostgresStoreTests {
    private static func store(_ database: TestDatabase, seconds: Double = 60) throws -> PostgresStore {
        try PostgresStore(database, seconds: seconds)
    }

    private static let object = ChangesetWriter([
        .addTable("T"), .addColumn("T", "n"), .createObject(ObjectName(className: "T", key: .int(1))),
    ]).bytes

    // MARK: Round trips

    @Test func aTurnOfAFileThatIsUsedTakesOneRoundTrip() throws {
        let database = try TestDatabase(), store = try Self.store(database)
        var file = try SyncedFile.open(in: store, keepsState: true)
        let ident = try file.allocateIdent().ident
        try file.integrate(Upload([Self.object]), from: ident)
        for number in 2...5 as ClosedRange<UInt64> {
            let before = store.roundTripCount
            let refusal = try file.integrate(
                Upload([ChangesetWriter.setting(1, to: Int64(number))], from: ClientVersion(number)), from: ident)
            let count = store.roundTripCount - before
            #expect(refusal == nil && count == 1, "turn \(number) took \(count) round trips")
        }
        // Somebody else opens the file: nothing of it is in memory.
        let other = try Self.store(database)
        file = try SyncedFile.open(in: other, keepsState: true)
        let before = other.roundTripCount
        try file.integrate(Upload([ChangesetWriter.setting(1, to: 6)], from: 6), from: ident)
        // What it has uploaded, the object with the keys of what it has not seen, and the commit.
        #expect(other.roundTripCount - before <= 3, "a cold turn took \(other.roundTripCount - before) round trips")
    }

    @Test func theObjectsOfAnUploadAreReadTogether() throws {
        let database = try TestDatabase(), names = (1...100).map { ObjectName(className: "T", key: .int($0)) }
        var file = try SyncedFile.open(in: try Self.store(database), keepsState: true)
        let ident = try file.allocateIdent().ident
        let schema = [NamedInstruction.addTable("T"), .addColumn("T", "n")]
        // One object is missing.
        let creations = names.dropLast().map { NamedInstruction.createObject($0) }
        try file.integrate(Upload([ChangesetWriter(schema + creations).bytes]), from: ident)
        let store = try Self.store(database)
        file = try SyncedFile.open(in: store, keepsState: true, cachedObjectsMax: 0)
        // The second time the log is in memory, and the objects are not.
        for version in [2, 3] as [UInt64] {
            let before = store.roundTripCount
            let updates = names.map { NamedInstruction.update(FieldPath(object: $0, field: "n"), .int(Int64(version))) }
            let changeset = ChangesetWriter([.createObject(names[99])] + updates).bytes
            let upload = Upload(
                [changeset], from: ClientVersion(version), base: ServerVersion(rawValue: version - 1))
            let refusal = try file.integrate(upload, from: ident), count = store.roundTripCount - before
            #expect(refusal == nil && count <= 3, "\(count) round trips: \(refusal?.reason ?? "")")
        }
        let made = try file.read { view throws(HistoryError) in try view.state(at: view.head().version) }
        #expect(try store.state(of: file.id).canonicalJSON() == made.canonicalJSON())
    }

    // MARK: Several nodes

    @Test func whoOpensAFileTakesItOver() throws {
        let database = try TestDatabase(), first = try Self.store(database), second = try Self.store(database)
        let old = try SyncedFile.open(in: first), ident = try old.allocateIdent().ident
        let new = try SyncedFile.open(in: second)
        let row = try new.newest(ident)
        #expect(row?.ident == ident)
        // Neither what is written nor what is read counts any more.
        #expect(try code { _ = try old.allocateIdent() } == .leaseLost)
        let opened = try first.id(of: VirtualPath("/a"))
        let id = try #require(opened)
        #expect(try code { _ = try first.read(id) { view throws(HistoryError) in try view.head() } } == .leaseLost)
        #expect(try code { _ = try first.state(of: id) } == .storeFailed)
        let next = try new.allocateIdent().ident
        #expect(next == ident + 1)
        // Nor is a client refused that has seen what only the other node knows.
        let salt = try #require(row).salt
        let ahead = IdentRequest(
            file: SaltedFileID(ident: ident, salt: salt), latest: SaltedVersion(version: 7, salt: 1))
        #expect(try code { _ = try old.identify(ahead) } == .leaseLost)
        #expect(try code { _ = try new.identify(ahead) } == .badServerVersion)
        let again = try SyncedFile.open(in: first)
        #expect(try again.newest(next)?.ident == next)
        #expect(try code { _ = try new.allocateIdent() } == .leaseLost)
    }

    @Test func oneOfTwoNewFilesOfTheSameNameIsMade() throws {
        let database = try TestDatabase(), first = try Self.store(database), second = try Self.store(database)
        let one = try SyncedFile.open(in: first), other = try SyncedFile.open(in: second)
        let ident = try one.allocateIdent().ident
        #expect(try code { _ = try other.allocateIdent() } == .leaseLost)
        #expect(try SyncedFile.open(in: second).newest(ident)?.ident == ident)
        #expect(try first.files(after: nil, countMax: 9).map(\.path) == [VirtualPath("/a")])
    }

    @Test func aDeletedFileIsNotWrittenByWhoHasItOpen() throws {
        let database = try TestDatabase(), first = try Self.store(database), second = try Self.store(database)
        let file = try SyncedFile.open(in: first)
        _ = try file.allocateIdent()
        let taken = try second.open(VirtualPath("/a"))
        var deletion = Commit(file: taken.id, lease: taken.lease, head: taken.head)
        deletion.deletesFile = true
        try second.commit([deletion])
        #expect(try code { _ = try file.allocateIdent() } == .leaseLost)
        #expect(try second.freeDeleted { true })
        #expect(try code { _ = try file.allocateIdent() } == .leaseLost)
        let connection = try PostgresConnection(database.url)
        for table in StoreTables.ofFiles {
            #expect(try connection.query("SELECT count(*) FROM anabranch_store.\(table)")[0, 0] == "0", "\(table)")
        }
    }

    // MARK: Maintenance

    @Test func contentsOfViewsAreFreedInPieces() throws {
        let database = try TestDatabase(), store = try Self.store(database)
        let connection = try PostgresConnection(database.url)
        try connection.execute(
            """
            SET search_path = anabranch_store;
            INSERT INTO view_content SELECT file, sha256(i::text::bytea), '\\x00'
            FROM generate_series(6, 7) file, generate_series(1, 2500) i;
            INSERT INTO view_entry (file, ident, number, version, client_version, time, origin, digest, checksum)
            SELECT 7, 2, i, 1, 0, 0, 1, sha256(i::text::bytea), '' FROM generate_series(1, 3) i
            """)
        func left() throws -> String? { try connection.query("SELECT count(*) FROM view_content")[0, 0] }
        var count = 0
        // It is asked twice before the first piece.
        try store.maintain(at: 1) {
            count += 1
            return count <= 3
        }
        #expect(try left() == "4000")
        try store.maintain(at: 1) { true }
        #expect(try left() == "3")
    }

    /// A large state takes longer than a statement may.
    @Test func aStateIsFrozenHoweverLongItTakes() throws {
        let database = try TestDatabase(), store = try Self.store(database)
        defer { withExtendedLifetime(store) {} }
        let connection = try PostgresConnection(database.url, seconds: 60)
        try connection.execute(
            """
            SET search_path = anabranch_store;
            INSERT INTO state_row SELECT 7, 1, i::text::bytea, 0, '\\x00' FROM generate_series(1, 500000) i
            """)
        try connection.execute("BEGIN")
        try connection.execute("SET statement_timeout = 100")
        let rows = try FrozenRows(of: 7, over: connection)
        #expect(rows.objects(of: ClassID(1), after: nil, limit: .max).count == 500_000)
    }

    // MARK: Trouble

    @Test func aCommitThatWaitsTooLongChangesNothing() throws {
        let database = try TestDatabase(), store = try Self.store(database, seconds: 2)
        let file = try SyncedFile.open(in: store), ident = try file.allocateIdent().ident
        let holder = try PostgresConnection(database.url)
        try holder.execute("BEGIN; LOCK TABLE anabranch_store.synced_file IN ACCESS EXCLUSIVE MODE")
        #expect(try code { _ = try file.allocateIdent() } == .storeFailed)
        try holder.execute("ROLLBACK")
        let next = try SyncedFile.open(in: store)
        #expect(try next.allocateIdent().ident == ident + 1)
    }

    @Test func aServerThatComesBackIsUsedAgain() throws {
        let server = try TestPostgres()
        defer { server.end() }
        let url = server.url(try server.makeDatabase())
        var options = PostgresStore.Options()
        options.requiresDurability = false
        let store = try PostgresStore(url, options: options)
        let file = try SyncedFile.open(in: store)
        _ = try file.allocateIdent()
        try server.crash()
        // Each connection that is still there may fail once: its end shows when it is used.
        var next: SaltedFileID?
        for _ in 0..<20 where next == nil { next = try? file.allocateIdent() }
        #expect(next?.ident == 3)
        let others = "FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()"
        let connection = try PostgresConnection(url)
        try connection.query("SELECT pg_terminate_backend(pid) \(others)")
        while try connection.query("SELECT 1 \(others)").count > 0 {}
        next = nil
        for _ in 0..<20 where next == nil { next = try? file.allocateIdent() }
        #expect(next?.ident == 4)
    }

    /// A link's row has the keys of both objects, and an index has no room for more.
    @Test func keysThatNoIndexTakesAreRefused() throws {
        // Bytes that cannot be pressed.
        func key(_ count: Int) -> PrimaryKey { .string((0..<count).map { _ in UInt8.random(in: 0x21...0x7e) }) }
        let database = try TestDatabase(), file = try SyncedFile.open(in: try Self.store(database), keepsState: true)
        let ident = try file.allocateIdent().ident
        let longest = [ObjectName(className: "S", key: key(1_280)), ObjectName(className: "S", key: key(1_280))]
        let link = Payload.link(className: Array("S".utf8), key: longest[1].key)
        let first = ChangesetWriter([
            .addTable("S", key: "_id", .string), .addColumn("S", "link", .link, nullable: true, target: "S"),
            .createObject(longest[0]), .createObject(longest[1]),
            .update(FieldPath(object: longest[0], field: "link"), link),
        ]).bytes
        var refusal = try file.integrate(Upload([first]), from: ident)
        #expect(refusal == nil)
        for count in [1_281, 3_000, 4_097] {
            let longer = ChangesetWriter([.createObject(ObjectName(className: "S", key: key(count)))]).bytes
            refusal = try file.integrate(Upload([longer], from: 2), from: ident)
            #expect(refusal?.code == .badChangeset, "\(count) bytes")
        }
        let other = ChangesetWriter([.createObject(ObjectName(className: "S", key: key(9)))]).bytes
        refusal = try file.integrate(Upload([other], from: 2), from: ident)
        #expect(refusal == nil)
    }

    // MARK: Databases that are refused

    private static func refusal(_ url: String, requiresDurability: Bool = false) -> HistoryError? {
        var options = PostgresStore.Options()
        options.requiresDurability = requiresDurability
        options.seconds = 5
        do throws(HistoryError) {
            _ = try PostgresStore(url, options: options)
            return nil
        } catch {
            return error
        }
    }

    @Test func aDatabaseThatCannotHoldAStoreIsRefusedInASentence() throws {
        let server = try TestPostgres.shared.get(), database = try TestDatabase()
        func expect(_ error: HistoryError?, _ code: HistoryError.Code, _ part: String) {
            #expect(error?.code == code && error?.reason.contains(part) == true, "\(error?.reason ?? "no error")")
        }
        expect(Self.refusal(database.url, requiresDurability: true), .storeUnusable, "fsync is off")
        expect(Self.refusal("postgres://127.0.0.1:1/a"), .storeFailed, "cannot be reached")
        expect(Self.refusal(server.url("nothing")), .storeFailed, "\"nothing\" does not exist")
        let role = "r" + UUID().uuidString.lowercased().filter { $0 != "-" }
        let connection = try PostgresConnection(database.url)
        try connection.execute("CREATE ROLE \(role) LOGIN")
        let name = String(database.url.split(separator: "/")[2].split(separator: "?")[0])
        expect(Self.refusal(server.url(name, user: role)), .storeUnusable, "the right CREATE on the database")
        try connection.execute("CREATE SCHEMA anabranch_store")
        expect(Self.refusal(database.url), .storeUnusable, "of another application")
        try connection.execute("CREATE TABLE anabranch_store.meta (a int)")
        expect(Self.refusal(database.url), .storeUnusable, "of another application")
        try connection.execute("DROP SCHEMA anabranch_store CASCADE")
        _ = try Self.store(database)
        expect(Self.refusal(server.url(name, user: role)), .storeUnusable, "may not do what is needed")
        try connection.execute(
            """
            GRANT USAGE ON SCHEMA anabranch_store TO \(role);
            GRANT SELECT ON ALL TABLES IN SCHEMA anabranch_store TO \(role)
            """)
        expect(Self.refusal(server.url(name, user: role)), .storeUnusable, "may not do what is needed (table ")
        try connection.execute("UPDATE anabranch_store.meta SET value = '99' WHERE name = 'format'")
        expect(Self.refusal(database.url), .storeUnusable, "the store has format 99; this program reads format 2")
        try connection.execute("DROP OWNED BY \(role); DROP ROLE \(role)")
    }

    // MARK: Damage

    @Test func whatIsNotWhatWasWrittenIsNotRead() throws {
        let changes = [
            "log_entry SET changeset = '\\x00' WHERE version = 1", "log_entry SET origin = 9 WHERE version = 2",
            "client_file SET client_version = client_version + 1 WHERE ident = 2", "synced_file SET version_salt = 0",
        ]
        for change in changes {
            let database = try TestDatabase(), store = try Self.store(database)
            let file = try SyncedFile.open(in: store), ident = try file.allocateIdent().ident
            try file.integrate(Upload([1, 2].map { ChangesetWriter.setting(1, to: $0) }), from: ident)
            try PostgresConnection(database.url).query("UPDATE anabranch_store.\(change)")
            let id = try #require(try store.id(of: VirtualPath("/a")))
            let found = try code {
                try store.read(id) { view throws(HistoryError) in
                    _ = try view.head()
                    _ = try view.clientFile(ident)
                    for version in [1, 2] as [ServerVersion] { _ = try view.entry(version) }
                }
            }
            #expect(found == .storeDamaged, "\(change)")
        }
    }
}
