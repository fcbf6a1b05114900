import AnabranchCore
import NIOCore
import NIOWebSocket

/// The end of a WebSocket: the server sends a last frame and shuts its sending side. It reads on, and ignores the
/// input, until the client has closed its side too or the time is up. If it closed at once, the system would reset the
/// connection, and the client might never see the last frame.
struct CloseHandshake {
    let lastFrame: WebSocketFrame
    /// The time that the client may take to close its side.
    let timeout: TimeAmount
    /// The reason, for the log.
    let reason: String

    init(lastFrame: WebSocketFrame, timeout: TimeAmount, reason: String) {
        self.lastFrame = lastFrame
        self.timeout = timeout
        self.reason = reason
    }

    /// The beginning of a longer reason that a close frame has, in bytes; then comes its length. A control frame has
    /// 125 at most.
    static let textBytesMax = 90

    /// A handshake with a close frame.
    /// - Parameter text: the reason for the client; a longer one is cut.
    init(_ code: WebSocketErrorCode, telling text: String = "", timeout: TimeAmount, reason: String) {
        var payload = ByteBuffer()
        payload.write(webSocketErrorCode: code)
        payload.writeString(String(excerptOf: text.utf8, upTo: Self.textBytesMax))
        self.init(
            lastFrame: WebSocketFrame(fin: true, opcode: .connectionClose, data: payload), timeout: timeout,
            reason: reason)
    }

    /// - Returns: the timer that closes the socket when the time is up.
    func begin(in context: ChannelHandlerContext) -> Scheduled<Void> {
        let sent = context.eventLoop.makePromise(of: Void.self)
        sent.futureResult.assumeIsolated().whenSuccess { context.close(mode: .output, promise: nil) }
        context.writeAndFlush(NIOAny(lastFrame), promise: sent)
        return context.eventLoop.assumeIsolated().scheduleTask(in: timeout) { context.close(promise: nil) }
    }
}
