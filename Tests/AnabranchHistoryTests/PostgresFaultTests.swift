import AnabranchCore
@testable import AnabranchHistory
@testable import AnabranchPostgres
import AnabranchPostgresWire
import AnabranchTesting
import Foundation
import Testing

/// The behaviour of the store in PostgreSQL when connections, other nodes or the server are not as they should be
/// (`Spec/Postgres.md`).
@Suite struct PostgresFaultTests {
    private static func store(on server: TestPostgres, seconds: Double) throws -> PostgresStore {
        var options = PostgresStore.Options()
        (options.requiresDurability, options.seconds) = (false, seconds)
        return try PostgresStore(server.url(try server.makeDatabase()), options: options)
    }

    /// A file, opened once connections to the server of today are there.
    private static func reopened(in store: PostgresStore) throws -> SyncedFile {
        for _ in 0..<20 { if let file = try? SyncedFile.open(in: store, keepsState: true) { return file } }
        return try SyncedFile.open(in: store, keepsState: true)
    }

    // MARK: Another server

    @Test func aStandbyIsNotRead() throws {
        let server = try TestPostgres()
        defer { server.end() }
        let store = try Self.store(on: server, seconds: 10), file = try SyncedFile.open(in: store)
        let ident = try file.allocateIdent().ident, id = file.id
        try server.becomeStandby()
        #expect(try code { try store.read(id) { view throws(HistoryError) in _ = try view.head() } } == .storeFailed)
        try server.promote()
        #expect(try Self.reopened(in: store).allocateIdent().ident == ident + 1)
    }

    private static let object = ChangesetWriter([
        .addTable("T"), .addColumn("T", "n"), .createObject(ObjectName(className: "T", key: .int(1))),
    ]).bytes

    private static func refusal(
        of ident: SaltedFileID, at version: ServerVersion, _ salt: Salt, by file: SyncedFile
    ) throws -> HistoryError.Code? {
        let latest = SaltedVersion(version: version, salt: salt)
        return try code { _ = try file.identify(IdentRequest(file: ident, latest: latest)) }
    }

    @Test func whoMayHaveSeenWhatAFailoverHasLostIsRefused() throws {
        let server = try TestPostgres()
        defer { server.end() }
        let store = try Self.store(on: server, seconds: 10)
        var file = try Self.reopened(in: store)
        let ident = try file.allocateIdent()
        try file.integrate(Upload([Self.object]), from: ident.ident)
        try file.integrate(Upload([ChangesetWriter.setting(1, to: 2)], from: 2), from: ident.ident)
        let kept = file.head
        try server.keepCopy()
        file = try Self.reopened(in: store)
        #expect(file.head == kept, "a crash loses nothing")
        try file.integrate(Upload([ChangesetWriter.setting(1, to: 3)], from: 3), from: ident.ident)
        let lost = file.head
        try server.becomeStandby()
        try server.promote()
        // What is left is made ready once, whichever node opens it first.
        let salts = try [store, store].map { try Self.reopened(in: $0).head.versionSalt }
        #expect(salts[0] == salts[1] && salts[0] != kept.versionSalt)
        #expect(try code { _ = try file.allocateIdent() } == .leaseLost)
        file = try Self.reopened(in: store)
        #expect(file.head.version == 2)
        #expect(try Self.refusal(of: ident, at: 3, lost.versionSalt, by: file) == .badServerVersion)
        #expect(try Self.refusal(of: ident, at: 2, kept.versionSalt, by: file) == .divergingHistories)
        #expect(try Self.refusal(of: ident, at: 1, kept.versionSalt, by: file) == nil)
        let refusal = try file.integrate(
            Upload([ChangesetWriter.setting(1, to: 4)], from: 3, base: 2), from: ident.ident)
        #expect(refusal == nil && file.head.version == 3)
    }

