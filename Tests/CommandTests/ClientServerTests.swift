import AnabranchServer
import Testing

@testable import anabranch

/// The values of `--url` of `anabranch client`.
@Suite struct ClientServerTests {
    @Test(arguments: [
        (
            "ws://127.0.0.1:9090", "ws://127.0.0.1:9090/api/client/v2.0/app/a/realm-sync?baas_at=",
            "http://127.0.0.1:9090"
        ),
        (
            "https://example.com/sync/", "wss://example.com/sync/api/client/v2.0/app/a/realm-sync?baas_at=",
            "https://example.com/sync"
        ),
    ])
    func aServerMayBeBelowAPath(url: String, route: String, baseURL: String) throws {
        let server = try ClientServer(url)
        #expect(!server.isRoute)
        #expect(server.route(to: "a") == route)
        #expect(server.route(to: "") == route.replacing("/api/client/v2.0/app/a", with: ""))
        #expect(server.baseURL == baseURL)
    }

    @Test(arguments: ["wss://example.com/x/realm-sync", "wss://example.com/realm-sync?baas_at=t", "ws://a/?x=y"])
    func aRouteIsUsedAsItStands(url: String) throws {
        let server = try ClientServer(url)
        #expect(server.isRoute && server.route(to: "a") == url)
    }

    /// It was taken for the URL of a WebSocket, to which no connection came about.
    @Test(arguments: ["http://127.0.0.1:9090/x?y=z", "https://example.com?", "ws://a/#b", "ws://u@a"])
    func whatIsNoServerIsRefused(url: String) {
        #expect(throws: InputError.self) { try ClientServer(url) }
    }

    @Test func aConfiguredPathIsThatOfTheServer() throws {
        for (url, path) in [("https://example.com", ""), ("https://example.com:8443/sync/a", "/sync/a")] {
            let configuration = try Configuration(
                file: nil, environment: [:], flags: ["public-url": url, "dev": "true"])
            #expect(configuration.server(cores: 1).basePath == path)
            #expect(configuration.appServices.publicURL == url)
        }
    }
}
