import AnabranchCore
import AnabranchProtocol
import Logging
import NIOCore
import NIOWebSocket

/// One WebSocket and the connection behind it: frames become messages, messages become calls of synced files, and what
/// the connection has to say becomes frames.
///
///     open ─ shutdown ─▶ draining ─ everything committed ─▶ closing ─ client leaves ─▶ closed
///     open ─ error, close frame, last message ────────────▶ closing
///
/// Memory is bounded in both directions: nothing is asked of the connection while the socket does not take it, so a
/// slow reader gets nothing more until it reads; and while too much waits to be done, messages stay as they came, which
/// is how they are smallest, and the socket is not read.
final class SyncHandler: ChannelDuplexHandler {
    typealias InboundIn = WebSocketFrame
    typealias OutboundIn = Never
    typealias OutboundOut = WebSocketFrame

    private enum Phase { case open, draining, closing, closed }

    private var connection: SyncConnection
    private let settings: ServerSettings
    private let connections: ConnectionRegistry
    private let files: StoreThreads
    private let logger: Logger
    private let handshake: AcceptedHandshake

    private var phase = Phase.open
    private var assembler: MessageAssembler
    private var context: ChannelHandlerContext?
    private var isSending = false

    /// The cost of the calls that are not done yet.
    private var waitingBytes = 0
    /// What has come in and is not taken in yet: what is left of one reading of the socket.
    private var inbound = CircularBuffer<MessageAssembler.Event>()
    private var isReadHeld = false
    /// The memory budget has no room for an UPLOAD; it calls back when there is.
    private var isAwaitingBudget = false

    private let replyQueue = ReplyQueue()
    private let byteCounter: InboundByteCounter
    private var lastMessage = NIODeadline.now()
    private var silenceTimer: Scheduled<Void>?
    private var lingerTimer: Scheduled<Void>?

