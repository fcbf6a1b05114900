import AnabranchCore
import AnabranchOverTheAir
import AnabranchPropertyList
import AnabranchServer
import NIOHTTP1
import Testing

@testable import AnabranchOverTheAirWire

/// The order of messages, and what becomes of a session that breaks it (`Spec/OverTheAirServer.md`, sections 1 to 4).
@Suite(.timeLimit(.minutes(30))) struct SessionTests {
    private static let uri = DeviceRig.notes

    private static func record(_ text: String) -> PropertyList {
        ["entity": "note", "fields": ["text": .string(text)]]
    }

    @Test(arguments: PropertyList.Form.allCases) func theTableOfModes(form: PropertyList.Form) async throws {
        try await DeviceRig.run { rig in
            var device = Talker(rig, "device", form)
            // A device without anchors has to begin slowly, and may do so in the same session.
            let refused = try await device.send(
                Talker.info, .start(uri: Self.uri, .with(.fast, next: "1")),
                .changes(uri: Self.uri, Changes(.records, ["note/a": Self.record("one")])))
            #expect(refused.codes(1) == [.ok] && refused.codes(2) == [.negotiationFailed])
            #expect(refused.codes(3) == [.commandNotProcessed] && !refused.header.isFinal)
            #expect(refused.response(2)?.params["anchors"]?["mode"] == "slow")
            let slow = try await device.send(
                .start(uri: Self.uri, .with(.slow, next: "2")),
                .changes(uri: Self.uri, Changes(.records, ["note/a": Self.record("one")])))
            #expect(slow.codes(4) == [.ok] && slow.codes(5) == [.ok] && slow.header.isFinal)
            let anchor = try #require(slow.anchor(Self.uri))
            // Fast from there, in one round trip.
            let fast = try await device.fast(Self.uri, "3", last: "2", anchor: anchor)
            #expect(fast.codes(1) == [.ok] && fast.header.isFinal && fast.pushed(Self.uri).isEmpty)
            #expect(fast.commands("sync-commit").count == 1)
            let next = try #require(fast.anchor(Self.uri))
            // Names and anchors that are not those of the last sync.
            let other = Talker(rig, "other", form)
            for (name, last, anchor, talker) in [
                ("4", "2", next, device), ("2", "3", next, device), ("4", "3", nil, device),
                ("4", "3", String(next.reversed()), device), ("4", "3", next + "x", device), ("4", "3", next, other),
            ] as [(String, String, String?, Talker)] {
                var talker = talker
                let answer = try await talker.fast(Self.uri, name, last: last, anchor: anchor)
                #expect(
                    answer.codes(1) == [.negotiationFailed] && answer.codes(2) == [.commandNotProcessed],
                    "\(name) \(last) \(anchor ?? "-")")
                #expect(answer.response(1)?.params["anchors"]?["mode"] == "slow")
            }
            // All of them have changed nothing.
            let again = try await device.fast(Self.uri, "4", last: "3", anchor: next)
            #expect(again.codes(1) == [.ok] && again.header.isFinal)
            // Reset: everything comes.
            device.begin()
            let reset = try await device.send(
                .start(uri: Self.uri, .with(.reset, next: "5")), .changes(uri: Self.uri, Changes()))
            #expect(reset.codes(1) == [.ok] && reset.pushed(Self.uri).count == 1)
            let items = reset.pushed(Self.uri)
            #expect(items["note/a"] == ["op": "add", "entity": "note", "set": ["text": "one"]])
        }
    }

    @Test func twoRefusalsEndADataclass() async throws {
        try await DeviceRig.run { rig in
            var device = Talker(rig)
            for number in 1...2 {
                let answer = try await device.send(.start(uri: Self.uri, .with(.fast, next: "\(number)")))
                #expect(answer.codes(number) == [.negotiationFailed])
            }
            let late = try await device.send(.start(uri: Self.uri, .with(.slow, next: "3")))
            #expect(late.codes(3) == [.stateError])
            // One that does not come again is out, and the others go on.
            device.begin()
            _ = try await device.send(
                Talker.info, .start(uri: Self.uri, .with(.fast, next: "4")),
                .start(uri: DeviceRig.contacts, .with(.slow, next: "1")),
                .changes(uri: DeviceRig.contacts, Changes()))
            let rest = try await device.send()
            #expect(rest.codes(4) == [.ok] && rest.commands("sync-commit").count == 1 && rest.header.isFinal)
        }
    }

    @Test func wrongCommandsEndTheirDataclassAlone() async throws {
        try await DeviceRig.run { rig in
            var device = Talker(rig)
            let answer = try await device.send([
                device.item(.start(uri: "unknown", .with(.slow, next: "1"))),
                device.item(.changes(uri: Self.uri, Changes())),
                device.item(.commit(uri: Self.uri, Anchors())), device.item(.get(uri: "deviceinfo")),
                device.item(.get(uri: "other")), device.item(.put(uri: "deviceinfo", value: 7, itemType: nil)),
                device.item(.cancel(uri: DeviceRig.contacts)), MessageItem("sync-jump", 8, ["uri": "x"]),
                MessageItem("sync-start", 9, ["uri": .string(DeviceRig.contacts), "anchors": [:]]),
            ])
            #expect(
                (1...9).map { answer.codes($0).first } == [
                    .notSupported, .stateError, .commandNotProcessed, .notFound, .notFound, .badValue, .stateError,
                    .unknownCommand, .commandNotProcessed,
                ])
            #expect(answer.response(1)?.result?.first?.paramName == "uri" && answer.header.failure == nil)
            // Changes after the last ones, a second start, a commit before there is anything.
            device.begin()
            let second = try await device.send(
                Talker.info, .start(uri: Self.uri, .with(.slow, next: "1")),
                .start(uri: Self.uri, .with(.slow, next: "2")),
                .start(uri: DeviceRig.contacts, .with(.slow, next: "1")), .changes(uri: DeviceRig.contacts, Changes()))
            #expect(second.codes(2) == [.ok] && second.codes(3) == [.stateError] && second.codes(5) == [.ok])
            #expect(second.pushed(Self.uri).isEmpty && second.commands("sync-commit").count == 1)
        }
    }

    @Test func aCancelledDataclassHasDoneNothing() async throws {
        try await DeviceRig.run { rig in
            var device = Talker(rig)
            let first = try await device.send([
                device.item(Talker.info), device.item(.start(uri: Self.uri, .with(.slow, next: "1"))),
                device.item(.changes(uri: Self.uri, Changes(.records, ["note/a": Self.record("one")])), hasMore: true),
            ])
            #expect(first.codes(3) == [.notCompleted] && !first.header.isFinal)
            let second = try await device.send(
                .cancel(uri: Self.uri), .changes(uri: Self.uri, Changes()), .cancel(uri: Self.uri))
            #expect([4, 5, 6].map { second.codes($0).first } == [.ok, .canceled, .commandNotProcessed])
            let slow = try await device.slow(Self.uri, "2")
            #expect(slow.codes(3) == [.ok] && slow.pushed(Self.uri).isEmpty)
        }
    }

    @Test func changesComeInFragments() async throws {
        try await DeviceRig.run { rig in
            var device = Talker(rig)
            func part(_ key: String, more: Bool) -> MessageItem {
                Command.changes(uri: Self.uri, Changes(.records, [key: Self.record(key)])).item(2, hasMore: more)
            }
            let first = try await device.send([
                device.item(.start(uri: Self.uri, .with(.slow, next: "1"))), part("note/a", more: true),
            ])
            #expect(first.codes(1) == [.ok] && first.codes(2) == [.notCompleted])
            // Who has not said what it is, is asked.
            let question = try #require(first.commands("get").first)
            #expect(question.params["uri"] == "deviceinfo")
            let second = try await device.send([part("note/b", more: false)])
            #expect(second.codes(2) == [.notCompleted] && second.commands("sync-changes").isEmpty)
            var response = question.response([Status(.ok)])
            response.params["value"] = ["model": "x"]
            let third = try await device.send([response])
            #expect(third.codes(2) == [.ok] && third.header.isFinal)
            var other = Talker(rig, "other")
            #expect(try await other.slow(Self.uri, "1").pushed(Self.uri).keys.sorted() == ["note/a", "note/b"])
        }
    }

    @Test func brokenSequencesEndTheSession() async throws {
        try await DeviceRig.run { rig in
            func begun() async throws -> Talker {
                var device = Talker(rig, "device-\(UInt32.random(in: 0 ... .max))")
                let answer = try await device.send(Talker.info)
                #expect(answer.header.failure == nil)
                return device
            }
            var gap = try await begun()
            gap.sequence += 1
            #expect(try await gap.send(Talker.info).header.failure?.knownCode == .badRequest)
            gap.sequence = 1
            #expect(try await gap.send(Talker.info).header.failure?.knownCode == .badRequest)
            var again = try await begun()
            again.sequence = 0
            #expect(try await again.send(.get(uri: "deviceinfo")).header.failure?.knownCode == .badRequest)
            var repeated = try await begun()
            repeated.commands = 0
            #expect(try await repeated.send(Talker.info).header.failure?.knownCode == .badRequest)
            var user = try await begun()
            user.userID = "somebody"
            #expect(try await user.send(Talker.info).header.failure?.knownCode == .badRequest)
            var lost = try await begun()
            lost.cookie = "anabranch-ota=none"
            #expect(try await lost.send(Talker.info).header.failure?.knownCode == .badRequest)
            lost.cookie = nil
            #expect(try await lost.send(Talker.info).header.failure?.knownCode == .badRequest)
            var late = try await begun()
            rig.clock.advance(by: 601)
            #expect(try await late.send(Talker.info).header.failure?.knownCode == .badRequest)
        }
    }

    @Test func anotherDevicesCookieLeavesItsSessionAlone() async throws {
        try await DeviceRig.run { rig in
            var one = Talker(rig, "one"), two = Talker(rig, "two")
            _ = try await one.send(Talker.info)
            two.cookie = one.cookie
            two.sequence = 1
            #expect(try await two.send(Talker.info).header.failure?.knownCode == .badRequest)
            #expect(try await one.send(Talker.info).codes(2) == [.ok])
        }
    }

    @Test func aRepeatedMessageHasTheSameAnswer() async throws {
        try await DeviceRig.run { rig in
            var device = Talker(rig)
            let answer = try await device.slow(Self.uri, "1", ["note/a": Self.record("one"), "L1": Self.record("two")])
            #expect(answer.header.isFinal)
            let message = device.last
            #expect(try await device.post(message) == answer)
            // Also without the cookie, which the answer would have brought.
            device.cookie = nil
            #expect(try await device.post(message) == answer)
            var other = Talker(rig, "other")
            #expect(try await other.slow(Self.uri, "1").pushed(Self.uri).count == 2)
        }
    }

    @Test func whoIsRefused() async throws {
        try await DeviceRig.run { rig in
            var device = Talker(rig)
            device.userID = "ann@example.com"
            #expect(try await device.send(Talker.info).codes(1) == [.ok])
            device.begin()
            device.userID = "bob@example.com"
            #expect(try await device.send(Talker.info).codes(1) == [.notAllowed])
            let message = device.last
            #expect(try await rig.ask(message, authorization: "Bearer x").status == .unauthorized)
            #expect(try await rig.ask(message, authorization: "Basic YTpi").status == .unauthorized)
            #expect(try await rig.ask(message, authorization: "Basic YTpi", isSecure: true).status == .unauthorized)
            let basic = "Basic " + Base64.encode(Array("ann@example.com:secret-word".utf8))
            #expect(try await rig.ask(message, authorization: basic).status == .unauthorized)
            #expect(try await rig.ask(message, authorization: basic, isSecure: true).status == .ok)
            #expect(try await rig.ask(message, method: .GET).status == .methodNotAllowed)
            #expect(try await rig.ask(message, path: "/ota/x").status == .notFound)
            for bytes in [[], Array("bplist00".utf8), Array("<plist>".utf8), Array(message.dropLast(10))] {
                #expect(try await rig.ask(bytes).status == .badRequest)
            }
            let noMessage = try PropertyList.dictionary(["header": [:]]).encoded(as: .xml)
            #expect(try await rig.ask(noMessage).status == .ok)
        }
    }

    @Test func rightsCount() async throws {
        let reading = CallbackAuthorizer { _, _ in .read }
        try await DeviceRig.run(authorizer: reading) { rig in
            var device = Talker(rig)
            let answer = try await device.slow(Self.uri, "1")
            #expect(answer.codes(2) == [.notAllowed])
        }
        try await DeviceRig.run(authorizer: CallbackAuthorizer { _, _ in .none }) { rig in
            var device = Talker(rig)
            let answer = try await device.slow(Self.uri, "1")
            #expect(answer.codes(1) == [.notAllowed])
        }
    }

    /// Any text can be the id of a device.
    @Test func sessionsOfAUserAreBounded() async throws {
        try await DeviceRig.run {
            $0.sessionsPerUserMax = 2
        } _: { rig in
            func first(of device: String) async throws -> HTTPResponseStatus {
                let header = Message.Header(deviceID: device, service: "sync", userID: rig.user, sequence: 1)
                let message = Message(header: header, body: [Talker.info.item(1, hasMore: false)])
                return try await rig.ask(try message.encoded(as: .xml)).status
            }
            for device in ["one", "two"] { #expect(try await first(of: device) == .ok) }
            let third = try await first(of: "three")
            #expect(third == .serviceUnavailable)
            // Another one of the same device takes the place of the first.
            var again = Talker(rig, "two")
            #expect(try await again.slow(Self.uri, "1").codes(2) == [.ok])
            rig.clock.advance(by: rig.wire.settings.sessionSeconds + 1)
            #expect(try await first(of: "three") == .ok)
        }
    }

    /// A session keeps what it is sent until the rest has come. Those of a user leave room for others.
    @Test func whatSessionsKeepIsBounded() async throws {
        try await DeviceRig.run {
            $0.sessionBytesMax = 1 << 20
        } _: { rig in
            var device = Talker(rig)
            _ = try await device.send(Talker.info, .start(uri: Self.uri, .with(.slow, next: "1")))
            func changes(_ id: String, textBytes: Int, hasMore: Bool) -> MessageItem {
                let text = String(repeating: "x", count: textBytes)
                let changes = Changes(.records, ["note/\(id)": Self.record(text)])
                return device.item(.changes(uri: Self.uri, changes), hasMore: hasMore)
            }
            _ = try await device.send([changes("a", textBytes: 150_000, hasMore: true)])
            let header = Message.Header(
                deviceID: device.name, service: "sync", userID: rig.user, sequence: device.sequence + 1)
            let more = Message(header: header, body: [changes("b", textBytes: 150_000, hasMore: true)])
            #expect(try await rig.ask(more.encoded(as: .xml), cookie: device.cookie).status == .serviceUnavailable)
            // Nor is it read then, or with the cookie of another user, whose session has room.
            let spaces = [UInt8](repeating: 0x20, count: 150_000)
            #expect(try await rig.ask(spaces).status == .badRequest)
            #expect(try await rig.ask(spaces, cookie: device.cookie).status == .serviceUnavailable)
            let other = try #require(rig.wire.open("device", "another", DeviceRig.app))
            #expect(rig.wire.hasRoom(for: 150_000, in: other))
            device.cookie = "anabranch-ota=\(other.cookie)"
            #expect(try await device.post(spaces).header.failure?.knownCode == .badRequest)
        }
    }

    /// Sessions stay for a while after their end, in case that an answer was lost; but not in the way of others.
    @Test func sessionsAtTheirEndMakeRoom() async throws {
        try await DeviceRig.run {
            $0.sessionsMax = 2
        } _: { rig in
            var one = Talker(rig, "one"), two = Talker(rig, "two"), three = Talker(rig, "three")
            let answer = try await one.slow(Self.uri, "1")
            #expect(answer.header.isFinal)
            _ = try await two.send(Talker.info, .start(uri: Self.uri, .with(.slow, next: "1")))
            // The first device may have ids to tell, and a name.
            #expect(rig.wire.open("three", rig.user, DeviceRig.app) == nil)
            let responses = answer.body.filter { !$0.isResponse }.map { $0.response([Status(.ok)]) }
            let ended = try await one.send(responses), bytes = one.last
            #expect(try await one.post(bytes) == ended)
            #expect(try await three.slow(Self.uri, "1").codes(2) == [.ok])
            // The one that is under way goes on.
            #expect(try await two.send(.changes(uri: Self.uri, Changes(.records))).codes(3) == [.ok])
        }
    }

    @Test func devicesAreBounded() async throws {
        try await DeviceRig.run {
            $0.door.devicesMax = 2
        } _: { rig in
            for name in ["one", "two"] {
                var device = Talker(rig, name)
                let answer = try await device.slow(Self.uri, "1")
                #expect(answer.codes(2) == [.ok])
            }
            var third = Talker(rig, "three")
            let answer = try await third.slow(Self.uri, "1")
            #expect(answer.codes(1) == [.limitExceeded])
        }
    }
}
