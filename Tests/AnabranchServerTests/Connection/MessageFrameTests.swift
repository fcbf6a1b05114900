import AnabranchCore
@testable import AnabranchProtocol
import NIOCore
import Testing

@testable import AnabranchServer

/// The frames of messages, byte by byte (RFC 6455, section 5.2).
@Suite struct MessageFrameTests {
    private static func bytes(_ frame: MessageFrame) -> [UInt8] {
        Array(frame.start.readableBytesView) + Array(frame.rest?.readableBytesView ?? ByteBuffer().readableBytesView)
    }

    @Test(
        "a frame has the shortest form of its length",
        arguments: [
            (0, [0]), (125, [125]), (126, [126, 0, 126]), (65_535, [126, 255, 255]),
            (65_536, [127, 0, 0, 0, 0, 0, 1, 0, 0]),
        ] as [(Int, [UInt8])])
    func lengths(byteCount: Int, length: [UInt8]) {
        let head = [UInt8](repeating: 7, count: min(byteCount, 100))
        let body = [UInt8](repeating: 8, count: byteCount - head.count)
        let message = EncodedMessage(head: head, body: SharedBytes(body))
        #expect(Self.bytes(MessageFrame(message)) == [0x82] + length + head + body)
    }

    @Test("a short body goes out in one piece with the head; a long one is the same bytes in memory for all messages")
    func sharing() throws {
        let short = EncodedMessage(
            head: [1], body: SharedBytes([UInt8](repeating: 8, count: SharedBodies.copiedBytesMax)))
        #expect(MessageFrame(short).rest == nil)
        let body = SharedBytes([UInt8](repeating: 8, count: SharedBodies.copiedBytesMax + 1))
        let addresses = try ([1, 2, 3] as [UInt8]).map { number in
            let rest = MessageFrame(EncodedMessage(head: [number], body: body)).rest
            return try #require(rest).withUnsafeReadableBytes { $0.baseAddress }
        }
        #expect(Set(addresses).count == 1)
    }

    @Test("a long body that goes into a socket is kept once, as a buffer")
    func keptOnce() {
        var bytes = [UInt8](repeating: 8, count: SharedBodies.copiedBytesMax + 1)
        let address = bytes.withUnsafeBytes { $0.baseAddress }
        let message = EncodedMessage(head: [1], body: SharedBytes(bytes))
        let frame = MessageFrame(message)
        // An array that is nobody else's is changed in place.
        bytes[0] = 9
        #expect(bytes.withUnsafeBytes { $0.baseAddress } == address)
        bytes[0] = 8
        #expect(message.body == bytes && message.count == 1 + bytes.count)
        #expect(Array(Self.bytes(frame).suffix(bytes.count)) == bytes)
    }

    @Test("DOWNLOADs of one body share its bytes")
    func downloads() throws {
        let changeset = DownloadedChangeset(
            cursor: DownloadCursor(serverVersion: 1), tag: OriginTag(timestamp: 1, ident: 2),
            changeset: [UInt8](repeating: 8, count: 100))
        let body = EncodedBody([changeset])
        let progress = DownloadProgress(
            cursor: DownloadCursor(serverVersion: 1), latest: SaltedVersion(version: 1, salt: 1),
            upload: UploadCursor(), downloadableBytes: 0)
        let messages = ([1, 2] as [SessionID]).map { ServerMessageCodec().encodeDownload($0, progress, body) }
        #expect(messages[0].sharedBody === messages[1].sharedBody)
        #expect(messages[0].head != messages[1].head)
    }
}
