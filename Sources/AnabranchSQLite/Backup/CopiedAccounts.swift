import AnabranchHistory
import GRDB

/// A summary of the accounts that were copied, to check their copy against.
struct CopiedAccounts {
    let userCount: Int
    private let digest: Checksum

    init(_ db: Database) throws {
        userCount = try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM user") ?? 0
        digest = try Self.digest(db)
    }

    /// The digest of all rows of the tables.
    private static func digest(_ db: Database) throws -> Checksum {
        let sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
        var digest = Checksum(low: 0, high: 0)
        for table in try String.fetchAll(db, sql: sql) {
            digest = digest.keyed([], Array(table.utf8))
            digest = digest.keyed([], try db.digest(of: "SELECT * FROM \(table.quotedDatabaseIdentifier)").bytes)
        }
        return digest
    }

    /// The damage to their copy; nil if it is what was copied.
    func damage(ofCopyAt path: String) throws(HistoryError) -> StoreDamage? {
        let name = DataDirectory.accountsName
        return try translatingErrors(in: name) {
            let queue = try DatabaseCopy.open(path)
            defer { try? queue.close() }
            return try queue.read { db in
                let structure = try String.fetchAll(db, sql: "PRAGMA integrity_check").first { $0 != "ok" }
                if let structure { return StoreDamage(kind: .database, place: name, finding: structure) }
                guard try Self.digest(db) != digest else { return nil }
                return StoreDamage(kind: .value, place: name, finding: "the accounts are not those that were copied")
            }
        }
    }
}
