import AnabranchCore

/// The objects whose rows are compared with them, in batches: those that others refer to first.
struct DirtyBatches {
    private let database: CapturedDatabase
    private let state: ObjectGraph
    private let isEverything: Bool
    /// The keys of the objects of each table, in their order: those that are near each other have their rows in the
    /// same pages.
    private var keys: [[UUIDBytes]] = []
    /// The classes of tables.
    private var numbers: [Int64: ClassID] = [:]

    init(_ database: CapturedDatabase, _ state: ObjectGraph, _ changed: consuming ChangedObjects.Taken) {
        (self.database, self.state, isEverything) = (database, state, changed.isEverything)
        for table in database.tables {
            let number = state.schema(ofClass: Array(table.name.utf8))?.number
            numbers[table.number] = number
            var keys = number.flatMap { changed.objects.removeValue(forKey: $0) } ?? []
            if let rows = changed.rows.removeValue(forKey: table.number) { keys.formUnion(rows) }
            self.keys.append(keys.sorted { PrimaryKey.uuid($0) < .uuid($1) })
        }
    }

    typealias Batch = [(DirtyObject, StateObject?)]

    /// Calls `body` with batches of objects, each with what it is now; nil if it is gone.
    func forEach(_ size: Int, _ body: (Batch) throws -> Void) throws {
        guard !isEverything else { return try forEachOfAll(size, body) }
        let count = keys.reduce(0) { $0 + $1.count }
        if count == 0 { return }
        let all = zip(database.tables.map(\.number), keys)
        if count <= size {
            return try body(try all.flatMap { table, keys in try keys.map { try object($0, of: table) } })
        }
        // A unique value of one that goes may be that of one that comes.
        for (table, keys) in Array(all).reversed() {
            try forEachBatch(of: try keys.filter { try !exists($0, in: table) }, table, size, body)
        }
        for (table, keys) in all { try forEachBatch(of: keys, table, size) { try body($0.filter { $0.1 != nil }) } }
    }

    private func forEachBatch(
        of keys: [UUIDBytes], _ table: Int64, _ size: Int, _ body: (Batch) throws -> Void
    ) throws {
        for start in stride(from: 0, to: keys.count, by: size) {
            try body(try keys[start..<min(start + size, keys.count)].map { try object($0, of: table) })
        }
    }

    private func object(_ guid: UUIDBytes, of table: Int64) throws -> (DirtyObject, StateObject?) {
        let object = try numbers[table].flatMap { try state.object(ObjectReference(classID: $0, key: .uuid(guid))) }
        return (DirtyObject(table: table, guid: guid), object)
    }

    private func exists(_ guid: UUIDBytes, in table: Int64) throws -> Bool {
        try numbers[table].map { try state.contains(ObjectReference(classID: $0, key: .uuid(guid))) } ?? false
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
