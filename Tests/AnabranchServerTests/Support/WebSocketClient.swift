import NIOCore
import NIOPosix
import NIOSSL
import NIOWebSocket

/// A WebSocket of the tests: says what it is told to, also what it must not. Belongs to one task.
final class WebSocketClient {
    struct Frame: Equatable {
        var opcode: UInt8
        var payload: [UInt8]

        /// The code of a close frame.
        var closeCode: Int? {
            opcode == 8 && payload.count >= 2 ? Int(payload[0]) << 8 | Int(payload[1]) : nil
        }
    }

    struct HandshakeRefused: Error {
        let response: String
    }

    struct Closed: Error {}

    private let channel: any Channel
    private var incoming: AsyncStream<ByteBuffer>.AsyncIterator
    private var buffer = ByteBuffer()
    /// The head of the server's answer.
    private(set) var response = ""

    static let offer = (2...14).reversed().map { "com.mongodb.realm-sync#\($0)" }.joined(separator: ", ")

    /// Opens a TCP connection and says nothing yet.
    init(port: Int, tls: NIOSSLContext? = nil) async throws {
        let (stream, continuation) = AsyncStream.makeStream(of: ByteBuffer.self)
        incoming = stream.makeAsyncIterator()
        channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelOption(.tcpOption(.tcp_nodelay), value: 1)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    if let tls {
                        let handler = try NIOSSLClientHandler(context: tls, serverHostname: nil)
                        try channel.pipeline.syncOperations.addHandler(handler)
                    }
                    try channel.pipeline.syncOperations.addHandler(Incoming(continuation))
                }
            }
            .connect(host: "127.0.0.1", port: port).get()
    }

    /// Opens a WebSocket.
    static func open(
        port: Int, path: String = "/realm-sync", offer: String = WebSocketClient.offer, headers: String = "",
        after start: [UInt8] = [], tls: NIOSSLContext? = nil
    ) async throws -> WebSocketClient {
        let client = try await WebSocketClient(port: port, tls: tls)
        if !start.isEmpty { try await client.write(start) }
        let response = try await client.request(
            """
            GET \(path) HTTP/1.1\r\nHost: localhost:\(port)\r\nUpgrade: websocket\r\nConnection: Upgrade\r
            Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r
            Sec-WebSocket-Protocol: \(offer)\r\n\(headers)\r\n
            """)
        guard response.hasPrefix("HTTP/1.1 101") else { throw HandshakeRefused(response: response) }
        return client
    }

    /// Sends these bytes and reads the head of an HTTP answer.
    func request(_ text: String) async throws -> String {
        try await write(Array(text.utf8))
        return try await answer()
    }

    /// Reads the head of an HTTP answer.
    func answer() async throws -> String {
        let end: [UInt8] = [13, 10, 13, 10]
        while true {
            let view = Array(buffer.readableBytesView)
            if let index = view.indices.first(where: { view[$0...].starts(with: end) }) {
                response = buffer.readString(length: index + end.count) ?? ""
                return response
            }
            try await readMore()
        }
    }

    /// The body of the HTTP answer.
    func body(of response: String) async throws -> String {
        let line = response.lowercased().split(separator: "\r\n").first { $0.hasPrefix("content-length: ") }
        let size = line.flatMap { Int($0.dropFirst(16)) } ?? 0
        while buffer.readableBytes < size { try await readMore() }
        return buffer.readString(length: size) ?? ""
    }

    /// The next message, as a text.
    func text(ofBytes count: Int) async throws -> String {
        try await fill(count)
        return buffer.readString(length: count) ?? ""
    }

    /// Everything until the server closes.
    func textToEnd() async -> String {
        while (try? await readMore()) != nil {}
        return buffer.readString(length: buffer.readableBytes) ?? ""
    }

    func write(_ bytes: [UInt8]) async throws {
        try await channel.writeAndFlush(ByteBuffer(bytes: bytes)).get()
    }

    func send(
        _ payload: [UInt8], opcode: UInt8 = 2, isFinal: Bool = true, isMasked: Bool = true, reserved: UInt8 = 0
    ) async throws {
        try await write(
            Self.frame(payload, opcode: opcode, isFinal: isFinal, isMasked: isMasked, reserved: reserved))
    }

    func send(_ text: String) async throws { try await send(Array(text.utf8)) }

    static func frame(
        _ payload: [UInt8], opcode: UInt8 = 2, isFinal: Bool = true, isMasked: Bool = true, reserved: UInt8 = 0
    ) -> [UInt8] {
        var frame: [UInt8] = [(isFinal ? 0x80 : 0) | reserved | opcode]
        let flag: UInt8 = isMasked ? 0x80 : 0
        let count = payload.count
        if count < 126 {
            frame.append(flag | UInt8(count))
        } else if count < 1 << 16 {
            frame += [flag | 126, UInt8(count >> 8), UInt8(count & 255)]
        } else {
            frame.append(flag | 127)
            frame += stride(from: 56, through: 0, by: -8).map { UInt8(truncatingIfNeeded: count >> $0) }
        }
        guard isMasked else { return frame + payload }
        var masked = ByteBuffer(bytes: payload)
        masked.webSocketMask([0x5a, 0x01, 0xc3, 0x7e])
        return frame + [0x5a, 0x01, 0xc3, 0x7e] + Array(buffer: masked)
    }

    /// The next frame of the server.
    /// - Throws: `Closed` at the end of the stream.
    func receive() async throws -> Frame {
        try await fill(2)
        let start = buffer.readerIndex
        var size = Int((buffer.getInteger(at: start + 1) ?? UInt8(0)) & 0x7f), headSize = 2
        if size == 126 {
            headSize = 4
            try await fill(headSize)
            size = Int(buffer.getInteger(at: start + 2) ?? UInt16(0))
        } else if size == 127 {
            headSize = 10
            try await fill(headSize)
            size = Int(buffer.getInteger(at: start + 2) ?? UInt64(0))
        }
        try await fill(headSize + size)
        let opcode = (buffer.readInteger() ?? UInt8(0)) & 15
        buffer.moveReaderIndex(forwardBy: headSize - 1)
        let payload = buffer.readBytes(length: size) ?? []
        buffer.discardReadBytes()
        return Frame(opcode: opcode, payload: payload)
    }

    /// The next sync message.
    func message() async throws -> SyncMessage { SyncMessage(try await receive().payload) }

    /// True if the stream ends here.
    func isAtEnd() async -> Bool {
        if buffer.readableBytes > 0 { return false }
        do {
            try await readMore()
            return false
        } catch {
            return true
        }
    }

    private func fill(_ count: Int) async throws {
        while buffer.readableBytes < count { try await readMore() }
    }

    private func readMore() async throws {
        guard var more = await incoming.next() else { throw Closed() }
        buffer.writeBuffer(&more)
    }

    /// From now on the socket is read, or is not.
    func setReading(_ isReading: Bool) async throws {
        try await channel.setOption(.autoRead, value: isReading).get()
    }

    func close() async throws { try? await channel.close().get() }

    private final class Incoming: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer

        private let continuation: AsyncStream<ByteBuffer>.Continuation

        init(_ continuation: AsyncStream<ByteBuffer>.Continuation) {
            self.continuation = continuation
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) { continuation.yield(unwrapInboundIn(data)) }

        func channelInactive(context: ChannelHandlerContext) { continuation.finish() }

        func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
    }
}
