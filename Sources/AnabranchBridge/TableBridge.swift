#if canImport(CLibPQ)
import AnabranchCapture
public import AnabranchClient
import AnabranchCore
import AnabranchPostgresWire
import AnabranchReplica

/// Keeps the rows of bridged tables and the objects of a replica equal (`Spec/Bridge.md`). The replica is synchronized
/// as any other one, by a `SyncClient`.
///
///     let bridge = try TableBridge(database: "postgres://127.0.0.1/app", replica: "bridge.replica", name: "a")
///     try await client.add(bridge.replica, partition: #""notes""#)
///     try await bridge.synchronize()
///
/// Of several processes with one database, each with a replica of its own, one has the bridge; another takes it over
/// when that one is silent.
public actor TableBridge {
    private let queue = QueueExecutor(label: "anabranch.bridge")
    /// The executor that carries out the calls.
    public nonisolated var unownedExecutor: UnownedSerialExecutor { queue.asUnownedSerialExecutor() }

    /// The replica, for its synchronization. Nobody else may write it.
    public nonisolated let replica: SyncedReplica
    let database: BridgeDatabase
    /// This process, as others see it.
    public nonisolated let name: String
    /// The file that the replica is of, as the database remembers it; nil if it is not to be compared.
    private let file: String?
    let silence: Double
    let allowsDeletions: Bool
    private let dirty = ChangedObjects()
    private let time = StepTime()
    private var isFollowing = false
    /// The identity of the replica with which the bridge was begun; nil before.
    private var begun: SaltedFileID?
    private var preparedFor: SchemaStamp?
    private var isPassing = false
    private var waiting: [CheckedContinuation<Void, Never>] = []
    private var held: ContinuousClock.Instant?
    private var hasHeld = false
    /// True until all rows were compared for the first time.
    private(set) var isFirst = false
    private var checked: ContinuousClock.Instant?
    /// The entries up to which everything is uploaded when the replica's version is.
    private var sent: (snapshot: String, version: ClientVersion)?

    /// Opens the replica; a new one if there is none. The first pass connects to the database.
    ///
    /// - Parameters:
    ///   - target: a connection string of libpq, or a `postgres://` URI, of a database with the bridge installed.
    ///   - replicaPath: the replica's file.
    ///   - name: this process, as `status` and other processes see it; each has a name of its own.
    ///   - file: what the replica is of. The database is bridged to that file alone; nil if any will do.
    ///   - seconds: the time that a statement may take: from 0.001 to 86,400.
    ///   - silence: the seconds without a sign of the holder after which another process takes over; at least 0.
    ///   - allowsDeletions: true if any number of rows may be deleted whose objects are gone (`Spec/Bridge.md`,
    ///     section 6).
    /// - Throws: `ReplicaError`, with the code `inUse` if another process has the replica open.
    public init(
        database target: String, replica replicaPath: String, name: String, file: String? = nil, seconds: Double = 60,
        silence: Double = 30, allowsDeletions: Bool = false
    ) throws {
        database = BridgeDatabase(target, seconds: seconds)
        (self.name, self.file, self.silence, self.allowsDeletions) = (name, file, max(0, silence), allowsDeletions)
        let time = time
        replica = try SyncedReplica(path: replicaPath) { time.now }
    }

    /// Gives the bridge up and closes the replica. No other call may follow.
    public func close() async throws {
        if hasHeld { try? database.release(name) }
        database.close()
        try await replica.close()
    }

    // MARK: Passes

    /// Turns changed rows into objects, and changed objects into rows.
    ///
    /// - Parameter progress: called after each transaction with the counts so far.
    /// - Returns: what was done.
    /// - Throws: `BridgeError`, with the code `heldByOther` while another process has the bridge, and `unreachable` if
    ///   the database cannot be reached; `ReplicaError`; `CancellationError` between two transactions.
    @discardableResult public func pass(_ progress: @Sendable (BridgeProgress) -> Void = { _ in }) async throws
        -> BridgeProgress
    {
        await enter()
        defer { leave() }
        do {
            for _ in 0..<Self.triesMax {
                do { return try await carryOut(progress) } catch is BridgeDatabase.TablesChanged {
                    checked = nil
                    dirty.add(nil)
                }
            }
            throw BridgeError(.refused, "the tables do not stay as they are")
        } catch {
            // Objects that were under way are not known any more, and others may have changed anything.
            dirty.add(nil)
            checked = nil
            held = nil
            // A step may be half done.
            begun = nil
            if let error = error as? PostgresError { throw BridgeError(error) }
            throw error
        }
    }

    /// Lets one call at a time make a pass: others run while it waits for the replica.
    private func enter() async {
        guard isPassing else {
            isPassing = true
            return
        }
        await withCheckedContinuation { waiting.append($0) }
    }

    private func leave() { if waiting.isEmpty { isPassing = false } else { waiting.removeFirst().resume() } }

    /// How many times a pass is begun again because tables have changed during it.
    private static let triesMax = 8
    /// How often the holder gives a sign, and the triggers are looked at, at least.
    private static let idleSeconds = 5.0

    private func carryOut(_ progress: @Sendable (BridgeProgress) -> Void) async throws -> BridgeProgress {
        var total = BridgeProgress()
        if held.map({ $0 + .seconds(min(Self.idleSeconds, silence / 4)) < .now }) ?? true {
            try database.checkInstalled()
            try database.hold(as: name, silence: silence)
            held = .now
            hasHeld = true
            // Another process may have had the bridge for a while.
            if let begun, try database.state("replica") != Self.text(begun) { self.begun = nil }
        }
        try await start()
        if checked.map({ $0 + .seconds(Self.idleSeconds) < .now }) ?? true || database.tables.isEmpty {
            try await check(&total)
            checked = .now
        }
        try await prepareClasses()
        try await collect(&total, progress)
        try await apply(&total, progress)
        if try database.state("resync") != nil { try await resync(&total, progress) }
        try await forget()
        return total
    }

    /// Uploads the changes made with SQL, downloads those of others, and writes them to the rows.
    ///
    /// - Parameter progress: called after each transaction with the counts so far.
    /// - Returns: what was done.
    /// - Throws: what `pass` throws; `SyncError` if the wait for the server would never end.
    @discardableResult public func synchronize(_ progress: @Sendable (BridgeProgress) -> Void = { _ in }) async throws
        -> BridgeProgress
    {
        try await waitForFirstDownload()
        var total = try await pass(progress)
        while true {
            try await replica.waitForUpload()
            try await replica.waitForDownload()
            let more = try await pass(progress)
            total.add(more)
            if more.isEmpty { return total }
        }
    }

    // MARK: Beginning

    /// Waits until everything is here that the server has of the tables: passes begin then, since a row without object
    /// is deleted. Returns at once if they have begun with the replica as it is.
    ///
    /// - Throws: `BridgeError` if the tables cannot be read; `SyncError` if the wait would never end.
    public func waitForFirstDownload() async throws {
        // After a client reset, the replica is another one.
        let record = await replica.record
        if let begun, begun == record.file { return }
        // What is on the server decides what classes there are, and which objects are gone.
        if !record.hasSynced { try await replica.waitForDownload() }
        guard await replica.record.subscriptions != nil else { return }
        await enter()
        do {
            defer { leave() }
            try await subscribe()
        } catch let error as PostgresError { throw BridgeError(error) }
        if await !replica.record.hasSubscribed { try await replica.waitForSubscriptions() }
    }

    /// Subscribes to the objects of the tables that have classes.
    private func subscribe() async throws {
        try database.checkInstalled()
        if try database.load() { preparedFor = nil }
        try await replica.subscribeToAll(of: database.tables.map(\.className))
    }

    /// A replica, as the database names it.
    private static func text(_ identity: SaltedFileID) -> String {
        "\(identity.ident.rawValue)-\(identity.salt.rawValue)"
    }

    private func start() async throws {
        if !isFollowing {
            let dirty = dirty
            await replica.follow { objects, isLocal in if !isLocal { dirty.add(objects) } }
            isFollowing = true
        }
        let record = await replica.record
        if let known = record.file, known == begun { return }
        if record.hasSynced, record.subscriptions != nil { try await subscribe() }
        guard let identity = record.file, record.hasSynced, await replica.record.hasSubscribed else {
            throw BridgeError(.fileMismatch, "the replica has not been synchronized yet: the bridge begins when it was")
        }
        if let file {
            let known = try database.state("file")
            guard known == nil || known == file else {
                throw BridgeError(
                    .fileMismatch,
                    "the database is bridged to \(known ?? ""), not to \(file): uninstall the bridge first")
            }
            if known == nil { try database.set("file", to: file) }
        }
        let own = Self.text(identity)
        let last = record.lastWritten
        let written = try database.state("written").flatMap(UInt64.init) ?? 0
        let step = try database.state("step time").flatMap(UInt64.init)
        if try database.isOfAnotherPast() {
            try database.forgetEntries()
            try database.set("resync", to: "1")
        } else if try database.state("replica") != own || written > last.rawValue {
            try database.collectAgain()
        } else if written < last.rawValue, step != last.rawValue {
            // The database is older than the replica, or somebody else has written this.
            try database.collectAgain()
            try database.set("resync", to: "1")
        }
        try database.endStep(isWritten: step == last.rawValue, last)
        if try database.state("replica") == nil { isFirst = true }
        try database.set("replica", to: own)
        try database.set("written", to: "\(last.rawValue)")
        if try database.state("applied") != "\(record.version.rawValue)" { dirty.add(nil) }
        if let collected = try database.state("collected") { sent = (collected, .init(rawValue: .max)) }
        begun = identity
        preparedFor = nil
        checked = nil
    }

    /// Looks at the tables and their triggers, and makes those again that are missing.
    private func check(_ total: inout BridgeProgress) async throws {
        if try database.load() { preparedFor = nil }
        // An unfinished installation has left rows without an entry: their objects are not gone.
        try database.db.query(
            """
            WITH undone AS (UPDATE anabranch.bridged SET noted = NULL WHERE noted IS NOT NULL RETURNING 1)
            INSERT INTO anabranch.state (name, value) SELECT 'resync', '1' FROM undone LIMIT 1
            ON CONFLICT (name) DO NOTHING
            """)
        let known = try database.state("shape")
        if known != database.shape {
            // A new column has values that no trigger has seen.
            if known != nil { try database.set("resync", to: "1") }
            try database.set("shape", to: database.shape)
        }
        let broken = try database.tablesWithoutTriggers()
        guard !broken.isEmpty else { return }
        try database.changingTables { _ in
            try database.hold(as: name, silence: silence)
            for table in broken { try database.makeTriggers(of: table) }
            try database.set("resync", to: "1")
        }
        total.renewedTables += broken.map(\.path)
    }

    /// Makes a transaction of the replica of which the database knows.
    /// - Parameter conflicts: what the batch loses.
    private func step(
        _ batch: RowBatch?, _ conflicts: [RowConflict] = [], _ body: @Sendable (WriteTransaction) throws -> Void
    ) async throws {
        let time = StepTime.next(after: await replica.record.lastWritten)
        try database.beginStep(batch, conflicts, at: time, as: name, silence: silence)
        self.time.set(time)
        defer { self.time.set(nil) }
        try await replica.write(body)
        try database.endStep(isWritten: true, await replica.record.lastWritten)
    }

    /// Adds the classes and properties that the replica does not have.
    private func prepareClasses() async throws {
        let stamp = try await replica.read { transaction in transaction.schemaStamp }
        guard preparedFor != stamp else { return }
        let wanted = database.tables.map { BridgedClass($0, in: database) }
        try await step(nil) { transaction in try BridgedClass.add(wanted, to: transaction) }
        try await replica.subscribeToAll(of: database.tables.map(\.className))
        preparedFor = try await replica.read { transaction in transaction.schemaStamp }
    }

    // MARK: Collecting

    private func collect(_ total: inout BridgeProgress, _ progress: @Sendable (BridgeProgress) -> Void) async throws {
        while let batch = try database.nextBatch() {
            try Task.checkCancellation()
            try await write(batch)
            if batch.position == nil { sent = (batch.target, await replica.record.version) }
            total.collected += batch.changes.count
            progress(total)
        }
    }

    /// Carries out the changes of a batch. What they lose is known only when they are carried out, and has to be noted
    /// before: so they are carried out again when something is not.
    private func write(_ batch: RowBatch) async throws {
        struct Unnoted: Error { let conflicts: [RowConflict] }
        let changes = batch.changes
        var noted: [RowConflict] = []
        while true {
            let known = Set(noted)
            do {
                return try await step(batch, batch.conflicts + noted) { transaction in
                    let conflicts = try RowChange.write(changes, in: transaction)
                    guard known.isSuperset(of: conflicts) else { throw Unnoted(conflicts: conflicts) }
                }
            } catch let error as Unnoted { noted = error.conflicts }
        }
    }

    // MARK: Applying

    private static let roundsMax = 8

    private func apply(_ total: inout BridgeProgress, _ progress: @Sendable (BridgeProgress) -> Void) async throws {
        var triesWaiting = total.collected > 0, areWaiting = false, rounds = 0
        while true {
            if !dirty.isEmpty {
                // The snapshot has to be gone before the replica is closed.
                let outcome = try await {
                    let taken = dirty.take()
                    let snapshot = try await replica.snapshot()
                    return try applyAll(consume taken, areWaiting: areWaiting, snapshot.state, &total, progress)
                }()
                dirty.add(outcome.left)
                total.isUnstable = total.isUnstable || outcome.isUnstable
                // An object that waits may be what another one waits for.
                triesWaiting = triesWaiting || outcome.count > 0 || outcome.waiting > 0 && !areWaiting
                if outcome.uncollected > 0, rounds < Self.roundsMax {
                    rounds += 1
                    try await collect(&total, progress)
                    continue
                }
            }
            guard triesWaiting else { break }
            // What was in the way of those that wait may be gone.
            triesWaiting = false
            let waiting = try database.waitingObjects(in: try await replica.snapshot().state)
            if waiting.isEmpty { break }
            dirty.add(waiting)
            areWaiting = true
        }
        isFirst = false
        // The objects of a later version become dirty before that version is read here.
        let version = "\(await replica.record.version.rawValue)"
        if dirty.isEmpty, try database.state("applied") != version { try database.set("applied", to: version) }
        total.waiting = Int(try database.db.query("SELECT count(*) FROM anabranch.pending")[0, 0] ?? "") ?? 0
    }

    // MARK: Comparing

    /// Has all rows collected as if they had changed, and objects erased whose rows are gone: triggers were missing.
    private func resync(_ total: inout BridgeProgress, _ progress: @Sendable (BridgeProgress) -> Void) async throws {
        do {
            // Every object of this snapshot has had its row; one that comes later has none yet.
            let snapshot = try await replica.snapshot()
            guard dirty.isEmpty else { return }
            for table in database.tables {
                var last: String?
                repeat {
                    last = try database.transaction { db in
                        try database.hold(as: name, silence: silence)
                        return try database.record(table, after: last, in: db).last
                    }
                } while last != nil
                try ObjectComparison(database, snapshot.state).recordMissingRows(table)
            }
        }
        try database.set("resync", to: nil)
        try await collect(&total, progress)
        try await apply(&total, progress)
    }

    // MARK: Forgetting

    /// Removes the entries that the server has acknowledged.
    private func forget() async throws {
        guard let sent else { return }
        let acknowledged = await replica.record.progress.upload.clientVersion
        let isIdle = await replica.unacknowledged.changesets == 0
        guard isIdle || sent.version <= acknowledged else { return }
        try database.removeEntries(through: sent.snapshot)
        self.sent = nil
    }
}
#endif
