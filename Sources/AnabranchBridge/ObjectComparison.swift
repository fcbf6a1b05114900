#if canImport(CLibPQ)
import AnabranchCore
import AnabranchPostgresWire

/// Compares all objects of the bridged classes with the rows of their tables.
struct ObjectComparison {
    let database: BridgeDatabase
    let state: ObjectGraph

    init(_ database: BridgeDatabase, _ state: ObjectGraph) { (self.database, self.state) = (database, state) }

    private static let batchSize = 1_000
    /// The share of a table's rows, and their number, from which deleting them has to be allowed.
    private static let deletedShare = 2
    private static let deletedCount = 100

    private func schema(_ table: BridgedTable) -> ClassSchema? { state.schema(ofClass: Array(table.className.utf8)) }

    /// Calls `body` with the objects of a table's class, in batches.
    func forEachObject(of table: BridgedTable, _ body: ([ObjectReference]) throws -> Void) throws {
        guard let schema = schema(table) else { return }
        var last: PrimaryKey?
        while true {
            var batch: [ObjectReference] = []
            try state.forEachObject(of: schema.number, after: last) { object throws(ApplyError) in
                last = object.key
                if let reference = object.reference { batch.append(reference) }
                return batch.count < Self.batchSize
            }
            if batch.isEmpty { return }
            try body(batch)
        }
    }

    /// Calls `body` with the keys of the rows of a table, in batches.
    func forEachKey(of table: BridgedTable, _ body: ([String]) throws -> Void) throws {
        let key = table.key.name.quoted
        var last: String?
        while true {
            let rows = try database.db.query(
                """
                SELECT t.\(key)::text FROM \(table.path) t
                \(last == nil ? "" : "WHERE t.\(key) > $1::\(table.key.type)")
                ORDER BY t.\(key) LIMIT \(Self.batchSize)
                """, last.map { [.text($0)] } ?? [])
            let keys = (0..<rows.count).compactMap { rows[$0, 0] }
            guard let end = keys.last else { return }
            last = end
            try body(keys)
        }
    }

    /// The objects that rows had which have none.
    ///
    /// - Parameter limit: the most of them; nil for half of the rows, or a hundred if these are more.
    /// - Throws: `BridgeError` with the code `fileMismatch` if there are more: the file may be another one.
    func rowsWithoutObject(_ table: BridgedTable, limit: Int?) throws -> [ObjectReference] {
        guard let schema = schema(table), let type = schema.key?.type else { return [] }
        var gone: [ObjectReference] = [], count = 0
        try forEachKey(of: table) { keys in
            count += keys.count
            for key in keys {
                guard let objectKey = BridgedTable.objectKey(key, type) else { continue }
                let reference = ObjectReference(classID: schema.number, key: objectKey)
                if try !state.contains(reference) { gone.append(reference) }
            }
        }
        guard gone.count <= limit ?? max(Self.deletedCount, count / Self.deletedShare) else {
            throw BridgeError(
                .fileMismatch,
                """
                \(gone.count) of \(count) rows have no object and would be deleted, more than half: is it the right \
                file? \
                --delete-rows deletes them, compare --repair makes objects of them
                """, table: table.path)
        }
        return gone
    }

    /// Writes an entry for each object that has no row.
    func recordMissingRows(_ table: BridgedTable) throws {
        try forEachObject(of: table) { objects in
            let keys = objects.compactMap { table.text(of: $0.key) }
            try database.db.query(
                """
                INSERT INTO anabranch.history (tbl, action, key)
                SELECT $1::oid, 'D', "anabranch.k".key FROM unnest($2::text[]) AS "anabranch.k"(key)
                WHERE NOT EXISTS (
                  SELECT FROM \(table.path) t WHERE t.\(table.key.name.quoted) = "anabranch.k".key::\(table.keyType))
                AND NOT EXISTS (
                  SELECT FROM anabranch.pending p WHERE p.class = $3 AND p.key = "anabranch.k".key)
                """, [.text(table.oid), .array(keys), .text(table.className)])
        }
    }
}
#endif
