import AnabranchCore
import AnabranchHistory
import AnabranchServer
import AnabranchSimperium
import Synchronization

/// One file that channels have open: carries out their changes in common commits, and wakes them when there is
/// something new.
final class SyncedBuckets: Sendable {
    typealias Completion = @Sendable (Result<(outcome: ChangeOutcome, version: ServerVersion), any Error>) -> Void

    private struct Waiting {
        let writer: ChangeWriter
        let completion: Completion
    }

    private struct State {
        var waiting: [Waiting] = []
        var isWriting = false
        var sockets: [ObjectIdentifier: (socket: TextSocket, count: Int)] = [:]
        /// The buckets of the channels, and how many channels each has.
        var buckets: [String: Int] = [:]
        var channels: [ObjectIdentifier: DoorChannel] = [:]
        var following: Task<Void, Never>?
        /// Nil if nobody follows, and while the store fails.
        var tail: ChangeTail?
    }

    /// How many changes go into one commit.
    private static let commitChangesMax = 64

    let path: VirtualPath
    private let server: SyncServer
    let settings: DoorSettings
    let clients: ClientMemories
    let questions = ClientQuestions()
    let admission = ChangeAdmission()
    private let metrics: DoorCounters
    private let unixSeconds: @Sendable () -> UInt64
    private let preciseSeconds: @Sendable () -> Double
    private let state = Mutex(State())

    init(
        _ path: VirtualPath, of server: SyncServer, _ settings: DoorSettings, clients: ClientMemories,
        metrics: DoorCounters, unixSeconds: @escaping @Sendable () -> UInt64,
        preciseSeconds: @escaping @Sendable () -> Double
    ) {
        self.path = path
        self.server = server
        self.settings = settings
        self.clients = clients
        self.metrics = metrics
        self.unixSeconds = unixSeconds
        self.preciseSeconds = preciseSeconds
    }

    var now: UInt64 { unixSeconds() }

    /// The time of a write: an edit that a Realm client has made before, and brings later, does not win over it.
    private var time: ChangesetTime { ChangesetTime(secondsSince1970: preciseSeconds()) }

    // MARK: Channels

    /// Opens the door of the file, which is created if it does not exist, and begins a new history if entries were
    /// missed, or the log was replaced by that of a backup.
    func openDoor() async throws {
        // A write, if only to look, would make a merge that is under way begin anew.
        let isOpen = try await server.readHead(of: path) { _, records in
            try records.door()?.hasSeenAll(through: records.head()) ?? false
        }
        if isOpen == true { return }
        let settings = settings, now = now
        _ = try await write { transaction, records in
            let head = try records.head()
            guard let door = try records.door() else {
                let salt = UInt64.random(in: 1 ... .max)
                return records.set(DoorRow(position: head.version, logSalt: head.salt, salt: salt, bucketCount: 0))
            }
            guard !door.hasSeenAll(through: head) else { return }
            var recorder = ChangeRecorder(settings, now: now, door: door)
            try recorder.renew(at: head, transaction.state, &records)
        }
    }

    /// - Returns: the version at the head.
    private func write(
        _ body: @escaping @Sendable (WriteTransaction, inout PendingRecords) throws -> Void
    ) async throws -> ServerVersion {
        let write = HeadWrite(at: time) { transaction, records in
            try body(transaction, &records)
            return []
        }
        guard let outcome = try await server.write([write], atHeadOf: path).first else { throw CancellationError() }
        return try outcome.get()
    }

    /// Wakes the socket of a channel from now on when there is something new in the file.
    func add(_ channel: Channel, of socket: TextSocket) throws {
        let (ident, bucket) = (ObjectIdentifier(channel), channel.bucketName)
        let opened = DoorChannel(
            user: channel.principal.user, client: channel.client, bucket: bucket, library: channel.libraryName,
            openedAt: now)
        try state.withLock { state in
            if state.following == nil {
                let path = path, server = server
                let isFollowed = try server.follow(path)
                state.following = Task { [weak self] in
                    let follower = isFollowed
                    repeat {
                        await self?.readTail()
                        self?.wakeAll()
                    } while await follower.wait()
                }
            }
            state.sockets[ObjectIdentifier(socket), default: (socket, 0)].count += 1
            state.buckets[bucket, default: 0] += 1
            state.channels[ident] = opened
        }
    }

