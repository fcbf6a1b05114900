#if canImport(CLibPQ)
import AnabranchCore
public import AnabranchHistory
import AnabranchPostgresWire
import Synchronization

/// Several nodes that write the same files (`Spec/Nodes.md`, section 7).
extension PostgresStore {
    /// Opens a file without taking it from anybody. A new one is stored at once, so that all nodes mean the same one.
    /// - Returns: nil if something has changed meanwhile, so that it has to be tried again.
    func openShared(_ path: VirtualPath) throws(HistoryError) -> OpenedFile? {
        let found = try StoreTransaction.read(from: readers) { transaction throws(HistoryError) -> FileRecord? in
            let rows = try transaction.query(
                "SELECT \(FileRecord.checkedColumns) FROM \(FileRecord.checkedTables) WHERE path = $1",
                [.bytes(path.bytes)])
            guard rows.count > 0 else { return nil }
            let record = try FileRecord(rows, 0)
            try record.check(rows, 0)
            return record
        }
        let server = target.server.known
        guard let record = found else {
            try create(path, server)
            return nil
        }
        guard record.lease.epoch >= server.epoch else {
            try renewSalt(of: record, in: server.epoch)
            return nil
        }
        openFiles.withLock { $0.open(record, server) }
        return OpenedFile(id: id(record.number), lease: record.lease, head: record.head)
    }

    /// Stores a file without a commit, unless another node has made it in between.
    private func create(_ path: VirtualPath, _ server: ServerWatch.Known) throws(HistoryError) {
        var number = openFiles.withLock { $0.takeNumber() }
        while number == nil {
            try takeNumbers()
            number = openFiles.withLock { $0.takeNumber() }
        }
        guard let number else { return }
        var record = FileRecord(number: number, path: path)
        (record.lease, record.head.bounds) = (Lease(epoch: server.epoch), 1)
        do throws(HistoryError) {
            try StoreTransaction.write(in: writers, locking: []) { [record] transaction throws(HistoryError) in
                var writer = CommitWriter(transaction, keptBy: segments, isShared: true)
                writer.create(record)
                try writer.finish()
            }
        } catch {
            // Its path is there already.
            guard error.code == .leaseLost else { throw error }
        }
    }

    /// The rows of the newest state.
    func stateRows(of file: SyncedFileID) throws(HistoryError) -> StateRows {
        guard let opened = try opened(file.number) else {
            return StateRows(of: file.number, nil, at: nil, in: self)
        }
        guard isShared else { return StateRows(of: file.number, opened.lease, at: nil, in: self) }
        // What is known may be older than what is stored: then the first row that is read says so.
        var head = opened.record?.head
        if head == nil { head = try readFile(file) { file throws(HistoryError) in try file.head() } }
        let rows = StateRows(of: file.number, opened.lease, at: head.map(StatePlace.init), in: self)
        openFiles.withLock { $0.add(rows, of: file.number) }
        return rows
    }

    /// Takes one round trip, whatever the number of files.
    public func changed(since heads: [SyncedFileID: FileHead]) throws(HistoryError) -> [SyncedFileID] {
        guard !heads.isEmpty else { return [] }
        let files = openFiles.withLock { files in
            heads.map { (id: $0.key, head: $0.value, file: files[$0.key.number]) }
        }
        let term = target.server.known.term
        var columns: [[UInt64]] = Array(repeating: [], count: 5), others: [SyncedFileID] = []
        for (id, head, file) in files {
            guard let file, file.term == term else {
                others.append(id)
                continue
            }
            let row = [
                UInt64(bitPattern: id.number), file.lease.number, head.version.rawValue, head.versionSalt.rawValue,
                head.bounds,
            ]
            for (column, value) in row.enumerated() { columns[column].append(value) }
        }
        let rows = try StoreTransaction.read(from: readers) { [columns] transaction throws(HistoryError) in
            try transaction.query(
                """
                SELECT n.id FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
                AS n (id, lease, version, version_salt, bounds) LEFT JOIN synced_file f ON f.id = n.id
                AND f.lease = n.lease AND f.version = n.version AND f.version_salt = n.version_salt
                AND f.bounds = n.bounds WHERE f.id IS NULL
                """, columns.map { .numbers($0) })
        }
        return try others + rows.map { row throws(HistoryError) in id(Int64(bitPattern: try rows.number(row, 0))) }
    }

