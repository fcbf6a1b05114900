import NIOCore

/// Notices that a client is gone although its socket is open: it has sent no message for longer than `limit`. It is not
/// silent while a long message is on its way, or while the server itself does not read.
///
/// A client may send a PING every ten minutes (`Spec/Protocol.md`, section 13), and most do every minute: the limit
/// follows the rhythm of its PINGs.
///
/// It stands before the decoders, where it counts the bytes of unfinished messages too.
final class SilenceDetector: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer

    /// The bytes that a message has to bring within the limit to count as being on its way.
    static let bytesMin = 64 << 10

    /// The time beyond two intervals between PINGs that does not count as silence yet.
    private static let margin = TimeAmount.seconds(60)
    /// The shortest limit, whatever the rhythm of PINGs.
    private static let limitMin = TimeAmount.seconds(180)

    /// The limit of clients that have not shown a rhythm.
    private let limitMax: TimeAmount
    private(set) var limit: TimeAmount
    private var lastPing: NIODeadline?
    private var longestInterval = TimeAmount.zero
    private var lastMessage = NIODeadline.now()
    private var bytesSinceMessage = 0
    private var timer: Scheduled<Void>?
    /// Starts the timer again, with the present limit.
    private var restart: () -> Void = {}

    /// - Parameter limit: the longest silence of a client that has not shown a rhythm.
    init(limit: TimeAmount) { (limitMax, self.limit) = (limit, limit) }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        bytesSinceMessage += unwrapInboundIn(data).readableBytes
        context.fireChannelRead(data)
    }

    /// Records that a whole message has come in.
    func recordMessage(at time: NIODeadline) {
        lastMessage = time
        bytesSinceMessage = 0
    }

    /// Records a PING of the protocol, which is a message too.
    func recordPing(at time: NIODeadline) {
        defer { lastPing = time }
        guard let lastPing else { return }
        longestInterval = max(longestInterval, time - lastPing)
        let limit = min(limitMax, max(Self.limitMin, longestInterval * 2 + Self.margin))
        guard limit != self.limit else { return }
        self.limit = limit
        restart()
    }

    /// - Parameters:
    ///   - isReadHeld: whether the server does not read the socket.
    ///   - onSilence: called once when the client is gone.
    func start(on eventLoop: any EventLoop, isReadHeld: @escaping () -> Bool, onSilence: @escaping () -> Void) {
        lastMessage = eventLoop.now
        restart = { [weak self] in self?.schedule(eventLoop, isReadHeld, onSilence) }
        restart()
    }

    func stop() {
        restart = {}
        timer?.cancel()
    }

    private func schedule(
        _ eventLoop: any EventLoop, _ isReadHeld: @escaping () -> Bool, _ onSilence: @escaping () -> Void
    ) {
        timer?.cancel()
        timer = eventLoop.assumeIsolated().scheduleTask(deadline: lastMessage + limit) { [self] in
            if lastMessage + limit <= eventLoop.now {
                guard bytesSinceMessage >= Self.bytesMin || isReadHeld() else { return onSilence() }
                recordMessage(at: eventLoop.now)
            }
            schedule(eventLoop, isReadHeld, onSilence)
        }
    }
}
