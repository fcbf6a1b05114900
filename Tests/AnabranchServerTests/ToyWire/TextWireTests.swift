import AnabranchProtocol
import Foundation
import NIOCore
import NIOHTTP1
import NIOSSL
import Testing

@testable import AnabranchServer

/// A wire of text messages, a counter, over sockets.
@Suite(.timeLimit(.minutes(30))) struct TextWireTests {
    private static func open(
        _ server: RunningServer, path: String = "/counter", headers: String = "", tls: NIOSSLContext? = nil
    ) async throws -> WebSocketClient {
        try await WebSocketClient.open(port: server.port, path: path, headers: headers, tls: tls)
    }

    // MARK: Messages

    @Test func everyoneIsToldOfAChange() async throws {
        try await withServer(wires: [CounterWire()]) { server in
            var clients: [WebSocketClient] = []
            for _ in 0..<20 {
                let client = try await Self.open(server)
                // Nobody is told of what was before he came.
                try await client.say("echo here")
                #expect(try await client.text() == "here")
                clients.append(client)
            }
            for number in 1...5 {
                try await clients[number].say("add 1")
                for client in clients { #expect(try await client.text() == "= \(number)") }
            }
        }
    }

    @Test func aMessageArrivesWhereverItIsDivided() async throws {
        let text = "aé€😀z", bytes = Array("echo \(text)".utf8)
        try await withServer(wires: [CounterWire()]) { server in
            let client = try await Self.open(server)
            for first in 0...bytes.count {
                for second in first...bytes.count {
                    try await client.send(Array(bytes[..<first]), opcode: 1, isFinal: false)
                    try await client.send([7], opcode: 9)
                    try await client.send(Array(bytes[first..<second]), opcode: 0, isFinal: false)
                    try await client.send(Array(bytes[second...]), opcode: 0)
                    #expect(try await client.receive() == WebSocketClient.Frame(opcode: 10, payload: [7]))
                    #expect(try await client.text() == text, "divided at \(first) and \(second)")
                }
            }
        }
    }

    @Test(arguments: [0, 1, 125, 126, 65_535, 65_536, 65_537, 1 << 20, 1 << 20 + 1, 3 << 20 + 7])
    func messagesOfAllLengthsGoBothWays(count: Int) async throws {
        try await withServer(wires: [CounterWire()]) { server in
            let client = try await Self.open(server), text = CounterWire.text(ofBytes: count)
            try await client.say("make \(count)")
            #expect(try await client.longText(count) == text)
            try await client.say("echo \(text)")
            #expect(try await client.longText(count) == text)
        }
    }

    @Test func noFrameIsTooLongOrEndsWithinACharacter() {
        for more in [0, 1, 2, 7, 8, 9] {
            let text = String(repeating: "b", count: more) + CounterWire.text(ofBytes: 2_500_000)
            var frames = TextFrames(text), joined = "", firstBytes: [UInt8] = []
            repeat {
                var frame = frames.next()
                firstBytes.append(frame.readInteger() ?? 0)
                let length = frame.readInteger() ?? UInt8(0)
                frame.moveReaderIndex(forwardBy: length == 127 ? 8 : length == 126 ? 2 : 0)
                #expect(frame.readableBytes <= 1 << 20)
                joined += String(validating: frame.readableBytesView, as: UTF8.self) ?? "invalid"
            } while !frames.isAtEnd
            #expect(joined == text && firstBytes == [0x01, 0x00, 0x80])
        }
    }

    @Test func manyLongMessagesShareLittleMemory() async throws {
        var settings = ServerSettings.small
        settings.messageMemoryBytesMax = 1 << 20
        settings.limits.messageBytesMax = 1 << 20
        let metrics = CountingMetrics()
        try await withServer(settings: settings, wires: [CounterWire()], metrics: metrics) { server in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<16 {
                    group.addTask {
                        let client = try await Self.open(server)
                        let text = "\(number) " + CounterWire.text(ofBytes: 300_000)
                        for _ in 0..<3 { try await client.say("echo \(text)") }
                        for _ in 0..<3 { #expect(try await client.longText(text.utf8.count) == text) }
                    }
                }
                try await group.waitForAll()
            }
        }
        #expect(metrics.value("anabranch_memory_waits_total") > 0)
    }

    // MARK: Mistakes

    private static let bytesMax = 100_000

    private static func mistakes() -> [(name: String, bytes: [UInt8], code: Int)] {
        func frame(_ opcode: UInt8, _ payload: [UInt8], isFinal: Bool = true) -> [UInt8] {
            WebSocketClient.frame(payload, opcode: opcode, isFinal: isFinal)
        }
        let half = [UInt8](repeating: 0x61, count: bytesMax / 2 + 1)
        return [
            ("binary", frame(2, [1]), 1003), ("a part of binary", frame(2, [1], isFinal: false), 1003),
            ("binary inside text", frame(1, [0x61], isFinal: false) + frame(2, [1]), 1002),
            ("text inside text", frame(1, [0x61], isFinal: false) + frame(1, [0x61]), 1002),
            ("continuation of nothing", frame(0, [0x61]), 1002),
            ("unmasked", WebSocketClient.frame([0x61], opcode: 1, isMasked: false), 1002),
            ("reserved bit", WebSocketClient.frame([0x61], opcode: 1, reserved: 0x40), 1002),
            ("reserved opcode", frame(3, [0x61]), 1002), ("half a close code", frame(8, [3]), 1002),
            ("not UTF-8", frame(1, [0x61, 0xff]), 1007), ("half a character", frame(1, [0xe2, 0x82]), 1007),
            ("a surrogate", frame(1, [0xed, 0xa0, 0x80]), 1007), ("overlong", frame(1, [0xc0, 0x80]), 1007),
            ("beyond Unicode", frame(1, [0xf4, 0x90, 0x80, 0x80]), 1007),
            ("a wrong second half", frame(1, [0xe2, 0x82], isFinal: false) + frame(0, [0x61]), 1007),
            ("too long", frame(1, half + half), 1009),
            ("too long in two frames", frame(1, half, isFinal: false) + frame(0, half), 1009),
            ("much too long, and not whole", Array(frame(1, half + half + half).dropLast()), 1009),
            ("much too long, and not sent", [0x81, 0xff, 0, 0, 0, 0, 0x7f, 0, 0, 0], 1009),
        ]
    }

    @Test func eachMistakeHasItsCode() async throws {
        var wireSettings = TextWireSettings()
        wireSettings.messageBytesMax = Self.bytesMax
        let metrics = CountingMetrics(), wire = CounterWire(wireSettings)
        try await withServer(wires: [wire], metrics: metrics) { server in
            for (name, bytes, code) in Self.mistakes() {
                let client = try await Self.open(server)
                try await client.say("echo \(String(repeating: "x", count: Self.bytesMax - 5))")
                #expect(try await client.longText(Self.bytesMax - 5).utf8.count == Self.bytesMax - 5)
                // What comes after it is not heard.
                try await client.write(bytes + WebSocketClient.frame(Array("add 1".utf8), opcode: 1))
                #expect(try await client.receive().closeCode == code, "\(name)")
                #expect(await client.isAtEnd())
            }
            #expect(metrics.value("anabranch_framing_errors_total") == Self.mistakes().count)
            let last = try await Self.open(server)
            try await last.say("add 0")
            #expect(try await last.text() == "= 0")
        }
        #expect(wire.count == 0)
    }

    // MARK: The request

    @Test func theSyncProtocolIsSpokenBesideIt() async throws {
        let (held, sockets, _) = HeldWire.make()
        try await withServer(wires: [CounterWire(), held]) { server in
            let counter = try await Self.open(server)
            let realm = try await WebSocketClient.open(port: server.port)
            try await realm.send("ping 7 0\n")
            #expect(try await realm.message().words == ["pong", "7"])
            try await counter.say("echo é")
            #expect(try await counter.text() == "é")
            #expect(!counter.response.lowercased().contains("sec-websocket-protocol"))
            // This wire admits everything, but a path of the sync protocol is never asked about.
            await #expect(throws: WebSocketClient.HandshakeRefused.self) {
                _ = try await Self.open(server, path: "/realm-sync", headers: "Sec-WebSocket-Version: 12\r\n")
            }
            _ = try await Self.open(server, path: "/other?a=b?c", headers: "X-Toy: 7\r\n")
            var iterator = sockets.makeAsyncIterator()
            let request = try #require(await iterator.next()).request
            #expect(request.path == "/other" && request.query == "a=b?c" && request.headers["x-toy"] == ["7"])
            #expect(request.address == "127.0.0.1" && !request.isSecure)
        }
    }

    @Test func requestsForOtherThingsAreAnsweredByRoutes() async throws {
        var settings = ServerSettings.small
        settings.basePath = "/base"
        let route = HTTPRoute("/counter", to: AnsweringEndpoints { .text("route \($0.path)") })
        try await withServer(settings: settings, routes: [route], wires: [CounterWire()]) { server in
            let plain = try await WebSocketClient(port: server.port)
            let response = try await plain.request("GET /counter HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try await plain.body(of: response) == "route /counter")
            let upgrade = "GET /base/counter HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
            for (lines, status) in [
                ("Sec-WebSocket-Version: 13\r\n" + key, 101), ("Sec-WebSocket-Version: 12\r\n" + key, 400),
                ("Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: short\r\n", 400),
                ("Sec-WebSocket-Version: 13\r\nX: \(String(repeating: "x", count: 8 << 10))\r\n" + key, 400),
            ] {
                let client = try await WebSocketClient(port: server.port)
                #expect(try await client.request(upgrade + lines + "\r\n").hasPrefix("HTTP/1.1 \(status) "))
            }
            // The first request of the socket was another.
            let late = try await plain.request(upgrade + "Sec-WebSocket-Version: 13\r\n" + key + "\r\n")
            #expect(late.hasPrefix("HTTP/1.1 400 "))
            await #expect(throws: WebSocketClient.HandshakeRefused.self) { _ = try await Self.open(server, path: "/x") }
        }
    }

    @Test func itGoesThroughTLS() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("text-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let certificate = folder.appendingPathComponent("certificate.pem").path
        let key = folder.appendingPathComponent("key.pem").path
        try TLSTests.certificateOne.write(toFile: certificate, atomically: true, encoding: .utf8)
        try TLSTests.keyOne.write(toFile: key, atomically: true, encoding: .utf8)
        let files = try await TLSFiles(certificatePath: certificate, keyPath: key, logger: .quiet)
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.certificateVerification = .none
        let context = try NIOSSLContext(configuration: configuration)
        try await withServer(tls: files, wires: [CounterWire()]) { server in
            let client = try await Self.open(server, tls: context)
            // As long as a message may be.
            let count = 8 << 20 - 5, text = CounterWire.text(ofBytes: count)
            try await client.say("echo \(text)")
            #expect(try await client.longText(count) == text)
        }
    }

    // MARK: Limits

    @Test func socketsCountForTheirUsers() async throws {
        var settings = ServerSettings.small
        settings.connectionsPerUserMax = 2
        try await withServer(settings: settings, wires: [CounterWire()]) { server in
            var clients: [WebSocketClient] = []
            for _ in 0..<2 {
                let client = try await Self.open(server)
                for name in ["ann", "bob", "ann"] {
                    try await client.say("user \(name)")
                    #expect(try await client.text() == "yes")
                }
                clients.append(client)
            }
            let third = try await Self.open(server)
            try await third.say("user cy")
            #expect(try await third.text() == "yes")
            try await third.say("user bob")
            let frame = try await third.receive()
            #expect(frame.closeCode == 1013 && frame.payload.dropFirst(2) == ArraySlice("too many".utf8))
            // One leaves, and there is room for another.
            try await clients[0].say("bye bye")
            #expect(try await clients[0].text() == "bye")
            #expect(try await clients[0].receive().closeCode == 1000)
            try await clients[0].close()
            while true {
                let next = try await Self.open(server)
                try await next.say("user ann")
                if try await next.receive().opcode == 1 { break }
            }
        }
    }

    @Test func socketsCountForTheirAddresses() async throws {
        var settings = ServerSettings.small
        settings.trustedProxies = try #require(TrustedProxies("127.0.0.1"))
        settings.connectionsPerAddressMax = 1
        let metrics = CountingMetrics()
        try await withServer(settings: settings, wires: [CounterWire()], metrics: metrics) { server in
            let first = try await Self.open(server, headers: "X-Forwarded-For: 192.0.2.7\r\n")
            let other = try await Self.open(server, headers: "X-Forwarded-For: 192.0.2.8\r\n")
            let refusal = await #expect(throws: WebSocketClient.HandshakeRefused.self) {
                _ = try await Self.open(server, headers: "X-Forwarded-For: 192.0.2.7\r\n")
            }
            #expect(refusal?.response.hasPrefix("HTTP/1.1 503 ") == true)
            #expect(metrics.value("anabranch_connections_refused_total") == 1)
            for client in [first, other] {
                try await client.say("echo x")
                #expect(try await client.text() == "x")
            }
        }
    }

    @Test(arguments: [false, true]) func aShutdownClosesWith1001(isSpread: Bool) async throws {
        var wireSettings = TextWireSettings()
        wireSettings.spreadsShutdown = isSpread
        let wire = CounterWire(wireSettings)
        try await withServer(wires: [wire]) { server in
            var clients: [WebSocketClient] = []
            for _ in 0..<10 { clients.append(try await Self.open(server)) }
            await wire.wait(forSockets: 10)
            server.stop()
            for client in clients {
                #expect(try await client.receive().closeCode == 1001)
                #expect(await client.isAtEnd())
            }
            try await server.end()
        }
        await wire.wait(forSockets: 0)
    }
}

extension WebSocketClient {
    /// Sends a text message.
    func say(_ text: String) async throws { try await send(Array(text.utf8), opcode: 1) }

    /// The next message, which has one frame.
    func text() async throws -> String {
        let frame = try await receive()
        return frame.opcode == 1 ? String(decoding: frame.payload, as: UTF8.self) : "opcode \(frame.opcode)"
    }

    /// The next message, which is so long.
    func longText(_ count: Int) async throws -> String {
        var frame = try await receive()
        guard frame.opcode == 1 else { return "opcode \(frame.opcode)" }
        var bytes = frame.payload
        while bytes.count < count {
            frame = try await receive()
            guard frame.opcode == 0 else { return "opcode \(frame.opcode)" }
            bytes += frame.payload
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