    init(
        _ connection: consuming SyncConnection, _ handshake: AcceptedHandshake, byteCounter: InboundByteCounter,
        settings: ServerSettings,
        connections: ConnectionRegistry, files: StoreThreads, logger: Logger
    ) {
        self.connection = connection
        self.handshake = handshake
        self.byteCounter = byteCounter
        self.settings = settings
        self.connections = connections
        self.files = files
        self.logger = logger
        assembler = MessageAssembler(messageBytesMax: settings.limits.messageBytesMax)
    }

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        lastMessage = context.eventLoop.now
        connections.connect(connection.ident, NIOLoopBound(self, eventLoop: context.eventLoop), replyQueue)
        logger.info("connection opened", metadata: handshake.metadata(from: context.remoteAddress))
        if let closeCode = handshake.closeCode { return close(context, closeCode, because: "refused") }
        watchForSilence(context)
        sendPending(context)
    }

    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func channelInactive(context: ChannelHandlerContext) {
        phase = .closed
        silenceTimer?.cancel()
        lingerTimer?.cancel()
        connection.end()
        submitCalls()
        connections.disconnect(connection.ident)
        logger.info("connection closed")
        context.fireChannelInactive()
    }

    // MARK: Inbound

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        drainReplies()
        guard case .open = phase else { return }
        do {
            guard let event = try assembler.take(unwrapInboundIn(data)) else { return }
            if case .message = event { noteMessage(context) }
            inbound.append(event)
            takeInbound(context)
        } catch {
            close(context, error)
        }
    }

    /// Takes in what has arrived, in its order, as long as there is room for it.
    private func takeInbound(_ context: ChannelHandlerContext) {
        while phase == .open, let event = inbound.first, hasRoom(for: event, context) {
            inbound.removeFirst()
            take(event, context)
        }
    }

    private func take(_ event: MessageAssembler.Event, _ context: ChannelHandlerContext) {
        switch event {
        case .message(let message):
            connection.receive(Array(buffer: message))
            submitCalls()
            sendPending(context)
        case .ping(let payload):
            // A client that does not read gets no pile of pongs; RFC 6455 wants the newest answered only.
            if context.channel.isWritable {
                context.writeAndFlush(
                    wrapOutboundOut(WebSocketFrame(fin: true, opcode: .pong, data: payload)), promise: nil)
            }
        case .close:
            close(context, .normalClosure, because: "closed by the client")
        }
    }

    /// Only an UPLOAD needs room that others may have taken: so PINGs are answered however much the others bring.
    private func hasRoom(for event: MessageAssembler.Event, _ context: ChannelHandlerContext) -> Bool {
        guard waitingBytes <= settings.waitingBytesMax else { return false }
        guard case .message(let message) = event, ClientMessage.Kind(of: message.readableBytesView) == .upload else {
            return true
        }
        guard !isAwaitingBudget else { return false }
        let handler = NIOLoopBound(self, eventLoop: context.eventLoop)
        isAwaitingBudget = !files.budget.hasRoom {
            handler.eventLoop.execute { handler.value.budgetAvailable() }
        }
        return !isAwaitingBudget
    }

    private func budgetAvailable() {
        isAwaitingBudget = false
        drainReplies()
        if let context { resumeReading(context) }
    }

    func read(context: ChannelHandlerContext) {
        isReadHeld = phase == .draining || phase == .open && mustHoldReading
        if !isReadHeld { context.read() }
    }

    private var mustHoldReading: Bool { !inbound.isEmpty || waitingBytes > settings.waitingBytesMax }

    /// Some of what waited has been done.
    private func resumeReading(_ context: ChannelHandlerContext) {
        takeInbound(context)
        guard isReadHeld, phase == .open, inbound.isEmpty, waitingBytes <= settings.waitingBytesMax / 2 else { return }
        isReadHeld = false
        context.read()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if let error = error as? NIOWebSocketError {
            close(context, FramingError(error))
        } else if !(error is ByteToMessageDecoderError) {
            // A decoder that has failed complains about all that still comes in; anything else is the end of the
            // socket.
            context.close(promise: nil)
        }
    }

    private func close(_ context: ChannelHandlerContext, _ error: FramingError) {
        close(context, error.code, because: error.reason)
    }

    // MARK: Files

    private func submitCalls() {
        for call in connection.takeCalls() {
            waitingBytes += call.cost
            files.submit(call)
        }
    }

    /// News from the files; on the event loop.
    func drainReplies() {
        for replies in replyQueue.drain() { take(replies) }
    }

    private func take(_ replies: ConnectionReplies) {
        waitingBytes -= replies.doneBytes
        guard let context, phase != .closed else { return }
        for reply in replies.replies { connection.take(reply) }
        if connection.isSuperseded { return context.close(promise: nil) }
        submitCalls()
        sendPending(context)
        resumeReading(context)
        closeIfDrained(context)
    }

    /// Rights have changed; on the event loop.
    func recheckPermissions() {
        guard let context, phase == .open || phase == .draining else { return }
        connection.recheckPermissions()
        submitCalls()
        sendPending(context)
    }

    // MARK: For the operator

    /// On the event loop.
    var sessionCount: Int { connection.sessionCount }

    /// What the connection is doing; on the event loop.
    func report() -> ConnectionReport {
        ConnectionReport(
            remote: context?.remoteAddress?.hostAndPort, principal: handshake.principal,
            protocolVersion: handshake.negotiation.element, sessions: connection.report())
    }

    /// The login by which the connection came in; nil if it is none that depends on one. On the event loop.
    var login: String? { phase == .open || phase == .draining ? handshake.principal.login : nil }

    /// Whether the connection is the user's; on the event loop.
    func belongs(to user: String) -> Bool { handshake.principal.user == user }

    /// The login is over: a new client asks for another token, is refused that as well, and logs its user out. On the
    /// event loop.
    func endLogin() {
        guard let context else { return }
        let isOld = handshake.negotiation.usesOldCloseStyle
        close(context, isOld ? politeCloseCode : .tokenRefused, because: "the login has ended")
    }

    /// Closes the connection; its client comes back. On the event loop.
    func disconnect() {
        if let context { close(context, politeCloseCode, because: "the operator") }
    }

    /// Ends the sessions of that name; their clients open them anew. On the event loop.
    /// - Returns: whether there was one.
    func disconnect(session ident: SessionID) -> Bool {
        guard let context, phase == .open || phase == .draining, connection.disconnect(session: ident) else {
            return false
        }
        submitCalls()
        sendPending(context)
        return true
    }

    // MARK: Outbound

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        sendPending(context)
        context.fireChannelWritabilityChanged()
    }

    private func sendPending(_ context: ChannelHandlerContext) {
        // Writing can change the writability, which calls this again.
        guard !isSending else { return }
        isSending = true
        defer { isSending = false }
        while phase == .open || phase == .draining, context.channel.isWritable, let outbound = connection.next() {
            switch outbound {
            case .message(let message):
                context.write(wrapOutboundOut(Self.frame(message)), promise: nil)
            case .lastMessage(let message):
                let timeout = TimeAmount.milliseconds(settings.limits.softCloseMillisecondsMax)
                close(context, saying: Self.frame(message), timeout: timeout, because: "connection error")
            case .close(let code):
                close(context, WebSocketErrorCode(codeNumber: Int(code)), because: "connection error")
            }
        }
        submitCalls()
        context.flush()
    }

    /// Head and body go out as one frame without being joined first.
    private static func frame(_ message: EncodedMessage) -> WebSocketFrame {
        WebSocketFrame(
            fin: true, opcode: .binary, maskKey: nil, data: ByteBuffer(bytes: message.body),
            extensionData: ByteBuffer(bytes: message.head))
    }

    // MARK: Closing

    /// Takes in nothing more, waits until what was taken in is committed and told, and leaves.
    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if event is ChannelShouldQuiesceEvent, phase == .open {
            phase = .draining
            closeIfDrained(context)
        }
        context.fireUserInboundEventTriggered(event)
    }

    private func closeIfDrained(_ context: ChannelHandlerContext) {
        guard phase == .draining, waitingBytes == 0 else { return }
        close(context, politeCloseCode, because: "shutdown")
    }

    /// The code for a client that has done nothing wrong. Old clients take any other one for a reason to stay away for
    /// an hour (`Spec/Protocol.md`, section 2.3).
    private var politeCloseCode: WebSocketErrorCode {
        handshake.negotiation.usesOldCloseStyle ? .normalClosure : .goingAway
    }

    private func close(_ context: ChannelHandlerContext, _ code: WebSocketErrorCode, because reason: String) {
        var payload = ByteBuffer()
        payload.write(webSocketErrorCode: code)
        close(
            context, saying: WebSocketFrame(fin: true, opcode: .connectionClose, data: payload),
            timeout: .seconds(settings.lingerSecondsMax), because: reason)
    }

    /// Says the last word and shuts the sending side. What still comes in is read and thrown away until the client has
    /// left: closing at once would reset the socket, and the client might never see what was said.
    private func close(
        _ context: ChannelHandlerContext, saying frame: WebSocketFrame, timeout: TimeAmount, because reason: String
    ) {
        guard phase == .open || phase == .draining else { return }
        phase = .closing
        logger.debug("leaving", metadata: ["reason": "\(reason)"])
        connection.end()
        submitCalls()
        silenceTimer?.cancel()
        inbound.removeAll()
        if isReadHeld { context.read() }
        let said = context.eventLoop.makePromise(of: Void.self)
        said.futureResult.assumeIsolated().whenSuccess { context.close(mode: .output, promise: nil) }
        context.writeAndFlush(wrapOutboundOut(frame), promise: said)
        lingerTimer = context.eventLoop.assumeIsolated().scheduleTask(in: timeout) { context.close(promise: nil) }
    }

    // MARK: Silence

    private func noteMessage(_ context: ChannelHandlerContext) {
        lastMessage = context.eventLoop.now
        byteCounter.takeCount()
    }

    /// A client sends PING every minute, so one that says nothing for three is gone; unless a long message is under
    /// way, or it is the server that does not listen.
    private func watchForSilence(_ context: ChannelHandlerContext) {
        let limit = TimeAmount.milliseconds(settings.limits.silenceMillisecondsMax)
        silenceTimer = context.eventLoop.assumeIsolated().scheduleTask(deadline: lastMessage + limit) { [self] in
            if lastMessage + limit <= context.eventLoop.now {
                guard byteCounter.takeCount() >= InboundByteCounter.bytesMin || isReadHeld else {
                    logger.info("the client has fallen silent")
                    return context.close(promise: nil)
                }
                lastMessage = context.eventLoop.now
            }
            watchForSilence(context)
        }
    }
}
