import AnabranchCore
import AnabranchTesting
import GRDB
import Testing

@testable import AnabranchHistory
@testable import AnabranchSQLite

/// Damage to the views of a flexible file is found; the client files of those that are damaged expire.
@Suite struct ViewDamageTests {
    private static func damages(in directory: String) throws -> [StoreDamage] {
        var damages: [StoreDamage] = []
        try StoreVerification(directory: directory).checkFiles { damages += $0.damages }
        return damages
    }

    private static func change(_ directory: String, _ sql: String) throws {
        let queue = try DatabaseQueue(path: directory + "/shard-00.sqlite")
        try queue.write { db in
            try db.execute(sql: sql)
            #expect(db.changesCount > 0, "\(sql)")
        }
        try queue.close()
    }

    @Test(arguments: [
        "UPDATE view_entry SET changeset = changeset || x'00' WHERE ident = 2 AND number = 3",
        "UPDATE view_entry SET merged = x'00' WHERE ident = 2 AND number = 3",
        "UPDATE view_entry SET version = version + 1 WHERE ident = 2 AND number = 3",
        "UPDATE view_entry SET changeset = 'x' WHERE ident = 2 AND number = 3",
        "DELETE FROM view_entry WHERE ident = 2 AND number = 3",
        "DELETE FROM view_entry WHERE ident = 2 AND number = (SELECT MAX(number) FROM view_entry WHERE ident = 2)",
        "UPDATE client_view SET predicates = '{}' WHERE ident = 2",
        "UPDATE client_view SET predicates = '{' WHERE ident = 2",
        "UPDATE client_view SET compensations = '[1]' WHERE ident = 2",
        "UPDATE client_view SET projected = projected - 1 WHERE ident = 2",
        "UPDATE client_view SET checksum = x'00' WHERE ident = 2", "DELETE FROM client_view WHERE ident = 2",
    ])
    func damageIsFoundAndTheClientBeginsAnew(sql: String) throws {
        var fixture = try FlexibleFixture(.sqlite)
        var (other, session) = try FlexibleFixture.join(fixture.synced, fixture.file)
        #expect(try fixture.file.query(FlexibleFixture.all, in: &session) == nil)
        for key in 0..<4 { try fixture.create(Int64(key)) }
        try fixture.integrate()
        while let message = try fixture.file.download(for: &session) { try other.integrate(message.download) }
        let store = try #require(fixture.test.store as? SQLiteStore), directory = fixture.test.path
        try store.close()
        #expect(try Self.damages(in: directory) == [])
        try Self.change(directory, sql)
        let found = try Self.damages(in: directory)
        #expect(!found.isEmpty && found.allSatisfy { $0.kind == .view && $0.place.hasSuffix(" 2") }, "\(found)")

        let repair = try StoreRepair(directory: directory)
        var repaired: [RepairedFile] = []
        try repair.run { repaired.append($0) }
        try repair.close()
        #expect(repaired.map(\.repaired) == [.views] && repaired.allSatisfy { $0.damages.isEmpty }, "\(repaired)")
        try fixture.restart(isClosed: true)
        #expect { try fixture.identify() } throws: { ($0 as? HistoryError)?.code == .clientFileExpired }
        try fixture.create(9)
        var request = other.identRequest
        request.subscriptions = FlexibleFixture.all
        other.startSession()
        session = try fixture.file.identify(request)
        while let message = try fixture.file.download(for: &session) { try other.integrate(message.download) }
        #expect(try other.state.read { try $0.objects("Note").count } == 5)
    }
}
