import AnabranchCore
import AnabranchTesting
import Testing

@testable import AnabranchHistory
@testable import AnabranchSQLite

/// Damage to the views of a flexible file is found; the client files of those that are damaged expire.
@Suite struct ViewDamageTests {
    @Test(arguments: [
        "UPDATE view_entry SET changeset = changeset || x'00' WHERE ident = 2 AND number = 3",
        "UPDATE view_entry SET merged = x'00' WHERE ident = 2 AND number = 3",
        "UPDATE view_entry SET version = version + 1 WHERE ident = 2 AND number = 3",
        "UPDATE view_entry SET version = 1 WHERE ident = 2 AND number = 1",
        "UPDATE view_entry SET bootstrap = 7 WHERE ident = 2 AND number = 3",
        "UPDATE view_entry SET client_version = client_version + 1 WHERE ident = 2 AND number = 3",
        "UPDATE view_entry SET changeset = 'x' WHERE ident = 2 AND number = 3",
        "DELETE FROM view_entry WHERE ident = 2 AND number = 3",
        "DELETE FROM view_entry WHERE ident = 2 AND number = (SELECT MAX(number) FROM view_entry WHERE ident = 2)",
        "UPDATE client_view SET predicates = '{}' WHERE ident = 2",
        "UPDATE client_view SET predicates = '{' WHERE ident = 2",
        "UPDATE view_entry SET compensation = '{}' WHERE ident = 2",
        "UPDATE view_entry SET in_log = 1 WHERE ident = 2",
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
        #expect(try StoppedStore.damages(in: directory) == [])
        try StoppedStore.change(directory, sql)
        let found = try StoppedStore.damages(in: directory)
        #expect(!found.isEmpty && found.allSatisfy { $0.kind == .view && $0.place.hasSuffix(" 2") }, "\(found)")
        // Nobody is served from it, also where a client would only miss something.
        if !sql.hasPrefix("DELETE FROM client_view") {
            #expect { try fixture.restart(isClosed: true) } throws: { ($0 as? HistoryError)?.code == .storeDamaged }
            try (fixture.test.store as? SQLiteStore)?.close()
        }

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
