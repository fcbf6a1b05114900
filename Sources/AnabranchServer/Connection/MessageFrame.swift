import AnabranchProtocol
import NIOCore

/// A message as it goes into the socket: one binary frame, not masked (RFC 6455, section 5.2).
struct MessageFrame {
    /// The frame's head, the message's head, and the body if it is short.
    let start: ByteBuffer
    /// A longer body, which all its messages share.
    let rest: ByteBuffer?

    init(_ message: EncodedMessage) {
        let body = message.sharedBody
        let isCopied = body.map { $0.bytes.count <= SharedBodies.copiedBytesMax } ?? true
        var start = ByteBufferAllocator().buffer(capacity: 10 + (isCopied ? message.count : message.head.count))
        Self.writeHead(ofPayload: message.count, to: &start)
        start.writeBytes(message.head)
        if isCopied, let body { start.writeBytes(body.bytes) }
        self.start = start
        rest = isCopied ? nil : body?.form { ByteBuffer(bytes: $0) }
    }

    /// The first byte of a message's only frame: final and binary.
    private static let finalBinary: UInt8 = 0x82

    private static func writeHead(ofPayload byteCount: Int, to buffer: inout ByteBuffer) {
        buffer.writeInteger(finalBinary)
        switch byteCount {
        case ...125:
            buffer.writeInteger(UInt8(byteCount))
        case ...Int(UInt16.max):
            buffer.writeInteger(126 as UInt8)
            buffer.writeInteger(UInt16(byteCount))
        default:
            buffer.writeInteger(127 as UInt8)
            buffer.writeInteger(UInt64(byteCount))
        }
    }
}
