import AnabranchCore
import AnabranchHistory
import AnabranchTesting
import Testing

@testable import AnabranchServer

/// Reading the objects of asymmetric classes.
@Suite struct AdminIngestedTests {
    /// A store with a file of flexible sync to which a client has uploaded two such objects, and another one.
    private static func store() throws -> InMemoryStore {
        let store = InMemoryStore(), synced = try SyncedFile(path: VirtualPath("demo"), store: store)
        let file = try FlexibleFile(synced)
        try file.write(at: 1) { transaction in
            try transaction.addClass("Reading", key: "_id", .int, isAsymmetric: true)
        }
        var client = MemoryClient(try synced.allocateIdents(for: ["ann"], at: 1)[0])
        var session = try file.identify(client.identRequest)
        while let message = try file.download(for: &session) { try client.integrate(message.download) }
        try client.write(at: 2) { transaction in
            for key in 1...2 { try transaction.create("Reading", key: .int(Int64(key))) }
        }
        while let upload = client.nextUpload(.max), let rest = try session.progress.accept(upload) {
            try file.integrate(rest, from: client.ident, at: 1_700_000_000)
        }
        _ = try SyncedFile(path: VirtualPath("demo/x"), store: store).allocateIdents(for: [nil], at: 1)
        return store
    }

    @Test func aConsumerListsThemAndFreesThem() async throws {
        try await AppServicesRig.run(store: try Self.store()) {
            $0.flexibleApps = ["demo"]
        } _: { rig async throws in
            let listed = try #require(try await rig.admin("GET", "/v1/ingested?path=demo").json)
            let objects = try #require(listed["ingested"]?.array)
            #expect(objects.map { $0["object"] } == [#"[{"int":"1"},{}]"#, #"[{"int":"2"},{}]"#])
            #expect(objects.allSatisfy { $0["class"] == "Reading" && $0["user"] == "ann" })
            #expect(objects.allSatisfy { $0["time"] == 1_700_000_000 })
            let first = try #require(objects.first?["number"])
            #expect(try await rig.admin("/v1/ingested/free", ["path": "demo", "through": first]).status == 200)
            let rest = try await rig.admin("GET", "/v1/ingested?path=demo&limit=1").json
            #expect(rest?["ingested"]?.array?.map { $0["object"] } == [#"[{"int":"2"},{}]"#])
            let next = try #require(rest?["next"]?.string)
            #expect(try await rig.admin("GET", "/v1/ingested?path=demo&after=\(next)").json == ["ingested": []])
            #expect(try await rig.admin("GET", "/v1/ingested?path=demo%2Fx").status == 400)
            #expect(try await rig.admin("GET", "/v1/ingested?path=demo%2Fy").status == 404)
        }
    }
}
