/// Reads what `RowEncoder` writes, in the same order. A damaged row is an error, never a trap.
struct RowDecoder {
    private let bytes: UnsafeBufferPointer<UInt8>
    private let source: PartSource
    private var reader: ByteReader
    private var depth = 0

    private init(_ bytes: UnsafeBufferPointer<UInt8>, _ source: PartSource) {
        self.bytes = bytes
        self.source = source
        reader = ByteReader(bytes)
    }

    static func decode<Result>(
        _ row: [UInt8], of source: PartSource, _ body: (inout RowDecoder) throws(ChangesetError) -> Result
    ) throws(ChangesetError) -> Result {
        try row.withUnsafeBufferPointer { bytes throws(ChangesetError) in
            var decoder = RowDecoder(bytes, source)
            let result = try body(&decoder)
            guard decoder.reader.isAtEnd else { throw decoder.damage() }
            return result
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

    mutating func counted() throws(ChangesetError) -> [UInt8] { Array(bytes[try reader.counted(atMost: .max)]) }

    // MARK: row := tombstone | object

    mutating func object() throws(ChangesetError) -> StoredObject? {
        switch try tag() {
        case .tombstone: return nil
        case .object:
            let lastPart = try reader.u64(), erasedColumnCount = try reader.u32()
            return StoredObject(
                Fields(contents: try contents()), lastPart: lastPart, erasedColumnCount: erasedColumnCount)
        default: throw damage()
        }
    }

    /// The value in one slot of an object's row, if it lies in the row; nothing else of the row is decoded.
    /// - Returns: nil if the row has to be decoded to know.
    static func value(
        in slot: Int, of row: UnsafeBufferPointer<UInt8>, _ source: PartSource
    ) throws(ChangesetError) -> Content? {
        var decoder = RowDecoder(row, source)
        guard try decoder.tag() == .object else { return nil }
        _ = (try decoder.reader.u64(), try decoder.reader.u32())
        guard slot < (try decoder.count()) else { return nil }
        for _ in 0..<slot { guard try decoder.skip() else { return nil } }
        var wanted = decoder
        return try decoder.skip() ? try wanted.content() : nil
    }

    /// Passes over a value.
    /// - Returns: false if the bytes are not a value, or it ends outside the row.
    private mutating func skip() throws(ChangesetError) -> Bool {
        switch try tag() {
        case .null: break
        case .int: _ = try reader.i64()
        case .bool: _ = try reader.bool()
        case .string, .binary: _ = try reader.counted(atMost: .max)
        case .timestamp: _ = (try reader.i64(), try reader.i64())
        case .float: _ = try reader.littleEndian(4)
        case .double: _ = try reader.littleEndian(8)
        case .decimal, .uuid: _ = (try reader.littleEndian(8), try reader.littleEndian(8))
        case .objectID: _ = (try reader.littleEndian(8), try reader.littleEndian(4))
        case .link: _ = (try reader.u32(), try reader.counted(atMost: .max))
        default: return false
        }
        return true
    }

    // MARK: part := value | leaf | inner

    mutating func node<Element: ContentElement>(
        _ stored: StoredNode<PartSource>
    ) throws(ChangesetError) -> TreeNode<Element> {
        let node: TreeNode<Element>
        if stored.isLeaf {
            var elements: ContiguousArray<Element> = []
            elements.reserveCapacity(min(stored.count, Element.leafCountMax) + 1)
            while !reader.isAtEnd { elements.append(try Element.read(from: &self)) }
            guard !elements.isEmpty else { throw damage() }
            node = TreeNode(leaf: elements, as: stored)
        } else {
            node = TreeNode(inner: try children()[...], as: stored)
        }
        guard node.count == stored.count else { throw damage() }
        return node
    }

    private mutating func children<Element: ContentElement>() throws(ChangesetError) -> [TreeNode<Element>.Child] {
        var children: [TreeNode<Element>.Child] = []
        for _ in 0..<(try count()) {
            let node = TreeNode<Element>(try reference())
            children.append(TreeNode.Child(node: node, first: try Element.readSeparator(from: &self)))
        }
        guard children.count > 1 else { throw damage() }
        return children
    }

    private mutating func reference() throws(ChangesetError) -> StoredNode<PartSource> {
        let number = try reader.u64(), count = try reader.u64(), size = try reader.u64(), kind = try reader.u8()
        guard count > 0, count <= 1 << 40, size <= 1 << 60, kind < 4 else { throw damage() }
        return StoredNode(
            number: number, source: source, count: Int(count), size: Int(size), isLeaf: kind & 1 > 0,
            isPlain: kind & 2 > 0)
    }

    // MARK: link := count

    mutating func linkCount() throws(ChangesetError) -> Int { Int(truncatingIfNeeded: try reader.u64()) }

    // MARK: content

    mutating func content() throws(ChangesetError) -> Content {
        let tag = try tag()
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
        case .embedded: return .object(Fields(contents: try contents()))
        case .list: return .list(CountedTree(try elements()))
        case .set: return .set(CountedTree(try elements()))
        case .dictionary: return .dictionary(CountedTree(try elements()))
        case .storedString: return .stored(try value(isText: true))
        case .storedBinary: return .stored(try value(isText: false))
        case .storedList: return .list(CountedTree(root: TreeNode(try reference())))
        case .storedSet: return .set(CountedTree(root: TreeNode(try reference())))
        case .storedDictionary: return .dictionary(CountedTree(root: TreeNode(try reference())))
        case .rootOfList: return .list(CountedTree(root: TreeNode(root: try children()[...])))
        case .rootOfSet: return .set(CountedTree(root: TreeNode(root: try children()[...])))
        case .rootOfDictionary: return .dictionary(CountedTree(root: TreeNode(root: try children()[...])))
        case .object, .tombstone, .schema: throw damage()
        }
    }

    private mutating func value(isText: Bool) throws(ChangesetError) -> StoredValue {
        let number = try reader.u64(), byteCount = try reader.u64()
        guard byteCount <= 1 << 40 else { throw damage() }
        return StoredValue(isText: isText, byteCount: Int(byteCount), number: number, source: source)
    }

    private mutating func contents() throws(ChangesetError) -> [Content] {
        var contents: [Content] = []
        for _ in 0..<(try count()) { contents.append(try content()) }
        return contents
    }

    private mutating func elements<Element: ContentElement>() throws(ChangesetError) -> [Element] {
        var elements: [Element] = []
        for _ in 0..<(try count()) { elements.append(try Element.read(from: &self)) }
        return elements
    }

    // MARK: schema

    mutating func schema() throws(ChangesetError) -> Schema {
        guard try tag() == .schema else { throw damage() }
        var schema = Schema(erasedColumnCount: try reader.u32())
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

extension ListElement {
    static func read(from row: inout RowDecoder) throws(ChangesetError) -> ListElement {
        ListElement(content: try row.content())
    }

    static func readSeparator(from row: inout RowDecoder) -> NoSeparator { NoSeparator() }
}

extension SetElement {
    static func read(from row: inout RowDecoder) throws(ChangesetError) -> SetElement {
        SetElement(content: try row.content())
    }

    static func readSeparator(from row: inout RowDecoder) throws(ChangesetError) -> Content { try row.content() }
}

extension DictionaryEntry {
    static func read(from row: inout RowDecoder) throws(ChangesetError) -> DictionaryEntry {
        DictionaryEntry(key: try row.counted(), content: try row.content())
    }

    static func readSeparator(from row: inout RowDecoder) throws(ChangesetError) -> [UInt8] { try row.counted() }
}
