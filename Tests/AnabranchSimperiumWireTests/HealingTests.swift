import AnabranchCore
import AnabranchServer
import Testing

@testable import AnabranchSimperiumWire

/// Mistakes of clients, put right (`Spec/Simperium.md`, section 10).
@Suite(.timeLimit(.minutes(30))) struct HealingTests {
    private static func withNode(
        healDelay: Duration = .seconds(3_600), heals: Bool = true,
        _ body: (WireRig, AppServices.PlainLogin, _ node: Conversation, _ other: Conversation) async throws -> Void
    ) async throws {
        try await WireRig.run {
            $0.healDelay = healDelay
            $0.apps[WireRig.app]?.otherBuckets?.healsNode = heals
        } _: { rig in
            let login = try await rig.logIn()
            let node = try await Conversation(rig, login)
            let other = try await Conversation(rig, login, client: "other", library: "other")
            try await node.list()
            try await other.list()
            try await other.make("M", "k", ["v": .adds("AC")])
            _ = try await node.change()
            try await body(rig, login, node, other)
        }
    }

    @Test func theEchoOfADeletionDeletesNothing() async throws {
        try await Self.withNode { rig, login, node, other in
            try await other.make("-", "k")
            #expect(try await node.change()["o"] == "-")
            let created = try await other.make("M", "k", ["v": .adds("again")])
            #expect(try await node.change() == created)
            // Its echo comes late, on another connection.
            await node.socket.cut()
            let again = try await Conversation(rig, login)
            try await again.say("0:cv:\(created["cv"]?.string ?? "")")
            #expect(try await again.hear() == "0:c:[]")
            let echo = try await again.send("-", "k")
            let answer = try await again.change()
            #expect(answer["error"] == 412 && answer["ccids"] == [.string(echo)])
            // Sent once more, it is answered the same; a new one is meant.
            try await again.say(Conversation.change("-", "k", echo, [:]))
            #expect(try await again.change()["error"] == 412)
            #expect(try await again.make("-", "k")["o"] == "-")
            #expect(try await other.change()["ev"] == 4)
        }
    }

    /// The echo counts although its connection has ended before it was decided on: what follows is meant.
    @Test func theEchoOfAConnectionThatHasGoneCounts() async throws {
        try await Self.withNode { rig, login, node, other in
            try await other.make("-", "k")
            _ = try await node.change()
            let created = try await other.make("M", "k", ["v": .adds("again")])
            _ = try await node.change()
            var echo = ""
            try await rig.whileBusy(with: login.user) {
                echo = try await node.send("-", "k")
                #expect(try await node.isSilent())
                await node.socket.cut()
                while rig.wire.connectionCount > 1 { await Task.yield() }
            }
            let again = try await Conversation(rig, login)
            try await again.say("0:cv:\(created["cv"]?.string ?? "")")
            #expect(try await again.hear() == "0:c:[]")
            try await again.say(Conversation.change("-", "k", echo, [:]))
            #expect(try await again.change()["error"] == 412)
            try await again.say(Conversation.change("-", "k", "meant", [:]))
            #expect(try await again.change()["o"] == "-")
        }
    }

    /// The server takes it for a deletion by the application, which has its object still.
    @Test(arguments: [11, 601] as [UInt64]) func ofALateEchoTheCopyIsPutRight(seconds: UInt64) async throws {
        try await Self.withNode(healDelay: .zero) { rig, login, node, other in
            let file = try rig.wire.file(of: login.user, app: WireRig.app)
            func owes() -> Bool { file.withClients { $0.owesDeletion("k", "node-1", "note", at: rig.clock.now) } }
            try await other.make("-", "k")
            #expect(try await node.change()["o"] == "-")
            // The server records what it has sent before it reads what comes next.
            #expect(try await node.isSilent())
            #expect(owes())
            rig.clock.advance(by: seconds)
            // The application writes before node has read of the deletion.
            let created = try await node.make("M", "k", ["v": .adds("again")])
            #expect(try await other.change() == created)
            while owes() { await Task.yield() }
            let deleted = try await node.make("-", "k")
            #expect(try await other.change() == deleted)
            let healing = try await node.change()
            #expect(healing["o"] == "-" && healing["ev"] == 4 && healing["clientid"] == "anabranch")
            // The echo of that deletes nothing, and a deletion that is meant is no echo.
            try await other.make("M", "k", ["v": .adds("new")])
            _ = try await node.change()
            #expect(try await node.make("-", "k")["error"] == 412)
            #expect(try await node.change()["v"] == [:])
            try await node.make("-", "k")
            #expect(try await node.isSilent())
        }
    }

    @Test func aDeletionAndACreationThatNodeHasMissedAreOne() async throws {
        try await Self.withNode { rig, login, node, other in
            let cv = try #require(try await node.list()["current"]?.string)
            await node.socket.cut()
            try await other.make("-", "k")
            try await other.make("M", "k", ["v": ["t": ["o": "+", "v": "AB"], "n": ["o": "+", "v": 1]]])
            try await other.make("-", "k")
            let last = try await other.make("M", "k", ["v": .adds("ABC")])
            try await other.make("M", "m", ["v": .adds("m")])
            try await other.make("-", "m")
            let again = try await Conversation(rig, login)
            try await again.say("0:cv:\(cv)")
            let told = try await again.hear("c").array ?? []
            #expect(told.map { $0["o"] } == ["M", "M", "M", "-"])
            #expect(told.map { $0["sv"] } == [1, 3, nil, 1] && told.map { $0["ev"] } == [3, 5, 1, 2])
            #expect(told[0]["v"] == ["t": ["o": "d", "v": "=1\t-1\t+B"], "n": ["o": "+", "v": 1]])
            #expect(told[1]["v"] == ["t": ["o": "d", "v": "=2\t+C"], "n": ["o": "-"]])
            #expect(told[1]["cv"] == last["cv"] && told[1]["ccids"] == last["ccids"])
            // Everybody else is told literally.
            try await other.say("0:cv:\(cv)")
            #expect(try await other.hear("c").array?.map { $0["o"] } == ["-", "M", "-", "M", "M", "-"])
        }
    }

    @Test func aCopyThatWasLeftBehindIsPutRight() async throws {
        try await Self.withNode(healDelay: .zero) { _, _, node, other in
            // Both edit version 1; the working copy of node may be anything now.
            try await other.make("M", "k", ["v": .edits("=1\t+B\t=1"), "sv": 1])
            _ = try await node.change()
            let merged = try await node.make("M", "k", ["v": .edits("=2\t+D"), "sv": 1])
            let healing = try await node.change()
            #expect(healing["v"] == [:] && healing["sv"] == 3 && healing["ev"] == 3 && healing["ccids"] == [])
            #expect(healing["clientid"] == "anabranch" && healing["id"] == "k" && healing["o"] == "M")
            #expect(try await other.change() == merged)
            // An edit of what is deleted: the deletion is told again.
            try await other.make("-", "k")
            _ = try await node.change()
            #expect(try await node.make("M", "k", ["v": .edits("=4\t+E"), "sv": 3])["error"] == 412)
            let deletion = try await node.change()
            #expect(deletion["o"] == "-" && deletion["ev"] == 4 && deletion["v"] == nil)
            #expect(try await other.isSilent())
        }
    }

    @Test func aBucketThatIsNotHealedTellsNothingMore() async throws {
        try await Self.withNode(healDelay: .zero, heals: false) { _, _, node, other in
            try await other.make("M", "k", ["v": .edits("=1\t+B\t=1"), "sv": 1])
            _ = try await node.change()
            try await node.make("M", "k", ["v": .edits("=2\t+D"), "sv": 1])
            #expect(try await node.isSilent())
        }
    }

    @Test func afterAnUnknownVersionFirstChangesAreLookedAfter() async throws {
        try await Self.withNode(healDelay: .zero) { _, _, node, _ in
            try await node.say("0:cv:x")
            #expect(try await node.hear() == "0:cv:?")
            try await node.list()
            try await node.make("M", "k", ["v": .edits("=2\t+D"), "sv": 1])
            #expect(try await node.change()["v"] == [:])
            try await node.make("M", "k", ["v": .edits("=3\t+E"), "sv": 2])
            #expect(try await node.isSilent())
        }
    }

    @Test func aRepeatedChangeDoesNotTakeNodeBack() async throws {
        try await Self.withNode { rig, login, node, other in
            let cv = try #require(try await node.list()["current"]?.string)
            try await other.make("M", "k", ["v": .edits("=2\t+D"), "sv": 1])
            _ = try await node.change()
            await node.socket.cut()
            // Its version is older than what it has.
            let again = try await Conversation(rig, login)
            try await again.say("0:cv:\(cv)")
            #expect(try await again.change()["sv"] == 1)
            try await again.say("0:e:k.1")
            #expect(try await again.hear() == "0:e:k.1\n?")
            // For others it is there.
            try await other.say("0:e:k.1")
            #expect(try await other.hear() == "0:e:k.1\n{\"data\":{\"t\":\"AC\"}}")
        }
    }

    @Test func ownChangesWaitTheirTurn() async throws {
        try await Self.withNode { rig, login, node, other in
            let cv = try #require(try await node.list()["current"]?.string)
            await node.socket.cut()
            try await other.make("M", "m", ["v": .adds("m")])
            let again = try await Conversation(rig, login)
            // An edit made offline, a repeated one, and one that is refused, before it says what it knows.
            let ident = try await again.send("M", "k", ["v": .edits("=2\t+D"), "sv": 1])
            _ = try await other.change()
            try await again.say(Conversation.change("M", "k", ident, ["v": .edits("=2\t+D"), "sv": 1]))
            #expect(try await again.isSilent())
            try await again.say("0:cv:\(cv)")
            #expect(try await again.hear("c").array?.map { $0["id"] } == ["m", "k"])
            #expect(try await again.change()["error"] == 409)
        }
    }

    @Test func iosIsToldItsOwnChangesAtOnce() async throws {
        try await Self.withNode { rig, login, _, other in
            try await other.make("M", "m", ["v": .adds("m")])
            let ios = try await Conversation(rig, login, client: "ios-1", library: "ios", more: ["api": .real(1.1)])
            let ident = try await ios.send("M", "k", ["d": ["t": "ACE"], "sv": "1"])
            let own = try await ios.change()
            #expect(own["ccids"] == [.string(ident)])
            try await ios.say(Conversation.change("M", "k", ident, ["d": ["t": "ACE"]]))
            #expect(try await ios.change()["error"] == 409)
            _ = try await other.change()
            let current = try #require(try await ios.list(":::500")["current"]?.string)
            // It fetches entities first.
            try await other.make("M", "late", ["v": .adds("x")])
            #expect(try await ios.isSilent())
            try await ios.say("0:cv:\(current)")
            #expect(try await ios.change()["id"] == "late")
        }
    }
}
