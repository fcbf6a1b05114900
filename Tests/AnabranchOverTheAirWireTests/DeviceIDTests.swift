import AnabranchCore
import AnabranchHistory
import AnabranchOverTheAir
import AnabranchPropertyList
import AnabranchServer
import AnabranchTestClient
import Testing

@testable import AnabranchOverTheAirWire

/// The ids that devices give records (`Spec/OverTheAirServer.md`, sections 5 and 7).
@Suite(.timeLimit(.minutes(30))) struct DeviceIDTests {
    private static let uri = DeviceRig.contacts

    private static func contact(_ fields: PropertyListDictionary) -> PropertyList {
        ["entity": "contact", "fields": .dictionary(fields)]
    }

    /// The number of rows of a kind.
    private static func count(_ kind: RowKind, _ rig: DeviceRig) async throws -> Int {
        let count = try await rig.wire.server().readHead(of: rig.path) { _, records in
            var count = 0
            try records.forEachRow(kind, []) { _ in count += 1 }
            return count
        }
        return count ?? 0
    }

    /// A device that calls its records by UUIDs of its own, in either case.
    @Test(arguments: ["0F0E0D0C-0000-4000-8000-00000000000A", "0f0e0d0c-0000-4000-8000-00000000000a"])
    func anIDOfADeviceMayBeAUUID(own: String) async throws {
        try await DeviceRig.run { rig in
            var one = Talker(rig, "one"), two = Talker(rig, "two")
            let first = try await one.slow(Self.uri, "0", ["L1": Self.contact(["name": "Ann"])])
            let slow = try await two.slow(Self.uri, "0"), id = try #require(slow.pushed(Self.uri).keys.first)
            var response = try #require(slow.commands("sync-changes").first).response([Status(.ok)])
            response.params["idmap"] = .dictionary([id: .string(own)])
            _ = try await two.send([response], isFinal: true)
            let change = try await two.fast(
                Self.uri, "1", last: "0", anchor: slow.anchor(Self.uri), .changes,
                [own: ["op": "modify", "set": ["name": "Anna"]]])
            #expect(change.codes(2) == [.ok] && change.pushed(Self.uri).isEmpty)
            let told = try await one.fast(
                Self.uri, "1", last: "0", anchor: first.anchor(Self.uri), .changes,
                ["L1": ["op": "modify", "set": ["company": "c"]]])
            #expect(told.pushed(Self.uri)["L1"]?["set"] == ["name": "Anna"])
            let next = try await two.fast(Self.uri, "2", last: "1", anchor: change.anchor(Self.uri))
            #expect(next.pushed(Self.uri) == [own: ["op": "modify", "entity": "contact", "set": ["company": "c"]]])
        }
    }

    /// A device knows a record by what it has called it, letter by letter.
    @Test func anIDIsToldAsItCame() async throws {
        try await DeviceRig.run { rig in
            let own = "E621E1F8-C36C-495A-93FC-0C247A3E6E5F"
            var one = Talker(rig, "one"), two = Talker(rig, "two")
            let first = try await one.slow(Self.uri, "0", [own: Self.contact(["name": "Ann"])])
            let slow = try await two.slow(Self.uri, "0")
            #expect(Array(slow.pushed(Self.uri).keys) == [own.lowercased()])
            _ = try await two.fast(
                Self.uri, "1", last: "0", anchor: slow.anchor(Self.uri), .changes,
                [own.lowercased(): ["op": "modify", "set": ["name": "Anna"]]])
            let told = try await one.fast(Self.uri, "1", last: "0", anchor: first.anchor(Self.uri))
            #expect(Array(told.pushed(Self.uri).keys) == [own])
        }
    }

    /// A deleted record may be made again under its id, and nothing is left of one that is not.
    @Test func anIDMayComeAgain() async throws {
        try await DeviceRig.run { rig in
            var device = Talker(rig, "one"), number = 0
            var anchor = try await device.slow(Self.uri, "0", ["L1": Self.contact(["name": "Ann"])]).anchor(Self.uri)
            func sync(_ items: PropertyListDictionary = [:]) async throws {
                number += 1
                let answer = try await device.fast(
                    Self.uri, "\(number)", last: "\(number - 1)", anchor: anchor, .changes, items)
                #expect(answer.codes(2) == [.ok] && answer.pushed(Self.uri).isEmpty, "session \(number)")
                anchor = answer.anchor(Self.uri)
            }
            try await sync(["L1": ["op": "delete"]])
            try await sync(["L1": ["op": "add", "entity": "contact", "set": ["name": "Bob"]]])
            try await sync(["L1": ["op": "modify", "set": ["company": "c"]]])
            #expect(try await Self.count(.localID, rig) == 1)
            #expect(try await Self.count(.serverID, rig) == 1)
            var two = Talker(rig, "two")
            let pushed = try await two.slow(Self.uri, "0").pushed(Self.uri)
            #expect(pushed.count == 1 && pushed.first?.value["fields"] == ["name": "Bob", "company": "c"])
            try await sync(["L1": ["op": "delete"]])
            try await sync()
            #expect(try await Self.count(.localID, rig) == 0)
            #expect(try await Self.count(.serverID, rig) == 0)
        }
    }

    /// The id of a deleted record is that of the next one that comes, as with row numbers.
    @Test func anIDThatIsGivenAgainLeadsToTheNewRecord() async throws {
        try await DeviceRig.run { rig in
            var one = Talker(rig, "one"), two = Talker(rig, "two")
            let first = try await one.slow(Self.uri, "0", ["L1": Self.contact(["name": "Ann"])])
            let slow = try await two.slow(Self.uri, "0")
            func mapped(_ answer: Message, _ name: String) throws -> MessageItem {
                let id = try #require(answer.pushed(Self.uri).keys.first { !$0.hasPrefix("M") })
                var response = try #require(answer.commands("sync-changes").first).response([Status(.ok)])
                response.params["idmap"] = .dictionary([id: .string(name)])
                return response
            }
            _ = try await two.send([mapped(slow, "M1")], isFinal: true)
            // The other device erases its record and makes another one: both come in one message.
            _ = try await one.fast(
                Self.uri, "1", last: "0", anchor: first.anchor(Self.uri), .changes,
                ["L1": ["op": "delete"], "L2": ["op": "add", "entity": "contact", "set": ["name": "Bob"]]])
            let both = try await two.fast(Self.uri, "1", last: "0", anchor: slow.anchor(Self.uri))
            #expect(both.pushed(Self.uri)["M1"]?["op"] == "delete" && both.pushed(Self.uri).count == 2)
            _ = try await two.send([mapped(both, "M1")], isFinal: true)
            var anchor = both.anchor(Self.uri)
            for (number, name) in ["Rob", "Robert"].enumerated() {
                let answer = try await two.fast(
                    Self.uri, "\(number + 2)", last: "\(number + 1)", anchor: anchor, .changes,
                    ["M1": ["op": "modify", "set": ["name": .string(name)]]])
                #expect(answer.codes(2) == [.ok] && answer.pushed(Self.uri).isEmpty)
                anchor = answer.anchor(Self.uri)
            }
            var three = Talker(rig, "three")
            let pushed = try await three.slow(Self.uri, "0").pushed(Self.uri)
            #expect(pushed.count == 1 && pushed.first?.value["fields"]?["name"] == "Robert")
        }
    }

    /// The keys of all entities have one form, so the entity of a record that has been erased since it was sent is what
    /// the device says.
    @Test(arguments: [Anchors.Mode.fast, .slow])
    func aLateIDOfAnErasedRecordIsOfTheEntityThatTheDeviceSays(_ mode: Anchors.Mode) async throws {
        try await DeviceRig.run { rig in
            var one = Talker(rig, "one"), two = Talker(rig, "two")
            let group: PropertyList = ["entity": "group", "fields": ["name": "in"]]
            let first = try await one.slow(Self.uri, "0", ["G1": group])
            let slow = try await two.slow(Self.uri, "0"), id = try #require(slow.pushed(Self.uri).keys.first)
            _ = try await one.fast(
                Self.uri, "1", last: "0", anchor: first.anchor(Self.uri), .changes, ["G1": ["op": "delete"]])
            two.begin()
            let anchor = mode == .fast ? slow.anchor(Self.uri) : nil
            let item: PropertyList =
                mode == .fast ? ["op": "modify", "entity": "group", "set": ["name": "out"]] : group
            let answer = try await two.send(
                .start(uri: Self.uri, .with(mode, next: "1", last: "0", anchor: anchor)),
                .changes(uri: Self.uri, Changes(idMap: [id: "N1"])),
                .changes(uri: Self.uri, Changes(mode == .fast ? .changes : .records, ["N1": item])))
            #expect(answer.codes(2) == [.ok] && answer.codes(3) == [.ok])
            #expect(answer.pushed(Self.uri).map { [$0.key, $0.value["entity"]?.string] } == [["N1", "group"]])
            #expect(try await Self.count(.localID, rig) == 2)
        }
    }

    /// The device has not seen that the record was gone: the answer that said so was lost.
    @Test func anIDStaysWithARecordThatIsMadeAgain() async throws {
        try await DeviceRig.run { rig in
            let key = "0f0e0d0c-0000-4000-8000-00000000000a"
            var one = Talker(rig, "one"), two = Talker(rig, "two")
            let first = try await one.slow(Self.uri, "0", [key: Self.contact(["name": "Ann"])])
            let slow = try await two.slow(Self.uri, "0"), anchor = slow.anchor(Self.uri)
            var response = try #require(slow.commands("sync-changes").first).response([Status(.ok)])
            response.params["idmap"] = [key: "M1"]
            _ = try await two.send([response], isFinal: true)
            func edit(_ anchor: String?, _ number: Int, _ item: PropertyList) async throws -> Message {
                try await two.fast(
                    Self.uri, "\(number)", last: "\(number - 1)", anchor: anchor, .changes, ["M1": item])
            }
            let gone = try await one.fast(
                Self.uri, "1", last: "0", anchor: first.anchor(Self.uri), .changes, [key: ["op": "delete"]])
            let lost = try await edit(anchor, 1, ["op": "modify", "set": ["name": "Anna"]])
            #expect(lost.pushed(Self.uri)["M1"]?["op"] == "delete")
            _ = try await one.fast(
                Self.uri, "2", last: "1", anchor: gone.anchor(Self.uri), .changes,
                [key: ["op": "add", "entity": "contact", "set": ["name": "Bea"]]])
            let again = try await edit(anchor, 1, ["op": "modify", "set": ["name": "Anne"]])
            #expect(again.pushed(Self.uri)["M1"]?["set"]?["name"] == "Bea")
            let last = try await edit(again.anchor(Self.uri), 2, ["op": "modify", "set": ["company": "c"]])
            #expect(last.codes(2) == [.ok])
            var three = Talker(rig, "three")
            #expect(
                try await three.slow(Self.uri, "0").pushed(Self.uri)[key]?["fields"] == ["name": "Bea", "company": "c"])
        }
    }

    /// The device does not say its entity when it has it again.
    @Test func aLateIDLeadsToTheRecordThatIsMadeAgain() async throws {
        try await DeviceRig.run { rig in
            let key = "0f0e0d0c-0000-4000-8000-00000000000a"
            var one = Talker(rig, "one"), two = Talker(rig, "two")
            let first = try await one.slow(Self.uri, "0", [key: Self.contact(["name": "Ann"])])
            let anchor = try await two.slow(Self.uri, "0").anchor(Self.uri)
            let gone = try await one.fast(
                Self.uri, "1", last: "0", anchor: first.anchor(Self.uri), .changes, [key: ["op": "delete"]])
            func map(_ items: PropertyListDictionary = [:]) async throws -> Message {
                two.begin()
                return try await two.send(
                    .start(uri: Self.uri, .with(.fast, next: "1", last: "0", anchor: anchor)),
                    .changes(uri: Self.uri, Changes(idMap: [key: "N1"])),
                    .changes(uri: Self.uri, Changes(.changes, items)))
            }
            #expect(try await map().pushed(Self.uri)["N1"]?["op"] == "delete")
            _ = try await one.fast(
                Self.uri, "2", last: "1", anchor: gone.anchor(Self.uri), .changes,
                [key: ["op": "add", "entity": "contact", "set": ["name": "Bea"]]])
            // The answer was lost. The same message would get it again.
            let again = try await map(["N2": ["op": "delete"]])
            #expect(again.pushed(Self.uri)["N1"]?["set"]?["name"] == "Bea")
            let last = try await two.fast(
                Self.uri, "2", last: "1", anchor: again.anchor(Self.uri), .changes,
                ["N1": ["op": "modify", "set": ["company": "c"]]])
            #expect(last.codes(2) == [.ok] && last.pushed(Self.uri).isEmpty)
        }
    }

    // MARK: Slow

    /// An id that is the key of a record is no other record's, however much both differ.
    @Test func aRecordWithTheKeyOfAnotherOneIsThatOne() async throws {
        try await DeviceRig.run { rig in
            let key = "0f0e0d0c-0000-4000-8000-00000000000a"
            var one = Talker(rig, "one"), two = Talker(rig, "two")
            let ann = Self.contact(["name": "Ann", "email": "a@b.c", "number": "1"])
            _ = try await one.slow(Self.uri, "0", [key: ann])
            let slow = try await two.slow(Self.uri, "0", [key: Self.contact(["name": "Zoe", "company": "c"])])
            let all: PropertyListDictionary = ["name": "Zoe", "company": "c", "email": "a@b.c", "number": "1"]
            #expect(slow.pushed(Self.uri)[key]?["fields"] == .dictionary(all))
            var three = Talker(rig, "three")
            #expect(try await three.slow(Self.uri, "0").pushed(Self.uri) == [key: Self.contact(all)])
        }
    }

    /// A record that was deleted and made again with the same content is another one: both the old and the new one are
    /// in the same slow sync.
    @Test func aRecordThatWasMadeAgainStays() async throws {
        try await DeviceRig.run { rig in
            let old = "0f0e0d0c-0000-4000-8000-00000000000a", new = "0f0e0d0c-0000-4000-8000-00000000000b"
            let ann = Self.contact(["name": "Ann", "company": "c"])
            var one = Talker(rig, "one")
            _ = try await one.slow(Self.uri, "0", [old: ann])
            one.begin()
            let slow = try await one.send([
                one.item(.start(uri: Self.uri, .with(.slow, next: "1", last: "0"))),
                one.item(.changes(uri: Self.uri, Changes(.records, [new: ann])), hasMore: true),
                one.item(.changes(uri: Self.uri, Changes(.changes, [old: ["op": "delete"]]))),
            ])
            #expect(slow.codes(2) == [.ok] && slow.codes(3) == [.ok] && slow.pushed(Self.uri).isEmpty)
            var two = Talker(rig, "two")
            #expect(try await two.slow(Self.uri, "0").pushed(Self.uri) == [new: ann])
        }
    }

    /// The record of a refused item stays that of its id.
    @Test func aRefusedRecordIsSentAsItIs() async throws {
        try await DeviceRig.run { rig in
            let ann: PropertyListDictionary = ["name": "Ann", "company": "c"]
            var device = Talker(rig, "one")
            _ = try await device.slow(Self.uri, "0", ["L1": Self.contact(ann)])
            let wrong = Self.contact(["name": "Ann", "company": "c", "number": "twelve"])
            let slow = try await device.slow(Self.uri, "1", ["L1": wrong, "L2": Self.contact(ann)], last: "0")
            #expect(slow.response(3)?.result?.last?.paramKey == "L1")
            #expect(slow.pushed(Self.uri) == ["L1": Self.contact(ann)])
            let fast = try await device.fast(
                Self.uri, "2", last: "1", anchor: slow.anchor(Self.uri), .changes,
                ["L1": ["op": "modify", "set": ["number": "12"]]])
            #expect(fast.codes(2) == [.ok])
            var two = Talker(rig, "two")
            let numbers = try await two.slow(Self.uri, "0").pushed(Self.uri).map { $0.value["fields"]?["number"] }
            #expect(numbers.count == 2 && numbers.contains("12"))
        }
    }

    /// The id of a record that others have erased may be the key of records of several entities.
    @Test func aChangeOfWhatOthersHaveErasedNeedsNoEntity() async throws {
        try await DeviceRig.run { rig in
            let key = "0f0e0d0c-0000-4000-8000-00000000000a"
            var one = Talker(rig, "one"), two = Talker(rig, "two")
            let first = try await one.slow(Self.uri, "0", [key: Self.contact(["name": "Ann"])])
            let slow = try await two.slow(Self.uri, "0")
            _ = try await one.fast(
                Self.uri, "1", last: "0", anchor: first.anchor(Self.uri), .changes, [key: ["op": "delete"]])
            let late = try await two.fast(
                Self.uri, "1", last: "0", anchor: slow.anchor(Self.uri), .changes,
                [key: ["op": "modify", "set": ["email": "a@b.c"]]])
            #expect(late.codes(2) == [.ok] && late.pushed(Self.uri)[key]?["op"] == "delete")
        }
    }

    /// A key may be that of records of several entities: what comes back is the one that is there.
    @Test func theRecordOfARefusedChangeComesBack() async throws {
        try await DeviceRig.run { rig in
            let key = "0f0e0d0c-0000-4000-8000-00000000000a"
            var device = Talker(rig)
            let slow = try await device.slow(Self.uri, "0", [key: Self.contact(["name": "Ann"])])
            let fast = try await device.fast(
                Self.uri, "1", last: "0", anchor: slow.anchor(Self.uri), .changes,
                [key: ["op": "modify", "set": ["name": "Anna", "number": "twelve"]]])
            #expect(fast.codes(2) == [.multiStatus, .badValue])
            #expect(fast.pushed(Self.uri)[key]?["set"]?["name"] == "Ann")
        }
    }

    // MARK: Columns without null

    /// A column that has no null has a value from the beginning, of which the device is told until it has it.
    @Test func whatANewRecordHasByItselfIsTold() async throws {
        try await DeviceRig.run { rig in
            let realm = try await rig.realmClient()
            try await realm.download()
            try await realm.write { tx in
                try tx.addClass("Contact", key: "_id", .uuid)
                try tx.addColumn("name", .string, to: "Contact")
                try tx.addColumn("serial", .int, to: "Contact")
            }
            try await realm.upload()
            var one = Talker(rig, "one")
            let slow = try await one.slow(Self.uri, "0", ["L1": Self.contact(["company": "c"])])
            #expect(slow.pushed(Self.uri) == ["L1": Self.contact(["company": "c", "name": "", "number": "0"])])
            let items: PropertyListDictionary = [
                "L2": ["op": "add", "entity": "contact", "set": ["company": "d", "name": "Bob"]]
            ]
            for _ in 0..<2 {
                let fast = try await one.fast(
                    Self.uri, "1", last: "0", anchor: slow.anchor(Self.uri), .changes, items)
                let set = fast.pushed(Self.uri)["L2"]?["set"]
                #expect(fast.codes(2) == [.ok] && set?["number"] == "0")
            }
        }
    }
}
