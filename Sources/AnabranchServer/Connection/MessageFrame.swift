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
        let isCopied = body.map { $0.count <= SharedBodies.copiedBytesMax } ?? true
        var start = ByteBufferAllocator().buffer(capacity: 10 + (isCopied ? message.count : message.head.count))
        Self.writeHead(Self.finalBinary, ofPayload: message.count, to: &start)
        start.writeBytes(message.head)
        if isCopied, let body { start.writeBytes(body.bytes) }
        self.start = start
        rest = isCopied ? nil : body?.form(as: SharedBuffer.self).buffer
    }

    /// A body as a buffer.
    private struct SharedBuffer: SocketBytes {
        let buffer: ByteBuffer

        init(_ bytes: [UInt8]) { buffer = ByteBuffer(bytes: bytes) }

        var bytes: [UInt8] { Array(buffer: buffer) }
    }

    /// The first byte of a message's only frame: final and binary.
    private static let finalBinary: UInt8 = 0x82

    /// Writes the head of a frame that is not masked.
    /// - Parameter firstByte: its first byte, which has the opcode.
    static func writeHead(_ firstByte: UInt8, ofPayload byteCount: Int, to buffer: inout ByteBuffer) {
        buffer.writeInteger(firstByte)
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

/// A text message as it goes into the socket, frame by frame. None ends within a character.
struct TextFrames {
    /// The longest payload of a frame, in bytes: some clients refuse longer ones.
    static let bytesMax = 1 << 20

    private static let text: UInt8 = 0x01
    private static let final: UInt8 = 0x80

    private var rest: Substring.UTF8View
    private var isFirst = true

    init(_ text: String) {
        var text = text
        text.makeContiguousUTF8()
        rest = text[...].utf8
    }

    /// True if there are no further frames.
    var isAtEnd: Bool { !isFirst && rest.isEmpty }

    /// Makes the next frame.
    mutating func next() -> ByteBuffer {
        var end = rest.index(rest.startIndex, offsetBy: Self.bytesMax, limitedBy: rest.endIndex) ?? rest.endIndex
        while end < rest.endIndex, rest[end] & 0xc0 == 0x80 { end = rest.index(before: end) }
        let payload = rest[..<end]
        rest = rest[end...]
        let firstByte = (isFirst ? Self.text : 0) | (rest.isEmpty ? Self.final : 0)
        isFirst = false
        var frame = ByteBufferAllocator().buffer(capacity: 10 + payload.count)
        MessageFrame.writeHead(firstByte, ofPayload: payload.count, to: &frame)
        frame.writeBytes(payload)
        return frame
    }
}
