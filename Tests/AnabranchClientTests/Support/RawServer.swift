import Crypto
import Foundation
import NIOCore
import NIOPosix
import NIOSSL
import Testing

/// One connection of a server that says what a test tells it to, also what it must not.
final class RawPeer {
    /// There can be one for a connection.
    private var inbound: NIOAsyncChannelInboundStream<ByteBuffer>.AsyncIterator
    let outbound: NIOAsyncChannelOutboundWriter<ByteBuffer>

    init(_ inbound: NIOAsyncChannelInboundStream<ByteBuffer>, _ outbound: NIOAsyncChannelOutboundWriter<ByteBuffer>) {
        (self.inbound, self.outbound) = (inbound.makeAsyncIterator(), outbound)
    }

    func send(_ bytes: some Sequence<UInt8>) async throws { try await outbound.write(ByteBuffer(bytes: bytes)) }

    func send(_ text: String) async throws { try await send(text.utf8) }

    /// The bytes that come until there are enough, or the client has closed.
    @discardableResult
    func read(until isEnough: ([UInt8]) -> Bool = { _ in false }) async -> [UInt8] {
        var bytes: [UInt8] = []
        do {
            while !isEnough(bytes), let part = try await inbound.next() { bytes += Array(buffer: part) }
        } catch {
            // A reset is an end as well.
        }
        return bytes
    }

    /// A request, with all of its body: a client gets a reset in place of the answer if some of it stays unread.
    func request() async -> String {
        let bytes = await read { bytes in
            let parts = String(decoding: bytes, as: UTF8.self).components(separatedBy: "\r\n\r\n")
            let length = parts[0].firstMatch(of: /Content-Length: (\d+)/).flatMap { Int($0.output.1) } ?? 0
            return parts.count > 1 && parts[1].utf8.count >= length
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Lets a client in that asks for a WebSocket.
    func upgrade(choosing name: String = "one", key: String? = nil, extra: String = "") async throws {
        try await send(Self.agreement(to: await request(), choosing: name, key: key, extra: extra))
    }

    /// The answer to a request for a WebSocket.
    static func agreement(
        to request: String, choosing name: String?, key: String? = nil, extra: String = ""
    ) throws -> String {
        let key = try key ?? String(#require(request.firstMatch(of: /Sec-WebSocket-Key: (\S+)/)?.output.1))
        let accept = Data(Insecure.SHA1.hash(data: Data((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").utf8)))
        let choice = name.map { "Sec-WebSocket-Protocol: \($0)\r\n" } ?? ""
        return """
            HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r
            Sec-WebSocket-Accept: \(accept.base64EncodedString())\r\n\(choice)\(extra)\r\n
            """
    }

    /// A frame without a mask.
    static func frame(_ payload: [UInt8], opcode: UInt8 = 2, isFinal: Bool = true) -> [UInt8] {
        frameHead(payload.count, opcode: opcode, isFinal: isFinal) + payload
    }

    static func frameHead(_ count: Int, opcode: UInt8 = 2, isFinal: Bool = true) -> [UInt8] {
        let first = (isFinal ? 0x80 : 0) | opcode
        if count < 126 { return [first, UInt8(count)] }
        if count < 1 << 16 { return [first, 126, UInt8(count >> 8), UInt8(count & 255)] }
        return [first, 127] + (0..<8).map { UInt8(truncatingIfNeeded: count >> (56 - 8 * $0)) }
    }

    /// The frames of a client, unmasked.
    static func frames(_ bytes: [UInt8]) -> [(opcode: UInt8, payload: [UInt8])] {
        var frames: [(opcode: UInt8, payload: [UInt8])] = [], rest = bytes[...]
        while rest.count >= 6 {
            let opcode = rest.removeFirst() & 15, short = Int(rest.removeFirst() & 127)
            let width = short == 126 ? 2 : short == 127 ? 8 : 0
            let size = width == 0 ? short : rest.prefix(width).reduce(0) { $0 << 8 | Int($1) }
            rest = rest.dropFirst(width)
            let key = Array(rest.prefix(4))
            rest = rest.dropFirst(4)
            guard rest.count >= size else { break }
            frames.append((opcode, rest.prefix(size).enumerated().map { $1 ^ key[$0 & 3] }))
            rest = rest.dropFirst(size)
        }
        return frames
    }
}

/// Runs a server that talks to one client after the other, for as long as `body` takes.
func withRawServer<Result>(
    _ talk: @escaping @Sendable (RawPeer) async throws -> Void, _ body: (_ port: Int) async throws -> Result
) async throws -> Result {
    let server = try await ServerBootstrap(group: .singletonMultiThreadedEventLoopGroup)
        .bind(host: "127.0.0.1", port: 0) { channel in
            channel.eventLoop.makeCompletedFuture {
                // So that `outbound.finish()` is an end that the client sees.
                try NIOAsyncChannel<ByteBuffer, ByteBuffer>(
                    wrappingChannelSynchronously: channel, configuration: .init(isOutboundHalfClosureEnabled: true))
            }
        }
    let port = try #require(server.channel.localAddress?.port)
    return try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask {
            try await server.executeThenClose { clients in
                for try await client in clients {
                    try? await client.executeThenClose { inbound, outbound in
                        try await talk(RawPeer(inbound, outbound))
                    }
                }
            }
        }
        defer { group.cancelAll() }
        return try await body(port)
    }
}

/// Something that happens once, and that somebody waits for.
struct Signal: Sendable {
    private let stream: AsyncStream<Void>
    private let continuation: AsyncStream<Void>.Continuation

    init() { (stream, continuation) = AsyncStream.makeStream() }

    func give() {
        continuation.yield()
        continuation.finish()
    }

    func wait() async { for await _ in stream { return } }
}
