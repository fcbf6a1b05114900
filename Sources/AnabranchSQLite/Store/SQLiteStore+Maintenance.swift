public import AnabranchHistory
import GRDB

extension SQLiteStore {
    /// The time is kept in the first shard.
    public func recordedTime() throws(HistoryError) -> UInt64? {
        try translatingErrors(in: DataDirectory.shardName(0)) {
            let stored: DatabaseValue? = try shards[0].pool.read { db in try StoreSchema.meta("time", in: db) }
            return stored.flatMap(Int64.fromDatabaseValue).flatMap { UInt64(exactly: $0) }
        }
    }

    /// The time is kept in the first shard.
    public func recordTime(_ time: UInt64) throws(HistoryError) {
        try translatingErrors(in: DataDirectory.shardName(0)) {
            try shards[0].pool.write { db in try StoreSchema.setMeta("time", to: Int64(clamping: time), in: db) }
        }
    }

    /// Works in pieces, so that no commit waits for long.
    public func maintain(at time: UInt64, while shouldContinue: () -> Bool) throws(HistoryError) {
        let oldest = time - min(time, UInt64(explainDays) * 86_400)
        var failure = forEachShard { shard in
            while shouldContinue(), try shard.pool.write({ try SQLiteFile.forgetReceived(before: oldest, in: $0) }) {}
            while shouldContinue(), try shard.pool.write({ try SQLiteFile.eraseRecords(expiredAt: time, in: $0) }) {}
            _ = try shard.freeDeleted(while: shouldContinue)
            while shouldContinue(), try shard.pool.write(SQLiteFile.giveBackPages) {}
        }
        do throws(HistoryError) {
            // A shard that is restored from before this day can then be told from the others.
            if shouldContinue() { try StoreShard.beginEpoch(of: shards) }
        } catch {
            failure = failure ?? error
        }
        if let failure { throw failure }
    }

    /// Works in pieces as well.
    public func freeDeleted(while shouldContinue: () -> Bool) throws(HistoryError) -> Bool {
        var isAll = true
        let failure = forEachShard { shard in
            let isFreed = try shard.freeDeleted(while: shouldContinue)
            isAll = isAll && isFreed
        }
        if let failure { throw failure }
        return isAll
    }

    /// Runs `body` for all shards: a failure in one does not affect the others.
    /// - Returns: the first failure.
    private func forEachShard(_ body: (StoreShard) throws -> Void) -> HistoryError? {
        var failure: HistoryError?
        for shard in shards {
            do throws(HistoryError) {
                try translatingErrors(in: DataDirectory.shardName(shard.number)) { try body(shard) }
            } catch {
                failure = failure ?? error
            }
        }
        return failure
    }
}

extension SQLiteFile {
    /// The bytes of contents at which a transaction stops erasing rows; the one that reaches the limit still goes.
    private static let forgottenBytes = 4 << 20
    /// The number of pages that are given back in one transaction.
    private static let pagesGivenBack = 1_024

    /// - Returns: whether there may be more.
    fileprivate static func forgetReceived(before time: UInt64, in db: Database) throws -> Bool {
        try eraseSome(1_000, from: "received", content: "changeset", where: "time < ?", time, in: db)
    }

    /// Erases some of the records of doors that have expired. They are in no order, so that few of them change many
    /// pages.
    /// - Returns: whether there may be more.
    fileprivate static func eraseRecords(expiredAt time: UInt64, in db: Database) throws -> Bool {
        try eraseSome(200, from: "door_record", content: "value", where: "expires <= ?", time, in: db)
    }

    private static func eraseSome(
        _ countMax: Int, from table: String, content: String, where condition: String, _ time: UInt64, in db: Database
    ) throws -> Bool {
        let sql = "SELECT rowid, length(\(content)) FROM \(table) WHERE \(condition) LIMIT \(countMax)"
        var bytes = 0
        let rows = try Row.fetchAll(db, sql: sql, arguments: [Int64(clamping: time)]).prefix { row in
            defer { bytes += row[1] ?? 0 }
            return bytes < forgottenBytes
        }
        for row in rows {
            try db.execute(sql: "DELETE FROM \(table) WHERE rowid = ?", arguments: [row[0] as DatabaseValue])
        }
        return !rows.isEmpty
    }

    /// Gives free pages of the database back to the file system.
    /// - Returns: whether there may be more.
    static func giveBackPages(in db: Database) throws -> Bool {
        func freeCount() throws -> Int { try Int.fetchOne(db, sql: "PRAGMA freelist_count") ?? 0 }
        let before = try freeCount()
        guard before > 0 else { return false }
        try db.execute(sql: "PRAGMA incremental_vacuum(\(pagesGivenBack))")
        // A database that was made again by another program may have none that it can give back.
        return try freeCount() < before
    }
}