    /// A channel of a socket is closed.
    func remove(_ channel: Channel, of socket: TextSocket) {
        let (channel, bucket) = (ObjectIdentifier(channel), channel.bucketName)
        state.withLock { state in
            let ident = ObjectIdentifier(socket)
            guard state.channels.removeValue(forKey: channel) != nil, let count = state.sockets[ident]?.count
            else { return }
            state.sockets[ident] = count > 1 ? (socket, count - 1) : nil
            state.buckets[bucket] = state.buckets[bucket].flatMap { $0 > 1 ? $0 - 1 : nil }
            guard state.sockets.isEmpty else { return }
            state.tail = nil
            state.following.take()?.cancel()
        }
    }

    /// The channels that are open.
    var channels: [DoorChannel] { state.withLock { Array($0.channels.values) } }
    var channelCount: Int { state.withLock { $0.channels.count } }

    /// Makes all connections look whether there is something new for them.
    func wakeAll() {
        for (socket, _) in state.withLock({ Array($0.sockets.values) }) { socket.wake() }
    }

    // MARK: New changes

    /// Reads what has come since the last time, for all channels.
    private func readTail() async {
        let (tail, buckets) = state.withLock { ($0.tail, Array($0.buckets.keys)) }
        let read = try? await read { reader -> ChangeTail in
            guard var tail, tail.salt == reader.door.salt, tail.end <= reader.door.end,
                let step = try reader.step(after: tail.end, of: buckets)
            else { return ChangeTail(salt: reader.door.salt, end: reader.door.end) }
            if step.after < step.through { tail.append(step) }
            return tail
        }
        // After the last channel another may have been opened: the file is followed anew then.
        state.withLock { if !Task.isCancelled { $0.tail = read } }
    }

    /// The changes of a bucket after a point, as far as the file was read for all its channels.
    /// - Returns: nil if some of them were not, or the point is of another history.
    func news(
        of bucket: String, after place: ChangePlace, salt: UInt64
    ) -> (batches: [ChangeBatch], through: ChangePlace)? {
        guard let tail = state.withLock({ $0.tail }), tail.salt == salt,
            let batches = tail.batches(of: bucket, after: place)
        else { return nil }
        return (batches, max(place, tail.end))
    }

    /// A follower that waits for something new in the file.
    func follow() throws -> LogFollower { try server.follow(path) }

    /// Reads at the head of the file.
    func read<Value: Sendable>(_ body: @escaping @Sendable (BucketReader) throws -> Value) async throws -> Value {
        let settings = settings, now = now
        let value = try await server.readHead(of: path) { transaction, records in
            let reader = BucketReader(
                graph: transaction.state, records: records, door: try records.openDoor(), settings: settings, now: now)
            return try body(reader)
        }
        guard let value else { throw HistoryError(.storeFailed, "the file is gone") }
        return value
    }

    /// Finds a bucket; nil if nothing has been written to it.
    /// - Parameter form: that of the settings.
    /// - Throws: `BucketProblem` if the class of a bucket of the form `typed` is none for it.
    func findBucket(_ name: String, _ form: BucketForm) async throws -> Bucket? {
        let (bucket, mayBeClass) = try await read { reader in
            let bucket = try reader.records.bucket(named: name)
            let className = bucket?.className ?? BucketName.classNames(name).first.map { Array($0.utf8) } ?? []
            let schema = reader.graph.schema(ofClass: className)
            if (bucket?.form ?? form) == .typed, let reason = BucketForm.problem(with: schema) {
                throw BucketProblem(reason: reason)
            }
            return (bucket, bucket == nil && reader.graph.bucketClass(name, form) != nil)
        }
        guard mayBeClass else { return bucket }
        let adopted = Mutex<Bucket?>(nil), settings = settings, now = now
        _ = try await write { transaction, records in
            let bucket =
                try records.bucket(named: name)
                ?? records.adoptBucket(named: name, form, transaction.state, settings, now: now)
            adopted.withLock { $0 = bucket }
        }
        return adopted.withLock { $0 }
    }

    // MARK: Changes

    /// Carries out a change after those that wait.
    func submit(
        _ request: ChangeRequest, to bucket: String, _ bucketSettings: BucketSettings,
        then completion: @escaping Completion
    ) {
        let writer = ChangeWriter(
            request: request, bucketName: bucket, bucketSettings: bucketSettings, settings: settings, now: now)
        let begins = state.withLock { state in
            state.waiting.append(Waiting(writer: writer, completion: completion))
            defer { state.isWriting = true }
            return !state.isWriting
        }
        if begins { Task { await writeAll() } }
    }

