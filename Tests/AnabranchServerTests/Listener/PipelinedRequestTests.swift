import AnabranchCore
import AnabranchProtocol
import Metrics
import NIOCore
import NIOHTTP1
import NIOPosix
import Synchronization
import Testing

@testable import AnabranchServer

/// Many requests that are sent at once, and what cannot be read as requests.
@Suite struct PipelinedRequestTests {
    /// Answers that fill the buffers of the system after some hundreds.
    private final class LongAnswers: HTTPEndpoints {
        let count = Atomic(0)

        func respond(to request: EndpointRequest) async -> EndpointResponse {
            count.add(1, ordering: .relaxed)
            return EndpointResponse(status: .ok, text: String(repeating: "x", count: 64 << 10))
        }
    }

    /// Sends everything and reads nothing, with a small buffer for what comes.
    static func connectWithoutReading(port: Int) async throws -> any Channel {
        try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
            .channelOption(.autoRead, value: false)
            .channelOption(.socketOption(.so_rcvbuf), value: 16 << 10)
            .connect(host: "127.0.0.1", port: port).get()
    }

    @Test("who does not read is answered no further, and closed", .timeLimit(.minutes(30)), arguments: [1, 8])
    func unreadAnswers(connections: Int) async throws {
        let answers = LongAnswers(), metrics = CountingMetrics(), requests = 5_000
        var settings = ServerSettings.small
        settings.limits.stallMillisecondsMax = 200
        try await withServer(settings: settings, routes: [HTTPRoute(to: answers)], metrics: metrics) { server in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<connections {
                    group.addTask {
                        let channel = try await Self.connectWithoutReading(port: server.port)
                        let text = String(repeating: "GET /x HTTP/1.1\r\nHost: a\r\n\r\n", count: requests)
                        channel.writeAndFlush(ByteBuffer(string: text), promise: nil)
                        try await channel.closeFuture.get()
                    }
                }
                try await group.waitForAll()
            }
            #expect(metrics.value("anabranch_connections_stalled_total") == connections)
            // What the system keeps for one connection is less than 16 MiB.
            #expect(answers.count.load(ordering: .relaxed) <= connections * 256)
        }
    }

    @Test("who reads is answered each request, in order, also those that are refused")
    func order() async throws {
        try await AppServicesRig.run { rig async throws in
            let count = 600, paths = ["/nothing", "/realm-sync", "/api/client/v2.0/app/demo/location"]
            let requests = (0..<count).map { number in
                let end = number == count - 1 ? "Connection: close\r\n" : ""
                return "GET \(paths[number % 3]) HTTP/1.1\r\nHost: a\r\n\(end)\r\n"
            }
            let text = String(decoding: try await rig.exchange(requests.joined()), as: UTF8.self)
            let statuses = text.matches(of: #/HTTP/1\.1 ([0-9]{3}) /#).map { String($0.1) }
            #expect(statuses == (0..<count).map { ["404", "400", "200"][$0 % 3] })
        }
    }

    private static func lines(_ count: Int, of length: Int = 1) -> String {
        String(repeating: "A: \(String(repeating: "b", count: length))\r\n", count: count)
    }

    private static let long = String(repeating: "b", count: 1_000_000)
    private static let chunked = "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"

    private static let refused: [(name: String, request: String, status: Int)] = [
        ("lines", "GET /x HTTP/1.1\r\n\(lines(3_000))\r\n", 431),
        ("long lines", "GET /x HTTP/1.1\r\n\(lines(200, of: 1_000))", 431),
        ("one line", "GET /x HTTP/1.1\r\nA: \(long)", 431), ("the path", "GET /\(long) HTTP/1.1\r\n\r\n", 431),
        ("trailers", "\(chunked)\(lines(3_000))\r\n", 431),
        ("no method", "\u{1}\u{2}\u{3} / HTTP/1.1\r\n\r\n\(long)", 400),
        ("another version", "GET / HTTP/9.9\r\n\r\n", 400),
    ]

    @Test("what is too long, or no request, is answered", arguments: refused.indices)
    func refusals(index: Int) async throws {
        let (name, request, status) = Self.refused[index]
        try await AppServicesRig.run { rig async throws in
            let answer = try AppServicesRig.Response(try await rig.exchange(request))
            #expect(answer.status == status, "\(name)")
            #expect(answer.headers["connection"] == "close")
            #expect(answer.json?["error_code"]?.string == (status == 431 ? "HeadTooLarge" : "BadRequest"))
        }
    }

    @Test("as much as is allowed", arguments: [(254, 404), (255, 431)])
    func headLines(count: Int, status: Int) async throws {
        try await AppServicesRig.run { rig async throws in
            let lines = String(repeating: "A: b\r\n", count: count)
            let request = "GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\(lines)\r\n"
            #expect(try AppServicesRig.Response(try await rig.exchange(request)).status == status)
        }
    }
}
