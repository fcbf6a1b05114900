import AnabranchProtocol
import Logging
import NIOCore
import NIOWebSocket

/// One WebSocket and its connection: frames become messages, messages become requests to synced files, and the output
/// of the connection becomes frames.
///
///     open ─ shutdown ─▶ draining ─ everything committed ─▶ closing ─ client closes ─▶ closed
///     open ─ error, close frame, last message ────────────▶ closing
///
/// Memory is bounded in both directions: a message is taken from the connection only while the socket accepts it, so a
/// slow reader gets nothing more until it reads; input waits in an `InboundQueue`.
final class SyncHandler: ChannelDuplexHandler {
    typealias InboundIn = WebSocketFrame
    typealias OutboundIn = Never
    typealias OutboundOut = WebSocketFrame

    private enum Phase { case open, draining, closing, closed }

    /// The cost of finished requests whose report to the connection may wait for the next reply or message.
    static let quietBytesMax = 64 << 10

    var connection: SyncConnection
    let handshake: AcceptedHandshake
    /// How long the client may take to leave: after an error of the connection, and otherwise.
    private let errorTimeout, lingerTimeout: TimeAmount
    private let connections: ConnectionRegistry
    private let outbox: RequestOutbox
    private let logger: Logger

    private var phase = Phase.open
    /// The time at which the connection was opened; nil if the client was refused.
    private var openedAt: NIODeadline?
    /// The reason for the end of the connection, for the log.
    private var closeReason = "the client has left"
    private(set) var context: ChannelHandlerContext?
    /// The context of the handler that encodes frames.
    private var encoder: ChannelHandlerContext?
    private var assembler: MessageAssembler
    private var inbound: InboundQueue
    /// Called on any thread when there is memory for a message that waits.
    private var resume: InboundQueue.Grant = { _, _ in }
    private let replies: ReplyQueue
    private var isSending = false
    /// True if the writability has changed while messages were being sent: there may be room for more.
    private var hasRoomAgain = false
    /// True between the first frame of a reading and its end, and while replies are handled. The output of that time
    /// goes out together.
    private var holdsFlush = false
    private var hasUnflushed = false
    private let silence: SilenceDetector
    private let memory: MessageMemory
    private var closeTimer: Scheduled<Void>?
    private var expiryTimer: Scheduled<Void>?

