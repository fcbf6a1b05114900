import AnabranchCore
import AnabranchHistory
import AnabranchReplica
import AnabranchTesting

/// The life of one replica, lived at random on three stores at once: what readers see, and what a process that opens
/// the stores finds, is the same on all of them after each step. Every step is first taken on a store that fails, and
/// then nothing has happened.
///
/// A server in memory and another client give it something to download. In flexible sync everything is one view, whose
/// bootstraps come in parts.
struct ReplicaRun<Store: ReplicaStore> {
    private struct Bootstrap {
        let set: QueryVersion
        let progress: DownloadProgress
        var parts: [[DownloadedChangeset]]
    }

    private let isFlexible: Bool
    private let reopen: (Store) throws -> Store
    private var replica: ReplicaTrio<Store>
    private let server: SyncedFile
    private var other: MemoryClient
    private let world: RandomWorld
    private var random: SeededRandom
    private var time: ChangesetTime = 1
    /// The part of it that has not come yet.
    private var bootstrap: Bootstrap?
    private var tally: [String: Int] = [:]
    /// False if the two clients diverge by one of the `KnownDivergence`s, and the run has ended early.
    private(set) var isWhole = true

    /// - Parameters:
    ///   - store: a new one.
    ///   - reopen: closes a store, and opens it again.
    init(seed: UInt64, _ store: Store, reopen: @escaping (Store) throws -> Store) throws {
        random = SeededRandom(scrambling: seed)
        isFlexible = random.isOne(in: 2)
        world = RandomWorld(&random)
        self.reopen = reopen
        var behaviour = ReplicaBehaviour()
        // Rows that are not in memory are read again.
        behaviour.loadedBytesMax = random.pick([0, 2 << 20])
        replica = try ReplicaTrio(store, behaviour)
        server = try SyncedFile(path: VirtualPath("run"), store: InMemoryStore(), destructiveSchema: .allow)
        other = MemoryClient(try server.allocateIdents(for: [nil], at: 1)[0])
        try other.write(at: 1) { try RandomWorld.begin($0) }
        try other.upload(to: server)
    }

    /// Takes some steps, and then all that is left to do.
    ///
    /// - Returns: how often each step was taken.
    /// - Throws: `ReplicaRunError` with what differs.
    mutating func run(steps: Int) throws -> [String: Int] {
        do {
            if isFlexible { try take(.useFlexibleSync) }
            for _ in 0..<steps { try step() }
            try finish()
        } catch let error as ReplicaError where error.code == .badDownload {
            isWhole = false
        }
        return tally
    }

    private mutating func take(_ step: ReplicaStep) throws {
        tally[step.name, default: 0] += 1
        // Most steps have few calls of their store.
        try replica.take(step, failingAt: 1 + random.below(random.pick([4, 40])), in: world)
    }

    private mutating func step() throws {
        time = ChangesetTime(rawValue: time.rawValue + UInt64(random.below(2)))
        switch random.below(12) {
        case 0...2: try take(.write((0...random.below(4)).map { _ in random.next() }, at: time))
        case 3, 4: try writeElsewhere()
        case 5: try identify()
        case 6: try upload(countMax: 1 + random.below(3))
        case 7, 8: try download(byteBudget: random.pick([1, 1000, .max]))
        case 9: if isFlexible { try subscribe() }
        case 10: try beginSession()
        default:
            tally["reopen", default: 0] += 1
            try replica.reopen(reopen)
            try beginSession()
        }
    }

    private mutating func writeElsewhere() throws {
        let seeds = (0...random.below(4)).map { _ in random.next() }
        let world = world
        try other.write(at: time, if: ReplicaStep.isAccepted) { try ReplicaStep.edit($0, seeds, in: world) }
        try other.upload(to: server)
        if random.isOne(in: 2) { try other.download(from: server) }
    }

    // MARK: The session

    private mutating func identify() throws {
        guard replica.memory.file == nil else { return }
        try take(.identify(try server.allocateIdents(for: [nil], at: 1)[0]))
    }

    /// The server sends the parts of a bootstrap again.
    private mutating func beginSession() throws {
        replica.startUploading()
        bootstrap = nil
        try take(.dropParts)
    }

    private mutating func upload(countMax: Int) throws {
        guard let ident = replica.memory.file?.ident, let upload = try replica.nextUpload(countMax: countMax) else {
            return
        }
        tally["upload", default: 0] += 1
        _ = try server.integrateAtOnce(upload, from: ident)
    }

    private func scan(byteBudget: Int) throws -> Download? {
        guard let ident = replica.memory.file?.ident else { return nil }
        return try server.downloads(for: ident, .all)
            .download(after: replica.memory.progress.cursor, byteBudget: byteBudget)
    }

    private mutating func download(byteBudget: Int) throws {
        if isFlexible, replica.memory.record.subscriptions?.active == nil || bootstrap != nil {
            return try receivePart()
        }
        guard let download = try scan(byteBudget: byteBudget) else { return }
        try take(.integrate(download, .steady))
        if isFlexible, random.isOne(in: 2) { try take(.mark) }
    }

    // MARK: Subscriptions

    private mutating func subscribe() throws {
        let names = ["Task", "Note"].filter { _ in random.isOne(in: 2) }
        try take(.subscribe(names.map { Subscription($0, name: random.isOne(in: 2) ? "all" : nil) }))
        guard let set = replica.memory.record.subscriptions?.latest, bootstrap == nil else { return }
        if random.isOne(in: 4) { return try take(.refuse(set.version)) }
        try receivePart()
    }

    private mutating func receivePart() throws {
        guard var coming = try bootstrap ?? nextBootstrap() else { return }
        let download = Download(progress: coming.progress, changesets: coming.parts.removeFirst())
        let isLast = coming.parts.isEmpty
        bootstrap = isLast ? nil : coming
        try take(.integrate(download, .bootstrap(coming.set, isLast: isLast)))
    }

    private mutating func nextBootstrap() throws -> Bootstrap? {
        let open = replica.memory.record.subscriptions?.entries.last { $0.state == .pending && $0.version > 0 }
        guard let open, let download = try scan(byteBudget: .max) else { return nil }
        let size = 1 + random.below(download.changesets.count + 1)
        var rest = download.changesets[...], parts: [[DownloadedChangeset]] = []
        while !rest.isEmpty {
            parts.append(Array(rest.prefix(size)))
            rest = rest.dropFirst(size)
        }
        return Bootstrap(set: open.version, progress: download.progress, parts: parts.isEmpty ? [[]] : parts)
    }

    // MARK: The end

    /// Everything is uploaded and downloaded, and the replicas are equal.
    private mutating func finish() throws {
        try identify()
        try beginSession()
        if isFlexible, replica.memory.record.subscriptions?.active == nil {
            try take(.subscribe([]))
            repeat { try receivePart() } while bootstrap != nil
        }
        while !replica.memory.isAcknowledged {
            try upload(countMax: .max)
            try take(.integrate(try scan(byteBudget: .max) ?? Download(progress: replica.memory.progress), .steady))
        }
        try take(.integrate(try scan(byteBudget: .max) ?? Download(progress: replica.memory.progress), .steady))
        try replica.reopen(reopen)
        try other.download(from: server)
        guard try StateDigest(of: replica.memory.state) == StateDigest(of: other.state) else {
            throw ReplicaRunError(description: "expected: the other client has the same state")
        }
    }
}
