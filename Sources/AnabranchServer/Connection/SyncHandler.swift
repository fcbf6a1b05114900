import AnabranchCore
import AnabranchProtocol
import Logging
import NIOCore
import NIOWebSocket

/// One WebSocket and the connection behind it: frames become messages, messages become calls of synced files, and what
/// the connection has to say becomes frames.
///
///     open ─ shutdown ─▶ draining ─ everything committed ─▶ leaving ─ client leaves ─▶ closed
///     open ─ error, close frame, last message ────────────▶ leaving
///
/// Memory is bounded in both directions: nothing is asked of the connection while the socket does not take it, so a
/// slow reader gets nothing more until it reads; and while too much waits to be done, messages stay as they came, which
/// is how they are smallest, and the socket is not read.
final class SyncHandler: ChannelDuplexHandler {
    typealias InboundIn = WebSocketFrame
    typealias OutboundIn = Never
    typealias OutboundOut = WebSocketFrame

    private enum Phase { case open, draining, leaving, closed }

    private var connection: SyncConnection
    private let settings: ServerSettings
    private let table: ConnectionTable
    private let stores: StoreThreads
    private let logger: Logger
    private let visitor: FrontDoor.Visitor

    private var phase = Phase.open
    private var assembler: MessageAssembler
    private var context: ChannelHandlerContext?
    private var isSpeaking = false

    /// The cost of the calls that are not done yet.
    private var waitingBytes = 0
    /// What has come in and is not taken in yet: what is left of one reading of the socket.
    private var arrivals = CircularBuffer<MessageAssembler.Event>()
    private var isReadHeld = false
    /// There is no room for an UPLOAD; the room tells when there is.
    private var isRoomAwaited = false

    private let mailbox = Mailbox()
    private let pulse: Pulse
    private var lastMessage = NIODeadline.now()
    private var silenceTimer: Scheduled<Void>?
    private var lingerTimer: Scheduled<Void>?

