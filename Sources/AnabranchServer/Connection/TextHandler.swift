import Logging
import NIOCore
import NIOWebSocket

/// Drives one WebSocket of text messages: between its frames and the wire's `TextSocket`.
///
/// Reading stops while the wire does not take what has come. A message to the client is cut into frames, each of which
/// is made when the socket takes more.
final class TextHandler: ChannelDuplexHandler {
    typealias InboundIn = WebSocketFrame
    typealias OutboundIn = Never
    typealias OutboundOut = WebSocketFrame

    /// In `leaving`, the client has sent a close frame, and the wire has not handled all that came before it.
    private enum Phase { case open, leaving, closing, closed }

    /// A message that is not wholly written yet.
    private struct Outgoing {
        var frames: TextFrames
        let permit: MemoryPermit?
        /// Succeeds when it is written, with false if it will not be.
        let written: EventLoopPromise<Bool>
    }

    /// The times that are the server's to say.
    struct Times {
        /// How long after the socket before it a shutdown closes one, if there is time for all of them.
        static let spreadMilliseconds: Int64 = 10

        /// How long a closed socket waits for the client to close its side.
        let linger: TimeAmount
        /// The longest time over which a shutdown distributes the ends of sockets; the rest is for the last ones.
        private let spreadMax: Int64
        /// The part of that time after which this socket is closed.
        private let place: Double
        private let spreadCount: (@Sendable () -> Int)?

        /// - Parameters:
        ///   - number: the number of the connection. Multiples of the golden ratio distribute any successive numbers
        ///     evenly.
        ///   - spreadCount: how many sockets a shutdown closes one after the other; nil if it closes this one at once.
        init(_ settings: ServerSettings, number: UInt64, spreadOver spreadCount: (@Sendable () -> Int)?) {
            linger = .seconds(settings.lingerSecondsMax)
            spreadMax = settings.shutdownSecondsMax * 750
            place = (Double(number) * 0.618_033_988_749_895).truncatingRemainder(dividingBy: 1)
            self.spreadCount = spreadCount
        }

        /// How long after the beginning of a shutdown, which is now, the socket is closed.
        var shutdown: TimeAmount {
            guard let count = spreadCount?() else { return .zero }
            return .milliseconds(Int64(place * Double(min(spreadMax, Int64(count) * Self.spreadMilliseconds))))
        }
    }

    let socket: TextSocket
    private let wire: any TextWire
    private let silence: SilenceDetector
    private let memory: MessageMemory
    private let budget: MemoryBudget
    private let times: Times
    private let onFramingError: (UInt16) -> Void
    private let logger: Logger

    private var phase = Phase.open
    private var openedAt = NIODeadline.distantPast
    /// The reason for the end of the connection, for the log.
    private var closeReason = "the client has left"
    private var context: ChannelHandlerContext?
    /// The context of the handler that encodes frames.
    private var encoder: ChannelHandlerContext?
    private var assembler: MessageAssembler
    private var outgoing = CircularBuffer<Outgoing>(initialCapacity: 1)
    private var isWriting = false
    /// The senders that wait for memory, by the numbers of their waits.
    private var waits: [Int: (permit: EventLoopPromise<MemoryPermit?>, place: MemoryWait)] = [:]
    private var waitCount = 0
    private var closeTimer: Scheduled<Void>?

