#if canImport(CLibPQ)
public import AnabranchCore
public import AnabranchHistory
import AnabranchPostgresWire
import Foundation
import Synchronization

/// The store of files in a PostgreSQL database (`Spec/Postgres.md`), flushed to its disk with each commit. One node at
/// a time serves a file: opening it ends the lease of any other node, whose commits and reads are refused from then on.
/// With `Options.isShared`, all nodes serve all files (`Spec/Nodes.md`).
///
/// Each call has a deadline. A broken connection is opened again by the next call.
public final class PostgresStore: Sendable {
    /// The choices for a store.
    public struct Options: Sendable {
        /// The time that a connection, and each round trip, may take, in seconds: 0.1 to 3,600.
        public var seconds = 10.0
        /// The connections that write: files in different shards are written at the same time; 1 to 64.
        public var writers = 4
        /// The connections that read; 1 to 256.
        public var readers = 8
        /// The number of days for which changesets are kept as they were received, where merging has changed them.
        public var explainDays = 30
        /// True to refuse a database that may lose acknowledged commits.
        public var requiresDurability = true
        /// True if several nodes write the same files (`Spec/Nodes.md`). A store is made for that or not: the other
        /// kind is refused.
        public var isShared = false
        /// Remembers uploads that may have ended the process; nil: nothing does.
        public var suspects: (any UploadSuspects)?

        /// The defaults.
        public init() {}

        fileprivate var bounded: Options {
            var options = self
            options.seconds = min(max(seconds, 0.1), 3_600)
            options.writers = min(max(writers, 1), 64)
            options.readers = min(max(readers, 1), 256)
            options.explainDays = min(max(explainDays, 0), 365_250)
            return options
        }
    }

    let readers: ConnectionPool
    let writers: ConnectionPool
    let options: Options
    let target: PostgresTarget
    let openFiles = Mutex(OpenFiles())
    /// The segments that were opened, and the server's term: of another server they may be others.
    private let keptSegments = Mutex((term: 0, cache: SegmentCache()))
    /// Tells other nodes of commits, and hears of theirs; nil unless the store is shared.
    let wakes: StoreWakes?
    /// True if there was no store before it was opened.
    public let isNew: Bool

    /// Opens the store in a database, which is made if it has none.
    /// - Parameter url: a `postgres://` URI, or a connection string of libpq.
    /// - Throws: `storeFailed` if the database cannot be reached; `storeUnusable` if the user may not do what is
    ///   needed, the server is too old or may lose what it has acknowledged, or the tables are not those of this
    ///   version.
    public convenience init(_ url: String, options: Options = Options()) throws(HistoryError) {
        try self.init(url, options, makesTables: true, isCopy: false)
    }

    /// Opens a store that is there, to read it.
    convenience init(existing url: String, isCopy: Bool = false) throws(HistoryError) {
        var options = Options()
        options.requiresDurability = false
        try self.init(url, options, makesTables: false, isCopy: isCopy)
    }

    /// - Parameter isCopy: whether it is one that another store is being copied into.
    init(_ url: String, _ options: Options, makesTables: Bool, isCopy: Bool) throws(HistoryError) {
        self.options = options.bounded
        target = PostgresTarget(
            url: url, seconds: self.options.seconds, server: ServerWatch(requiresDurability: options.requiresDurability)
        )
        isNew = try StoreCheck(
            target: target, requiresDurability: options.requiresDurability, makesTables: makesTables,
            isShared: makesTables ? options.isShared : nil, isCopy: isCopy
        ).run()
        readers = ConnectionPool(target, count: self.options.readers, idleSeconds: 600)
        writers = ConnectionPool(target, count: self.options.writers, idleSeconds: self.options.seconds)
        wakes = options.isShared ? StoreWakes(target) : nil
        // From here on the server is known.
        do throws(PostgresError) { writers.giveBack(try writers.take()) } catch { throw HistoryError(error) }
    }