    init(
        _ connection: consuming SyncConnection, _ visitor: FrontDoor.Visitor, pulse: Pulse, settings: ServerSettings,
        table: ConnectionTable, stores: StoreThreads, logger: Logger
    ) {
        self.connection = connection
        self.visitor = visitor
        self.pulse = pulse
        self.settings = settings
        self.table = table
        self.stores = stores
        self.logger = logger
        assembler = MessageAssembler(messageBytesMax: settings.limits.messageBytesMax)
    }

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        lastMessage = context.eventLoop.now
        table.connect(connection.ident, NIOLoopBound(self, eventLoop: context.eventLoop), mailbox)
        logger.info("connection opened", metadata: visitor.metadata(from: context.remoteAddress))
        if let refusal = visitor.refusal { return leave(context, refusal, because: "refused") }
        watchForSilence(context)
        speak(context)
    }

    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func channelInactive(context: ChannelHandlerContext) {
        phase = .closed
        silenceTimer?.cancel()
        lingerTimer?.cancel()
        connection.end()
        submitCalls()
        table.disconnect(connection.ident)
        logger.info("connection closed")
        context.fireChannelInactive()
    }

    // MARK: Listening

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        takeMail()
        guard case .open = phase else { return }
        do {
            guard let event = try assembler.take(unwrapInboundIn(data)) else { return }
            if case .message = event { hearSomething(context) }
            arrivals.append(event)
            takeArrivals(context)
        } catch {
            violate(context, error)
        }
    }

    /// Takes in what has arrived, in its order, as long as there is room for it.
    private func takeArrivals(_ context: ChannelHandlerContext) {
        while phase == .open, let event = arrivals.first, hasRoom(for: event, context) {
            arrivals.removeFirst()
            take(event, context)
        }
    }

    private func take(_ event: MessageAssembler.Event, _ context: ChannelHandlerContext) {
        switch event {
        case .message(let message):
            connection.receive(Array(buffer: message))
            submitCalls()
            speak(context)
        case .ping(let payload):
            // A client that does not read gets no pile of pongs; RFC 6455 wants the newest answered only.
            if context.channel.isWritable {
                context.writeAndFlush(
                    wrapOutboundOut(WebSocketFrame(fin: true, opcode: .pong, data: payload)), promise: nil)
            }
        case .close:
            leave(context, .normalClosure, because: "closed by the client")
        }
    }

    /// Only an UPLOAD needs room that others may have taken: so PINGs are answered however much the others bring.
    private func hasRoom(for event: MessageAssembler.Event, _ context: ChannelHandlerContext) -> Bool {
        guard waitingBytes <= settings.waitingBytesMax else { return false }
        guard case .message(let message) = event, message.readableBytesView.starts(with: "upload ".utf8) else {
            return true
        }
        guard !isRoomAwaited else { return false }
        let handler = NIOLoopBound(self, eventLoop: context.eventLoop)
        isRoomAwaited = !stores.room.hasRoom {
            handler.eventLoop.execute { handler.value.thereIsRoom() }
        }
        return !isRoomAwaited
    }

    private func thereIsRoom() {
        isRoomAwaited = false
        takeMail()
        if let context { goOn(context) }
    }

    func read(context: ChannelHandlerContext) {
        isReadHeld = phase == .draining || phase == .open && mustHoldReading
        if !isReadHeld { context.read() }
    }

    private var mustHoldReading: Bool { !arrivals.isEmpty || waitingBytes > settings.waitingBytesMax }

    /// Some of what waited has been done.
    private func goOn(_ context: ChannelHandlerContext) {
        takeArrivals(context)
        guard isReadHeld, phase == .open, arrivals.isEmpty, waitingBytes <= settings.waitingBytesMax / 2 else { return }
        isReadHeld = false
        context.read()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if let error = error as? NIOWebSocketError {
            violate(context, FramingViolation(error))
        } else if !(error is ByteToMessageDecoderError) {
            // A decoder that has failed complains about all that still comes in; anything else is the end of the
            // socket.
            context.close(promise: nil)
        }
    }

    private func violate(_ context: ChannelHandlerContext, _ violation: FramingViolation) {
        leave(context, violation.code, because: violation.reason)
    }

    // MARK: Files

    private func submitCalls() {
        for call in connection.takeCalls() {
            waitingBytes += call.cost
            stores.submit(call)
        }
    }

    /// News from the files; on the event loop.
    func takeMail() {
        for delivery in mailbox.takeAll() { take(delivery) }
    }

    private func take(_ delivery: Delivery) {
        waitingBytes -= delivery.doneBytes
        guard let context, phase != .closed else { return }
        for reply in delivery.replies { connection.take(reply) }
        if connection.isSuperseded { return context.close(promise: nil) }
        submitCalls()
        speak(context)
        goOn(context)
        leaveIfDrained(context)
    }

    /// Rights have changed; on the event loop.
    func recheckRights() {
        guard let context, phase == .open || phase == .draining else { return }
        connection.recheckRights()
        submitCalls()
        speak(context)
    }

    // MARK: For the operator

    /// On the event loop.
    var sessionCount: Int { connection.sessionCount }

    /// What the connection is doing; on the event loop.
    func report() -> ConnectionReport {
        ConnectionReport(
            remote: context?.remoteAddress?.hostAndPort, member: visitor.member,
            protocolVersion: visitor.handshake.negotiation.element, sessions: connection.report())
    }

    /// The login by which the connection came in; nil if it is none that depends on one. On the event loop.
    var login: String? { phase == .open || phase == .draining ? visitor.member.login : nil }

    /// Whether the connection is the user's; on the event loop.
    func belongs(to user: String) -> Bool { visitor.member.user == user }

    /// The login is over: a new client asks for another token, is refused that as well, and logs its user out. On the
    /// event loop.
    func endLogin() {
        guard let context else { return }
        let isOld = visitor.handshake.negotiation.usesOldCloseStyle
        leave(context, isOld ? parting : .tokenRefused, because: "the login has ended")
    }

    /// Closes the connection; its client comes back. On the event loop.
    func disconnect() {
        if let context { leave(context, parting, because: "the operator") }
    }

    /// Ends the sessions of that name; their clients open them anew. On the event loop.
    /// - Returns: whether there was one.
    func disconnect(session ident: SessionID) -> Bool {
        guard let context, phase == .open || phase == .draining, connection.disconnect(session: ident) else {
            return false
        }
        submitCalls()
        speak(context)
        return true
    }

    // MARK: Speaking

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        speak(context)
        context.fireChannelWritabilityChanged()
    }

    private func speak(_ context: ChannelHandlerContext) {
        // Writing can change the writability, which calls this again.
        guard !isSpeaking else { return }
        isSpeaking = true
        defer { isSpeaking = false }
        while phase == .open || phase == .draining, context.channel.isWritable, let outbound = connection.next() {
            switch outbound {
            case .message(let message):
                context.write(wrapOutboundOut(Self.frame(message)), promise: nil)
            case .lastMessage(let message):
                let patience = TimeAmount.milliseconds(settings.limits.softCloseMillisecondsMax)
                leave(context, saying: Self.frame(message), patience: patience, because: "connection error")
            case .close(let code):
                leave(context, WebSocketErrorCode(codeNumber: Int(code)), because: "connection error")
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

    // MARK: Leaving

    /// Takes in nothing more, waits until what was taken in is committed and told, and leaves.
    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if event is ChannelShouldQuiesceEvent, phase == .open {
            phase = .draining
            leaveIfDrained(context)
        }
        context.fireUserInboundEventTriggered(event)
    }

    private func leaveIfDrained(_ context: ChannelHandlerContext) {
        guard phase == .draining, waitingBytes == 0 else { return }
        leave(context, parting, because: "shutdown")
    }

    /// The code for a client that has done nothing wrong. Old clients take any other one for a reason to stay away for
    /// an hour (`Spec/Protocol.md`, section 2.3).
    private var parting: WebSocketErrorCode {
        visitor.handshake.negotiation.usesOldCloseStyle ? .normalClosure : .goingAway
    }

    private func leave(_ context: ChannelHandlerContext, _ code: WebSocketErrorCode, because reason: String) {
        var payload = ByteBuffer()
        payload.write(webSocketErrorCode: code)
        leave(
            context, saying: WebSocketFrame(fin: true, opcode: .connectionClose, data: payload),
            patience: .seconds(settings.lingerSecondsMax), because: reason)
    }

    /// Says the last word and shuts the sending side. What still comes in is read and thrown away until the client has
    /// left: closing at once would reset the socket, and the client might never see what was said.
    private func leave(
        _ context: ChannelHandlerContext, saying frame: WebSocketFrame, patience: TimeAmount, because reason: String
    ) {
        guard phase == .open || phase == .draining else { return }
        phase = .leaving
        logger.debug("leaving", metadata: ["reason": "\(reason)"])
        connection.end()
        submitCalls()
        silenceTimer?.cancel()
        arrivals.removeAll()
        if isReadHeld { context.read() }
        let said = context.eventLoop.makePromise(of: Void.self)
        said.futureResult.assumeIsolated().whenSuccess { context.close(mode: .output, promise: nil) }
        context.writeAndFlush(wrapOutboundOut(frame), promise: said)
        lingerTimer = context.eventLoop.assumeIsolated().scheduleTask(in: patience) { context.close(promise: nil) }
    }

    // MARK: Silence

    private func hearSomething(_ context: ChannelHandlerContext) {
        lastMessage = context.eventLoop.now
        pulse.takeBytes()
    }

    /// A client sends PING every minute, so one that says nothing for three is gone; unless a long message is under
    /// way, or it is the server that does not listen.
    private func watchForSilence(_ context: ChannelHandlerContext) {
        let limit = TimeAmount.milliseconds(settings.limits.silenceMillisecondsMax)
        silenceTimer = context.eventLoop.assumeIsolated().scheduleTask(deadline: lastMessage + limit) { [self] in
            if lastMessage + limit <= context.eventLoop.now {
                guard pulse.takeBytes() >= Pulse.bytesMin || isReadHeld else {
                    logger.info("the client has fallen silent")
                    return context.close(promise: nil)
                }
                lastMessage = context.eventLoop.now
            }
            watchForSilence(context)
        }
    }
}
