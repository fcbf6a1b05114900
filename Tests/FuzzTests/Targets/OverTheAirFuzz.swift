import AnabranchCore
import AnabranchOverTheAir
import AnabranchPropertyList

/// A message that is understood is written so that it reads the same, and so are its commands and their items.
func fuzzOverTheAirMessage(_ bytes: [UInt8]) -> String? {
    guard let message = try? Message(parsing: bytes) else { return nil }
    for form in PropertyList.Form.allCases {
        guard let written = try? message.encoded(as: form) else { continue }
        do throws(MessageError) {
            guard try Message(parsing: written) == message else { return "written as \(form), it reads differently" }
        } catch {
            guard error.code == .limitExceeded else { return "written as \(form), it is not understood: \(error)" }
        }
    }
    for item in message.body {
        guard let command = try? Command(item) else { continue }
        guard (try? Command(command.item(item.sequence))) == command else { return "a command changes: \(command)" }
        guard case .changes(_, let changes) = command else { continue }
        for id in changes.items.keys {
            guard let item = try? changes.item(id) else { continue }
            let again = Changes(changes.itemType, [id: Changes.propertyList(item)])
            guard (try? again.item(id)) == item else { return "an item changes: \(item)" }
        }
    }
    return problemOfSession(message) ?? problemOfDevice(message)
}

/// Whatever a device sends, twice in a session, each command is answered once.
private func problemOfSession(_ message: Message) -> String? {
    var session = DeviceSession(serverID: "server"), data = SomeData(), last = 0
    for sequence in 1...2 {
        var message = message
        message.header.sequence = sequence
        for index in message.body.indices where !message.body[index].isResponse {
            last += 1
            message.body[index].sequence = last
        }
        guard let answer = try? session.receive(message, bytes: 100, isAllowed: true, &data) else {
            return "the session throws"
        }
        guard answer.header.failure == nil, message.header.failure == nil else { continue }
        let asked = message.body.filter { !$0.isResponse }.map(\.sequence)
        let answered = answer.body.filter(\.isResponse).map(\.sequence)
        guard answered.filter(Set(asked).contains) == asked else { return "asked \(asked), answered \(answered)" }
    }
    return nil
}

/// Whatever a server answers, the device ends or answers each command once.
private func problemOfDevice(_ answer: Message) -> String? {
    var data: any DeviceData = SomeData()
    var device = DeviceExchange(deviceID: "d", service: "s", userID: "u", uris: ["uri", "other"])
    for sequence in 1...3 {
        guard let message = try? device.message(&data) else { return nil }
        guard message.header.sequence == sequence else { return "message \(sequence) has another number" }
        var answer = answer
        answer.header.sequence = sequence
        answer.header.failure = nil
        do { try device.take(answer, &data) } catch { return nil }
    }
    return nil
}

/// Data of either side that take everything.
private struct SomeData: SessionData, DeviceData {
    func start(_ uri: String, _ anchors: Anchors) throws {
        guard anchors.mode != .reset else { throw StartRefusal(anchors, "another mode") }
    }
    func takeIDs(_ idMap: PropertyListDictionary, of uri: String, from push: (Push, sent: Int)?) throws {}
    func hasDeviceInfo() throws -> Bool { true }
    func value(of uri: String) throws -> PropertyList { throw Status(.notFound) }
    func set(_ value: PropertyList?, of uri: String) throws {}
    func mingle(_ pulls: [Pull]) throws -> [Mingled] {
        pulls.map { pull in
            let ids = pull.commands.flatMap { $0.changes.items.keys }
            let items = ids.map { Push.Item(id: $0, value: ["op": "delete"], byteCount: 300_000, place: [0, 0]) }
            var failures: [ExactString: Status] = [:]
            if let id = ids.first { failures[ExactString(id)] = Status(.badValue, paramName: "items", paramKey: id) }
            return Mingled(
                failures: failures,
                push: Push(.changes, items, isSplit: items.count % 2 == 0, hasCheckpoints: true, context: [:]),
                waitsForCommit: pull.uri.utf8.count % 2 == 0)
        }
    }
    func commit(_ uris: [String]) throws -> [[ExactString: Status]] {
        uris.map { uri in [ExactString(uri): Status(.badValue, paramName: "items", paramKey: uri)] }
    }
    func forget(_ uri: String) throws {}
    func anchor(of push: Push, after count: Int?, _ uri: String) throws -> String? { "anchor" }
    func rename(_ uri: String, to name: String) throws {}

    func information() throws -> (value: PropertyList, isTold: Bool) { ([:], false) }
    func markInformationTold() throws {}
    func named(_ uri: String) throws -> NamedChanges {
        var anchors = Anchors()
        anchors.nextDeviceAnchor = "name"
        return NamedChanges(anchors: anchors, count: 3, idMap: ["server": "local"])
    }
    func slice(
        of uri: String, from ordinal: Int, itemsMax: Int, bytesMax: Int
    ) throws -> (items: Changes, next: Int) {
        (Changes(.changes, ["\(ordinal)": ["op": "delete"]]), ordinal + 2)
    }
    func renegotiate(_ uri: String, _ wanted: Anchors) throws {}
    func newIDs(for items: Changes, of uri: String, _ received: Received) throws -> PropertyListDictionary { [:] }
    func take(_ received: Received, _ anchors: Anchors, of uri: String) throws {}
    func markIDsKnown(_ uri: String) throws {}
}
