/// The rows in which a state is stored (`Spec/State.md`, part D). An `ObjectGraph` reads objects from here when it
/// needs them; `ObjectGraph.rowWrites(of:)` gives the rows to write for its changes.
///
/// All answers are as of the version that was stored last, so a graph that reads from here is not used beyond the next
/// one, unless this is itself a snapshot.
public protocol ObjectRows: Sendable {
    /// The bytes of a row; nil if there is none.
    func row(at address: RowAddress) throws -> [UInt8]?

    /// The rows of some of a class's objects; nil where there is none. The default reads one after the other.
    /// - Parameter keys: ascending.
    func rows(of classID: ClassID, _ keys: [[UInt8]]) throws -> [[UInt8]?]

    /// The rows of a class's objects, without their parts, in ascending order of the keys' bytes. Links have classes of
    /// their own, whose numbers are above those of all others (`RowAddress`).
    ///
    /// - Parameters:
    ///   - key: The first row's key is above this one; nil begins with the first one.
    ///   - limit: The greatest number of rows to return; fewer mean that there are no more.
    func objects(
        of classID: ClassID, after key: [UInt8]?, limit: Int
    ) throws -> [(key: [UInt8], row: [UInt8])]

    /// Calls `body` with each of these rows, in the same order, where it lies: the bytes are there until it returns.
    func forEachObject(
        of classID: ClassID, _ body: (_ key: UnsafeRawBufferPointer, _ row: UnsafeRawBufferPointer) throws -> Void
    ) throws

    /// The greatest key of the rows of a class's objects, empty if there are none; nil, the default, if it takes long
    /// to find.
    func greatestKey(of classID: ClassID) throws -> [UInt8]?

    /// Calls `body`, which reads many single rows: a store can prepare once for all of them.
    func readTogether(_ body: () throws -> Void) throws

    /// True if each answer takes so long that rows are fetched before they are asked for.
    var fetchesAhead: Bool { get }

    /// Fetches rows of objects, without their parts, together with what is asked for next. They are asked for soon,
    /// within the same `readTogether`.
    func fetchAhead(_ addresses: [RowAddress])

    /// The most bytes of a String that is a primary key. The row of a link has two such keys, so a store whose rows
    /// have shorter keys takes less than others (`Spec/State.md`, B1, step 2).
    var primaryKeyBytesMax: Int { get }
}

extension ObjectRows {
    /// Reads one row after the other.
    public func rows(of classID: ClassID, _ keys: [[UInt8]]) throws -> [[UInt8]?] {
        try keys.map { try row(at: RowAddress(classID: classID, key: $0)) }
    }

    /// Reads some rows at a time.
    public func forEachObject(
        of classID: ClassID, _ body: (_ key: UnsafeRawBufferPointer, _ row: UnsafeRawBufferPointer) throws -> Void
    ) throws {
        let limit = 64
        var last: [UInt8]?
        while true {
            let rows = try objects(of: classID, after: last, limit: limit)
            for (key, row) in rows {
                try key.withUnsafeBytes { key in try row.withUnsafeBytes { row in try body(key, row) } }
            }
            guard rows.count == limit else { return }
            last = rows.last?.key
        }
    }

    /// Nil.
    public func greatestKey(of classID: ClassID) throws -> [UInt8]? { nil }

    /// Calls `body`, and prepares nothing.
    public func readTogether(_ body: () throws -> Void) throws { try body() }

    /// False.
    public var fetchesAhead: Bool { false }

    /// Does nothing.
    public func fetchAhead(_ addresses: [RowAddress]) {}

    /// 4,096: the limit for the keys of new objects (`Spec/State.md`, B1).
    public var primaryKeyBytesMax: Int { Schema.primaryKeyBytesMax }
}

/// The part of an object that is noted when a commit changes it. What is noted is read, so a long list costs its
/// length.
package enum RecordingDepth {
    case nothing
    /// The columns with these slots; the others are null.
    case columns(Set<Int>)
    /// The whole object.
    case whole

    var isNothing: Bool { if case .nothing = self { true } else { false } }
}

/// An object before a commit and after it, in memory as far as its `RecordingDepth` says; nil where there is no object.
package struct NotedChange: Sendable {
    package let object: ObjectReference
    package var before: StateObject?
    package var after: StateObject?

    init(
        _ object: ObjectReference, from before: Fields?, to after: Fields?, _ depth: RecordingDepth
    ) throws(ApplyError) {
        self.object = object
        self.before = try NotedChange.read(before, object, depth)
        self.after = try NotedChange.read(after, object, depth)
    }

    private static func read(
        _ fields: Fields?, _ object: ObjectReference, _ depth: RecordingDepth
    ) throws(ApplyError) -> StateObject? {
        guard let fields else { return nil }
        let read: Fields
        if case .columns(let slots) = depth {
            read = try fields.readAll { slots.contains($0) }
        } else {
            read = try fields.readAll()
        }
        return StateObject(classID: object.classID, key: object.key, fields: read)
    }
}

