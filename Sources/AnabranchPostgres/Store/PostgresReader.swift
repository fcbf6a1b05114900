#if canImport(CLibPQ)
package import AnabranchCore
package import AnabranchHistory
import AnabranchPostgresWire

/// Reads a store in one snapshot of the database and changes nothing in it. While it exists, PostgreSQL keeps what is
/// overwritten. One thread uses it.
package final class PostgresReader: Sendable {
    private let store: PostgresStore
    private let transaction: StoreTransaction

    /// Opens the store in a database.
    /// - Throws: `storeUnusable` if there is none, or it has another format; `storeFailed`.
    package convenience init(_ url: String) throws(HistoryError) {
        self.init(try PostgresStore(existing: url))
    }

    /// Opens a copy that is not finished.
    package convenience init(copyIn url: String) throws(HistoryError) {
        self.init(try PostgresStore(existing: url, isCopy: true))
    }

    private init(_ store: PostgresStore) {
        self.store = store
        transaction = StoreTransaction(reading: store.readers)
    }

    deinit {
        transaction.rollBack()
        store.close()
    }

    /// Calls `body`, all of whose readings of the store are of the snapshot.
    func reading<Result>(_ body: () throws(HistoryError) -> Result) throws(HistoryError) -> Result {
        let result = StoreTransaction.$reading.withValue(transaction) {
            Swift.Result { () throws(HistoryError) in try body() }
        }
        return try result.get()
    }

    /// Calls `body` with the store, all of whose files it reads as they are in the snapshot.
    package func copying<Result>(_ body: (PostgresStore) throws -> Result) throws -> Result {
        try reading { () throws(HistoryError) in Swift.Result { try body(store) } }.get()
    }

    // MARK: Files

    private func files(_ condition: String, _ path: [UInt8]?, isChecked: Bool) throws(HistoryError) -> [StoredFile] {
        let rows = try transaction.query(
            "SELECT \(FileRecord.columns) FROM synced_file f WHERE \(condition) ORDER BY path LIMIT \(Self.pageCount)",
            [path.map { .bytes($0) } ?? .null])
        return try rows.map { row throws(HistoryError) in
            let record = try FileRecord(rows, row, isChecked: isChecked)
            return StoredFile(path: record.path, head: record.head, id: store.id(record.number), in: self)
        }
    }

    private static let pageCount = 1_000
}

extension PostgresReader: StoreSnapshot {
    package func file(_ path: VirtualPath) throws(HistoryError) -> StoredFile? {
        try files("path = $1", path.bytes, isChecked: true).first
    }

    package func forEachFile(_ body: (StoredFile) throws -> Void) throws {
        var last: VirtualPath?
        repeat {
            let files = try files("$1::bytea IS NULL OR path > $1", last?.bytes, isChecked: false)
            for file in files { try body(file) }
            last = files.count == Self.pageCount ? files.last?.path : nil
        } while last != nil
    }

    package func partitionNames() throws(HistoryError) -> PartitionNames {
        try reading { () throws(HistoryError) in try PartitionNames(of: store) }
    }

    package func read<Result>(
        _ file: SyncedFileID, _ body: (any FileView) throws(HistoryError) -> Result
    ) throws(HistoryError) -> Result {
        try reading { () throws(HistoryError) in
            try store.readFile(file) { file throws(HistoryError) in try body(file.view) }
        }
    }

    package func state(of file: SyncedFileID) throws(HistoryError) -> ObjectGraph {
        let rows = SnapshotRows(rows: StateRows(of: file.number, nil, at: nil, in: store), reader: self)
        do throws(ApplyError) { return try ObjectGraph(rows: rows) } catch {
            throw HistoryError(readingStateFailed: error)
        }
    }

    package func archivedVersions(of file: SyncedFileID) throws(HistoryError) -> ClosedRange<ServerVersion>? {
        let oldest = try transaction.query(
            "SELECT min(last) FROM archived_segment WHERE file = $1", [.number(file.number)])
        guard let end = try oldest.optionalNumber(0, 0).map(ServerVersion.init(rawValue:)) else { return nil }
        return try read(file) { view throws(HistoryError) in
            guard let first = try view.archivedEntries(upTo: end).first?.version,
                let last = try view.archivedEntries(upTo: .largest).last?.version
            else { return nil }
            return first...last
        }
    }
}

extension PostgresReader: CheckedSnapshot {
    /// Finds rows of files that are gone.
    package func checkStore() throws(HistoryError) -> [StoreDamage] {
        // Each file has at least the rows of its reserved client files.
        let rows = try transaction.query(
            """
            SELECT DISTINCT file FROM client_file
            WHERE file NOT IN (SELECT id FROM synced_file UNION SELECT file FROM deleted_file) ORDER BY file
            """, [])
        return try rows.map { row throws(HistoryError) in
            let number = Int64(bitPattern: try rows.number(row, 0))
            return StoreDamage(kind: .continuity, place: "file \(number)", finding: "its record is missing")
        }
    }

    package func check(_ file: StoredFile) throws(HistoryError) -> VerifiedFile {
        try reading { () throws(HistoryError) in
            var result = try ContractVerification(of: file.path, file.id, in: store).run()
            do throws(HistoryError) {
                try store.readFile(file.id) { file throws(HistoryError) in try file.checkReceived() }
            } catch {
                guard error.code == .storeDamaged else { throw error }
                let damage = StoreDamage(kind: .checksum, place: "changesets as received", finding: error.reason)
                if result.damages.isEmpty { result.damages.append(damage) }
            }
            return result
        }
    }
}

/// The rows of a state in a snapshot.
private struct SnapshotRows: ObjectRows {
    let rows: StateRows
    let reader: PostgresReader

    var primaryKeyBytesMax: Int { rows.primaryKeyBytesMax }

    private func reading<Result>(_ body: () throws -> Result) throws -> Result {
        try reader.reading { () throws(HistoryError) in Swift.Result { try body() } }.get()
    }

    func row(at address: RowAddress) throws -> [UInt8]? { try reading { try rows.row(at: address) } }

    func objects(of classID: ClassID, after key: [UInt8]?, limit: Int) throws -> [(key: [UInt8], row: [UInt8])] {
        try reading { try rows.objects(of: classID, after: key, limit: limit) }
    }
}
#endif
