import AnabranchCore
import AnabranchServer
import Testing

@testable import AnabranchSimperiumWire

/// Two servers that write one store (`Spec/Nodes.md`, section 6).
@Suite(.timeLimit(.minutes(30))) struct NodesTests {
    /// Opens a channel of one user at each, which listen.
    private static func run(_ body: (Conversation, Conversation) async throws -> Void) async throws {
        let disk = try WireRig.Disk(isShared: true)
        try await WireRig.run(on: disk) { one in
            let first = try await Conversation(one, try await one.logIn(), client: "node-1")
            try await first.list()
            try await WireRig.run(on: disk) { other in
                let login = try await other.logIn(isNew: false)
                let second = try await Conversation(other, login, client: "node-2")
                try await second.list()
                try await body(first, second)
            }
        }
    }

    @Test func aChannelHearsOfAChangeThatAnotherServerHasStored() async throws {
        try await Self.run { one, other in
            let made = try await one.make("M", "k", ["v": .adds("AC")])
            #expect(try await other.change()["cv"] == made["cv"])
            let edited = try await other.make("M", "k", ["v": .edits("=1\t+B\t=1"), "sv": 1])
            let heard = try await one.change()
            #expect(heard["cv"] == edited["cv"] && heard["clientid"] == "node-2" && heard["ev"] == 2)
        }
    }

    @Test func changesOfOneEntityAtBothServersAreMerged() async throws {
        try await Self.run { one, other in
            try await one.make("M", "k", ["v": .adds("AC")])
            _ = try await other.change()
            let idents = [
                try await one.send("M", "k", ["v": .edits("=1\t+B\t=1"), "sv": 1]),
                try await other.send("M", "k", ["v": .edits("=2\t+D"), "sv": 1]),
            ]
            for channel in [one, other] {
                var heard: [JSONValue] = []
                while heard.count < 2 { heard += try await channel.hear("c").array ?? [] }
                #expect(Set(heard.compactMap { $0["ccids"]?.array?.first?.string }) == Set(idents))
                #expect(heard.map { $0["ev"] } == [2, 3])
            }
            #expect(try await one.list()["index"]?.array?.first?["d"] == ["t": "ABCD"])
        }
    }
}
