import NIOCore
import NIOWebSocket

/// The pace at which a socket is read: how much at one go, and when again, so that the others of the event loop have
/// their turn.
///
/// Input is handled at once. So a reading must not bring too much work: many short messages are more work than one long
/// message of as many bytes. A client that goes on sending more frames than `framesPerSecondMax` is read as often as
/// that allows.
///
/// It stands between the decoder of frames and the handler of messages.
final class ReadThrottle: ChannelDuplexHandler {
    typealias InboundIn = WebSocketFrame
    typealias InboundOut = WebSocketFrame
    typealias OutboundIn = WebSocketFrame
    typealias OutboundOut = WebSocketFrame

    /// The most that is read at one go, from a client that sends long messages, in bytes.
    static let bytesMax = 64 << 10
    /// The least that is read at one go, in bytes: fourteen of the shortest messages.
    static let bytesMin = 256
    /// A reading with more frames is followed by a shorter one.
    static let framesMax = 16
    /// The number of frames that are read for any length of time, in frames a second.
    static let framesPerSecondMax = 2_000
    /// The number of frames that are read without a pause after a time of silence: more than a client sends that comes
    /// back with 1,000 sessions, a BIND, an IDENT, an UPLOAD and a MARK for each.
    static let framesAtOnceMax = 4_096

    private let onPause: () -> Void
    /// The size of the next reading, in bytes.
    private(set) var bytes = ReadThrottle.bytesMax
    /// The frames of the reading under way.
    private var frames = 0
    /// The time by which all frames so far would have come at the highest pace.
    private var pacedEnd = NIODeadline.distantPast
    private var pause: Scheduled<Void>?

    /// - Parameter onPause: called when the client has to wait.
    init(onPause: @escaping () -> Void) { self.onPause = onPause }

    func handlerAdded(context: ChannelHandlerContext) { applyBytes(to: context.channel) }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        frames += 1
        context.fireChannelRead(data)
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        let old = bytes
        if frames > Self.framesMax {
            bytes = max(Self.bytesMin, bytes / 8)
        } else if frames <= Self.framesMax / 4 {
            bytes = min(Self.bytesMax, bytes * 2)
        }
        if bytes != old { applyBytes(to: context.channel) }
        pacedEnd = max(pacedEnd, context.eventLoop.now) + Self.time(of: frames)
        frames = 0
        context.fireChannelReadComplete()
    }

    func read(context: ChannelHandlerContext) {
        guard pause == nil else { return }
        let next = pacedEnd - Self.time(of: Self.framesAtOnceMax)
        guard next > context.eventLoop.now else { return context.read() }
        onPause()
        pause = context.eventLoop.assumeIsolated().scheduleTask(deadline: next) { [self] in
            pause = nil
            context.read()
        }
    }

    func handlerRemoved(context: ChannelHandlerContext) { pause?.cancel() }

    private static func time(of frames: Int) -> TimeAmount {
        .nanoseconds(Int64(frames) * 1_000_000_000 / Int64(framesPerSecondMax))
    }

    /// Makes the buffers of the next readings no larger than recent ones needed.
    private func applyBytes(to channel: any Channel) {
        let allocator = AdaptiveRecvByteBufferAllocator(minimum: 64, initial: min(2048, bytes), maximum: bytes)
        try? channel.syncOptions?.setOption(.recvAllocator, value: allocator)
    }
}