/// The rows of an object that are removed. There can be millions, and the names of links are long.
struct RowRemoval: Sendable {
    let object: ObjectReference
    /// 0 is the object's own row.
    var parts: [UInt64] = []
    var links: [Backlink] = []

    var isEmpty: Bool { parts.isEmpty && links.isEmpty }

    var addresses: some Collection<RowAddress> {
        let own = RowAddress(object)
        return (0..<parts.count + links.count).lazy.map { index in
            index < parts.count ? own.part(parts[index]) : links[index - parts.count].address(from: object)
        }
    }
}

extension ObjectGraph {
    /// The state that is stored in rows; without classes if nothing is.
    ///
    /// - Throws: `ApplyError` with the code `unavailable` when the rows cannot be read.
    public init(rows: any ObjectRows) throws(ApplyError) {
        var known: KnownSchema?
        try self.init(rows: rows, &known)
    }

    /// The same.
    /// - Parameter known: The schema that was read last: most often it is still the same.
    package init(rows: any ObjectRows, _ known: inout KnownSchema?) throws(ApplyError) {
        let source = PartSource(.schema, in: rows, reads: ReadCounter())
        guard let row = try source.row() else {
            self.init(schema: Schema(), rows: rows)
            return
        }
        if known?.row != row {
            let schema = try source.decode(row) { decoder throws(ChangesetError) in try decoder.schema() }
            known = KnownSchema(row: row, schema: schema)
        }
        self.init(schema: known?.schema ?? Schema(), rows: rows)
    }

    /// The number of objects in memory.
    public var loadedCount: Int { objects.reduce(0) { $0 + $1.count } }

    /// The bytes that all copies have read since the last `unload`, and that stay in memory.
    package var readBytes: Int { reads.bytes }

    /// Records that the copies were given up which have read something since `readBytes` was at this many bytes.
    package func forgetReads(beyond bytes: Int) { reads.forget(beyond: bytes) }

    /// Forgets the objects in memory of a state whose changes are stored; they are read again when they are needed.
    public mutating func unload() {
        guard rows != nil else { return }
        for index in objects.indices { objects[index].removeAll() }
        (reads, changesetBytes, unwrittenBytes) = (ReadCounter(), 0, 0)
    }
}

/// A schema, and the row that it was read from.
package struct KnownSchema: Sendable {
    let row: [UInt8]
    let schema: Schema
}

/// An object as its rows hold it.
final class StoredObject: Sendable {
    let fields: Fields
    /// The highest number that a part of it has, or had.
    let lastPart: UInt64
    /// The value of `Schema.erasedColumnCount` when values in erased columns were last removed from the fields.
    let erasedColumnCount: UInt32

    init(_ fields: Fields, lastPart: UInt64, erasedColumnCount: UInt32) {
        self.fields = fields
        self.lastPart = lastPart
        self.erasedColumnCount = erasedColumnCount
    }
}

/// An object's row as it was read.
struct StoredEntry {
    /// The object; nil for a tombstone.
    var object: StoredObject?
    var byteCount: Int
}

extension ObjectGraph {
    /// A stored object or tombstone; nil if there is no row, or everything is in memory.
    func storedEntry(of object: ObjectReference) throws(ApplyError) -> StoredEntry? {
        guard rows != nil, let source = source(of: RowAddress(object)), let row = try source.row() else { return nil }
        return try storedEntry(row, of: source)
    }

    /// The object of a row as it was read; nil if that is a tombstone.
    func storedObject(
        _ row: consuming [UInt8], at address: RowAddress
    ) throws(ApplyError) -> (key: PrimaryKey, fields: Fields)? {
        guard let source = source(of: address) else { return nil }
        let content = try source.check(row, at: address)
        guard let fields = try storedEntry(content, of: source).object?.fields else { return nil }
        guard let key = PrimaryKey(rowKey: address.key) else { throw .damaged("a row's key is none") }
        return (key, fields)
    }

    /// True if an object is stored.
    func isStored(_ object: ObjectReference) throws(ApplyError) -> Bool {
        guard rows != nil, let row = try source(of: RowAddress(object))?.row() else { return false }
        return row.first == RowTag.object.rawValue
    }

