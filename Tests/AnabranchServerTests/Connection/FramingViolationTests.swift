import AnabranchProtocol
import Testing

@testable import AnabranchServer

/// Frames that a client may not send, over sockets: each ends the connection with the right close code
/// (`Spec/Protocol.md`, section 2.5; RFC 6455, sections 5 and 7.4).
@Suite(.timeLimit(.minutes(30))) struct FramingViolationTests {
    private static let bytesMax = 100_000

    /// A frame with a mask of zeros and whatever first bytes.
    private static func frames() -> [(name: String, bytes: [UInt8], code: Int)] {
        func frame(_ first: UInt8, _ payload: [UInt8] = [1]) -> [UInt8] { AppServicesRig.frame(first, payload) }
        func close(_ code: UInt16, _ reason: [UInt8] = []) -> [UInt8] {
            frame(0x88, [UInt8(code >> 8), UInt8(code & 255)] + reason)
        }
        func unmasked(_ first: UInt8) -> [UInt8] { [first, 1, 0x20] }
        let long = [UInt8](repeating: 0x20, count: 126)
        let tooLong: [UInt8] = [0x80 | 127, 0, 0, 0, 0, 0, 1, 0x86, 0xa1]  // 100,001
        let huge: [UInt8] = [0x80 | 127, 0x80, 0, 0, 0, 0, 0, 0, 0]
        return [
            ("unmasked binary", unmasked(0x82), 1002), ("unmasked text", unmasked(0x81), 1002),
            ("unmasked ping", unmasked(0x89), 1002), ("unmasked pong", unmasked(0x8a), 1002),
            ("unmasked close", [0x88, 2, 0x03, 0xe8], 1002), ("unmasked and empty", [0x82, 0], 1002),
            ("RSV1", frame(0xc2), 1002), ("RSV2", frame(0xa2), 1002), ("RSV3", frame(0x92), 1002),
            ("all RSV", frame(0xf2), 1002), ("RSV1 on ping", frame(0xc9), 1002),
            ("RSV2 on close", frame(0xa8, []), 1002),
            ("RSV1 on a continuation", frame(0x02) + frame(0xc0), 1002),
            ("opcode 3", frame(0x83), 1002), ("opcode 4", frame(0x84), 1002), ("opcode 5", frame(0x85), 1002),
            ("opcode 6", frame(0x86), 1002), ("opcode 7", frame(0x87), 1002), ("opcode 11", frame(0x8b), 1002),
            ("opcode 12", frame(0x8c), 1002), ("opcode 13", frame(0x8d), 1002), ("opcode 14", frame(0x8e), 1002),
            ("opcode 15", frame(0x8f), 1002),
            ("continuation of nothing", frame(0x80), 1002), ("open continuation of nothing", frame(0x00), 1002),
            ("continuation after a whole message", frame(0x8a) + frame(0x80), 1002),
            ("binary inside binary", frame(0x02) + frame(0x82), 1002),
            ("text inside binary", frame(0x02) + frame(0x81), 1002),
            ("binary inside text", frame(0x01) + frame(0x82), 1002),
            ("fragmented ping", frame(0x09), 1002), ("fragmented pong", frame(0x0a), 1002),
            ("fragmented close", frame(0x08), 1002), ("long ping", frame(0x89, long), 1002),
            ("long pong", frame(0x8a, long), 1002), ("long close", frame(0x88, [0x03, 0xe8] + long), 1002),
            ("half a close code", frame(0x88, [3]), 1002), ("close 0", close(0), 1002), ("close 999", close(999), 1002),
            ("close 1004", close(1004), 1002), ("close 1005", close(1005), 1002), ("close 1006", close(1006), 1002),
            ("close 1015", close(1015), 1002), ("close 2999", close(2999), 1002), ("close 5000", close(5000), 1002),
            ("close 65535", close(65535), 1002), ("reason not UTF-8", close(1000, [0xff]), 1007),
            ("half a character", close(1000, [0xe2, 0x82]), 1007),
            ("a long frame", [0x82] + tooLong, 1009), ("a huge frame", [0x82] + huge, 1009),
            ("a long text", [0x81] + tooLong, 1009),
            (
                "a long message in two frames",
                frame(0x02, [UInt8](repeating: 0, count: 60_000)) + frame(0x80, [UInt8](repeating: 0, count: 60_000)),
                1009
            ),
        ]
    }

    @Test func eachIsClosedWithItsCode() async throws {
        var settings = AppServicesRig.development
        settings.userWithoutToken = "developer"
        let violations = Self.frames()
        #expect(violations.count >= 30)
        try await AppServicesRig.run(settings, change: { $0.limits.messageBytesMax = Self.bytesMax }) {
            rig async throws in
            for (name, bytes, code) in violations {
                let answer = try await rig.exchange(Array(rig.handshake(token: "").utf8) + bytes)
                #expect(AppServicesRig.closeCode(in: answer) == code, "\(name)")
            }
            let metrics = try await rig.admin("GET", "/metrics").body
            for code in [1002, 1007, 1009] {
                let count = violations.count { $0.code == code }
                #expect(metrics.contains("anabranch_framing_errors_total{code=\"\(code)\"} \(count)\n"))
            }
        }
    }

    @Test func aLongMessageBeforeTheFirstIdentIsClosedAndCounted() async throws {
        var settings = AppServicesRig.development
        settings.userWithoutToken = "developer"
        try await AppServicesRig.run(settings) { rig async throws in
            let client = try await WebSocketClient.open(
                port: rig.port, path: "/api/client/v2.0/app/demo/realm-sync?baas_at=")
            let bytes = [UInt8](repeating: 0, count: MessageMemory.unidentifiedBytesMax + 1)
            try await client.send(bytes, isFinal: false)
            #expect(try await client.receive().closeCode == 1002)
            let metrics = try await rig.admin("GET", "/metrics").body
            #expect(metrics.contains("anabranch_framing_errors_total{code=\"1002\"} 1\n"))
            try await client.close()
        }
    }
}
