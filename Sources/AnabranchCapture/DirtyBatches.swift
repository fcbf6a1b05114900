import AnabranchCore

/// The objects whose rows are compared with them, in batches: those that others refer to first.
struct DirtyBatches {
    private let database: CapturedDatabase
    private let state: ObjectGraph
    private let changed: ChangedObjects.Taken
    /// The classes of tables.
    private var numbers: [Int64: ClassID] = [:]

    init(_ database: CapturedDatabase, _ state: ObjectGraph, _ changed: ChangedObjects.Taken) {
        (self.database, self.state, self.changed) = (database, state, changed)
        for table in database.tables {
            numbers[table.number] = state.schema(ofClass: Array(table.name.utf8))?.number
        }
    }

    typealias Batch = [(DirtyObject, StateObject?)]

    /// Calls `body` with batches of objects, each with what it is now; nil if it is gone.
    func forEach(_ size: Int, _ body: (Batch) throws -> Void) throws {
        guard !changed.isEverything else { return try forEachOfAll(size, body) }
        let all = database.tables.map { table -> [DirtyObject] in
            var keys = numbers[table.number].flatMap { changed.objects[$0] } ?? []
            if let rows = changed.rows[table.number] { keys.formUnion(rows) }
            // Those that are near each other have their rows in the same pages.
            return keys.sorted { PrimaryKey.uuid($0) < .uuid($1) }.map { DirtyObject(table: table.number, guid: $0) }
        }
        guard all.contains(where: { !$0.isEmpty }) else { return }
        if all.reduce(0, { $0 + $1.count }) <= size { return try body(all.joined().map { ($0, try object($0)) }) }
        // A unique value of one that goes may be that of one that comes.
        for objects in all.reversed() { try forEachBatch(of: objects.filter { try !exists($0) }, size, body) }
        for objects in all { try forEachBatch(of: objects.filter { try exists($0) }, size, body) }
    }

    private func forEachBatch(of objects: [DirtyObject], _ size: Int, _ body: (Batch) throws -> Void) throws {
        for start in stride(from: 0, to: objects.count, by: size) {
            try body(try objects[start..<min(start + size, objects.count)].map { ($0, try object($0)) })
        }
    }

    private func object(_ dirty: DirtyObject) throws -> StateObject? {
        try numbers[dirty.table].flatMap { try state.object(ObjectReference(classID: $0, key: .uuid(dirty.guid))) }
    }

    private func exists(_ dirty: DirtyObject) throws -> Bool {
        guard let number = numbers[dirty.table] else { return false }
        return try state.contains(ObjectReference(classID: number, key: .uuid(dirty.guid)))
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
