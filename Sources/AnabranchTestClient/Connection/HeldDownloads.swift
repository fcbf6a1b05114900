import NIOCore
import NIOWebSocket

/// Holds the bytes that a server has sent until they are released. It stands before the frame decoder, so that held
/// bytes cost almost no work.
final class HeldDownloads: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer

    private let onArrival: (ContinuousClock.Instant) -> Void
    private var context: ChannelHandlerContext?
    private var waiting = ByteBuffer()
    /// The size of the whole frames among them, in bytes.
    private var completeBytes = 0

    /// - Parameter onArrival: called with the time when the whole of a DOWNLOAD has arrived.
    init(onArrival: @escaping (ContinuousClock.Instant) -> Void) { self.onArrival = onArrival }

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var bytes = unwrapInboundIn(data)
        waiting.writeBuffer(&bytes)
        while let frame = Self.firstFrame(of: waiting.readableBytesView.dropFirst(completeBytes)) {
            completeBytes += frame.count
            if frame.isDownload { onArrival(.now) }
        }
    }

    /// Passes the whole frames on.
    func release() {
        guard completeBytes > 0, let frames = waiting.readSlice(length: completeBytes) else { return }
        completeBytes = 0
        waiting = waiting.slice()
        context?.fireChannelRead(wrapInboundOut(frames))
        context?.fireChannelReadComplete()
    }

    /// Reads a frame without a mask, as servers send it (RFC 6455, section 5.2).
    /// - Returns: nil if it has not arrived completely.
    private static func firstFrame(of bytes: ByteBufferView.SubSequence) -> (count: Int, isDownload: Bool)? {
        guard let length = bytes.dropFirst().first else { return nil }
        let longLengthBytes = length == 127 ? 8 : length == 126 ? 2 : 0
        let body = bytes.dropFirst(2 + longLengthBytes)
        let longLength = bytes.dropFirst(2).prefix(longLengthBytes).reduce(0) { $0 << 8 | Int($1) }
        let bodyBytes = longLengthBytes == 0 ? Int(length) : longLength
        guard body.count >= bodyBytes, bytes.count >= 2 + longLengthBytes else { return nil }
        return (2 + longLengthBytes + bodyBytes, body.starts(with: "download ".utf8))
    }
}
