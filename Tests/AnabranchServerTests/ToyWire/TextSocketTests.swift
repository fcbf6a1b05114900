import AnabranchProtocol
import NIOCore
import NIOEmbedded
import NIOPosix
import NIOWebSocket
import Synchronization
import Testing

@testable import AnabranchServer

/// A wire's view of its socket: events in their order, back-pressure, ends.
@Suite(.timeLimit(.minutes(30))) struct TextSocketTests {
    /// Opens a socket of which the test is the wire.
    private static func withSocket(
        settings: ServerSettings = .small, metrics: CountingMetrics = CountingMetrics(),
        _ body: (TextSocket, WebSocketClient, RunningServer, AsyncStream<Void>) async throws -> Void
    ) async throws {
        let (wire, sockets, ends) = HeldWire.make()
        try await withServer(settings: settings, wires: [wire], metrics: metrics) { server in
            let client = try await WebSocketClient.open(port: server.port, path: "/held")
            var iterator = sockets.makeAsyncIterator()
            try await body(try #require(await iterator.next()), client, server, ends)
        }
    }

    /// Returns when the server has what the client has said before.
    private static func settle(_ client: WebSocketClient) async throws {
        try await client.send([1], opcode: 9)
        #expect(try await client.receive().opcode == 10)
    }

    // MARK: Events

    @Test func wakesAreOneEvent() async throws {
        try await Self.withSocket { socket, _, _, _ in
            for _ in 0..<3 { socket.wake() }
            #expect(await socket.next() == .woken)
            #expect(await socket.next(until: .now) == .timeout)
            async let event = socket.next()
            socket.wake()
            #expect(await event == .woken)
            #expect(await socket.next(until: .now + .milliseconds(1)) == .timeout)
        }
    }

    @Test func messagesAndWakesTakeTurns() async throws {
        try await Self.withSocket { socket, client, _, _ in
            for text in ["a", "b", "c"] { try await client.say(text) }
            try await Self.settle(client)
            var events: [TextSocket.Event?] = []
            for _ in 0..<6 {
                socket.wake()
                events.append(await socket.next(until: .now))
            }
            #expect(events == [.woken, .text("a"), .woken, .text("b"), .woken, .text("c")])
            #expect(await socket.next(until: .now) == .woken)
        }
    }

    @Test func aDeadlineMayBeEarlierOrLaterThanTheOneBefore() async throws {
        try await Self.withSocket { socket, client, _, _ in
            try await client.say("a")
            #expect(await socket.next(until: .now + .seconds(3_600)) == .text("a"))
            #expect(await socket.next(until: .now + .milliseconds(2)) == .timeout)
            try await client.say("b")
            #expect(await socket.next(until: .now + .milliseconds(1_800_000)) == .text("b"))
            let deadline = ContinuousClock.now + .milliseconds(5)
            #expect(await socket.next(until: deadline) == .timeout)
            #expect(ContinuousClock.now >= deadline)
            // The timer of an earlier deadline does not end a later one.
            try await client.say("c")
            #expect(await socket.next(until: .now + .milliseconds(50)) == .text("c"))
            let later = ContinuousClock.now + .milliseconds(100)
            #expect(await socket.next(until: later) == .timeout)
            #expect(ContinuousClock.now >= later)
        }
    }

    @Test func whoseTaskIsCancelledWaitsNoLonger() async throws {
        try await Self.withSocket { socket, client, _, _ in
            let task = Task { await socket.next() }
            task.cancel()
            #expect(await task.value == nil)
            try await client.say("a")
            #expect(await socket.next() == .text("a"))
        }
    }

    // MARK: Ends

    @Test func whatCameBeforeACloseFrameIsHandled() async throws {
        try await Self.withSocket { socket, client, _, ends in
            try await client.say("a")
            try await client.say("b")
            try await client.send([0x03, 0xe8], opcode: 8)
            try await client.say("never")
            #expect(await socket.next() == .text("a"))
            #expect(await socket.send("answer"))
            #expect(await socket.next() == .text("b"))
            #expect(await socket.next() == nil)
            #expect(try await client.text() == "answer")
            #expect(try await client.receive().closeCode == 1000)
            for await _ in ends { break }
            #expect(await socket.next() == nil)
            #expect(await !socket.send("too late"))
        }
    }

    @Test(arguments: [false, true]) func theEndOfASocketIsSeen(isWaiting: Bool) async throws {
        try await Self.withSocket { socket, client, server, ends in
            async let event = isWaiting ? socket.next() : nil
            if isWaiting {
                try await client.close()
            } else {
                try await client.say("lost")
                try await Self.settle(client)
                server.stop()
                #expect(try await client.receive().closeCode == 1001)
            }
            #expect(await event == nil)
            for await _ in ends { break }
            #expect(await socket.next() == nil)
            #expect(await !socket.send("x"))
            #expect(await !socket.send(bytesMax: 1 << 20) { "x" })
            socket.wake()
            socket.close(code: 1000)
            #expect(await socket.next(until: .now) == nil)
        }
    }

    @Test func aWireClosesAfterWhatItHasSent() async throws {
        try await Self.withSocket { socket, client, _, ends in
            #expect(await socket.send(CounterWire.text(ofBytes: 3_000_000)))
            let reason = String(repeating: "é", count: 400)
            socket.close(code: 4_000, reason: reason)
            #expect(try await client.longText(3_000_000) == CounterWire.text(ofBytes: 3_000_000))
            let frame = try await client.receive()
            #expect(frame.closeCode == 4_000 && frame.payload.count <= 125)
            let told = try #require(String(validating: frame.payload.dropFirst(2), as: UTF8.self))
            #expect(told.hasPrefix(String(repeating: "é", count: 45)))
            #expect(await client.isAtEnd())
            for await _ in ends { break }
            #expect(await !socket.send("x"))
        }
    }

    @Test func messagesOfSeveralTasksAreNotMixed() async throws {
        try await Self.withSocket { socket, client, _, _ in
            await withTaskGroup(of: Void.self) { group in
                for number in 0..<4 {
                    group.addTask {
                        #expect(await socket.send(String(repeating: "\(number)", count: 1_200_000)))
                    }
                }
                for _ in 0..<4 {
                    let text = (try? await client.longText(1_200_000)) ?? ""
                    #expect(text.utf8.count == 1_200_000 && Set(text.utf8).count == 1)
                }
            }
        }
    }

    // MARK: Back-pressure

    @Test func aWireThatDoesNotReadStopsItsClient() async throws {
        // No more than are read without a pause (`ReadThrottle.framesAtOnceMax`).
        let count = 2_048, text = String(repeating: "x", count: 16_000)
        let (wire, sockets, _) = HeldWire.make()
        try await withServer(wires: [wire]) { server in
            let channel = try await PipelinedRequestTests.connectWithoutReading(port: server.port)
            let request = """
                GET /held HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r
                Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n
                """
            try await channel.writeAndFlush(ByteBuffer(string: request)).get()
            var iterator = sockets.makeAsyncIterator()
            let socket = try #require(await iterator.next())
            for number in 0..<count {
                let frame = AppServicesRig.frame(0x81, Array("\(number) \(text)".utf8))
                channel.write(ByteBuffer(bytes: frame), promise: nil)
            }
            channel.flush()
            while !socket.isReadHeld { await Task.yield() }
            // Of 32 MiB, what the system keeps for one connection is less than 16 MiB.
            let unsent = try await channel.getOption(.bufferedWritableBytes).get()
            #expect(unsent > 8 << 20)
            for number in 0..<count { #expect(await socket.next() == .text("\(number) \(text)")) }
            #expect(await socket.next(until: .now) == .timeout)
            try await channel.close()
        }
    }

    @Test(arguments: [1_000, 50_000, 2_000_000]) func aClientThatDoesNotReadIsDropped(count: Int) async throws {
        var settings = ServerSettings.small
        settings.limits.stallMillisecondsMax = 200
        settings.limits.silenceMillisecondsMax = 30 * 60_000
        let metrics = CountingMetrics(), (wire, sockets, ends) = HeldWire.make()
        try await withServer(settings: settings, wires: [wire], metrics: metrics) { server in
            let channel = try await PipelinedRequestTests.connectWithoutReading(port: server.port)
            let request = """
                GET /held HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r
                Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n
                """
            try await channel.writeAndFlush(ByteBuffer(string: request)).get()
            var iterator = sockets.makeAsyncIterator()
            let socket = try #require(await iterator.next()), text = CounterWire.text(ofBytes: count)
            var sent = 0
            while await socket.send(text) { sent += count }
            #expect(sent <= 16 << 20)
            for await _ in ends { break }
            #expect(metrics.value("anabranch_connections_stalled_total") == 1)
            try? await channel.close()
        }
    }

    // MARK: Time

    /// A handler without a socket, with the event loop's clock in the hands of the test.
    private static func withHandler(
        shutdown: ServerSettings? = nil,
        _ body: (NIOAsyncTestingChannel, TextSocket) async throws -> Void
    ) async throws {
        let channel = NIOAsyncTestingChannel(), (wire, sockets, _) = HeldWire.make()
        let budget = MemoryBudget(bytesMax: .max), socketCount = { @Sendable in 100_000 }
        // The second multiple of the golden ratio.
        let times = TextHandler.Times(
            shutdown ?? .small, number: 2, spreadOver: shutdown == nil ? nil : socketCount)
        try await channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).get()
        try await channel.testingEventLoop.executeInContext {
            let silence = SilenceDetector(limit: .seconds(120))
            let memory = MessageMemory(
                textBytesMax: 1_000, limit: .seconds(60), budget: budget, outboundBudget: budget, turns: budget
            ) {}
            let socket = TextSocket(
                SocketRequest(path: "/"), users: ConnectionLimit(countMax: 1), until: channel.closeFuture)
            let pipeline = channel.pipeline.syncOperations
            try pipeline.addHandlers([silence, memory])
            try pipeline.addHandler(ByteToMessageHandler(WebSocketFrameDecoder()))
            try pipeline.addHandler(
                TextHandler(
                    socket, of: wire, messageBytesMax: 1_000, silence: silence, memory: memory, budget: budget,
                    times: times, logger: .quiet
                ) { _ in })
        }
        var iterator = sockets.makeAsyncIterator()
        try await body(channel, try #require(await iterator.next()))
        _ = try await channel.finish(acceptAlreadyClosed: true)
    }

    private static func closeCode(_ channel: NIOAsyncTestingChannel) async throws -> UInt16? {
        var frame = try await channel.readOutbound(as: WebSocketFrame.self)
        guard frame?.opcode == .connectionClose else { return nil }
        return frame?.data.readInteger()
    }

    @Test func aClientThatSaysNothingForTwoMinutesIsDropped() async throws {
        try await Self.withHandler { channel, socket in
            for _ in 0..<5 {
                await channel.testingEventLoop.advanceTime(by: .seconds(119))
                let frame = WebSocketClient.frame(Array("a".utf8), opcode: 1)
                try await channel.writeInbound(ByteBuffer(bytes: frame))
                #expect(await socket.next() == .text("a"))
            }
            for _ in 0..<5 {
                await channel.testingEventLoop.advanceTime(by: .seconds(119))
                try await channel.writeInbound(ByteBuffer(bytes: WebSocketClient.frame([], opcode: 9)))
                #expect(try await channel.readOutbound(as: WebSocketFrame.self)?.opcode == .pong)
            }
            await channel.testingEventLoop.advanceTime(by: .seconds(119))
            #expect(try await Self.closeCode(channel) == nil)
            await channel.testingEventLoop.advanceTime(by: .seconds(1))
            #expect(try await Self.closeCode(channel) == 1001)
            #expect(await socket.next() == nil)
        }
    }

    @Test func aSpreadShutdownServesUntilItsTime() async throws {
        var settings = ServerSettings.small
        settings.shutdownSecondsMax = 100
        try await Self.withHandler(shutdown: settings) { channel, socket in
            channel.pipeline.fireUserInboundEventTriggered(ChannelShouldQuiesceEvent())
            // 75 s times 0.236.
            await channel.testingEventLoop.advanceTime(by: .milliseconds(17_700))
            try await channel.writeInbound(ByteBuffer(bytes: WebSocketClient.frame(Array("a".utf8), opcode: 1)))
            #expect(await socket.next() == .text("a"))
            #expect(try await Self.closeCode(channel) == nil)
            await channel.testingEventLoop.advanceTime(by: .milliseconds(10))
            #expect(try await Self.closeCode(channel) == 1001)
            #expect(await socket.next() == nil)
        }
    }

    /// Few sockets are closed soon, and many within three quarters of the time.
    @Test(
        arguments: [UInt64(1), 77, 1 << 40],
        [(count: 1_000, milliseconds: 10_000), (count: 10_000, milliseconds: 75_000), (count: 2, milliseconds: 20)])
    func shutdownsAreSpreadEvenly(first: UInt64, spread: (count: Int, milliseconds: Int64)) {
        var settings = ServerSettings.small
        settings.shutdownSecondsMax = 100
        let times = (first..<first + UInt64(spread.count)).map { number in
            TextHandler.Times(settings, number: number, spreadOver: { spread.count }).shutdown.nanoseconds / 1_000_000
        }.sorted()
        #expect(times[0] >= 0 && times[spread.count - 1] < spread.milliseconds)
        let farthest = 3 * spread.milliseconds / Int64(spread.count)
        for (earlier, later) in zip([0] + times, times + [spread.milliseconds]) {
            #expect(later - earlier <= farthest)
        }
    }
}
