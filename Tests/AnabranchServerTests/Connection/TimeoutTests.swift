import AnabranchProtocol
import Metrics
import NIOCore
import NIOEmbedded
import NIOWebSocket
import Synchronization
import Testing

@testable import AnabranchServer

/// Clocks that tests turn: the event loop's.
@Suite struct TimeoutTests {
    private static let ping = WebSocketClient.frame(Array("ping 1 0\n".utf8))

    /// True if the server has said that it closes the connection, with 1001.
    private static func hasClosed(_ fixture: HandlerRig) -> Bool {
        while true {
            do {
                guard let frame = try fixture.channel.readOutbound(as: WebSocketFrame.self) else { return false }
                if frame.opcode == .connectionClose { return Array(frame.data.readableBytesView) == [0x03, 0xE9] }
            } catch {
                // A message.
            }
        }
    }

    @Test("a client that has shown no rhythm may be silent for eleven minutes", arguments: 0...1)
    func silence(pings: Int) async throws {
        let fixture = try HandlerRig()
        if pings > 0 {
            fixture.wait(seconds: 659)
            try fixture.receive(Self.ping)
        }
        fixture.wait(seconds: 659)
        #expect(!Self.hasClosed(fixture))
        fixture.wait(seconds: 1)
        #expect(Self.hasClosed(fixture))
        try await fixture.files.shutDown()
    }

    @Test(
        "then it may be silent for twice its longest interval and a minute",
        arguments: [
            ([60], 180), ([90], 240), ([300], 660), ([600], 660), ([60, 90, 30], 240), ([1], 180),
        ] as [([Int64], Int64)])
    func rhythm(intervals: [Int64], limit: Int64) async throws {
        let fixture = try HandlerRig()
        fixture.wait(seconds: 100)
        try fixture.receive(Self.ping)
        for interval in intervals {
            fixture.wait(seconds: interval)
            #expect(!Self.hasClosed(fixture))
            try fixture.receive(Self.ping)
        }
        fixture.wait(seconds: limit - 1)
        #expect(!Self.hasClosed(fixture))
        fixture.wait(seconds: 1)
        #expect(Self.hasClosed(fixture))
        try await fixture.files.shutDown()
    }

    @Test func nothingKeepsTheHandlerOfAClosedConnection() async throws {
        let uploads = MemoryBudget(bytesMax: 1)
        uploads.reserve(1)
        let fixture = try HandlerRig(uploads: uploads)
        // It waits for memory, and has a permit of its own.
        let upload = WebSocketClient.frame(Array("upload ".utf8) + [UInt8](repeating: 0, count: 5 << 20))
        try fixture.receive(Array(upload.dropLast()))
        try fixture.receive(upload.suffix(1))
        #expect(fixture.handler != nil)
        #expect(uploads.waitingCount == 1 && fixture.files.messageMemory.bytesInUse > 0)
        fixture.channel.close(promise: nil)
        fixture.channel.embeddedEventLoop.run()
        #expect(fixture.handler == nil)
        #expect(uploads.waitingCount == 0 && fixture.files.messageMemory.bytesInUse == 0)
        try await fixture.files.shutDown()
    }

    @Test("a ping of WebSocket is a sign of life, text is none")
    func webSocketPings() async throws {
        let fixture = try HandlerRig()
        fixture.wait(seconds: 600)
        try fixture.receive(WebSocketClient.frame([], opcode: 9))
        fixture.wait(seconds: 600)
        try fixture.receive(WebSocketClient.frame([], opcode: 1))
        fixture.wait(seconds: 59)
        #expect(!Self.hasClosed(fixture))
        fixture.wait(seconds: 1)
        #expect(Self.hasClosed(fixture))
        try await fixture.files.shutDown()
    }

    @Test("a long message under way is a sign of life as long as it gets on")
    func longMessage() async throws {
        let fixture = try HandlerRig()
        let message = WebSocketClient.frame([UInt8](repeating: 0, count: 1 << 20))
        try fixture.receive(Array(message.prefix(100_000)))
        fixture.wait(seconds: 660)
        #expect(!Self.hasClosed(fixture))
        try fixture.receive(Array(message[100_000..<200_000]))
        fixture.wait(seconds: 660)
        #expect(!Self.hasClosed(fixture))
        try fixture.receive(Array(message[200_000..<200_100]))
        fixture.wait(seconds: 660)
        #expect(Self.hasClosed(fixture))
        try await fixture.files.shutDown()
    }

    private static let longBind = WebSocketClient.frame(
        Array("bind 1 65536 0 0 0\n".utf8) + [UInt8](repeating: 7, count: 65_536))

    @Test("a long message that is complete is no later sign of life")
    func completeMessage() async throws {
        let fixture = try HandlerRig()
        try fixture.receive(Self.longBind)
        fixture.wait(seconds: 659)
        #expect(!Self.hasClosed(fixture))
        fixture.wait(seconds: 1)
        #expect(Self.hasClosed(fixture))
        try await fixture.files.shutDown()
    }