    fileprivate func storedEntry(_ row: [UInt8], of source: PartSource) throws(ApplyError) -> StoredEntry {
        let object = try source.decode(row) { decoder throws(ChangesetError) in try decoder.object() }
        return StoredEntry(object: object, byteCount: row.count)
    }

    /// Has the rows of the objects fetched that changesets are about, if that is quicker than one by one.
    package func fetchAhead(_ changesets: [ChangesetIndex], in arena: ChangesetArena) {
        guard let rows, rows.fetchesAhead else { return }
        var addresses: Set<RowAddress> = []
        for object in changesets.flatMap(arena.touchedObjects) {
            guard let classID = schema.number(of: object.className) else { continue }
            let reference = ObjectReference(classID: classID, key: object.key)
            if containsInMemory(reference) == nil { addresses.insert(RowAddress(reference)) }
        }
        rows.fetchAhead(Array(addresses))
    }

    /// Calls `body`, which applies changesets, with their objects fetched ahead.
    package mutating func fetchingAhead<Result>(
        _ changesets: [ChangesetIndex], of arena: inout ChangesetArena,
        _ body: (inout ObjectGraph, inout ChangesetArena) throws(ApplyError) -> Result
    ) throws(ApplyError) -> Result {
        guard let rows, rows.fetchesAhead else { return try body(&self, &arena) }
        var result = Swift.Result<Result, ApplyError>.failure(.unavailable("nothing was read"))
        do {
            try rows.readTogether {
                fetchAhead(changesets, in: arena)
                result = Swift.Result { () throws(ApplyError) in try body(&self, &arena) }
            }
        } catch {
            throw ApplyError(reading: error)
        }
        return try result.get()
    }

    /// The source of an object's rows; nil if everything is in memory.
    func source(of address: RowAddress) -> PartSource? {
        guard let rows else { return nil }
        let name = schema.contains(address.classID) ? schema[address.classID].name : []
        return PartSource(address, in: rows, className: name, reads: reads)
    }
}

/// Reads the stored objects of a class in the order of their keys, some rows at a time.
struct StoredObjects {
    static let batchCount = 64

    private let classID: ClassID
    private let graph: ObjectGraph
    private var batch: [(key: [UInt8], row: [UInt8])] = []
    /// The key after which the next batch begins.
    private var last: [UInt8]?
    private var position = 0
    private var isAtEnd = false

    /// - Parameter key: the first object's key is above this one.
    init(of classID: ClassID, after key: PrimaryKey? = nil, in graph: ObjectGraph) {
        self.classID = classID
        self.graph = graph
        last = key?.rowKey
    }

    /// The next object that is not a tombstone.
    mutating func next() throws(ApplyError) -> (key: PrimaryKey, fields: Fields)? {
        while true {
            while position < batch.count {
                let (key, row) = batch[position]
                position += 1
                guard let object = try graph.storedObject(row, at: RowAddress(classID: classID, key: key)) else {
                    continue
                }
                return object
            }
            guard let rows = graph.rows, !isAtEnd else { return nil }
            do {
                batch = try rows.objects(of: classID, after: last, limit: Self.batchCount)
            } catch {
                throw ApplyError(reading: error)
            }
            last = batch.last?.key
            position = 0
            isAtEnd = batch.count < Self.batchCount
        }
    }
}

/// Walks along the objects of a class in the order of their keys: those in memory, and those that are stored as they
/// are.
struct ObjectCursor {
    private var inMemory: TreeCursor<ObjectEntry>
    private var entry: ObjectEntry?
    private var stored: StoredObjects
    private var row: (key: PrimaryKey, fields: Fields)?
    private var isRowTaken = true

    /// - Parameter key: the first object's key is above this one.
    init(of classID: ClassID, after key: PrimaryKey? = nil, in graph: ObjectGraph) {
        let objects = graph.objects[Int(classID.rawValue) - 1]
        let found = key.map { key in objects.find { $0.compare(key) } }
        inMemory = TreeCursor(objects, from: found.map { $0.index + ($0.element == nil ? 0 : 1) } ?? 0)
        entry = inMemory.next()
        stored = StoredObjects(of: classID, after: key, in: graph)
    }

    /// The next object that exists. What is large in it is read when it is needed.
    mutating func next() throws(ApplyError) -> (key: PrimaryKey, fields: Fields)? {
        while true {
            if isRowTaken {
                row = try stored.next()
                isRowTaken = false
            }
            guard let entry, row.map({ entry.key <= $0.key }) ?? true else {
                isRowTaken = true
                return row
            }
            // What is in memory is newer than what is stored.
            isRowTaken = entry.key == row?.key
            self.entry = inMemory.next()
            if let fields = entry.fields { return (entry.key, fields) }
        }
    }
}
