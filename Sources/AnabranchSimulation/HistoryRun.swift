import AnabranchCore
package import AnabranchHistory
import AnabranchTesting

/// Random clients of a file that is maintained at random moments: it seals, makes generations and trims its log
/// (`Spec/BoundedHistory.md`). Everything follows from the seed.
///
/// - A run with an even seed has a twin that is never maintained: the old clients get the same from both, byte for
///   byte. Clients that join later only read. If the run has an archive, it holds, together with the log, what the twin
///   has.
/// - In a run with an odd seed, clients that join later write as well, before their first connection and in the middle
///   of the generation. All have the same state in the end.
/// - In one run out of three, clients are sometimes away for a long time. A client that has expired is refused, and
///   starts over.
package final class HistoryRun {
    /// A violation that a run has found.
    package struct Failure: Error, CustomStringConvertible {
        package let description: String
    }

    private struct Participant {
        var client: MemoryClient
        var session: SessionProgress?
        /// True if the client has been there since the beginning of the run.
        let isOld: Bool
        /// True once the client has expired and another one has taken its place.
        var isGone = false
    }

    private var store: any HistoryStore
    private let twinStore = InMemoryStore()
    /// Reopens the store, as after the end of a process.
    private let restart: () throws -> any HistoryStore
    private var file: SyncedFile
    private var twin: SyncedFile?
    private var random: SeededRandom
    private var policy = HistoryPolicy()
    private let hotSpot: HotSpot
    private var participants: [Participant] = []
    private var made = AuthoredInstructions()
    private var round: MaintenanceRound?
    /// The average number of steps after which maintenance goes on.
    private let maintenanceInterval: Int
    private let clientsMax: Int
    private let tailBytesMax: Int
    private var clock: UInt64 = 1_000
    /// True if clients are sometimes away for a long time.
    private let hasAbsences: Bool
    /// The counts of events, as proof that they occur.
    package private(set) var tally = HistoryTally()

    /// - Parameters:
    ///   - store: the store of the maintained file.
    ///   - restart: closes the store and opens it again; nil for a store that does not outlive its process.
    package init(seed: UInt64, store: any HistoryStore, restart: (() throws -> any HistoryStore)? = nil) throws {
        random = SeededRandom(scrambling: seed)
        hotSpot = HotSpot(&random)
        self.store = store
        self.restart = restart ?? { store }
        policy.sealEntries = UInt64(random.pick([1, 2, 5, 20]))
        policy.sealBytes = UInt64(random.pick([1, 200, 5_000]))
        policy.generationBytes = UInt64(random.pick([0, 100, 1_000, 3_000]))
        policy.generationRatio = random.pick([0, 0.5, 1])
        policy.keep = (seed / 2).isMultiple(of: 2) ? .drop : .archive
        maintenanceInterval = random.pick([1, 3, 10])
        hasAbsences = random.isOne(in: 3)
        clientsMax = random.pick([4, 8])
        tailBytesMax = random.pick([0, 2_000, 4 << 20])
        let salts = random.next()
        file = try Self.open(store, salts, tailBytesMax)
        if seed.isMultiple(of: 2) { twin = try Self.open(twinStore, salts, 0) }
        for _ in 0..<3 { try join(isOld: true) }
        try write(0, at: 1) { try RandomWorld.begin($0) }
        for index in participants.indices { try exchange(index) }
    }

    private static func open(
        _ store: any HistoryStore, _ salts: UInt64, _ tailBytesMax: Int
    ) throws -> SyncedFile {
        try SyncedFile(
            path: VirtualPath("run"), store: store, destructiveSchema: .allow, tailBytesMax: tailBytesMax,
            randomness: SeededRandom(seed: salts))
    }

    /// - Throws: `Failure`, or the error that stopped the run.
    package func run(steps: Int = 60) throws {
        for _ in 0..<steps {
            try step()
            if random.isOne(in: maintenanceInterval) { try maintain() }
        }
        try finish()
        tally.runs = 1
    }

    private func require(_ holds: Bool, _ what: @autoclosure () -> String) throws {
        if !holds { throw Failure(description: what()) }
    }

    private func step() throws {
        let index = random.pick(participants.indices.filter { !participants[$0].isGone })
        if hasAbsences, random.isOne(in: 30) { clock += policy.offlineDays * 86_400 }
        switch random.below(24) {
        case 0..<8: try write(index)
        case 8..<12: try upload(index, random.pick([1, 2, .max]))
        case 12..<17: try download(index, byteBudget: random.pick([0, 0, 100, 2_000, .max]))
        case 17: participants[index].session = nil
        case 18, 19: if participants.count < clientsMax { try join(isOld: false) }
        // After this they need nothing of the past.
        case 20, 21: for index in participants.indices where participants[index].isOld { try exchange(index) }
        default: try reopen()
        }
    }

    // MARK: Clients

    private func join(isOld: Bool) throws {
        let number = participants.count, ident = try file.allocateIdents(for: [nil], at: clock)[0]
        if let twin {
            try require(try twin.allocateIdents(for: [nil], at: clock)[0] == ident, "the twins give out other idents")
        }
        // Every other client is like the released ones: what those cannot apply is sent in another form.
        let capabilities = ClientCapabilities(overwritesDanglingLinks: number.isMultiple(of: 2))
        participants.append(Participant(client: MemoryClient(ident, capabilities: capabilities), isOld: isOld))
        guard !isOld, twin == nil, random.isOne(in: 2) else { return }
        // The client is offline, with a schema of its own.
        clock += 1
        try write(number, at: ChangesetTime(clock)) { try RandomWorld.begin($0) }
        for _ in 0..<random.below(4) { try write(number) }
    }

    private func write(_ index: Int) throws {
        guard twin == nil || participants[index].isOld else { return }
        clock += UInt64(random.below(3))
        let seeds = (0...random.below(3)).map { _ in random.next() }
        try write(index, at: ChangesetTime(clock + UInt64(random.below(10)))) { transaction in
            for seed in seeds {
                var editor = RandomEditor(transaction, on: hotSpot, seed: seed)
                do { try editor.edit() } catch is ApplyError {}
            }
        }
    }

    /// Makes a transaction. It has no effect if it erases classes or columns, on which clients may fail with a complete
    /// log as well, or if the reference itself would not converge.
    private func write(_ index: Int, at time: ChangesetTime, _ body: (WriteTransaction) throws -> Void) throws {
        let client = participants[index].client, tag = OriginTag(timestamp: time, ident: client.ident)
        try participants[index].client.write(
            at: time,
            if: { changeset in
                guard try !Self.erasesSchema(changeset) else { return false }
                let base = client.download.serverVersion.rawValue
                return try made.add(changeset, by: index, tag: tag, base: base) == nil
            }, body)
    }

    private static func erasesSchema(_ changeset: [UInt8]) throws -> Bool {
        var arena = ChangesetArena()
        let index = try arena.decode(changeset, version: 1, tag: OriginTag(timestamp: 1, ident: 1))
        return arena.instructions(of: index).contains { [.eraseTable, .eraseColumn].contains($0.kind) }
    }

    /// Identifies the client, unless it has a session.
    /// - Returns: whether it has one now; if it has expired, another client has taken its place.
    private func connect(_ index: Int) throws -> Bool {
        guard participants[index].session == nil else { return true }
        let request = participants[index].client.identRequest
        guard let session = try identify(request) else {
            participants[index].isGone = true
            tally.resets += 1
            try join(isOld: false)
            return false
        }
        if let twin, participants[index].isOld {
            try require(try twin.identify(request) == session, "an old client's session begins otherwise")
        }
        participants[index].session = session
        participants[index].client.startSession()
        return true
    }

    /// - Returns: nil if the client file has expired.
    private func identify(_ request: IdentRequest) throws -> SessionProgress? {
        do throws(HistoryError) {
            return try file.identify(request)
        } catch {
            if error.code == .clientFileExpired, hasAbsences { return nil }
            throw error
        }
    }

    private func upload(_ index: Int, _ countMax: Int) throws {
        guard try connect(index), let upload = participants[index].client.nextUpload(countMax),
            let rest = try participants[index].session?.accept(upload)
        else { return }
        let ident = participants[index].client.ident, before = file.version
        let outcomes = try integrate(rest, from: ident, into: file)
        for outcome in outcomes {
            try require(outcome.refusal == nil, "client \(ident) is refused: \(String(describing: outcome.refusal))")
        }
        let entries = try file.log(after: before).filter { $0.origin == ident }
        made.recordUpload(by: index, versions: entries.map(\.version.rawValue))
        if upload.changesets.contains(where: { $0.cursor.serverVersion < before }) { tally.merges += 1 }
        guard let twin, participants[index].isOld else { return }
        let other = try integrate(rest, from: ident, into: twin)
        try require(other == outcomes, "the twins report another outcome")
        try compare()
    }

    private func integrate(
        _ upload: Upload, from ident: ClientFileID, into file: SyncedFile
    ) throws -> [ClientOutcome] {
        // The time of its commit depends on other commits, so twins would differ.
        if twin == nil, try file.recordProgress(upload, from: ident, at: clock) { return [] }
        try file.enqueue(upload, from: ident)
        return try file.integrate(at: clock).outcomes
    }

    private func download(_ index: Int, byteBudget: Int) throws {
        guard try connect(index), let cursor = participants[index].session?.download else { return }
        let client = participants[index].client, ident = client.ident
        let source = file.downloads(for: ident, client.capabilities)
        let download = try source.download(after: cursor, byteBudget: byteBudget)
        if case .generation = try source.lineage(after: cursor) { tally.generationDownloads += 1 }
        var salt = file.head.versionSalt
        if case .generation(let version) = try source.lineage(after: download.progress.cursor) {
            salt = salt.within(version)
        }
        try require(
            download.progress.latest == SaltedVersion(version: file.version, salt: salt),
            "the newest version is said to be \(download.progress.latest)")
        if let twin, participants[index].isOld {
            let other = try twin.downloads(for: ident, client.capabilities).download(
                after: cursor, byteBudget: byteBudget)
            try require(other == download, "client \(ident) gets something else after \(cursor)")
        }
        participants[index].session?.download = download.progress.cursor
        // Sometimes the download is lost.
        guard !random.isOne(in: 12) else { return participants[index].session = nil }
        try participants[index].client.integrate(download)
    }

    // MARK: The server

    private func reopen() throws {
        store = try restart()
        // Both lose what is only in memory.
        round = nil
        for index in participants.indices { participants[index].session = nil }
        let salts = random.next()
        file = try Self.open(store, salts, tailBytesMax)
        if twin != nil { twin = try Self.open(twinStore, salts, 0) }
    }

    /// Runs some steps of a round of maintenance, or all of it.
    private func maintain() throws {
        if round == nil { policy.generationEntryBytes = try entryBytes() }
        var round =
            self.round
            ?? MaintenanceRound(
                policy, at: clock, expires: hasAbsences, connected: connected, isThorough: random.isOne(in: 2))
        var left = random.pick([1, 3, .max])
        while left > 0, !round.isDone {
            left -= 1
            guard let commit = try file.step(&round) else { continue }
            let stored = file.completed(commit)
            if !stored.isEmpty { try store.commit([stored]) }
            file.finish(stored, nil)
        }
        self.round = round.isDone ? nil : round
        if round.isDone { tally.add(round.report) }
        try compare()
    }

    private var connected: Set<ClientFileID> {
        Set(participants.lazy.filter { $0.session != nil }.map(\.client.ident))
    }

    /// Returns a size for the entries of a generation, in bytes: small, but so large that the log has versions enough
    /// for them, since the twin's log has to have the same length.
    private func entryBytes() throws -> Int {
        var bytes = random.pick([30, 300, 3_000])
        let state = try file.withState { $0 }
        while true {
            var changesets = BootstrapChangesets(of: state, endingAt: bytes), count: UInt64 = 0
            while try changesets.next() != nil { count += 1 }
            if count < 2 || count * 4 <= file.version.rawValue { return bytes }
            bytes *= 4
        }
    }

    // MARK: Comparing the twins

    private func compare() throws {
        guard let twin else { return }
        let (head, other) = (file.head, twin.head)
        try require(
            head.version == other.version && head.versionSalt == other.versionSalt
                && head.cumulativeSize == other.cumulativeSize, "the logs end otherwise: \(head), \(other)")
        try require(try file.log() == twin.log(after: head.baseVersion), "the logs have other entries")
        for participant in participants where participant.isOld && !participant.isGone {
            let ident = participant.client.ident
            // Nothing is kept of a client that has expired, even before it learns of that.
            if try file.clientFile(ident)?.isExpired == true { continue }
            try require(
                try reciprocals(of: ident, in: file) == reciprocals(of: ident, in: twin),
                "client \(ident) has other reciprocal changesets")
        }
    }

    private func reciprocals(of ident: ClientFileID, in file: SyncedFile) throws -> [ReciprocalChangeset] {
        let store: any HistoryStore = file === twin ? twinStore : store
        return try store.read(file.id) { view throws(HistoryError) in
            try view.reciprocals(of: ident, in: VersionRange(after: 0, through: .largest))
        }
    }

    /// Returns the entries that have left the log of the file for the archive.
    private func archive() throws -> [LogEntry] {
        var entries: [LogEntry] = []
        while true {
            let older = try file.archivedEntries(upTo: entries.first.map { $0.version - 1 } ?? .largest)
            if older.isEmpty { return entries }
            entries = older + entries
        }
    }

    // MARK: The end

    /// Lets a client upload and download all there is.
    private func exchange(_ index: Int) throws {
        for _ in 0..<1_000 where !participants[index].isGone {
            try upload(index, .max)
            let client = participants[index].client
            if client.download.serverVersion >= file.version, client.isAcknowledged { return }
            try download(index, byteBudget: .max)
        }
        try require(
            participants[index].isGone, "client \(participants[index].client.ident) does not come to an end")
    }

    private func finish() throws {
        var version: ServerVersion, count: Int
        repeat {
            (version, count) = (file.version, participants.count)
            for index in participants.indices { try exchange(index) }
        } while version != file.version || count != participants.count
        try maintain()
        let server = try file.withState { try StateDigest(of: $0) }
        if let twin {
            try require(try twin.withState { try StateDigest(of: $0) } == server, "the twin has another state")
        }
        let archive = try archive()
        if policy.keep == .archive {
            let count = file.head.baseVersion.rawValue
            try require(UInt64(archive.count) == count, "the archive has \(archive.count) of \(count) entries")
        }
        if let twin {
            try require(try twin.log().starts(with: archive), "the archive has other entries than the twin")
        }
        tally.archived += UInt64(archive.count)
        for participant in participants where !participant.isGone {
            let isSame = try StateDigest(of: participant.client.state) == server
            try require(isSame, "client \(participant.client.ident) differs from the server")
        }
    }
}