    @Test("a client is not silent while it is not listened to")
    func heldReading() async throws {
        let fixture = try HandlerRig { $0.waitingBytesMax = 0 }
        try fixture.receive(Self.longBind)
        fixture.channel.read()
        fixture.wait(seconds: 1_000)
        #expect(fixture.channel.isActive)
        try await fixture.files.shutDown()
    }

    @Test("after a connection error the client has its time to leave")
    func softClose() async throws {
        let fixture = try HandlerRig()
        try fixture.receive(WebSocketClient.frame(Array("nonsense\n".utf8)))
        let frame = try #require(try fixture.channel.readOutbound(as: WebSocketFrame.self))
        #expect(frame.extensionData.map { String(buffer: $0).hasPrefix("json_error 102 ") } == true)
        fixture.wait(seconds: 599)
        try fixture.receive(Self.ping)
        #expect(try fixture.channel.readOutbound(as: WebSocketFrame.self) == nil)
        fixture.wait(seconds: 1)
        #expect(!fixture.channel.isActive)
        try await fixture.files.shutDown()
    }

    @Test("nothing is asked of a connection whose socket takes nothing")
    func unwritable() async throws {
        let fixture = try HandlerRig()
        fixture.channel.isWritable = false
        try fixture.receive(Self.ping)
        #expect(try fixture.message() == nil)
        fixture.channel.isWritable = true
        fixture.channel.pipeline.fireChannelWritabilityChanged()
        #expect(try fixture.message() == "pong 1\n")
        try await fixture.files.shutDown()
    }

    /// Counts how often the socket is given what was written.
    private final class FlushCounter: ChannelOutboundHandler {
        typealias OutboundIn = ByteBuffer

        private(set) var count = 0

        func flush(context: ChannelHandlerContext) {
            count += 1
            context.flush()
        }
    }

    @Test("what one reading has brought is answered at one go")
    func flushes() async throws {
        let fixture = try HandlerRig(), counter = FlushCounter()
        try fixture.channel.pipeline.syncOperations.addHandler(counter, position: .first)
        try fixture.receive([[UInt8]](repeating: Self.ping, count: 50).flatMap(\.self))
        #expect(counter.count == 1)
        var pongs = 0
        while try fixture.message() != nil { pongs += 1 }
        #expect(pongs == 50)
        try await fixture.files.shutDown()
    }

    /// A socket that takes what it is given only as far as the test lets it.
    private final class ReluctantSocket: ChannelOutboundHandler {
        typealias OutboundIn = ByteBuffer

        var takesAll = false

        func flush(context: ChannelHandlerContext) {
            if takesAll { context.flush() }
        }
    }

    private struct StallFixture {
        let channel = EmbeddedChannel()
        let socket = ReluctantSocket()
        let counters = CountingMetrics()

        init() throws {
            let metrics = ConnectionMetrics(factory: counters)
            let stall = StallDetector(limit: .milliseconds(Limits().stallMillisecondsMax)) {
                metrics.connectionsStalled.increment()
            }
            try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
            try channel.pipeline.syncOperations.addHandlers([socket, stall])
        }

        var stalls: Int { counters.value("anabranch_connections_stalled_total") }

        func write(bytes: Int) {
            channel.writeAndFlush(ByteBuffer(repeating: 7, count: bytes), promise: nil)
        }

        /// The socket takes everything that waits.
        func take() {
            socket.takesAll = true
            channel.flush()
            socket.takesAll = false
        }

        func wait(seconds: Int64) { channel.embeddedEventLoop.advanceTime(by: .seconds(seconds)) }
    }

    @Test("a socket that takes nothing for a minute is closed, whatever comes in")
    func stall() throws {
        let fixture = try StallFixture()
        fixture.wait(seconds: 1_000)
        fixture.write(bytes: 1)
        for _ in 0..<59 {
            fixture.wait(seconds: 1)
            try fixture.channel.writeInbound(ByteBuffer(bytes: Self.ping))
            fixture.write(bytes: 1)
        }
        #expect(fixture.channel.isActive && fixture.stalls == 0)
        fixture.wait(seconds: 1)
        #expect(!fixture.channel.isActive && fixture.stalls == 1)
    }

    @Test("a socket that has taken everything has all the time until the next message waits")
    func noStall() throws {
        let fixture = try StallFixture()
        for _ in 0..<10 {
            fixture.write(bytes: 100)
            fixture.wait(seconds: 59)
            fixture.take()
            fixture.wait(seconds: 50)
        }
        #expect(fixture.channel.isActive)
        fixture.write(bytes: 100)
        fixture.wait(seconds: 75)
        #expect(!fixture.channel.isActive && fixture.stalls == 1)
    }

