import AnabranchOverTheAir
import AnabranchPropertyList
import AnabranchServer
import Testing

@testable import AnabranchOverTheAirWire

/// Anchors and messages that are not what they should be: each is refused, and nothing has changed after it
/// (`Spec/OverTheAirServer.md`, sections 1, 3 and 4).
@Suite(.timeLimit(.minutes(30))) struct HostileMessageTests {
    private static let uri = DeviceRig.notes

    private static func record(_ text: String) -> PropertyList {
        ["entity": "note", "fields": ["text": .string(text)]]
    }

    /// A device that has synced, and what it and others know then.
    fileprivate struct Synced {
        let rig: DeviceRig
        var device: Talker
        var anchor: String
        private var others = 0
        private let content: PropertyListDictionary

        init(_ rig: DeviceRig) async throws {
            self.rig = rig
            device = Talker(rig)
            let records: PropertyListDictionary = [
                "note/a": HostileMessageTests.record("one"), "L1": HostileMessageTests.record("two"),
            ]
            anchor = try #require(
                try await device.slow(HostileMessageTests.uri, "1", records).anchor(HostileMessageTests.uri))
            content = try await Self.content(rig, "other 0")
        }

        private static func content(_ rig: DeviceRig, _ name: String) async throws -> PropertyListDictionary {
            var other = Talker(rig, name)
            let pushed = try await other.slow(HostileMessageTests.uri, "1").pushed(HostileMessageTests.uri)
            #expect(pushed.count == 2)
            return pushed
        }

        /// Everybody has what was there before, and the device goes on from its anchor.
        mutating func expectNothingHasChanged(_ what: String) async throws {
            others += 1
            #expect(try await Self.content(rig, "other \(others)") == content, "\(what)")
            var talker = device
            let answer = try await talker.fast(
                HostileMessageTests.uri, "next \(others)", last: lastName, anchor: anchor)
            #expect(
                answer.codes(1) == [.ok] && answer.header.isFinal && answer.pushed(HostileMessageTests.uri).isEmpty,
                "\(what)")
            (lastName, anchor) = ("next \(others)", try #require(answer.anchor(HostileMessageTests.uri)))
        }

        var lastName = "1"
    }

    @Test func anchorsWithAFlippedBit() async throws {
        try await DeviceRig.run { rig in
            var synced = try await Synced(rig)
            let bytes = Array(synced.anchor.utf8)
            for (number, index) in bytes.indices.enumerated() {
                var flipped = bytes
                // Texts of XML have no control characters.
                flipped[index] ^= flipped[index] < 0x40 ? 1 : 0x20
                let anchor = String(decoding: flipped, as: UTF8.self)
                let item: PropertyListDictionary = ["note/a": ["op": "delete"]]
                var device = synced.device
                let answer = try await device.fast(
                    Self.uri, "bad \(number)", last: synced.lastName, anchor: anchor, .changes, item)
                #expect(answer.codes(1) == [.negotiationFailed] && answer.codes(2) == [.commandNotProcessed])
                #expect(answer.response(1)?.params["anchors"]?["mode"] == "slow")
            }
            try await synced.expectNothingHasChanged("flipped bits")
        }
    }

    @Test func anchorsOfOthers() async throws {
        try await DeviceRig.run { rig in
            var synced = try await Synced(rig)
            var other = Talker(rig, "thief")
            _ = try await other.slow(Self.uri, "1")
            let item: PropertyListDictionary = ["note/a": ["op": "delete"]]
            let answer = try await other.fast(Self.uri, "2", last: "1", anchor: synced.anchor, .changes, item)
            #expect(answer.codes(1) == [.negotiationFailed])
            try await synced.expectNothingHasChanged("another device's anchor")
            // That of another dataclass of the same device.
            var device = synced.device
            device.begin()
            let foreign = try await device.send(
                .start(uri: DeviceRig.contacts, .with(.fast, next: "1", anchor: synced.anchor)))
            #expect(foreign.codes(1) == [.negotiationFailed])
            try await synced.expectNothingHasChanged("another dataclass's anchor")
        }
    }

    @Test func messagesThatComeAgain() async throws {
        try await DeviceRig.run { rig in
            var synced = try await Synced(rig), device = synced.device
            device.begin()
            var sent: [[UInt8]] = [], answers: [Message] = []
            func send(_ body: [MessageItem]) async throws {
                answers.append(try await device.send(body))
                sent.append(device.last)
            }
            try await send([
                device.item(.start(uri: Self.uri, .with(.fast, next: "2", last: "1", anchor: synced.anchor))),
                device.item(
                    .changes(uri: Self.uri, Changes(.changes, ["note/b": ["op": "delete"]])), hasMore: true),
            ])
            try await send([
                device.item(
                    .changes(uri: Self.uri, Changes(.changes, ["L1": ["op": "modify", "set": ["text": "two"]]])),
                    hasMore: true)
            ])
            // Each of them again, in any order, is answered as before, and the session goes on.
            for index in [0, 1, 0] { #expect(try await device.post(sent[index]) == answers[index]) }
            try await send([device.item(.changes(uri: Self.uri, Changes(.changes)))])
            #expect(answers[2].codes(4) == [.ok] && answers[2].header.isFinal)
            for index in [2, 0, 1, 2] { #expect(try await device.post(sent[index]) == answers[index]) }
            synced.anchor = try #require(answers[2].anchor(Self.uri))
            try await synced.expect(name: "2", "messages again")
            // After the session: with its cookie nobody is there, and without it begins one whose changes are known.
            let old = try await device.post(sent[1])
            #expect(old.header.failure?.knownCode == .badRequest)
            device.cookie = nil
            let late = try await device.post(sent[0])
            #expect(late.codes(1) == [.negotiationFailed])
            try await synced.expectNothingHasChanged("messages of an earlier session")
        }
    }

    @Test func answersThatAreNotKept() {
        var messages = AnsweredMessages()
        func digest(_ bytes: Int...) -> MessageDigest { MessageDigest(of: bytes.map { UInt8($0) }) }
        for number in 0..<5 { messages.append(digest(number), Array(repeating: 0, count: 400_000)) }
        guard case .forgotten = messages.answer(to: digest(0)), case .known = messages.answer(to: digest(4)),
            case .new = messages.answer(to: digest(9))
        else {
            Issue.record("an answer that is too old, the last one, and none")
            return
        }
        #expect(messages.byteCount < 1_300_000)
        messages.append(digest(5), Array(repeating: 0, count: 9 << 20))
        guard case .known = messages.answer(to: digest(5)) else {
            Issue.record("the last answer is always kept")
            return
        }
        for number in 0..<3_000 { messages.append(digest(1, number >> 8, number & 255), []) }
        #expect(messages.byteCount < 100_000)
    }

    /// A message that was on its way when the device began anew, and is taken up after all of that.
    @Test func aMessageThatComesAfterAnotherSession() async throws {
        try await DeviceRig.run { rig in
            var synced = try await Synced(rig), device = synced.device
            device.begin()
            let first = try await device.send([
                device.item(.start(uri: Self.uri, .with(.fast, next: "2", last: "1", anchor: synced.anchor))),
                device.item(.changes(uri: Self.uri, Changes(.changes)), hasMore: true),
            ])
            #expect(first.codes(2) == [.notCompleted])
            let cookie = try #require(device.cookie?.split(separator: "=").last)
            let session = try #require(rig.wire.session(String(cookie)))
            try await synced.expectNothingHasChanged("a session that has begun")
            let header = Message.Header(deviceID: device.name, service: "sync", userID: rig.user, sequence: 2)
            let changes = Changes(.changes, ["note/a": ["op": "delete"]])
            let late = Message(header: header, body: [Command.changes(uri: Self.uri, changes).item(3)])
            let received = try ReceivedMessage(try late.encoded(as: .xml), PropertyListLimits())
            let bytes = try await session.answer(received, isAllowed: true, canWrite: true)
            #expect(try Message(parsing: bytes).header.failure?.knownCode == .badRequest)
            try await synced.expectNothingHasChanged("a message that is late")
        }
    }

    /// The reasons for which items are refused may be longer than any answer.
    @Test func whatCannotBeAnsweredIsNotStored() async throws {
        try await DeviceRig.run {
            $0.session.answerBytesMax = 1 << 20
        } _: { rig in
            var device = Talker(rig)
            let items = PropertyListDictionary((0..<10_000).map { ("\($0)", ["entity": "x", "fields": [:]]) }) {
                first, _ in first
            }
            let answer = try await device.slow(Self.uri, "1", items)
            #expect(answer.header.failure?.knownCode == .limitExceeded && answer.body.isEmpty)
            // The name has not been heard of.
            let slow = try await device.slow(Self.uri, "1", ["note/a": Self.record("one")])
            #expect(slow.codes(3) == [.ok])
            var other = Talker(rig, "other")
            #expect(try await other.slow(Self.uri, "1").pushed(Self.uri) == ["note/a": Self.record("one")])
        }
    }

    @Test func namesThatAreTooLongOrOnlyLookTheSame() async throws {
        try await DeviceRig.run { rig in
            var device = Talker(rig)
            let slow = try await device.slow(Self.uri, "1")
            var response = try #require(slow.commands("sync-commit").first).response([Status(.ok)])
            response.params["anchors"] = ["next_device_anchor": .string(String(repeating: "x", count: 257))]
            #expect(try await device.send([response]).header.failure?.knownCode == .limitExceeded)
            let named = try await device.fast(Self.uri, "\u{e9}", last: "1", anchor: slow.anchor(Self.uri))
            #expect(named.codes(1) == [.ok])
            // This is another name, which does not follow the one before the last.
            let other = try await device.fast(Self.uri, "e\u{301}", last: "1", anchor: named.anchor(Self.uri))
            #expect(other.codes(1) == [.negotiationFailed])
        }
    }

    @Test func theWrongOrder() async throws {
        try await DeviceRig.run { rig in
            var synced = try await Synced(rig)
            let begin: [(inout Talker) -> [MessageItem]] = [
                // A message is missing; one has the number of another; a command's number does not rise.
                { device in
                    device.sequence += 1
                    return [device.item(.changes(uri: Self.uri, Changes()))]
                },
                { device in
                    device.sequence -= 1
                    return [device.item(.changes(uri: Self.uri, Changes()))]
                },
                { device in
                    device.commands -= 2
                    return [device.item(.changes(uri: Self.uri, Changes()))]
                },
                { device in
                    device.name = "another"
                    return [device.item(.changes(uri: Self.uri, Changes()))]
                },
            ]
            for (number, spoil) in begin.enumerated() {
                var device = synced.device
                device.begin()
                let first = try await device.send([
                    device.item(
                        .start(
                            uri: Self.uri,
                            .with(.fast, next: "bad \(number)", last: synced.lastName, anchor: synced.anchor))),
                    device.item(
                        .changes(uri: Self.uri, Changes(.changes, ["note/a": ["op": "delete"]])), hasMore: true),
                ])
                #expect(first.codes(2) == [.notCompleted])
                let body = spoil(&device)
                #expect(try await device.send(body).header.failure?.knownCode == .badRequest, "\(number)")
                try await synced.expectNothingHasChanged("wrong order \(number)")
            }
        }
    }

    @Test func theCookieOfAnother() async throws {
        try await DeviceRig.run { rig in
            var synced = try await Synced(rig), device = synced.device
            device.begin()
            let first = try await device.send([
                device.item(.start(uri: Self.uri, .with(.fast, next: "2", last: "1", anchor: synced.anchor))),
                device.item(.changes(uri: Self.uri, Changes(.changes)), hasMore: true),
            ])
            #expect(first.codes(2) == [.notCompleted])
            var thief = Talker(rig, "thief")
            (thief.cookie, thief.sequence, thief.commands) = (device.cookie, device.sequence, device.commands)
            let answer = try await thief.send(
                .changes(uri: Self.uri, Changes(.changes, ["note/a": ["op": "delete"]])))
            #expect(answer.header.failure?.knownCode == .badRequest && answer.body.isEmpty)
            // The session whose cookie it is has noticed nothing.
            let last = try await device.send(.changes(uri: Self.uri, Changes(.changes)))
            #expect(last.codes(3) == [.ok] && last.header.isFinal)
            synced.anchor = try #require(last.anchor(Self.uri))
            try await synced.expect(name: "2", "another's cookie")
        }
    }
}

extension HostileMessageTests.Synced {
    fileprivate mutating func expect(name: String, _ what: String) async throws {
        lastName = name
        try await expectNothingHasChanged(what)
    }
}
