/// Where a state is stored, row by row (`Spec/State.md`, part D). An `ObjectGraph` reads objects from here when it
/// needs them; what it changes is written by `ObjectGraph.rowWrites(since:changes:)`.
///
/// All answers are as of the version that was stored last, so a graph that reads from here is not used beyond the next
/// one, unless this is itself a snapshot.
public protocol ObjectRows: Sendable {
    /// The bytes of a row; nil if there is none.
    func row(at address: RowAddress) throws -> [UInt8]?

    /// The rows of a class's objects, without the chunks of their lists, in ascending order of the keys' bytes.
    ///
    /// - Parameters:
    ///   - key: The first row's key is above this one; nil begins with the first one.
    ///   - limit: At most so many rows; fewer mean that there are no more.
    func objects(
        of classID: ClassID, after key: [UInt8]?, limit: Int
    ) throws -> [(key: [UInt8], row: [UInt8])]
}

/// The name of a row: the schema, an object, or a chunk of a long list of an object.
public struct RowAddress: Hashable, Sendable {
    /// 0 for the schema's row.
    public var classID: ClassID
    /// The object's primary key, as bytes that sort like keys; empty for the schema's row.
    public var key: [UInt8]
    /// 0 for the object itself. For a chunk of a list, the column's slot plus one times 2^32 plus the chunk's number.
    public var chunk: UInt64

    /// The address of a row; the default is that of an object itself.
    public init(classID: ClassID, key: [UInt8], chunk: UInt64 = 0) {
        self.classID = classID
        self.key = key
        self.chunk = chunk
    }

    static let schema = RowAddress(classID: ClassID(0), key: [])

    init(_ object: ObjectReference) { self.init(classID: object.classID, key: object.key.rowKey) }

    func chunk(_ number: UInt32, ofSlot slot: Int) -> RowAddress {
        RowAddress(classID: classID, key: key, chunk: UInt64(slot + 1) << 32 | UInt64(number))
    }
}

/// What a store writes, in one transaction with the log entry that made it so.
public struct RowWrites: Sendable {
    /// All rows of these classes go first.
    public internal(set) var erasedClasses: [ClassID] = []
    /// Rows to remove.
    public internal(set) var removed: [RowAddress] = []
    /// Added or replaced.
    public internal(set) var rows: [(address: RowAddress, bytes: [UInt8])] = []
}

extension ObjectGraph {
    /// The state that is stored in rows; without classes if nothing is.
    ///
    /// - Throws: `ApplyError` with the code `unavailable` when the rows cannot be read.
    public init(rows: any ObjectRows) throws(ApplyError) {
        guard let row = try rows.bytes(at: .schema) else {
            self.init(schema: Schema(), rows: rows)
            return
        }
        self.init(
            schema: try RowDecoder.decode(row) { decoder throws(ChangesetError) in try decoder.schema() }, rows: rows)
    }

    /// How many objects are in memory.
    public var loadedCount: Int { objects.reduce(0) { $0 + $1.count } }

    /// Forgets the objects in memory of a state whose changes are stored; they are read again when they are needed.
    public mutating func unload() {
        guard rows != nil else { return }
        for index in objects.indices { objects[index].removeAll() }
        loadedBytes = 0
    }

    /// The rows that turn the stored state into this one.
    ///
    /// - Parameters:
    ///   - stored: The state as it is stored, from which this one was made by `changes`.
    ///   - changes: Everything that was changed since.
    public func rowWrites(since stored: ObjectGraph, changes: StateChanges) throws(ApplyError) -> RowWrites {
        var writes = RowWrites(erasedClasses: changes.erasedClasses)
        if changes.isSchemaChanged {
            var encoder = RowEncoder()
            encoder.schema(schema)
            writes.rows.append((.schema, encoder.bytes))
        }
        for object in changes.distinctObjects {
            let chunks = stored.schema.contains(object.classID) ? try stored.storedChunks(of: object) : [:]
            append(object, replacing: chunks, with: try fields(of: object), &writes)
        }
        return writes
    }

    /// Where the chunks of a stored object's long lists are, with the leaves that they were made from, as far as those
    /// are in memory.
    private func storedChunks(
        of object: ObjectReference
    ) throws(ApplyError) -> [RowEncoder.ChunkPlace: TreeNode<ListElement>?] {
        guard schema[object.classID].columns.contains(where: { $0?.place.holdsList ?? true }) else { return [:] }
        let found = objects[Int(object.classID.rawValue) - 1].find { $0.compare(object.key) }
        if let entry = found.element {
            return entry.fields.map { RowEncoder.chunks(of: $0).mapValues { $0 } } ?? [:]
        }
        let places = try rows?.chunkPlaces(of: object) ?? []
        return Dictionary(places.map { ($0, nil) }, uniquingKeysWith: { $1 })
    }

