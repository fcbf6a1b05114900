import AnabranchCore
@testable import AnabranchHistory
@testable import AnabranchPostgres
import AnabranchPostgresWire
import AnabranchTesting
import Testing

/// What the store in PostgreSQL does when connections, other nodes or the server are not as they should be
/// (`Spec/Postgres.md`).
@Suite struct PostgresFaultTests {
    private static func store(on server: TestPostgres, seconds: Double) throws -> PostgresStore {
        var options = PostgresStore.Options()
        (options.requiresDurability, options.seconds) = (false, seconds)
        return try PostgresStore(server.url(try server.makeDatabase()), options: options)
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
        try connection.execute("SET statement_timeout = 300")
        store.writers.giveBack(connection)
        #expect(try code { _ = try file.allocateIdent() } == .storeFailed)
    }

    @Test func aStatementThatTheServerHasForgottenFailsOnce() throws {
        let store = try PostgresStore(try TestDatabase()), file = try SyncedFile.open(in: store)
        let ident = try file.allocateIdent().ident
        let connection = try store.writers.take()
        _ = try connection.pipeline([PostgresStep("DEALLOCATE ALL")])
        store.writers.giveBack(connection)
        #expect(try code { _ = try file.allocateIdent() } == .storeFailed)
        #expect(try SyncedFile.open(in: store).allocateIdent().ident == ident + 1)
    }

    @Test func afterOneConnectionHasBrokenTheIdleOnesAreNotUsed() throws {
        let store = try PostgresStore(try TestDatabase())
        let one = try store.readers.take(), other = try store.readers.take()
        store.readers.giveBack(other)
        one.close()
        store.readers.giveBack(one)
        let next = try store.readers.take()
        defer { store.readers.giveBack(next) }
        #expect(next !== other)
    }
}
