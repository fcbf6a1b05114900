import AnabranchCore
import AnabranchPropertyList

/// The bounds of a session.
package struct SessionLimits: Sendable {
    /// The bytes of messages whose changes wait for the rest.
    package var pulledBytesMax = 32 << 20
    /// The dataclasses of a session.
    package var classesMax = 64
    /// The items of a message of the server.
    package var itemsMax = 5_000
    /// The bytes of the items of a message of the server. A single item may be longer.
    package var itemBytesMax = 1 << 20
    /// The bytes of a message of the server. One that makes the answer longer is not processed.
    package var answerBytesMax = 32 << 20

    package init() {}
}

/// The server's side of a session with a device (`Spec/OverTheAirServer.md`, section 3): a value without I/O and clock.
/// Each message is answered with one.
package struct DeviceSession: Sendable {
    enum Phase {
        /// The start was refused and may come again, once.
        case refused
        /// The device sends its changes.
        case pull
        /// All of them are there, and other dataclasses are not yet ready.
        case wait
        /// The server sends.
        case push
        /// Everything is sent, and the device is to commit it.
        case uncommitted
        /// The device has just committed it.
        case committing
        /// Everything is sent.
        case commit
        /// The exchange was ended by a commit of the device.
        case done
        /// It has failed.
        case ended
        /// Either side has cancelled it.
        case canceled
    }

    struct ClassState {
        var phase = Phase.refused
        var pull: Pull
        var refusals = 0
        /// The message whose start was refused.
        var refusedAt = 0
        var push: Push?
        var sent = 0
        /// True if it is the device that commits.
        var waitsForCommit = false
        /// The anchors of the commit, of either side.
        var committed: Anchors?
        /// The number of the device's commit.
        var commit = 0
    }

    /// A command of the server's that waits for its response.
    enum Asked {
        case deviceInfo
        case changes(String, sent: Int)
        case commit(String)
    }

    package let limits: SessionLimits
    private let serverID: String
    /// The header of the first message.
    private var peer: Message.Header?
    private(set) var received = 0
    private var sent = 0
    private var pulledBytes = 0
    /// About the bytes of changes and pushes that wait.
    package private(set) var heldBytes = 0
    var lastCommand = 0
    /// The name and dataclass of the command whose fragments go on.
    var openCommand: (name: String, uri: PropertyList?)?
    var askedCount = 0
    var asked: [Int: Asked] = [:]
    /// The dataclasses in the order in which they came.
    var order: [String] = []
    var classes: [String: ClassState] = [:]
    /// True once the server has said that it has no more commands.
    private(set) var isFinal = false
    /// True once the device has said that it is at the end.
    private var isDeviceFinal = false
    /// True if no message is taken any more.
    package private(set) var isOver = false
    /// True if the device has nothing more to say that counts. After `isFinal` it still answers the last commands, with
    /// its ids of new records and another name of its changes.
    package var isAtEnd: Bool { isOver || isFinal && (isDeviceFinal || asked.isEmpty) }

    package init(serverID: String, limits: SessionLimits = SessionLimits()) {
        (self.serverID, self.limits) = (serverID, limits)
    }

    /// How many messages of the device it has taken.
    package var messageCount: Int { received }

    // MARK: Messages

    /// Takes a message and answers it. If it throws, the session is not to be used further: its state is undefined. The
    /// message, which may be long, is given up before its changes are merged.
    /// - Parameters:
    ///   - bytes: the length of the message.
    ///   - isAllowed: false if the device may not act for the account: each command is refused.
    /// - Throws: what `data` throws, a failure of the store.
    package mutating func receive(
        _ message: consuming Message, bytes: Int, isAllowed: Bool, _ data: inout some SessionData
    ) throws -> Message {
        var message = message
        if let reason = fault(of: message) { return refusal(Status(.badRequest, reason), of: message.header) }
        peer = peer ?? message.header
        received = message.header.sequence
        if message.header.failure != nil {
            cancelAll()
            isOver = true
            return answer([], isFinal: true)
        }
        pulledBytes += bytes
        guard pulledBytes <= limits.pulledBytesMax else {
            return refusal(Status(.limitExceeded, "more changes than a session may have"), of: message.header)
        }
        if isAllowed { for item in message.body where item.isResponse { try take(item, &data) } }
        var responses: [MessageItem] = []
        var failed: Set<PropertyList> = []
        for item in message.body where !item.isResponse {
            lastCommand = item.sequence
            openCommand = item.hasMore ? (item.name, item.params["uri"]) : nil
            if isAllowed {
                responses += try respond(to: item, &failed, &data)
            } else {
                responses.append(item.response([Status(.notAllowed, "another user's account", paramName: "uri")]))
            }
        }
        responses += try commit(&data)
        let blanks = message.body.filter { !$0.isResponse }.map { $0.response([]) }
        message.body = []
        // A refused start has to come again with the next message.
        for uri in order where classes[uri]?.phase == .refused && classes[uri]?.refusedAt != received {
            classes[uri]?.phase = .ended
        }
        // A device that is at the end gets no more commands.
        if message.header.isFinal {
            isDeviceFinal = true
            for uri in order where isUnderWay(uri) { end(uri) }
        }
        var commands: [MessageItem] = []
        if !isFinal, isAllowed {
            if order.contains(where: isBeforeMingle), try !data.hasDeviceInfo() {
                if !asksForInfo { commands.append(ask(.deviceInfo, .get(uri: "deviceinfo"))) }
            } else {
                responses += try mingleIfReady(&data)
                commands += try pushed(&data)
            }
        }
        responses += unanswered(blanks, responses)
        if !order.contains(where: isBeforeMingle) { pulledBytes = 0 }
        heldBytes = pulledBytes
        for state in classes.values { heldBytes += state.push?.items.reduce(0) { $0 + $1.byteCount + 64 } ?? 0 }
        responses.sort { $0.sequence < $1.sequence }
        return answer(responses + commands, isFinal: message.header.isFinal || isComplete)
    }

    private func isBeforeMingle(_ uri: String) -> Bool {
        [.refused, .pull, .wait].contains(classes[uri]?.phase ?? .ended)
    }

    private func isUnderWay(_ uri: String) -> Bool {
        isBeforeMingle(uri) || [.push, .uncommitted].contains(classes[uri]?.phase ?? .ended)
    }

    private var asksForInfo: Bool { asked.values.contains { if case .deviceInfo = $0 { true } else { false } } }

    /// The preliminary responses to changes whose outcome is not known yet, or never will be.
    /// - Parameter blanks: responses to all commands, without a result.
    private func unanswered(_ blanks: [MessageItem], _ responses: [MessageItem]) -> [MessageItem] {
        let answered = Set(responses.map(\.sequence))
        return blanks.filter { !answered.contains($0.sequence) }.map { blank in
            let phase = blank.params["uri"]?.string.flatMap { classes[$0]?.phase }
            return blank.response([
                Status(phase == .canceled ? .canceled : phase == .ended ? .failed : .notCompleted)
            ])
        }
    }

    /// The reason for which a message ends the session; nil if it fits.
    private func fault(of message: Message) -> String? {
        let header = message.header
        guard !isOver else { return "the session has ended" }
        guard header.sequence == received + 1 else {
            return "/header/sequence: \(header.sequence) where \(received + 1) is expected"
        }
        if let peer {
            let isSame =
                peer.deviceID == header.deviceID && peer.service == header.service && peer.userID == header.userID
            guard isSame else { return "/header: deviceid, service and userid are those of another session" }
        }
        var last = lastCommand, open = openCommand
        for item in message.body where !item.isResponse {
            let goesOn = open.map { $0.name == item.name && $0.uri == item.params["uri"] } ?? false
            guard item.sequence > last || item.sequence == last && goesOn else {
                return "a command has the number \(item.sequence) after \(last)"
            }
            last = item.sequence
            open = item.hasMore ? (item.name, item.params["uri"]) : nil
        }
        return nil
    }

    /// An answer that says that a message was not processed, which ends the session.
    package mutating func refusal(_ status: Status, of header: Message.Header?) -> Message {
        peer = peer ?? header
        cancelAll()
        isOver = true
        var message = answer([], isFinal: true)
        message.header.failure = status
        return message
    }

    private mutating func answer(_ body: [MessageItem], isFinal: Bool) -> Message {
        sent += 1
        self.isFinal = self.isFinal || isFinal
        var header = Message.Header(
            deviceID: serverID, service: peer?.service ?? "sync", userID: peer?.userID ?? "unknown", sequence: sent)
        header.isFinal = self.isFinal
        return Message(header: header, body: body)
    }

    /// True if everything that was begun is over on this side, and something was committed.
    private var isComplete: Bool {
        !asksForInfo && order.contains { classes[$0]?.phase == .commit || classes[$0]?.phase == .done }
            && !order.contains(where: isUnderWay)
    }

    private mutating func cancelAll() { for uri in order { end(uri) } }

    mutating func end(_ uri: String, _ phase: Phase = .ended) {
        classes[uri]?.phase = phase
        classes[uri]?.pull.commands = []
        classes[uri]?.push = nil
    }

    mutating func ask(_ asked: Asked, _ command: Command, hasMore: Bool = false) -> MessageItem {
        askedCount += 1
        self.asked[askedCount] = asked
        return command.item(askedCount, hasMore: hasMore)
    }

    // MARK: Mingle and push

    private var isReadyToMingle: Bool {
        order.contains { classes[$0]?.phase == .wait }
            && order.allSatisfy { ![.refused, .pull].contains(classes[$0]?.phase ?? .ended) }
    }

    /// Merges once all dataclasses are ready.
    /// - Returns: the responses to the changes.
    private mutating func mingleIfReady(_ data: inout some SessionData) throws -> [MessageItem] {
        guard isReadyToMingle else { return [] }
        let waiting = order.filter { classes[$0]?.phase == .wait }
        var pulls: [Pull] = [], sent: [[(sequence: Int, ids: [String])]] = []
        for uri in waiting {
            guard let pull = classes[uri]?.pull else { continue }
            pulls.append(pull)
            sent.append(pull.commands.map { ($0.sequence, Array($0.changes.items.keys)) })
            // They are given up as they are merged.
            classes[uri]?.pull.commands = []
        }
        let outcomes = try data.mingle(consume pulls)
        var responses: [MessageItem] = []
        for (index, (uri, outcome)) in zip(waiting, outcomes).enumerated() {
            for (sequence, fragments) in Dictionary(grouping: sent[index], by: \.sequence) {
                var failures: [Status] = []
                if !outcome.failures.isEmpty {
                    failures = fragments.flatMap(\.ids).compactMap { outcome.failures[ExactString($0)] }
                }
                responses.append(
                    MessageItem("sync-changes", sequence, ["uri": .string(uri)], result: [Status](failures: failures)))
            }
            classes[uri]?.phase = .push
            classes[uri]?.push = outcome.push
            classes[uri]?.waitsForCommit = outcome.waitsForCommit
        }
        return responses
    }

    /// The next items of all pushes that fit a message, and the commits of those that are complete.
    private mutating func pushed(_ data: inout some SessionData) throws -> [MessageItem] {
        var commands: [MessageItem] = []
        let pushes = order.compactMap { classes[$0]?.phase == .push ? classes[$0]?.push : nil }
        let bytesMax = pushes.reduce(limits.itemBytesMax) { min($0, $1.bytesMax) }
        var bytes = bytesMax, count = pushes.reduce(limits.itemsMax) { min($0, $1.itemsMax) }
        for uri in order {
            guard let state = classes[uri], state.phase == .push, let push = state.push else { continue }
            let rest = push.items[state.sent...]
            let isFresh = bytes == bytesMax
            let fits = rest.count <= count && rest.reduce(0) { $0 + $1.byteCount } <= bytes
            // What must not be split waits for a message of its own.
            if !push.isSplit, !fits, !isFresh { continue }
            var items: [(String, PropertyList)] = [], ids: Set<ExactString> = []
            for item in rest {
                let isFirst = isFresh && items.isEmpty
                guard !push.isSplit || isFirst || count > 0 && item.byteCount <= bytes,
                    ids.insert(ExactString(item.id)).inserted
                else { break }
                items.append((item.id, item.value))
                bytes -= item.byteCount
                count -= 1
            }
            let sent = state.sent + items.count, isLast = sent == push.items.count
            if items.isEmpty, !isLast { continue }
            var changes = Changes(items.isEmpty ? nil : push.itemType)
            changes.items = PropertyListDictionary(items) { $1 }
            if isLast ? state.waitsForCommit : push.hasCheckpoints {
                changes.anchors = Anchors()
                changes.anchors?.nextServerAnchor = try data.anchor(of: push, after: isLast ? nil : sent, uri)
            }
            classes[uri]?.sent = sent
            commands.append(ask(.changes(uri, sent: sent), .changes(uri: uri, changes), hasMore: !isLast))
            guard isLast else { continue }
            var anchors = Anchors()
            anchors.mode = .fast
            anchors.nextServerAnchor =
                try changes.anchors?.nextServerAnchor ?? data.anchor(of: push, after: nil, uri)
            anchors.resetAnchor = push.context["reset"]?.string
            anchors.filterAnchor = push.context["filter"]?.string
            classes[uri]?.committed = anchors
            // The places of the items are needed for the ids that answer them, the items are not.
            classes[uri]?.push?.items = push.items.map {
                Push.Item(id: $0.id, value: .bool(true), byteCount: 0, place: $0.place)
            }
            if state.waitsForCommit {
                classes[uri]?.phase = .uncommitted
            } else {
                classes[uri]?.phase = .commit
                commands.append(ask(.commit(uri), .commit(uri: uri, anchors)))
            }
        }
        return commands
    }

    /// Merges the changes of the dataclasses that the device has committed with this message.
    /// - Returns: the responses to the commits.
    private mutating func commit(_ data: inout some SessionData) throws -> [MessageItem] {
        let committed = order.filter { classes[$0]?.phase == .committing }
        if committed.isEmpty { return [] }
        var responses: [MessageItem] = []
        for (uri, failures) in zip(committed, try data.commit(committed)) {
            guard let state = classes[uri] else { continue }
            let result = [Status](failures: failures.sorted { $0.key < $1.key }.map(\.value))
            var response = MessageItem("sync-commit", state.commit, ["uri": .string(uri)], result: result)
            response.params["anchors"] = state.committed?.propertyList
            responses.append(response)
            classes[uri]?.phase = .done
        }
        return responses
    }
}
