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
        if let transaction, address.part == 0 {
            let name = RowsAhead.Name(file: file, address: address)
            if transaction.rowsAhead.wanted.contains(name) { _ = try transaction.run(leaseCheck(in: transaction)) }
            if let known = transaction.rowsAhead.known[name] { return known }
        }
        return try query(
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

    var fetchesAhead: Bool { true }

    /// The most objects that are fetched ahead at a time, and the most bytes.
    private static let aheadCountMax = 1_000, aheadBytesMax = 4 << 20

    func fetchAhead(_ addresses: [RowAddress]) {
        guard let transaction else { return }
        let rows = transaction.rowsAhead
        let names = addresses.map { RowsAhead.Name(file: file, address: $0) }
            .filter { rows.known[$0] == nil && !rows.wanted.contains($0) }.prefix(Self.aheadCountMax)
        guard !names.isEmpty else { return }
        rows.wanted.formUnion(names)
        let step = PostgresStep(
            """
            SELECT class, key, content FROM (
                SELECT n.class, n.key, s.content,
                    sum(COALESCE(octet_length(s.content), 0)) OVER (ORDER BY n.class, n.key) AS bytes
                FROM unnest($2::bigint[], $3::bytea[]) AS n (class, key)
                LEFT JOIN state_row s ON s.file = $1 AND s.class = n.class AND s.key = n.key AND s.part = 0
            ) AS wanted WHERE bytes <= $4
            """,
            [
                .number(file), .cells(names.map { .number(Int64($0.address.classID.rawValue)) }, .number),
                .cells(names.map { .bytes($0.address.key) }, .bytes), .number(Int64(Self.aheadBytesMax)),
            ])
        transaction.fetchAhead(step) { [file] found throws(HistoryError) in
            // Those that are beyond the limit are read when they are asked for.
            rows.wanted.removeAll()
            for row in 0..<found.count {
                let classID = ClassID(UInt32(clamping: try found.number(row, 0)))
                let address = RowAddress(classID: classID, key: try found.requiredBytes(row, 1))
                rows.known.updateValue(found.bytes(row, 2), forKey: RowsAhead.Name(file: file, address: address))
            }
        }
    }

    /// The transaction in which the thread reads; nil if it has none.
    private var transaction: StoreTransaction? {
        StoreTransaction.reading.flatMap { $0.pool === store.readers ? $0 : nil }
    }

    func readTogether(_ body: () throws -> Void) throws {
        let outcome = try StoreTransaction.read(from: store.readers) { _ throws(HistoryError) in Result { try body() } }
        try outcome.get()
    }

    private func query(_ sql: String, _ parameters: PostgresValue...) throws(HistoryError) -> PostgresRows {
        try StoreTransaction.read(from: store.readers) { transaction throws(HistoryError) in
            let check = try leaseCheck(in: transaction)
            return try transaction.run(check + [PostgresStep(sql, [.number(file)] + parameters)])[check.count]
        }
    }

    private func leaseCheck(in transaction: StoreTransaction) throws(HistoryError) -> [PostgresStep] {
        let isNew = try store.opened(file)?.isNew ?? false
        // A transaction that goes on has looked at the lease already, and a file without a commit has none.
        guard transaction.isFresh, let lease, !isNew else { return [] }
        return [
            PostgresStep(
                "SELECT 1 / (count(*) = 1)::int FROM synced_file WHERE id = $1 AND lease = $2",
                [.number(file), .number(lease.number)])
        ]
    }
}

/// Rows of objects that are fetched before they are asked for, in one transaction.
final class RowsAhead {
    struct Name: Hashable {
        let file: Int64
        let address: RowAddress
    }

    /// The rows that come with the next answer.
    var wanted: Set<Name> = []
    /// The rows that have come; nil for one that there is not.
    var known: [Name: [UInt8]?] = [:]
}
#endif
