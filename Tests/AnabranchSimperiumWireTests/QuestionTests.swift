import AnabranchCore
import AnabranchHistory
import AnabranchServer
import Testing

@testable import AnabranchSimperiumWire

/// The operator's questions to clients.
@Suite(.timeLimit(.minutes(30))) struct QuestionTests {
    @Test func indexesAreCompared() async throws {
        try await WireRig.run { rig in
            let login = try await rig.logIn(), path = Self.path(of: login)
            let node = try await Conversation(rig, login, client: "node")
            try await node.list()
            for key in ["same", "older", "lacked"] { try await node.make("M", key, ["v": .adds("a")]) }
            try await node.make("M", "older", ["v": .edits("=1\t+b"), "sv": 1])
            let phone = try await Conversation(rig, login, client: "phone", library: "ios")
            let tablet = try await Conversation(rig, login, client: "tablet", library: "android")
            async let answer = rig.wire.act("index", on: path, ["seconds": 20])
            for client in [phone, tablet, node] { #expect(try await client.hear() == "0:index") }
            try await phone.say(#"0:index:{"index":[{"same":1},{"older":1},{"gone":4}],"pendings":{"older":{}}}"#)
            try await tablet.say(
                #"0:index:{"index":[{"id":"same","v":1},{"id":"older","v":2},{"id":"lacked","v":1}],"pending":[]}"#)
            let channels = try #require(try await answer.answer["channels"]?.array)
            #expect(channels.count == 3)
            #expect(channels[0] == ["bucket": "note", "clientid": "node", "library": "node"])
            #expect(
                channels[1] == [
                    "bucket": "note", "clientid": "phone", "library": "apple", "entities": 3, "pending": 1,
                    "others": [["id": "older", "v": 1, "newest": 2]], "other_count": 1,
                    "gone": [["id": "gone", "v": 4]], "gone_count": 1,
                    "missing": [["id": "lacked", "newest": 1]], "missing_count": 1,
                ])
            #expect(
                channels[2] == [
                    "bucket": "note", "clientid": "tablet", "library": "other", "entities": 3, "pending": 0,
                    "others": [], "other_count": 0, "gone": [], "gone_count": 0, "missing": [], "missing_count": 0,
                ])
            // What nobody asks for is not kept, and no channel is asked twice.
            try await phone.say(#"0:index:{"index":[]}"#)
            for client in [phone, tablet, node] { #expect(try await client.isSilent()) }
            await #expect(throws: DoorActionError.self) { try await rig.wire.act("index", on: path, ["seconds": 0]) }
        }
    }

    @Test func channelsAreShownWhileTheyAreOpen() async throws {
        try await WireRig.run { rig in
            let login = try await rig.logIn(), path = Self.path(of: login)
            #expect(rig.wire.channels(of: path).isEmpty)
            let node = try await Conversation(rig, login, client: "node", bucket: "tag")
            try await node.say(
                Frame.opening(login.token, channel: "1:", client: "phone", library: "android", more: ["version": 0]))
            #expect(try await node.hear().hasPrefix("1:auth:"))
            let shown = rig.wire.channels(of: path).sorted { $0.client < $1.client }
            #expect(shown.map(\.client) == ["node", "phone"] && shown.map(\.bucket) == ["tag", "note"])
            #expect(shown.map(\.library) == ["node-simperium 0.0.1", "android 0"])
            #expect(shown.allSatisfy { $0.user == login.user && $0.openedAt == rig.clock.now })
            // Opened anew, it is another one.
            try await node.say(Frame.opening(login.token, channel: "1:", client: "tablet"))
            #expect(try await node.hear().hasPrefix("1:auth:"))
            #expect(Set(rig.wire.channels(of: path).map(\.client)) == ["node", "tablet"])
            await node.socket.cut()
            while !rig.wire.channels(of: path).isEmpty { await Task.yield() }
        }
    }

    @Test func clientsTellWhatTheyDoWhileTheyAreAsked() async throws {
        try await WireRig.run { rig in
            let login = try await rig.logIn(), path = Self.path(of: login)
            await #expect(throws: DoorActionError.self) { try await rig.wire.act("log", on: path, [:]) }
            let phone = try await Conversation(rig, login, client: "phone", library: "ios")
            try await phone.say(#"log:{"log":"too early"}"#)
            #expect(try await phone.isSilent())
            #expect(try await rig.wire.act("log", on: path, ["level": 2]).audit != nil)
            #expect(try await phone.hear() == "log:2")
            for number in 0..<300 { try await phone.say("log:\(number)" + String(repeating: "x", count: 2_000)) }
            #expect(try await phone.isSilent())
            let lines = try #require(try await rig.wire.act("log", on: path, [:]).answer["lines"]?.array)
            #expect(lines.count == 200 && lines.first?.string?.hasPrefix("100x") == true)
            #expect(lines.allSatisfy { $0.string?.count == 1_000 })
            // Who connects later is asked as well.
            let tablet = try await rig.connect()
            try await tablet.send(Frame.opening(login.token, client: "tablet", library: "android"))
            #expect(try await tablet.receive() == "0:auth:ann@example.com")
            #expect(try await tablet.receive() == "log:2")
            _ = try await rig.wire.act("log", on: path, ["level": 0])
            #expect(try await phone.hear() == "log:0")
            #expect(try await tablet.receive() == "log:0")
            for level: JSONValue in [3, "2", .null] {
                await #expect(throws: DoorActionError.self) {
                    try await rig.wire.act("log", on: path, ["level": level])
                }
            }
        }
    }

    private static func path(of login: AppServices.PlainLogin) -> VirtualPath {
        VirtualPath(app: WireRig.app, partition: SimperiumWire.partition(of: login.user))
    }
}
