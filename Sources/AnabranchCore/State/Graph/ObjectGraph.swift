/// The state of a synchronized database: classes, objects, and the contents of their fields (`Spec/State.md`, part A).
///
/// A value: a copy costs nothing and is a snapshot that later changes never touch, so a reader on another thread sees
/// the state between two changesets and nothing else. Objects are in memory, or are read from `ObjectRows` when first
/// needed; links are values, so an object is read without those that it links to.
public struct ObjectGraph: Sendable {
    var schema = Schema()
    /// The objects in memory in the order of their keys, by class number minus one.
    var objects: [CountedTree<ObjectEntry>] = []
    /// The rows of objects that are not in memory; nil if all objects are.
    let rows: (any ObjectRows)?
    /// Counts what was read and kept since the last `unload`.
    var reads = ReadCounter()
    /// The limits that decide which contents become parts when objects are stored.
    var partLimits = PartLimits()
    /// The total size of the changesets applied since the last `unload`, in bytes.
    var changesetBytes = 0
    /// The additional memory that changes need until their rows are written, in bytes (`UnwrittenBytes.swift`).
    var unwrittenBytes = 0

    /// A state without classes.
    public init() { rows = nil }

    init(schema: Schema, rows: any ObjectRows) {
        self.schema = schema
        self.rows = rows
        objects = Array(repeating: CountedTree(), count: schema.classes.count)
    }

    /// The approximate stored size of the objects in memory, in bytes: everything that was read since the last
    /// `unload`, including what is read again after a column was erased, all changesets applied since then, and what
    /// changes need that are not stored yet.
    public var loadedBytes: Int { reads.bytes + changesetBytes + unwrittenBytes }

    // MARK: Objects

    /// True if the object exists; a key that is only linked to does not.
    public func contains(_ object: ObjectReference) throws(ApplyError) -> Bool {
        if let known = containsInMemory(object) { return known }
        return try isStored(object)
    }

    /// The same as `contains` without reading rows; nil if only the rows can tell.
    package func containsInMemory(_ object: ObjectReference) -> Bool? {
        guard schema.contains(object.classID) else { return false }
        let found = objects[Int(object.classID.rawValue) - 1].find { $0.compare(object.key) }
        if let entry = found.element { return entry.fields != nil }
        return rows == nil ? false : nil
    }

    /// The fields of an object; nil if it does not exist. Large contents are read when they are needed.
    func fields(of object: ObjectReference) throws(ApplyError) -> Fields? {
        let found = objects[Int(object.classID.rawValue) - 1].find { $0.compare(object.key) }
        if let entry = found.element { return entry.fields }
        return try storedEntry(of: object)?.object?.fields
    }

    /// The same for some objects of a class, whose rows are in memory together: faster than one by one.
    /// - Parameter keys: ascending.
    func fields(of classID: ClassID, _ keys: [PrimaryKey]) throws(ApplyError) -> [Fields?] {
        let loaded = objects[Int(classID.rawValue) - 1]
        let entries = keys.map { key in loaded.find { $0.compare(key) }.element }
        let rowKeys = zip(keys, entries).filter { $1 == nil }.map { $0.0.rowKey }
        var stored: [[UInt8]?] = []
        if let rows, !rowKeys.isEmpty {
            do { stored = try rows.rows(of: classID, rowKeys) } catch { throw ApplyError(reading: error) }
        }
        var next = 0
        return try entries.map { entry throws(ApplyError) in
            if let entry { return entry.fields }
            defer { next += 1 }
            guard rows != nil, let row = stored[next] else { return nil }
            return try storedObject(row, at: RowAddress(classID: classID, key: rowKeys[next]))?.fields
        }
    }

    /// Calls `body` with each object of a class in the order of their keys.
    func forEachObject(
        of classID: ClassID, _ body: (PrimaryKey, Fields) throws(ApplyError) -> Void
    ) throws(ApplyError) {
        var objects = ObjectCursor(of: classID, in: self)
        while let (key, fields) = try objects.next() { try body(key, fields) }
    }

    /// The content of a field, which is the initial one where nothing was written yet.
    func content(_ slot: Int, of fields: Fields, in state: ClassState) -> Content {
        slot < fields.contents.count ? fields.contents[slot] : state.columns[slot]?.initial ?? .null
    }
}

/// An object in memory.
struct ObjectEntry: TreeElement, Sendable {
    let key: PrimaryKey
    /// True while the object is unchanged since it was stored.
    var isStored = false
    /// The value of `Schema.erasedColumnCount` when values in erased columns were last removed from the fields.
    var erasedColumnCount: UInt32 = 0
    /// Nil for a tombstone: the object does not exist, but links to it may, or its row is still stored.
    var fields: Fields?
    /// The size of all fields together, in bytes (`Content.size`).
    var size = 0
    /// The object as stored in its rows; nil if these hold no object.
    var stored: StoredObject?
    var separator: PrimaryKey { key }
    static var leafCountMax: Int { 32 }
}