    /// More of them: `ANABRANCH_FAILOVERS=50 swift test --filter whoeverHasSeenWhatIsLostResets`.
    @Test func whoeverHasSeenWhatIsLostResets() throws {
        let count = ProcessInfo.processInfo.environment["ANABRANCH_FAILOVERS"].flatMap(Int.init) ?? 1
        let server = try TestPostgres()
        defer { server.end() }
        let store = try Self.store(on: server, seconds: 10)
        var random = SeededRandom(seed: 1), file = try Self.reopened(in: store)
        let ident = try file.allocateIdent()
        try file.integrate(Upload([Self.object]), from: ident.ident)
        // The salts of the versions that clients may know.
        var salts = [file.head.version: file.head.versionSalt]
        func write() throws {
            let version = file.head.version, upload = ClientVersion(version.rawValue + 1)
            let changeset = ChangesetWriter.setting(1, to: Int64(upload.rawValue))
            // Based on nothing: whoever has based an upload on a version cannot come back with an older one.
            let refusal = try file.integrate(Upload([changeset], from: upload), from: ident.ident)
            #expect(refusal == nil && file.head.version == version + 1)
            salts[file.head.version] = file.head.versionSalt
        }
        for number in 1...count {
            for _ in 0...random.below(3) { try write() }
            try server.keepCopy()
            file = try Self.reopened(in: store)
            let kept = file.head.version
            for _ in 0...random.below(3) { try write() }
            try server.becomeStandby()
            try server.promote()
            file = try Self.reopened(in: store)
            try #require(file.head.version == kept, "failover \(number)")
            for (version, salt) in salts {
                let refusal = try Self.refusal(of: ident, at: version, salt, by: file)
                // Nobody can tell whether who had just that has seen more.
                let expected: HistoryError.Code? =
                    version > kept ? .badServerVersion : version == kept ? .divergingHistories : nil
                #expect(refusal == expected, "failover \(number): version \(version) of \(kept)")
            }
            salts = salts.filter { $0.key < kept }
            salts[kept] = file.head.versionSalt
        }
    }

    @Test func aFailoverWithoutVersionsLetsClientFilesExpire() throws {
        let server = try TestPostgres()
        defer { server.end() }
        let store = try Self.store(on: server, seconds: 10), ident = try Self.reopened(in: store).allocateIdent()
        try server.becomeStandby()
        try server.promote()
        let row = try Self.reopened(in: store).newest(ident.ident)
        #expect(row?.isExpired == true)
    }

    @Test func aFailoverThatLosesNothingResetsNobody() throws {
        let server = try TestPostgres()
        defer { server.end() }
        let name = try server.makeDatabase()
        var options = PostgresStore.Options()
        options.requiresDurability = false
        let store = try PostgresStore(server.url(name), options: options), file = try Self.reopened(in: store)
        let ident = try file.allocateIdent().ident
        try file.integrate(Upload([Self.object]), from: ident)
        try server.run("INSERT INTO anabranch_store.meta VALUES ('lossless', 'true')", in: name)
        try server.becomeStandby()
        try server.promote()
        #expect(try Self.reopened(in: store).head == file.head)
        #expect(try code { _ = try file.allocateIdent() } == .leaseLost)
    }

