import AnabranchCore

/// The objects whose rows are compared with them, in batches: those that others refer to first.
struct DirtyBatches {
    private let database: CapturedDatabase
    private let state: ObjectGraph
    private let isEverything: Bool
    /// The keys of the objects of each table, in their order.
    private var keys: [[PrimaryKey]] = []
    /// The classes of tables.
    private var numbers: [Int64: ClassID] = [:]

    init(_ database: CapturedDatabase, _ state: ObjectGraph, _ changed: consuming ChangedObjects.Taken) {
        (self.database, self.state, isEverything) = (database, state, changed.isEverything)
        for table in database.tables {
            let number = state.schema(ofClass: Array(table.name.utf8))?.number
            numbers[table.number] = number
            var keys = number.flatMap { changed.keys.removeValue(forKey: $0) } ?? KeySet()
            for key in changed.rows.removeValue(forKey: table.number)?.ordered() ?? [] { keys.insert(key) }
            self.keys.append(keys.ordered())
        }
    }

    typealias Batch = [(DirtyObject, StateObject?)]

    /// Calls `body` with batches of objects, each with its current content; nil if it was erased.
    func forEach(_ size: Int, _ body: (Batch) throws -> Void) throws {
        guard !isEverything else { return try forEachOfAll(size, body) }
        let all = Array(zip(database.tables.map(\.number), keys))
        if keys.reduce(0, { $0 + $1.count }) <= size {
            let batch = try all.flatMap { table, keys in try keys.compactMap { try object($0, of: table) } }
            return batch.isEmpty ? () : try body(batch)
        }
        // A unique value of one that goes may be that of one that comes.
        for (table, keys) in all.reversed() { try forEachBatch(of: keys, table, size, areGone: true, body) }
        for (table, keys) in all { try forEachBatch(of: keys, table, size, areGone: false, body) }
    }

    /// Calls `body` with those objects that are gone, or with the others.
    private func forEachBatch(
        of keys: [PrimaryKey], _ table: Int64, _ size: Int, areGone: Bool, _ body: (Batch) throws -> Void
    ) throws {
        var batch: Batch = []
        for key in keys {
            if try areGone && exists(key, in: table) { continue }
            guard let object = try object(key, of: table), (object.1 == nil) == areGone else { continue }
            batch.append(object)
            guard batch.count == size else { continue }
            try body(batch)
            batch = []
        }
        if !batch.isEmpty { try body(batch) }
    }

    /// - Returns: nil if rows have no such keys.
    private func object(_ key: PrimaryKey, of table: Int64) throws -> (DirtyObject, StateObject?)? {
        guard case .uuid(let guid) = key else { return nil }
        let object = try numbers[table].flatMap { try state.object(ObjectReference(classID: $0, key: key)) }
        return (DirtyObject(table: table, guid: guid), object)
    }

    private func exists(_ key: PrimaryKey, in table: Int64) throws -> Bool {
        try numbers[table].map { try state.contains(ObjectReference(classID: $0, key: key)) } ?? false
    }

    private func forEachOfAll(_ size: Int, _ body: (Batch) throws -> Void) throws {
        for table in database.tables {
            guard let number = numbers[table.number] else { continue }
            var last: PrimaryKey?
            while true {
                var batch: Batch = []
                try state.forEachObject(of: number, after: last) { object throws(ApplyError) in
                    last = object.key
                    if case .uuid(let guid)? = object.key {
                        batch.append((DirtyObject(table: table.number, guid: guid), object))
                    }
                    return batch.count < size
                }
                if batch.isEmpty { break }
                try body(batch)
            }
        }
        for table in database.tables.reversed() { try forEachErased(of: table, size, body) }
    }

    /// The rows whose objects are gone.
    private func forEachErased(of table: CapturedTable, _ size: Int, _ body: (Batch) throws -> Void) throws {
        let number = numbers[table.number]
        var last = SQLValue.blob([])
        while true {
            let found = try database.db.rows(
                "SELECT guid FROM sync_row WHERE tbl = ? AND guid > ? ORDER BY guid LIMIT ?",
                [.int(table.number), last, .int(Int64(size))])
            guard let next = found.last?[0] else { return }
            last = next
            let erased = try found.compactMap { row -> (DirtyObject, StateObject?)? in
                guard let guid = row[0].guid else { return nil }
                if let number, try state.contains(ObjectReference(classID: number, key: .uuid(guid))) { return nil }
                return (DirtyObject(table: table.number, guid: guid), nil)
            }
            if !erased.isEmpty { try body(erased) }
        }
    }
}
