import AnabranchProtocol
import NIOCore
import NIOEmbedded
import NIOWebSocket
import Testing

@testable import AnabranchServer

/// How much is read of one client, and how often, before the others have their turn.
@Suite struct ReadThrottleTests {
    /// A socket: it is asked for more after each reading.
    private final class Socket: ChannelOutboundHandler {
        typealias OutboundIn = WebSocketFrame

        let channel = EmbeddedChannel()
        let pace: ReadThrottle
        private(set) var reads = 0
        private(set) var pauses = 0

        init() throws {
            var onPause = {}
            pace = ReadThrottle { onPause() }
            onPause = { [unowned self] in pauses += 1 }
            try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
            try channel.pipeline.syncOperations.addHandlers([self, pace])
        }

        func read(context: ChannelHandlerContext) { reads += 1 }

        func receive(_ frames: Int) {
            for _ in 0..<frames {
                channel.pipeline.fireChannelRead(WebSocketFrame(opcode: .ping, data: ByteBuffer()))
            }
            channel.pipeline.fireChannelReadComplete()
            channel.pipeline.read()
        }

        func receive(_ readings: [Int]) { readings.forEach { receive($0) } }

        func wait(milliseconds: Int64) { channel.embeddedEventLoop.advanceTime(by: .milliseconds(milliseconds)) }
    }

    private static func bytes(afterFrames frames: [Int]) throws -> Int {
        let socket = try Socket()
        socket.receive(frames)
        return socket.pace.bytes
    }

    @Test func aReadingWithManyFramesIsFollowedByAShorterOne() throws {
        #expect(try Self.bytes(afterFrames: []) == ReadThrottle.bytesMax)
        #expect(try Self.bytes(afterFrames: [ReadThrottle.framesMax]) == ReadThrottle.bytesMax)
        #expect(try Self.bytes(afterFrames: [ReadThrottle.framesMax + 1]) == ReadThrottle.bytesMax / 8)
    }

    /// The shortest PING has 18 bytes with its frame.
    @Test func afterSomeReadingsAFloodBringsNoMoreThanTheLimit() throws {
        let socket = try Socket()
        for _ in 0..<10 { socket.receive(socket.pace.bytes / 18) }
        #expect(socket.pace.bytes == ReadThrottle.bytesMin)
        #expect(socket.pace.bytes / 18 <= ReadThrottle.framesMax)
    }

    @Test func longMessagesAreReadInLargePiecesAgain() throws {
        let flood = [Int](repeating: 10_000, count: 10)
        #expect(try Self.bytes(afterFrames: flood + [0]) == 2 * ReadThrottle.bytesMin)
        #expect(try Self.bytes(afterFrames: flood + [Int](repeating: 1, count: 10)) == ReadThrottle.bytesMax)
        #expect(try Self.bytes(afterFrames: flood + [Int](repeating: 5, count: 10)) == ReadThrottle.bytesMin)
    }

    @Test("frames within the limit cause no pause", arguments: [-1, 0, 1])
    func atOnce(more: Int) throws {
        let socket = try Socket()
        socket.receive(ReadThrottle.framesAtOnceMax + more)
        #expect(socket.reads == (more > 0 ? 0 : 1))
        #expect(socket.pauses == (more > 0 ? 1 : 0))
    }

    @Test("a pause is as long as the frames beyond the limit take at the highest pace; then there is one reading")
    func pause() throws {
        let socket = try Socket()
        socket.receive(ReadThrottle.framesAtOnceMax + ReadThrottle.framesPerSecondMax)
        socket.channel.pipeline.read()
        socket.wait(milliseconds: 999)
        #expect(socket.reads == 0)
        socket.wait(milliseconds: 1)
        #expect(socket.reads == 1)
        #expect(socket.pauses == 1)
    }

    @Test func whoComesBackWithAllSessionsIsNotDelayed() throws {
        let socket = try Socket()
        socket.receive(4 * Limits().sessionsPerConnectionMax)
        #expect(socket.pauses == 0 && socket.reads == 1)
    }

    @Test func aPauseKeepsNothingOfAConnectionThatIsGone() throws {
        let channel = EmbeddedChannel()
        weak var pace: ReadThrottle?
        do {
            let handler = ReadThrottle {}
            pace = handler
            try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
            try channel.pipeline.syncOperations.addHandler(handler)
        }
        for _ in 0...ReadThrottle.framesAtOnceMax {
            channel.pipeline.fireChannelRead(WebSocketFrame(opcode: .ping, data: ByteBuffer()))
        }
        channel.pipeline.fireChannelReadComplete()
        channel.pipeline.read()
        #expect(pace != nil)
        channel.close(promise: nil)
        channel.embeddedEventLoop.run()
        #expect(pace == nil)
    }

    @Test("silence earns no more than the limit", arguments: [-1, 0, 1])
    func silence(more: Int) throws {
        let socket = try Socket()
        socket.receive(ReadThrottle.framesAtOnceMax)
        socket.wait(milliseconds: 3_600_000)
        socket.receive(ReadThrottle.framesAtOnceMax + more)
        #expect(socket.reads == (more > 0 ? 1 : 2))
    }

    @Test("an even stream within the limit is never delayed, one above it is", arguments: [-1, 0, 1])
    func evenStream(more: Int) throws {
        let socket = try Socket(), framesPerRound = ReadThrottle.framesPerSecondMax / 100
        socket.receive(ReadThrottle.framesAtOnceMax)
        for _ in 0..<100 {
            socket.wait(milliseconds: 10)
            socket.receive(framesPerRound + more)
        }
        #expect((socket.pauses > 0) == (more > 0))
    }
}
