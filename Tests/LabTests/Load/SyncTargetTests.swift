import AnabranchTestClient
import Testing

@testable import anabranch_lab

@Suite struct SyncTargetTests {
    @Test(arguments: [
        ("ws://127.0.0.1:9090", "127.0.0.1:9090", "/realm-sync"), ("ws://localhost", "localhost:80", "/realm-sync"),
        ("ws://[::1]:7000/", "[::1]:7000", "/realm-sync"), ("ws://host:1/some/path", "host:1", "/some/path"),
    ])
    func aURLNamesTheServer(_ url: String, _ authority: String, _ path: String) throws {
        let target = try SyncTarget(url: url)
        #expect(target.authority == authority)
        #expect(target.path == path)
    }

    @Test(arguments: ["", "127.0.0.1:9090", "http://127.0.0.1:9090", "wss://host", "ws://", "ws://host/?a=b"])
    func anythingElseIsRefused(_ url: String) {
        #expect(throws: TestClientError.self) { try SyncTarget(url: url) }
    }

    @Test func aTokenGoesWithThePathOfItsApp() throws {
        let target = try SyncTarget(url: "ws://host")
        #expect(target.with(token: "t", app: "a").path == "/api/client/v2.0/app/a/realm-sync?baas_at=t")
        #expect(target.with(token: "t", app: nil).path == "/realm-sync?baas_at=t")
    }
}
