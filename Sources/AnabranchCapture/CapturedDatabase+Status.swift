public import AnabranchCore

// The status of a captured database for people, read without changing it.

/// How far a captured database is synced.
public struct CaptureStatus: Equatable, Sendable {
    /// A table that is captured.
    public struct Table: Equatable, Sendable {
        /// The name of the table in the database.
        public let name: String
        /// The number of rows.
        public let rows: Int
        /// The number of rows that have an object.
        public let objects: Int
        /// The reason why it cannot be captured any more; nil if it can.
        public let fault: String?
        /// False if triggers are missing, or not as they were made: the next pass makes them again.
        public let hasTriggers: Bool
    }

    /// An object whose row could not be written.
    public struct WaitingObject: Equatable, Sendable {
        /// The name of the table whose row it is.
        public let table: String
        /// The key of the object, as 32 hex digits.
        public let object: String
        /// The reason, in SQLite's words.
        public let reason: String
    }

    /// The tables, by name.
    public let tables: [Table]
    /// True while capture is paused.
    public let isPaused: Bool
    /// The number of changed rows that no pass has turned into objects yet.
    public let uncollected: Int
    /// The number of changes of rows that were collected, but not acknowledged by the server yet.
    public let unacknowledged: Int
    /// The number of objects whose rows could not be written.
    public let waitingCount: Int
    /// The first 100 of them.
    public let waiting: [WaitingObject]
    /// The number of values that were given up, kept in `sync_conflict`.
    public let conflicts: Int
}

/// A difference between a row and its object.
public struct CaptureDifference: Equatable, Sendable {
    /// The kind of a difference.
    public enum Kind: Equatable, Sendable {
        /// A row that has no object.
        case noObject
        /// An object that has no row.
        case noRow
        /// Columns that have not the values of the object.
        case columns([String])
    }

    /// The name of the table.
    public let table: String
    /// The key of the row as SQL spells it, or that of the object as 32 hex digits if there is no row.
    public let key: String
    /// The kind of the difference: which side is missing, or which columns differ.
    public let kind: Kind
    /// The reason why the row is not written; nil if the object does not wait.
    public let reason: String?

    package init(table: String, key: String, kind: Kind, reason: String?) {
        (self.table, self.key, self.kind, self.reason) = (table, key, kind, reason)
    }
}

extension CapturedDatabase {
    /// The number of objects that wait of which `status` tells.
    private static let shownObjects: Int64 = 100

    /// How far the database is synced.
    /// - Throws: `CaptureError`, with the code `notInstalled` if capture is not installed.
    public func status() throws -> CaptureStatus {
        try translating {
            try checkInstalled()
            return try db.transaction("DEFERRED") {
                try load()
                let faults = Dictionary(broken.map { ($0.table ?? "", $0.reason) }) { first, _ in first }
                func count(_ sql: String, _ values: [SQLValue] = []) throws -> Int {
                    Int(clamping: try db.value("SELECT count(*) FROM \(sql)", values)?.int ?? 0)
                }
                let names = try db.rows("SELECT id, name FROM sync_table ORDER BY name")
                let tables = try names.map { row in
                    let name = row[1].string ?? ""
                    let known = table(row[0].int)
                    return CaptureStatus.Table(
                        name: name, rows: known == nil ? 0 : try count("main.\(name.quoted)"),
                        objects: try count("sync_row WHERE tbl = ?", [row[0]]), fault: faults[name],
                        hasTriggers: try known.map { try isAsInstalled($0) } ?? false)
                }
                let collected = try state("collected") ?? .int(0)
                let waiting = try db.rows(
                    """
                    SELECT name, lower(hex(guid)), reason FROM sync_pending JOIN sync_table ON sync_table.id = tbl
                    ORDER BY name, guid LIMIT \(Self.shownObjects)
                    """)
                return CaptureStatus(
                    tables: tables, isPaused: try state("paused") != nil,
                    uncollected: try count("sync_history WHERE action > 0 AND id > ?", [collected]),
                    unacknowledged: try count("sync_history WHERE action > 0 AND id <= ?", [collected]),
                    waitingCount: try pendingCount,
                    waiting: waiting.map {
                        CaptureStatus.WaitingObject(
                            table: $0[0].string ?? "", object: $0[1].string ?? "", reason: $0[2].string ?? "")
                    }, conflicts: try count("sync_conflict"))
            }
        }
    }

