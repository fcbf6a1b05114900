import NIOCore

/// Counts the bytes that come in, so that a long message under way on a slow line is not mistaken for silence.
final class InboundByteCounter: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer

    /// A transfer that brings less than this between two looks is none.
    static let bytesMin = 64 << 10

    private var bytes = 0

    /// What has come in since the last look.
    @discardableResult
    func takeCount() -> Int {
        defer { bytes = 0 }
        return bytes
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        bytes += unwrapInboundIn(data).readableBytes
        context.fireChannelRead(data)
    }
}
