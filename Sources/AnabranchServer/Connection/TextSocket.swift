import AnabranchCore
import NIOCore
import NIOWebSocket
import Synchronization

/// One WebSocket of text messages, as its wire sees it.
///
/// The client is read only while the wire keeps up: at most 64 KiB of short messages wait for `next`, and longer ones
/// only as far as there is memory for them. All functions can be called on any thread, and after the end of the socket
/// too: nothing happens then.
public final class TextSocket: Sendable {
    /// Something that a wire may wait for.
    public enum Event: Equatable, Sendable {
        /// A message of the client.
        case text(String)
        /// `wake` was called, perhaps more than once.
        case woken
        /// The deadline has passed, and there was nothing else by then.
        case timeout
    }

    /// While waiting messages occupy more, in bytes, the socket is not read. It is read again when half of it is free.
    static let waitingBytesMax = 64 << 10
    /// The bytes by which a waiting message counts more than its own.
    fileprivate static let messageBytes = 64

    fileprivate struct Waiter {
        let continuation: CheckedContinuation<Event?, Never>
        let deadline: ContinuousClock.Instant?
    }

    fileprivate struct State {
        /// The messages that `next` has not returned yet; long ones with their permits.
        var messages = CircularBuffer<(text: String, permit: MemoryPermit?)>()
        var waitingBytes = 0
        /// The permit of the message that the wire is handling.
        var permit: MemoryPermit?
        var isWoken = false
        /// True if the last event was `woken`: then a message comes first.
        var wasWoken = false
        var isReadHeld = false
        /// True if the client has sent a close frame: nothing comes after the messages that wait.
        var isClosing = false
        var waiter: Waiter?
        var timer: (task: Scheduled<Void>, deadline: ContinuousClock.Instant)?
        /// The socket's handler; nil before its beginning and after its end.
        var handler: NIOLoopBound<TextHandler>?
        var task: Task<Void, Never>?
        /// The users whose limit of connections the socket counts against.
        var users: Set<ExactString> = []
    }

    /// The request that has opened the socket.
    public let request: SocketRequest
    private let users: ConnectionLimit
    private let closeFuture: EventLoopFuture<Void>
    private let state = Mutex(State())

    /// - Parameters:
    ///   - users: the limit for the connections of each user.
    ///   - closeFuture: succeeds or fails when the socket is closed.
    init(_ request: SocketRequest, users: ConnectionLimit, until closeFuture: EventLoopFuture<Void>) {
        self.request = request
        self.users = users
        self.closeFuture = closeFuture
    }

    // MARK: Events

    /// Waits for the next event. One caller at a time.
    ///
    /// A message counts in the server's memory, if it is long, until the next call.
    /// - Parameter deadline: `timeout` is returned then; nil to wait as long as it takes.
    /// - Returns: nil once the socket is gone, the server ends or the task is cancelled. After a close frame of the
    ///   client, the messages before it come first.
    public func next(until deadline: ContinuousClock.Instant? = nil) async -> Event? {
        await withTaskCancellationHandler {
            await withCheckedContinuation { wait(Waiter(continuation: $0, deadline: deadline)) }
        } onCancel: {
            resume(with: nil)
        }
    }

    private func wait(_ waiter: Waiter) {
        let (event, permit, handler) = state.withLock { state in
            precondition(state.waiter == nil, "two callers wait for the next event of one socket")
            let permit = state.permit
            state.permit = nil
            let event: Event?? = Task.isCancelled ? .some(nil) : state.takeEvent()
            if event == nil {
                state.waiter = waiter
                if let deadline = waiter.deadline { arm(for: deadline, &state) }
            }
            let isFree = state.isReadHeld && state.waitingBytes <= Self.waitingBytesMax / 2
            let isAtEnd = state.isClosing && event == .some(nil)
            return (event, permit, isFree || isAtEnd ? state.handler : nil)
        }
        // A permit ends outside of the lock: others may get it at once.
        withExtendedLifetime(permit) {}
        if let handler { handler.eventLoop.execute { handler.value.goOn(isAtEnd: event == .some(nil)) } }
        if let event { waiter.continuation.resume(returning: event) }
    }

