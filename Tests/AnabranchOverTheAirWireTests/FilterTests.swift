import AnabranchCore
import AnabranchOverTheAir
import AnabranchOverTheAirDevice
import AnabranchPropertyList
import AnabranchTestClient
import Testing

@testable import AnabranchOverTheAirWire

/// Records that enter the filter of a device again (`Spec/OverTheAirServer.md`, section 6).
@Suite(.timeLimit(.minutes(30))) struct FilterTests {
    private static let uri = DeviceRig.contacts
    private static let nothing: PropertyList = ["constrain_containers": []]

    private static func filter(_ value: PropertyList) -> Command {
        .put(uri: "\(uri)/filter", value: value, itemType: nil)
    }

    /// A fast sync that sets a filter first.
    private static func sync(
        _ device: inout Talker, _ filter: PropertyList, _ name: String, last: String, _ anchor: String?,
        _ items: PropertyListDictionary = [:]
    ) async throws -> Message {
        device.begin()
        return try await device.send(
            Self.filter(filter), .start(uri: uri, .with(.fast, next: name, last: last, anchor: anchor)),
            .changes(uri: uri, Changes(.changes, items)))
    }

    @Test func whatADeviceHasMadeOutsideItsFilterComesWithAWiderOne() async throws {
        try await DeviceRig.run { rig in
            var device = Talker(rig)
            let empty = try await device.slow(Self.uri, "0")
            let made = try await Self.sync(
                &device, Self.nothing, "1", last: "0", empty.anchor(Self.uri),
                ["L1": ["op": "add", "entity": "contact", "set": ["name": "Ann"]]])
            #expect(made.pushed(Self.uri) == ["L1": ["op": "delete", "entity": "contact"]])
            let opened = try await Self.sync(&device, [:], "2", last: "1", made.anchor(Self.uri))
            #expect(opened.pushed(Self.uri).map { $0.value["set"]?["name"] } == ["Ann"])
        }
    }

    // MARK: Links

    private static let group: PropertyList = ["entity": "group", "fields": ["name": "in"]]
    private static let key = "0f0e0d0c-0000-4000-8000-00000000000a"

    private static func contact(_ groups: [PropertyList]) -> PropertyList {
        ["entity": "contact", "fields": ["name": "Ann", "groups": .array(groups)]]
    }

    /// Nobody has written to the record whose container has been erased.
    @Test func whatIsInNoContainerAnyMoreIsHidden() async throws {
        try await DeviceRig.run { rig in
            var one = Talker(rig, "one"), two = Talker(rig, "two")
            let first = try await one.slow(
                Self.uri, "0", [Self.key: Self.group, "L1": Self.contact([.string(Self.key)])])
            let slow = try await two.slow(Self.uri, "0")
            let contact = try #require(slow.pushed(Self.uri).keys.first { $0 != Self.key })
            let filter: PropertyList = ["constrain_containers": [.string(Self.key)]]
            let shown = try await Self.sync(&two, filter, "1", last: "0", slow.anchor(Self.uri))
            #expect(shown.pushed(Self.uri).isEmpty)
            _ = try await one.fast(
                Self.uri, "1", last: "0", anchor: first.anchor(Self.uri), .changes, [Self.key: ["op": "delete"]])
            let hidden = try await two.fast(Self.uri, "2", last: "1", anchor: shown.anchor(Self.uri))
            #expect(
                hidden.pushed(Self.uri) == [
                    Self.key: ["op": "delete", "entity": "group"], contact: ["op": "delete", "entity": "contact"],
                ])
        }
    }

    /// The device itself erases the container in the session that hides the rest.
    @Test func whatADeviceLeavesInNoContainerIsHidden() async throws {
        try await DeviceRig.run { rig in
            var device = Talker(rig)
            let first = try await device.slow(
                Self.uri, "0", [Self.key: Self.group, "L1": Self.contact([.string(Self.key)])])
            let filter: PropertyList = ["constrain_containers": [.string(Self.key)]]
            let shown = try await Self.sync(&device, filter, "1", last: "0", first.anchor(Self.uri))
            #expect(shown.pushed(Self.uri).isEmpty)
            let hidden = try await device.fast(
                Self.uri, "2", last: "1", anchor: shown.anchor(Self.uri), .changes, [Self.key: ["op": "delete"]])
            #expect(hidden.pushed(Self.uri) == ["L1": ["op": "delete", "entity": "contact"]])
        }
    }

    /// A Realm client's link to a record that was erased meanwhile leads to it again once it is made again.
    /// - Parameter isCutOff: true if the push ends between the two.
    @Test(arguments: [false, true]) func linksToARecordThatIsMadeAgainAreTold(isCutOff: Bool) async throws {
        try await DeviceRig.run { rig in
            var one = Talker(rig, "one"), two = Talker(rig, "two")
            let first = try await one.slow(Self.uri, "0", [Self.key: Self.group, "L1": Self.contact([])])
            var anchors = [first.anchor(Self.uri), try await two.slow(Self.uri, "0").anchor(Self.uri)]
            let realm = try await rig.realmClient()
            try await realm.download()
            try await realm.write { tx in
                let contact = try #require(try tx.objects("Contact").first)
                try contact.list("groups").append(try #require(try tx.objects("Group").first).link)
            }
            func sync(
                _ device: inout Talker, _ number: Int, _ name: Int, _ items: PropertyListDictionary = [:]
            ) async throws -> PropertyListDictionary {
                let answer = try await device.fast(
                    Self.uri, "\(name)", last: "\(name - 1)", anchor: anchors[number], .changes, items)
                anchors[number] = answer.anchor(Self.uri)
                return answer.pushed(Self.uri)
            }
            #expect(try await sync(&one, 0, 1, [Self.key: ["op": "delete"]]).isEmpty)
            try await realm.upload()
            #expect(try await sync(&two, 1, 1) == [Self.key: ["op": "delete", "entity": "group"]])
            #expect(try await sync(&one, 0, 2).isEmpty)
            let links: PropertyList = ["groups": [.string(Self.key)]]
            let added: PropertyList = ["op": "add", "entity": "group", "set": ["name": "in"]]
            // The answer is lost the first time.
            let before = anchors[1]
            for _ in 0..<2 {
                anchors[1] = before
                let made = try await sync(&two, 1, 2, [Self.key: added])
                #expect(made.map { $0.value["set"] } == [links])
            }
            var name = 3
            if isCutOff {
                one.begin()
                let part = try await one.send(
                    .put(uri: "deviceinfo", value: ["model": "test", "max_items": 1], itemType: nil),
                    .start(uri: Self.uri, .with(.fast, next: "3", last: "2", anchor: anchors[0])),
                    .changes(uri: Self.uri, Changes(.changes, [:])))
                #expect(Array(part.pushed(Self.uri).keys) == [Self.key])
                (anchors[0], name) = (part.anchor(Self.uri), 4)
            }
            let told = try await sync(&one, 0, name)
            #expect(told["L1"]?["set"] == links && told.count == (isCutOff ? 1 : 2))
            #expect(isCutOff || told[Self.key]?["op"] == "add")
            #expect(try await sync(&one, 0, name + 1).isEmpty)
            #expect(try await sync(&two, 1, 3).isEmpty)
        }
    }

    /// If the answer was lost that would have deleted it, the device has it still.
    @Test func whatADeviceHasMadeStaysUnderItsIDIfTheAnswerIsLost() async throws {
        try await DeviceRig.run { rig in
            var device = Talker(rig)
            let empty = try await device.slow(Self.uri, "0"), anchor = empty.anchor(Self.uri)
            let added: PropertyListDictionary = ["L1": ["op": "add", "entity": "contact", "set": ["name": "Ann"]]]
            _ = try await Self.sync(&device, Self.nothing, "1", last: "0", anchor, added)
            let opened = try await Self.sync(&device, [:], "1", last: "0", anchor, added)
            #expect(opened.pushed(Self.uri).isEmpty)
        }
    }

    @Test func whatComesAgainHasTheServersIDAndGetsAnother() async throws {
        try await DeviceRig.run { rig in
            var device = Talker(rig), name = 0
            var anchor = try await device.slow(
                Self.uri, "0", ["L1": ["entity": "contact", "fields": ["name": "Ann"]]]
            ).anchor(Self.uri)
            func sync(_ filter: PropertyList, _ items: PropertyListDictionary = [:]) async throws -> Message {
                let answer = try await Self.sync(&device, filter, "\(name + 1)", last: "\(name)", anchor, items)
                name += 1
                anchor = answer.anchor(Self.uri)
                return answer
            }
            #expect(try await sync(Self.nothing).pushed(Self.uri) == ["L1": ["op": "delete", "entity": "contact"]])
            let opened = try await sync([:])
            let id = try #require(opened.pushed(Self.uri).keys.first)
            #expect(id != "L1" && opened.pushed(Self.uri)[id]?["op"] == "add")
            let command = try #require(opened.commands("sync-changes").first)
            var response = command.response([Status(.ok)])
            response.params["idmap"] = [id: "L2"]
            _ = try await device.send(responses: [response], isFinal: true)
            // The new id leads to it, the old one nowhere.
            let edited = try await sync(
                [:], ["L2": ["op": "modify", "set": ["name": "Anna"]], "L1": ["op": "delete"]])
            #expect(edited.codes(3) == [.ok] && edited.pushed(Self.uri).isEmpty)
            var other = Talker(rig, "other")
            let pushed = try await other.slow(Self.uri, "0").pushed(Self.uri)
            #expect(pushed.map { $0.value["fields"]?["name"] } == ["Anna"])
        }
    }
    /// The device has deleted the record that had the first id, and must not give that again.
    @Test(arguments: [true, false]) func aDeviceGivesWhatComesAgainAnotherID(mapsIDs: Bool) async throws {
        try await DeviceRig.run { rig in
            var other = Talker(rig, "other"), options = DeviceOptions()
            _ = try await other.slow(Self.uri, "0", ["L1": ["entity": "contact", "fields": ["name": "Ann"]]])
            options.mapsIDs = mapsIDs
            let contacts = DeviceDataclass(
                uri: Self.uri,
                entities: [
                    .init(name: "contact", fields: ["company", "name"], relationships: ["groups"]),
                    .init(name: "group", fields: ["name"]),
                ])
            let device = try PropertyListDevice(store: ":memory:", dataclasses: [contacts], options: options)
            var talker = Talker(rig, try device.id)
            let service = PropertyListService(
                url: "http://127.0.0.1/ota", userID: rig.user, token: try await rig.token(),
                sender: DeviceLink(rig, cutAt: nil, repeats: false))
            _ = try await device.sync(with: service)
            let first = try #require(try device.records(of: Self.uri).first)
            for (filter, count) in [(Self.nothing, 0), ([:], 1)] {
                talker.begin()
                _ = try await talker.send(Self.filter(filter))
                _ = try await device.sync(with: service)
                #expect(try device.records(of: Self.uri).count == count)
            }
            let second = try #require(try device.records(of: Self.uri).first)
            #expect((second.id == first.id) == !mapsIDs && second.fields == ["name": "Ann"])
            try device.edit([.modify(id: second.id, set: ["company": "Ann's"], clear: [])], of: Self.uri)
            #expect(try await device.sync(with: service).outcomes[0].refused.isEmpty)
            var last = Talker(rig, "last")
            let pushed = try await last.slow(Self.uri, "0").pushed(Self.uri)
            #expect(pushed.map { $0.value["fields"]?["company"] } == ["Ann's"])
        }
    }
}
