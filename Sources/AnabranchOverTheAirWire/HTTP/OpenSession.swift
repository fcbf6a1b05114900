import AnabranchCore
import AnabranchHistory
import AnabranchOverTheAir
import AnabranchPropertyList
import AnabranchServer
import Crypto
import Synchronization

/// A session that the server has open. Its messages are processed one after the other, each in one write at the head.
final class OpenSession: Sendable {
    private struct State {
        var session: DeviceSession
        var messages = AnsweredMessages()
        var isDoorOpen = false
        var tooLarge: Set<[ExactString]> = []
        var seenAt: UInt64
    }

    let cookie: String
    let app: String, user: String, device: String
    /// When it began, in seconds since 1970.
    let openedAt: UInt64
    private let wire: OverTheAirWire
    private let state: Mutex<State>
    /// The end of the message before.
    private let tail = Mutex<Task<Void, Never>?>(nil)

    init(cookie: String, app: String, user: String, device: String, wire: OverTheAirWire, now: UInt64) {
        (self.cookie, self.app, self.user, self.device, self.wire) = (cookie, app, user, device, wire)
        openedAt = now
        let session = DeviceSession(serverID: wire.settings.serverID, limits: wire.settings.session)
        state = Mutex(State(session: session, seenAt: now))
    }

    var seenAt: UInt64 { state.withLock { $0.seenAt } }

    /// The file of the user; nil if the app is no more.
    var path: VirtualPath? {
        wire.settings.apps[exactly: app].map { VirtualPath(app: app, partition: $0.partition(of: user)) }
    }

    /// True if the device can only ask for its answers again.
    var isAtEnd: Bool { state.withLock { $0.session.isAtEnd } }

    /// About the memory that it takes.
    var byteCount: Int {
        state.withLock { 4_096 + $0.messages.byteCount + $0.session.heldBytes }
    }

    /// True if a message is the first one, which has been answered and may not have arrived.
    func isFirst(_ bytes: [UInt8]) -> Bool {
        state.withLock { $0.session.messageCount == 1 && $0.messages.has(MessageDigest(of: bytes)) }
    }

    /// Answers a message, after those before it.
    /// - Throws: a failure of the store, after which the message may come again.
    func answer(_ message: ReceivedMessage, isAllowed: Bool, canWrite: Bool) async throws -> [UInt8] {
        let task = tail.withLock { tail in
            let before = tail
            let task = Task {
                await before?.value
                return try await self.process(message, isAllowed: isAllowed, canWrite: canWrite)
            }
            tail = Task { _ = await task.result }
            return task
        }
        return try await task.value
    }

    private func process(_ message: ReceivedMessage, isAllowed: Bool, canWrite: Bool) async throws -> [UInt8] {
        let now = wire.unixSeconds()
        let digest = MessageDigest(of: message.bytes)
        var (session, messages) = state.withLock { state in
            state.seenAt = now
            return (state.session, state.messages)
        }
        switch messages.answer(to: digest) {
        case .known(let answer): return answer
        case .forgotten: throw ForgottenAnswer()
        case .new: break
        }
        let form = PropertyList.Form(sniffing: message.bytes)
        var answer: [UInt8]
        do {
            (session, answer) = try await receive(message, form, isAllowed: isAllowed, canWrite: canWrite)
        } catch let status as Status {
            answer = try session.refusal(status, of: message.header).encoded(as: form)
        }
        messages.append(digest, answer)
        state.withLock { [session, messages] state in (state.session, state.messages) = (session, messages) }
        return answer
    }

    /// The length from which on a message is long, in bytes.
    private static let longMessageBytesMin = 256 << 10

    private func receive(
        _ message: ReceivedMessage, _ form: PropertyList.Form, isAllowed: Bool, canWrite: Bool
    ) async throws -> (DeviceSession, answer: [UInt8]) {
        let server = try wire.server(), settings = wire.settings
        guard let dataclasses = settings.apps[exactly: app]?.dataclasses, let path else { throw CancellationError() }
        while true {
            let (session, tooLarge, isDoorOpen) = state.withLock { ($0.session, $0.tooLarge, $0.isDoorOpen) }
            guard tooLarge.count <= settings.tooLargeMax else {
                throw Status(.limitExceeded, "more than \(settings.tooLargeMax) records are too large")
            }
            let (wire, cookie, device) = (wire, cookie, device), now = wire.unixSeconds()
            var limits = PropertyListLimits.answers
            limits.bytesMax = settings.session.answerBytesMax
            let done = Mutex<(DeviceSession, [UInt8])?>(nil)
            let write = HeadWrite(at: wire.writeTime) { [limits] transaction, records in
                // This message may have come late, after all of a session that has taken the place of this one.
                guard wire.session(cookie) != nil else {
                    throw Status(.badRequest, "the device has begun another session")
                }
                if !isDoorOpen {
                    // The row of each dataclass is needed, also for what follows.
                    try records.readAhead(RowKind.dataclass.range([]))
                    guard try Door.isOpen(dataclasses, records) else { throw ClosedDoor() }
                }
                var next = session
                var data = FileData(
                    dataclasses: dataclasses, limits: settings.door, device: device, canWrite: canWrite, now: now,
                    transaction: transaction, records: records, tooLarge: tooLarge,
                    itemsMax: settings.session.itemsMax, itemBytesMax: settings.session.itemBytesMax)
                let reply = try next.receive(
                    message.take(), bytes: message.bytes.count, isAllowed: isAllowed, &data)
                let answer: [UInt8]
                // Nothing is stored of which the device could never be told.
                do throws(PropertyListError) { answer = try reply.encoded(as: form, limits: limits) } catch {
                    throw Status(error.code == .limitExceeded ? .limitExceeded : .failed, "the answer: \(error)")
                }
                records = data.records
                if message.bytes.count >= Self.longMessageBytesMin { settings.giveBackMemory() }
                done.withLock { $0 = (next, answer) }
                return ChangeAuthor(device: device).bytes
            }
            guard let outcome = try await server.write([write], atHeadOf: path).first else { throw CancellationError() }
            do {
                _ = try outcome.get()
                state.withLock { $0.isDoorOpen = true }
            } catch is ClosedDoor {
                try await Door(path: path, server: server, dataclasses: dataclasses, time: wire.writeTime).open()
                state.withLock { $0.isDoorOpen = true }
                continue
            } catch let error as ItemTooLarge {
                state.withLock { _ = $0.tooLarge.insert([ExactString(error.uri), ExactString(error.id)]) }
                continue
            }
            guard let result = done.withLock({ $0 }) else { throw CancellationError() }
            return result
        }
    }
}

