import AnabranchProtocol
import NIOHTTP1
import Testing

@testable import AnabranchServer

/// The clients that get a WebSocket, and the answers to all others (`Spec/Protocol.md`, section 2).
@Suite(.timeLimit(.minutes(30))) struct HandshakeTests {
    @Test(
        "the two paths lead in, with and without a query",
        arguments: [
            "/realm-sync", "/realm-sync?baas_at=", "/api/client/v2.0/app/my-app/realm-sync",
            "/api/client/v2.0/app/my-app/realm-sync?baas_at=abc.def.ghi&more=1",
        ])
    func paths(path: String) async throws {
        try await withServer { server in
            let client = try await WebSocketClient.open(port: server.port, path: path)
            let head = client.response.lowercased()
            #expect(head.contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=\r\n"))
            #expect(head.contains("sec-websocket-protocol: com.mongodb.realm-sync#14\r\n"))
            #expect(head.contains("upgrade: websocket\r\n") && head.contains("connection: upgrade\r\n"))
            try await client.send("ping 1 0\n")
            #expect(try await client.message().words == ["pong", "1"])
        }
    }

    @Test(
        "the highest version that both know is echoed byte for byte",
        arguments: [
            ("com.mongodb.realm-sync/7, com.mongodb.realm-sync/6", "com.mongodb.realm-sync/7"),
            ("com.mongodb.realm-sync#3,com.mongodb.realm-sync#11", "com.mongodb.realm-sync#11"),
            ("chat, com.mongodb.realm-sync#15 , com.mongodb.realm-sync#2", "com.mongodb.realm-sync#2"),
        ])
    func negotiation(offer: String, answer: String) async throws {
        try await withServer { server in
            let client = try await WebSocketClient.open(port: server.port, offer: offer)
            #expect(client.response.lowercased().contains("sec-websocket-protocol: \(answer)\r\n"))
        }
    }

    @Test(
        "a client that speaks flexible sync, or no version of the server, is let in and told so",
        arguments: [("com.mongodb.realm-query-sync#14", "114"), ("com.mongodb.realm-sync#99", "105")])
    func refusal(offer: String, code: String) async throws {
        try await withServer { server in
            let client = try await WebSocketClient.open(port: server.port, offer: offer)
            #expect(try await client.message().words[1] == code)
            #expect(await client.isAtEnd())
        }
    }

    private static let good = """
        Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r
        Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: com.mongodb.realm-sync#14\r\n
        """

    @Test(
        "anything else is answered with a status and JSON",
        arguments: [
            ("GET / HTTP/1.1", good, 404), ("GET /realm-sync/ HTTP/1.1", good, 404), ("POST /x HTTP/1.1", "", 404),
            ("GET /api/client/v2.0/app//realm-sync HTTP/1.1", good, 404),
            ("GET /api/client/v2.0/app/a/b/realm-sync HTTP/1.1", good, 404),
            ("GET /api/client/v2.0/app/realm-sync HTTP/1.1", good, 404),
            ("GET /realm-sync HTTP/1.1", "", 400), ("POST /realm-sync HTTP/1.1", good, 400),
            ("GET /realm-sync HTTP/1.1", good.replacing("realm-sync#14", with: "chat"), 400),
            ("GET /realm-sync HTTP/1.1", good.replacing("Version: 13", with: "Version: 8"), 400),
            ("GET /realm-sync HTTP/1.1", good.replacing("Upgrade: websocket", with: "Upgrade: h2c"), 400),
            ("GET /realm-sync HTTP/1.1", good.replacing("Connection: Upgrade", with: "Connection: close"), 400),
            ("GET /realm-sync HTTP/1.1", good.replacing("dGhlIHNhbXBsZSBub25jZQ==", with: "short"), 400),
            (
                "GET /realm-sync HTTP/1.1",
                good.replacing("dGhlIHNhbXBsZSBub25jZQ==", with: "dGhlIHNhbXBsZSBub25j?Q=="), 400
            ),
            ("GET /realm-sync HTTP/1.1", good.replacing("Sec-WebSocket-Key:", with: "X-Key:"), 400),
            ("GET /realm-sync HTTP/1.1", good + "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", 400),
        ])
    func refused(line: String, headers: String, status: Int) async throws {
        try await withServer { server in
            let client = try await WebSocketClient(port: server.port)
            let response = try await client.request("\(line)\r\nHost: localhost\r\nContent-Length: 0\r\n\(headers)\r\n")
            #expect(response.hasPrefix("HTTP/1.1 \(status) "))
            #expect(response.contains("Content-Type: application/json\r\n"))
            let body = try await client.body(of: response)
            #expect(body.hasPrefix(#"{"error":""#) && body.contains(#""error_code":"#))
        }
    }

    @Test("an app has no slash in its name, not even under an accent", arguments: ["a/b", "a/\u{301}b", "/\u{301}"])
    func slash(app: String) {
        let head = HTTPRequestHead(version: .http1_1, method: .GET, uri: "/api/client/v2.0/app/\(app)/realm-sync")
        #expect(!SyncHandshake.isSyncRequest(head, in: [.realm]))
    }

    @Test("an HTTP connection serves several requests")
    func severalRequests() async throws {
        try await withServer { server in
            let client = try await WebSocketClient(port: server.port)
            for _ in 0..<3 {
                let response = try await client.request("GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n")
                #expect(response.hasPrefix("HTTP/1.1 404 "))
                _ = try await client.body(of: response)
            }
            _ = try await client.request("GET /nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            _ = try await client.body(of: client.response)
            #expect(await client.isAtEnd())
        }
    }

    @Test("connections beyond the limit are closed")
    func tooMany() async throws {
        var settings = ServerSettings.small
        settings.connectionsMax = 2
        try await withServer(settings: settings) { server in
            let first = try await WebSocketClient.open(port: server.port)
            let second = try await WebSocketClient.open(port: server.port)
            let third = try await WebSocketClient(port: server.port)
            #expect(await third.isAtEnd())
            for client in [first, second] {
                try await client.send("ping 1 0\n")
                #expect(try await client.message().kind == "pong")
            }
        }
    }

    @Test("a web page is not let in without a token: any page may be open on a machine that is trusted")
    func webPages() async throws {
        try await withServer { server in
            let page = try await WebSocketClient.open(port: server.port, headers: "Origin: http://localhost:3000\r\n")
            #expect(try await page.receive().closeCode == 4002)
            #expect(await page.isAtEnd())
        }
        var settings = AppServicesRig.development
        settings.userWithoutToken = "developer"
        try await AppServicesRig.run(settings) { rig async throws in
            let token = try await rig.newUser("ann@example.com").access
            let app = "/api/client/v2.0/app/demo/realm-sync"
            for path in ["/realm-sync", "/realm-sync?baas_at=\(token)", app, "\(app)?baas_at=\(token)"] {
                let page = try await WebSocketClient.open(port: rig.port, path: path, headers: "Origin: null\r\n")
                try? await page.send("ping 1 0\n")
                let answer = try await page.receive()
                #expect((answer.closeCode == nil) == (path.hasPrefix(app + "?")), "\(path)")
            }
        }
    }

    // MARK: Tokens

    private struct Guard: Authenticator {
        let admission: Admission

        func admit(_ credentials: Credentials) async -> Admission {
            let isRight = credentials.app == "app" && credentials.token == "a.b.c"
            return isRight ? .admitted(Principal(app: credentials.app, user: "somebody")) : admission
        }
    }

    @Test(
        "a refused token is answered by a close code, to old clients by a status",
        arguments: [
            (Admission.tokenRefused(reason: "old"), 14, 4001), (.tokenRefused(reason: "old"), 7, 401),
            (.userRefused(reason: "gone"), 14, 4002), (.userRefused(reason: "gone"), 7, 403),
        ])
    func token(admission: Admission, version: Int, answer: Int) async throws {
        try await withServer(authenticator: Guard(admission: admission)) { server in
            let offer = "com.mongodb.realm-sync\(version < 8 ? "/" : "#")\(version)"
            let path = "/api/client/v2.0/app/app/realm-sync?baas_at="
            if version < 8 {
                do {
                    _ = try await WebSocketClient.open(port: server.port, path: path + "wrong", offer: offer)
                    Issue.record("let in")
                } catch let error as WebSocketClient.HandshakeRefused {
                    #expect(error.response.hasPrefix("HTTP/1.1 \(answer) "))
                }
            } else {
                let client = try await WebSocketClient.open(port: server.port, path: path + "wrong", offer: offer)
                #expect(try await client.receive().closeCode == answer)
                #expect(await client.isAtEnd())
            }
            let client = try await WebSocketClient.open(port: server.port, path: path + "a.b.c", offer: offer)
            try await client.send("ping 1 0\n")
            #expect(try await client.message().kind == "pong")
        }
    }

    @Test("a client file belongs to the user who created it, and partitions to their app")
    func users() async throws {
        struct ByToken: Authenticator {
            func admit(_ credentials: Credentials) async -> Admission {
                .admitted(Principal(app: credentials.app, user: credentials.token))
            }
        }
        try await withServer(authenticator: ByToken()) { server in
            func open(_ app: String, _ token: String) async throws -> WebSocketClient {
                try await WebSocketClient.open(
                    port: server.port, path: "/api/client/v2.0/app/\(app)/realm-sync?baas_at=\(token)")
            }
            let owner = try await open("one", "ann")
            try await owner.send("bind 1 1 0 1 0\nx")
            let ident = try await owner.message().words
            let thief = try await open("one", "bob")
            try await thief.send("bind 1 1 0 0 0\nx")
            try await thief.send("ident 1 \(ident[2]) \(ident[3]) 0 0 0 0\n")
            #expect(try await thief.message().words.prefix(2) == ["json_error", "223"])
            let stranger = try await open("two", "ann")
            try await stranger.send("bind 1 1 0 0 0\nx")
            try await stranger.send("ident 1 \(ident[2]) \(ident[3]) 0 0 0 0\n")
            #expect(try await stranger.message().words.prefix(2) == ["json_error", "208"])
        }
    }
}
