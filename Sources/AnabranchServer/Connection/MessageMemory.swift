import AnabranchProtocol
import NIOCore

/// Keeps the messages that clients are sending within memory: an unfinished one occupies the bytes that have arrived,
/// and only its client knows if it will ever end.
///
///     free ─ more than `freeBytesMax` ─▶ waiting ─ there is room ─▶ permitted ─ it is whole ─▶ free
///                                                                       └─── no progress ───▶ closed
///
/// While it waits for room, the socket is not read. A user's messages wait for each other as well, unless half of the
/// memory is free: one user cannot keep all others out. Before the client has named a file it has no reason for a long
/// message.
///
/// Messages to the client have permits of the same budget. If it reads slowly while others wait, a `StallDetector`
/// notices.
///
/// It stands before the decoders, where it counts the bytes as they arrive.
final class MessageMemory: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    /// The memory that a message under way may occupy without a permit, in bytes.
    static let freeBytesMax = 4 << 20
    /// The same of a text message, in both directions: what most have is much less.
    static let freeTextBytesMax = 64 << 10
    /// The memory that it may occupy until the first IDENT is there, in bytes, without the queries that IDENT brings:
    /// more than any BIND needs.
    static let unidentifiedBytesMax = 128 << 10
    /// The bytes that a message with a permit has to bring within the time of a stall, if others wait for memory. A
    /// client that is sent something with a permit has to read as much in that time.
    static let bytesMin = 1 << 20
    /// The time that a message may take from its permit to its end if others wait, in times of a stall: two minutes, as
    /// long as its client waits for a PONG.
    static let stallTimesMax = 2

    /// A message to the client that has a permit until the socket has taken it.
    private struct OutboundMessage {
        weak var permit: (any AnyObject & Sendable)?
    }

    private enum Phase {
        case free
        /// The number distinguishes a permit that comes too late from the awaited one.
        case waiting(Int, MemoryWait)
        case permitted(MemoryPermit, turn: MemoryPermit?)
    }

    private let messageBytesMax: Int
    private let freeBytesMax: Int
    private let unidentifiedBytesMax: Int
    private let limit: TimeAmount
    private let budget: MemoryBudget
    private let turns: MemoryBudget
    /// The budget of the permits of messages to the client.
    private let outboundBudget: MemoryBudget
    private let onStall: () -> Void
    private var phase = Phase.free
    private var waitCount = 0
    /// The time for which the message under way has had its permit, in times of a stall.
    private var stallTimes = 0
    private var outbound: [OutboundMessage] = []
    /// The bytes that have arrived of the message and of the frame under way.
    private var bytes = 0
    /// The value of `bytes` when the time of a stall began.
    private var bytesBefore = 0
    private var timer: Scheduled<Void>?
    private var isReadPending = false
    /// True once the connection is over: further input is not kept.
    private var isDiscarding = false
    /// True once the client has named a file.
    var isIdentified = false
    /// Called when a message is longer than it may be before the client has named a file.
    var onExcess: () -> Void = {}

    /// - Parameters:
    ///   - messageBytesMax: the length of the longest message.
    ///   - queryBytesMax: the length of the longest queries of an IDENT.
    ///   - limit: the time of a stall.
    ///   - turns: the turns of the user, shared by its connections: a budget with room for one byte.
    ///   - onStall: called once, before the socket is closed.
    init(
        messageBytesMax: Int, queryBytesMax: Int, limit: TimeAmount, budget: MemoryBudget,
        turns: MemoryBudget = MemoryBudget(bytesMax: .max), onStall: @escaping () -> Void
    ) {
        self.messageBytesMax = messageBytesMax
        freeBytesMax = Self.freeBytesMax
        unidentifiedBytesMax = Self.unidentifiedBytesMax + queryBytesMax
        self.limit = limit
        self.budget = budget
        self.turns = turns
        outboundBudget = budget
        self.onStall = onStall
    }

    /// For text messages, of which `onExcess` notices those that become longer than `messageBytesMax`. An eighth more
    /// is what TLS may add. Messages to clients have a budget of their own: a wire that waits for memory for an answer
    /// may have further messages before it, with their permits.
    init(
        textBytesMax messageBytesMax: Int, limit: TimeAmount, budget: MemoryBudget, outboundBudget: MemoryBudget,
        turns: MemoryBudget, onStall: @escaping () -> Void
    ) {
        self.messageBytesMax = messageBytesMax
        freeBytesMax = Self.freeTextBytesMax
        unidentifiedBytesMax = messageBytesMax + messageBytesMax / 8 + 1_024
        self.limit = limit
        self.budget = budget
        self.turns = turns
        self.outboundBudget = outboundBudget
        self.onStall = onStall
    }

    /// True while the socket is not read because there is no room.
    var isReadHeld: Bool {
        if case .waiting = phase { true } else { false }
    }

    // MARK: The socket

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !isDiscarding else { return }
        bytes += unwrapInboundIn(data).readableBytes
        context.fireChannelRead(data)
        guard !isDiscarding else { return }
        guard isIdentified || bytes <= unidentifiedBytesMax else { return onExcess() }
        if case .free = phase, bytes > freeBytesMax { acquire(context) }
    }

    func read(context: ChannelHandlerContext) {
        if isReadHeld { isReadPending = true } else { context.read() }
    }

    func channelInactive(context: ChannelHandlerContext) {
        end()
        context.fireChannelInactive()
    }

    func handlerRemoved(context: ChannelHandlerContext) { end() }

    // MARK: The connection

    /// Ends a frame. Its bytes no longer count, unless they belong to a message under way: PINGs between the fragments
    /// of a message, and empty fragments, do not count as progress.
    /// - Parameter messageBytes: the bytes of that message so far; nil if there is none.
    /// - Returns: the permit to keep as long as the message that has just become whole.
    func endFrame(messageBytes: Int?) -> MemoryPermit? {
        let wholeBytes = bytes
        bytes = messageBytes ?? 0
        guard messageBytes == nil else { return nil }
        bytesBefore = 0
        let permit = end()
        permit?.resize(to: max(0, wholeBytes - freeBytesMax))
        return permit
    }

    /// Throws away all input from now on. The bytes of a long message so far stay until the socket closes, and so does
    /// its permit: the message makes no more progress, so that will be soon.
    func discard() {
        isDiscarding = true
        if isReadHeld { end() }
    }

    /// - Returns: whether a reading was held back and need not be any more; the caller has to do it now.
    func takePendingRead() -> Bool {
        guard isReadPending, !isReadHeld else { return false }
        isReadPending = false
        return true
    }

    // MARK: Permits

    private var permitBytes: Int { max(0, messageBytesMax - freeBytesMax) }

    private func acquire(_ context: ChannelHandlerContext) {
        if let turn = turns.permit(for: 1) { return acquire(context, turn) }
        guard !budget.hasMuchRoom(for: permitBytes) else { return acquire(context, nil) }
        wait(for: 1, of: turns, context) { $0.acquire(context, $1) }
    }

    private func acquire(_ context: ChannelHandlerContext, _ turn: MemoryPermit?) {
        if let permit = budget.permit(for: permitBytes) { return hold(permit, turn, context) }
        wait(for: permitBytes, of: budget, context) { $0.hold($1, turn, context) }
    }

    private func wait(
        for bytes: Int, of budget: MemoryBudget, _ context: ChannelHandlerContext,
        then goOn: @escaping (MessageMemory, MemoryPermit) -> Void
    ) {
        waitCount += 1
        let number = waitCount
        let here = NIOLoopBound((self, context, goOn), eventLoop: context.eventLoop)
        let wait = budget.wait(for: bytes) { permit in
            here.eventLoop.execute {
                let (memory, context, goOn) = here.value
                // If the wait is over, the permit ends here.
                guard case .waiting(number, _) = memory.phase else { return }
                goOn(memory, permit)
                if memory.takePendingRead() { context.read() }
            }
        }
        phase = .waiting(number, wait)
    }

    private func hold(_ permit: MemoryPermit, _ turn: MemoryPermit?, _ context: ChannelHandlerContext) {
        phase = .permitted(permit, turn: turn)
        bytesBefore = bytes
        stallTimes = 0
        schedule(context)
    }

    private func schedule(_ context: ChannelHandlerContext) {
        timer = context.eventLoop.assumeIsolated().scheduleTask(in: limit) { [self] in
            stallTimes += 1
            let newBytes = bytes - bytesBefore, othersWait = budget.waitingCount + turns.waitingCount > 0
            let isInTime = newBytes >= Self.bytesMin && stallTimes < Self.stallTimesMax
            guard newBytes > 0, isInTime || !othersWait else {
                onStall()
                return context.close(promise: nil)
            }
            bytesBefore = bytes
            schedule(context)
        }
    }

    /// Gives the permit back, or stops waiting for one.
    @discardableResult
    private func end() -> MemoryPermit? {
        timer?.cancel()
        defer { phase = .free }
        if case .permitted(let permit, _) = phase { return permit }
        return nil
    }

    // MARK: To the client

    /// Records the permit of a message that will be sent to the client.
    func countOutbound(_ event: SessionEvent) {
        let body: EncodedBody
        switch event {
        case .download(_, let made): body = made
        case .flexibleDownload(let made): body = made.body
        default: return
        }
        if let permit = body.attachment?.object { countOutbound(permit) }
    }

    /// Records the permit of any message.
    func countOutbound(_ permit: any AnyObject & Sendable) {
        outbound.removeAll { $0.permit == nil }
        outbound.append(OutboundMessage(permit: permit))
    }

    /// The bytes that the socket has to take within the time of a stall.
    var outboundBytesMin: Int {
        let hasPermit = outbound.contains { $0.permit != nil }
        return hasPermit && outboundBudget.waitingCount > 0 ? Self.bytesMin : StallDetector.bytesMin
    }
}
