import AnabranchCore
import AnabranchHistory
import AnabranchOverTheAir
import AnabranchPropertyList
import AnabranchServer
import Testing

@testable import AnabranchOverTheAirWire

/// Operators' view of devices, and their actions (`Spec/OverTheAirServer.md`, section 9).
@Suite(.timeLimit(.minutes(30))) struct OperatingTests {
    private static let uri = DeviceRig.contacts

    private static func contact(_ fields: PropertyListDictionary) -> PropertyList {
        ["entity": "contact", "fields": .dictionary(fields)]
    }

    @Test func aMatchIsTriedWithoutWriting() async throws {
        try await DeviceRig.run { rig in
            var one = Talker(rig, "one")
            _ = try await one.slow(
                Self.uri, "1",
                [
                    "L1": Self.contact(["name": "Ann", "company": "c", "email": "a@b.c"]),
                    "L2": Self.contact(["name": "Bob"]), "L3": Self.contact(["name": "Cat"]),
                ])
            let records: PropertyList = [
                "x": Self.contact(["name": "ANN", "company": "c", "number": "7"]), "y": Self.contact(["name": "Bob"]),
                "z": Self.contact(["name": "Dan"]), "w": ["entity": "planet", "fields": [:]],
            ]
            let text = Base64.encode(try records.encoded(as: .binary))
            let arguments: [String: JSONValue] = ["dataclass": .string(Self.uri), "records": .string(text)]
            let answer = try await rig.wire.act("match", on: rig.path, arguments)
            #expect(answer.audit == nil)
            let matches = try #require(answer.answer["matches"]?.array)
            func match(_ id: String) -> JSONValue? { matches.first { $0["id"] == .string(id) } }
            #expect(matches.count == 3 && match("x")?["by"] == "identity" && match("y")?["by"] == "fields")
            #expect(match("z")?["by"] == "new" && match("z")?["record"] == .null)
            #expect(match("x")?["from_device"] == ["name", "number"] && match("x")?["from_server"] == ["email"])
            #expect(match("y")?["from_device"] == [] && answer.answer["refused"]?.array?.count == 1)
            // The e-mail address of one, and the record that the device lacks.
            #expect(answer.answer["pushed"] == 2)
            // What is tried is what happens, and it had not happened.
            var two = Talker(rig, "two")
            let pushed = try await two.slow(Self.uri, "1", records.dictionary ?? [:]).pushed(Self.uri)
            #expect(pushed.count == 2 && pushed["x"]?["fields"]?["email"] == "a@b.c")
            // Of a device that has synced, the ids count, and the server's values.
            let again = try await rig.wire.act(
                "match", on: rig.path, arguments.merging(["device": "two"]) { $1 })
            let known = again.answer["matches"]?.array?.first { $0["id"] == "z" }
            #expect(known?["by"] == "id")
        }
    }

    @Test(arguments: [nil, "one"]) func devicesAreReset(device: String?) async throws {
        try await DeviceRig.run { rig in
            var talkers = [Talker(rig, "one"), Talker(rig, "two")], anchors: [String] = []
            for index in talkers.indices {
                anchors.append(try #require(try await talkers[index].slow(Self.uri, "1").anchor(Self.uri)))
            }
            var arguments: [String: JSONValue] = ["dataclass": .string(Self.uri)]
            arguments["device"] = device.map { .string($0) }
            let answer = try await rig.wire.act("reset", on: rig.path, arguments)
            #expect(answer.audit != nil)
            for index in talkers.indices {
                let start = try await talkers[index].fast(Self.uri, "2", last: "1", anchor: anchors[index])
                guard device == nil || index == 0 else {
                    #expect(start.codes(1) == [.ok])
                    continue
                }
                #expect(start.codes(1) == [.negotiationFailed])
                let wanted = try #require(start.response(1)?.params["anchors"])
                #expect(wanted["mode"] == "reset")
                var reset = Anchors.with(.reset, next: "3", last: "1")
                reset.resetAnchor = wanted["reset_anchor"]?.string
                let done = try await talkers[index].send(
                    .start(uri: Self.uri, reset), .changes(uri: Self.uri, Changes()))
                #expect(done.codes(3) == [.ok] && done.anchor(Self.uri) != nil)
                talkers[index].begin()
                var next = Anchors.with(.fast, next: "4", last: "3", anchor: done.anchor(Self.uri))
                next.resetAnchor = reset.resetAnchor
                let fast = try await talkers[index].send(
                    .start(uri: Self.uri, next), .changes(uri: Self.uri, Changes()))
                #expect(fast.codes(1) == [.ok])
            }
            let devices = try await rig.wire.act("devices", on: rig.path, [:]).answer["devices"]?.array
            #expect(devices?.map { $0["device"]?.string ?? "" }.sorted() == ["one", "two"])
            #expect(devices?.first?["dataclasses"]?.array?.first?["dataclass"] == .string(Self.uri))
        }
    }

    @Test func sessionsAreShownWhileTheyAreOpen() async throws {
        try await DeviceRig.run { rig in
            var one = Talker(rig, "one")
            _ = try await one.slow(Self.uri, "1")
            let shown = rig.wire.channels(of: rig.path)
            #expect(shown.map(\.client) == ["one"] && shown.map(\.user) == [rig.user])
            #expect(shown.map(\.openedAt) == [rig.clock.now])
            rig.clock.advance(by: 86_400)
            #expect(rig.wire.channels(of: rig.path).isEmpty)
        }
    }

    @Test func whatCannotBeDone() async throws {
        try await DeviceRig.run { rig in
            var one = Talker(rig, "one")
            _ = try await one.slow(Self.uri, "1")
            let wrong: [(String, [String: JSONValue])] = [
                ("jump", ["dataclass": .string(Self.uri)]), ("reset", [:]), ("reset", ["dataclass": "planets"]),
                ("reset", ["dataclass": .string(Self.uri), "device": "nobody"]), ("reset", ["dataclass": 7]),
                ("match", ["dataclass": .string(Self.uri)]),
                ("match", ["dataclass": .string(Self.uri), "records": "?"]),
            ]
            for (action, arguments) in wrong {
                await #expect(throws: DoorActionError.self, "\(action) \(arguments)") {
                    try await rig.wire.act(action, on: rig.path, arguments)
                }
            }
        }
    }
}
