#if canImport(CLibPQ)
import AnabranchHistory
import AnabranchPostgresWire

// Rows of accounts: an error of the database is one of the accounts.

extension StoreTransaction {
    func rows(_ sql: String, _ parameters: PostgresValue...) throws(AccountError) -> PostgresRows {
        try rows(sql, parameters)
    }

    func rows(_ sql: String, _ parameters: [PostgresValue]) throws(AccountError) -> PostgresRows {
        let results: [PostgresRows]
        do throws(PostgresError) { results = try send([PostgresStep(sql, parameters)]) } catch {
            if error.state == "23505" { throw AccountError(.nameTaken, "somebody else has the name or the ident") }
            throw AccountError(.storeFailed, HistoryError(error).reason)
        }
        guard let rows = results.last else { throw AccountError(.storeFailed, "PostgreSQL: no answer") }
        return rows
    }

    /// - Returns: the number of rows that it has changed.
    @discardableResult func change(
        _ sql: String, _ parameters: PostgresValue...
    ) throws(AccountError) -> Int {
        try rows(sql, parameters).affected
    }
}

extension PostgresRows {
    /// A time in seconds since 1970.
    func time(_ row: Int, _ column: Int) throws(AccountError) -> UInt64 {
        do throws(HistoryError) { return try number(row, column) } catch {
            throw AccountError(.storeFailed, error.reason)
        }
    }
}

extension PostgresValue {
    static func string(_ text: String) -> PostgresValue { .bytes(Array(text.utf8)) }
    static func flag(_ flag: Bool) -> PostgresValue { .binary([flag ? 1 : 0]) }
}
#endif
