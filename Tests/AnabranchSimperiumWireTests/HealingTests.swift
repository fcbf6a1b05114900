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

    /// It has no copy of what is created while it waits for the answer.
    @Test func ofAnEchoThatIsAnsweredLateTheCopyIsPutRight() async throws {
        try await Self.withNode(healDelay: .zero) { rig, login, node, other in
            let deleted = try await other.make("-", "k")
            #expect(try await node.change() == deleted)
            await node.socket.cut()
            let again = try await Conversation(rig, login)
            try await again.send("-", "k")
            #expect(try await again.isSilent())
            let created = try await other.make("M", "k", ["v": .adds("again")])
            try await again.say("0:cv:\(deleted["cv"]?.string ?? "")")
            #expect(try await again.change() == created)
            #expect(try await again.change()["error"] == 412)
            #expect(try await again.change()["v"] == [:])
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

    @Test func theNextEditMayHaveCrossedWithWhatPutsTheCopyRight() async throws {
        try await Self.withNode(healDelay: .zero) { rig, _, node, other in
            try await other.make("M", "k", ["v": .edits("=1\t+B\t=1"), "sv": 1])
            _ = try await node.change()
            try await node.make("M", "k", ["v": .edits("=2\t+D"), "sv": 1])
            #expect(try await node.change()["sv"] == 3)
            // Node has taken back its own edit if it was under way.
            try await node.make("M", "k", ["v": .edits("=4\t+E"), "sv": 3])
            let healing = try await node.change()
            #expect(healing["v"] == [:] && healing["sv"] == 4)
            rig.clock.advance(by: 11)
            try await node.make("M", "k", ["v": .edits("=5\t+F"), "sv": 4])
            #expect(try await node.isSilent())
        }
    }

    @Test func aCopyThatWasLeftBehindIsPutRightOnTheNextConnection() async throws {
        try await Self.withNode(healDelay: .zero) { rig, login, node, other in
            await node.socket.cut()
            try await other.make("M", "k", ["v": .edits("=1\t+B\t=1"), "sv": 1])
            // It is cut off before it listens.
            let offline = try await Conversation(rig, login)
            try await offline.send("M", "k", ["v": .edits("=2\t+D"), "sv": 1])
            _ = try await other.change()
            let file = try rig.wire.file(of: login.user, app: WireRig.app)
            while file.withClients({ $0.leftBehind("node-1", "note").isEmpty }) { await Task.yield() }
            await offline.socket.cut()
            let again = try await Conversation(rig, login)
            try await again.list()
            let healing = try await again.change()
            #expect(healing["v"] == [:] && healing["sv"] == 3)
            #expect(try await again.isSilent())
        }
    }

    /// The server that has told the client before has ended, or is another one over the same store.
    @Test func ofAClientThatTheServerDoesNotKnowItExpectsEverything() async throws {
        let disk = try WireRig.Disk(isShared: true)
        try await WireRig.run(on: disk) { one in
            let node = try await Conversation(one, try await one.logIn())
            try await node.list()
            let made = try await node.make("M", "k", ["v": .adds("AC")])
            let edit: [String: JSONValue] = ["v": .edits("=2\t+D"), "sv": 1]
            let edited = try await node.make("M", "k", edit)
            await node.socket.cut()
            try await WireRig.run(on: disk) {
                $0.healDelay = .zero
            } _: { other in
                let login = try await other.logIn(isNew: false)
                // It has both, and names the first.
                let again = try await Conversation(other, login)
                try await again.say("0:cv:\(made["cv"]?.string ?? "")")
                #expect(try await again.change() == edited)
                #expect(try await again.change()["v"] == [:])
                try await again.say("0:e:k.1")
                #expect(try await again.hear() == "0:e:k.1\n?")
                // If it has not even the first, it asks for the second now.
                #expect(try await again.change()["sv"] == 2)
                // It has not read the answer.
                try await again.say(Conversation.change("M", "k", edited["ccids"]?.array?.first?.string ?? "", edit))
                #expect(try await again.change()["error"] == 409)
                #expect(try await again.change()["v"] == [:])
                // What is told after that is new to it.
                let writer = try await Conversation(other, login, client: "writer", library: "other")
                try await writer.list()
                await again.socket.cut()
                let file = try other.wire.file(of: login.user, app: WireRig.app)
                while file.channelCount > 1 { await Task.yield() }
                try await writer.make("M", "k", ["v": .edits("=3\t+E"), "sv": 2])
                let later = try await Conversation(other, login)
                try await later.say("0:cv:\(edited["cv"]?.string ?? "")")
                #expect(try await later.change()["sv"] == 2)
                try await later.say("0:e:k.2")
                #expect(try await later.hear() == "0:e:k.2\n{\"data\":{\"t\":\"ACD\"}}")
            }
        }
    }

    /// A client may ask for anything, as often as it likes.
    @Test func ofWhatIsNoEntityNoCopyIsLookedAfter() async throws {
        try await Self.withNode { rig, login, node, _ in
            for key in ["none", "", String(repeating: "k", count: 4_000), "k"] {
                try await node.say("0:e:\(key).undefined")
                #expect(try await node.hear() == "0:e:\(key).undefined\n?")
            }
            let file = try rig.wire.file(of: login.user, app: WireRig.app)
            #expect(file.withClients { $0.leftBehind("node-1", "note") } == [ExactString("k")])
        }
    }

    @Test func whatIsRememberedOfAllClientsIsBounded() {
        var memory = ClientMemory()
        for client in 0..<210 {
            for key in 0..<1_000 { memory.leaveBehind(ExactString("\(key)"), "\(client)", "note", at: 0) }
        }
        #expect(memory.noteCount == ClientMemory.allNotesMax)
        #expect(memory.leftBehind("209", "note").isEmpty)
        memory.putRight(ExactString("0"), "0", "note")
        memory.leaveBehind(ExactString("k"), "209", "note", at: 0)
        #expect(memory.leftBehind("209", "note") == [ExactString("k")])
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
        try await Self.withNode(healDelay: .zero) { rig, _, node, _ in
            try await node.say("0:cv:x")
            #expect(try await node.hear() == "0:cv:?")
            try await node.list()
            try await node.make("M", "k", ["v": .edits("=2\t+D"), "sv": 1])
            #expect(try await node.change()["v"] == [:])
            rig.clock.advance(by: 11)
            try await node.make("M", "k", ["v": .edits("=3\t+E"), "sv": 2])
            #expect(try await node.isSilent())
        }
    }

    /// - Parameter hidden: how many versions earlier connections have hidden.
    @Test(arguments: [0, 1_000] as [UInt64]) func aRepeatedChangeDoesNotTakeNodeBack(hidden: UInt64) async throws {
        try await Self.withNode { rig, login, node, other in
            let file = try rig.wire.file(of: login.user, app: WireRig.app)
            file.withClients { clients in
                for version in 0..<hidden { clients.hide("m", version, from: "node-1", "note", at: rig.clock.now) }
            }
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

    /// It passes over 409, and sends a change until it has got it, which it does not if a listing has it already.
    @Test func browsersStopSendingWhatTheyHaveListed() async throws {
        try await Self.withNode { rig, login, _, other in
            func connectAndList() async throws -> Conversation {
                let browser = try await Conversation(
                    rig, login, client: "b", more: ["library": .null, "build": 1])
                let current = try #require(try await browser.list("1:::40")["current"]?.string)
                try await browser.say("0:cv:\(current)")
                #expect(try await browser.hear() == "0:c:[]")
                return browser
            }
            let first = try await connectAndList()
            let edit: [String: JSONValue] = ["v": .edits("=2\t+D"), "sv": 1]
            let ident = try await first.send("M", "k", edit)
            #expect(try await first.change()["ccids"] == [.string(ident)])
            try await first.say(Conversation.change("M", "k", ident, edit))
            #expect(try await first.change()["error"] == 409)
            // It was cut off before it read that, and lists anew.
            let again = try await connectAndList()
            try await again.say(Conversation.change("M", "k", ident, edit))
            #expect(try await again.change()["error"] == 412)
            _ = try await other.change()
            try await other.make("-", "k")
            #expect(try await again.change()["o"] == "-")
            try await again.say(Conversation.change("M", "k", ident, edit))
            #expect(try await again.change()["error"] == 404)
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