    /// Carries out changes in their order, after those that wait.
    /// - Returns: the outcome of each.
    func perform(
        _ requests: [ChangeRequest], on bucket: String, _ bucketSettings: BucketSettings
    ) async throws -> [ChangeOutcome] {
        let (results, arrive) = AsyncStream.makeStream(of: (Int, Result<ChangeOutcome, any Error>).self)
        for (index, request) in requests.enumerated() {
            submit(request, to: bucket, bucketSettings) { result in
                arrive.yield((index, result.map { $0.outcome }))
            }
        }
        var outcomes: [Int: ChangeOutcome] = [:]
        if !requests.isEmpty {
            for await (index, result) in results {
                outcomes[index] = try result.get()
                if outcomes.count == requests.count { break }
            }
        }
        guard outcomes.count == requests.count else { throw CancellationError() }
        return requests.indices.compactMap { outcomes[$0] }
    }

    private func writeAll() async {
        while true {
            let waiting = state.withLock { state in
                let first = Array(state.waiting.prefix(Self.commitChangesMax))
                state.waiting.removeFirst(first.count)
                state.isWriting = !first.isEmpty
                return first
            }
            if waiting.isEmpty { return }
            let turn = ChangeTurn(), attempts = waiting.map { ChangeAttempt($0.writer, in: turn) }
            do {
                let writes = attempts.enumerated().map { $1.write(at: time, isFirst: $0 == 0) }
                let outcomes = try await server.write(writes, atHeadOf: path)
                let madeCount = outcomes.firstIndex(where: ChangeTurn.isOver) ?? outcomes.count
                state.withLock { $0.waiting.insert(contentsOf: waiting[madeCount...], at: 0) }
                for (attempt, (waiting, result)) in zip(attempts, zip(waiting, outcomes)).prefix(madeCount) {
                    let decided = attempt.outcome(result)
                    metrics.countChange((try? decided.get())?.outcome.name ?? ChangeOutcome.failed)
                    waiting.completion(decided)
                }
            } catch {
                for waiting in waiting {
                    metrics.countChange(ChangeOutcome.failed)
                    waiting.completion(.failure(error))
                }
            }
        }
    }

    /// Uses what is remembered of clients.
    func withClients<Value>(_ body: (inout ClientMemory) -> Value) -> Value { clients.with(body) }
}

/// The time that the changes of one commit may take: each may concern an entity of 1 MiB, and the file's worker has
/// others to serve.
private final class ChangeTurn: Sendable {
    private struct Over: Error {}

    /// True if a change, and those after it, are left for the next commit.
    static func isOver(_ result: Result<ServerVersion, any Error>) -> Bool {
        if case .failure(is Over) = result { true } else { false }
    }

    private static let time = Duration.milliseconds(10)
    private let end = Mutex(ContinuousClock.now)

    /// To be called before each change. The first one, with which the time begins, may always be made.
    func begin(isFirst: Bool) throws {
        try end.withLock { end in
            if isFirst { end = .now + Self.time } else if .now >= end { throw Over() }
        }
    }
}

/// A change request in a commit under way. If the commit is repeated, the last outcome counts.
private final class ChangeAttempt: Sendable {
    private let writer: ChangeWriter
    private let turn: ChangeTurn
    private let decided = Mutex(ChangeOutcome.accepted)

    init(_ writer: ChangeWriter, in turn: ChangeTurn) { (self.writer, self.turn) = (writer, turn) }

    func write(at time: ChangesetTime, isFirst: Bool) -> HeadWrite {
        HeadWrite(at: time) { [self] transaction, records in
            try turn.begin(isFirst: isFirst)
            let (outcome, author) = try writer.perform(transaction, &records)
            decided.withLock { $0 = outcome }
            return author
        }
    }

    func outcome(
        _ result: Result<ServerVersion, any Error>
    ) -> Result<(outcome: ChangeOutcome, version: ServerVersion), any Error> {
        switch result {
        case .success(let version): .success((decided.withLock { $0 }, version))
        case .failure(let refusal as JSONDiffError): .success((.refused(refusal), 0))
        case .failure(let error): .failure(error)
        }
    }
}
