import GRDB

/// The mark of a database as one of Anabranch, and the form of its tables.
struct DatabaseFormat {
    /// Marks our databases among all SQLite files.
    let applicationID: Int
    /// Raised with each change of the form, so that no program misreads a database of another one.
    let version: Int

    /// The result of an examination.
    enum Finding {
        case current
        case older(version: Int)
        case newer(version: Int)
        /// Without a table, and without a mark.
        case new
        /// Of another program.
        case foreign
    }

    func examine(_ db: Database) throws -> Finding {
        let tables = "SELECT COUNT(*) FROM sqlite_master WHERE tbl_name <> 'grdb_migrations'"
        let isNew = try Int.fetchOne(db, sql: tables) == 0
        let owner = try Int.fetchOne(db, sql: "PRAGMA application_id")
        if isNew, owner == 0 { return .new }
        guard owner == applicationID else { return .foreign }
        let found = try Int.fetchOne(db, sql: "PRAGMA user_version") ?? 0
        if found > version { return .newer(version: found) }
        return found == version ? .current : .older(version: found)
    }

    /// Marks a new database, as the last step of making it.
    func mark(_ db: Database, version: Int) throws {
        try db.execute(sql: "PRAGMA application_id = \(applicationID)")
        try db.execute(sql: "PRAGMA user_version = \(version)")
    }
}
