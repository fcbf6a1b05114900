import AnabranchCore
import AnabranchHistory
import Testing

@testable import AnabranchServer

/// An operator's view of the past that synced files keep, and actions on it.
@Suite struct AdminHistoryTests {
    private static let query = "?path=demo%2Fx"

    /// A store with a file of 21 entries, all by the first of its two client files.
    private static func store() throws -> InMemoryStore {
        let store = InMemoryStore(), rig = TurnRig(store: store, keepsState: true)
        let client = try rig.join("demo/x", count: 2)[0]
        rig.upload([TurnRig.object] + TurnRig.updates(20), of: client)
        rig.finish()
        return store
    }

    @Test func whatAFileKeepsAndBecauseOfWhom() async throws {
        try await AppServicesRig.run(store: try Self.store()) { rig async throws in
            let file = try #require(try await rig.admin("GET", "/v1/file" + Self.query).json)
            let listed = try await rig.admin("GET", "/v1/files").json?["files"]?.array?.first
            let members = [
                "path", "version", "base_version", "state_version", "log_bytes", "archived_bytes", "clients",
            ]
            for member in members {
                #expect(file[member] == listed?[member] && file[member] != nil, "\(member)")
            }
            #expect(file["version"] == 21 && file["state_version"] == 21 && file["may_be_due"] == false)
            #expect(file["sealed_version"] == 0 && file["generation_version"] == 0)
            #expect(file["state_bytes"]?.integer ?? 0 > 0)
            let pin = try #require(file["pinned_by"])
            #expect(pin["client"] == 2 && pin["user"] == .null && pin["version"] == 0 && pin["last_seen"] == 1)
            #expect(pin["bytes"] == file["log_bytes"])
            let freed = try await rig.admin("/v1/clients/expire", ["path": "demo/x", "client": 2, "dry_run": true])
            // While there is no generation, nothing goes.
            #expect(freed.json == ["entries": 0, "bytes": 0, "keep": "drop", "pinned_by": .null])
            let clients = try await rig.admin("GET", "/v1/clients" + Self.query).json?["clients"]?.array
            #expect(clients?.map { $0["expired"] } == [false, false])
        }
    }

    @Test func maintenanceIsDoneNow() async throws {
        try await AppServicesRig.run(store: try Self.store()) {
            $0.history.sealEntries = 4
        } _: { rig async throws in
            let done = try await rig.admin("/v1/files/maintain", ["path": "demo/x"])
            #expect(done.status == 200 && done.json?["trimmed_entries"] == 0 && done.json?["expired"] == [])
            let file = try await rig.admin("GET", "/v1/file" + Self.query).json
            #expect(file?["sealed_version"] == 20 && file?["may_be_due"] == true)
            let metrics = try await rig.admin("GET", "/metrics").body.split(separator: "\n")
            #expect(metrics.contains("anabranch_log_entries_sealed_total 20"))
            #expect(metrics.contains("anabranch_clock_jump_seconds 0"))
            #expect(try await rig.admin("/v1/store/maintain", [:]).status == 200)
        }
    }

    @Test func aVersionIsExplained() async throws {
        try await AppServicesRig.run(store: try Self.store()) { rig async throws in
            let explained = try await rig.admin("GET", "/v1/explain?path=demo%2Fx&version=1")
            #expect(explained.status == 200 && explained.json?["certainty"] == "exact")
            #expect(explained.json?["instructions"]?.array?.isEmpty == false)
            let missing = try await rig.admin("GET", "/v1/explain?path=demo%2Fx&version=1000")
            #expect(missing.status == 404 && missing.json?["error_code"] == "NoSuchVersion")
            #expect(try await rig.admin("GET", "/v1/explain?path=demo%2Fy&version=1").status == 404)
            #expect(try await rig.admin("GET", "/v1/explain?path=demo%2Fx").status == 400)
        }
    }

    @Test func theOperatorTrustsTheClock() async throws {
        try await AppServicesRig.run { rig async throws in
            #expect(try await rig.admin("/v1/clock/trust", [:]).json == ["jump": 0])
            rig.clock.advance(by: 200_000)
            let jump = try await rig.admin("/v1/clock/trust", [:]).json?["jump"]?.integer ?? 0
            #expect((199_000...200_000).contains(jump))
            #expect(try await rig.admin("/v1/clock/trust", [:]).json == ["jump": 0])
            #expect(rig.log.text.contains("the clock has jumped"))
        }
    }

    @Test func whatIsNotThereIsNotMade() async throws {
        try await AppServicesRig.run(store: try Self.store()) { rig async throws in
            #expect(try await rig.admin("GET", "/v1/file?path=demo%2Fy").status == 404)
            #expect(try await rig.admin("GET", "/v1/file").status == 400)
            #expect(try await rig.admin("/v1/files/maintain", ["path": "demo/y"]).status == 404)
            #expect(try await rig.admin("/v1/files/maintain", [:]).status == 400)
            let body: JSONValue = ["path": "demo/x", "client": 9, "dry_run": true]
            #expect(try await rig.admin("/v1/clients/expire", body).status == 404)
            #expect(try await rig.admin("GET", "/v1/files").json?["files"]?.array?.count == 1)
        }
    }
}