    /// - Parameters:
    ///   - silence: a handler before this one in the pipeline.
    ///   - memory: another handler before this one.
    ///   - outbox: the outbox of the connection's event loop.
    init(
        _ connection: consuming SyncConnection, _ handshake: AcceptedHandshake, silence: SilenceDetector,
        memory: MessageMemory, settings: ServerSettings, connections: ConnectionRegistry, outbox: RequestOutbox,
        logger: Logger
    ) {
        self.connection = connection
        self.handshake = handshake
        self.silence = silence
        self.memory = memory
        errorTimeout = .milliseconds(settings.limits.softCloseMillisecondsMax)
        lingerTimeout = .seconds(settings.lingerSecondsMax)
        self.connections = connections
        self.outbox = outbox
        self.logger = logger
        assembler = MessageAssembler(messageBytesMax: settings.limits.messageBytesMax)
        replies = ReplyQueue(quietBytesMax: min(Self.quietBytesMax, settings.waitingBytesMax / 2))
        inbound = InboundQueue(waitingBytesMax: settings.waitingBytesMax, budget: outbox.files.budget)
    }

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        encoder = try? context.pipeline.syncOperations.context(handlerType: WebSocketFrameEncoder.self)
        let handler = NIOLoopBound(self, eventLoop: context.eventLoop)
        resume = { permit, number in handler.eventLoop.execute { handler.value.take(permit, ofWait: number) } }
        connections.connect(connection.id, handler, replies)
        if let closeCode = handshake.closeCode { return close(closeCode, because: "refused") }
        openedAt = context.eventLoop.now
        logger.info("connection opened", metadata: handshake.metadata)
        silence.start(on: context.eventLoop) {
            self.inbound.isReadHeld || self.memory.isReadHeld
        } onSilence: {
            self.close(self.politeCloseCode, because: "the client has fallen silent")
        }
        if let expiry = handshake.expiry {
            expiryTimer = context.eventLoop.assumeIsolated().scheduleTask(in: expiry.delay) {
                expiry.record()
                self.close(.tokenRefused, because: "the token has expired")
            }
        }
        memory.onExcess = { self.fail(.protocolError("a long message before the first IDENT")) }
        send(context)
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        (self.context, encoder) = (nil, nil)
        // These closures keep the handler alive.
        resume = { _, _ in }
        memory.onExcess = {}
    }

    func channelInactive(context: ChannelHandlerContext) {
        phase = .closed
        silence.stop()
        closeTimer?.cancel()
        expiryTimer?.cancel()
        inbound.removeAll()
        connection.end()
        submitRequests()
        connections.disconnect(connection.id)
        if let openedAt {
            let seconds = (context.eventLoop.now - openedAt).nanoseconds / 1_000_000_000
            logger.info("connection closed", metadata: ["reason": "\(closeReason)", "seconds": "\(seconds)"])
        }
        context.fireChannelInactive()
    }

    /// True while the connection is not about to close.
    var isLive: Bool { phase == .open || phase == .draining }

    // MARK: Inbound

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        holdsFlush = true
        drainReplies()
        guard phase == .open else { return }
        do {
            let event = try assembler.take(unwrapInboundIn(data))
            let permit = memory.endFrame(messageBytes: assembler.unfinishedBytes)
            defer { if memory.takePendingRead() { read(context: context) } }
            guard let event else { return }
            record(event, at: context.eventLoop.now)
            inbound.append(event, permit)
            handleInbound(context)
        } catch {
            fail(error)
        }
    }

    /// Tells `silence` of messages and pings.
    private func record(_ event: MessageAssembler.Event, at time: NIODeadline) {
        switch event {
        case .message(let message):
            silence.recordMessage(at: time)
            if ClientMessage.Kind(of: message) == .ping { silence.recordPing(at: time) }
        case .ping: silence.recordMessage(at: time)
        default: break
        }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        if holdsFlush {
            holdsFlush = false
            flush(context)
        }
        context.fireChannelReadComplete()
    }

    /// Handles the events that there is room for.
    private func handleInbound(_ context: ChannelHandlerContext) {
        while phase == .open, let event = inbound.next(orElse: resume) {
            switch event {
            case .message(let message):
                if !memory.isIdentified { memory.isIdentified = ClientMessage.Kind(of: message) == .ident }
                connection.receive(Array(buffer: message))
                submitRequests()
                send(context)
            case .ping(let payload):
                // A client that does not read gets no pile of pongs: RFC 6455 requires an answer only to the newest
                // PING.
                if context.channel.isWritable {
                    hasUnflushed = true
                    context.write(
                        wrapOutboundOut(WebSocketFrame(fin: true, opcode: .pong, data: payload)), promise: nil)
                    flush(context)
                }
            case .close:
                close(.normalClosure, because: "closed by the client")
            }
        }
    }

    private func take(_ permit: MemoryPermit, ofWait number: Int) {
        inbound.take(permit, ofWait: number)
        drainReplies()
        if let context { resumeInbound(context) }
    }

    /// Resumes the waiting work: events, and the reading of the socket.
    private func resumeInbound(_ context: ChannelHandlerContext) {
        handleInbound(context)
        if phase == .open, inbound.resumesReading() { context.read() }
    }

    func read(context: ChannelHandlerContext) {
        if !isLive || inbound.allowsReading(isDraining: phase == .draining) { context.read() }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if let error = error as? NIOWebSocketError {
            fail(FramingError(error))
        } else if !(error is ByteToMessageDecoderError) {
            // A decoder that has failed reports all further input as errors; any other error ends the socket.
            context.close(promise: nil)
        }
    }

    // MARK: Files

    func submitRequests() {
        for request in connection.takeRequests() {
            inbound.requestWaits(request.cost)
            outbox.append(request)
        }
    }

    /// Handles the replies of synced files; on the event loop.
    func drainReplies() {
        let waiting = replies.drain()
        guard waiting.doneBytes > 0 || !waiting.replies.isEmpty else { return }
        inbound.requestsDone(waiting.doneBytes)
        guard let context, phase != .closed else { return }
        guard !waiting.replies.isEmpty else { return resumeAfterRequests(context) }
        handle(waiting.replies, context)
        if connection.isSuperseded { return context.close(promise: nil) }
        flush(context)
        resumeAfterRequests(context)
    }

    /// Handles replies one by one. The messages that follow from a reply go to the socket before the next reply, which
    /// therefore never finds too many under way.
    private func handle(_ replies: [FileReply], _ context: ChannelHandlerContext) {
        let isReading = holdsFlush, channel = context.channel
        for reply in replies {
            // A full buffer is flushed first, which makes room.
            holdsFlush = channel.isWritable
            flush(context)
            holdsFlush = true
            memory.countOutbound(reply.event)
            connection.receive(reply, canSend: channel.isWritable)
            submitRequests()
            send(context)
        }
        holdsFlush = isReading
    }

    /// Resumes the work that has waited for the end of requests.
    private func resumeAfterRequests(_ context: ChannelHandlerContext) {
        resumeInbound(context)
        closeIfDrained()
    }

    // MARK: Outbound

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        send(context)
        context.fireChannelWritabilityChanged()
    }

    /// Sends what the connection has to say, as long as the socket takes it.
    func send(_ context: ChannelHandlerContext) {
        // Writing can change the writability, which calls this again: a flush can empty the socket at once.
        guard !isSending else { return hasRoomAgain = true }
        isSending = true
        defer { isSending = false }
        repeat {
            hasRoomAgain = false
            writeMessages(context)
        } while hasRoomAgain
    }

    private func writeMessages(_ context: ChannelHandlerContext) {
        let channel = context.channel
        while isLive, channel.isWritable, let outbound = connection.next() {
            switch outbound {
            case .message(let message):
                write(message, context)
            case .lastMessage(let message):
                close(
                    CloseHandshake(
                        lastFrame: Self.frame(message), timeout: errorTimeout, reason: "connection error"))
            case .close(let code):
                close(WebSocketErrorCode(codeNumber: Int(code)), because: "connection error")
            }
        }
        submitRequests()
        flush(context)
    }

    /// Writes the frame of a message. It bypasses the frame encoder, which would write it in three pieces.
    private func write(_ message: EncodedMessage, _ context: ChannelHandlerContext) {
        let frame = MessageFrame(message), sent = message.attachment?.promise(on: context.eventLoop)
        let encoder = encoder ?? context
        hasUnflushed = true
        encoder.write(NIOAny(frame.start), promise: frame.rest == nil ? sent : nil)
        if let rest = frame.rest { encoder.write(NIOAny(rest), promise: sent) }
    }

    private func flush(_ context: ChannelHandlerContext) {
        guard !holdsFlush, hasUnflushed else { return }
        hasUnflushed = false
        context.flush()
    }

    /// Head and body go out as one frame without being copied together.
    private static func frame(_ message: EncodedMessage) -> WebSocketFrame {
        WebSocketFrame(
            fin: true, opcode: .binary, maskKey: nil, data: ByteBuffer(bytes: message.body),
            extensionData: ByteBuffer(bytes: message.head))
    }

    // MARK: Closing

    /// Shuts the connection down: accepts nothing more, waits until everything accepted is committed and acknowledged,
    /// and closes.
    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if event is ChannelShouldQuiesceEvent, phase == .open {
            phase = .draining
            replies.notifyOfAll()
            drainReplies()
            closeIfDrained()
        }
        context.fireUserInboundEventTriggered(event)
    }

    private func closeIfDrained() {
        if phase == .draining, inbound.waitingBytes == 0 { close(politeCloseCode, because: "shutdown") }
    }

    /// The close code for a client that has done nothing wrong. Old clients stay away for an hour after any code other
    /// than 1000 (`Spec/Protocol.md`, section 2.3).
    var politeCloseCode: WebSocketErrorCode {
        handshake.negotiation.usesOldCloseStyle ? .normalClosure : .goingAway
    }

    private func fail(_ error: FramingError) {
        guard isLive else { return }
        connection.countFramingError(UInt16(webSocketErrorCode: error.code))
        close(error.code, because: error.reason)
    }

    func close(_ code: WebSocketErrorCode, because reason: String) {
        close(CloseHandshake(code, timeout: lingerTimeout, reason: reason))
    }

    private func close(_ closing: CloseHandshake) {
        guard let context, isLive else { return }
        phase = .closing
        closeReason = closing.reason
        connection.end()
        submitRequests()
        silence.stop()
        inbound.removeAll()
        memory.discard()
        if memory.takePendingRead() || inbound.isReadHeld { context.read() }
        closeTimer = closing.begin(in: context)
    }
}

extension MessageAttachment {
    /// A promise that keeps the attachment until the socket has taken the message, or will not take it any more.
    fileprivate func promise(on eventLoop: any EventLoop) -> EventLoopPromise<Void> {
        let sent = eventLoop.makePromise(of: Void.self)
        sent.futureResult.whenComplete { _ in withExtendedLifetime(self) {} }
        return sent
    }
}
