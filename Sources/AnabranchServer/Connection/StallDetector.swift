import NIOCore

/// Notices a socket that takes nothing more although something waits to be sent: its client has stopped reading. Input,
/// such as PINGs, does not count.
///
/// It stands before the decoders, where it sees the output as the socket gets it.
final class StallDetector: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    /// The bytes that a socket has to take within the limit while more waits; less is as good as nothing.
    static let bytesMin = 4 << 10

    private let limit: TimeAmount
    private let waitingBytes: (any Channel) -> Int
    private let requiredBytes: () -> Int
    private let onStall: () -> Void
    private var writtenBytes = 0
    /// The time at which the socket last had nothing to take, or was seen to have taken enough.
    private var lastProgress = NIODeadline.distantPast
    /// The bytes that it had taken by then.
    private var takenBytes = 0
    private var timer: Scheduled<Void>?

    /// - Parameters:
    ///   - limit: how long the socket may take nothing. It is noticed up to a sixteenth earlier, or within a
    ///     quarter more.
    ///   - waitingBytes: the written bytes that the socket has not taken yet.
    ///   - requiredBytes: the bytes that it has to take within the limit while more waits.
    ///   - onStall: called once, before the socket is closed.
    init(
        limit: TimeAmount, waitingBytes: @escaping (any Channel) -> Int = StallDetector.bufferedBytes,
        requiredBytes: @escaping () -> Int = { StallDetector.bytesMin }, onStall: @escaping () -> Void
    ) {
        self.limit = limit
        self.waitingBytes = waitingBytes
        self.requiredBytes = requiredBytes
        self.onStall = onStall
    }

    func handlerAdded(context: ChannelHandlerContext) { lastProgress = context.eventLoop.now }

    func handlerRemoved(context: ChannelHandlerContext) { timer?.cancel() }

    func channelInactive(context: ChannelHandlerContext) {
        timer?.cancel()
        context.fireChannelInactive()
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        let now = context.eventLoop.now
        // Asking each time would cost more than everything else here.
        if now >= lastProgress + .nanoseconds(limit.nanoseconds / 16), waitingBytes(context.channel) == 0 {
            recordProgress(at: now, taken: writtenBytes)
        }
        writtenBytes += unwrapOutboundIn(data).readableBytes
        context.write(data, promise: promise)
        if timer == nil { schedule(context) }
    }

    static func bufferedBytes(_ channel: any Channel) -> Int {
        (try? channel.syncOptions?.getOption(.bufferedWritableBytes)) ?? 0
    }

    private func recordProgress(at time: NIODeadline, taken: Int) {
        lastProgress = time
        takenBytes = taken
    }

    private func schedule(_ context: ChannelHandlerContext) {
        timer = context.eventLoop.assumeIsolated().scheduleTask(in: .nanoseconds(limit.nanoseconds / 4)) { [self] in
            check(context)
        }
    }

    private func check(_ context: ChannelHandlerContext) {
        timer = nil
        let waiting = waitingBytes(context.channel), now = context.eventLoop.now
        guard waiting > 0 else { return }
        let taken = writtenBytes - waiting
        if taken - takenBytes >= requiredBytes() {
            recordProgress(at: now, taken: taken)
        } else if lastProgress + limit <= now {
            onStall()
            return context.close(promise: nil)
        }
        schedule(context)
    }
}
