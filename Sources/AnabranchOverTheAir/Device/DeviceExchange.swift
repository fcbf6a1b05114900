package import AnabranchCore
package import AnabranchPropertyList

/// The bounds of a device's session.
package struct DeviceLimits: Sendable {
    /// The items that the device puts into a message.
    package var itemsMax = 2_000
    /// The bytes of items that the device puts into a message. A single item may be longer.
    package var itemBytesMax = 1 << 20
    /// The most messages in a row without an effect, after which the device ends the session.
    package var idleMax = 1_000
    /// The bytes of items that the device keeps in memory until the server sends a checkpoint.
    package var receivedBytesMax = 512 << 20

    package init() {}
}

/// The device's side of a session with a server (`Spec/OverTheAirDevice.md`, section 2): a value without I/O and clock.
/// The device sends ``message(_:)`` and gives the answer to ``take(_:_:)``, until there is no message any more.
package struct DeviceExchange: Sendable {
    /// The reason why a session has ended before its end.
    package struct EndedError: Error, Sendable {
        package var status: Status
    }

    /// The state of a dataclass.
    enum Phase {
        case starts
        case sends
        /// Everything is sent; the server answers, and sends its own changes.
        case waits
        /// The server has sent everything and leaves the commit to the device, which comes next or is to be answered.
        case commits
        case done
        case failed(Status)

        var isEnd: Bool {
            switch self {
            case .done, .failed: true
            default: false
            }
        }
    }

    /// The outcome for a dataclass.
    package struct Outcome: Sendable {
        package var mode = Anchors.Mode.fast
        /// The items that the device has sent, of those under the name that counted last.
        package var sent = 0
        /// The items that have come.
        package var received = 0
        /// The items of the device that the server has refused.
        package var failures: [ExactString: Status] = [:]
        /// The values of others that have lost against the device's, and these, by the ids of records and by fields.
        package var conflicts: PropertyListDictionary = [:]
        /// The reason why nothing, or not everything, was exchanged.
        package var failure: Status?
        /// The reasons that the server has given for another mode.
        package var refusals: [String] = []
    }

    private struct ClassState {
        var phase = Phase.starts
        var next = 0
        var count = 0
        var received = Received(name: "")
        /// True once the server's last changes have come.
        var isComplete = false
        /// About the bytes of its items.
        var receivedBytes = 0
        var outcome = Outcome()
    }

    private enum Asked {
        case information
        case start(String)
        case ids(String)
        case changes(String, isLast: Bool)
        case commit(String)
    }

    private let header: Message.Header
    private let limits: DeviceLimits
    private let order: [String]
    private var classes: [String: ClassState] = [:]
    private var asked: [Int: Asked] = [:]
    private var commands = 0
    private var sequence = 0
    private var idle = 0
    /// The responses to the commands of the last answer.
    private var responses: [MessageItem] = []
    private var isServerFinal = false, isFinal = false

    /// - Parameter uris: the dataclasses that are synced.
    package init(
        deviceID: String, service: String, userID: String, uris: [String], limits: DeviceLimits = DeviceLimits()
    ) {
        header = Message.Header(deviceID: deviceID, service: service, userID: userID, sequence: 0)
        (order, self.limits) = (uris, limits)
        for uri in uris { classes[uri] = ClassState() }
    }

    /// The outcome for each dataclass.
    package var outcomes: [(uri: String, outcome: Outcome)] {
        order.map { ($0, classes[$0]?.outcome ?? Outcome()) }
    }

    // MARK: Messages

    /// The next message; nil at the end.
    package mutating func message(_ data: inout any DeviceData) throws -> Message? {
        guard !isFinal else { return nil }
        let isEnd = sequence > 0 && order.allSatisfy { classes[$0]?.phase.isEnd ?? true }
        if isEnd, isServerFinal, responses.isEmpty { return nil }
        sequence += 1
        var header = header, body = responses
        (header.sequence, responses) = (sequence, [])
        if isEnd {
            (header.isFinal, isFinal) = (true, true)
            return Message(header: header, body: body)
        }
        guard !isServerFinal else {
            throw EndedError(status: Status(.failed, "the server has ended the session before it was complete"))
        }
        if sequence == 1 {
            let information = try data.information()
            if !information.isTold {
                body.append(ask(.information, .put(uri: "deviceinfo", value: information.value, itemType: nil)))
            }
        }
        for uri in order { if case .starts? = classes[uri]?.phase { body += try start(uri, &data) } }
        for uri in order where classes[uri]?.isComplete ?? false {
            if case .waits? = classes[uri]?.phase { body.append(commit(uri)) }
        }
        body += try slices(&data)
        return Message(header: header, body: body)
    }

    private mutating func ask(_ asked: Asked, _ command: Command, hasMore: Bool = false) -> MessageItem {
        commands += 1
        self.asked[commands] = asked
        return command.item(commands, hasMore: hasMore)
    }

    private mutating func start(_ uri: String, _ data: inout any DeviceData) throws -> [MessageItem] {
        let named = try data.named(uri)
        var state = classes[uri] ?? ClassState()
        (state.phase, state.next, state.count) = (.sends, 0, named.count)
        state.received = Received(name: named.anchors.nextDeviceAnchor ?? "")
        state.receivedBytes = 0
        (state.outcome.mode, state.outcome.sent) = (named.mode, named.count)
        classes[uri] = state
        var items = [ask(.start(uri), .start(uri: uri, named.anchors))]
        if !named.idMap.isEmpty { items.append(ask(.ids(uri), .changes(uri: uri, Changes(idMap: named.idMap)))) }
        return items
    }

    /// The commit of a dataclass that the server does not commit itself.
    private mutating func commit(_ uri: String) -> MessageItem {
        classes[uri]?.phase = .commits
        var anchors = Anchors()
        anchors.nextDeviceAnchor = classes[uri]?.received.name
        return ask(.commit(uri), .commit(uri: uri, anchors))
    }

    /// As many of the device's changes as fit a message.
    private mutating func slices(_ data: inout any DeviceData) throws -> [MessageItem] {
        var body: [MessageItem] = [], items = limits.itemsMax, bytes = limits.itemBytesMax
        for uri in order {
            while case .sends? = classes[uri]?.phase, items > 0, bytes > 0, let state = classes[uri] {
                let (changes, next) = try data.slice(of: uri, from: state.next, itemsMax: items, bytesMax: bytes)
                items -= changes.items.count
                bytes -= Self.byteCount(of: changes)
                let isLast = next >= state.count
                let command = Command.changes(uri: uri, changes)
                body.append(ask(.changes(uri, isLast: isLast), command, hasMore: !isLast))
                classes[uri]?.next = next
                if isLast { classes[uri]?.phase = .waits }
            }
        }
        return body
    }

    /// About the bytes of items in a message.
    private static func byteCount(of changes: Changes) -> Int {
        changes.items.reduce(0) { $0 + $1.value.messageByteCount + $1.key.utf8.count + 24 }
    }

    // MARK: Answers

    /// Takes the answer to the last message.
    /// - Throws: `EndedError` if the server has ended the session; what `data` throws. The session cannot go on then.
    package mutating func take(_ answer: Message, _ data: inout any DeviceData) throws {
        if let failure = answer.header.failure { throw EndedError(status: failure) }
        guard answer.header.sequence == sequence else {
            throw EndedError(status: Status(.badRequest, "a message of the server was lost"))
        }
        isServerFinal = isServerFinal || answer.header.isFinal
        if isFinal {
            for uri in order { if case .done? = classes[uri]?.phase { try data.markIDsKnown(uri) } }
        }
        var isIdle = true
        for item in answer.body where item.isResponse {
            if item.result?.first?.knownCode.syncEffect != .waits { isIdle = false }
            try takeResponse(item, &data)
        }
        for item in answer.body where !item.isResponse {
            isIdle = false
            responses.append(try respond(to: item, &data))
        }
        let isSending = classes.values.contains { if case .sends = $0.phase { true } else { false } }
        idle = isIdle && !isSending ? idle + 1 : 0
        guard idle <= limits.idleMax else {
            throw EndedError(status: Status(.failed, "the server does not go on"))
        }
    }

    private mutating func takeResponse(_ item: MessageItem, _ data: inout any DeviceData) throws {
        guard let result = item.result, let first = result.first, let question = asked[item.sequence] else { return }
        let effect = first.knownCode.syncEffect
        if effect == .waits || item.hasMore { return }
        asked[item.sequence] = nil
        if effect == .sessionEnds { throw EndedError(status: first) }
        switch question {
        case .information:
            guard effect == .none else { throw EndedError(status: first) }
            try data.markInformationTold()
        case .start(let uri):
            if effect == .startFails {
                let wanted = try item.params["anchors"].map { try Anchors($0) } ?? Anchors()
                classes[uri]?.outcome.refusals.append(first.description ?? "")
                guard classes[uri]?.outcome.refusals.count ?? 0 < 2 else { return fail(uri, first) }
                try data.renegotiate(uri, wanted)
                classes[uri]?.phase = .starts
            } else if effect != .none {
                fail(uri, first)
            }
        case .ids(let uri): if effect == .none { try data.markIDsKnown(uri) }
        case .changes(let uri, let isLast):
            switch effect {
            case .none:
                let failures = result.failuresOfItems ?? [:]
                classes[uri]?.received.failures.merge(failures) { $1 }
                classes[uri]?.outcome.failures.merge(failures) { $1 }
                if isLast { classes[uri]?.received.isAnswered = true }
            case .commandFails: break
            default: fail(uri, first)
            }
        case .commit(let uri):
            guard effect == .none, let received = classes[uri]?.received else { return fail(uri, first) }
            classes[uri]?.outcome.failures.merge(result.failuresOfItems ?? [:]) { $1 }
            try data.take(received, try item.params["anchors"].map { try Anchors($0) } ?? Anchors(), of: uri)
            classes[uri]?.received.chunks = []
            classes[uri]?.receivedBytes = 0
            classes[uri]?.phase = .done
            // The responses to the server's changes were in the same message, or before.
            try data.markIDsKnown(uri)
        }
    }

    /// Ends the exchange of a dataclass, which goes on from its last checkpoint the next time.
    private mutating func fail(_ uri: String, _ status: Status) {
        guard classes[uri]?.phase.isEnd == false else { return }
        classes[uri]?.phase = .failed(status)
        classes[uri]?.outcome.failure = status
        classes[uri]?.received.chunks = []
        classes[uri]?.receivedBytes = 0
    }

    // MARK: Commands of the server

    private mutating func respond(to item: MessageItem, _ data: inout any DeviceData) throws -> MessageItem {
        do {
            return try carryOut(try Command(item), item, &data)
        } catch let status as Status {
            return item.response([status])
        }
    }

    private mutating func carryOut(
        _ command: Command, _ item: MessageItem, _ data: inout any DeviceData
    ) throws -> MessageItem {
        var response = item.response([Status(.ok)])
        switch command {
        case .get("deviceinfo"):
            response.params["value"] = try data.information().value
            try data.markInformationTold()
        case .get: throw Status(.notFound, paramName: "uri")
        case .put, .delete, .start: throw Status(.notSupported, paramName: "uri")
        case .changes(let uri, let changes):
            guard case .waits? = classes[uri]?.phase, var received = classes[uri]?.received, received.isAnswered else {
                throw Status(.stateError, "no changes are expected", paramName: "uri")
            }
            // Invalid items are reported, and the others are applied.
            var understood = changes, failures: [Status] = []
            for (id, value) in changes.items {
                if let conflict = value["conflict"]?.dictionary {
                    classes[uri]?.outcome.conflicts[id] = .dictionary(conflict)
                }
                do { _ = try changes.item(id) } catch {
                    understood.items[id] = nil
                    failures.append(error)
                }
            }
            let ids = try data.newIDs(for: understood, of: uri, received)
            for (id, local) in ids { received.idMap[id] = local }
            received.chunks.append(understood)
            classes[uri]?.outcome.received += understood.items.count
            classes[uri]?.receivedBytes += Self.byteCount(of: understood)
            if let anchors = changes.anchors, anchors.nextServerAnchor != nil {
                try data.take(received, anchors, of: uri)
                received.chunks = []
                received.idMap = [:]
                classes[uri]?.receivedBytes = 0
            }
            guard classes.values.reduce(0, { $0 + $1.receivedBytes }) <= limits.receivedBytesMax else {
                let reason = "the server sends more than \(limits.receivedBytesMax) bytes without a checkpoint"
                throw EndedError(status: Status(.failed, reason))
            }
            classes[uri]?.received = received
            classes[uri]?.isComplete = !item.hasMore
            response.result = [Status](failures: failures)
            if !ids.isEmpty { response.params["idmap"] = .dictionary(ids) }
        case .commit(let uri, let anchors):
            guard case .waits? = classes[uri]?.phase, let received = classes[uri]?.received, received.isAnswered else {
                throw Status(.stateError, "nothing is to be committed", paramName: "uri")
            }
            try data.take(received, anchors, of: uri)
            classes[uri]?.received.chunks = []
            classes[uri]?.receivedBytes = 0
            classes[uri]?.phase = .done
        case .cancel(let uri): fail(uri, Status(.canceled, "the server has cancelled it"))
        }
        return response
    }
}
