import AnabranchCore
import AnabranchOverTheAir
import AnabranchPropertyList
import AnabranchTestClient
import Testing

@testable import AnabranchOverTheAirWire

/// Two have changed one field: the later one wins, and where devices decide, is told what has lost
/// (`Spec/OverTheAirServer.md`, section 5).
@Suite(.timeLimit(.minutes(30))) struct ConflictTests {
    private static let uri = "example.cards"

    private static func dataclass(_ conflicts: String) throws -> Dataclass {
        let text = """
            {"dataclass": "\(uri)", "conflicts": "\(conflicts)", "entities": {"card": {"class": "Card",
              "fields": {"name": {"property": "name", "type": "string"}, "note": {"property": "note", "type": "string"},
                "size": {"property": "size", "type": "integer"}}}}}
            """
        return try Dataclass(parsing: Array(text.utf8))
    }

    private static func run(_ conflicts: String, _ body: (DeviceRig) async throws -> Void) async throws {
        let dataclass = try dataclass(conflicts)
        try await DeviceRig.run {
            $0.apps[DeviceRig.app] = OverTheAirApp(url: "/ota", dataclasses: [dataclass])
        } _: { rig in
            try await body(rig)
        }
    }

    @Test(arguments: [Changes.ItemType.records, .changes], ["device", "server"])
    func whatHasLostIsTold(type: Changes.ItemType, conflicts: String) async throws {
        try await Self.run(conflicts) { rig in
            let card: PropertyListDictionary = ["name": "a", "note": "n", "size": 1]
            var one = Talker(rig, "one"), two = Talker(rig, "two")
            let first = try await one.slow(Self.uri, "1", ["L": ["entity": "card", "fields": .dictionary(card)]])
            let other = try await two.slow(Self.uri, "1")
            let id = try #require(other.pushed(Self.uri).keys.first)
            // One changes name and note, the other name, note and size; the note in the same way.
            _ = try await one.fast(
                Self.uri, "2", last: "1", anchor: first.anchor(Self.uri), .changes,
                ["L": ["op": "modify", "set": ["name": "b", "note": "m"]]])
            let item: PropertyList =
                type == .records
                ? ["entity": "card", "fields": ["name": "c", "note": "m", "size": 2]]
                : ["op": "modify", "set": ["name": "c", "note": "m", "size": 2]]
            func sync() async throws -> Message {
                try await two.fast(Self.uri, "2", last: "1", anchor: other.anchor(Self.uri), type, [id: item])
            }
            let answer = try await sync()
            let told = answer.pushed(Self.uri)[id]?["conflict"]
            #expect(told == (conflicts == "device" ? ["name": ["server": "b", "device": "c"]] : nil))
            // The answer may be lost: it is told again until the device has it.
            #expect(try await sync().pushed(Self.uri)[id]?["conflict"] == told)
            let next = try await two.fast(Self.uri, "3", last: "2", anchor: answer.anchor(Self.uri), type)
            #expect(next.codes(1) == [.ok])
            let last = try await two.fast(Self.uri, "4", last: "3", anchor: next.anchor(Self.uri), type)
            #expect(last.pushed(Self.uri)[id] == nil)
            var three = Talker(rig, "three")
            let fields = try await three.slow(Self.uri, "1").pushed(Self.uri)[id]?["fields"]
            #expect(fields == ["name": "c", "note": "m", "size": 2])
        }
    }

    @Test func aClearedFieldMayLoseOrWin() async throws {
        try await Self.run("device") { rig in
            let card: PropertyListDictionary = ["name": "a", "note": "n"]
            var one = Talker(rig, "one"), two = Talker(rig, "two")
            let first = try await one.slow(Self.uri, "1", ["L": ["entity": "card", "fields": .dictionary(card)]])
            let other = try await two.slow(Self.uri, "1")
            let id = try #require(other.pushed(Self.uri).keys.first)
            _ = try await one.fast(
                Self.uri, "2", last: "1", anchor: first.anchor(Self.uri), .changes,
                ["L": ["op": "modify", "set": ["note": "m"], "clear": ["name"]]])
            let answer = try await two.fast(
                Self.uri, "2", last: "1", anchor: other.anchor(Self.uri), .changes,
                [id: ["op": "modify", "set": ["name": "c"], "clear": ["note"]]])
            let told = answer.pushed(Self.uri)[id]?["conflict"]
            #expect(told == ["name": ["device": "c"], "note": ["server": "m"]])
        }
    }

    /// An edit that a Realm client has made before loses, also if that was in the same second.
    @Test func theLaterOfTwoEditsInASecondWins() async throws {
        try await Self.run("server") { rig in
            var one = Talker(rig, "one")
            let first = try await one.slow(Self.uri, "1", ["L": ["entity": "card", "fields": ["name": "a"]]])
            let realm = try await rig.realmClient()
            try await realm.download()
            let second = Double(rig.clock.now)
            try await realm.write(at: ChangesetTime(secondsSince1970: second + 0.5)) { tx in
                try #require(try tx.objects("Card").first).set("name", to: "b")
            }
            rig.clock.setFraction(0.9)
            let later = try await one.fast(
                Self.uri, "2", last: "1", anchor: first.anchor(Self.uri), .changes,
                ["L": ["op": "modify", "set": ["name": "c"]]])
            try await realm.upload()
            let last = try await one.fast(Self.uri, "3", last: "2", anchor: later.anchor(Self.uri))
            #expect(last.codes(1) == [.ok] && last.pushed(Self.uri).isEmpty)
            try await realm.download()
            try await realm.read { tx in
                let name = try tx.objects("Card").first?.value("name")
                #expect(name == "c")
            }
        }
    }
}
