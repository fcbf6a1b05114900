#if canImport(CLibPQ)
import AnabranchHistory
import AnabranchPostgresWire
import Synchronization

/// A transaction that begins with its first statements, in the same round trip, and has no connection before.
final class StoreTransaction: @unchecked Sendable {
    // Only the thread that has begun it uses it.

    /// The transaction in which the current thread reads, so that all it reads is of the same moment.
    @TaskLocal static var reading: StoreTransaction?

    let pool: ConnectionPool
    private var lent: LentConnection?
    /// The statements with which it begins; none once it has.
    private var opening: [PostgresStep]
    /// True if it has ended since somebody else has held a lock for too long.
    private var hasWaitedTooLong = false
    /// True if the newest statements have failed: then no other one is answered.
    private(set) var hasFailed = false
    let rowsAhead = RowsAhead()
    /// Statements that go with the next ones, and the takers of their rows.
    private var ahead: [(step: PostgresStep, take: (PostgresRows) throws(HistoryError) -> Void)] = []

    private init(in pool: ConnectionPool, opening: [PostgresStep]) {
        (self.pool, self.opening) = (pool, opening)
    }

    /// Reads in one snapshot, until it is rolled back.
    convenience init(reading pool: ConnectionPool) { self.init(in: pool, opening: [Self.beginReading]) }

    /// True until the first statements are sent.
    var isFresh: Bool { !opening.isEmpty }

    /// Takes a connection.
    /// - Throws: `leaseLost` if it leads to another server than in a term.
    func begin(in term: Int) throws(HistoryError) {
        do throws(PostgresError) {
            if lent == nil { lent = try pool.take() }
        } catch {
            throw HistoryError(error)
        }
        guard lent?.term == term else { throw HistoryError.leaseLost }
    }

    /// Has a statement carried out together with the next ones.
    func fetchAhead(_ step: PostgresStep, _ take: @escaping (PostgresRows) throws(HistoryError) -> Void) {
        ahead.append((step, take))
    }

    /// Carries out statements in one round trip.
    /// - Returns: the rows of each.
    func run(_ steps: [PostgresStep]) throws(HistoryError) -> [PostgresRows] {
        let ahead = ahead
        self.ahead = []
        let rows = try translated(steps + ahead.map(\.step))
        for (fetched, rows) in zip(ahead, rows.dropFirst(steps.count)) { try fetched.take(rows) }
        return Array(rows.prefix(steps.count))
    }

    private func translated(_ steps: [PostgresStep]) throws(HistoryError) -> [PostgresRows] {
        do throws(PostgresError) {
            return try send(steps)
        } catch {
            // The compare of the opening statements divides by zero where it fails; a file that another party has
            // made has the same path as ours, and so has one that we have made without being told.
            if error.state == "22012" || error.constraint?.hasPrefix("synced_file_") ?? false {
                throw HistoryError.leaseLost
            }
            throw HistoryError(error)
        }
    }

    /// The same, with the error of the database.
    func send(_ steps: [PostgresStep]) throws(PostgresError) -> [PostgresRows] {
        pool.roundTrips.add(1, ordering: .relaxed)
        hasFailed = true
        if lent == nil { lent = try pool.take() }
        guard let connection = lent?.connection else { throw PostgresError(.unreachable, "there is no connection") }
        let opening = opening
        self.opening = []
        do throws(PostgresError) {
            let rows = try connection.pipeline(opening + steps).dropFirst(opening.count)
            hasFailed = false
            return Array(rows)
        } catch {
            // A statement that the server has forgotten, or planned for tables as they were, would fail each time.
            if error.state == "26000" || error.state == "0A000" { connection.close() }
            if error.state == "55P03" { hasWaitedTooLong = true }
            throw error
        }
    }

    /// Undoes everything; nothing else follows.
    func rollBack() { end("ROLLBACK") }

    /// - Parameter statement: nil if the transaction has ended by itself.
    private func end(_ statement: String?) {
        guard let lent = lent.take() else { return }
        // The next one to use the connection takes the answer. A connection that has broken is not used again.
        if let statement, lent.connection.isOpen { try? lent.connection.sendPipeline([PostgresStep(statement)]) }
        pool.giveBack(lent)
    }

    /// Carries out statements and makes all changes durable, in one round trip. Only the deadline of the connection
    /// limits how long that takes: PostgreSQL, told to stop while it waits for a standby, would report success.
    @discardableResult func commit(_ steps: [PostgresStep] = []) throws(HistoryError) -> [PostgresRows] {
        try run(steps + [PostgresStep("SET LOCAL statement_timeout = 0"), PostgresStep("COMMIT")])
    }

    /// Carries out one statement.
    func query(_ sql: String, _ parameters: [PostgresValue]) throws(HistoryError) -> PostgresRows {
        guard let rows = try run([PostgresStep(sql, parameters)]).last else {
            throw HistoryError(.storeFailed, "PostgreSQL: no answer")
        }
        return rows
    }

    // MARK: Kinds

    private static let begin = PostgresStep("BEGIN ISOLATION LEVEL READ COMMITTED")
    private static let beginReading = PostgresStep("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    /// Reads within one snapshot: that in which the thread reads already, or a new one.
    static func read<Result>(
        from pool: ConnectionPool, _ body: (StoreTransaction) throws(HistoryError) -> Result
    ) throws(HistoryError) -> Result {
        if let reading, reading.pool === pool { return try body(reading) }
        let transaction = StoreTransaction(reading: pool)
        defer { transaction.end("COMMIT") }
        let result = $reading.withValue(transaction) {
            Swift.Result { () throws(HistoryError) in try body(transaction) }
        }
        return try result.get()
    }

    /// Writes in one transaction: `body` ends with `commit`. If it throws, nothing is written, unless that
    /// is not known. `body` is called again if it meets a lock that is held for too long, until the time is up.
    static func write<Result>(
        in pool: ConnectionPool, locking: [PostgresStep], _ body: (StoreTransaction) throws(HistoryError) -> Result
    ) throws(HistoryError) -> Result {
        let end = ContinuousClock.now + .seconds(pool.target.seconds)
        while true {
            let transaction = StoreTransaction(in: pool, opening: [begin] + locking)
            let result = Swift.Result { () throws(HistoryError) in try body(transaction) }
            if transaction.hasWaitedTooLong, .now < end {
                transaction.rollBack()
                pool.target.endStoppedHolders()
                continue
            }
            if case .success = result { transaction.end(nil) } else { transaction.rollBack() }
            return try result.get()
        }
    }
}

extension HistoryError {
    static let leaseLost = HistoryError(.leaseLost, "the file has another writer")
}
#endif
