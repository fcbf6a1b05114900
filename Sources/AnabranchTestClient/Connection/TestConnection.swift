package import AnabranchCore
package import AnabranchProtocol
package import NIOCore
import NIOPosix
import NIOWebSocket

/// A WebSocket to the server and the sessions on it (`Spec/Protocol.md`, section 8). It lives on its event loop, as
/// does everything that an event causes.
package actor TestConnection {
    package nonisolated let eventLoop: any EventLoop
    package nonisolated var unownedExecutor: UnownedSerialExecutor { eventLoop.executor.asUnownedSerialExecutor() }

    private let target: SyncTarget
    private let traffic: Traffic
    private let codec: ClientMessageCodec
    private let serverCodec: ServerMessageCodec
    private var channel: (any Channel)?
    private var clients: [SessionID: any SessionPeer] = [:]
    private var lastSession: SessionID = 0
    private var pings: RepeatedTask?
    /// True once the server has sent a message.
    private var hasAnswered = false
    /// The time when it ended, and the reason; nil as long as it is open.
    package private(set) var end: (time: ContinuousClock.Instant, reason: String)?
    /// The callers that wait for the answer to a PING, by its timestamp.
    private var pongs: [Int64: CheckedContinuation<Void, any Error>] = [:]
    private var lastPing: Int64 = 1
    private var held: HeldDownloads?

    /// The interval between PINGs, by which the server knows that a client is alive. Real clients send one a minute.
    private static let pingInterval = TimeAmount.seconds(50)

    package init(to target: SyncTarget, on eventLoop: any EventLoop, traffic: Traffic) {
        self.target = target
        codec = ClientMessageCodec(mode: target.mode)
        serverCodec = ServerMessageCodec(mode: target.mode)
        self.eventLoop = eventLoop
        self.traffic = traffic
    }

    // MARK: Opening and closing

    /// Opens a connection whose traffic is not counted.
    package static func opened(to target: SyncTarget, on eventLoop: any EventLoop) async throws -> TestConnection {
        let connection = TestConnection(to: target, on: eventLoop, traffic: Traffic())
        try await connection.open()
        return connection
    }

    /// - Throws: `TestClientError` if the server cannot be reached or does not let the client in.
    package func open() async throws {
        let connection = self
        do {
            let upgraded = try await ClientBootstrap(group: eventLoop)
                .connectTimeout(.seconds(30))
                .channelOption(.tcpOption(.tcp_nodelay), value: 1)
                .connect(host: target.host, port: target.port) { [target] channel in
                    channel.eventLoop.makeCompletedFuture {
                        try WebSocketOpening.configure(channel, for: target) { channel in
                            try connection.attach(channel)
                        }
                    }
                }
            try await upgraded.get()
        } catch let error as TestClientError {
            throw error
        } catch {
            throw TestClientError("no WebSocket to \(target.authority): \(error)")
        }
        pings = eventLoop.scheduleRepeatedTask(initialDelay: Self.pingInterval, delay: Self.pingInterval) { _ in
            connection.assumeIsolated { $0.send(.ping(timestamp: 0, roundTripMilliseconds: 0)) }
        }
    }

    /// Takes over an open socket. If the server closes it with its first answer, it may end before the handler can see
    /// it.
    private nonisolated func attach(_ channel: any Channel) throws {
        try channel.pipeline.syncOperations.addHandler(FrameHandler(self))
        assumeIsolated { $0.channel = channel }
        channel.closeFuture.whenComplete { _ in self.assumeIsolated { $0.finishWhenClosed() } }
    }

    private func finishWhenClosed() {
        finish(
            hasAnswered
                ? "the server closed the socket"
                : "the server closed the socket at once, as it does if it does not know the token" + target.advice)
    }

    /// Closes the connection, as if the device had lost its network.
    package func close() async {
        finish("closed here")
        try? await channel?.close().get()
        channel = nil
    }

    fileprivate func finish(_ reason: String, told: ErrorMessage? = nil) {
        guard end == nil else { return }
        end = (.now, reason)
        pings?.cancel()
        let error = TestClientError("the connection has ended: \(reason)", told: told)
        for client in clients.values { client.failNow(error) }
        for pong in pongs.values { pong.resume(throwing: error) }
        (clients, pongs) = ([:], [:])
    }

    // MARK: Sessions

    /// - Returns: the number of a new session, whose messages the client gets.
    package func begin(_ client: any SessionPeer) throws -> SessionID {
        if let end { throw TestClientError("the connection has ended: \(end.reason)") }
        lastSession += 1
        clients[lastSession] = client
        return lastSession
    }

    // MARK: Sending

    package func send(_ message: ClientMessage) { channel?.writeAndFlush(frame(of: message), promise: nil) }

    /// Sends a PING, and waits for the answer: then the server has read everything that was sent before.
    package func ping() async throws {
        if let end { throw TestClientError("the connection has ended: \(end.reason)") }
        lastPing += 1
        send(.ping(timestamp: lastPing, roundTripMilliseconds: 0))
        try await withCheckedThrowingContinuation { (pong: CheckedContinuation<Void, any Error>) in
            pongs[lastPing] = pong
        }
    }

    /// Sends several messages, and waits until the system has taken them.
    package func send(_ messages: [ClientMessage]) async throws {
        guard let channel, end == nil else { throw TestClientError("the connection has ended") }
        for message in messages.dropLast() { channel.write(frame(of: message), promise: nil) }
        guard let last = messages.last else { return }
        try await channel.writeAndFlush(frame(of: last)).get()
    }

    private func frame(of message: ClientMessage) -> WebSocketFrame {
        let encoded = codec.encode(message)
        traffic.send(encoded.count)
        var buffer = ByteBufferAllocator().buffer(capacity: encoded.count)
        buffer.writeBytes(encoded.head)
        buffer.writeBytes(encoded.body)
        return WebSocketFrame(fin: true, opcode: .binary, maskKey: .random(), data: buffer)
    }

    /// A frame that announces `size` bytes, with all of them but the last one.
    package static func unfinishedMessage(size: Int) -> ByteBuffer {
        var buffer = ByteBufferAllocator().buffer(capacity: size + 14)
        buffer.writeBytes([0x82, 0xff])
        buffer.writeInteger(UInt64(size))
        buffer.writeInteger(UInt32(0))  // the key of the mask
        buffer.writeRepeatingByte(UInt8(ascii: "x"), count: size - 1)
        return buffer
    }

    /// Sends bytes as they are, and does not wait until they are taken. No PING follows, which could end a message that
    /// was only begun.
    package func sendRaw(_ bytes: ByteBuffer) throws {
        pings?.cancel()
        guard let channel else { throw TestClientError("the connection has ended") }
        traffic.send(bytes.readableBytes)
        let encoder = try channel.pipeline.syncOperations.context(handlerType: WebSocketFrameEncoder.self)
        encoder.writeAndFlush(NIOAny(bytes), promise: nil)
    }

    /// Starts or stops reading the socket.
    package func setReading(_ isReading: Bool) async throws {
        try await channel?.setOption(.autoRead, value: isReading).get()
    }

    /// Reads at most `bytes` bytes from a socket that is otherwise not read.
    package func read(bytes: Int) {
        guard let channel, let options = channel.syncOptions else { return }
        // A socket that the server has closed has no options.
        try? options.setOption(.maxMessagesPerRead, value: 1)
        try? options.setOption(.recvAllocator, value: FixedSizeRecvByteBufferAllocator(capacity: bytes))
        channel.read()
    }

    // MARK: Receiving

    /// Holds all that arrives, neither decoded nor acknowledged, until `releaseDownloads`: so one client's work takes
    /// no processor time while others wait for their downloads, as if each had a device of its own.
    /// - Parameter onArrival: called with the time when a DOWNLOAD has arrived.
    package func holdDownloads(_ onArrival: @escaping @Sendable (ContinuousClock.Instant) -> Void) throws {
        guard let channel else { throw TestClientError("the connection has ended") }
        let pipeline = channel.pipeline.syncOperations, held = HeldDownloads(onArrival: onArrival)
        let decoder = try pipeline.handler(type: ByteToMessageHandler<WebSocketFrameDecoder>.self)
        try pipeline.addHandler(held, position: .before(decoder))
        self.held = held
    }

    /// Takes the messages that are held.
    package func releaseDownloads() { held?.release() }

    fileprivate func take(_ frame: WebSocketFrame) { take(frame, at: .now) }

    private func take(_ frame: WebSocketFrame, at time: ContinuousClock.Instant) {
        switch frame.opcode {
        case .binary where frame.fin:
            hasAnswered = true
            traffic.receive(frame.length)
            do {
                take(try serverCodec.decode(Array(buffer: frame.unmaskedData)), at: time)
            } catch {
                finish("a message that is none: \(error)")
            }
        case .connectionClose:
            var payload = frame.unmaskedData
            finish(reason(ofClosingWith: payload.readInteger(as: UInt16.self)))
        default: break
        }
    }

    /// The reason for a close code of `Spec/Protocol.md`, section 2.4.
    private func reason(ofClosingWith code: UInt16?) -> String {
        switch code {
        case 4001: "the server wants a token that it knows (code 4001)" + target.advice
        case 4002: "the server lets this user not in (code 4002)" + target.advice
        case let code?: "the server closed it with code \(code)"
        case nil: "the server closed it"
        }
    }

    private static func words(of error: ErrorMessage) -> String { "error \(error.code.rawValue), \(error.message)" }

    private func take(_ message: ServerMessage, at time: ContinuousClock.Instant) {
        switch message {
        case .ident(let session, _), .download(let session, _), .mark(let session, _), .queryError(let session, _):
            clients[session]?.takeNow(message, at: time)
        case .error(let session, let error) where session > 0 && error.code == .compensatingWrite:
            clients[session]?.takeNow(message, at: time)  // writes were undone, and the session goes on
        case .unbound(let session):
            clients.removeValue(forKey: session)?.takeNow(message, at: time)
        case .error(let session, let error) where session > 0:
            clients.removeValue(forKey: session)?.failNow(
                TestClientError("the server ended the session: \(Self.words(of: error))", told: error))
        case .error(_, let error): finish(Self.words(of: error), told: error)
        case .pong(let timestamp): pongs.removeValue(forKey: timestamp)?.resume()
        case .log, .testCommand: break
        }
    }
}

/// Passes the events of a socket to its connection.
private final class FrameHandler: ChannelInboundHandler {
    typealias InboundIn = WebSocketFrame

    private let connection: TestConnection

    init(_ connection: TestConnection) { self.connection = connection }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let frame = unwrapInboundIn(data)
        connection.assumeIsolated { $0.take(frame) }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        connection.assumeIsolated { $0.finish("\(error)") }
        context.close(promise: nil)
    }
}