    @Test func aStoreOfAnotherFormatIsNotUsedAnyMore() throws {
        let database = try TestDatabase(), store = try PostgresStore(database)
        let file = try SyncedFile.open(in: store)
        _ = try file.allocateIdent()
        let connection = try PostgresConnection(database.url)
        try connection.execute("UPDATE anabranch_store.meta SET value = '99' WHERE name = 'format'")
        let others = "FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()"
        try connection.query("SELECT pg_terminate_backend(pid) \(others)")
        while try connection.query("SELECT 1 \(others)").count > 0 {}
        for _ in 0..<20 { #expect(try code { _ = try file.allocateIdent() } == .storeFailed) }
    }

    // MARK: Other nodes

    /// A file that is gone is not taken for one that never was.
    @Test func theStateOfAFileThatAnotherNodeHasDeletedIsNotEmpty() throws {
        let database = try TestDatabase(), first = try PostgresStore(database), second = try PostgresStore(database)
        let file = try SyncedFile.open(in: first, keepsState: true, cachedObjectsMax: 0)
        let ident = try file.allocateIdent().ident
        try file.integrate(Upload([Self.object]), from: ident)
        let taken = try second.open(VirtualPath("/a"))
        var deletion = Commit(file: taken.id, lease: taken.lease, head: taken.head)
        deletion.deletesFile = true
        try second.commit([deletion])
        #expect(try second.freeDeleted { true })
        let found = try code {
            let upload = Upload([ChangesetWriter.setting(1, to: 2)], from: 2, base: 1)
            if let refusal = try file.integrate(upload, from: ident) { throw refusal }
        }
        #expect(found == .storeFailed)
    }

    /// Its first commit was made, and this node was not told.
    @Test func aNewFileThatIsThereAlreadyIsOpenedAgain() throws {
        let database = try TestDatabase(), store = try PostgresStore(database)
        let file = try SyncedFile.open(in: store)
        try PostgresConnection(database.url).execute(
            """
            INSERT INTO anabranch_store.synced_file
            VALUES (\(file.id.number), convert_to('/a', 'UTF8'), 1, 0, 0, 0, '', 0, 0, 0, '', 0, 2, 0, 0, '')
            """)
        #expect(try code { _ = try file.allocateIdent() } == .leaseLost)
    }

    /// Its process was stopped, and nothing tells PostgreSQL.
    @Test func aNodeThatWasStoppedWithAFileLockedDoesNotKeepIt() throws {
        let database = try TestDatabase(), store = try PostgresStore(database, seconds: 4)
        let file = try SyncedFile.open(in: store), ident = try file.allocateIdent().ident
        let stopped = try PostgresConnection(database.url)
        try stopped.execute("BEGIN; SELECT 1 FROM anabranch_store.synced_file FOR UPDATE")
        #expect(try file.allocateIdent().ident == ident + 1)
        #expect(throws: PostgresError.self) { try stopped.query("SELECT 1") }
    }

    @Test func maintenanceWaitsForNobody() throws {
        let database = try TestDatabase(), store = try PostgresStore(database, seconds: 2)
        let connection = try PostgresConnection(database.url)
        try connection.execute(
            """
            INSERT INTO anabranch_store.door_record
            SELECT 7, 1, 1, i::text::bytea, 5, '', '' FROM generate_series(1, 3) i
            """)
        try connection.execute("BEGIN; SELECT 1 FROM anabranch_store.door_record WHERE key = '2' FOR UPDATE")
        try store.maintain(at: 9) { true }
        #expect(try connection.query("SELECT count(*) FROM anabranch_store.door_record")[0, 0] == "1")
        try connection.execute("ROLLBACK")
        try store.maintain(at: 9) { true }
        #expect(try connection.query("SELECT count(*) FROM anabranch_store.door_record")[0, 0] == "0")
    }

    // MARK: Connections

    @Test func whatNoStandbyHasIsNotAcknowledged() throws {
        let server = try TestPostgres()
        defer { server.end() }
        let store = try Self.store(on: server, seconds: 2), file = try SyncedFile.open(in: store)
        _ = try file.allocateIdent()
        try server.run("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        try server.crash()
        // The server's time is up first.
        let connection = try store.writers.take()
        try connection.connection.execute("SET statement_timeout = 300")
        store.writers.giveBack(connection)
        #expect(try code { _ = try file.allocateIdent() } == .storeFailed)
    }

    @Test func aStatementThatTheServerHasForgottenFailsOnce() throws {
        let store = try PostgresStore(try TestDatabase()), file = try SyncedFile.open(in: store)
        let ident = try file.allocateIdent().ident
        let connection = try store.writers.take()
        _ = try connection.connection.pipeline([PostgresStep("DEALLOCATE ALL")])
        store.writers.giveBack(connection)
        #expect(try code { _ = try file.allocateIdent() } == .storeFailed)
        #expect(try SyncedFile.open(in: store).allocateIdent().ident == ident + 1)
    }

    @Test func afterOneConnectionHasBrokenTheIdleOnesAreNotUsed() throws {
        let store = try PostgresStore(try TestDatabase())
        let one = try store.readers.take(), other = try store.readers.take()
        store.readers.giveBack(other)
        one.connection.close()
        store.readers.giveBack(one)
        let next = try store.readers.take()
        defer { store.readers.giveBack(next) }
        #expect(next.connection !== other.connection)
    }
}
