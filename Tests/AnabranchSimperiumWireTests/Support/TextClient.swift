import NIOCore
import NIOPosix

/// A WebSocket of text messages, as a client has it. Belongs to one task.
final class TextClient {
    /// The server has closed the socket.
    struct Closed: Error, Equatable {
        /// The code of its close frame; nil if there was none.
        var code: Int?
    }

    private let channel: any Channel
    private var incoming: AsyncStream<ByteBuffer>.AsyncIterator
    private var buffer = ByteBuffer()

    /// The longest frame that the server has sent, in bytes.
    private(set) var longestFrame = 0

    init(port: Int, path: String) async throws {
        let (stream, continuation) = AsyncStream.makeStream(of: ByteBuffer.self)
        incoming = stream.makeAsyncIterator()
        channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelOption(.tcpOption(.tcp_nodelay), value: 1)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(Incoming(continuation))
                }
            }
            .connect(host: "127.0.0.1", port: port).get()
        let request = """
            GET \(path) HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r
            Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n
            """
        try await channel.writeAndFlush(ByteBuffer(string: request)).get()
        var head = ""
        while !head.hasSuffix("\r\n\r\n") {
            try await fill(1)
            head += buffer.readString(length: 1) ?? ""
        }
        guard head.hasPrefix("HTTP/1.1 101") else { throw Closed(code: nil) }
    }

    /// Sends a message, in fragments of at most so many bytes.
    func send(_ text: String, fragmentBytes: Int = 16 << 10) async throws {
        var rest = Array(text.utf8)[...], frames = ByteBuffer(), opcode: UInt8 = 1
        repeat {
            let part = rest.prefix(fragmentBytes)
            rest = rest.dropFirst(part.count)
            frames.writeInteger((rest.isEmpty ? 0x80 : 0) | opcode)
            opcode = 0
            switch part.count {
            case ..<126: frames.writeInteger(0x80 | UInt8(part.count))
            case ..<65_536: frames.writeMultipleIntegers(UInt8(0xFE), UInt16(part.count))
            default: frames.writeMultipleIntegers(UInt8(0xFF), UInt64(part.count))
            }
            // A mask of zeros leaves the payload as it is.
            frames.writeInteger(UInt32(0))
            frames.writeBytes(part)
        } while !rest.isEmpty
        try await channel.writeAndFlush(frames).get()
    }

    /// The next message.
    /// - Throws: `Closed`
    func receive() async throws -> String {
        var message: [UInt8] = []
        while true {
            try await fill(2)
            guard let first: UInt8 = buffer.readInteger(), let length: UInt8 = buffer.readInteger() else {
                throw Closed(code: nil)
            }
            var count = Int(length)
            if count == 126 {
                try await fill(2)
                count = Int(buffer.readInteger() ?? UInt16(0))
            } else if count == 127 {
                try await fill(8)
                count = Int(buffer.readInteger() ?? UInt64(0))
            }
            try await fill(count)
            let payload = buffer.readBytes(length: count) ?? []
            longestFrame = max(longestFrame, count)
            if first & 0xF == 8 {
                throw Closed(code: payload.count >= 2 ? Int(payload[0]) << 8 | Int(payload[1]) : nil)
            }
            message += payload
            if first & 0x80 != 0 { return String(decoding: message, as: UTF8.self) }
        }
    }

    /// Ends the connection without a word.
    func cut() async { try? await channel.close() }

    private func fill(_ count: Int) async throws {
        while buffer.readableBytes < count {
            guard var more = await incoming.next() else { throw Closed(code: nil) }
            buffer.discardReadBytes()
            buffer.writeBuffer(&more)
        }
    }

    private final class Incoming: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer

        private let continuation: AsyncStream<ByteBuffer>.Continuation

        init(_ continuation: AsyncStream<ByteBuffer>.Continuation) { self.continuation = continuation }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) { continuation.yield(unwrapInboundIn(data)) }

        func channelInactive(context: ChannelHandlerContext) { continuation.finish() }

        func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
    }
}
