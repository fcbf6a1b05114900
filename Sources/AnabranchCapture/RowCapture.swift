public import AnabranchClient
import AnabranchCore
import AnabranchReplica
import Synchronization

/// Keeps the rows of a captured database and the objects of a replica equal (`Spec/Capture.md`). The replica is
/// synchronized as any other one, by a `SyncClient`.
///
///     let capture = try RowCapture(database: "app.sqlite", replica: "app.sqlite.replica")
///     try await client.add(capture.replica, partition: #""notes""#)
///     try await capture.synchronize()
///
/// `pass` turns rows that the application has written into objects, and objects that came from others into rows.
public actor RowCapture {
    private let queue = QueueExecutor(label: "anabranch.capture")
    /// The executor that carries out the calls.
    public nonisolated var unownedExecutor: UnownedSerialExecutor { queue.asUnownedSerialExecutor() }

    /// The replica, for its synchronization. Nobody else may write it.
    public nonisolated let replica: SyncedReplica
    private(set) var database: CapturedDatabase
    private let rowsWin: Bool
    let changed = ChangedObjects()
    private let time: StepTime
    /// The forms of columns by table, once the classes of the replica have them.
    private var forms: [Int64: [ColumnForm]] = [:]
    private var preparedSchema: SQLValue?
    private var isStarted = false
    /// The marks of the database after the last pass.
    private var marks: [SQLValue?]?
    private var isPassing = false
    private var waiting: [CheckedContinuation<Void, Never>] = []
    /// The entries up to which everything is uploaded when the replica's version is.
    private var sent: (entry: Int64, version: ClientVersion)?

    /// Opens a database in which capture is installed, and the replica that goes with it; a new one if there is none.
    ///
    /// - Parameters:
    ///   - path: the database.
    ///   - replicaPath: the replica's file.
    ///   - rowsWin: true if the row's value counts where a row that is matched, or any row of a database from a backup,
    ///     and its object both have one; else the object's does (`Spec/Capture.md`, section 3).
    /// - Throws: `CaptureError` if nothing is installed, capture is paused, or others keep the database locked;
    ///   `ReplicaError`, with the code `inUse` if another process has the replica open.
    public init(database path: String, replica replicaPath: String, rowsWin: Bool = false) throws {
        database = try CapturedDatabase(path: path)
        try database.checkUsable()
        self.rowsWin = rowsWin
        let time = StepTime()
        self.time = time
        replica = try SyncedReplica(path: replicaPath) { time.now }
    }

    /// Closes the replica. No other call may follow.
    public func close() async throws { try await replica.close() }

    // MARK: Passes

    /// Turns changed rows into objects, and changed objects into rows, until both are equal.
    ///
    /// - Parameter progress: called after each transaction with the counts so far.
    /// - Returns: what was done.
    /// - Throws: `CaptureError`, with the code `locked` if others keep the database locked, and `replicaMismatch` if
    ///   rows are to be matched with objects that the replica does not have yet; `ReplicaError`; `CancellationError`
    ///   between two transactions.
    @discardableResult public func pass(_ progress: @Sendable (CaptureProgress) -> Void = { _ in }) async throws
        -> CaptureProgress
    {
        await enter()
        defer { leave() }
        var tries = 0, mayMatch = false
        while true {
            do { return try await carryOut(&mayMatch, progress) } catch is CapturedDatabase.SchemaChanged {
                tries += 1
                guard tries < Self.schemaTriesMax else {
                    throw CaptureError(.unreadable, "\(database.path): the schema does not stay as it is")
                }
            } catch {
                // A step may be half done, and a class may not be as it was prepared.
                isStarted = false
                preparedSchema = nil
                guard let error = error as? SQLError else { throw error }
                database.checkedSchema = nil
                throw CaptureError(error, in: database.path)
            }
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

    /// How many times a pass is begun again because the schema has changed during it.
    private static let schemaTriesMax = 8

    /// - Parameter mayMatch: true once the replica has the objects that rows are matched with.
    private func carryOut(
        _ mayMatch: inout Bool, _ progress: @Sendable (CaptureProgress) -> Void
    ) async throws -> CaptureProgress {
        var total = CaptureProgress()
        try noticeBackup()
        try await start()
        total.renewedTables = try database.check()
        if try database.takeRepair() { changed.add(nil) }
        if !mayMatch { try await checkMatching() }
        mayMatch = true
        try await prepareClasses()
        try await match(&total, progress)
        try await collect(&total, progress)
        let compared = try database.compareTables()
        if !compared.isEmpty {
            try await collect(&total, progress)
            try database.endComparison(of: compared)
        }
        do { try await apply(&total, progress) } catch {
            // Those that were under way are not known any more.
            changed.add(nil)
            throw error
        }
        try await forget()
        marks = try database.marks
        return total
    }

    /// Begins anew if the database is not the one of the last pass, as when a backup has taken its place.
    private func noticeBackup() throws {
        if database.db.isReplaced {
            database = try CapturedDatabase(path: database.path)
        } else if try marks == nil || marks == database.marks {
            marks = nil
            return
        }
        (marks, isStarted, preparedSchema) = (nil, false, nil)
    }

    /// Uploads the application's changes, downloads those of others, and writes them to the rows.
    ///
    /// - Parameter progress: called after each transaction with the counts so far.
    /// - Returns: what was done.
    /// - Throws: what `pass` throws; `SyncError` if the wait for the server would never end.
    @discardableResult public func synchronize(_ progress: @Sendable (CaptureProgress) -> Void = { _ in }) async throws
        -> CaptureProgress
    {
        let isMatching = try database.translating { try database.isMatching }
        let hasSynced = await replica.record.hasSynced
        if isMatching || !hasSynced { try await download() }
        var total = try await pass(progress)
        while true {
            try await replica.waitForUpload()
            try await replica.waitForDownload()
            let more = try await pass(progress)
            total.add(more)
            if more.isEmpty { return total }
        }
    }

    // MARK: Matching

    /// The rows that would get the objects that they are if they were matched now. Nothing is changed.
    ///
    /// - Returns: the tables whose rules say how, and whose classes the file has.
    /// - Throws: `CaptureError`; `ReplicaError`; `SyncError` if the wait for the server would never end.
    public func matches() async throws -> [CaptureMatches] {
        try await download()
        await enter()
        defer { leave() }
        let state = try await replica.snapshot().state
        return try database.translating { try database.matches(with: state, rowsWin: rowsWin) }
    }

    /// Has everything here that the server has of the tables.
    private func download() async throws {
        // What is on the server decides what classes there are.
        try await replica.waitForDownload()
        try await subscribe()
        if await !replica.record.hasSubscribed { try await replica.waitForSubscriptions() }
    }

    /// Refuses to match rows with objects that the replica does not have yet. Classes that it lacks are made only
    /// afterwards: they have no objects to wait for.
    private func checkMatching() async throws {
        guard try database.isMatching else { return }
        try await subscribe()
        let record = await replica.record
        guard record.hasSynced, record.hasSubscribed else {
            let reason = "rows are matched with objects, and its replica has them only when it was synchronized"
            throw CaptureError(.replicaMismatch, "\(database.path): \(reason)")
        }
    }

    /// Gives rows that were there before the objects that they are.
    private func match(_ total: inout CaptureProgress, _ progress: @Sendable (CaptureProgress) -> Void) async throws {
        guard try database.isMatching else { return }
        var matches: [CaptureMatches] = []
        for _ in 0..<Self.roundsMax {
            try await collect(&total, progress)
            // The snapshot has to be gone before the replica is closed.
            let matched = try await {
                try database.match(with: try await replica.snapshot().state, rowsWin: rowsWin)
            }()
            changed.insert(matched.objects)
            matches = matched.tables.map { table in
                matches.first { $0.table == table.table }.map { table.following($0) } ?? table
            }
            if matched.isWhole { break }
        }
        total.matches = matches
        try database.endMatching()
    }

    // MARK: Beginning

    private func start() async throws {
        guard !isStarted else { return }
        let changed = changed
        await replica.follow { objects, isLocal in if !isLocal { changed.add(objects) } }
        let record = await replica.record
        let known = try database.state("replica"), written = try database.state("written")?.int ?? 0
        if record.lastWritten == 0, written > 0 || known != nil && known != record.name {
            try await replaceLost(record)
        } else if written > Int64(clamping: record.lastWritten.rawValue),
            try !database.isStepTime(record.lastWritten)
        {
            let reason = "the replica is not the one that the database was synchronized with, or an older copy of it"
            throw CaptureError(.replicaMismatch, reason)
        } else if written < Int64(clamping: record.lastWritten.rawValue),
            try !database.isStepTime(record.lastWritten)
        {
            // The database is older than the replica: objects of its rows may be there of which it does not know.
            try database.awaitMatching()
            if rowsWin { try database.sendAllRows() }
        }
        try database.endStep(isWritten: database.isStepTime(record.lastWritten), record.lastWritten)
        if try database.state("applied")?.int != Int64(clamping: record.version.rawValue), try await hasObjects() {
            changed.add(nil)
        }
        if let collected = try database.state("collected")?.int { sent = (collected, .init(rawValue: .max)) }
        isStarted = true
    }

    /// Adds the classes and properties that the replica does not have.
    private func prepareClasses() async throws {
        guard preparedSchema != database.checkedSchema else { return }
        let tables = database.tables
        let wanted = tables.map { table in
            WantedClass(name: table.name, properties: table.properties.map { ColumnForm($0, of: table).wanted })
        }
        let types = try await step(try database.noEntries()) { transaction in
            try WantedClass.add(wanted, to: transaction)
        }
        for (table, types) in zip(tables, types) {
            forms[table.number] = zip(table.properties, types).map { column, found in
                ColumnForm(column, of: table).with(found.type, isNullable: found.isNullable)
            }
        }
        try await subscribe()
        preparedSchema = database.checkedSchema
    }

    /// Makes a transaction of the replica of which the database knows.
    ///
    /// - Parameters:
    ///   - collected: the entries of which it is made.
    ///   - conflicts: the values that it gives up.
    private func step<Value: Sendable>(
        _ collected: Collected, _ conflicts: [CaptureConflict] = [],
        _ body: @Sendable (WriteTransaction) throws -> Value
    ) async throws -> Value {
        let time = StepTime.next(after: await replica.record.lastWritten)
        try database.beginStep(collected, conflicts, at: time)
        self.time.set(time)
        defer { self.time.set(nil) }
        let value = try await replica.write(body)
        try database.endStep(isWritten: true, await replica.record.lastWritten)
        return value
    }

    // MARK: Collecting

    private func collect(_ total: inout CaptureProgress, _ progress: @Sendable (CaptureProgress) -> Void) async throws {
        try database.sweep()
        while let collected = try Collection.next(in: database, forms) {
            try Task.checkCancellation()
            try await write(collected)
            changed.insert(collected.refused)
            sent = (collected.newest, await replica.record.version)
            total.collected += collected.changes.count
            progress(total)
        }
    }

    /// Writes what was collected. What is given up for it, or because others have erased its object, is known only
    /// then, and has to be noted before: so it is written again when something is not.
    private func write(_ collected: Collected) async throws {
        struct Unnoted: Error { let lost: [CaptureConflict] }
        let changes = collected.changes
        var lost: [CaptureConflict] = []
        while true {
            let noted = Set(lost)
            do {
                return try await step(collected, collected.issues + lost) { transaction in
                    let lost = try ObjectChange.write(changes, in: transaction)
                    guard noted.isSuperset(of: lost) else { throw Unnoted(lost: lost) }
                }
            } catch let error as Unnoted { lost = error.lost }
        }
    }

    // MARK: Applying

    private static let appliedObjects = 1_000
    /// The number of objects that are applied together when some were in each other's way.
    private static let waitingObjects = 10_000

    private func apply(_ total: inout CaptureProgress, _ progress: @Sendable (CaptureProgress) -> Void) async throws {
        var rounds = 0
        var retries = total.collected > 0
        while true {
            // The snapshot has to be gone before the replica is closed.
            let (outcome, version) = try await {
                let taken = changed.take()
                let snapshot = try await replica.snapshot()
                let batches = DirtyBatches(database, snapshot.state, consume taken)
                let size = rounds == 0 ? Self.appliedObjects : Self.waitingObjects
                let outcome = try applyAll(batches, size, snapshot.state, &total, progress)
                return (outcome, snapshot.record.version)
            }()
            changed.insert(outcome.left)
            if !outcome.writtenBack.isEmpty {
                let changes = outcome.writtenBack
                let yielding = changes.filter { $0.kind == .erase }.map { CaptureConflict(.newest, $0) }
                _ = try await step(try database.noEntries(), yielding) { transaction in
                    try ObjectChange.write(changes, in: transaction)
                }
                changed.insert(changes.map { DirtyObject(table: $0.table, guid: $0.guid) })
                total.writtenBack += changes.count
            }
            // An object that waits may be what another one waits for.
            retries = retries || outcome.count > 0 || rounds == 0 && !outcome.waiting.isEmpty
            if !outcome.left.isEmpty { try await collect(&total, progress) }
            rounds += 1
            if changed.isEmpty, retries {
                // What is in the way of those that wait may be gone.
                retries = false
                changed.insert(try database.pendingObjects())
            }
            if changed.isEmpty { try database.recordApplied(version, of: await replica.record.name) }
            if changed.isEmpty || rounds >= Self.roundsMax { break }
        }
        total.waiting = try database.pendingCount
    }

    /// Objects that are left then are left to the next pass.
    private static let roundsMax = 16

    private func applyAll(
        _ batches: DirtyBatches, _ size: Int, _ state: ObjectGraph, _ total: inout CaptureProgress,
        _ progress: @Sendable (CaptureProgress) -> Void
    ) throws -> Application.Outcome {
        var all = Application.Outcome()
        try batches.forEach(size) { batch in
            try Task.checkCancellation()
            var application = Application(database, state, forms)
            let outcome = try application.run(batch)
            all.add(outcome)
            total.applied += outcome.count
            progress(total)
        }
        if all.isUnstable { total.isUnstable = true }
        return all
    }

    /// Removes the entries that the server has acknowledged.
    private func forget() async throws {
        guard let sent else { return }
        let acknowledged = await replica.record.progress.upload.clientVersion
        let isIdle = await replica.unacknowledged.changesets == 0
        guard isIdle || sent.version <= acknowledged else { return }
        try database.removeEntries(through: sent.entry)
        self.sent = nil
    }
}
