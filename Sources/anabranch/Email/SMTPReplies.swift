import AnabranchHTTP
import AnabranchServer
import NIOCore

/// An answer of a mail server (RFC 5321, section 4.2).
struct SMTPReply: Sendable {
    let code: Int
    /// The text after the code, line by line.
    let lines: [String]
}

/// Reads answers, one for each time that one is expected. Used on the event loop only.
final class SMTPReplies: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    /// Longest answer, in bytes.
    static let bytesMax = 64 << 10

    private var unread = ByteBuffer()
    private var lines: [String] = []
    private var bytes = 0
    private var waiting: EventLoopPromise<SMTPReply>?
    private var end: EmailError?

    /// The next answer. Call this before the answer can arrive.
    func next(on loop: any EventLoop) -> EventLoopFuture<SMTPReply> {
        let promise = loop.makePromise(of: SMTPReply.self)
        if let end { promise.fail(end) } else { waiting = promise }
        return promise.futureResult
    }

    /// True if nothing has come unasked.
    var isEmpty: Bool { unread.readableBytes == 0 && lines.isEmpty && end == nil }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var part = unwrapInboundIn(data)
        bytes += part.readableBytes
        unread.writeBuffer(&part)
        guard bytes <= Self.bytesMax else { return fail("its answer is too long", context) }
        while let length = unread.readableBytesView.firstIndex(of: 10).map({ $0 - unread.readerIndex }) {
            let line = String(buffer: unread.readSlice(length: length) ?? ByteBuffer()).filter { $0 != "\r" }
            unread.moveReaderIndex(forwardBy: 1)
            guard let code = Int(line.prefix(3)), (200...599).contains(code) else {
                return fail("its answer is none of SMTP", context)
            }
            lines.append(String(line.dropFirst(4)))
            if line.dropFirst(3).first == "-" { continue }
            guard let promise = waiting else { return fail("it said something before it was asked", context) }
            waiting = nil
            promise.succeed(SMTPReply(code: code, lines: lines))
            lines = []
            bytes = unread.readableBytes
        }
    }

    func channelInactive(context: ChannelHandlerContext) { fail("it closed the connection", context) }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        fail(OutgoingConnection.reason(error), context)
    }

    func fail(_ reason: String, _ context: ChannelHandlerContext) {
        fail(reason)
        context.close(promise: nil)
    }

    /// Fails the answer that is expected, and all later ones. Only the first reason counts.
    func fail(_ reason: String) {
        end = end ?? EmailError(reason)
        waiting?.fail(end ?? EmailError(reason))
        waiting = nil
    }
}