    // MARK: Commits

    /// Writes commits in one round trip, if the files are as they are known here. Otherwise others have written: then
    /// their rows are locked first, and each commit is compared with what they are.
    /// - Throws: a `conflict` of the first commit that does not fit.
    func writeShared(
        _ commits: [Commit], _ states: [RowWrites?], in term: Int
    ) throws(HistoryError) -> [FileRecord?] {
        if let records = knownRecords(of: commits) {
            do throws(HistoryError) {
                return try write(
                    commits, on: records, states,
                    locking: CommitBatch.locking(records) + CommitBatch.comparing(commits), in: term)
            } catch {
                guard error.code == .leaseLost else { throw error }
            }
        }
        return try StoreTransaction.write(in: writers, locking: []) { transaction throws(HistoryError) in
            try transaction.begin(in: term)
            let records = try lock(commits, in: transaction)
            return try write(commits, on: records, states, in: transaction)
        }
    }

    /// The rows of the files as they are known here; nil if one of the commits does not fit them.
    private func knownRecords(of commits: [Commit]) -> [FileRecord]? {
        let records = openFiles.withLock { files in commits.compactMap { files[$0.file.number]?.record } }
        guard records.count == commits.count else { return nil }
        for (commit, record) in zip(commits, records) {
            do { try commit.check(against: record.head, record.lease) } catch { return nil }
        }
        return records
    }

    /// Locks the rows of the files in the order of their numbers, and compares what the commits depend on.
    private func lock(
        _ commits: [Commit], in transaction: StoreTransaction
    ) throws(HistoryError) -> [FileRecord] {
        let clientFiles = commits.flatMap { commit in
            Set(commit.clientFiles.map(\.ident) + commit.views.map(\.record.ident)).sorted()
                .map { (commit.file.number, $0.rawValue) }
        }
        let found = try transaction.run([
            PostgresStep(
                """
                SELECT \(FileRecord.columns) FROM synced_file f WHERE id = ANY ($1::bigint[])
                ORDER BY id FOR NO KEY UPDATE
                """, [.numbers(commits.map { UInt64(bitPattern: $0.file.number) })]),
            PostgresStep(
                """
                SELECT c.file, c.ident, c.revision, c.session, c.is_expired FROM client_file c
                JOIN unnest($1::bigint[], $2::bigint[]) AS n (file, ident) ON c.file = n.file AND c.ident = n.ident
                """,
                [
                    .numbers(clientFiles.map { UInt64(bitPattern: $0.0) }), .numbers(clientFiles.map(\.1)),
                ]),
        ])
        var records: [Int64: FileRecord] = [:], revisions: [Int64: [ClientFileID: UInt64]] = [:]
        var sessions: [Int64: [ClientFileID: UInt64]] = [:]
        for row in 0..<found[0].count {
            let record = try FileRecord(found[0], row)
            records[record.number] = record
        }
        for row in 0..<found[1].count {
            let file = Int64(bitPattern: try found[1].number(row, 0))
            let ident: ClientFileID = try found[1].number(row, 1)
            revisions[file, default: [:]][ident] = try found[1].number(row, 2)
            if !found[1].flag(row, 4) { sessions[file, default: [:]][ident] = try found[1].number(row, 3) }
        }
        openFiles.withLock { files in for record in records.values { files.didRead(record) } }
        return try commits.map { commit throws(HistoryError) in
            guard let record = records[commit.file.number] else { throw HistoryError.leaseLost }
            try commit.check(against: record.head, record.lease)
            try commit.checkRows { revisions[commit.file.number]?[$0] }
            try commit.checkViews { sessions[commit.file.number]?[$0] }
            return record
        }
    }
}
#endif