    private func append(
        _ object: ObjectReference, replacing chunks: [RowEncoder.ChunkPlace: TreeNode<ListElement>?],
        with fields: Fields?, _ writes: inout RowWrites
    ) {
        let address = RowAddress(object)
        let state = schema[object.classID]
        var old = chunks
        var encoder = RowEncoder()
        if let fields {
            for (place, leaf) in RowEncoder.chunks(of: fields) where state.hasColumn(place.slot) {
                if let stored = old.removeValue(forKey: place), stored === leaf || leaf.isStored { continue }
                var chunk = RowEncoder()
                for element in leaf.elements { chunk.content(element.content) }
                writes.rows.append((address.chunk(place.number, ofSlot: place.slot), chunk.bytes))
            }
            encoder.object(fields, in: state)
            writes.rows.append((address, encoder.bytes))
        } else if state.linkingColumns.isEmpty {
            writes.removed.append(address)
        } else {
            encoder.tombstone()
            writes.rows.append((address, encoder.bytes))
        }
        for place in old.keys { writes.removed.append(address.chunk(place.number, ofSlot: place.slot)) }
    }
}

/// An object as it was read from its rows.
struct StoredEntry {
    /// Nil for a tombstone.
    var fields: Fields?
    /// Of its rows together.
    var byteCount: Int
}

extension ObjectRows {
    /// A row; an error of the store becomes an `ApplyError`.
    fileprivate func bytes(at address: RowAddress) throws(ApplyError) -> [UInt8]? {
        do { return try row(at: address) } catch { throw ApplyError(.unavailable, "\(error)") }
    }

    /// A stored object or tombstone; nil if there is no row.
    func entry(of object: ObjectReference, in schema: Schema) throws(ApplyError) -> StoredEntry? {
        let address = RowAddress(object)
        guard let row = try bytes(at: address) else { return nil }
        return try entry(row, at: address, in: schema)
    }

    /// Whether an object is stored; its lists are not read.
    func holds(_ object: ObjectReference) throws(ApplyError) -> Bool {
        guard let row = try bytes(at: RowAddress(object)) else { return false }
        switch row.first.flatMap(RowTag.init) {
        case .object: return true
        case .tombstone: return false
        default: throw ApplyError(.unavailable, "a row is damaged at byte 0")
        }
    }

    /// Where the chunks of a stored object's lists are.
    fileprivate func chunkPlaces(of object: ObjectReference) throws(ApplyError) -> [RowEncoder.ChunkPlace] {
        guard let row = try bytes(at: RowAddress(object)) else { return [] }
        let lists = try RowDecoder.decode(row) { decoder throws(ChangesetError) in try decoder.object().lists }
        return lists.flatMap { list in list.chunks.map { RowEncoder.ChunkPlace(slot: list.slot, number: $0) } }
    }

    /// What a row says that an object holds, with the chunks of its lists.
    fileprivate func entry(
        _ row: [UInt8], at address: RowAddress, in schema: Schema
    ) throws(ApplyError) -> StoredEntry {
        do {
            return try decodedEntry(row, at: address, in: schema)
        } catch {
            var error = error
            error.className = schema[address.classID].name
            error.object = PrimaryKey(rowKey: address.key)
            throw error
        }
    }

    private func decodedEntry(
        _ row: [UInt8], at address: RowAddress, in schema: Schema
    ) throws(ApplyError) -> StoredEntry {
        var (fields, lists) = try RowDecoder.decode(row) { decoder throws(ChangesetError) in try decoder.object() }
        var byteCount = row.count
        for list in lists where schema[address.classID].hasColumn(list.slot) {
            var leaves: [(number: UInt32, elements: ContiguousArray<ListElement>)] = []
            for number in list.chunks {
                guard let bytes = try bytes(at: address.chunk(number, ofSlot: list.slot)) else {
                    throw ApplyError(.unavailable, "a chunk of a list is missing")
                }
                byteCount += bytes.count
                let elements = try RowDecoder.decode(bytes) { decoder throws(ChangesetError) in try decoder.chunk() }
                leaves.append((number, elements))
            }
            fields?.contents[list.slot] = .list(ContentList(leaves: leaves))
        }
        guard fields.map({ schema.allows($0, in: address.classID) }) ?? true else {
            throw ApplyError(.unavailable, "a row does not fit its class")
        }
        return StoredEntry(fields: fields, byteCount: byteCount)
    }
}

/// Reads the stored objects of a class in the order of their keys, some rows at a time.
struct StoredObjects {
    private static let batchCount = 64

    private let classID: ClassID
    private let rows: any ObjectRows
    private let schema: Schema
    private var batch: [(key: [UInt8], row: [UInt8])] = []
    private var position = 0
    private var isAtEnd = false

    init(of classID: ClassID, in rows: any ObjectRows, schema: Schema) {
        self.classID = classID
        self.rows = rows
        self.schema = schema
    }

    /// The next object that is no tombstone.
    mutating func next() throws(ApplyError) -> (key: PrimaryKey, fields: Fields)? {
        while true {
            while position < batch.count {
                let (key, row) = batch[position]
                position += 1
                let address = RowAddress(classID: classID, key: key)
                guard let fields = try rows.entry(row, at: address, in: schema).fields else { continue }
                guard let key = PrimaryKey(rowKey: key) else {
                    throw ApplyError(.unavailable, "a row's key is damaged")
                }
                return (key, fields)
            }
            guard !isAtEnd else { return nil }
            do {
                batch = try rows.objects(of: classID, after: batch.last?.key, limit: Self.batchCount)
            } catch {
                throw ApplyError(.unavailable, "\(error)")
            }
            position = 0
            isAtEnd = batch.count < Self.batchCount
        }
    }
}
