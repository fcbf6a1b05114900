import NIOCore

/// Notices that a client is gone although its socket is open. A client sends a PING every minute, so one that sends no
/// message for `limit` is gone, unless a long message is on its way or the server itself does not read.
///
/// Stands before the decoders, where it counts the bytes of unfinished messages too.
final class SilenceDetector: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer

    /// A message that brings less within the limit, in bytes, does not count as being on its way.
    static let bytesMin = 64 << 10

    private let limit: TimeAmount
    private var lastMessage = NIODeadline.now()
    private var bytesSinceMessage = 0
    private var timer: Scheduled<Void>?

    init(limit: TimeAmount) {
        self.limit = limit
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        bytesSinceMessage += unwrapInboundIn(data).readableBytes
        context.fireChannelRead(data)
    }

    /// A whole message has come in.
    func noteMessage(at time: NIODeadline) {
        lastMessage = time
        bytesSinceMessage = 0
    }

    /// - Parameters:
    ///   - isReadHeld: whether the server does not read the socket.
    ///   - onSilence: called once when the client is gone.
    func start(on eventLoop: any EventLoop, isReadHeld: @escaping () -> Bool, onSilence: @escaping () -> Void) {
        lastMessage = eventLoop.now
        schedule(eventLoop, isReadHeld, onSilence)
    }

    func stop() { timer?.cancel() }

    private func schedule(
        _ eventLoop: any EventLoop, _ isReadHeld: @escaping () -> Bool, _ onSilence: @escaping () -> Void
    ) {
        timer = eventLoop.assumeIsolated().scheduleTask(deadline: lastMessage + limit) { [self] in
            if lastMessage + limit <= eventLoop.now {
                guard bytesSinceMessage >= Self.bytesMin || isReadHeld() else { return onSilence() }
                noteMessage(at: eventLoop.now)
            }
            schedule(eventLoop, isReadHeld, onSilence)
        }
    }
}