    /// Remembers uploads that may have ended the process.
    public var suspects: (any UploadSuspects)? { options.suspects }

    /// The connections that write: each file belongs to one of them.
    public var shardCount: Int { options.writers }

    /// Closes the connections. Calls that go on, or come later, make their own.
    public func close() {
        wakes?.close()
        readers.close()
        writers.close()
    }

    /// The round trips to the database since the store was opened: for tests and metrics.
    package var roundTripCount: Int {
        readers.roundTrips.load(ordering: .relaxed) + writers.roundTrips.load(ordering: .relaxed)
    }

    func id(_ number: Int64) -> SyncedFileID {
        SyncedFileID(number, shard: Int(number.magnitude % UInt64(options.writers)))
    }

    /// Reads a file within the snapshot of the thread, or a new one; `body` may be called twice.
    func readFile<Result>(
        _ id: SyncedFileID, _ body: (PostgresFile) throws(HistoryError) -> Result
    ) throws(HistoryError) -> Result {
        try readOnce(id) { file throws(HistoryError) in
            try file.reading.attempt { () throws(HistoryError) in try body(file) }
        }
    }

    private func readOnce<Result>(
        _ id: SyncedFileID, _ body: (PostgresFile) throws(HistoryError) -> Result
    ) throws(HistoryError) -> Result {
        try StoreTransaction.read(from: readers) { transaction throws(HistoryError) in
            let reading = try FileReading(id, try opened(id.number), in: transaction)
            defer { if isShared { openFiles.withLock { $0.didRead(reading.record) } } }
            let outcome = Swift.Result { () throws(HistoryError) in
                try body(PostgresFile(reading: reading, segments: segments))
            }
            if case .failure(let error) = outcome, transaction.hasFailed || error.code == .conflict { throw error }
            // Any other error, as any answer, is true of the expected head alone.
            try reading.finish()
            return try outcome.get()
        }
    }

    /// A file that is open here; nil if it is not.
    /// - Throws: `leaseLost` if the server is another one since: nobody knows what it has of the file.
    func opened(_ number: Int64) throws(HistoryError) -> OpenFile? {
        let file = openFiles.withLock { $0[number] }
        if let file, file.term != target.server.known.term { throw HistoryError.leaseLost }
        return file
    }

    var segments: SegmentCache {
        let term = target.server.known.term
        return keptSegments.withLock { kept in
            if kept.term != term { kept = (term, SegmentCache()) }
            return kept.cache
        }
    }
}

extension PostgresStore: HistoryStore {
    /// True if several nodes write the same files.
    public var isShared: Bool { options.isShared }

    public func listen(_ wake: @escaping @Sendable (VirtualPath?) -> Void) {
        wakes?.listen { [weak self] number in
            guard let number else { return wake(nil) }
            if let path = self?.openFiles.withLock({ $0[number]?.path }) { wake(path) }
        }
    }

    public func open(_ path: VirtualPath) throws(HistoryError) -> OpenedFile {
        while true { if let opened = try isShared ? openShared(path) : openOnce(path) { return opened } }
    }

    /// - Returns: nil if something has changed meanwhile, so that it has to be tried again.
    private func openOnce(_ path: VirtualPath) throws(HistoryError) -> OpenedFile? {
        let rows = try StoreTransaction.write(in: writers, locking: []) { transaction throws(HistoryError) in
            try transaction.commit([
                PostgresStep("UPDATE synced_file SET lease = lease + 1 WHERE path = $1", [.bytes(path.bytes)]),
                PostgresStep(
                    "SELECT \(FileRecord.checkedColumns) FROM \(FileRecord.checkedTables) WHERE path = $1",
                    [.bytes(path.bytes)]),
            ])[1]
        }
        let server = target.server.known
        guard rows.count == 0 else {
            let record = try FileRecord(rows, 0)
            try record.check(rows, 0)
            guard record.lease.epoch >= server.epoch else {
                try renewSalt(of: record, in: server.epoch)
                return nil
            }
            openFiles.withLock { $0.open(record, server) }
            return OpenedFile(id: id(record.number), lease: record.lease, head: record.head)
        }
        while true {
            if let (number, lease) = openFiles.withLock({ $0.open(new: path, server) }) {
                return OpenedFile(id: id(number), lease: lease, head: FileHead())
            }
            try takeNumbers()
        }
    }

