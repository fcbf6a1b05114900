import AnabranchProtocol
import Metrics
import NIOCore
import NIOHTTP1
import NIOPosix
import Synchronization
import Testing

@testable import AnabranchServer

/// Bodies of requests and responses: bytes, and streams in both directions.
@Suite(.timeLimit(.minutes(30))) struct EndpointBodyTests {
    // MARK: Streams of responses

    /// Parts without end, and how many were asked for.
    private final class Endless: AsyncSequence, AsyncIteratorProtocol, Sendable {
        let count = Atomic(0)

        func makeAsyncIterator() -> Endless { self }

        func next() async throws -> ByteBuffer? {
            count.add(1, ordering: .relaxed)
            return ByteBuffer(repeating: 7, count: 64 << 10)
        }
    }

    @Test func whoDoesNotReadAStreamIsSentNoMoreOfIt() async throws {
        let parts = Endless(), metrics = CountingMetrics()
        var settings = ServerSettings.small
        settings.limits.stallMillisecondsMax = 200
        let route = HTTPRoute(
            to: AnsweringEndpoints { _ in EndpointResponse(status: .ok, body: .stream(EndpointStream(parts))) })
        try await withServer(settings: settings, routes: [route], metrics: metrics) { server in
            let channel = try await PipelinedRequestTests.connectWithoutReading(port: server.port)
            channel.writeAndFlush(ByteBuffer(string: "GET /x HTTP/1.1\r\nHost: a\r\n\r\n"), promise: nil)
            await metrics.wait(for: "anabranch_connections_stalled_total")
            try await channel.close()
        }
        // What the system keeps for one connection is less than 16 MiB.
        #expect(parts.count.load(ordering: .relaxed) <= 256)
    }

    private static func parts(_ texts: [String], failing: Bool = false) -> EndpointStream {
        EndpointStream(
            AsyncThrowingStream<ByteBuffer, any Error> { continuation in
                for text in texts { continuation.yield(ByteBuffer(string: text)) }
                continuation.finish(throwing: failing ? CancellationError() : nil)
            })
    }

    @Test(
        arguments: [
            ("1.1", 6, false, "HTTP/1.1 200 OK", "abcdef"), ("1.0", 6, false, "HTTP/1.0 200 OK", "abcdef"),
            ("1.0", nil, false, "HTTP/1.0 200 OK", "abcdef"), ("1.1", 5, false, "HTTP/1.1 200 OK", "abc"),
            ("1.1", 7, false, "HTTP/1.1 200 OK", "abcdef"), ("1.1", 6, true, "HTTP/1.1 200 OK", "abcdef"),
            ("1.1", nil, false, "HTTP/1.1 200 OK", "3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n"),
            ("1.1", nil, true, "HTTP/1.1 200 OK", "3\r\nabc\r\n3\r\ndef\r\n"),
        ] as [(String, Int?, Bool, String, String)])
    func streamsEndAsTheyShould(
        version: String, byteCount: Int?, fails: Bool, status: String, body: String
    ) async throws {
        let route = HTTPRoute(
            to: AnsweringEndpoints { _ in
                let parts = Self.parts(["abc", "", "def"], failing: fails)
                return EndpointResponse(status: .ok, body: .stream(parts, byteCount: byteCount))
            })
        try await withServer(routes: [route]) { server in
            let client = try await WebSocketClient(port: server.port)
            let response = try await client.request("GET /x HTTP/\(version)\r\nHost: a\r\nConnection: close\r\n\r\n")
            #expect(response.hasPrefix(status))
            #expect(response.contains("Connection: close\r\n"))
            #expect(response.contains("Content-Length") == (byteCount != nil))
            #expect(response.lowercased().contains("chunked") == (version == "1.1" && byteCount == nil))
            #expect(await client.textToEnd() == body)
        }
    }

    @Test func afterAStreamTheSocketTakesTheNextRequest() async throws {
        let route = HTTPRoute(
            to: AnsweringEndpoints { EndpointResponse(status: .ok, body: .stream(Self.parts([$0.path]), byteCount: 2)) }
        )
        try await withServer(routes: [route]) { server in
            let client = try await WebSocketClient(port: server.port)
            for path in ["/a", "/b", "/c"] {
                let response = try await client.request("GET \(path) HTTP/1.1\r\nHost: a\r\n\r\n")
                #expect(try await client.body(of: response) == path)
            }
        }
    }

    // MARK: Bodies of requests

    private static let counting = AnsweringEndpoints { request in
        switch request.body {
        case .whole(let bytes): return .text("\(bytes.count) \(bytes.reduce(0) { $0 &+ Int($1) })")
        case .stream(let parts, let byteCount):
            var count = 0, sum = 0
            do {
                for try await part in parts {
                    count += part.readableBytes
                    sum = part.readableBytesView.reduce(sum) { $0 &+ Int($1) }
                }
            } catch {
                return EndpointResponse(status: .internalServerError)
            }
            return .text("\(count) \(sum) \(byteCount.map { "\($0)" } ?? "unknown")")
        }
    }

    private static let bytesOfAllKinds = (0..<300_000).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) }

    private static func chunked(_ bytes: [UInt8]) -> [UInt8] {
        var result: [UInt8] = [], rest = bytes[...], length = 1
        while !rest.isEmpty {
            let part = rest.prefix(length)
            result += Array("\(String(part.count, radix: 16))\r\n".utf8) + part + Array("\r\n".utf8)
            (rest, length) = (rest.dropFirst(length), length * 2)
        }
        return result + Array("0\r\n\r\n".utf8)
    }

    @Test(arguments: [false, true], [false, true])
    func aBodyArrivesAsItWasSent(isStream: Bool, isChunked: Bool) async throws {
        let form: HTTPRoute.BodyForm = isStream ? .stream(bytesMax: 300_000) : .whole(bytesMax: 300_000)
        try await withServer(routes: [HTTPRoute(to: Self.counting, body: form)]) { server in
            let client = try await WebSocketClient(port: server.port)
            let sum = Self.bytesOfAllKinds.reduce(0) { $0 + Int($1) }
            for _ in 0..<3 {
                let line = isChunked ? "Transfer-Encoding: chunked" : "Content-Length: 300000"
                try await client.write(
                    Array("POST /x HTTP/1.1\r\nHost: a\r\n\(line)\r\n\r\n".utf8)
                        + (isChunked ? Self.chunked(Self.bytesOfAllKinds) : Self.bytesOfAllKinds))
                let response = try await client.answer()
                let length = isStream ? isChunked ? " unknown" : " 300000" : ""
                #expect(try await client.body(of: response) == "300000 \(sum)\(length)")
            }
        }
    }

    @Test(arguments: [false, true], [false, true])
    func aLongerBodyIsRefused(isStream: Bool, isChunked: Bool) async throws {
        let form: HTTPRoute.BodyForm = isStream ? .stream(bytesMax: 299_999) : .whole(bytesMax: 299_999)
        try await withServer(routes: [HTTPRoute(to: Self.counting, body: form)]) { server in
            let client = try await WebSocketClient(port: server.port)
            let line = isChunked ? "Transfer-Encoding: chunked" : "Content-Length: 300000"
            // The server may end its side before this one has sent everything.
            try? await client.write(
                Array("POST /x HTTP/1.1\r\nHost: a\r\n\(line)\r\n\r\n".utf8)
                    + (isChunked ? Self.chunked(Self.bytesOfAllKinds) : Self.bytesOfAllKinds))
            let response = try await client.answer()
            #expect(response.hasPrefix("HTTP/1.1 413"))
            #expect(response.contains("Connection: close\r\n"))
            #expect(try await client.body(of: response).contains("BodyTooLarge"))
        }
    }

    @Test func whoSendsAllOfABodyBeforeReadingIsToldThatItIsTooLong() async throws {
        var settings = ServerSettings.small
        settings.lingerSecondsMax = 600
        try await withServer(
            settings: settings, routes: [HTTPRoute(to: Self.counting, body: .whole(bytesMax: 1 << 20))]
        ) { server in
            let channel = try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
                .channelOption(.allowRemoteHalfClosure, value: true)
                .connect(host: "127.0.0.1", port: server.port) { channel in
                    channel.eventLoop.makeCompletedFuture {
                        try NIOAsyncChannel<ByteBuffer, ByteBuffer>(
                            wrappingChannelSynchronously: channel,
                            configuration: .init(isOutboundHalfClosureEnabled: true))
                    }
                }
            try await channel.executeThenClose { inbound, outbound in
                let head = "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1400000\r\n"
                try await outbound.write(ByteBuffer(string: head))
                for _ in 0..<320 { try await outbound.write(ByteBuffer(repeating: 1, count: 64 << 10)) }
                outbound.finish()
                let answer = try await RawSocket(inbound: inbound, outbound: outbound).readToEnd()
                #expect(String(decoding: answer, as: UTF8.self).hasPrefix("HTTP/1.1 413"))
            }
        }
    }

    /// Nor is one whose length takes more than 63 bits: it would come without memory of the budget.
    @Test(arguments: ["11", "9223372036854775807", "9223372036854775808", "18446744073709551615"])
    func aBodyThatIsTooLongIsNotAskedFor(length: String) async throws {
        try await withServer(routes: [HTTPRoute(to: Self.counting, body: .whole(bytesMax: 10))]) { server in
            let client = try await WebSocketClient(port: server.port)
            let response = try await client.request(
                "POST /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: \(length)\r\n\r\n")
            #expect(response.hasPrefix("HTTP/1.1 413"))
        }
    }

    @Test func anEndpointReadsABodyWhileItComes() async throws {
        let (seen, onSeen) = AsyncStream.makeStream(of: Int.self)
        let endpoint = AnsweringEndpoints { request in
            guard case .stream(let parts, _) = request.body else { return EndpointResponse(status: .badRequest) }
            var count = 0
            do {
                for try await part in parts {
                    count += part.readableBytes
                    onSeen.yield(count)
                }
            } catch {
                return EndpointResponse(status: .badRequest)
            }
            return .text("\(count)")
        }
        try await withServer(routes: [HTTPRoute(to: endpoint, body: .stream(bytesMax: 100))]) { server in
            let client = try await WebSocketClient(port: server.port)
            try await client.write(Array("PUT /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n".utf8))
            var counts = seen.makeAsyncIterator()
            for count in 1...5 {
                try await client.write([7])
                #expect(await counts.next() == count)
            }
            let response = try await client.answer()
            #expect(try await client.body(of: response) == "5")
        }
    }

    @Test func anAnswerBeforeTheEndOfABodyIsTheLast() async throws {
        let endpoint = AnsweringEndpoints { _ in .text("enough") }
        try await withServer(routes: [HTTPRoute(to: endpoint, body: .stream(bytesMax: 1 << 30))]) { server in
            let client = try await WebSocketClient(port: server.port)
            let response = try await client.request("PUT /x HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nabc")
            #expect(response.contains("Connection: close\r\n"))
            #expect(await client.textToEnd() == "enough")
        }
    }

    /// The reason why the body of the only request did not come.
    private static func errorOfBody(
        bytesMax: Int, within seconds: Int64 = 60, _ send: (WebSocketClient) async throws -> Void
    ) async throws -> EndpointStreamError? {
        let (errors, onError) = AsyncStream.makeStream(of: EndpointStreamError?.self)
        let endpoint = AnsweringEndpoints { request in
            guard case .stream(let parts, _) = request.body else { return EndpointResponse(status: .badRequest) }
            do {
                for try await _ in parts {}
                onError.yield(nil)
            } catch {
                onError.yield(error as? EndpointStreamError)
            }
            return EndpointResponse(status: .ok)
        }
        var settings = ServerSettings.small
        settings.handshakeSecondsMax = seconds
        let route = HTTPRoute(to: endpoint, body: .stream(bytesMax: bytesMax))
        return try await withServer(settings: settings, routes: [route]) { server in
            let client = try await WebSocketClient(port: server.port)
            try await send(client)
            var iterator = errors.makeAsyncIterator()
            return await iterator.next() ?? nil
        }
    }

    @Test func anEndpointLearnsThatABodyDoesNotCome() async throws {
        let head = Array("PUT /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n".utf8)
        #expect(try await Self.errorOfBody(bytesMax: 9) { try await $0.write(head + Array("0\r\n\r\n".utf8)) } == nil)
        let left = try await Self.errorOfBody(bytesMax: 9) { client in
            try await client.write(head)
            try await client.close()
        }
        #expect(left == .incomplete)
        // Long enough for the head to arrive on a busy machine.
        #expect(try await Self.errorOfBody(bytesMax: 9, within: 5) { try await $0.write(head) } == .incomplete)
        #expect(try await Self.errorOfBody(bytesMax: 2) { try await $0.write(head) } == .tooLong)
    }

    @Test func anEndpointThatDoesNotReadHoldsTheSocket() async throws {
        let demands = Atomic(0)
        var stream = RequestStream(bytesMax: 1 << 20) { demands.add(1, ordering: .sequentiallyConsistent) }
        for number in 1...RequestStream.waitingPartsMax {
            #expect(try stream.append(ByteBuffer(repeating: 1, count: 4)) == (number < RequestStream.waitingPartsMax))
        }
        stream.finish()
        var count = 0
        for try await part in stream.parts { count += part.readableBytes }
        #expect(count == 4 * RequestStream.waitingPartsMax)
        #expect(throws: HTTPError.bodyTooLarge) {
            var short = RequestStream(bytesMax: 3) {}
            _ = try short.append(ByteBuffer(repeating: 1, count: 4))
        }
    }

    @Test func longBodiesWaitForMemory() async throws {
        let metrics = CountingMetrics()
        var settings = ServerSettings.small
        settings.bodyMemoryBytesMax = 1 << 20
        let route = HTTPRoute(to: Self.counting, body: .whole(bytesMax: 1 << 20))
        try await withServer(settings: settings, routes: [route], metrics: metrics) { server in
            let first = try await WebSocketClient(port: server.port)
            let second = try await WebSocketClient(port: server.port)
            let head = "POST /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1000000\r\n\r\n"
            #expect(try await first.request(head) == "HTTP/1.1 100 Continue\r\n\r\n")
            try await second.write(Array(head.utf8))
            await metrics.wait(for: "anabranch_memory_waits_total")
            // Short bodies do not wait.
            let third = try await WebSocketClient(port: server.port)
            let short = try await third.request("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")
            #expect(try await third.body(of: short) == "3 294")
            for client in [first, second] {
                if client === second { #expect(try await client.answer() == "HTTP/1.1 100 Continue\r\n\r\n") }
                try await client.write(Array(repeating: 1, count: 1_000_000))
                let response = try await client.answer()
                #expect(try await client.body(of: response) == "1000000 1000000")
            }
        }
    }
}
