import AnabranchCore
import AnabranchOverTheAir
import AnabranchPropertyList
import AnabranchTestClient
import Testing

@testable import AnabranchOverTheAirWire

/// The results of messages of devices, beside other devices and Realm clients (`Spec/OverTheAirServer.md`, sections 5
/// and 6).
@Suite(.timeLimit(.minutes(30))) struct MergeTests {
    private static let uri = DeviceRig.contacts

    private static func contact(_ fields: PropertyListDictionary) -> PropertyList {
        ["entity": "contact", "fields": .dictionary(fields)]
    }

    /// A device that has done its first sync.
    private struct Synced {
        var talker: Talker
        var name = 0
        var anchor: String?

        init(_ rig: DeviceRig, _ name: String, _ records: PropertyListDictionary = [:]) async throws {
            talker = Talker(rig, name)
            anchor = try await talker.slow(MergeTests.uri, "0", records).anchor(MergeTests.uri)
        }

        mutating func sync(
            _ type: Changes.ItemType = .changes, _ items: PropertyListDictionary = [:]
        ) async throws -> Message {
            let answer = try await talker.fast(
                MergeTests.uri, "\(name + 1)", last: "\(name)", anchor: anchor, type, items)
            name += 1
            anchor = answer.anchor(MergeTests.uri) ?? anchor
            return answer
        }
    }

    @Test(arguments: [Changes.ItemType.records, .changes])
    func whatOthersHaveChangedStays(type: Changes.ItemType) async throws {
        try await DeviceRig.run { rig in
            let all: PropertyListDictionary = ["name": "Ann", "email": "a@b.c", "number": "7"]
            var one = try await Synced(rig, "one", ["L1": Self.contact(all)])
            var two = try await Synced(rig, "two")
            // The second device has got the record, under its key, and gives it an id of its own.
            let id = try #require(try await two.talker.slow(Self.uri, "0").pushed(Self.uri).keys.first)
            two = try await Synced(rig, "three")
            // One changes the name, the other, which does not know that yet, the number.
            _ = try await one.sync(.changes, ["L1": ["op": "modify", "set": ["name": "Anna"]]])
            var changed = all
            changed["number"] = "8"
            let item: PropertyList =
                type == .records ? Self.contact(changed) : ["op": "modify", "set": ["number": "8"]]
            let answer = try await two.sync(type, [id: item])
            #expect(answer.codes(2) == [.ok])
            let told = answer.pushed(Self.uri)[id]
            if type == .changes {
                #expect(told == ["op": "modify", "entity": "contact", "set": ["name": "Anna"]])
            } else {
                changed["name"] = "Anna"
                #expect(told?["fields"]?.dictionary?.filter { $0.key != "groups" }.map(\.key).count == 3)
                #expect(told?["fields"]?["name"] == "Anna" && told?["fields"]?["number"] == "8")
            }
            let back = try await one.sync().pushed(Self.uri)["L1"]
            #expect(back == ["op": "modify", "entity": "contact", "set": ["number": "8"]])
            #expect(try await one.sync().pushed(Self.uri).isEmpty)
        }
    }

    @Test func realmClientsSeeAndChangeTheSame() async throws {
        try await DeviceRig.run { rig in
            var one = try await Synced(
                rig, "one",
                [
                    "G1": ["entity": "group", "fields": ["name": "friends"]],
                    "C1": Self.contact([
                        "name": "Ann", "number": "12", "weight": 3, "image": .data([1, 2]), "groups": ["G1"],
                    ]),
                ])
            let realm = try await rig.realmClient()
            try await realm.download()
            try await realm.read { tx in
                let contact = try #require(try tx.objects("Contact").first)
                #expect(try contact.value("name") == "Ann" && contact.value("serial") == 12)
                #expect(try contact.value("weight") == 3.0 && contact.list("groups").count == 1)
            }
            try await realm.write { tx in
                let contact = try #require(try tx.objects("Contact").first)
                try contact.set("company", to: "Analytical")
                try contact.set("born", to: .timestamp(Timestamp(seconds: -1, nanoseconds: -500_000_000)))
                try contact.set("image", to: .null)
                let group = try tx.create("Group", key: .uuid(try #require(UUIDBytes(Array(repeating: 9, count: 16)))))
                try group.set("name", to: "others")
                try contact.list("groups").append(group.link)
            }
            try await realm.upload()
            let answer = try await one.sync().pushed(Self.uri)
            let key = "09090909-0909-0909-0909-090909090909"
            #expect(answer.count == 2 && answer[key] == ["op": "add", "entity": "group", "set": ["name": "others"]])
            #expect(answer["C1"]?["set"]?["company"] == "Analytical" && answer["C1"]?["clear"] == ["image"])
            #expect(answer["C1"]?["set"]?["groups"] == ["G1", .string(key)])
            let date = try #require(answer["C1"]?["set"]?["born"]?.date)
            #expect(date.seconds == -2 && date.nanoseconds == 0)
            // Both ends erase.
            _ = try await one.sync(.changes, ["G1": ["op": "delete"]])
            try await realm.download()
            try await realm.read { tx in
                let groups = try tx.objects("Group"), links = try tx.objects("Contact").first?.list("groups").count
                #expect(groups.count == 1 && links == 1)
            }
            try await realm.write { tx in try tx.delete(try #require(try tx.objects("Contact").first)) }
            try await realm.upload()
            #expect(try await one.sync().pushed(Self.uri)["C1"] == ["op": "delete", "entity": "contact"])
            #expect(try await one.sync().pushed(Self.uri).isEmpty)
        }
    }

    @Test func badItemsAreToldAlone() async throws {
        try await DeviceRig.run { rig in
            var one = try await Synced(rig, "one", ["L1": Self.contact(["name": "Ann"])])
            let answer = try await one.sync(
                .changes,
                [
                    "L1": ["op": "modify", "set": ["name": "Anna", "other": 1]],
                    "L2": ["op": "add", "entity": "contact", "set": ["number": "twelve"]],
                    "L3": ["op": "add", "entity": "contact", "set": ["groups": ["L9"]]],
                    "L4": ["op": "add", "entity": "contact", "set": ["groups": ["L5"]]],
                    "L5": ["op": "add", "entity": "group", "set": ["name": 5, "x": 1]],
                    "L6": ["op": "add", "entity": "contact", "set": ["name": "Bob"]],
                    "L7": ["op": "modify", "set": ["name": "nobody"]], "L8": ["op": "delete"], "L9": 7,
                    "La": ["op": "add", "entity": "planet"],
                ])
            let statuses = try #require(answer.response(2)?.result)
            #expect(statuses.first?.knownCode == .multiStatus)
            let failures = try #require(statuses.failuresOfItems)
            #expect(failures.keys.map(\.text).sorted() == ["L1", "L2", "L3", "L4", "L5", "L7", "L9", "La"])
            #expect(failures.values.allSatisfy { $0.knownCode == .badValue })
            // The record of a refused change comes back as it is.
            #expect(answer.pushed(Self.uri).count == 1)
            #expect(answer.pushed(Self.uri)["L1"]?["set"]?["name"] == "Ann")
            var two = Talker(rig, "two")
            #expect(try await two.slow(Self.uri, "0").pushed(Self.uri).count == 2)
        }
    }

    @Test func changesUnderANameCountOnce() async throws {
        try await DeviceRig.run { rig in
            var one = try await Synced(rig, "one", ["L1": Self.contact(["name": "Ann"])])
            let before = one
            let items: PropertyListDictionary = [
                "L2": ["op": "add", "entity": "contact", "set": ["name": "Bob"]],
                "L3": ["op": "add", "entity": "planet"], "L1": ["op": "delete"],
            ]
            let first = try await one.sync(.changes, items)
            // The answer is lost, and others go on.
            var two = Talker(rig, "two")
            let bob = try #require(try await two.slow(Self.uri, "0").pushed(Self.uri).keys.first)
            let anchor = try await two.slow(Self.uri, "0").anchor(Self.uri)
            let changed = try await two.fast(
                Self.uri, "1", last: "0", anchor: anchor, .changes, [bob: ["op": "modify", "set": ["name": "Rob"]]])
            #expect(changed.codes(2) == [.ok])
            one = before
            one.talker.begin()
            let again = try await one.talker.send(
                Talker.info, .start(uri: Self.uri, .with(.fast, next: "1", last: "0", anchor: one.anchor)),
                .changes(uri: Self.uri, Changes(.changes, items)))
            (one.name, one.anchor) = (1, again.anchor(Self.uri))
            #expect(again.response(3)?.result == first.response(2)?.result && again.codes(3).first == .multiStatus)
            #expect(again.pushed(Self.uri) == ["L2": ["op": "modify", "entity": "contact", "set": ["name": "Rob"]]])
            #expect(try await one.sync().pushed(Self.uri).isEmpty)
        }
    }

    @Test func aSlowSyncFindsRecordsAgain() async throws {
        try await DeviceRig.run { rig in
            _ = try await Synced(
                rig, "one",
                [
                    "A": Self.contact(["name": "Ann", "company": "X", "number": "1"]),
                    "B": Self.contact(["name": "Bob"]), "C": Self.contact(["email": "C@D.E", "number": "5"]),
                    "D": Self.contact(["name": "Dora"]),
                ])
            var two = Talker(rig, "two")
            let records: PropertyListDictionary = [
                // By an identity, without regard to case; the first slow sync of a device wins.
                "1": Self.contact(["name": "ANN", "company": "x", "number": "2"]),
                // By all fields; the second of two twins is another record.
                "2": Self.contact(["name": "Bob"]), "3": Self.contact(["name": "Bob"]),
                "4": Self.contact(["email": "c@d.e"]),
            ]
            let slow = try await two.slow(Self.uri, "0", records)
            #expect(slow.codes(3) == [.ok])
            let pushed = slow.pushed(Self.uri)
            #expect(pushed.count == 2 && pushed["4"]?["fields"]?["number"] == "5")
            #expect(pushed.contains { $0.value["fields"]?["name"] == "Dora" })
            // The same again: nothing is written.
            let repeated = try await two.slow(Self.uri, "0", records)
            #expect(repeated.pushed(Self.uri) == pushed)
            // Later, the server's values win.
            let later = try await two.slow(
                Self.uri, "1", ["1": Self.contact(["name": "ANN", "company": "x", "number": "3", "weight": 4])],
                last: "0")
            #expect(later.pushed(Self.uri)["1"]?["fields"]?["number"] == "2")
            #expect(later.pushed(Self.uri)["1"]?["fields"]?["weight"] == nil)
            var three = Talker(rig, "three")
            #expect(try await three.slow(Self.uri, "0").pushed(Self.uri).count == 5)
        }
    }

    @Test func idsComeAtOnceOrLater() async throws {
        try await DeviceRig.run { rig in
            _ = try await Synced(rig, "one", ["L1": Self.contact(["name": "Ann"])])
            var two = Talker(rig, "two")
            let slow = try await two.slow(Self.uri, "0"), id = try #require(slow.pushed(Self.uri).keys.first)
            var anchor = try #require(slow.anchor(Self.uri))
            // At once, in the response to the push.
            var response = try #require(slow.commands("sync-changes").first).response([Status(.ok)])
            response.params["idmap"] = [id: "M1"]
            let last = try await two.send([response], isFinal: true)
            #expect(last.body.isEmpty && last.header.isFinal)
            let first = try await two.fast(
                Self.uri, "1", last: "0", anchor: anchor, .changes, ["M1": ["op": "modify", "set": ["name": "Anna"]]])
            #expect(first.codes(2) == [.ok])
            anchor = try #require(first.anchor(Self.uri))
            // A device that has rolled back has no such id any more: it comes with an older anchor.
            var three = Talker(rig, "three")
            let other = try await three.slow(Self.uri, "0")
            let otherAnchor = try #require(other.anchor(Self.uri))
            // Later: with the next session.
            three.begin()
            let deferred = try await three.send(
                .start(uri: Self.uri, .with(.fast, next: "1", last: "0", anchor: otherAnchor)),
                .changes(uri: Self.uri, Changes(idMap: [id: "N1"])),
                .changes(uri: Self.uri, Changes(.changes, ["N1": ["op": "delete"]])))
            #expect(deferred.codes(2) == [.ok] && deferred.codes(3) == [.ok])
            let gone = try await two.fast(Self.uri, "2", last: "1", anchor: anchor)
            #expect(gone.pushed(Self.uri) == ["M1": ["op": "delete", "entity": "contact"]])
        }
    }

    @Test func directionsAndFilters() async throws {
        try await DeviceRig.run { rig in
            _ = try await Synced(
                rig, "one",
                [
                    "G1": ["entity": "group", "fields": ["name": "in"]],
                    "G2": ["entity": "group", "fields": ["name": "out"]],
                    "C1": Self.contact(["name": "Ann", "groups": ["G1"]]),
                    "C2": Self.contact(["name": "Bob", "groups": ["G2"]]),
                ])
            var two = try await Synced(rig, "two")
            let pushed = try await two.talker.slow(Self.uri, "0").pushed(Self.uri)
            func id(_ name: String) throws -> String {
                try #require(pushed.first { $0.value["fields"]?["name"] == .string(name) }?.key)
            }
            let (inside, bob) = (try id("in"), try id("Bob"))
            two.anchor = try await two.talker.slow(Self.uri, "0").anchor(Self.uri)
            // What a filter hides is deleted, locally.
            two.talker.begin()
            let filter: PropertyList = [
                "constrain_containers": [.string(inside)], "default_container": .string(inside),
            ]
            let answer = try await two.talker.send(
                .put(uri: "\(Self.uri)/filter", value: filter, itemType: nil),
                .start(uri: Self.uri, .with(.fast, next: "1", last: "0", anchor: two.anchor)),
                .changes(
                    uri: Self.uri, Changes(.changes, ["N": ["op": "add", "entity": "contact", "set": ["name": "New"]]]))
            )
            #expect(answer.codes(1) == [.ok] && answer.pushed(Self.uri)[bob]?["op"] == "delete")
            #expect(answer.pushed(Self.uri)["N"]?["set"]?["groups"] == [.string(inside)])
            #expect(answer.pushed(Self.uri).count == 2)
            (two.name, two.anchor) = (1, answer.anchor(Self.uri))
            // Its own deletion of that is no deletion of data.
            #expect(try await two.sync(.changes, [bob: ["op": "delete"]]).codes(2) == [.ok])
            two.talker.begin()
            let opened = try await two.talker.send(
                .delete(uri: "\(Self.uri)/filter"),
                .start(uri: Self.uri, .with(.fast, next: "3", last: "2", anchor: two.anchor)),
                .changes(uri: Self.uri, Changes()))
            #expect(opened.pushed(Self.uri)[bob]?["op"] == "add" && opened.pushed(Self.uri).count == 1)
            // Neither direction alone loses anything.
            let anchor = try #require(opened.anchor(Self.uri))
            two.talker.begin()
            let down = try await two.talker.send(
                .start(uri: Self.uri, .with(.fast, next: "4", last: "3", anchor: anchor, .toDevice)),
                .changes(uri: Self.uri, Changes(.changes, [bob: ["op": "delete"]])))
            #expect(down.codes(2).first == .multiStatus && down.response(2)?.result?.last?.knownCode == .notAllowed)
            two.talker.begin()
            let up = try await two.talker.send(
                .start(uri: Self.uri, .with(.fast, next: "5", last: "4", anchor: down.anchor(Self.uri), .toServer)),
                .changes(uri: Self.uri, Changes(.changes, [bob: ["op": "modify", "set": ["name": "Rob"]]])))
            #expect(up.codes(2) == [.ok] && up.pushed(Self.uri).isEmpty)
        }
    }

    /// A new version of an app knows fields of which the old one was not told: that it has none of them says nothing.
    @Test func aDeviceThatKnowsMoreFieldsBeginsAnew() async throws {
        try await DeviceRig.run { rig in
            func info(_ fields: PropertyList) -> Command {
                let dataclass: PropertyList = ["item_type": "records", "entities": ["contact": fields]]
                let value: PropertyList = ["dataclasses": .dictionary([Self.uri: dataclass])]
                return .put(uri: "deviceinfo", value: value, itemType: nil)
            }
            _ = try await Synced(rig, "one", ["L1": Self.contact(["name": "Ann", "email": "a@b.c"])])
            var two = Talker(rig, "two")
            let old = try await two.send(
                info(["name"]), .start(uri: Self.uri, .with(.slow, next: "0")),
                .changes(uri: Self.uri, Changes(.records)))
            let id = try #require(old.pushed(Self.uri).keys.first)
            #expect(old.pushed(Self.uri)[id] == Self.contact(["name": "Ann"]))
            two.begin()
            let changed = Self.contact(["name": "Anna"])
            let refused = try await two.send(
                info(["name", "email"]),
                .start(uri: Self.uri, .with(.fast, next: "1", last: "0", anchor: old.anchor(Self.uri))),
                .changes(uri: Self.uri, Changes(.records, [id: changed])))
            #expect(refused.codes(2) == [.negotiationFailed])
            #expect(refused.response(2)?.params["anchors"]?["mode"] == "slow")
            let slow = try await two.send(
                .start(uri: Self.uri, .with(.slow, next: "2", last: "0")),
                .changes(uri: Self.uri, Changes(.records, [id: changed])))
            #expect(slow.pushed(Self.uri)[id]?["fields"]?["email"] == "a@b.c")
            // In another order they are the same.
            two.begin()
            let same = try await two.send(
                info(["email", "name"]),
                .start(uri: Self.uri, .with(.fast, next: "3", last: "2", anchor: slow.anchor(Self.uri))),
                .changes(uri: Self.uri, Changes(.records)))
            #expect(same.codes(2) == [.ok] && same.pushed(Self.uri).isEmpty)
        }
    }

    @Test func aDayMovesEventsOut() async throws {
        try await DeviceRig.run { rig in
            let today = rig.clock.now / 86_400 * 86_400
            let date = try #require(PropertyListDate(seconds: Int64(today - 86_400)))
            _ = try await Synced(rig, "one", ["L1": Self.contact(["name": "Ann", "born": .date(date)])])
            var two = Talker(rig, "two")
            _ = try await two.send(.put(uri: "\(Self.uri)/filter", value: ["discard_after_days": 1], itemType: nil))
            let slow = try await two.slow(Self.uri, "0"), id = try #require(slow.pushed(Self.uri).keys.first)
            let same = try await two.fast(Self.uri, "1", last: "0", anchor: slow.anchor(Self.uri))
            #expect(same.pushed(Self.uri).isEmpty)
            rig.clock.advance(by: 86_400)
            let gone = try await two.fast(Self.uri, "2", last: "1", anchor: same.anchor(Self.uri))
            #expect(gone.pushed(Self.uri) == [id: ["op": "delete", "entity": "contact"]])
        }
    }

    @Test func aLongPushComesInParts() async throws {
        try await DeviceRig.run { rig in
            var records: PropertyListDictionary = [:]
            for index in 10..<40 { records["L\(index)"] = Self.contact(["name": .string("name \(index)")]) }
            _ = try await Synced(rig, "one", records)
            var two = Talker(rig, "two")
            let info = Command.put(uri: "deviceinfo", value: ["max_items": 8], itemType: nil)
            var answer = try await two.send(
                info, .start(uri: Self.uri, .with(.reset, next: "0")), .changes(uri: Self.uri, Changes()))
            var seen = Set(answer.pushed(Self.uri).keys)
            #expect(seen.count == 8 && !answer.header.isFinal)
            let checkpoint = try #require(answer.anchor(Self.uri))
            answer = try await two.send()
            #expect(answer.pushed(Self.uri).count == 8)
            // Cut off here, the device goes on from the last checkpoint that it has stored.
            answer = try await two.fast(Self.uri, "1", last: "0", anchor: checkpoint)
            while true {
                #expect(seen.isDisjoint(with: answer.pushed(Self.uri).keys))
                seen.formUnion(answer.pushed(Self.uri).keys)
                if answer.header.isFinal { break }
                answer = try await two.send()
            }
            #expect(seen.count == 30)
        }
    }
}
