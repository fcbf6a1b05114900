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

    /// A client that is not told which change is refused sends it again for ever.
    @Test func changesWithTooManyValuesAreNamed() async throws {
        try await WireRig.run { rig in
            let one = try await Conversation(rig, try await rig.logIn(), library: "other")
            try await one.list()
            try await one.say("0:c:\(Self.longChanges)")
            for name in ["first", "second"] {
                let error = try await one.change()
                #expect(error["error"] == 400 && error["id"] == .string(name) && error["ccids"] == [.string(name)])
            }
            #expect(try await one.list()["index"] == [])
        }
    }

    @Test func changesOfAnEndedLoginAreNamedUnread() async throws {
        try await WireRig.run { rig in
            let login = try await rig.logIn(), one = try await Conversation(rig, login)
            try await one.list()
            rig.clock.advance(by: 400 * 86_400)
            rig.wire.recheckLogins(of: login.user)
            #expect(try await one.hear().hasPrefix("0:auth:{"))
            try await one.say("0:c:\(Self.longChanges)")
            for name in ["first", "second"] {
                let error = try await one.change()
                #expect(error["error"] == 401 && error["id"] == .string(name) && error["ccids"] == [.string(name)])
            }
        }
    }

    /// Two changes, the second with more values than are read.
    private static let longChanges: String = {
        let zeros = String(repeating: "0,", count: Change.valuesMax) + "0"
        return #"[{"id":"first","ccid":"first","o":"-"},{"o":"M","d":{"l":[\#(zeros)]},"ccid":"second","id":"second"}]"#
    }()

    @Test func framesHaveFewMessages() {
        func frame(_ count: Int) -> String { JSONValue.array(Array(repeating: "h:1", count: count)).encoded }
        #expect(SockJSFrame.messages(in: frame(SockJSFrame.messagesMax))?.count == SockJSFrame.messagesMax)
        #expect(SockJSFrame.messages(in: frame(SockJSFrame.messagesMax + 1)) == nil)
    }

    @Test func indexesHaveFewValues() {
        func index(_ count: Int) -> ClientIndex? {
            ClientIndex("{\"index\":[\(Array(repeating: "0", count: count).joined(separator: ","))]}")
        }
        #expect(index(Change.valuesMax - 2)?.versions.isEmpty == true)
        #expect(index(Change.valuesMax - 1) == nil)
    }

    @Test func changesAreFoundUnread() {
        for (text, names) in [
            ("", [["", ""]]), ("[]", []), ("[", [["", ""]]), ("{}", [["", ""]]), ("7", [["", ""]]),
            (#" { "ccid" : "c" , "id" : "\u006b\ud83d" } "#, [["k\u{FFFD}", "c"]]),
            (#"{"id":7,"ccid":["c"]}"#, [["", ""]]),
            (#"{"v":{"id":"no","x":[{"ccid":"no"},"}]"]},"d":"\"","id":"k"}"#, [["k", ""]]),
            (#"[1,{"id":"k"},[{"id":"no"}],{"ccid":"c"}]"#, [["", ""], ["k", ""], ["", ""], ["", "c"]]),
            // No JSON.
            (#"[{"id":"k","ccid":"c","v":tru},{"id":"l","v":{"a":["#, [["k", "c"], ["l", ""]]),
            (#"{"ccid":"c","id":"k\"#, [["", "c"]]), (#"{"ccid":"c","id"#, [["", "c"]]), ("}{", [["", ""]]),
            (#"[{"id":"k"}{"id":"l"}]"#, [["k", ""]]), ("[,]", [["", ""], ["", ""]]),
        ] as [(String, [[String]])] {
            #expect(UnreadChanges(text[...]).map { [$0.key, $0.ident] } == names, "\(text)")
        }
    }

    /// A message of 40 bytes deletes any number of entities, so each counts.
    @Test func bucketsThatAreEmptiedCount() async throws {
        try await WireRig.run {
            $0.changesPerMinuteMax = 20
        } _: { rig in
            let login = try await rig.logIn()
            func fill(_ client: String) async throws -> Conversation {
                let filling = try await Conversation(rig, login, client: client, library: "other")
                try await filling.list()
                for number in 0..<15 { try await filling.make("M", "k\(number)", ["v": .adds("x")]) }
                return filling
            }
            let watch = try await fill("one")
            let emptying = try await Conversation(rig, login, client: "two", library: "other")
            try await emptying.send("EMPTY", "note")
            var deletedCount = 0
            while deletedCount < 15 {
                deletedCount += try #require(try await watch.hear("c").array).count { $0["o"] == "-" }
            }
            let last = try await fill("three")
            try await emptying.send("EMPTY", "note")
            try? await emptying.say("h:7")
            await #expect(throws: TextClient.Closed(code: 1013)) { _ = try await emptying.hear() }
            #expect(try await last.list()["index"]?.array?.count == 15)
        }
    }

    @Test func bucketsOfManyEntitiesAreEmptied() async throws {
        try await WireRig.run { rig in
            let one = try await Conversation(rig, try await rig.logIn(), library: "other")
            try await one.list()
            let count = 2_100
            let changes = (0..<count).map { #"{"o":"M","id":"k\#($0)","ccid":"c\#($0)","v":{}}"# }
            try await one.say("0:c:[\(changes.joined(separator: ","))]")
            try await one.send("EMPTY", "note")
            var deleted: Set<String> = []
            while deleted.count < count {
                for change in try #require(try await one.hear("c").array) {
                    #expect(change["error"] == nil)
                    if change["o"] == "-" { deleted.insert(change["id"]?.string ?? "") }
                }
            }
            #expect(try await one.list()["index"] == [])
        }
    }
}
