import NIOCore
import NIOWebSocket
import Testing

@testable import AnabranchServer

/// The server's reactions to frames, over a real socket (`Spec/Protocol.md`, section 2.5).
@Suite(.timeLimit(.minutes(30))) struct FramingTests {
    private static let ping = Array("ping 1 0\n".utf8)

    /// The bytes of a frame, or of several, and the close code that they deserve.
    private static let violations: [(name: String, bytes: [UInt8], code: Int)] = [
        ("unmasked binary frame", WebSocketClient.frame(ping, isMasked: false), 1002),
        ("unmasked close frame", WebSocketClient.frame([3, 232], opcode: 8, isMasked: false), 1002),
        ("first reserved bit", WebSocketClient.frame(ping, reserved: 0x40), 1002),
        ("second reserved bit", WebSocketClient.frame(ping, reserved: 0x20), 1002),
        ("third reserved bit", WebSocketClient.frame(ping, reserved: 0x10), 1002),
        ("opcode 3", WebSocketClient.frame(ping, opcode: 3), 1002),
        ("opcode 7", WebSocketClient.frame(ping, opcode: 7), 1002),
        ("opcode 11", WebSocketClient.frame([], opcode: 11), 1002),
        ("opcode 15", WebSocketClient.frame([], opcode: 15), 1002),
        ("continuation of nothing", WebSocketClient.frame(ping, opcode: 0), 1002),
        ("last continuation twice", fragments() + WebSocketClient.frame([], opcode: 0), 1002),
        ("message inside a message", WebSocketClient.frame(ping, isFinal: false) + WebSocketClient.frame(ping), 1002),
        (
            "text inside a message", WebSocketClient.frame(ping, isFinal: false) + WebSocketClient.frame([], opcode: 1),
            1002
        ),
        ("fragmented ping", WebSocketClient.frame([], opcode: 9, isFinal: false), 1002),
        ("fragmented close", WebSocketClient.frame([], opcode: 8, isFinal: false), 1002),
        ("ping of 126 bytes", WebSocketClient.frame([UInt8](repeating: 0, count: 126), opcode: 9), 1002),
        ("close of 126 bytes", WebSocketClient.frame([3, 232] + [UInt8](repeating: 65, count: 124), opcode: 8), 1002),
        ("half a close code", WebSocketClient.frame([3], opcode: 8), 1002),
        ("close code 0", WebSocketClient.frame([0, 0], opcode: 8), 1002),
        ("close code 999", WebSocketClient.frame([3, 231], opcode: 8), 1002),
        ("close code 1004", WebSocketClient.frame([3, 236], opcode: 8), 1002),
        ("close code 1005", WebSocketClient.frame([3, 237], opcode: 8), 1002),
        ("close code 1006", WebSocketClient.frame([3, 238], opcode: 8), 1002),
        ("close code 1015", WebSocketClient.frame([3, 247], opcode: 8), 1002),
        ("close code 2999", WebSocketClient.frame([11, 183], opcode: 8), 1002),
        ("close code 5000", WebSocketClient.frame([19, 136], opcode: 8), 1002),
        ("close reason that is not UTF-8", WebSocketClient.frame([3, 232, 0xff], opcode: 8), 1007),
        ("a frame of 32 MiB and a byte", [0x82, 0xff, 0, 0, 0, 0, 2, 0, 0, 1, 0, 0, 0, 0], 1009),
        ("a frame of 2^63 bytes", [0x82, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 1009),
        ("a frame of 2^64 - 1 bytes", [0x82, 0xff] + [UInt8](repeating: 0xff, count: 12), 1009),
        ("an empty close frame", WebSocketClient.frame([], opcode: 8), 1000),
        ("a good close frame", WebSocketClient.frame([3, 232] + Array("bye".utf8), opcode: 8), 1000),
        ("a close code of one's own", WebSocketClient.frame([15, 160], opcode: 8), 1000),
    ]

    private static func fragments() -> [UInt8] {
        WebSocketClient.frame(Array(ping.prefix(3)), isFinal: false)
            + WebSocketClient.frame(Array(ping.dropFirst(3)), opcode: 0)
    }

    @Test("a bad frame is answered with its close code, and then TCP ends", arguments: violations.indices)
    func violation(index: Int) async throws {
        let (name, bytes, code) = Self.violations[index]
        try await withServer { server in
            let client = try await WebSocketClient.open(port: server.port)
            try await client.write(bytes)
            var frame = try await client.receive()
            if frame.opcode == 2 { frame = try await client.receive() }  // the answer to a good message before
            #expect(frame.closeCode == code, "\(name)")
            #expect(await client.isAtEnd(), "\(name)")
        }
    }

    @Test("fragments make one message, with control frames between them; text and pongs mean nothing")
    func goodFrames() async throws {
        try await withServer { server in
            let client = try await WebSocketClient.open(port: server.port)
            try await client.send(Array("pi".utf8), isFinal: false)
            try await client.send(Array("one".utf8), opcode: 9)
            try await client.send([], opcode: 10)
            try await client.send(Array("ng 7 ".utf8), opcode: 0, isFinal: false)
            try await client.send([], opcode: 0, isFinal: false)
            try await client.send(Array("0\n".utf8), opcode: 0)
            #expect(try await client.receive() == WebSocketClient.Frame(opcode: 10, payload: Array("one".utf8)))
            #expect(try await client.message().words == ["pong", "7"])
            try await client.send(Array("garbage".utf8), opcode: 1)
            try await client.send(Array("gar".utf8), opcode: 1, isFinal: false)
            try await client.send(Array("bage".utf8), opcode: 0)
            try await client.send("ping 8 0\n")
            #expect(try await client.message().words == ["pong", "8"])
        }
    }

    @Test("a message that exceeds the limit only by its last fragment is too big")
    func fragmentsBeyondTheLimit() throws {
        var assembler = MessageAssembler(messageBytesMax: 10)
        func frame(_ count: Int, _ opcode: WebSocketOpcode, fin: Bool) -> WebSocketFrame {
            WebSocketFrame(
                fin: fin, opcode: opcode, maskKey: [0, 0, 0, 0], data: ByteBuffer(repeating: 0, count: count))
        }
        #expect(try assembler.take(frame(6, .binary, fin: false)) == nil)
        #expect(try assembler.take(frame(3, .continuation, fin: false)) == nil)
        #expect(throws: FramingError.messageTooBig(10)) { try assembler.take(frame(2, .continuation, fin: true)) }
    }
}

extension MessageAssembler.Event: Equatable {
    static func == (left: Self, right: Self) -> Bool {
        switch (left, right) {
        case (.message(let left), .message(let right)), (.ping(let left), .ping(let right)): left == right
        case (.close, .close): true
        default: false
        }
    }
}
