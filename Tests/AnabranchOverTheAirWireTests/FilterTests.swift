import AnabranchOverTheAir
import AnabranchOverTheAirDevice
import AnabranchPropertyList
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
