import AnabranchCore
import Synchronization

/// The memory of the clients of one file. It outlives the file's channels.
final class ClientMemories: Sendable {
    private let memory = Mutex(ClientMemory())
    private let changes = Mutex(MinuteCount())
    private let skips = Mutex(MinuteCount())

    /// Counts changes that come by HTTP.
    /// - Returns: false if they are too many now; then none of them counts.
    func admitChanges(_ count: Int, atMost max: Int) -> Bool { changes.withLock { $0.add(count, atMost: max) } }

    /// Counts entities that listings by HTTP pass over.
    /// - Returns: false if they are too many now.
    func admitSkips(_ count: Int, atMost max: Int) -> Bool { skips.withLock { $0.addAtOnce(count, atMost: max) } }

    func with<Value>(_ body: (inout ClientMemory) -> Value) -> Value { memory.withLock { body(&$0) } }

    /// When a client was heard of last, in seconds since 1970.
    var seenAt: UInt64 { memory.withLock { $0.seenAt } }
}

/// The memory that a file's channels have of their clients, beyond a connection (`Spec/Simperium.md`, section 10). None
/// of it is durable, and a client that is silent for a day is forgotten.
struct ClientMemory {
    private struct Client {
        /// How far changes were pushed.
        var pushed: ChangePlace?
        /// The versions of entities that are not shown to the client, because it would go back to them.
        var hidden: Set<EntityVersion> = []
        /// The entities whose deletion by others was sent to the client, which will answer with one of its own.
        var owedDeletions: [ExactString: OwedDeletion] = [:]
        /// The entities of which the client's working copies may differ from what it knows of the server.
        var leftBehind: Set<ExactString> = []
        var seenAt: UInt64

        var noteCount: Int { hidden.count + owedDeletions.count + leftBehind.count }
    }

    private struct OwedDeletion {
        /// When the client was told.
        var toldAt: UInt64
        /// True once the client has changed the entity long after that: a deletion by it is meant then.
        var isPastDue = false

        func isOwed(at now: UInt64) -> Bool { !isPastDue && now <= toldAt + ClientMemory.owedSeconds }
    }

    private struct EntityVersion: Hashable {
        let key: ExactString
        let version: UInt64
    }

    private static let clientsMax = 1_000
    /// How many entities are remembered of a client, of each kind.
    private static let notesMax = 1_000
    /// How many are remembered of all clients together.
    static let allNotesMax = 200_000
    private static let daySeconds: UInt64 = 86_400
    /// How long a connected client may take to answer a deletion.
    private static let owedSeconds: UInt64 = 600

    private var clients: [ExactString: Client] = [:]
    private(set) var noteCount = 0
    private(set) var seenAt: UInt64 = 0

    /// Of a bucket's client.
    private static func name(_ client: String, _ bucket: String) -> ExactString { ExactString("\(bucket)/\(client)") }

    /// - Parameter body: gets the client, and how many entities of each kind may be remembered of it now.
    private mutating func with(
        _ client: String, _ bucket: String, at now: UInt64, _ body: (inout Client, _ notesMax: Int) -> Void
    ) {
        let name = Self.name(client, bucket)
        if clients[name] == nil, clients.count >= Self.clientsMax {
            clients = clients.filter { now < $0.value.seenAt + Self.daySeconds }
            if clients.count >= Self.clientsMax, let oldest = clients.min(by: { $0.value.seenAt < $1.value.seenAt }) {
                clients[oldest.key] = nil
            }
            noteCount = clients.values.reduce(0) { $0 + $1.noteCount }
        }
        seenAt = now
        clients[name, default: Client(seenAt: now)].seenAt = now
        let notesMax = noteCount < Self.allNotesMax ? Self.notesMax : 0
        change(name) { body(&$0, notesMax) }
    }

    /// Changes what is remembered of a client, if anything is.
    private mutating func change(_ name: ExactString, _ body: (inout Client) -> Void) {
        guard let index = clients.index(forKey: name) else { return }
        noteCount -= clients.values[index].noteCount
        body(&clients.values[index])
        noteCount += clients.values[index].noteCount
    }

    // MARK: Repetitions

    /// How far changes were pushed: perhaps to the end, if that was done by a server that has ended.
    func pushed(_ client: String, _ bucket: String) -> ChangePlace {
        clients[Self.name(client, bucket)]?.pushed ?? .end(of: .largest)
    }