    /// - Parameters:
    ///   - silence: a handler before this one in the pipeline.
    ///   - memory: another handler before this one.
    ///   - budget: the memory for long messages to clients.
    ///   - onFramingError: called with the close code of a client's mistake.
    init(
        _ socket: TextSocket, of wire: any TextWire, messageBytesMax: Int, silence: SilenceDetector,
        memory: MessageMemory, budget: MemoryBudget, times: Times, logger: Logger,
        onFramingError: @escaping (UInt16) -> Void
    ) {
        self.socket = socket
        self.wire = wire
        self.silence = silence
        self.memory = memory
        self.budget = budget
        self.times = times
        self.onFramingError = onFramingError
        self.logger = logger
        assembler = MessageAssembler(messageBytesMax: messageBytesMax, takesText: true)
    }

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        encoder = try? context.pipeline.syncOperations.context(handlerType: WebSocketFrameEncoder.self)
        openedAt = context.eventLoop.now
        logger.info("connection opened")
        silence.start(on: context.eventLoop) {
            self.socket.isReadHeld || self.memory.isReadHeld
        } onSilence: {
            self.close(.goingAway, because: "the client has fallen silent")
        }
        memory.onExcess = { self.fail(.messageTooBig(self.assembler.messageBytesMax)) }
        socket.begin(NIOLoopBound(self, eventLoop: context.eventLoop), by: wire)
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        end()
        (self.context, encoder) = (nil, nil)
        // This closure keeps the handler alive.
        memory.onExcess = {}
    }

    func channelInactive(context: ChannelHandlerContext) {
        phase = .closed
        closeTimer?.cancel()
        end()
        let seconds = (context.eventLoop.now - openedAt).nanoseconds / 1_000_000_000
        logger.info("connection closed", metadata: ["reason": "\(closeReason)", "seconds": "\(seconds)"])
        context.fireChannelInactive()
    }

    private var isLive: Bool { phase == .open || phase == .leaving }

    // MARK: Inbound

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard phase == .open else { return }
        do throws(FramingError) {
            let event = try assembler.take(unwrapInboundIn(data))
            let permit = memory.endFrame(messageBytes: assembler.unfinishedBytes)
            defer { if memory.takePendingRead() { read(context: context) } }
            switch event {
            case nil: break
            case .message(let message):
                silence.recordMessage(at: context.eventLoop.now)
                socket.receive(try message.validText(), permit)
            case .ping(let payload):
                silence.recordMessage(at: context.eventLoop.now)
                // As in `SyncHandler`: an answer only to the newest PING.
                guard context.channel.isWritable else { break }
                let pong = WebSocketFrame(fin: true, opcode: .pong, data: payload)
                context.writeAndFlush(wrapOutboundOut(pong), promise: nil)
            case .close:
                phase = .leaving
                memory.discard()
                if socket.receiveClose() { leave() }
            }
        } catch {
            fail(error)
        }
    }

    /// The wire has taken messages, so that there is room for more.
    /// - Parameter isAtEnd: whether it has handled all there were before the close frame of the client.
    func goOn(isAtEnd: Bool) {
        if phase == .leaving, isAtEnd { leave() }
        if phase == .open, let context, socket.isReadHeld, socket.allowsReading() { context.read() }
    }

    private func leave() { close(.normalClosure, because: "closed by the client") }

    func read(context: ChannelHandlerContext) {
        if phase != .open || socket.allowsReading() { context.read() }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if let error = error as? NIOWebSocketError {
            fail(FramingError(error))
        } else if !(error is ByteToMessageDecoderError) {
            // A decoder that has failed reports all further input as errors; any other error ends the socket.
            context.close(promise: nil)
        }
    }

    // MARK: Outbound

    /// Waits for memory for a message.
    /// - Returns: nil once the socket is gone.
    func reserve(_ bytes: Int) -> EventLoopFuture<MemoryPermit?> {
        let eventLoop = socket.eventLoop
        guard isLive else { return eventLoop.makeSucceededFuture(nil) }
        if let permit = budget.permit(for: bytes) { return eventLoop.makeSucceededFuture(permit) }
        waitCount += 1
        let promise = eventLoop.makePromise(of: MemoryPermit?.self), number = waitCount
        let handler = NIOLoopBound(self, eventLoop: eventLoop)
        let place = budget.wait(for: bytes) { permit in
            // If the wait is over, the permit ends here.
            eventLoop.execute { handler.value.waits.removeValue(forKey: number)?.permit.succeed(permit) }
        }
        waits[number] = (promise, place)
        return promise.futureResult
    }

    /// Sends a message after those before it.
    /// - Returns: whether it was written, when it is or will not be.
    func send(_ text: String, _ permit: MemoryPermit?) -> EventLoopFuture<Bool> {
        guard isLive, let context else { return socket.eventLoop.makeSucceededFuture(false) }
        if let permit { memory.countOutbound(permit) }
        let written = context.eventLoop.makePromise(of: Bool.self)
        outgoing.append(Outgoing(frames: TextFrames(text), permit: permit, written: written))
        writeFrames(context)
        return written.futureResult
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        writeFrames(context)
        context.fireChannelWritabilityChanged()
    }

    private func writeFrames(_ context: ChannelHandlerContext) {
        // A flush can change the writability, which calls this again.
        guard !isWriting else { return }
        isWriting = true
        defer { isWriting = false }
        let encoder = encoder ?? context
        while isLive, context.channel.isWritable, !outgoing.isEmpty {
            let frame = outgoing[outgoing.startIndex].frames.next()
            guard outgoing[outgoing.startIndex].frames.isAtEnd else {
                encoder.writeAndFlush(NIOAny(frame), promise: nil)
                continue
            }
            let message = outgoing.removeFirst()
            encoder.writeAndFlush(NIOAny(frame), promise: message.permit?.promise(on: context.eventLoop))
            message.written.succeed(true)
        }
    }

    // MARK: Closing

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if event is ChannelShouldQuiesceEvent, isLive {
            closeTimer = context.eventLoop.assumeIsolated().scheduleTask(in: times.shutdown) {
                self.close(.goingAway, because: "shutdown")
            }
        }
        context.fireUserInboundEventTriggered(event)
    }

    private func fail(_ error: FramingError) {
        guard isLive else { return }
        let code = UInt16(webSocketErrorCode: error.code)
        onFramingError(code)
        logger.info("a mistake of the client", metadata: ["code": "\(code)", "reason": "\(error.reason)"])
        close(error.code, telling: error.reason, because: error.reason)
    }

    /// Closes the socket, unless it is being closed.
    /// - Parameter text: for the client.
    func close(_ code: WebSocketErrorCode, telling text: String = "", because reason: String) {
        guard let context, isLive else { return }
        let isReadHeld = socket.isReadHeld
        phase = .closing
        closeReason = reason
        end()
        memory.discard()
        closeTimer?.cancel()
        closeTimer = CloseHandshake(code, telling: text, timeout: times.linger, reason: reason).begin(in: context)
        if memory.takePendingRead() || isReadHeld { context.read() }
    }

    /// Ends everything that waits.
    private func end() {
        silence.stop()
        socket.end()
        let (unsent, unpermitted) = (outgoing, waits)
        outgoing.removeAll()
        waits = [:]
        for message in unsent { message.written.succeed(false) }
        for wait in unpermitted.values { wait.permit.succeed(nil) }
    }
}

extension MemoryPermit {
    /// A promise that keeps the permit until the socket has taken a message, or will not take it any more.
    fileprivate func promise(on eventLoop: any EventLoop) -> EventLoopPromise<Void> {
        let sent = eventLoop.makePromise(of: Void.self)
        sent.futureResult.whenComplete { _ in withExtendedLifetime(self) {} }
        return sent
    }
}

extension ByteBuffer {
    /// The text of a message; its fragments may have divided characters.
    fileprivate func validText() throws(FramingError) -> String {
        guard let text = String(validating: readableBytesView, as: UTF8.self) else {
            throw FramingError(code: .dataInconsistentWithMessage, reason: "the message is not UTF-8")
        }
        return text
    }
}
