/// Reads what `RowEncoder` writes, in the same order. A damaged row is an error, never a trap.
struct RowDecoder {
    private let row: [UInt8]
    private var reader: ByteReader
    private var depth = 0

    private init(_ row: [UInt8], _ bytes: UnsafeBufferPointer<UInt8>) {
        self.row = row
        reader = ByteReader(bytes)
    }

    static func decode<Result>(
        _ row: [UInt8], _ body: (inout RowDecoder) throws(ChangesetError) -> Result
    ) throws(ApplyError) -> Result {
        do throws(ChangesetError) {
            return try row.withUnsafeBufferPointer { bytes throws(ChangesetError) in
                var decoder = RowDecoder(row, bytes)
                let result = try body(&decoder)
                guard decoder.reader.isAtEnd else { throw decoder.damage() }
                return result
            }
        } catch {
            throw ApplyError(.unavailable, "a row is damaged at byte \(error.offset)")
        }
    }

    private func damage() -> ChangesetError { ChangesetError(.truncated, at: reader.offset, "a row is damaged") }

    private mutating func tag() throws(ChangesetError) -> RowTag {
        guard let tag = RowTag(rawValue: try reader.u8()) else { throw damage() }
        return tag
    }

    /// A count of items of a byte or more each.
    private mutating func count() throws(ChangesetError) -> Int {
        let count = try reader.u64()
        guard count <= UInt64(reader.remaining) else { throw damage() }
        return Int(count)
    }

    private mutating func counted() throws(ChangesetError) -> [UInt8] {
        Array(row[try reader.counted(atMost: .max)])
    }

    // MARK: row := tombstone | object

    /// A list of a column whose elements are in chunks.
    struct ChunkedList {
        var slot: Int
        var chunks: [UInt32]
    }

    mutating func object() throws(ChangesetError) -> (fields: Fields?, lists: [ChunkedList]) {
        switch try tag() {
        case .tombstone: return (nil, [])
        case .object: break
        default: throw damage()
        }
        var fields = Fields()
        var lists: [ChunkedList] = []
        for slot in 0..<(try count()) {
            let tag = try tag()
            if tag == .chunks {
                lists.append(ChunkedList(slot: slot, chunks: try directory()))
                fields.contents.append(.null)
            } else {
                fields.contents.append(try content(tag))
            }
        }
        return (fields, lists)
    }

    private mutating func directory() throws(ChangesetError) -> [UInt32] {
        var numbers: [UInt32] = []
        for _ in 0..<(try count()) { numbers.append(try reader.u32()) }
        guard !numbers.isEmpty else { throw damage() }
        return numbers
    }

    mutating func chunk() throws(ChangesetError) -> ContiguousArray<ListElement> {
        var elements: ContiguousArray<ListElement> = []
        while !reader.isAtEnd { elements.append(ListElement(content: try content(try tag()))) }
        guard 1...ListElement.leafCountMax ~= elements.count else { throw damage() }
        return elements
    }

    // MARK: content

    private mutating func content(_ tag: RowTag) throws(ChangesetError) -> Content {
        depth += 1
        defer { depth -= 1 }
        guard depth <= GraphEditor.pathCountMax + 2 else { throw damage() }
        switch tag {
        case .null: return .null
        case .int: return .int(try reader.i64())
        case .bool: return .bool(try reader.bool())
        case .string: return .string(try counted())
        case .binary: return .binary(try counted())
        case .timestamp:
            let (seconds, nanoseconds) = (try reader.i64(), try reader.i64())
            return .timestamp(Timestamp(seconds: seconds, nanoseconds: Int32(truncatingIfNeeded: nanoseconds)))
        case .float: return .float(Float(bitPattern: UInt32(truncatingIfNeeded: try reader.littleEndian(4))))
        case .double: return .double(Double(bitPattern: try reader.littleEndian(8)))
        case .decimal:
            let low = try reader.littleEndian(8)
            return .decimal(Decimal128(low: low, high: try reader.littleEndian(8)))
        case .objectID:
            let low = try reader.littleEndian(8)
            return .objectID(ObjectID(low: low, high: try reader.littleEndian(4)))
        case .uuid:
            let low = try reader.littleEndian(8)
            return .uuid(UUIDBytes(low: low, high: try reader.littleEndian(8)))
        case .link:
            let number = ClassID(try reader.u32())
            guard let key = PrimaryKey(rowKey: try counted()) else { throw damage() }
            return .link(ObjectReference(classID: number, key: key))
        case .object: return .object(Fields(contents: try contents()))
        case .list: return .list(ContentList(try contents().lazy.map { ListElement(content: $0) }))
        case .set: return .set(ContentSet(try contents().lazy.map { SetElement(content: $0) }))
        case .dictionary: return .dictionary(try dictionary())
        case .chunks, .tombstone, .schema: throw damage()
        }
    }