    @Test("a socket that takes everything at once is not asked at each message whether it has")
    func fewQuestions() throws {
        let channel = EmbeddedChannel(), questions = Mutex(0)
        let stall = StallDetector(limit: .seconds(64)) { _ in
            questions.withLock { $0 += 1 }
            return 0
        } onStall: {
            Issue.record("a stall")
        }
        try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
        try channel.pipeline.syncOperations.addHandler(stall)
        for _ in 0..<640 {
            channel.embeddedEventLoop.advanceTime(by: .milliseconds(100))
            channel.writeAndFlush(ByteBuffer(repeating: 7, count: 1), promise: nil)
        }
        // One every 4 seconds, and one at each end of a quarter.
        #expect(questions.withLock { $0 } <= 16 + 4)
    }

    @Test("a socket that takes 4,096 bytes a minute is slow, one that takes less is as good as gone", arguments: -1...1)
    func trickle(more: Int) throws {
        let channel = EmbeddedChannel()
        let taken = Mutex(0)
        let stall = StallDetector(limit: .seconds(60)) { _ in
            taken.withLock { $0 == 0 ? 0 : 1_000_000 - $0 }
        } onStall: {
        }
        try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
        try channel.pipeline.syncOperations.addHandler(stall)
        channel.write(ByteBuffer(repeating: 7, count: 1_000_000), promise: nil)
        taken.withLock { $0 = 1 }
        channel.embeddedEventLoop.advanceTime(by: .seconds(59))
        taken.withLock { $0 = StallDetector.bytesMin + more }
        channel.embeddedEventLoop.advanceTime(by: .seconds(1))
        #expect(channel.isActive == (more >= 0))
    }

    @Test("what a socket has to take can become more", arguments: [(4_096, true), (4_097, false)])
    func required(bytes: Int, isActive: Bool) throws {
        let channel = EmbeddedChannel()
        let taken = Mutex(0), required = Mutex(0)
        let stall = StallDetector(limit: .seconds(60)) { _ in
            taken.withLock { $0 == 0 ? 0 : 1_000_000 - $0 }
        } requiredBytes: {
            required.withLock { $0 }
        } onStall: {
        }
        try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
        try channel.pipeline.syncOperations.addHandler(stall)
        channel.write(ByteBuffer(repeating: 7, count: 1_000_000), promise: nil)
        taken.withLock { $0 = 1 }
        channel.embeddedEventLoop.advanceTime(by: .seconds(1_000))
        #expect(channel.isActive)
        required.withLock { $0 = bytes }
        taken.withLock { $0 += 4_096 }
        channel.embeddedEventLoop.advanceTime(by: .seconds(60))
        #expect(channel.isActive == isActive)
    }

    private static func installHTTP(in channel: any Channel) throws {
        let settings = ServerSettings(cores: 1), origin = ClientOrigin(of: channel, settings)
        let upgrade = WebSocketUpgrade(
            authenticator: AllowAllAuthenticator(), origin: origin, addresses: OpenChannels(countMax: 1),
            users: ConnectionLimit(countMax: 1), messageBytesMax: 1 << 20, metrics: ConnectionMetrics(),
            logger: .quiet
        ) { _, _ in }
        try HTTPHandler.install(
            in: channel, from: origin, settings: settings, isSecure: false, metrics: ConnectionMetrics(),
            logger: .quiet, upgrade: upgrade, route: HTTPRoutes([]).route)
    }

    @Test("a request that does not become complete in time is given up")
    func handshake() throws {
        let channel = EmbeddedChannel()
        try Self.installHTTP(in: channel)
        try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
        for byte in "GET /realm-sync HTT".utf8 {
            channel.embeddedEventLoop.advanceTime(by: .seconds(1))
            #expect(channel.isActive)
            try channel.writeInbound(ByteBuffer(bytes: [byte]))
        }
        channel.embeddedEventLoop.advanceTime(by: .seconds(1))
        #expect(!channel.isActive)
    }

    @Test("after an answer the next request has as much time")
    func idle() throws {
        let channel = EmbeddedChannel()
        try Self.installHTTP(in: channel)
        try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
        for _ in 0..<3 {
            channel.embeddedEventLoop.advanceTime(by: .seconds(19))
            try channel.writeInbound(ByteBuffer(string: "GET /realm-sync HTTP/1.1\r\nHost: x\r\n\r\n"))
            let answer = try channel.readOutbound(as: ByteBuffer.self).map { String(buffer: $0) }
            #expect(answer?.hasPrefix("HTTP/1.1 400 ") == true)
            while try channel.readOutbound(as: ByteBuffer.self) != nil {}
        }
        channel.embeddedEventLoop.advanceTime(by: .seconds(19))
        #expect(channel.isActive)
        channel.embeddedEventLoop.advanceTime(by: .seconds(1))
        #expect(!channel.isActive)
    }
}
