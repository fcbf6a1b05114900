#if canImport(CLibPQ)
public import AnabranchHistory
import AnabranchPostgresWire

extension PostgresStore {
    /// The rows that go in one transaction, so that nobody waits for long.
    private static let pieceCount = 1_000

    private func write(_ steps: PostgresStep...) throws(HistoryError) -> [PostgresRows] {
        try StoreTransaction.write(in: writers, locking: []) { transaction throws(HistoryError) in
            try transaction.run(steps + [StoreTransaction.commit])
        }
    }

    /// Removes some of the rows of a table.
    /// - Returns: whether there may be more.
    private func removeSome(
        of table: String, where condition: String, _ parameter: PostgresValue
    ) throws(HistoryError) -> Bool {
        let rows = try write(
            PostgresStep(
                """
                DELETE FROM \(table) WHERE ctid = ANY (ARRAY(
                SELECT ctid FROM \(table) WHERE \(condition) LIMIT \(Self.pieceCount)))
                """, [parameter]))
        return (rows.first?.affected ?? 0) > 0
    }

    /// Works in pieces.
    public func maintain(at time: UInt64, while shouldContinue: () -> Bool) throws(HistoryError) {
        let oldest = time - min(time, UInt64(options.explainDays) * 86_400)
        while shouldContinue(), try removeSome(of: "received", where: "time < $1", .number(Int64(clamping: oldest))) {}
        while shouldContinue(),
            try removeSome(of: "door_record", where: "expires <= $1", .number(Int64(clamping: time)))
        {}
        try freeViewContents(while: shouldContinue)
        _ = try freeDeleted(while: shouldContinue)
    }

    /// Frees what no view has any more. A file is locked meanwhile: a commit that begins to use something waits.
    private func freeViewContents(while shouldContinue: () -> Bool) throws(HistoryError) {
        var last: Int64 = -1
        while shouldContinue() {
            let found = try write(
                PostgresStep("SELECT min(file) FROM view_content WHERE file > $1", [.number(last)]))
            guard let file = try found.first?.optionalNumber(0, 0) else { return }
            last = Int64(bitPattern: file)
            _ = try write(
                PostgresStep("SELECT 1 FROM synced_file WHERE id = $1 FOR UPDATE", [.number(file)]),
                PostgresStep(
                    """
                    DELETE FROM view_content c WHERE file = $1 AND NOT EXISTS
                    (SELECT 1 FROM view_entry e WHERE e.file = c.file AND e.digest = c.digest)
                    """, [.number(file)]))
        }
    }

    /// Works in pieces.
    public func freeDeleted(while shouldContinue: () -> Bool) throws(HistoryError) -> Bool {
        while shouldContinue() {
            let found = try write(PostgresStep("SELECT min(file) FROM deleted_file"))
            guard let file = try found.first?.optionalNumber(0, 0) else { return true }
            for table in StoreTables.ofFiles {
                while try removeSome(of: table, where: "file = $1", .number(file)) {
                    guard shouldContinue() else { return false }
                }
            }
            _ = try write(PostgresStep("DELETE FROM deleted_file WHERE file = $1", [.number(file)]))
        }
        return false
    }
}
#endif