/// A message of a device. What was read of it is given up where it is processed, and is read once more if that happens
/// again: a long message takes several times as much memory as its bytes.
final class ReceivedMessage: Sendable {
    let header: Message.Header
    let bytes: [UInt8]
    private let limits: PropertyListLimits
    private let message: Mutex<Message?>

    init(_ bytes: [UInt8], _ limits: PropertyListLimits) throws(MessageError) {
        let message = try Message(parsing: bytes, limits: limits)
        (self.bytes, self.limits, header) = (bytes, limits, message.header)
        self.message = Mutex(message)
    }

    func take() throws(MessageError) -> Message {
        if let message = message.withLock({ $0.take() }) { return message }
        return try Message(parsing: bytes, limits: limits)
    }
}

/// The message came before, and its answer is not kept any more. The session stays as it is.
struct ForgottenAnswer: Error {}

/// The bytes of a message, as they are known again.
struct MessageDigest: Equatable {
    private let digest: SHA256Digest

    init(of bytes: [UInt8]) { digest = SHA256.hash(data: bytes) }
}

/// The messages of a session that were answered, as they are known again, and the answers of the last ones.
struct AnsweredMessages {
    enum Answer {
        case new
        case known([UInt8])
        case forgotten
    }

    /// How many repeated messages are recognized, and how many bytes of answers are kept besides the last one.
    private static let countMax = 1_000, bytesMax = 1 << 20

    private var entries: [(digest: MessageDigest, answer: [UInt8]?)] = []
    private var answerBytes = 0

    var byteCount: Int { answerBytes + 64 * entries.count }

    func has(_ digest: MessageDigest) -> Bool { entries.contains { $0.digest == digest } }

    func answer(to digest: MessageDigest) -> Answer {
        guard let entry = entries.last(where: { $0.digest == digest }) else { return .new }
        return entry.answer.map { .known($0) } ?? .forgotten
    }

    mutating func append(_ digest: MessageDigest, _ answer: [UInt8]) {
        entries.append((digest, answer))
        answerBytes += answer.count
        if entries.count > Self.countMax { answerBytes -= entries.removeFirst().answer?.count ?? 0 }
        for index in entries.indices.dropLast() where answerBytes > Self.bytesMax {
            answerBytes -= entries[index].answer?.count ?? 0
            entries[index].answer = nil
        }
    }
}

/// The door of the file has to be opened before a message is processed.
private struct ClosedDoor: Error {}

/// The door of a file: it knows what each entry did from the moment on at which it is opened.
struct Door {
    let path: VirtualPath
    let server: SyncServer
    let dataclasses: [Dataclass]
    let time: ChangesetTime

    /// True if no entry was missed, and each dataclass is what it was, at the head and before anything is written.
    static func isOpen(_ dataclasses: [Dataclass], _ records: PendingRecords) throws -> Bool {
        guard try records.row(.door, RowKey())?.number("position") == records.headVersion().rawValue else {
            return false
        }
        return try dataclasses.allSatisfy {
            try records.row(.dataclass, RowKey($0.uri))?.number("stamp") == $0.stamp
        }
    }

    /// Opens the door. If entries were missed, or a dataclass has changed, devices begin again with a slow sync.
    func open() async throws {
        while true {
            let found = Mutex<(UInt64?, Bool)>((nil, false)), dataclasses = dataclasses
            let version = try await write { records in
                let position = try records.row(.door, RowKey())?.number("position")
                let isKnown = try dataclasses.allSatisfy {
                    try records.row(.dataclass, RowKey($0.uri))?.number("stamp") == $0.stamp
                }
                found.withLock { $0 = (position, isKnown) }
            }
            let (position, isKnown) = found.withLock { $0 }
            if position == version.rawValue, isKnown { return }
            _ = try await write { records in
                guard try records.row(.door, RowKey())?.number("position") == position else { return }
                for dataclass in dataclasses {
                    var row = try records.row(.dataclass, RowKey(dataclass.uri)) ?? [:]
                    guard row.number("stamp") != dataclass.stamp || position != version.rawValue else { continue }
                    row["stamp"] = .number(dataclass.stamp)
                    (row["base"], row["bytes"]) = (.number(version.rawValue), 0)
                    try records.setRow(row, .dataclass, RowKey(dataclass.uri))
                }
                try records.setRow(["position": .number(version.rawValue)], .door, RowKey())
            }
        }
    }

    /// - Returns: the version at the head.
    private func write(
        _ body: @escaping @Sendable (inout PendingRecords) throws -> Void
    ) async throws -> ServerVersion {
        let write = HeadWrite(at: time) { _, records in
            try body(&records)
            return []
        }
        guard let outcome = try await server.write([write], atHeadOf: path).first else { throw CancellationError() }
        return try outcome.get()
    }
}