    /// - Parameter event: for who waits now, if anybody does.
    private func resume(with event: Event?) {
        let waiter = state.withLock { state in
            defer { state.waiter = nil }
            return state.waiter
        }
        waiter?.continuation.resume(returning: event)
    }

    /// Makes `next` return `woken`, now or when it is called: once, however often this was called. So others tell a
    /// connection that there is something for its client.
    public func wake() {
        let waiter: Waiter? = state.withLock { state in
            defer { state.waiter = nil }
            guard state.waiter == nil else {
                state.wasWoken = true
                return state.waiter
            }
            state.isWoken = state.handler != nil
            return nil
        }
        waiter?.continuation.resume(returning: .woken)
    }

    /// One timer serves many calls of `next`: it goes off at the first of their deadlines, and then for the present
    /// one.
    private func arm(for deadline: ContinuousClock.Instant, _ state: inout State) {
        guard let handler = state.handler, state.timer.map({ $0.deadline > deadline }) ?? true else { return }
        state.timer?.task.cancel()
        let (seconds, attoseconds) = max(.zero, deadline - .now).components
        let delay = TimeAmount.seconds(min(seconds, 86_400)) + .nanoseconds(attoseconds / 1_000_000_000 + 1)
        let task = handler.eventLoop.scheduleTask(in: delay) { [weak self] () -> Void in self?.timeOut() }
        state.timer = (task, deadline)
    }

    private func timeOut() {
        let waiter: Waiter? = state.withLock { state in
            state.timer = nil
            guard let waiter = state.waiter, let deadline = waiter.deadline else { return nil }
            guard deadline <= .now else {
                arm(for: deadline, &state)
                return nil
            }
            state.waiter = nil
            return waiter
        }
        waiter?.continuation.resume(returning: .timeout)
    }

    // MARK: To the client

    /// Sends a message, in frames of at most 1 MiB. Waits for memory if it has more than 64 KiB, and while the client
    /// does not read.
    /// - Returns: false once the socket is gone; if true, the message is on its way.
    public func send(_ text: String) async -> Bool {
        await send(bytesMax: text.utf8.count) { text }
    }

    /// Sends a message that is made when there is memory for it. A wire uses this for long messages that many clients
    /// ask for at the same time: while the text is made there is room for it.
    /// - Parameters:
    ///   - bytesMax: how long it can become, in bytes of UTF-8.
    ///   - make: makes the text, and must not use the socket. If the socket is gone, it may not be called.
    /// - Returns: as for `send(_:)`.
    public func send(bytesMax: Int, _ make: () async throws -> String) async rethrows -> Bool {
        var permit: MemoryPermit?
        if bytesMax > MessageMemory.freeTextBytesMax {
            permit = await onLoop { $0.reserve(bytesMax) } ?? nil
            guard permit != nil else { return false }
        }
        let text = try await make()
        permit?.resize(to: text.utf8.count)
        return await onLoop { [permit] in $0.send(text, permit) } ?? false
    }

    /// Does something on the event loop.
    /// - Returns: nil once the socket is gone.
    private func onLoop<Result: Sendable>(
        _ body: @escaping @Sendable (TextHandler) -> EventLoopFuture<Result>
    ) async -> Result? {
        guard let handler = state.withLock({ $0.handler }) else { return nil }
        return try? await handler.eventLoop.flatSubmit { body(handler.value) }.get()
    }

