import AnabranchHTTP
import NIOCore
import NIOWebSocket

/// Assembles messages from the frames of a WebSocket, and reads on only while a task waits for one (`Spec/Protocol.md`,
/// section 2.5). It lives on the event loop of its channel.
final class WebSocketReceiver: ChannelInboundHandler {
    typealias InboundIn = WebSocketFrame
    typealias OutboundOut = WebSocketFrame

    private let messageBytesMax: Int
    /// Messages that have arrived but were not received by the caller yet.
    private var messages = CircularBuffer<ByteBuffer>()
    private var waiting = CircularBuffer<EventLoopPromise<ByteBuffer>>()
    /// The fragments of a message that is not complete.
    private var fragments: (opcode: WebSocketOpcode, data: ByteBuffer)?
    /// The reason why there is no further message.
    private(set) var end: TransportError?

    init(messageBytesMax: Int) { self.messageBytesMax = messageBytesMax }

    /// Fulfils a promise with the next message when it arrives.
    func receive(_ message: EventLoopPromise<ByteBuffer>, from channel: any Channel) {
        if let next = messages.popFirst() {
            message.succeed(next)
        } else if let end {
            message.fail(end)
        } else {
            waiting.append(message)
            channel.read()
        }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard end == nil else { return }
        let frame = unwrapInboundIn(data)
        guard frame.maskKey == nil, !frame.rsv1, !frame.rsv2, !frame.rsv3 else {
            return breakOff("a frame has a mask or bits that mean nothing", context)
        }
        switch frame.opcode {
        case .binary, .text:
            guard fragments == nil else { return breakOff("a message begins within another one", context) }
            add(frame, to: (frame.opcode, ByteBuffer()), context)
        case .continuation:
            guard let begun = fragments else { return breakOff("the rest of a message without its beginning", context) }
            fragments = nil  // so that the bytes have one owner and are not copied
            add(frame, to: begun, context)
        case .ping:
            // A server that reads nothing gets no answers, which would pile up here.
            guard context.channel.isWritable else { return }
            context.writeAndFlush(wrapOutboundOut(Self.frame(.pong, frame.data)), promise: nil)
        case .pong: break
        case .connectionClose: close(frame.data, context)
        default: breakOff("a frame of a kind that does not exist", context)
        }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        if !waiting.isEmpty { context.read() }
    }

    private func add(
        _ frame: WebSocketFrame, to begun: (opcode: WebSocketOpcode, data: ByteBuffer), _ context: ChannelHandlerContext
    ) {
        var (message, part) = (begun, frame.data)
        guard part.readableBytes <= messageBytesMax - message.data.readableBytes else {
            return fail(tooLong, sending: .messageTooLarge, context)
        }
        if message.data.readableBytes == 0 { message.data = part } else { message.data.writeBuffer(&part) }
        guard frame.fin else { return fragments = message }
        // There are no text messages in the protocol, and clients ignore them.
        guard message.opcode == .binary else { return }
        if let promise = waiting.popFirst() { promise.succeed(message.data) } else { messages.append(message.data) }
    }

    // MARK: The end

    private var tooLong: TransportError {
        TransportError(.messageTooLong, "the server sent a message of more than \(messageBytesMax) bytes")
    }

    private func close(_ payload: ByteBuffer, _ context: ChannelHandlerContext) {
        var rest = payload
        guard rest.readableBytes != 1 else { return breakOff("half a close code", context) }
        let code = rest.readInteger(as: UInt16.self)
        let text = String(buffer: rest).filter { !$0.isNewline }
        fail(
            TransportError(
                .closed(code: Int(code ?? 1005)),
                "the server closed the WebSocket with code \(code ?? 1005)\(text.isEmpty ? "" : ": \(text)")"),
            sending: code.map { WebSocketErrorCode(codeNumber: Int($0)) } ?? .normalClosure, context)
    }

    private func breakOff(_ reason: String, _ context: ChannelHandlerContext) {
        fail(
            TransportError(.badAnswer, "the server broke the rules of WebSocket: \(reason)"), sending: .protocolError,
            context)
    }

    func channelInactive(context: ChannelHandlerContext) {
        fail(TransportError(.disconnected, "the server closed the connection"), sending: nil, context)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        switch error {
        case NIOWebSocketError.invalidFrameLength: fail(tooLong, sending: .messageTooLarge, context)
        case is NIOWebSocketError: breakOff("\(error)", context)
        default:
            let reason = "the connection broke: \(OutgoingConnection.reason(error))"
            fail(TransportError(.disconnected, reason), sending: nil, context)
        }
    }

    /// The first end counts. Nobody waits until the server has taken the last frame: it might never.
    private func fail(_ error: TransportError, sending code: WebSocketErrorCode?, _ context: ChannelHandlerContext) {
        guard end == nil else { return }
        finish(error)
        if let code { context.writeAndFlush(wrapOutboundOut(Self.closeFrame(code)), promise: nil) }
        context.close(promise: nil)
    }

    /// Ends the receiver: no messages follow but those that have arrived.
    func finish(_ error: TransportError) {
        guard end == nil else { return }
        end = error
        fragments = nil
        for promise in waiting { promise.fail(error) }
        waiting.removeAll()
    }

    static func closeFrame(_ code: WebSocketErrorCode) -> WebSocketFrame {
        var payload = ByteBuffer()
        payload.write(webSocketErrorCode: code)
        return frame(.connectionClose, payload)
    }

    static func frame(_ opcode: WebSocketOpcode, _ data: ByteBuffer) -> WebSocketFrame {
        WebSocketFrame(fin: true, opcode: opcode, maskKey: .random(), data: data)
    }
}
