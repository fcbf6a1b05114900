import AnabranchCore
import AnabranchTesting
import Testing

@testable import AnabranchHistory
@testable import AnabranchSQLite

/// Damage to the views of a flexible file is found; the client files of those that are damaged expire.
@Suite struct ViewDamageTests {
    /// Long values are kept in another place.
    private static let wide = SubscriptionSet(
        version: 3, query: Array(#"{"Note":"TRUEPREDICATE OR text == '\#(String(repeating: "a", count: 600))'"}"#.utf8))

    @Test(arguments: [
        "UPDATE view_entry SET changeset = changeset || x'00' WHERE ident = 2 AND number = 1",
        "UPDATE view_entry SET merged = x'00' WHERE ident = 2 AND number = 1",
        "UPDATE view_entry SET version = version + 1 WHERE ident = 2 AND number = 1",
        "UPDATE view_entry SET version = 1 WHERE ident = 2 AND number = 1",
        "UPDATE view_entry SET bootstrap = 7 WHERE ident = 2 AND number = 1",
        "UPDATE view_entry SET client_version = client_version + 1 WHERE ident = 2 AND number = 1",
        "UPDATE view_entry SET changeset = 'x' WHERE ident = 2 AND number = 1",
        "UPDATE view_entry SET content_bytes = 7 WHERE ident = 2 AND content IS NOT NULL",
        "UPDATE view_content SET content = content || x'00'", "DELETE FROM view_content",
        "DELETE FROM view_entry WHERE ident = 2 AND number = 1",
        "DELETE FROM view_entry WHERE ident = 2 AND number = (SELECT MAX(number) FROM view_entry WHERE ident = 2)",
        "UPDATE client_view SET predicates = '{}', set_content = NULL WHERE ident = 2",
        "UPDATE client_view SET predicates = '{', set_content = NULL WHERE ident = 2",
        "UPDATE client_view SET set_content = x'00' WHERE ident = 2",
        "UPDATE view_entry SET compensation = '{}' WHERE ident = 2",
        "UPDATE view_entry SET in_log = 1 WHERE ident = 2",
        "UPDATE client_view SET projected = projected - 1 WHERE ident = 2",
        "UPDATE client_view SET logged = NULL WHERE ident = 2", "UPDATE client_view SET logged = x'80' WHERE ident = 2",
        "UPDATE client_view SET checksum = x'00' WHERE ident = 2", "DELETE FROM client_view WHERE ident = 2",
    ])
    func damageIsFoundAndTheClientBeginsAnew(sql: String) throws {
        var fixture = try FlexibleFixture(.sqlite)
        var (other, session) = try FlexibleFixture.join(fixture.synced, fixture.file)
        #expect(try fixture.file.query(FlexibleFixture.all, in: &session) == nil)
        for key in 0..<4 { try fixture.create(Int64(key), bytes: 300) }
        try fixture.integrate()
        // Its view is stored again, with what it has as it is in the log.
        for set in [SubscriptionSet(version: 2, query: Array("{}".utf8)), Self.wide] {
            #expect(try fixture.file.query(set, in: &fixture.session) == nil)
            try fixture.integrate()
        }
        while let message = try fixture.file.download(for: &session) { try other.integrate(message.download) }
        let store = try #require(fixture.test.store as? SQLiteStore), directory = fixture.test.path
        try store.close()
        #expect(try StoppedStore.damages(in: directory) == [])
        try StoppedStore.change(directory, sql)
        let found = try StoppedStore.damages(in: directory)
        #expect(!found.isEmpty && found.allSatisfy { $0.kind == .view && $0.place.hasSuffix(" 2") }, "\(found)")
        // Its client is not served from it, also where it would only miss something; others are.
        if !sql.hasPrefix("DELETE FROM client_view") {
            try fixture.restart(isClosed: true)
            #expect {
                try fixture.identify()
                while try fixture.file.download(for: &fixture.session) != nil {}
                _ = try fixture.file.loaded(
                    fixture.file.view(of: fixture.client.ident)?.log.entries ?? [], of: fixture.client.ident)
            } throws: {
                ($0 as? HistoryError)?.code == .storeDamaged
            }
            _ = try FlexibleFixture.join(fixture.synced, fixture.file)
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
