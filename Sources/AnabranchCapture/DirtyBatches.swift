import AnabranchCore

/// The objects whose rows are compared with them, in batches: those that others refer to first.
struct DirtyBatches {
    private let database: CapturedDatabase
    private let state: ObjectGraph
    private let isEverything: Bool
    private let objects: [DirtyObject]

    init(
        _ database: CapturedDatabase, _ state: ObjectGraph, _ isEverything: Bool, _ references: Set<ObjectReference>,
        _ rows: Set<DirtyObject>
    ) {
        self.database = database
        self.state = state
        self.isEverything = isEverything
        var numbers: [ClassID: Int64] = [:], places: [Int64: Int] = [:]
        for (place, table) in database.tables.enumerated() {
            places[table.number] = place
            if let number = state.schema(ofClass: Array(table.name.utf8))?.number { numbers[number] = table.number }
        }
        var all = rows
        for reference in references {
            guard let table = numbers[reference.classID], case .uuid(let guid) = reference.key else { continue }
            all.insert(DirtyObject(table: table, guid: guid))
        }
        objects = all.sorted { places[$0.table] ?? 0 < places[$1.table] ?? 0 }
    }

    func forEach(_ size: Int, _ body: ([DirtyObject]) throws -> Void) throws {
        guard !isEverything else { return try forEachOfAll(size, body) }
        for start in stride(from: 0, to: objects.count, by: size) {
            try body(Array(objects[start..<min(start + size, objects.count)]))
        }
    }

    private func forEachOfAll(_ size: Int, _ body: ([DirtyObject]) throws -> Void) throws {
        for table in database.tables {
            guard let number = state.schema(ofClass: Array(table.name.utf8))?.number else { continue }
            var last: PrimaryKey?
            while true {
                var batch: [DirtyObject] = []
                try state.forEachObject(of: number, after: last) { object throws(ApplyError) in
                    last = object.key
                    if case .uuid(let guid)? = object.key { batch.append(DirtyObject(table: table.number, guid: guid)) }
                    return batch.count < size
                }
                if batch.isEmpty { break }
                try body(batch)
            }
        }
        for table in database.tables.reversed() { try forEachErased(of: table, size, body) }
    }

    /// The rows whose objects are gone.
    private func forEachErased(of table: CapturedTable, _ size: Int, _ body: ([DirtyObject]) throws -> Void) throws {
        let number = state.schema(ofClass: Array(table.name.utf8))?.number
        var last = SQLValue.blob([])
        while true {
            let found = try database.db.rows(
                "SELECT guid FROM sync_row WHERE tbl = ? AND guid > ? ORDER BY guid LIMIT ?",
                [.int(table.number), last, .int(Int64(size))])
            guard let next = found.last?[0] else { return }
            last = next
            let erased = try found.compactMap { row -> DirtyObject? in
                guard let guid = row[0].guid else { return nil }
                if let number, try state.object(ObjectReference(classID: number, key: .uuid(guid))) != nil {
                    return nil
                }
                return DirtyObject(table: table.number, guid: guid)
            }
            if !erased.isEmpty { try body(erased) }
        }
    }
}
