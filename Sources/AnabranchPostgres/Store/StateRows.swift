#if canImport(CLibPQ)
import AnabranchCore
import AnabranchHistory
import AnabranchPostgresWire

/// The stored state of one synced file, as of the newest commit.
struct StateRows: ObjectRows {
    private let file: Int64
    /// The lease with which the file is open here; nil if it is not. Rows that another party may have written are not
    /// read.
    private let lease: Lease?
    private let store: PostgresStore

    init(of file: Int64, _ lease: Lease?, in store: PostgresStore) {
        (self.file, self.lease, self.store) = (file, lease, store)
    }

    /// Two of them fit into an entry of an index, which has 2,704 bytes at most.
    var primaryKeyBytesMax: Int { 1_280 }

    func row(at address: RowAddress) throws -> [UInt8]? {
        try query(
            "SELECT content FROM state_row WHERE file = $1 AND class = $2 AND key = $3 AND part = $4",
            .number(Int64(address.classID.rawValue)), .bytes(address.key), .number(address.part)
        ).bytes(0, 0)
    }

    func objects(
        of classID: ClassID, after key: [UInt8]?, limit: Int
    ) throws -> [(key: [UInt8], row: [UInt8])] {
        // No key is empty, so the first one is above that.
        let rows = try query(
            """
            SELECT key, content FROM state_row WHERE file = $1 AND class = $2 AND key > $3 AND part = 0
            ORDER BY key LIMIT $4
            """, .number(Int64(classID.rawValue)), .bytes(key ?? []), .number(Int64(limit)))
        return try rows.map { row throws(HistoryError) in
            (try rows.requiredBytes(row, 0), try rows.requiredBytes(row, 1))
        }
    }

    func readTogether(_ body: () throws -> Void) throws {
        let outcome = try StoreTransaction.read(from: store.readers) { _ throws(HistoryError) in Result { try body() } }
        try outcome.get()
    }

    private func query(_ sql: String, _ parameters: PostgresValue...) throws(HistoryError) -> PostgresRows {
        try StoreTransaction.read(from: store.readers) { transaction throws(HistoryError) in
            let step = PostgresStep(sql, [.number(file)] + parameters), isNew = try store.opened(file)?.isNew ?? false
            // A transaction that goes on has looked at the lease already, and a file without a commit has none.
            guard transaction.isFresh, let lease, !isNew else { return try transaction.run([step])[0] }
            let check = PostgresStep(
                "SELECT 1 / (count(*) = 1)::int FROM synced_file WHERE id = $1 AND lease = $2",
                [.number(file), .number(lease.number)])
            return try transaction.run([check, step])[1]
        }
    }
}
#endif