    mutating func recordPushed(_ client: String, _ bucket: String, through place: ChangePlace, at now: UInt64) {
        with(client, bucket, at: now) { client, _ in client.pushed = max(client.pushed ?? .start, place) }
    }

    mutating func hide(_ key: String, _ version: UInt64, from client: String, _ bucket: String, at now: UInt64) {
        with(client, bucket, at: now) { client, notesMax in
            if client.hidden.count < notesMax {
                client.hidden.insert(EntityVersion(key: ExactString(key), version: version))
            }
        }
    }

    /// The client says anew what it has: which versions it would go back to depends on that alone.
    mutating func unhideAll(from client: String, _ bucket: String) {
        change(Self.name(client, bucket)) { $0.hidden = [] }
    }

    func hides(_ key: String, _ version: UInt64, from client: String, _ bucket: String) -> Bool {
        let version = EntityVersion(key: ExactString(key), version: version)
        return clients[Self.name(client, bucket)]?.hidden.contains(version) ?? false
    }

    // MARK: Copies

    func leftBehind(_ client: String, _ bucket: String) -> Set<ExactString> {
        clients[Self.name(client, bucket)]?.leftBehind ?? []
    }

    mutating func leaveBehind(_ key: ExactString, _ client: String, _ bucket: String, at now: UInt64) {
        with(client, bucket, at: now) { client, notesMax in
            if client.leftBehind.count < notesMax { client.leftBehind.insert(key) }
        }
    }

    /// The client has been told what makes its copy what it knows of the server.
    mutating func putRight(_ key: ExactString, _ client: String, _ bucket: String) {
        change(Self.name(client, bucket)) { $0.leftBehind.remove(key) }
    }

    // MARK: Deletions

    /// The client is connected again: the time while it was not does not count.
    mutating func resume(_ client: String, _ bucket: String, at now: UInt64) {
        let name = Self.name(client, bucket)
        guard let keys = clients[name]?.owedDeletions.keys else { return }
        for key in keys { clients[name]?.owedDeletions[key]?.toldAt = now }
    }

    /// Records that another client's deletion of an entity was sent to the client.
    mutating func oweDeletion(_ key: String, _ client: String, _ bucket: String, at now: UInt64) {
        with(client, bucket, at: now) { client, notesMax in
            if client.owedDeletions.count < notesMax {
                client.owedDeletions[ExactString(key)] = OwedDeletion(toldAt: now)
            }
        }
    }

    func owesDeletion(_ key: String, _ client: String, _ bucket: String, at now: UInt64) -> Bool {
        clients[Self.name(client, bucket)]?.owedDeletions[ExactString(key)]?.isOwed(at: now) ?? false
    }

    /// Records the outcome of a change of the client.
    /// - Returns: true if a deletion may have been its answer to another client's after all.
    mutating func record(
        _ outcome: ChangeOutcome, of request: Inbox.Decided, by client: String, _ bucket: String, at now: UInt64
    ) -> Bool {
        if outcome.paysDeletion { forgetDeletion(request.key, client, bucket) }
        guard outcome.code == nil else { return false }
        if request.isDeletion { return recordDeletion(request.key, client, bucket, at: now) }
        recordChange(request.key, client, bucket, at: now)
        return false
    }

    /// The client has answered.
    private mutating func forgetDeletion(_ key: String, _ client: String, _ bucket: String) {
        change(Self.name(client, bucket)) { $0.owedDeletions[ExactString(key)] = nil }
    }

    /// Records that the client has changed an entity: if it was told of the deletion long before, it has not answered.
    private mutating func recordChange(_ key: String, _ client: String, _ bucket: String, at now: UInt64) {
        let name = Self.name(client, bucket)
        if let owed = clients[name]?.owedDeletions[ExactString(key)], owed.toldAt + 10 < now {
            clients[name]?.owedDeletions[ExactString(key)]?.isPastDue = true
        }
    }

    /// Records that the client has deleted an entity.
    /// - Returns: true if that may have been its answer to another client's deletion after all.
    private mutating func recordDeletion(_ key: String, _ client: String, _ bucket: String, at now: UInt64) -> Bool {
        let name = Self.name(client, bucket)
        guard let owed = clients[name]?.owedDeletions[ExactString(key)], !owed.isOwed(at: now) else { return false }
        forgetDeletion(key, client, bucket)
        return true
    }
}
