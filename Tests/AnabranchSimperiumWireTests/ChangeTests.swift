import AnabranchCore
import Testing

@testable import AnabranchServer
@testable import AnabranchSimperiumWire

/// Changes, their merge and their refusals (`Spec/Simperium.md`, section 8).
@Suite(.timeLimit(.minutes(30))) struct ChangeTests {
    /// Two clients that listen to a bucket, and an entity `k` with the text `AC`, version 1.
    private static func withTwo(
        first: String = "other", second: String = "other", _ change: (inout SimperiumSettings) -> Void = { _ in },
        _ body: (WireRig, Conversation, Conversation) async throws -> Void
    ) async throws {
        try await WireRig.run(change) { rig in
            let login = try await rig.logIn()
            let one = try await Conversation(rig, login, client: "one", library: first)
            let two = try await Conversation(rig, login, client: "two", library: second)
            try await one.list()
            try await two.list()
            try await one.make("M", "k", ["v": .adds("AC")])
            _ = try await two.change()
            try await body(rig, one, two)
        }
    }

    @Test func editsOfOneVersionMerge() async throws {
        try await Self.withTwo { _, one, two in
            try await two.make("M", "k", ["v": .edits("=1\t+B\t=1"), "sv": 1])
            let seen = try await one.change()
            #expect(seen["v"] == .edits("=1\t+B\t=1") && seen["clientid"] == "two" && seen["sv"] == 1)
            let merged = try await one.make("M", "k", ["v": .edits("=2\t+D"), "sv": 1])
            #expect(merged["v"] == .edits("=3\t+D") && merged["sv"] == 2 && merged["ev"] == 3)
            #expect(try await two.change() == merged)
            #expect(try await two.list()["index"] == [["id": "k", "v": 3, "d": ["t": "ABCD"]]])
        }
    }

    @Test func everyCodeIsTold() async throws {
        try await Self.withTwo { _, one, _ in
            for (operation, key, members, code) in [
                ("X", "k", [:], 400), ("M", "k", ["sv": 1], 400), ("M", "", ["v": [:]], 400),
                ("M", "a/b", ["v": [:]], 400), ("M", "k", ["v": ["t": ["o": "?"]], "sv": 1], 400),
                ("M", "k", ["v": .adds("x"), "sv": "one"], 400), ("M", "none", ["v": .adds("x"), "sv": 1], 404),
                ("M", "k", ["v": .adds("x")], 405), ("M", "k", ["v": .adds("x"), "sv": 2], 405),
                ("M", "k", ["v": .edits("=1"), "sv": 1], 440), ("M", "k", ["v": [:], "sv": 1], 412),
                ("M", "k", ["v": .edits("=2"), "sv": 1], 412), ("-", "none", [:], 412), ("-", "none", ["sv": 1], 412),
                ("M", "k", ["d": ["t": "AC"]], 412), ("DROP", "note", [:], 401),
                ("M", "k", ["d": ["t": .string(String(repeating: "x", count: 1 << 20))]], 413),
            ] as [(String, String, [String: JSONValue], Int64)] {
                let ident = try await one.send(operation, key, members)
                let error = #"0:c:[{"clientid":"one","id":"\#(key)","error":\#(code),"ccids":["\#(ident)"]}]"#
                #expect(try await one.hear() == error, "\(operation) \(key) \(members)")
            }
            #expect(try await one.list()["index"] == [["id": "k", "v": 1, "d": ["t": "AC"]]])
        }
    }

    @Test func changesAndConnectionsAreCounted() async throws {
        let metrics = PrometheusMetrics()
        func lines() -> Set<Substring> { Set(metrics.text(values: [:]).split(separator: "\n")) }
        func count(_ outcome: String, _ count: Int) -> Substring {
            "anabranch_door_changes_total{door=\"simperium\",outcome=\"\(outcome)\"} \(count)"
        }
        try await WireRig.run(metrics: metrics) { rig in
            #expect(lines().isSuperset(of: [count("accepted", 0), count("412", 0), count("failed", 0)]))
            let one = try await Conversation(rig, try await rig.logIn(), client: "one")
            try await one.list()
            try await one.make("M", "k", ["v": .adds("AC")])
            #expect(try await one.make("M", "k", ["d": ["t": "AC"]])["error"] == 412)
            #expect(lines().isSuperset(of: [count("accepted", 1), count("412", 1), count("failed", 0)]))
            #expect(lines().contains("anabranch_door_connections{door=\"simperium\"} 1"))
            #expect(rig.wire.connectionCount == 1)
        }
        #expect(lines().contains("anabranch_door_connections{door=\"simperium\"} 0"))
    }

    @Test func aRepeatedRequestIsToldSo() async throws {
        try await Self.withTwo { _, one, two in
            let change = try await one.make("M", "k", ["v": .edits("=2\t+D"), "sv": 1])
            _ = try await two.change()
            let ident = try #require(change["ccids"]?.array?.first?.string)
            // With another content, too; and of another entity it is another request.
            for members in [["v": .edits("=2\t+D"), "sv": 1], ["d": ["t": "x"]]] as [[String: JSONValue]] {
                try await one.say(Conversation.change("M", "k", ident, members))
                #expect(try await one.change()["error"] == 409)
            }
            try await one.say(Conversation.change("M", "m", ident, ["v": .adds("m")]))
            #expect(try await one.change()["ev"] == 1)
            let refused = try await one.make("M", "k", ["v": [:], "sv": 2])
            #expect(refused["error"] == 412)
            let again = try #require(refused["ccids"]?.array?.first?.string)
            try await one.say(Conversation.change("M", "k", again, ["d": ["t": "y"]]))
            #expect(try await one.change()["error"] == 412)
        }
    }

    @Test func aWholeEntityCounts() async throws {
        try await Self.withTwo { _, one, two in
            let change = try await two.make("M", "k", ["d": ["t": "ABC", "n": .real(1)], "v": ["x": 1], "sv": 7])
            #expect(change["v"] == ["t": ["o": "d", "v": "=1\t+B\t=1"], "n": ["o": "+", "v": 1]])
            _ = try await one.change()
            try await one.make("-", "k")
            _ = try await two.change()
            let created = try await two.make("M", "k", ["d": ["t": "new"]])
            #expect(created["sv"] == nil && created["ev"] == 4 && created["v"] == .adds("new"))
        }
    }

    @Test func aDeletionWins() async throws {
        try await Self.withTwo(second: "node-simperium") { _, one, two in
            let deletion = try await one.make("-", "k", ["sv": 1])
            #expect(deletion["o"] == "-" && deletion["ev"] == 2 && deletion["sv"] == 1 && deletion["v"] == nil)
            #expect(try await two.change() == deletion)
            #expect(try await one.make("M", "k", ["v": .edits("=2\t+D"), "sv": 1])["error"] == 404)
            // Node cannot take 404.
            #expect(try await two.make("M", "k", ["v": .edits("=2\t+D"), "sv": 1])["error"] == 412)
            let created = try await one.make("M", "k", ["v": .adds("new")])
            #expect(created["ev"] == 3 && created["sv"] == nil)
            #expect(try await two.change() == created)
        }
    }

    @Test func nodeIsRefusedNothingThatItCannotAnswer() async throws {
        try await Self.withTwo(first: "node-simperium") { _, one, _ in
            // No version: what is there has come since.
            let merged = try await one.make("M", "k", ["v": ["t": ["o": "+", "v": "mine"], "u": ["o": "+", "v": 1]]])
            #expect(merged["sv"] == 1 && merged["v"]?["u"] == ["o": "+", "v": 1])
            // A version that is not there: what fits is taken.
            let reduced = try await one.make(
                "M", "k", ["v": ["t": ["o": "d", "v": "=99"], "w": ["o": "+", "v": 2]], "sv": 50])
            #expect(reduced["v"] == ["w": ["o": "+", "v": 2]])
            #expect(try await one.make("M", "k", ["v": .edits("=99"), "sv": 50])["error"] == 412)
            // The whole entity of its resends is the old one, and means nothing.
            let resent = try await one.make(
                "M", "k",
                ["v": ["w": ["o": "r", "v": 3]], "sv": 3, "d": ["version": 3, "data": ["t": "AC"]]])
            #expect(resent["v"] == ["w": ["o": "r", "v": 3]] && resent["ev"] == 4)
            // Of what makes an entity, too.
            #expect(try await one.make("M", "m", ["v": .edits("=99")])["error"] == 412)
            let made = try await one.make("M", "m", ["v": ["t": ["o": "-"], "w": ["o": "+", "v": 2]]])
            #expect(made["v"] == ["w": ["o": "+", "v": 2]] && made["ev"] == 1)
        }
    }

    /// What a client has cut in the middle of an emoji: were it refused, its entity would never be synced.
    @Test func halfASurrogatePairIsReplaced() async throws {
        try await Self.withTwo { _, one, two in
            let text = #""a\ud83d\u0062\ude00\ud83d\ude00""#
            try await one.say(#"0:c:{"o":"M","id":"h","ccid":"c","v":{"t":{"o":"+","v":\#(text)}}}"#)
            #expect(try await one.change()["v"] == .adds("a\u{FFFD}b\u{FFFD}😀"))
            #expect(try await two.change()["ccids"] == ["c"])
        }
    }

    @Test func theVersionMayBeText() async throws {
        try await Self.withTwo(first: "ios") { _, one, _ in
            try await one.say("0:cv:")
            #expect(try await one.hear() == "0:cv:?")
            #expect(try await one.make("M", "k", ["d": ["t": "ACE"], "sv": "1"])["ev"] == 2)
        }
    }

    @Test func aBucketIsEmptied() async throws {
        try await Self.withTwo { _, one, two in
            try await one.make("M", "m", ["v": .adds("m")])
            _ = try await two.change()
            let ident = try await one.send("EMPTY", "note")
            var deleted: [String] = []
            while deleted.count < 2 {
                for change in try await two.hear("c").array ?? [] {
                    #expect(change["o"] == "-")
                    deleted.append(change["id"]?.string ?? "")
                }
            }
            #expect(deleted.sorted() == ["k", "m"])
            #expect(try await two.list()["index"] == [])
            #expect(try await two.make("EMPTY", "note")["error"] == 412)
            // Sent once more, it empties nothing that has come since.
            try await two.make("M", "new", ["v": .adds("x")])
            try await one.say(Conversation.change("EMPTY", "note", ident, [:]))
            var answer = JSONValue.null
            while answer["error"] == nil { answer = try await one.hear("c").array?.last ?? .null }
            #expect(answer["error"] == 412 && answer["ccids"] == [.string(ident)])
        }
    }

    /// A bucket that is emptied has nothing of what its client has sent before, although that is decided on later.
    @Test func whatWasSentBeforeABucketIsEmptiedGoes() async throws {
        try await WireRig.run { rig in
            let login = try await rig.logIn(), one = try await Conversation(rig, login, library: "other")
            try await one.list()
            try await rig.whileBusy(with: login.user) {
                for number in 0..<90 { try await one.send("M", "k\(number)", ["v": .adds("x")]) }
                try await one.send("EMPTY", "note")
                try await one.send("M", "last", ["v": .adds("x")])
            }
            var last: JSONValue?
            while last?["id"] != "last" { last = try await one.hear("c").array?.last }
            #expect(try await one.list()["index"]?.array?.map { $0["id"] } == ["last"])
        }
    }

    /// What changes nothing does so when it comes again, also if it came before there was a bucket.
    @Test(arguments: [("-", "k"), ("EMPTY", "note")])
    func theFirstRequestOfABucketIsRemembered(_ operation: String, _ key: String) async throws {
        try await WireRig.run { rig in
            let one = try await Conversation(rig, try await rig.logIn(), library: "other")
            try await one.list()
            let ident = try await one.send(operation, key)
            #expect(try await one.change()["error"] == 412)
            try await one.make("M", "k", ["v": .adds("x")])
            try await one.say(Conversation.change(operation, key, ident, [:]))
            #expect(try await one.change()["error"] == 412)
            #expect(try await one.list()["index"]?.array?.count == 1)
        }
    }

    @Test func aChannelDoesWhatTheRulesAllow() async throws {
        let rights = CallbackAuthorizer { _, partition in
            String(decoding: partition, as: UTF8.self).hasPrefix("\"simperium/") ? .read : .none
        }
        try await WireRig.run(authorizer: rights) { rig in
            let one = try await Conversation(rig, try await rig.logIn())
            try await one.list()
            #expect(try await one.make("M", "k", ["v": .adds("x")])["error"] == 401)
            // A change that is wrong in any case is told so.
            #expect(try await one.make("M", "k")["error"] == 400)
        }
    }
}
