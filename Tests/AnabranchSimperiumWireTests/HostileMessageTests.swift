import AnabranchCore
import AnabranchServer
import Testing

@testable import AnabranchSimperiumWire

/// Messages that take much more memory once they are read than on the wire.
@Suite(.timeLimit(.minutes(30))) struct HostileMessageTests {
    /// Also on a connection that has a channel, and so may send long changes.
    @Test func longOpeningsAreRefused() async throws {
        try await WireRig.run { rig in
            let login = try await rig.logIn(), one = try await Conversation(rig, login)
            func opening(_ length: Int) -> String {
                let more = JSONValue.string(String(repeating: "x", count: length))
                return Frame.opening(login.token, channel: "1:", more: ["more": more])
            }
            try await one.say(opening(70_000))
            #expect(try await one.hear() == #"1:auth:{"msg":"Bad request","code":400}"#)
            try await one.say(opening(60_000))
            #expect(try await one.hear() == "1:auth:ann@example.com")
        }
    }
}
