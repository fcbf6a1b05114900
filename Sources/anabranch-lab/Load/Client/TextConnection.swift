import AnabranchTestClient
import NIOCore
import NIOPosix

/// A WebSocket of text messages. Its server is trusted: it sends each message in one frame.
final class TextConnection: Sendable {
    enum Event: Sendable {
        case message(ByteBuffer)
        /// The end, with the code by which the server has closed it; nil if it has not said one.
        case closed(code: UInt16?)
    }

    private let channel: any Channel
    private let traffic: Traffic

    /// - Parameters:
    ///   - path: the path of the WebSocket.
    ///   - onEvent: is given each message on the event loop, and the end.
    /// - Throws: `LoadError` if the server does not let the client in.
    init(
        to target: SyncTarget, path: String, on eventLoop: any EventLoop, traffic: Traffic,
        onEvent: @escaping @Sendable (Event) -> Void
    ) async throws {
        let opened = eventLoop.makePromise(of: Void.self)
        do {
            channel = try await ClientBootstrap(group: eventLoop)
                .channelOption(.tcpOption(.tcp_nodelay), value: 1)
                .channelInitializer { channel in
                    channel.eventLoop.makeCompletedFuture {
                        try channel.pipeline.syncOperations.addHandler(
                            TextFrameHandler(opened, traffic: traffic, onEvent: onEvent))
                    }
                }
                .connect(host: target.host, port: target.port).get()
        } catch {
            opened.fail(error)
            throw LoadError("no WebSocket to \(target.authority): \(error)")
        }
        self.traffic = traffic
        let request = """
            GET \(path) HTTP/1.1\r\nHost: \(target.authority)\r\nUpgrade: websocket\r\nConnection: Upgrade\r
            Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n
            """
        channel.writeAndFlush(ByteBuffer(string: request), promise: nil)
        try await opened.futureResult.get()
    }

    /// Sends a message.
    func send(_ text: String) {
        let count = text.utf8.count
        var frame = ByteBuffer()
        frame.reserveCapacity(count + 14)
        frame.writeInteger(0x81 as UInt8)
        switch count {
        case ..<126: frame.writeInteger(0x80 | UInt8(count))
        case ..<65_536: frame.writeMultipleIntegers(0xFE as UInt8, UInt16(count))
        default: frame.writeMultipleIntegers(0xFF as UInt8, UInt64(count))
        }
        // A mask of zeros leaves the payload as it is.
        frame.writeInteger(0 as UInt32)
        frame.writeString(text)
        traffic.send(count)
        channel.writeAndFlush(frame, promise: nil)
    }

    func close() async { try? await channel.close().get() }
}

/// Takes the answer to the upgrade, and then frames apart.
private final class TextFrameHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let opened: EventLoopPromise<Void>
    private let traffic: Traffic
    private let onEvent: @Sendable (TextConnection.Event) -> Void
    private var closingCode: UInt16?
    private var buffer = ByteBuffer()
    private var isOpen = false

    init(
        _ opened: EventLoopPromise<Void>, traffic: Traffic, onEvent: @escaping @Sendable (TextConnection.Event) -> Void
    ) {
        self.opened = opened
        self.traffic = traffic
        self.onEvent = onEvent
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var more = unwrapInboundIn(data)
        buffer.discardReadBytes()
        buffer.writeBuffer(&more)
        guard isOpen || open() else { return }
        while let (opcode, payload) = frame() {
            switch opcode {
            case 1:
                traffic.receive(payload.readableBytes)
                onEvent(.message(payload))
            case 8:
                closingCode = payload.getInteger(at: payload.readerIndex)
                return context.close(promise: nil)
            case 9:
                // The answer to a ping, which has no payload.
                context.writeAndFlush(NIOAny(ByteBuffer(bytes: [0x8A, 0x80, 0, 0, 0, 0])), promise: nil)
            default: break
            }
        }
    }

    /// Reads the head of the answer to the request.
    private func open() -> Bool {
        let end = Array("\r\n\r\n".utf8), view = buffer.readableBytesView
        guard let place = view.indices.first(where: { view[$0...].starts(with: end) }) else { return false }
        let head = buffer.readString(length: place - view.startIndex + end.count) ?? ""
        guard head.hasPrefix("HTTP/1.1 101") else {
            opened.fail(LoadError("the server answers \(head.prefix { $0 != "\r" })"))
            return false
        }
        isOpen = true
        opened.succeed()
        return true
    }

    private func frame() -> (opcode: UInt8, payload: ByteBuffer)? {
        let start = buffer.readerIndex
        guard let first: UInt8 = buffer.getInteger(at: start), let length: UInt8 = buffer.getInteger(at: start + 1)
        else { return nil }
        var count = Int(length), head = 2
        if count == 126 {
            guard let long: UInt16 = buffer.getInteger(at: start + 2) else { return nil }
            (count, head) = (Int(long), 4)
        } else if count == 127 {
            guard let long: UInt64 = buffer.getInteger(at: start + 2) else { return nil }
            (count, head) = (Int(long), 10)
        }
        guard let payload = buffer.getSlice(at: start + head, length: count) else { return nil }
        buffer.moveReaderIndex(forwardBy: head + count)
        return (first & 0xF, payload)
    }

    func channelInactive(context: ChannelHandlerContext) {
        opened.fail(LoadError("the server has closed the connection"))
        onEvent(.closed(code: closingCode))
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}
