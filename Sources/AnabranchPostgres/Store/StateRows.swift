#if canImport(CLibPQ)
import AnabranchCore
import AnabranchHistory
import AnabranchPostgresWire
import Synchronization

/// The stored state of one synced file, as of the newest commit.
final class StateRows: ObjectRows {
    private let file: Int64
    /// The lease with which the file is open here; nil if it is not. Rows that another party may have written are not
    /// read.
    private let lease: Lease?
    /// In a shared store, the place in the log whose state this is; nil in any other.
    private let place: Mutex<StatePlace?>
    private let store: PostgresStore

    init(of file: Int64, _ lease: Lease?, at place: StatePlace?, in store: PostgresStore) {
        (self.file, self.lease, self.store) = (file, lease, store)
        self.place = Mutex(place)
    }

    /// Records that a commit of this node has changed the state.
    func advance(from before: StatePlace, to after: StatePlace) {
        place.withLock { if $0 == before { $0 = after } }
    }

    /// Two of them fit into an entry of an index, which has 2,704 bytes at most.
    var primaryKeyBytesMax: Int { 1_280 }

    func row(at address: RowAddress) throws -> [UInt8]? {
        if let transaction, address.part == 0 {
            let name = RowsAhead.Name(file: file, address: address)
            if transaction.rowsAhead.wanted.contains(name) { _ = try run([], in: transaction) }
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

    private func query(_ sql: String, _ parameters: PostgresValue...) throws -> PostgresRows {
        let result = try StoreTransaction.read(from: store.readers) { transaction throws(HistoryError) in
            Result { try run([PostgresStep(sql, [.number(file)] + parameters)], in: transaction)[0] }
        }
        return try result.get()
    }

    /// Carries out statements if the rows that they read are those of this state.
    /// - Throws: `ApplyError.outdated` if another node has written the log since; `HistoryError`.
    private func run(_ steps: [PostgresStep], in transaction: StoreTransaction) throws -> [PostgresRows] {
        let place = place.withLock { $0 }
        do throws(HistoryError) {
            let check = try check(in: transaction, place)
            return Array(try transaction.run(check + steps).dropFirst(check.count))
        } catch {
            throw place != nil && error.code == .leaseLost ? ApplyError.outdated() : error
        }
    }

    /// The statement that divides by zero if the rows are not those of this state; none if that is known.
    private func check(
        in transaction: StoreTransaction, _ place: StatePlace?
    ) throws(HistoryError) -> [PostgresStep] {
        if let lease, let place {
            return [
                PostgresStep(
                    """
                    SELECT 1 / count(*) FROM synced_file
                    WHERE id = $1 AND lease = $2 AND version = $3 AND version_salt = $4
                    """, [.number(file), .number(lease.number), .number(place.version), .number(place.salt)])
            ]
        }
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

/// The end of a log, as far as a state is concerned.
struct StatePlace: Equatable, Sendable {
    let version: ServerVersion
    let salt: Salt

    init(_ head: FileHead) { (version, salt) = (head.version, head.versionSalt) }
}

/// A state, as long as somebody has it.
struct WeakStateRows: Sendable {
    private(set) weak var rows: StateRows?
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
