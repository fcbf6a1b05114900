import AnabranchCore
import AnabranchHistory
import AnabranchOverTheAir
import AnabranchPropertyList
import AnabranchServer
import AnabranchTestClient
import Synchronization
import Testing

@testable import AnabranchOverTheAirWire

/// Dataclasses that devices commit: what they send waits for it (`Spec/OverTheAirServer.md`, section 5).
@Suite(.timeLimit(.minutes(30))) struct CommitTests {
    private static let uri = "example.cards", others = "example.lists"

    private static func run(
        _ authorizer: any Authorizer = AllowAllAuthorizer(), conflicts: String = "server",
        _ body: (DeviceRig) async throws -> Void
    ) async throws {
        let dataclasses = try [(uri, "Card"), (others, "List")].map { uri, name in
            try Dataclass(
                parsing: Array(
                    """
                    {"dataclass": "\(uri)", "commit": "device", "conflicts": "\(conflicts)",
                     "entities": {"card": {"class": "\(name)",
                      "fields": {"name": {"property": "name", "type": "string"},
                        "note": {"property": "note", "type": "string"}},
                      "relationships": {"next": {"property": "next", "entity": "card", "many": true}}}}}
                    """.utf8))
        }
        try await DeviceRig.run(authorizer: authorizer) {
            $0.apps[DeviceRig.app] = OverTheAirApp(url: "/ota", dataclasses: dataclasses)
        } _: { rig in
            try await body(rig)
        }
    }

    /// A device that has done its first sync, which is slow, and so was committed by the server.
    private struct Phone {
        var talker: Talker
        var name = 0
        var anchor: String?
        /// The ids and fields of the records that have come, by their names.
        private(set) var ids: [String: String] = [:]
        private(set) var cards: [String: PropertyList] = [:]

        init(_ rig: DeviceRig, _ name: String, _ records: PropertyListDictionary = [:]) async throws {
            talker = Talker(rig, name)
            let answer = try await talker.slow(CommitTests.uri, "0", records)
            #expect(answer.header.isFinal && answer.commands("sync-commit").count == 1)
            anchor = answer.anchor(CommitTests.uri)
            for (id, item) in answer.pushed(CommitTests.uri) {
                let name = item["fields"]?["name"]?.string ?? ""
                (ids[name], cards[name]) = (id, item["fields"])
            }
        }

        /// Sends changes under the next name.
        mutating func send(
            _ items: PropertyListDictionary = [:], _ type: Changes.ItemType = .changes
        ) async throws -> Message {
            try await talker.fast(CommitTests.uri, "\(name + 1)", last: "\(name)", anchor: anchor, type, items)
        }

        /// Stores what came with an answer: the changes count as accepted.
        mutating func store(_ answer: Message) {
            name += 1
            anchor = answer.anchor(CommitTests.uri) ?? anchor
        }

        mutating func commit() async throws -> Message {
            try await talker.send(.commit(uri: CommitTests.uri, Anchors()))
        }

        /// A whole session.
        /// - Returns: the items that came.
        mutating func sync(
            _ items: PropertyListDictionary = [:], _ type: Changes.ItemType = .changes
        ) async throws -> PropertyListDictionary {
            let answer = try await send(items, type), committed = try await commit()
            #expect(answer.codes(1) == [.ok] && answer.codes(2) == [.ok] && committed.codes(3) == [.ok])
            store(answer)
            return answer.pushed(CommitTests.uri)
        }
    }

    private static func card(_ fields: PropertyListDictionary) -> PropertyList {
        ["entity": "card", "fields": .dictionary(fields)]
    }

    private static func modify(_ set: PropertyListDictionary) -> PropertyList {
        ["op": "modify", "set": .dictionary(set)]
    }

    private static func head(_ rig: DeviceRig) async throws -> UInt64 {
        try await rig.wire.server().readHead(of: rig.path) { _, records in try records.headVersion().rawValue } ?? 0
    }

    /// The number of changes that wait.
    private static func waitingCount(_ rig: DeviceRig) async throws -> Int {
        let count = try await rig.wire.server().readHead(of: rig.path) { _, records in
            var count = 0
            try records.forEachRow(.pulled, []) { _ in count += 1 }
            return count
        }
        return count ?? 0
    }

    /// The fields of the cards of the server, by their names.
    private static func cards(_ rig: DeviceRig) async throws -> [String: PropertyList] {
        try await Phone(rig, "new \(UInt32.random(in: 0 ... .max))").cards
    }

    @Test(arguments: [Changes.ItemType.records, .changes])
    func changesAreMergedAtTheCommit(type: Changes.ItemType) async throws {
        try await Self.run { rig in
            var one = try await Phone(
                rig, "one", ["L1": Self.card(["name": "a", "note": "n"]), "L2": Self.card(["name": "b"])])
            var two = try await Phone(rig, "two")
            let (first, second) = (try #require(two.ids["a"]), try #require(two.ids["b"]))
            let before = try await Self.head(rig)
            let items: PropertyListDictionary =
                type == .records
                ? [
                    "L1": Self.card(["name": "a", "note": "m"]), "L2": ["entity": "card", "deleted": true],
                    "L3": Self.card(["name": "c", "next": ["L1"]]),
                ]
                : [
                    "L1": Self.modify(["note": "m"]), "L2": ["op": "delete"],
                    "L3": ["op": "add", "entity": "card", "set": ["name": "c", "next": ["L1"]]],
                ]
            let sent = try await one.send(items, type)
            #expect(sent.codes(2) == [.ok] && !sent.header.isFinal)
            #expect(sent.commands("sync-commit").isEmpty && sent.pushed(Self.uri).isEmpty)
            #expect(try await Self.head(rig) == before)
            #expect(try await Self.cards(rig).keys.sorted() == ["a", "b"])
            let committed = try await one.commit()
            #expect(committed.codes(3) == [.ok] && committed.header.isFinal)
            let anchors = committed.response(3)?.params["anchors"]
            #expect(anchors?["mode"] == "fast" && anchors?["next_server_anchor"]?.string == sent.anchor(Self.uri))
            #expect(try await Self.head(rig) == before + 1)
            #expect(try await Self.waitingCount(rig) == 0)
            one.store(sent)
            // The other device gets what it has not just changed itself, and deletions in any case.
            let changed: PropertyListDictionary =
                type == .records
                ? [first: Self.card(["name": "d", "note": "n"]), second: Self.card(["name": "in vain"])]
                : [first: Self.modify(["name": "d"]), second: Self.modify(["name": "in vain"])]
            let pushed = try await two.sync(changed, type)
            #expect(pushed.count == 3)
            if type == .records {
                #expect(pushed[first] == Self.card(["name": "d", "note": "m"]))
                #expect(pushed[second] == ["entity": "card", "deleted": true])
            } else {
                #expect(pushed[first] == ["op": "modify", "entity": "card", "set": ["note": "m"]])
                #expect(pushed[second] == ["op": "delete", "entity": "card"])
            }
            // The deletion is told again, and then nothing.
            #expect(try await two.sync([:], type).keys.allSatisfy { $0 == second })
            #expect(try await two.sync([:], type).isEmpty)
            #expect(try await one.sync()["L1"]?["set"] == ["name": "d"])
            let cards = try await Self.cards(rig)
            #expect(cards["d"] == ["name": "d", "note": "m"] && cards["c"]?["next"] == [.string(first)])
            #expect(cards.count == 2)
        }
    }

    /// A device that was cut off before its commit goes on from the checkpoint, also with what is not there yet.
    @Test(arguments: [Changes.ItemType.records, .changes])
    func theNextSessionCommitsWhatWaits(type: Changes.ItemType) async throws {
        try await Self.run { rig in
            var one = try await Phone(rig, "one", ["L1": Self.card(["name": "a", "note": "n"])])
            var two = try await Phone(rig, "two")
            let first = try #require(two.ids["a"]), before = try await Self.head(rig)
            one.store(
                try await one.send([
                    "L1": Self.modify(["note": "m"]), "L2": ["op": "add", "entity": "card", "set": ["name": "b"]],
                ]))
            // Others change the same fields, and other ones.
            _ = try await two.sync([first: Self.modify(["name": "c", "note": "lost"])])
            #expect(try await Self.head(rig) == before + 1)
            let items: PropertyListDictionary =
                type == .records
                ? [
                    "L1": Self.card(["name": "a", "note": "m", "next": ["L2"]]),
                    "L2": Self.card(["name": "b", "note": "x"]),
                ] : ["L1": Self.modify(["next": ["L2"]]), "L2": Self.modify(["note": "x"])]
            let sent = try await one.send(items, type)
            #expect(sent.codes(1) == [.ok] && sent.codes(2) == [.ok])
            if type == .records {
                let told: PropertyListDictionary = ["name": "c", "note": "m", "next": ["L2"]]
                #expect(sent.pushed(Self.uri) == ["L1": Self.card(told)])
            } else {
                #expect(sent.pushed(Self.uri) == ["L1": ["op": "modify", "entity": "card", "set": ["name": "c"]]])
            }
            #expect(try await one.commit().codes(3) == [.ok])
            #expect(try await Self.head(rig) == before + 2)
            #expect(try await Self.waitingCount(rig) == 0)
            one.store(sent)
            #expect(try await one.sync([:], type).isEmpty)
            let cards = try await Self.cards(rig)
            #expect(cards["c"]?["note"] == "m" && cards["c"]?["next"]?.array?.count == 1)
            #expect(cards["b"] == ["name": "b", "note": "x"] && cards.count == 2)
        }
    }

    @Test func theSameNameAgain() async throws {
        try await Self.run { rig in
            var one = try await Phone(rig, "one", ["L1": Self.card(["name": "a"])])
            let before = try await Self.head(rig), items = ["L1": Self.modify(["note": "m"])] as PropertyListDictionary
            for _ in 0..<2 {
                #expect(try await one.send(items).codes(2) == [.ok])
                #expect(try await Self.waitingCount(rig) == 1)
            }
            let committed = try await one.commit(), message = one.talker.last
            #expect(try await Self.head(rig) == before + 1)
            // The commit comes again, and then the device without having heard the answer.
            #expect(try await one.talker.post(message) == committed)
            _ = try await one.sync(items)
            #expect(try await Self.head(rig) == before + 1)
            #expect(try await one.sync().isEmpty)
        }
    }

    @Test func theWrongOrder() async throws {
        try await Self.run { rig in
            var one = try await Phone(rig, "one", ["L1": Self.card(["name": "a"])])
            let before = try await Self.head(rig)
            // A commit before the last changes, and changes after them.
            let commit = Command.commit(uri: Self.uri, Anchors())
            one.talker.begin()
            let early = try await one.talker.send([
                one.talker.item(.start(uri: Self.uri, .with(.fast, next: "1", last: "0", anchor: one.anchor))),
                one.talker.item(
                    .changes(uri: Self.uri, Changes(.changes, ["L1": ["op": "delete"]])), hasMore: true),
                one.talker.item(commit),
            ])
            #expect(early.codes(3) == [.stateError])
            #expect(try await one.send(["L1": ["op": "delete"]]).codes(2) == [.ok])
            let late = try await one.talker.send(.changes(uri: Self.uri, Changes()), commit)
            #expect(late.codes(3) == [.stateError] && late.codes(4) == [.commandNotProcessed])
            #expect(try await Self.waitingCount(rig) == 0)
            // The names were forgotten with the changes.
            #expect(try await one.send(["L1": Self.modify(["note": "m"])]).codes(1) == [.ok])
            #expect(try await one.commit().codes(3) == [.ok])
            #expect(try await Self.head(rig) == before + 1)
            // What is merged stays.
            #expect(try await one.commit().codes(4) != [.ok])
            #expect(try await Self.cards(rig) == ["a": ["name": "a", "note": "m"]])
        }
    }

    @Test func theCookieOfAnother() async throws {
        try await Self.run { rig in
            var one = try await Phone(rig, "one", ["L1": Self.card(["name": "a"])])
            let before = try await Self.head(rig)
            _ = try await one.send(["L1": Self.modify(["note": "m"])])
            var thief = Talker(rig, "thief")
            (thief.cookie, thief.sequence, thief.commands) = (one.talker.cookie, 1, 2)
            let refused = try await thief.send(.commit(uri: Self.uri, Anchors()))
            #expect(refused.header.failure?.knownCode == .badRequest)
            #expect(try await Self.head(rig) == before)
            #expect(try await one.commit().codes(3) == [.ok])
            #expect(try await Self.head(rig) == before + 1)
        }
    }

    /// Otherwise a device that has stored a checkpoint would have what nobody else has.
    @Test(arguments: [true, false]) func whatIsForgottenLeadsToASlowSync(isCancelled: Bool) async throws {
        try await Self.run { rig in
            var one = try await Phone(rig, "one", ["L1": Self.card(["name": "a"])])
            let before = try await Self.head(rig)
            one.store(try await one.send(["L1": Self.modify(["note": "m"])]))
            if isCancelled {
                #expect(try await one.talker.send(.cancel(uri: Self.uri)).codes(3) == [.ok])
            } else {
                rig.clock.advance(by: 31 * 86_400)
            }
            let answer = try await one.send()
            #expect(answer.codes(1) == [.negotiationFailed])
            #expect(answer.response(1)?.params["anchors"]?["mode"] == "slow")
            #expect(try await Self.waitingCount(rig) == 0)
            let records: PropertyListDictionary = ["L1": Self.card(["name": "a", "note": "m"])]
            let slow = try await one.talker.slow(Self.uri, "again", records, last: "0")
            #expect(slow.codes(3) == [.ok] && slow.pushed(Self.uri)["L1"] == Self.card(["name": "a"]))
            #expect(try await Self.head(rig) == before)
        }
    }

    /// A slow sync is about the records of the device with all of its changes.
    @Test func aSlowSyncMergesWhatWaits() async throws {
        try await Self.run { rig in
            var one = try await Phone(rig, "one", ["L1": Self.card(["name": "a", "note": "n"])])
            one.store(
                try await one.send([
                    "L1": Self.modify(["note": "m"]), "L2": ["op": "add", "entity": "card", "set": ["name": "b"]],
                ]))
            let records: PropertyListDictionary = [
                "L1": Self.card(["name": "a", "note": "m"]), "L2": Self.card(["name": "b"]),
            ]
            let slow = try await one.talker.slow(Self.uri, "2", records, last: "1")
            #expect(slow.codes(3) == [.ok] && slow.pushed(Self.uri).isEmpty)
            #expect(try await Self.waitingCount(rig) == 0)
            let cards = try await Self.cards(rig)
            #expect(cards == ["a": ["name": "a", "note": "m"], "b": ["name": "b"]])
        }
    }

    @Test func allCommitsOfAMessageAreOneEntry() async throws {
        try await Self.run { rig in
            var talker = Talker(rig, "one"), anchors: [String?] = []
            for uri in [Self.uri, Self.others] {
                let slow = try await talker.slow(uri, "0", ["L1": Self.card(["name": "a"])])
                anchors.append(slow.anchor(uri))
            }
            let before = try await Self.head(rig)
            talker.begin()
            let items: PropertyListDictionary = ["L1": Self.modify(["note": "m"])]
            let sent = try await talker.send(
                .start(uri: Self.uri, .with(.fast, next: "1", last: "0", anchor: anchors[0])),
                .changes(uri: Self.uri, Changes(.changes, items)),
                .start(uri: Self.others, .with(.fast, next: "1", last: "0", anchor: anchors[1])),
                .changes(uri: Self.others, Changes(.changes, items)))
            #expect(sent.codes(2) == [.ok] && sent.codes(4) == [.ok] && !sent.header.isFinal)
            let committed = try await talker.send(
                .commit(uri: Self.uri, Anchors()), .commit(uri: Self.others, Anchors()))
            #expect(committed.codes(5) == [.ok] && committed.codes(6) == [.ok] && committed.header.isFinal)
            #expect(try await Self.head(rig) == before + 1)
        }
    }

    @Test func whatHasLostIsToldWithTheNextPush() async throws {
        try await Self.run(conflicts: "device") { rig in
            var one = try await Phone(rig, "one", ["L1": Self.card(["name": "a"])])
            var two = try await Phone(rig, "two")
            let first = try #require(two.ids["a"])
            _ = try await one.sync(["L1": Self.modify(["name": "b"])])
            #expect(try await two.sync([first: Self.modify(["name": "c"])]).isEmpty)
            for _ in 0..<2 {
                // The answer may be lost.
                let told = try await two.send().pushed(Self.uri)[first]?["conflict"]
                #expect(told == ["name": ["server": "b", "device": "c"]])
            }
            _ = try await two.sync()
            #expect(try await two.sync().isEmpty)
            #expect(try await Self.cards(rig) == ["c": ["name": "c"]])
        }
    }

    /// Links that others have added meanwhile are told, although the push before the commit has told the record.
    @Test func linksThatTheCommitMergesAreTold() async throws {
        try await Self.run { rig in
            let names = ["L1": "a", "L2": "b", "L3": "c"]
            var one = try await Phone(
                rig, "one", PropertyListDictionary(names.map { ($0, Self.card(["name": .string($1)])) }) { $1 })
            var two = try await Phone(rig, "two")
            let ids = try ["a", "b"].map { try #require(two.ids[$0]) }
            one.store(try await one.send(["L1": Self.modify(["next": ["L3"]])]))
            _ = try await two.sync([ids[0]: Self.modify(["next": [.string(ids[1])]])])
            // What is refused makes the push tell the record.
            let sent = try await one.send(["L1": Self.modify(["none": "x"])])
            #expect(sent.codes(2) == [.multiStatus, .badValue] && sent.pushed(Self.uri)["L1"]?["set"]?["name"] == "a")
            _ = try await one.commit()
            one.store(sent)
            #expect(try await one.sync()["L1"]?["set"]?["next"] == ["L3", "L2"])
        }
    }

    @Test func linksThatTheCommitRevivesAreTold() async throws {
        try await Self.run { rig in
            let key = "0f0e0d0c-0000-4000-8000-00000000000a"
            var one = try await Phone(rig, "one", ["L1": Self.card(["name": "a"]), key: Self.card(["name": "t"])])
            let realm = try await rig.realmClient()
            try await realm.download()
            try await realm.write { tx in
                let target = try tx.object("Card", key: UUIDBytes(text: key).map { .uuid($0) } ?? .null)
                for card in try tx.objects("Card") { try card.list("next").append(try #require(target).link) }
            }
            _ = try await one.sync([key: ["op": "delete"]])
            try await realm.upload()
            #expect(try await one.sync([key: ["op": "add", "entity": "card", "set": ["name": "t"]]]).isEmpty)
            #expect(try await one.sync().map { $0.value["set"] } == [["next": [.string(key)]]])
        }
    }

    @Test func itemsThatTheCommitRefuses() async throws {
        let right = Mutex(Permission.write)
        try await Self.run(CallbackAuthorizer { _, _ in right.withLock { $0 } }) { rig in
            var one = try await Phone(rig, "one", ["L1": Self.card(["name": "a"])])
            let sent = try await one.send(["L1": Self.modify(["note": "m"])])
            right.withLock { $0 = .read }
            let committed = try await one.commit()
            #expect(committed.codes(3) == [.multiStatus, .notAllowed])
            right.withLock { $0 = .write }
            one.store(sent)
            #expect(try await one.send().codes(1) == [.negotiationFailed])
            #expect(try await Self.cards(rig) == ["a": ["name": "a"]])
        }
    }
}
