import AnabranchCore
import Testing

@testable import AnabranchServer

/// A server that clients reach below a path of a proxy.
@Suite struct BasePathTests {
    private static func run(_ body: (AppServicesRig) async throws -> Void) async throws {
        var settings = AppServicesRig.development
        settings.publicURL = "https://example.com:8443/sync/a"
        try await AppServicesRig.run(settings, change: { $0.basePath = "/sync/a" }, body)
    }

    @Test func theLocationHasThePath() async throws {
        try await Self.run { rig async throws in
            let location = try await rig.request("GET", "/sync/a/api/client/v2.0/app/demo/location").json
            #expect(location?["hostname"] == "https://example.com:8443/sync/a")
            #expect(location?["ws_hostname"] == "wss://example.com:8443/sync/a")
            #expect(
                location?["sync_route"] == "wss://example.com:8443/sync/a/api/client/v2.0/app/demo/realm-sync")
        }
    }

    @Test("requests come with the path, or without it if the proxy takes it away", arguments: ["/sync/a", ""])
    func requests(path: String) async throws {
        try await Self.run { rig async throws in
            let base = "\(path)/api/client/v2.0", providers = "\(base)/app/demo/auth/providers/local-userpass"
            let body: JSONValue = ["email": "ann@example.com", "password": "correct horse"]
            #expect(try await rig.post("\(providers)/register", body).status == 201)
            let login = try AppServicesRig.Login(
                try await rig.post(
                    "\(providers)/login", ["username": "ann@example.com", "password": "correct horse"]))
            #expect(try await rig.request("GET", "\(base)/auth/profile", token: login.access).status == 200)
            #expect(try await rig.request("POST", "\(base)/auth/session", token: login.refresh).status == 201)
            let client = try await WebSocketClient.open(
                port: rig.port, path: "\(base)/app/demo/realm-sync?baas_at=\(login.access)")
            try await client.send("ping 1 0\n")
            #expect(try await client.message().kind == "pong")
            try await client.close()
        }
    }

    @Test(arguments: ["/sync", "/sync/", "/sync/ab", "/sync/a/sync/a", "//sync/a", "/Sync/a", "/sync/a/."])
    func otherPathsAreNotFound(path: String) async throws {
        try await Self.run { rig async throws in
            #expect(try await rig.request("GET", "\(path)/api/client/v2.0/app/demo/location").status == 404)
            await #expect(throws: WebSocketClient.HandshakeRefused.self) {
                _ = try await WebSocketClient.open(port: rig.port, path: "\(path)/realm-sync")
            }
        }
    }
}
