import AnabranchCore
import AnabranchHistory
import AnabranchReplica
import AnabranchTesting
import Foundation

/// Random operations on a replica in a file and its twin in memory, which sync with a file of a server in memory to
/// which another client writes as well. Everything follows from the seed.
struct ReplicaRun {
    private let folder: URL
    private let file: SyncedFile
    private var random: SeededRandom
    private let world: RandomWorld
    private let isFlexible: Bool
    private var twins: ReplicaTwins
    private var twinsCount = 1
    /// Nil until they have been connected.
    private var ident: SaltedFileID?
    private var other: MemoryClient
    private var made = AuthoredInstructions()
    private var clock: UInt64 = 1_000
    /// The parts that have come of the bootstrap of a subscription set.
    private var bootstrap: (version: QueryVersion, parts: [DownloadedChangeset])?
    /// True once something was written whose merge with other changes may be a known divergence of the reference.
    private var isDivergent = false
    private(set) var tally = ReplicaTally()

    init(seed: UInt64, in folder: URL) throws {
        self.folder = folder
        random = SeededRandom(scrambling: seed)
        world = RandomWorld(&random)
        isFlexible = random.isOne(in: 2)
        file = try SyncedFile(
            path: VirtualPath("run"), store: InMemoryStore(), destructiveSchema: .allow,
            randomness: SeededRandom(seed: random.next()))
        other = MemoryClient(try file.allocateIdents(for: [nil], at: clock)[0])
        twins = try ReplicaTwins(path: folder.appendingPathComponent("replica-1").path)
        if isFlexible { _ = try twins.subscribe([Subscription("Task")]) }
        try writeOther { try RandomWorld.begin($0) }
        try uploadOther()
    }

    mutating func run(_ operations: Int) throws {
        for _ in 0..<operations {
            try step()
            try twins.compare()
            tally.operations += 1
        }
        try finish()
        try twins.close()
        tally.runs = 1
    }

    private mutating func step() throws {
        switch random.below(32) {
        case 0..<9: try write()
        case 9: try writeInVain()
        case 10..<14: try writeOther { [self] in try edit($0, seeds: [seed, seed &+ 1]) }
        case 14..<17: try uploadOther()
        case 17..<22: try upload(random.pick([1, 1, 3]))
        case 22..<28: try download()
        case 28: try reopen()
        case 29: if ident != nil { try twins.connect(); bootstrap = nil }
        case 30: if isFlexible { try subscribe() }
        default: if ident != nil, random.isOne(in: 4) { try reset() }
        }
    }

    // MARK: Writing

    /// The seed of random changes; another one with each operation.
    private var seed: UInt64 { clock &* 0x9E37_79B9_7F4A_7C15 }

    private func edit(_ transaction: WriteTransaction, seeds: [UInt64]) throws {
        for seed in seeds { do { try world.edit(transaction, seed: seed) } catch is ApplyError {} }
    }

    private mutating func write() throws {
        clock += UInt64(1 + random.below(5))
        let seeds = (0...random.below(4)).map { _ in random.next() }, isNew = twins.memory.state.classes.isEmpty
        let time = twins.memory.writingTime(ChangesetTime(clock)), base = twins.memory.progress.cursor.serverVersion
        let tag = OriginTag(timestamp: time, ident: ident?.ident ?? 0), number = twinsCount
        let changeset = try twins.write(
            at: time,
            if: { changeset in
                try !Self.erasesSchema(changeset)
                    && made.add(changeset, by: number, tag: tag, base: base.rawValue) == nil
            },
            { [self] transaction in
                if isNew { try RandomWorld.begin(transaction) }
                try edit(transaction, seeds: seeds)
            })
        if !changeset.isEmpty { tally.transactions += 1 }
        // Objects with GlobalKeys get other keys with the ident.
        if ident == nil { isDivergent = true }
    }

    /// Makes a transaction that fails: it leaves nothing behind.
    private mutating func writeInVain() throws {
        struct Regret: Error {}
        let seed = random.next()
        do {
            _ = try twins.write(at: 1, if: { _ in true }) { [self] transaction in
                try edit(transaction, seeds: [seed])
                throw Regret()
            }
        } catch is Regret {}
    }

    private static func erasesSchema(_ changeset: [UInt8]) throws -> Bool {
        var arena = ChangesetArena()
        let index = try arena.decode(changeset, version: 1, tag: OriginTag(timestamp: 1, ident: 1))
        return arena.instructions(of: index).contains { [.eraseTable, .eraseColumn].contains($0.kind) }
    }

    private mutating func writeOther(_ body: (WriteTransaction) throws -> Void) throws {
        clock += 1
        let tag = OriginTag(timestamp: ChangesetTime(clock), ident: other.ident)
        let base = other.download.serverVersion.rawValue
        try other.write(
            at: tag.timestamp,
            if: { try !Self.erasesSchema($0) && made.add($0, by: 0, tag: tag, base: base) == nil }, body)
    }

    // MARK: Syncing

    private mutating func uploadOther() throws {
        try other.download(from: file)
        while let upload = other.nextUpload(isProgressTold: false) { try integrate(upload, from: other.ident, by: 0) }
        try other.download(from: file)
    }

    private mutating func integrate(_ upload: Upload, from ident: ClientFileID, by number: Int) throws {
        let before = file.version
        try file.integrateAtOnce(upload, from: ident)
        let entries = try file.log(after: before).filter { $0.origin == ident }
        made.recordUpload(by: number, versions: entries.map(\.version.rawValue))
        if upload.changesets.contains(where: { $0.cursor.serverVersion < before }) { tally.merges += 1 }
    }