    /// Closes the socket after the messages that `send` has returned for.
    /// - Parameters:
    ///   - code: one that a server may send: 1000 to 1003, 1007 to 1014, or 3000 to 4999.
    ///   - reason: for the client. It is cut after 90 bytes.
    public func close(code: UInt16, reason: String = "") {
        switch code {
        case 1000...1003, 1007...1014, 3000...4999: break
        default: preconditionFailure("close code \(code)")
        }
        guard let handler = state.withLock({ $0.handler }) else { return }
        handler.eventLoop.execute {
            handler.value.close(
                WebSocketErrorCode(codeNumber: Int(code)), telling: reason, because: "closed by the server: \(code)")
        }
    }

    /// Counts the socket as a connection of a user (`ServerSettings.connectionsPerUserMax`) until it is closed; once,
    /// however often this is called.
    /// - Returns: false if the user has too many connections.
    public func count(for principal: Principal) -> Bool {
        guard let name = principal.qualifiedName else { return true }
        return state.withLock { state in
            if state.users.contains(ExactString(name)) { return true }
            guard users.admit(name, until: closeFuture) else { return false }
            state.users.insert(ExactString(name))
            return true
        }
    }

    // MARK: For the handler

    /// Begins to serve.
    func begin(_ handler: NIOLoopBound<TextHandler>, by wire: any TextWire) {
        state.withLock { state in
            state.handler = handler
            state.task = Task {
                await wire.serve(self)
                handler.eventLoop.execute { handler.value.close(.normalClosure, because: "the server is done") }
            }
        }
    }

    /// A message has come.
    /// - Parameter permit: kept until the message has been handled.
    func receive(_ text: String, _ permit: MemoryPermit?) {
        let waiter: Waiter? = state.withLock { state in
            guard state.handler != nil else { return nil }
            guard let waiter = state.waiter else {
                state.messages.append((text, permit))
                state.waitingBytes += Self.cost(of: text)
                return nil
            }
            (state.waiter, state.permit, state.wasWoken) = (nil, permit, false)
            return waiter
        }
        waiter?.continuation.resume(returning: .text(text))
    }

    fileprivate static func cost(of text: String) -> Int { text.utf8.count + messageBytes }

    /// The client has sent a close frame.
    /// - Returns: whether the wire waits for the next event. If not, `TextHandler.goOn` is called when it does.
    func receiveClose() -> Bool {
        state.withLock { state in
            state.isClosing = true
            return state.waiter != nil
        }
    }

    var eventLoop: any EventLoop { closeFuture.eventLoop }

    var isReadHeld: Bool { state.withLock { $0.isReadHeld } }

    /// True if the socket may be read now. If not, `TextHandler.goOn` is called when it may.
    func allowsReading() -> Bool {
        state.withLock { state in
            state.isReadHeld = state.waitingBytes > Self.waitingBytesMax
            return !state.isReadHeld
        }
    }

    /// The socket is closed, or is about to be: nothing more is handled.
    func end() {
        let ended = state.withLock { state in
            let ended = state
            state.messages = CircularBuffer(initialCapacity: 0)
            (state.waitingBytes, state.isReadHeld, state.isWoken) = (0, false, false)
            (state.permit, state.waiter, state.timer, state.handler, state.task) = (nil, nil, nil, nil, nil)
            return ended
        }
        ended.timer?.task.cancel()
        ended.task?.cancel()
        ended.waiter?.continuation.resume(returning: nil)
    }
}

extension TextSocket.State {
    /// - Returns: the event, or an inner nil if there will be no more; an outer nil if it has not come yet.
    fileprivate mutating func takeEvent() -> TextSocket.Event?? {
        guard handler != nil else { return .some(nil) }
        if isWoken, !wasWoken || messages.isEmpty, !(isClosing && messages.isEmpty) {
            (isWoken, wasWoken) = (false, true)
            return .woken
        }
        guard let (text, permit) = messages.popFirst() else { return isClosing ? .some(nil) : nil }
        waitingBytes -= TextSocket.cost(of: text)
        (self.permit, wasWoken) = (permit, false)
        return .text(text)
    }
}
