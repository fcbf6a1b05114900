import AnabranchClient
import NIOCore
import Synchronization
import Testing

/// Servers that break the rules, or say nothing.
@Suite(.timeLimit(.minutes(30))) struct HostileServerTests {
    private static func request(_ port: Int) -> WebSocketRequest {
        TransportTests.request("ws://127.0.0.1:\(port)/realm-sync?baas_at=secret", protocols: ["one", "two"])
    }

    /// The reason why a client cannot connect to a server that answers so.
    private static func failure(
        _ answer: @escaping @Sendable (_ request: String) throws -> String
    ) async throws -> TransportError? {
        try await withRawServer { peer in
            try await peer.send(try answer(await peer.request()))
        } _: { port async throws in
            await TransportTests.error { _ = try await NIOTransport().connect(Self.request(port)) }
        }
    }

    // MARK: The answer to the handshake

    @Test(arguments: [nil, "three", "one, two", "ONE", ""]) func aProtocolThatWasNotOfferedIsNone(name: String?)
        async throws
    {
        let error = try await Self.failure { try RawPeer.agreement(to: $0, choosing: name) }
        #expect(error?.code == .badAnswer, "\(error?.reason ?? "")")
    }

    @Test func theProofHasToBeRight() async throws {
        let wrong = try await Self.failure { try RawPeer.agreement(to: $0, choosing: "one", key: "other") }
        #expect(wrong?.code == .badAnswer && wrong?.reason.contains("Sec-WebSocket-Accept") == true)
        let none = try await Self.failure { _ in "HTTP/1.1 101 A\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n" }
        #expect(none?.code == .badAnswer)
        let other = try await Self.failure { _ in "HTTP/1.1 101 A\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n" }
        #expect(other?.code == .badAnswer)
    }

    @Test func extensionsAreNotAccepted() async throws {
        let error = try await Self.failure {
            try RawPeer.agreement(
                to: $0, choosing: "one", extra: "Sec-WebSocket-Extensions: permessage-deflate\r\n")
        }
        #expect(error?.code == .badAnswer)
    }

    @Test(arguments: [
        "SSH-2.0-OpenSSH\r\n", "HTTP/1.1 abc\r\n\r\n", "\u{16}\u{3}\u{1}", "HTTP/1.1 200 OK\r\nbad header\r\n\r\n",
        "HTTP/1.1 101 A\r\nX-Long: " + String(repeating: "x", count: 9_000) + "\r\n\r\n",
        "HTTP/1.1 101 A\r\n" + String(repeating: "X: y\r\n", count: 200) + "\r\n",
        "HTTP/1.1 101 A\r\n" + String(repeating: "X: " + String(repeating: "y", count: 8_000) + "\r\n", count: 10),
    ])
    func whatIsNoAnswerIsRefused(answer: String) async throws {
        let error = try await Self.failure { _ in answer }
        #expect(error?.code == .badAnswer, "\(String(describing: error))")
        #expect(error?.reason.contains("secret") == false, "no token in an error")
    }

    @Test func aServerThatClosesHasNotAnswered() async throws {
        let error = try await Self.failure { _ in "" }
        #expect(error?.code == .disconnected, "\(String(describing: error))")
        let half = try await Self.failure { _ in "HTTP/1.1 101 Swi" }
        #expect(half?.code == .disconnected || half?.code == .badAnswer, "\(String(describing: half))")
    }

    @Test func theTextOfARefusalIsPassedOnAndCut() async throws {
        let text = String(repeating: "no entry\n", count: 10_000)
        let error = try await Self.failure { _ in
            "HTTP/1.1 403 Forbidden\r\nContent-Length: \(text.utf8.count)\r\n\r\n\(text)"
        }
        #expect(error?.code == .refused(status: 403))
        #expect(error?.reason.contains("status 403 Forbidden: no entry no entry") == true)
        #expect(error.map { $0.reason.utf8.count < 1_000 } == true)
        let redirect = try await Self.failure { _ in
            "HTTP/1.1 308 Permanent Redirect\r\nLocation: /\r\nContent-Length: 0\r\n\r\n"
        }
        #expect(redirect?.code == .refused(status: 308))
    }

    /// It never answers, so that the time is up however long the test waits for a processor, maybe before there is
    /// a connection. The server lets the second client in when it is rid of the first one.
    @Test(arguments: ["ws", "wss"]) func aServerThatSaysNothingIsGivenUp(scheme: String) async throws {
        try await withRawServer { peer in
            guard await peer.request().hasPrefix("GET /second ") else {
                await peer.read()
                return
            }
            try await peer.send("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")
        } _: { port async throws in
            var transport = NIOTransport()
            transport.connectMillisecondsMax = 20
            let error = await TransportTests.error { [transport] in
                _ = try await transport.connect(TransportTests.request("\(scheme)://127.0.0.1:\(port)/"))
            }
            #expect(error?.code == .timedOut)
            await transportFails(.refused(status: 503)) {
                _ = try await NIOTransport().connect(TransportTests.request("ws://127.0.0.1:\(port)/second"))
            }
        }
    }

    // MARK: Frames

    /// The error that a client gets from a server that sends these bytes on a WebSocket, and then closes.
    private static func received(
        _ bytes: [UInt8], messageBytesMax: Int = 1 << 20
    ) async throws -> (messages: [[UInt8]], end: TransportError?, said: [(opcode: UInt8, payload: [UInt8])]) {
        let said = Mutex<[UInt8]>([]), isOver = Signal()
        return try await withRawServer { peer in
            try await peer.upgrade()
            try await peer.send(bytes)
            peer.outbound.finish()
            let rest = await peer.read()
            said.withLock { $0 = rest }
            isOver.give()
        } _: { port async throws in
            var transport = NIOTransport()
            transport.messageBytesMax = messageBytesMax
            let connection = try await transport.connect(Self.request(port))
            #expect(connection.chosenProtocol == "one")
            let messages = Mutex<[[UInt8]]>([])
            let end = await TransportTests.error {
                while true {
                    let message = try await connection.receive()
                    messages.withLock { $0.append(message) }
                }
            }
            await isOver.wait()
            return (messages.withLock { $0 }, end, RawPeer.frames(said.withLock { $0 }))
        }
    }

    @Test func messagesArePutTogether() async throws {
        let long = [UInt8](repeating: 5, count: 70_000)
        let bytes =
            RawPeer.frame([1, 2]) + RawPeer.frame([3], isFinal: false) + RawPeer.frame([9], opcode: 9)
            + RawPeer.frame([], opcode: 0, isFinal: false) + RawPeer.frame([4], opcode: 0)
            + RawPeer.frame(Array("text".utf8), opcode: 1) + RawPeer.frame([], opcode: 10) + RawPeer.frame([])
            + RawPeer.frame(long) + RawPeer.frame([0x0f, 0xa1] + Array("bye\nnow".utf8), opcode: 8)
            + RawPeer.frame([7])
        let (messages, end, said) = try await Self.received(bytes)
        #expect(messages == [[1, 2], [3, 4], [], long])
        #expect(end?.code == .closed(code: 4001))
        #expect(end?.reason == "the server closed the WebSocket with code 4001: byenow")
        #expect(said.map(\.opcode) == [10, 8] && said[0].payload == [9] && said[1].payload == [0x0f, 0xa1])
    }

    @Test func anEmptyCloseFrameIs1005() async throws {
        let (_, end, said) = try await Self.received(RawPeer.frame([], opcode: 8))
        #expect(end?.code == .closed(code: 1005))
        #expect(said.map(\.opcode) == [8])
    }

    @Test(arguments: [
        [0x82, 0x81, 0, 0, 0, 0, 1],  // masked
        [0xc2, 0x01, 1],  // a reserved bit
        [0x83, 0x00],  // an opcode that does not exist
        [0x80, 0x01, 1],  // the rest of nothing
        [0x02, 0x01, 1, 0x82, 0x01, 1],  // a message within another one
        [0x89, 0x7e, 0x00, 0x7e],  // a long ping
        [0x09, 0x00],  // a ping in pieces
        [0x88, 0x01, 3],  // half a close code
    ])
    func whatBreaksTheRulesEndsTheConnection(bytes: [UInt8]) async throws {
        let (messages, end, said) = try await Self.received(RawPeer.frame([1]) + bytes + RawPeer.frame([2]))
        #expect(messages == [[1]], "what came before counts")
        #expect(end?.code == .badAnswer, "\(String(describing: end))")
        #expect(said.last?.payload == [0x03, 0xea])
    }

    @Test func aMessageThatIsTooLongIsRefusedBeforeItComes() async throws {
        for size in [1 << 20 + 1, 1 << 31, 1 << 40, Int.max] {
            let (_, end, said) = try await Self.received(RawPeer.frameHead(size))
            #expect(end?.code == .messageTooLong, "\(size): \(String(describing: end))")
            #expect(said.last?.payload == [0x03, 0xf1])
        }
        let half = [UInt8](repeating: 1, count: 1 << 19)
        let whole = RawPeer.frame(half, isFinal: false) + RawPeer.frame(half, opcode: 0)
        #expect(try await Self.received(whole).messages.map(\.count) == [1 << 20])
        let tooMuch = RawPeer.frame(half, isFinal: false) + RawPeer.frame(half, opcode: 0, isFinal: false)
        let (messages, end, _) = try await Self.received(tooMuch + RawPeer.frame([1], opcode: 0))
        #expect(messages.isEmpty && end?.code == .messageTooLong)
    }

    @Test func pingsOfAServerThatReadsNothingDoNotPileUp() async throws {
        let ping = RawPeer.frame([UInt8](repeating: 1, count: 125), opcode: 9)
        let canRead = Signal()
        try await withRawServer { peer in
            try await peer.upgrade()
            for _ in 0..<200 { try await peer.send([[UInt8]](repeating: ping, count: 1_000).joined()) }
            try await peer.send(RawPeer.frame([7]))
            await canRead.wait()
        } _: { port async throws in
            let connection = try await NIOTransport().connect(Self.request(port))
            #expect(try await connection.receive() == [7])
            canRead.give()
            await connection.close()
        }
    }

    @Test func messagesAreReadAsTheyAreAskedFor() async throws {
        let size = 64 << 10, count = 500
        try await withRawServer { peer in
            try await peer.upgrade()
            for number in 0..<count {
                try await peer.send(RawPeer.frame([UInt8](repeating: UInt8(number & 255), count: size)))
            }
            await peer.read()
        } _: { port async throws in
            let connection = try await NIOTransport().connect(Self.request(port))
            for number in 0..<count {
                let message = try await connection.receive()
                #expect(message.count == size && message[0] == UInt8(number & 255))
            }
            await connection.close()
        }
    }
}
