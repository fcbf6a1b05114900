import NIOHTTP1
import Testing

@testable import AnabranchServer

/// Routes, and a wire over HTTP with answers that wait.
@Suite(.timeLimit(.minutes(30))) struct EndpointTests {
    private static func named(_ name: String, at prefix: String) -> HTTPRoute {
        HTTPRoute(prefix, to: AnsweringEndpoints { .text("\(name) \($0.path) \($0.query)") })
    }

    // MARK: Routes

    @Test(arguments: [
        ("/", "root / "), ("/ot", "root /ot "), ("/ota", "ota /ota "), ("/ota?a=b?c", "ota /ota a=b?c"),
        ("/otas", "root /otas "), ("/ota/", "ota /ota/ "), ("/ota/x/y", "ota /ota/x/y "),
        ("/ota/chunks", "chunks /ota/chunks "), ("/ota/chunks/1?", "chunks /ota/chunks/1 "),
        ("/base/ota/1", "ota /ota/1 "), ("/base", "root /base "), ("/%6fta", "root /%6fta "),
    ])
    func theLongestPrefixAnswers(uri: String, answer: String) async throws {
        var settings = ServerSettings.small
        settings.basePath = "/base"
        let routes = [
            Self.named("ota", at: "/ota"), Self.named("root", at: "/"), Self.named("chunks", at: "/ota/chunks"),
        ]
        try await withServer(settings: settings, routes: routes) { server in
            let client = try await WebSocketClient(port: server.port)
            let response = try await client.request("GET \(uri) HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try await client.body(of: response) == answer)
        }
    }

    @Test func aPathOfNoRouteIsNotFound() async throws {
        try await withServer(routes: [Self.named("ota", at: "/ota")]) { server in
            let client = try await WebSocketClient(port: server.port)
            let response = try await client.request("GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(response.hasPrefix("HTTP/1.1 404"))
            #expect(try await client.body(of: response).contains("NotFound"))
        }
    }

    // MARK: The counter

    private static func withCounter(
        settings: ServerSettings = .small,
        _ body: (CounterEndpoints, RunningServer) async throws -> Void
    ) async throws {
        let counter = CounterEndpoints()
        try await withServer(settings: settings, routes: [HTTPRoute("/counter", to: counter)]) { server in
            try await body(counter, server)
        }
    }

    private static func add(_ number: Int, at server: RunningServer) async throws {
        let client = try await WebSocketClient(port: server.port)
        let response = try await client.request(
            "POST /counter HTTP/1.1\r\nHost: a\r\nContent-Length: \("\(number)".count)\r\n\r\n\(number)")
        #expect(response.hasPrefix("HTTP/1.1 200"))
    }

    @Test func headersAreThoseOfTheEndpointButForTheLength() async throws {
        try await Self.withCounter { _, server in
            try await Self.add(41, at: server)
            let client = try await WebSocketClient(port: server.port)
            for method in ["HEAD", "GET", "HEAD", "GET"] {
                let response = try await client.request("\(method) /counter HTTP/1.1\r\nHost: a\r\n\r\n")
                #expect(response.contains("ETag: \"41\"\r\n"))
                #expect(response.contains("Content-Length: 2\r\n"))
                #expect(!response.contains("9999"))
                // Nothing follows the head of a HEAD, or the next answer would not begin where it does.
                if method == "GET" { #expect(try await client.body(of: response) == "41") }
            }
        }
    }

    @Test func manyWaitForOneChange() async throws {
        var settings = ServerSettings.small
        settings.connectionsPerUserMax = 1_000
        try await Self.withCounter(settings: settings) { counter, server in
            let count = 300
            try await withThrowingTaskGroup(of: String.self) { group in
                for _ in 0..<count {
                    group.addTask {
                        let client = try await WebSocketClient(port: server.port)
                        let response = try await client.request("GET /counter/next?ann HTTP/1.1\r\nHost: a\r\n\r\n")
                        return try await client.body(of: response)
                    }
                }
                await counter.wait(forWaiting: count)
                try await Self.add(7, at: server)
                for try await body in group { #expect(body == "7") }
            }
            #expect(counter.cancelledCount == 0)
        }
    }

    @Test func answersThatWaitCountAsConnectionsOfTheirUser() async throws {
        var settings = ServerSettings.small
        settings.connectionsPerUserMax = 2
        try await Self.withCounter(settings: settings) { counter, server in
            var clients: [WebSocketClient] = []
            for _ in 0..<2 {
                let client = try await WebSocketClient(port: server.port)
                try await client.write(Array("GET /counter/next?ann HTTP/1.1\r\nHost: a\r\n\r\n".utf8))
                clients.append(client)
            }
            await counter.wait(forWaiting: 2)
            let third = try await WebSocketClient(port: server.port)
            let request = "GET /counter/next?ann HTTP/1.1\r\nHost: a\r\n\r\n"
            #expect(try await third.request(request).hasPrefix("HTTP/1.1 503"))
            try await Self.add(1, at: server)
            for client in clients { #expect(try await client.answer().hasPrefix("HTTP/1.1 200")) }
            // The sockets are still open, and wait for nothing.
            try await third.write(Array(request.utf8))
            await counter.wait(forWaiting: 1)
            try await Self.add(1, at: server)
            #expect(try await third.answer().hasPrefix("HTTP/1.1 200"))
        }
    }

    @Test func whoLeavesIsNotWaitedFor() async throws {
        try await Self.withCounter { counter, server in
            let client = try await WebSocketClient(port: server.port)
            try await client.write(Array("GET /counter/next?ann HTTP/1.1\r\nHost: a\r\n\r\n".utf8))
            await counter.wait(forWaiting: 1)
            try await client.close()
            await counter.waitForCancellation()
            #expect(counter.waitingCount == 0)
        }
    }

    @Test(arguments: ["next?ann", "all"])
    func aShutdownDoesNotWaitForAnAnswerThatWaits(path: String) async throws {
        var settings = ServerSettings.small
        settings.shutdownSecondsMax = 60 * 60
        try await Self.withCounter(settings: settings) { counter, server in
            let client = try await WebSocketClient(port: server.port)
            try await client.write(Array("GET /counter/\(path) HTTP/1.1\r\nHost: a\r\n\r\n".utf8))
            await counter.wait(forWaiting: 1)
            try await server.end()
            #expect(counter.waitingCount == 0)
        }
    }

    @Test func aStreamTellsEachChangeAtOnce() async throws {
        try await Self.withCounter { counter, server in
            let client = try await WebSocketClient(port: server.port)
            let response = try await client.request("GET /counter/all HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(response.lowercased().contains("transfer-encoding: chunked\r\n"))
            #expect(!response.lowercased().contains("content-length"))
            for number in 0..<5 {
                let text = "2\r\n\(number)\n\r\n"
                #expect(try await client.text(ofBytes: text.utf8.count) == text)
                await counter.wait(forWaiting: 1)
                try await Self.add(1, at: server)
            }
        }
    }
}