    /// The first connection gives the file its ident.
    private mutating func identify() throws -> SaltedFileID {
        if let ident { return ident }
        let ident = try file.allocateIdents(for: [nil], at: clock)[0]
        try twins.identify(as: ident)
        self.ident = ident
        return ident
    }

    private mutating func upload(_ count: Int) throws {
        let ident = try identify().ident
        for _ in 0..<count {
            guard let upload = try twins.nextUpload() else { return }
            try integrate(upload, from: ident, by: twinsCount)
            tally.uploads += 1
        }
    }

    private mutating func download() throws {
        let ident = try identify().ident
        let budget = bootstrap == nil ? random.pick([0, 100, Int.max]) : Int.max
        let download = try file.downloads(for: ident).download(
            after: twins.memory.progress.cursor, byteBudget: budget)
        if let pending = pendingSubscriptions, !download.changesets.isEmpty {
            return try downloadPart(of: download, pending)
        }
        try twins.integrate(download, as: .steady)
        tally.downloads += 1
    }

    /// The oldest set whose bootstrap has not come.
    private var pendingSubscriptions: QueryVersion? {
        twins.memory.unsentSubscriptions(after: 0)?.set.version
    }

    /// Integrates the download of a server of partitions as the bootstrap of a subscription set, in parts.
    private mutating func downloadPart(of download: Download, _ version: QueryVersion) throws {
        var parts = bootstrap?.version == version ? bootstrap?.parts ?? [] : []
        if bootstrap.map({ $0.version != version }) ?? false || !download.changesets.starts(with: parts) {
            try twins.connect()
            parts = []
        }
        let rest = Array(download.changesets.dropFirst(parts.count))
        let count = rest.count < 2 ? rest.count : 1 + random.below(rest.count)
        guard count < rest.count else {
            let last = Download(progress: download.progress, changesets: rest)
            try twins.integrate(last, as: .bootstrap(version, isLast: true))
            bootstrap = nil
            tally.bootstraps += 1
            return try mark()
        }
        let part = Download(progress: download.progress, changesets: Array(rest.prefix(count)))
        try twins.integrate(part, as: .bootstrap(version, isLast: false))
        bootstrap = (version, parts + rest.prefix(count))
        tally.parts += 1
    }

    private func mark() throws {
        try twins.change({ try $0.subscriptionsMarked() }, { try $0.subscriptionsMarked() })
    }

    private mutating func subscribe() throws {
        let version = try twins.subscribe([Subscription("Task", "TRUEPREDICATE", name: "\(clock)")])
        guard random.isOne(in: 3) else { return }
        try twins.change(
            { try $0.subscriptionsRefused(version, "no") }, { try $0.subscriptionsRefused(version, "no") })
    }

    // MARK: Endings

    private mutating func reopen() throws {
        try twins.reopen()
        bootstrap = nil
        tally.reopened += 1
    }

    /// Replaces the twins by fresh ones, which have everything that the server has.
    private mutating func reset() throws {
        twinsCount += 1
        let fresh = try ReplicaTwins(path: folder.appendingPathComponent("replica-\(twinsCount)").path)
        if isFlexible { _ = try fresh.subscribe([Subscription("Task")]) }
        let ident = try file.allocateIdents(for: [nil], at: clock)[0]
        try fresh.identify(as: ident)
        let kind = isFlexible ? DownloadKind.bootstrap(1, isLast: true) : .steady
        try fresh.integrate(
            try file.downloads(for: ident.ident).download(
                after: fresh.memory.progress.cursor, byteBudget: .max), as: kind)
        let recovery = try fresh.takePlace(of: twins, recovers: random.isOne(in: 2), at: ChangesetTime(clock))
        try twins.close()
        twins = fresh
        (self.ident, bootstrap) = (ident, nil)
        // The recovery was made without regard to what diverges.
        if recovery.changesets > 0 { isDivergent = true }
        tally.resets += 1
        tally.recovered += recovery.changesets
    }

    /// Exchanges everything, and checks that all have the server's state.
    private mutating func finish() throws {
        repeat {
            try upload(.max)
            try uploadOther()
            try download()
        } while !twins.memory.isAcknowledged || twins.memory.progress.cursor.serverVersion < file.version
        try uploadOther()
        try twins.compare()
        guard !isDivergent else { return }
        let server = try file.withState { try StateDigest(of: $0) }
        try ReplicaFailure.require(
            try StateDigest(of: twins.memory.state) == server, "the replica has another state than the server")
        tally.converged += 1
    }
}

/// The counts of all runs.
struct ReplicaTally: RunTally {
    var runs = 0, operations = 0, transactions = 0, uploads = 0, downloads = 0, merges = 0, bootstraps = 0, parts = 0
    var reopened = 0, resets = 0, recovered = 0
    /// The number of runs in which nothing was written that the reference itself may merge in two ways.
    var converged = 0
    /// The seeds of the runs that failed, with the reasons.
    var failures: [(seed: UInt64, reason: String)] = []

    var hasFailed: Bool { !failures.isEmpty }

    mutating func add(_ other: ReplicaTally) {
        runs += other.runs
        operations += other.operations
        transactions += other.transactions
        uploads += other.uploads
        downloads += other.downloads
        merges += other.merges
        bootstraps += other.bootstraps
        parts += other.parts
        reopened += other.reopened
        resets += other.resets
        recovered += other.recovered
        converged += other.converged
        failures += other.failures
    }
}
