import AnabranchCore
@testable import AnabranchHistory
@testable import AnabranchPostgres
import AnabranchPostgresWire
import AnabranchTesting
import Testing

/// Stores in PostgreSQL that are only read (`Spec/Postgres.md`, section 7).
@Suite struct PostgresReaderTests {
    private static let object = ChangesetWriter([
        .addTable("T"), .addColumn("T", "n"), .createObject(ObjectName(className: "T", key: .int(1))),
    ]).bytes

    /// Two clients have written to a file.
    private static func write(to database: TestDatabase) throws {
        let file = try SyncedFile.open(in: try PostgresStore(database), keepsState: true)
        let idents = try [file.allocateIdent().ident, file.allocateIdent().ident]
        try file.integrate(Upload([object]), from: idents[0])
        try file.integrate(Upload([ChangesetWriter.setting(1, to: 2)], base: 1), from: idents[1])
    }

    @Test func whatIsReadIsOfOneMoment() throws {
        let database = try TestDatabase()
        try Self.write(to: database)
        let reader = try PostgresReader(database.url)
        let file = try #require(try reader.file(VirtualPath("/a")))
        try Self.write(to: database)
        #expect(file.head.version == 2)
        let state = try file.state(at: 2).canonicalJSON()
        #expect(try file.withView { view throws(HistoryError) in try view.head() } == file.head)
        #expect(try file.withView { view throws(HistoryError) in try view.state(at: 2) }.canonicalJSON() == state)
        var count = 0
        try file.forEachEntry { _ in count += 1 }
        try reader.forEachFile { #expect($0.head == file.head) }
        #expect(count == 2)
        #expect(try PostgresReader(database.url).file(VirtualPath("/a"))?.head.version == 4)
    }

    @Test func aDatabaseWithoutAStoreGetsNone() throws {
        let database = try TestDatabase()
        #expect(try code { _ = try PostgresReader(database.url) } == .storeUnusable)
        let connection = try PostgresConnection(database.url)
        #expect(try connection.query("SELECT 1 FROM pg_namespace WHERE nspname = 'anabranch_store'").count == 0)
    }

    @Test(arguments: [
        ("UPDATE synced_file SET version_salt = 0", StoreDamage.Kind.checksum),
        ("UPDATE client_file SET last_seen = last_seen + 1 WHERE ident = 2", .checksum),
        ("DELETE FROM client_file WHERE ident = 2", .continuity),
        ("UPDATE log_entry SET changeset = '\\x00' WHERE version = 1", .checksum),
        ("UPDATE log_entry SET origin = 3 WHERE version = 1", .checksum),
        ("DELETE FROM conflict_key WHERE version = 1", .conflictKeys),
        ("UPDATE state_row SET content = content || '\\x00' WHERE class = 1", .state),
        ("DELETE FROM state_row WHERE class = 1", .state),
        ("INSERT INTO received VALUES ((SELECT id FROM synced_file), 1, 1, '', '')", .checksum),
        ("DELETE FROM synced_file", .continuity),
    ])
    func damageIsFound(_ change: String, _ kind: StoreDamage.Kind) throws {
        let database = try TestDatabase()
        try Self.write(to: database)
        func damages() throws -> [StoreDamage] {
            let reader = try PostgresReader(database.url)
            var damages = try reader.checkStore()
            try reader.forEachFile { damages += try reader.check($0).damages }
            return damages
        }
        #expect(try damages() == [])
        try PostgresConnection(database.url).execute("SET search_path = anabranch_store; \(change)")
        let found = try damages()
        #expect(found.contains { $0.kind == kind }, "\(found)")
    }
}
