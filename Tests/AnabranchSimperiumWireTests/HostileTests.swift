import AnabranchCore
import AnabranchServer
import Testing

@testable import AnabranchSimperiumWire

/// Clients that mean no good: what they do is refused, and others are served.
@Suite(.timeLimit(.minutes(30))) struct HostileTests {
    @Test func openingsAreLimited() async throws {
        try await WireRig.run {
            $0.initsPerMinuteMax = 150
        } _: { rig in
            let login = try await rig.logIn(), client = try await rig.connect()
            var codes: [Int64] = [], opened = 0
            do {
                for number in 0..<10_000 {
                    try await client.send(Frame.opening(login.token, channel: "\(number):", bucket: "b\(number)"))
                    let answer = try await client.receive()
                    guard answer != "\(number):auth:ann@example.com" else {
                        opened += 1
                        continue
                    }
                    codes.append(try JSON(answer, after: "\(number):auth:")?["code"]?.integer ?? 0)
                }
            } catch let error as TextClient.Closed {
                #expect(error.code == 1013)
            }
            #expect(opened == 100 && codes == Array(repeating: 500, count: 50))
            // Buckets that nobody has written to leave nothing behind.
            let file = try rig.wire.file(of: login.user, app: WireRig.app)
            #expect(try await file.read { try $0.records.buckets().count } == 0)
        }
    }

    @Test func bucketsAreLimited() async throws {
        try await WireRig.run {
            $0.door.bucketsMax = 3
        } _: { rig in
            let login = try await rig.logIn()
            for number in 0..<5 {
                let one = try await Conversation(rig, login, library: "other", bucket: "b\(number)")
                try await one.list()
                let answer = try await one.make("M", "k", ["v": .adds("x")])
                #expect(number < 3 ? answer["ev"] == 1 : answer["error"] == 500)
            }
        }
    }

    @Test func openingsThatAreWrongAreRefused() async throws {
        try await WireRig.run { settings in
            settings.apps[WireRig.app]?.otherBuckets = nil
            settings.apps[WireRig.app]?.buckets["note"] = BucketSettings()
        } _: { rig in
            let login = try await rig.logIn(), client = try await rig.connect()
            let unknown = String(repeating: "a", count: 64)
            for (frame, code) in [
                ("0:init:", 400), ("0:init:[]", 400), ("0:init:{\"name\":\"note\"}", 400),
                (Frame.opening("short"), 400), (Frame.opening(login.token + " "), 400),
                (Frame.opening(login.token, more: ["clientid": ""]), 400),
                (Frame.opening(login.token, more: ["app_id": 7]), 400), (Frame.opening(unknown), 401),
                (Frame.opening(String(login.token.dropLast()) + "!"), 400),
                (Frame.opening(login.token, bucket: "a b"), 500), (Frame.opening(login.token, bucket: "other"), 500),
                (Frame.opening(login.token, more: ["app_id": "another"]), 500), ("0:i:1:::10", 401), ("0:index", 401),
            ] as [(String, Int64)] {
                try await client.send(frame)
                #expect(try JSON(await client.receive(), after: "0:auth:")?["code"] == .integer(code), "\(frame)")
            }
            try await client.send(Frame.opening(unknown, channel: "", more: ["api": 1]))
            #expect(try await client.receive() == "auth:expired")
            #expect(try await client.receive().hasPrefix("auth:{") == true)
            // The case of an app does not count, and a channel may have no number.
            try await client.send(
                Frame.opening(login.token, channel: "", more: ["app_id": "MY-App", "cmd": "i:1:::40"]))
            #expect(try await client.receive() == "auth:ann@example.com")
            #expect(try await client.receive().hasPrefix("i:{") == true)
        }
    }

    @Test func messagesThatCannotBeReadEndTheConnection() async throws {
        try await WireRig.run { rig in
            let one = try await Conversation(rig, try await rig.logIn())
            try await one.list()
            for text in ["h:x", "h:", "h:-5", "h:99999999999999999999"] {
                try await one.say(text)
                #expect(try await one.hear() == "h:1")
            }
            let long = String(repeating: "x", count: 5_000)
            for text in ["log:{}", "0:o:{}", "0:what:x", "0:index:{\"current\":\"x\"}", "0:e:\(long)"] {
                try await one.say(text)
            }
            for number in 0..<19 { try await one.say(["", "?", "99999999999:i", "7", "hello"][number % 5]) }
            #expect(try await one.isSilent())
            try await one.say("once more")
            await #expect(throws: TextClient.Closed(code: 1008)) { _ = try await one.hear() }
        }
    }

    @Test func textsThatGrowStayWithinTheirLimit() async throws {
        try await WireRig.run { rig in
            let login = try await rig.logIn()
            let one = try await Conversation(rig, login, library: "other")
            let two = try await Conversation(rig, login, client: "two", library: "other", bucket: "else")
            try await one.list()
            try await two.list()
            try await one.make("M", "k", ["v": .adds("")])
            // Each delta doubles the text.
            var version: Int64 = 1, length = 0, code: Int64?
            while code == nil {
                let inserted = String(repeating: "x", count: max(1, length))
                let answer = try await one.make(
                    "M", "k", ["v": .edits(length == 0 ? "+x" : "=\(length)\t+\(inserted)"), "sv": .integer(version)])
                code = answer["error"]?.integer
                version += 1
                length += inserted.count
            }
            #expect(code == 413 && length == 1 << 20)
            let deep = String(repeating: "{\"o\":\"O\",\"v\":{\"a\":", count: 300)
            try await one.say("0:c:{\"o\":\"M\",\"id\":\"d\",\"ccid\":\"d\",\"v\":{\"a\":\(deep)")
            #expect(try await one.change()["error"] == 400)
            var nested: JSONValue = 1
            for _ in 0..<70 { nested = .object(["a": nested]) }
            #expect(try await one.make("M", "d", ["d": nested])["error"] == 413)
            #expect(try await two.make("M", "k", ["v": .adds("bystander")])["ev"] == 1)
        }
    }

    @Test func changesAreLimited() async throws {
        try await WireRig.run {
            $0.changesPerMinuteMax = 200
        } _: { rig in
            let one = try await Conversation(rig, try await rig.logIn(), library: "other")
            try await one.list()
            await #expect(throws: TextClient.Closed(code: 1013)) {
                for number in 0...200 { try await one.send("M", "k", ["v": [:], "sv": .integer(Int64(number))]) }
                while true { _ = try await one.hear() }
            }
        }
    }

    @Test func longMessagesComeInFragments() async throws {
        try await WireRig.run { rig in
            let one = try await Conversation(rig, try await rig.logIn(), library: "other")
            try await one.list()
            let text = String(repeating: "🐙", count: 200_000)
            #expect(try await one.make("M", "k", ["v": .adds(text)])["v"] == .adds(text))
            // It may be closed before all of it is sent.
            try? await one.say("0:c:" + String(repeating: " ", count: 8 << 20))
            await #expect(throws: TextClient.Closed(code: 1009)) { _ = try await one.hear() }
        }
    }

    @Test func anEndedLoginEndsItsChannels() async throws {
        try await WireRig.run {
            $0.loginCheckSeconds = 0
        } _: { rig in
            let login = try await rig.logIn()
            let one = try await Conversation(rig, login)
            try await one.list()
            rig.clock.advance(by: 400 * 86_400)
            #expect(try await one.hear() == "0:auth:{\"msg\":\"Token invalid\",\"code\":401}")
            #expect(try await one.make("M", "k", ["v": .adds("x")])["error"] == 401)
        }
    }
}