    /// Compares each row with its object. Rows with entries that are not collected are passed over.
    ///
    /// - Parameters:
    ///   - state: the objects.
    ///   - tell: is called with each difference.
    /// - Returns: the number of rows that were compared.
    /// - Throws: `CaptureError`; what `tell` throws; `ApplyError` if the objects cannot be read.
    public func compare(with state: ObjectGraph, _ tell: (CaptureDifference) throws -> Void) throws -> Int {
        try translating {
            try checkInstalled()
            return try db.transaction("DEFERRED") {
                try load()
                if let error = broken.first { throw error }
                return try tables.reduce(0) { try $0 + compare($1, with: state, tell) }
            }
        }
    }

    /// Has the next pass compare all rows and objects, and make them equal: what rows have that no trigger has seen is
    /// sent, and what they lack is written.
    public func repairAtNextPass() throws {
        try translating {
            try checkUsable()
            try db.transaction {
                for table in tables { try set("compare:\(table.number)", to: .int(1)) }
                try set("repair", to: .int(1))
            }
        }
    }

    /// - Returns: true if all objects have to be compared with their rows.
    func takeRepair() throws -> Bool {
        guard try state("repair") != nil else { return false }
        try db.transaction {
            try set("repair", to: nil)
            // Should this process end before it is done, the next one goes on.
            try set("applied", to: nil)
        }
        return true
    }

    private func compare(_ table: CapturedTable, with state: ObjectGraph, _ tell: (CaptureDifference) throws -> Void)
        throws -> Int
    {
        let cursor = try self.state("collected") ?? .int(0)
        let schema = state.schema(ofClass: Array(table.name.utf8))
        let columns = table.columns(in: schema)
        var compared = 0
        try db.run(
            """
            SELECT \(table.keyText), \(table.selectedColumns) FROM main.\(table.name.quoted)
            WHERE \(table.hasKey) AND \(table.keyText) NOT IN (
              SELECT key FROM sync_history WHERE id > ?1 AND tbl = ?2 AND key IS NOT NULL
              UNION SELECT was FROM sync_history WHERE id > ?1 AND tbl = ?2 AND was IS NOT NULL)
            """, [cursor, .int(table.number)]
        ) { row in
            compared += 1
            let key = row[0]
            let values = Array(row.values.dropFirst())
            let name = key.string ?? "\(key.int ?? 0)"
            let guid = try self.guid(of: RowKey(table: table.number, key: key))
            var object: StateObject?
            if let schema, let guid {
                object = try state.object(ObjectReference(classID: schema.number, key: .uuid(guid)))
            }
            guard let object else {
                let isOwn = values.last.map { !$0.isTrue } ?? false || !table.rule.pushes.contains(.insert)
                if isOwn { return }
                let reason = try guid.flatMap { try reasonToWait(of: $0) }
                return try tell(CaptureDifference(table: table.name, key: name, kind: .noObject, reason: reason))
            }
            var different: [String] = []
            for (value, (form, property)) in zip(values, columns) {
                guard let property else { continue }
                let content = object.value(of: property)
                if try !isSame(value, content, form, in: state, { try self.guid(of: $0) }) {
                    different.append(form.column.name)
                }
            }
            guard !different.isEmpty, case .uuid(let guid)? = object.key else { return }
            try tell(
                CaptureDifference(
                    table: table.name, key: name, kind: .columns(different), reason: try reasonToWait(of: guid)))
        }
        if let schema { try tellOfObjectsWithoutRow(table, schema.number, in: state, tell) }
        return compared
    }

    /// - Parameter guid: the object of a row.
    func isSame(
        _ value: SQLValue, _ content: StateValue, _ form: ColumnForm, in state: ObjectGraph,
        _ guid: (RowKey) throws -> UUIDBytes?
    ) throws -> Bool {
        guard let target = form.column.target.flatMap({ table(named: $0) }) else { return form.isSame(value, content) }
        return try row(referredToBy: value, in: target).flatMap(guid) == content.linked(in: state)
    }

    private func reasonToWait(of guid: UUIDBytes) throws -> String? {
        try db.value("SELECT reason FROM sync_pending WHERE guid = ?", [.blob(guid.bytes)])?.string
    }

    private func tellOfObjectsWithoutRow(
        _ table: CapturedTable, _ number: ClassID, in state: ObjectGraph, _ tell: (CaptureDifference) throws -> Void
    ) throws {
        guard table.rule.pulls.contains(.insert) else { return }
        var failure: (any Error)?
        try state.forEachObject(of: number, after: nil) { object throws(ApplyError) in
            guard case .uuid(let guid)? = object.key else { return true }
            do {
                guard try row(of: guid) == nil else { return true }
                try tell(
                    CaptureDifference(
                        table: table.name, key: Hex.encode(guid.bytes), kind: .noRow,
                        reason: try reasonToWait(of: guid)))
            } catch { failure = error }
            return failure == nil
        }
        if let failure { throw failure }
    }
}
