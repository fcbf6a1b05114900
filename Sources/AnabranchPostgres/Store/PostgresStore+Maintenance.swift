#if canImport(CLibPQ)
public import AnabranchHistory
import AnabranchPostgresWire

extension PostgresStore {
    /// The rows that go in one transaction, so that nobody waits for long.
    private static let pieceCount = 1_000

    private func write(_ steps: PostgresStep?...) throws(HistoryError) -> [PostgresRows] {
        try StoreTransaction.write(in: writers, locking: []) { transaction throws(HistoryError) in
            try transaction.commit(steps.compactMap { $0 })
        }
    }

    /// Removes some of the rows of a table.
    /// - Parameters:
    ///   - passesOver: whether rows that another transaction has locked are left: waiting for one while holding
    ///     locks on others can end in a deadlock with a commit that locks them in another order.
    ///   - lock: the statement that keeps others from doing the same meanwhile: rows that they are about to remove
    ///     would be found, and be gone then.
    /// - Returns: whether there may be more.
    private func removeSome(
        of table: String, where condition: String, _ parameter: PostgresValue, passesOver: Bool = false,
        after lock: PostgresStep? = nil
    ) throws(HistoryError) -> Bool {
        let rows = try write(
            lock,
            PostgresStep(
                """
                DELETE FROM \(table) WHERE ctid = ANY (ARRAY(
                SELECT ctid FROM \(table) WHERE \(condition) LIMIT \(Self.pieceCount)
                \(passesOver ? "FOR UPDATE SKIP LOCKED" : "")))
                """, [parameter]))
        return rows[lock == nil ? 0 : 1].affected > 0
    }

    /// Works in pieces.
    public func maintain(at time: UInt64, while shouldContinue: () -> Bool) throws(HistoryError) {
        let oldest = time - min(time, UInt64(options.explainDays) * 86_400)
        for (table, condition, time) in [("received", "time < $1", oldest), ("door_record", "expires <= $1", time)] {
            let time = PostgresValue.number(Int64(clamping: time))
            while shouldContinue(), try removeSome(of: table, where: condition, time, passesOver: true) {}
        }
        try freeViewContents(while: shouldContinue)
        _ = try freeDeleted(while: shouldContinue)
    }

    /// Frees contents that no view has any more. A file is locked during that, so a commit that begins to use one
    /// waits.
    private func freeViewContents(while shouldContinue: () -> Bool) throws(HistoryError) {
        var file: Int64 = -1, digest: [UInt8] = []
        while shouldContinue() {
            let found = try write(
                PostgresStep(
                    "SELECT file FROM view_content WHERE (file, digest) > ($1, $2) ORDER BY file, digest LIMIT 1",
                    [.number(file), .bytes(digest)]))
            guard let next = try found.first?.optionalNumber(0, 0).map(Int64.init(bitPattern:)) else { return }
            if next != file { (file, digest) = (next, []) }
            let rows = try write(
                PostgresStep("SELECT 1 FROM synced_file WHERE id = $1 FOR UPDATE", [.number(file)]),
                PostgresStep(
                    """
                    WITH piece AS (
                        SELECT digest FROM view_content WHERE file = $1 AND digest > $2
                        ORDER BY digest LIMIT \(Self.pieceCount)
                    ), gone AS (
                        DELETE FROM view_content c USING piece p WHERE c.file = $1 AND c.digest = p.digest
                        AND NOT EXISTS (SELECT 1 FROM view_entry e WHERE e.file = c.file AND e.digest = c.digest)
                    )
                    SELECT digest FROM piece ORDER BY digest DESC LIMIT 1
                    """, [.number(file), .bytes(digest)]))
            digest = rows[1].bytes(0, 0) ?? digest
        }
    }

    /// Works in pieces.
    public func freeDeleted(while shouldContinue: () -> Bool) throws(HistoryError) -> Bool {
        while shouldContinue() {
            let found = try write(PostgresStep("SELECT min(file) FROM deleted_file"))
            guard let file = try found.first?.optionalNumber(0, 0) else { return true }
            let lock = PostgresStep("SELECT 1 FROM deleted_file WHERE file = $1 FOR UPDATE", [.number(file)])
            for table in StoreTables.ofFiles {
                while try removeSome(of: table, where: "file = $1", .number(file), after: lock) {
                    guard shouldContinue() else { return false }
                }
            }
            _ = try write(PostgresStep("DELETE FROM deleted_file WHERE file = $1", [.number(file)]))
        }
        return false
    }
}
#endif
