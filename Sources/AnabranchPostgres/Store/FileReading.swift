#if canImport(CLibPQ)
import AnabranchCore
import AnabranchHistory
import AnabranchPostgresWire

/// Reads one file in one transaction. The first query also returns the row of the file: until then it is assumed to be
/// as this process last wrote it.
final class FileReading {
    let id: SyncedFileID
    private let transaction: StoreTransaction
    /// The file as it is open here; nil if it is not.
    private let opened: OpenFile?
    /// The row of the file.
    private(set) var record: FileRecord
    /// The row with what has to agree with it; nil until it is read, and for a file that is not stored.
    private var found: PostgresRows?
    /// True once `record` is what the transaction sees.
    private var isCertain: Bool
    /// The head that the row has to have; nil if any will do, or it is known that it has that.
    private var expected: FileHead?
    /// The parts of client files that were read ahead.
    var ahead: [ClientFileID: ReadAhead] = [:]

    /// - Throws: `leaseLost` if somebody else has opened or made the file since, `storeDamaged`.
    init(_ id: SyncedFileID, _ opened: OpenFile?, in transaction: StoreTransaction) throws(HistoryError) {
        (self.id, self.opened, self.transaction) = (id, opened, transaction)
        record = opened?.record ?? FileRecord(number: id.number, path: VirtualPath([]))
        isCertain = opened?.record == nil
        if isCertain { try take(try transaction.run([recordStep])[0]) }
    }

    /// A file whose row is locked.
    init(_ id: SyncedFileID, locked record: FileRecord, in transaction: StoreTransaction) {
        (self.id, self.transaction, self.record) = (id, transaction, record)
        (opened, isCertain) = (nil, true)
    }

    /// Carries out queries in one round trip.
    /// - Throws: `StaleRecord.error` if the row of the file was another one; the caller then repeats the query.
    func run(_ steps: [PostgresStep]) throws(HistoryError) -> [PostgresRows] {
        guard !isCertain else {
            try checkExpectedHead()
            return try transaction.run(steps)
        }
        let rows = try transaction.run([recordStep] + steps), assumed = record
        isCertain = true
        try take(rows[0])
        guard record.checksum == assumed.checksum else { throw Self.staleRecord }
        return Array(rows.dropFirst())
    }

    /// Has everything fail with `conflict` if the head is another one, which the next answer tells.
    func expect(_ head: FileHead) throws(HistoryError) {
        expected = head
        if isCertain { try checkExpectedHead() }
    }

    /// Checks the head at the end, if nothing was read.
    func finish() throws(HistoryError) {
        if isCertain { try checkExpectedHead() }
        guard expected != nil else { return }
        // What has failed may be the reading of a state of another head.
        guard !transaction.hasFailed else { throw .conflict(of: id, "the log") }
        _ = try checkedHead()
    }

    /// Fails again each time, since whoever reads may go on after an error.
    private func checkExpectedHead() throws(HistoryError) {
        guard let head = expected else { return }
        guard record.head.isSame(as: head) else { throw .conflict(of: id, "the log") }
        expected = nil
    }

    /// Reads the row of the file anew, and carries out queries that do not depend on it, in one round trip.
    func renew(with steps: [PostgresStep]) throws(HistoryError) -> [PostgresRows] {
        let rows = try transaction.run([recordStep] + steps)
        isCertain = true
        try take(rows[0])
        return Array(rows.dropFirst())
    }

    /// The head, which agrees with the newest rows.
    func checkedHead() throws(HistoryError) -> FileHead {
        if found == nil, !isCertain || opened != nil {
            isCertain = true
            try take(try transaction.run([recordStep])[0])
        }
        if let found { try record.check(found, 0) }
        return record.head
    }

    private static let staleRecord = HistoryError(.storeFailed, "the file was written while it was read")

    /// Runs `body`, a second time if the row of the file turned out to be another one.
    func attempt<Result>(_ body: () throws(HistoryError) -> Result) throws(HistoryError) -> Result {
        guard !isCertain else { return try body() }
        do throws(HistoryError) { return try body() } catch {
            guard isCertain, error.reason.hasSuffix(Self.staleRecord.reason) else { throw error }
            return try body()
        }
    }

    // MARK: The row

    private var newPath: VirtualPath? { opened.flatMap { $0.isNew ? $0.path : nil } }

    private var recordStep: PostgresStep {
        PostgresStep(
            """
            SELECT \(FileRecord.checkedColumns) FROM \(FileRecord.checkedTables)
            WHERE f.\(newPath == nil ? "id" : "path") = $1
            """, [newPath.map { .bytes($0.bytes) } ?? .number(id.number)])
    }

    private func take(_ rows: PostgresRows) throws(HistoryError) {
        if newPath != nil {
            guard rows.count == 0 else { throw HistoryError.leaseLost }
            return
        }
        guard rows.count > 0 else {
            throw opened == nil
                ? HistoryError(.storeDamaged, "there is no file \(id.number)") : HistoryError.leaseLost
        }
        (record, found) = (try FileRecord(rows, 0), rows)
        guard opened.map({ $0.lease == record.lease }) ?? true else { throw HistoryError.leaseLost }
        try checkExpectedHead()
    }
}

/// The parts of a client file that were read with its row.
struct ReadAhead {
    /// The reciprocal changesets that are read ahead; if there are fewer, they are all.
    static let reciprocalCount = 33

    let receipt: PostgresRows
    let reciprocals: PostgresRows
    let withheld: PostgresRows
}
#endif