    /// Takes numbers for new files.
    func takeNumbers() throws(HistoryError) {
        let last = try StoreTransaction.write(in: writers, locking: []) { transaction throws(HistoryError) in
            try transaction.commit([PostgresStep("SELECT nextval('file_number')")])[0].number(0, 0)
        }
        let first = Int64(clamping: last)
        openFiles.withLock { $0.add(numbers: first..<first + StoreTables.fileNumbers) }
    }

    public func close(_ file: SyncedFileID, _ lease: Lease) { openFiles.withLock { $0.close(file.number, lease) } }

    public func contains(_ path: VirtualPath) throws(HistoryError) -> Bool {
        if openFiles.withLock({ $0.hasNew(path) }) { return true }
        return try id(of: path) != nil
    }

    public func read<Result: Sendable>(
        _ file: SyncedFileID, _ body: (any FileView) throws(HistoryError) -> Result
    ) throws(HistoryError) -> Result {
        try readOnce(file) { file throws(HistoryError) in try body(file.view) }
    }

    public func state(of file: SyncedFileID) throws(HistoryError) -> ObjectGraph {
        try state(over: try stateRows(of: file))
    }

    func state(over rows: StateRows) throws(HistoryError) -> ObjectGraph {
        do throws(ApplyError) { return try ObjectGraph(rows: rows) } catch {
            throw HistoryError(readingStateFailed: error)
        }
    }

    /// The rows are copied into a temporary file.
    public func frozenState(of file: SyncedFileID) throws(HistoryError) -> FrozenState? {
        do {
            let connection = try target.connect().connection
            defer { connection.close() }
            try connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            let rows = try connection.query(
                "SELECT \(FileRecord.columns) FROM synced_file f WHERE id = $1", [.number(file.number)],
                isBinary: true)
            guard rows.count > 0 else { return FrozenState(state: ObjectGraph(), head: FileHead()) }
            let head = try FileRecord(rows, 0).head
            let frozen = try FrozenRows(of: file.number, over: connection)
            return FrozenState(state: try ObjectGraph(rows: frozen), head: head)
        } catch let error as PostgresError {
            throw HistoryError(error)
        } catch let error as ApplyError {
            throw HistoryError(readingStateFailed: error)
        } catch let error as HistoryError {
            throw error
        } catch {
            throw HistoryError(.storeFailed, "\(error)")
        }
    }

    public func commit(_ commits: [Commit]) throws(HistoryError) {
        guard let shard = commits.first?.file.shard else { return }
        guard commits.allSatisfy({ $0.file.shard == shard }) else {
            throw HistoryError(.storeFailed, "the files are in different shards")
        }
        let term = target.server.known.term
        // Rows of states may have to be read for this, while they are unchanged.
        let states = try commits.map { commit throws(HistoryError) in
            do throws(HistoryError) { return try commit.state?.rowWrites() } catch {
                throw error.code == .conflict ? .conflict(of: commit.file, "the objects") : error
            }
        }
        do throws(HistoryError) {
            let written =
                isShared ? try writeShared(commits, states, in: term) : try writeAlone(commits, states, in: term)
            openFiles.withLock { files in
                for (commit, record) in zip(commits, written) {
                    if let record { files.didWrite(record) } else { files.close(commit.file.number) }
                    if isShared { files.advanceStates(by: commit) }
                }
            }
        } catch {
            if error.code != .conflict {
                openFiles.withLock { files in for commit in commits { files.forgetRecord(of: commit.file.number) } }
            }
            throw error
        }
        wakes?.send(commits.filter { !$0.dependencies.isEmpty }.map(\.file.number))
    }

