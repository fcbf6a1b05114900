import AnabranchCore
import AnabranchHistory
import Testing

@testable import AnabranchSimperiumWire

/// A backup that takes the place of the store, for clients that have seen what came after it.
@Suite(.timeLimit(.minutes(30))) struct RestorationTests {
    @Test func versionsOfTheLostTimeAreUnknown() async throws {
        let disk = try WireRig.Disk(), store = try #require(disk.store as? InMemoryStore)
        let (backup, cv) = try await WireRig.run(on: disk) { rig -> (InMemoryStore, String) in
            let one = try await Conversation(rig, try await rig.logIn(), library: "other")
            try await one.list()
            try await one.make("M", "k", ["v": .adds("a")])
            let backup = store.copy()
            let lost = try await one.make("M", "k", ["v": .edits("=1\t+b"), "sv": 1])
            return (backup, try #require(lost["cv"]?.string))
        }
        try await WireRig.run(on: try WireRig.Disk(restoring: backup, of: disk)) { rig in
            let login = try await rig.logIn(isNew: false)
            let one = try await Conversation(rig, login, library: "other")
            try await one.list()
            // The log is as long as it was, and another one.
            try await one.make("M", "k", ["v": .edits("=1\t+c"), "sv": 1])
            try await one.make("M", "k", ["v": .edits("=2\t+d"), "sv": 2])
            let other = try await Conversation(rig, login, client: "other-2", library: "other")
            try await other.say("0:cv:\(cv)")
            #expect(try await other.hear() == "0:cv:?")
        }
    }
}
