import NIOCore

/// Sees to it that the messages which clients are sending fit into memory: an unfinished one occupies as much as has
/// come of it, and nobody but its client knows whether it will ever end.
///
///     free ─ more than `freeBytesMax` ─▶ waiting ─ there is room ─▶ permitted ─ it is whole ─▶ free
///                                                                       └─── no progress ───▶ closed
///
/// While it waits for room, the socket is not read. Before the client has named a file it has no reason for a long
/// message.
///
/// Stands before the decoders, where it counts the bytes as they come.
final class MessageMemory: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    /// What a message under way may occupy without a permit, in bytes.
    static let freeBytesMax = 4 << 20
    /// What it may occupy before the first IDENT, in bytes: more than any BIND has.
    static let unidentifiedBytesMax = 128 << 10
    /// What a message with a permit has to bring within the time of a stall, in bytes, if others wait for memory.
    static let bytesMin = 1 << 20

    private enum Phase {
        case free
        /// The number tells a permit that comes too late from the one that is waited for.
        case waiting(Int, MemoryWait)
        case permitted(MemoryPermit)
    }

    private let messageBytesMax: Int
    private let limit: TimeAmount
    private let budget: MemoryBudget
    private let onStall: () -> Void
    private var phase = Phase.free
    private var waitCount = 0
    /// What has come of the message under way, and of the frame under way.
    private var bytes = 0
    /// The same when the time of a stall began.
    private var bytesBefore = 0
    private var timer: Scheduled<Void>?
    private var isReadPending = false
    /// Whether the connection is over: what still comes in is not kept.
    private var isDiscarding = false
    /// Whether the client has named a file.
    var isIdentified = false
    /// Called when a message is longer than it may be before that.
    var onExcess: () -> Void = {}

    /// - Parameters:
    ///   - messageBytesMax: the length of the longest message.
    ///   - limit: the time of a stall.
    ///   - onStall: called once, before the socket is closed.
    init(messageBytesMax: Int, limit: TimeAmount, budget: MemoryBudget, onStall: @escaping () -> Void) {
        self.messageBytesMax = messageBytesMax
        self.limit = limit
        self.budget = budget
        self.onStall = onStall
    }

    /// Whether the socket is not read until there is room.
    var isReadHeld: Bool {
        if case .waiting = phase { true } else { false }
    }

    // MARK: The socket

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !isDiscarding else { return }
        bytes += unwrapInboundIn(data).readableBytes
        context.fireChannelRead(data)
        guard !isDiscarding else { return }
        guard isIdentified || bytes <= Self.unidentifiedBytesMax else { return onExcess() }
        if case .free = phase, bytes > Self.freeBytesMax { ask(context) }
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

    /// A frame is whole. What it has brought counts no longer, unless it belongs to a message under way: PINGs between
    /// the fragments of a message, and empty fragments, do not bring it on.
    /// - Parameter messageBytes: what has come of that message; nil if there is none.
    /// - Returns: what is to be kept as long as the message is that has just become whole.
    func endFrame(messageBytes: Int?) -> MemoryPermit? {
        let wholeBytes = bytes
        bytes = messageBytes ?? 0
        guard messageBytes == nil else { return nil }
        bytesBefore = 0
        let permit = end()
        permit?.resize(to: max(0, wholeBytes - Self.freeBytesMax))
        return permit
    }

    /// From now on what comes in is thrown away. What has come of a long message stays until the socket closes, and so
    /// does its permit: the message brings nothing more, so that will be soon.
    func discard() {
        isDiscarding = true
        if isReadHeld { end() }
    }

    /// - Returns: whether a reading was held back that need not be any more; it is the caller's now.
    func takePendingRead() -> Bool {
        guard isReadPending, !isReadHeld else { return false }
        isReadPending = false
        return true
    }

    // MARK: Permits

    private func ask(_ context: ChannelHandlerContext) {
        let bytesMax = max(0, messageBytesMax - Self.freeBytesMax)
        if let permit = budget.permit(for: bytesMax) { return take(permit, context) }
        waitCount += 1
        let number = waitCount
        let here = NIOLoopBound((self, context), eventLoop: context.eventLoop)
        let wait = budget.wait(for: bytesMax) { permit in
            here.eventLoop.execute {
                let (memory, context) = here.value
                // If the wait is over, the permit ends here.
                guard case .waiting(number, _) = memory.phase else { return }
                memory.take(permit, context)
                if memory.takePendingRead() { context.read() }
            }
        }
        phase = .waiting(number, wait)
    }

    private func take(_ permit: MemoryPermit, _ context: ChannelHandlerContext) {
        phase = .permitted(permit)
        bytesBefore = bytes
        schedule(context)
    }

    private func schedule(_ context: ChannelHandlerContext) {
        timer = context.eventLoop.assumeIsolated().scheduleTask(in: limit) { [self] in
            let newBytes = bytes - bytesBefore
            guard newBytes >= Self.bytesMin || (newBytes > 0 && budget.waitingCount == 0) else {
                onStall()
                return context.close(promise: nil)
            }
            bytesBefore = bytes
            schedule(context)
        }
    }

    /// Gives the permit back, or waits for none any more.
    @discardableResult
    private func end() -> MemoryPermit? {
        timer?.cancel()
        defer { phase = .free }
        if case .permitted(let permit) = phase { return permit }
        return nil
    }
}
