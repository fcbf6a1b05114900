import AnabranchProtocol
import NIOEmbedded
import Testing

@testable import AnabranchServer

/// Long messages, from their frames to the handler of the connection (`Spec/Limits.md`, section 7).
@Suite struct LongMessageTests {
    private static func frame(_ text: String, zeros: Int = 0) -> [UInt8] {
        WebSocketClient.frame(Array(text.utf8) + [UInt8](repeating: 0, count: zeros))
    }

    @Test("what comes between the fragments of a message does not bring it on", arguments: [(9, 125), (9, 0), (0, 0)])
    func noProgress(opcode: UInt8, payloadBytes: Int) async throws {
        let rig = try HandlerRig()
        let first = [UInt8](repeating: 0, count: MessageMemory.freeBytesMax + 1)
        try rig.receive(WebSocketClient.frame(first, isFinal: false))
        #expect(rig.files.messageMemory.bytesInUse > 0)
        let frame = WebSocketClient.frame(
            [UInt8](repeating: 7, count: payloadBytes), opcode: opcode, isFinal: opcode > 0)
        let count = 2 * MessageMemory.bytesMin / frame.count
        try rig.receive([[UInt8]](repeating: frame, count: count).joined())
        rig.wait(seconds: 60)
        #expect(!rig.channel.isActive && rig.files.messageMemory.bytesInUse == 0)
        try await rig.files.shutDown()
    }

    @Test("fragments bring their message on")
    func progress() async throws {
        let rig = try HandlerRig()
        let first = [UInt8](repeating: 0, count: MessageMemory.freeBytesMax + 1)
        try rig.receive(WebSocketClient.frame(first, isFinal: false))
        try rig.receive(WebSocketClient.frame([0], opcode: 0, isFinal: false))
        rig.wait(seconds: 60)
        #expect(rig.channel.isActive)
        try rig.receive(WebSocketClient.frame([0], opcode: 0))
        #expect(rig.files.messageMemory.bytesInUse == 0)
        try await rig.files.shutDown()
    }

    @Test func theHandlerSaysWhatTheClientIsToRead() async throws {
        let rig = try HandlerRig(), budget = rig.files.messageMemory
        var body = EncodedBody.empty
        body.attachment = MessageAttachment(try #require(budget.permit(for: 1)))
        budget.reserve(.max - 1)
        let wait = budget.wait(for: 1) { _ in }
        #expect(rig.memory.outboundBytesMin == StallDetector.bytesMin)
        rig.deliver(.download(.beginning, body))
        #expect(rig.memory.outboundBytesMin == MessageMemory.bytesMin)
        withExtendedLifetime((wait, body)) {}
        try await rig.files.shutDown()
    }

    /// A client that has had an ident before sends BIND, IDENT and UPLOAD at one go.
    @Test("messages may be long after an IDENT, even if its session is refused", arguments: [true, false])
    func refusedSession(sendsIdent: Bool) async throws {
        let rig = try HandlerRig(isIdentified: false)
        // The empty partition is not a name of a file.
        try rig.receive(Self.frame("bind 1 0 0 0 0\n"))
        if sendsIdent { try rig.receive(Self.frame("ident 1 2 3 0 0 0 0\n")) }
        let size = MessageMemory.unidentifiedBytesMax
        let upload = Self.frame("upload 1 0 \(size) 0 2 0 0\n", zeros: size)
        try rig.receive(upload.dropLast())
        try rig.receive(upload.suffix(1))
        #expect(rig.handler?.isLive == sendsIdent)
        try await rig.files.shutDown()
    }
}
