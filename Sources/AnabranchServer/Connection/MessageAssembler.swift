import NIOCore
import NIOWebSocket

/// A mistake of a peer that ends the WebSocket, with the close code that says so (`Spec/Protocol.md`, section 2.5).
struct FramingError: Error, Equatable {
    let code: WebSocketErrorCode
    let reason: String

    static func protocolError(_ reason: String) -> FramingError {
        FramingError(code: .protocolError, reason: reason)
    }

    static func messageTooBig(_ bytesMax: Int) -> FramingError {
        FramingError(code: .messageTooLarge, reason: "a message of more than \(bytesMax) bytes")
    }

    /// A mistake that the decoder has found in a frame's first bytes; all others are found here.
    init(_ error: NIOWebSocketError) {
        switch error {
        case .invalidFrameLength: self.init(code: .messageTooLarge, reason: "frame length")
        case .fragmentedControlFrame, .multiByteControlFrameLength: self = .protocolError("\(error)")
        }
    }

    init(code: WebSocketErrorCode, reason: String) {
        self.code = code
        self.reason = reason
    }
}

/// Turns the frames of one client into messages, by the rules that RFC 6455 has for a server: every frame masked,
/// no reserved bits, fragments in order. Memory is bounded by one message, however many fragments it comes in.
struct MessageAssembler {
    enum Event {
        /// One whole message of the kind that is taken, unmasked.
        case message(ByteBuffer)
        case ping(ByteBuffer)
        case close
    }

    private enum Kind { case binary, text }

    let messageBytesMax: Int
    private let taken: Kind
    private var unfinished: (kind: Kind, bytes: ByteBuffer)?

    /// - Parameter takesText: true if text messages are taken and binary ones refused. False if binary ones are taken
    ///   and text messages ignored, as clients of Realm expect.
    init(messageBytesMax: Int, takesText: Bool = false) {
        self.messageBytesMax = messageBytesMax
        taken = takesText ? .text : .binary
    }

    /// The bytes so far of a message with further fragments to come; nil if there is none.
    var unfinishedBytes: Int? { unfinished?.bytes.readableBytes }

    /// Takes one frame. Pongs are checked and ignored.
    mutating func take(_ frame: WebSocketFrame) throws(FramingError) -> Event? {
        guard frame.maskKey != nil else { throw .protocolError("unmasked frame") }
        guard !frame.rsv1, !frame.rsv2, !frame.rsv3 else { throw .protocolError("reserved bits") }
        switch frame.opcode {
        case .binary: return try begin(.binary, frame)
        case .text: return try begin(.text, frame)
        case .continuation: return try append(frame)
        case .ping: return .ping(frame.unmaskedData)
        case .pong: return nil
        case .connectionClose:
            try checkClose(frame.unmaskedData)
            return .close
        default: throw .protocolError("reserved opcode")
        }
    }

    /// A close frame is empty, or a code that may be sent (RFC 6455, section 7.4) and a reason in UTF-8.
    private func checkClose(_ payload: ByteBuffer) throws(FramingError) {
        var payload = payload
        guard payload.readableBytes > 0 else { return }
        guard let code = payload.readInteger(as: UInt16.self) else { throw .protocolError("half a close code") }
        switch code {
        case 1000...1003, 1007...1011, 3000...4999: break
        default: throw .protocolError("close code \(code)")
        }
        guard String(validating: payload.readableBytesView, as: UTF8.self) != nil else {
            throw FramingError(code: .dataInconsistentWithMessage, reason: "the reason is not UTF-8")
        }
    }

    private mutating func begin(_ kind: Kind, _ frame: WebSocketFrame) throws(FramingError) -> Event? {
        guard unfinished == nil else { throw .protocolError("a message begins inside another") }
        if taken == .text, kind == .binary { throw FramingError(code: .unacceptableData, reason: "a binary message") }
        guard frame.length <= messageBytesMax else { throw .messageTooBig(messageBytesMax) }
        let bytes = frame.unmaskedData
        if frame.fin { return kind == taken ? .message(bytes) : nil }
        unfinished = (kind, bytes)
        return nil
    }

    private mutating func append(_ frame: WebSocketFrame) throws(FramingError) -> Event? {
        guard let kind = unfinished?.kind, var bytes = unfinished?.bytes else {
            throw .protocolError("continuation of nothing")
        }
        guard frame.length <= messageBytesMax - bytes.readableBytes else { throw .messageTooBig(messageBytesMax) }
        unfinished = nil  // so that the bytes are not copied for the sake of a second owner
        bytes.writeImmutableBuffer(frame.unmaskedData)
        if frame.fin { return kind == taken ? .message(bytes) : nil }
        unfinished = (kind, bytes)
        return nil
    }
}