    private func writeAlone(
        _ commits: [Commit], _ states: [RowWrites?], in term: Int
    ) throws(HistoryError) -> [FileRecord?] {
        let records = try commits.map { commit throws(HistoryError) in try record(of: commit) }
        return try write(commits, on: records, states, locking: CommitBatch.locking(records), in: term)
    }

    /// Writes commits on rows of files that the transaction locks, if they are as they are here.
    /// - Throws: `leaseLost` if they are not.
    func write(
        _ commits: [Commit], on records: [FileRecord], _ states: [RowWrites?], locking: [PostgresStep], in term: Int
    ) throws(HistoryError) -> [FileRecord?] {
        try StoreTransaction.write(in: writers, locking: locking) { transaction throws(HistoryError) in
            try transaction.begin(in: term)
            return try write(commits, on: records, states, in: transaction)
        }
    }

    /// Writes commits on rows of files that are locked, and ends the transaction.
    func write(
        _ commits: [Commit], on records: [FileRecord], _ states: [RowWrites?], in transaction: StoreTransaction
    ) throws(HistoryError) -> [FileRecord?] {
        var writer = CommitWriter(transaction, keptBy: segments, isShared: isShared), written: [FileRecord?] = []
        for ((commit, record), state) in zip(zip(commits, records), states) {
            written.append(try writer.apply(commit, to: record, state))
        }
        try writer.finish()
        return written
    }

    /// The row of a file after a commit, to be written.
    private func record(of commit: Commit) throws(HistoryError) -> FileRecord {
        guard let file = try opened(commit.file.number), file.lease == commit.lease else {
            throw HistoryError.leaseLost
        }
        let record: FileRecord
        if let known = file.record {
            record = known
        } else {
            record = try readFile(commit.file) { file throws(HistoryError) in file.record }
            openFiles.withLock { $0.didWrite(record) }
        }
        guard record.head.version == commit.head.version, record.head.stateVersion == commit.head.stateVersion else {
            throw HistoryError.leaseLost
        }
        return record
    }
}

extension PostgresStore: ViewStore {
    package func views(of file: SyncedFileID) throws(HistoryError) -> [StoredView] {
        try readFile(file) { file throws(HistoryError) in try file.views() }
    }

    package func view(of file: SyncedFileID, _ ident: ClientFileID) throws(HistoryError) -> StoredView? {
        try readFile(file) { file throws(HistoryError) in try file.views(of: ident).first }
    }

    package func viewFields(of file: SyncedFileID) throws(HistoryError) -> [ViewField] {
        try readFile(file) { file throws(HistoryError) in try file.viewFields() }
    }

    package func viewEntries(
        of file: SyncedFileID, _ ident: ClientFileID, _ numbers: ClosedRange<UInt64>
    ) throws(HistoryError) -> [ViewEntry] {
        try readFile(file) { file throws(HistoryError) in
            let entries = try file.viewEntries(of: ident, numbers, keepsContents: true)
            guard entries.map(\.number).elementsEqual(numbers) else {
                throw file.damaged("the view of client file \(ident)")
            }
            return entries
        }
    }

    package func ingested(
        of file: SyncedFileID, after number: UInt64, countMax: Int, byteBudget: Int
    ) throws(HistoryError) -> [IngestedObject] {
        try readFile(file) { file throws(HistoryError) in
            try file.ingested(after: number, countMax: countMax, byteBudget: byteBudget)
        }
    }

    package func ingestedBytes(of file: SyncedFileID) throws(HistoryError) -> [ExactString?: UInt64] {
        try readFile(file) { file throws(HistoryError) in try file.ingestedBytes() }
    }
}
#endif