    private mutating func contents() throws(ChangesetError) -> [Content] {
        var contents: [Content] = []
        for _ in 0..<(try count()) { contents.append(try content(try tag())) }
        return contents
    }

    private mutating func dictionary() throws(ChangesetError) -> ContentDictionary {
        var entries = ContentDictionary()
        for _ in 0..<(try count()) {
            let key = try counted()
            entries.append(DictionaryEntry(key: key, content: try content(try tag())))
        }
        return entries
    }

    // MARK: schema

    mutating func schema() throws(ChangesetError) -> Schema {
        guard try tag() == .schema else { throw damage() }
        var schema = Schema()
        let count = try count()
        for index in 0..<count {
            let isErased = try reader.bool()
            schema.add(isErased ? .erased : try state(ClassID(UInt32(index + 1)), classCount: count))
        }
        return schema
    }

    private mutating func state(_ number: ClassID, classCount: Int) throws(ChangesetError) -> ClassState {
        let name = try counted()
        guard let kind = TableType(rawValue: try reader.u8()) else { throw damage() }
        var key: ClassState.KeyColumn?
        if try reader.bool() {
            key = ClassState.KeyColumn(name: try counted(), type: try type(), isNullable: try reader.bool())
        }
        var state = ClassState(name: name, kind: kind, key: key)
        state.nextGlobalKey = try reader.u64()
        for slot in 0..<(try count()) {
            state.add(try reader.bool() ? try column(number, slot, classCount: classCount) : nil)
        }
        for _ in 0..<(try count()) {
            let owner = ClassID(try reader.u32())
            state.add(Schema.LinkingColumn(owner: owner, slot: Int(try reader.u32())))
        }
        for _ in 0..<(try count()) { state.mixedLinkers.insert(ClassID(try reader.u32())) }
        return state
    }

    private mutating func column(
        _ owner: ClassID, _ slot: Int, classCount: Int
    ) throws(ChangesetError) -> Column {
        let name = try counted()
        let type = try type()
        let isNullable = try reader.bool()
        guard let collection = CollectionType(rawValue: try reader.u8()) else { throw damage() }
        let target = ClassID(try reader.u32())
        guard target.rawValue <= classCount, (target.rawValue > 0) == (type == .link) else { throw damage() }
        return Column(
            name: name,
            place: Place(
                owner: owner, slot: slot, type: type, isNullable: isNullable, collection: collection, target: target,
                isEmbedded: try reader.bool()))
    }

    private mutating func type() throws(ChangesetError) -> PayloadType {
        guard let code = Int8(exactly: try reader.i64()), let type = PayloadType(rawValue: code) else { throw damage() }
        return type
    }
}

extension Schema {
    /// Whether an object of a class can hold this. As deep as paths are long.
    func allows(_ fields: Fields, in classID: ClassID) -> Bool {
        let columns = self[classID].columns
        guard fields.contents.count <= columns.count else { return false }
        return zip(fields.contents, columns).allSatisfy { content, column in
            column.map { allows(content, at: $0.place) } ?? true
        }
    }

    private func allows(_ content: Content, at place: Place) -> Bool {
        switch content {
        case .null: return place.collection == .single
        case .link(let object):
            guard place.collection == .single, contains(object.classID) else { return false }
            return place.isMixed || place.type == .link && !place.isEmbedded && place.target == object.classID
        case .object(let fields):
            return place.collection == .single && place.isEmbedded && allows(fields, in: place.target)
        case .list(let list):
            guard place.holdsList else { return false }
            return list.allSatisfy { allows($0.content, at: place.element) }
        case .dictionary(let entries):
            guard place.collection == .dictionary || place.collection == .single && place.isMixed else { return false }
            return entries.allSatisfy { allows($0.content, at: place.element) }
        case .set(let elements):
            return place.collection == .set && elements.allSatisfy { allows($0.content, at: place.element) }
        default: return place.collection == .single && (place.isMixed || place.type == content.scalarType)
        }
    }
}
