/// Writes rows (`Spec/State.md`, part D): integers, texts and numbers as in changesets.
struct RowEncoder {
    private var writer = ByteWriter()

    var bytes: [UInt8] { writer.bytes }

    // MARK: row := tombstone | object

    mutating func tombstone() { writer.write(small: RowTag.tombstone.rawValue) }

    mutating func object(_ fields: Fields, lastPart: UInt64, erasedColumnCount: UInt32) {
        writer.write(small: RowTag.object.rawValue)
        writer.write(lastPart)
        writer.write(erasedColumnCount)
        contents(fields)
    }

    // MARK: part := value | leaf | inner

    mutating func element(_ element: some ContentElement) { element.write(to: &self) }

    mutating func inner<Element: ContentElement>(_ children: ArraySlice<TreeNode<Element>.Child>) {
        writer.write(UInt64(children.count))
        for child in children {
            if let stored = child.node.stored { reference(to: stored) }
            Element.write(child.first, to: &self)
        }
    }

    static func byteCount<Element: ContentElement>(ofInner children: ArraySlice<TreeNode<Element>.Child>) -> Int {
        var encoder = RowEncoder()
        encoder.inner(children)
        return encoder.bytes.count
    }

    private mutating func reference(to node: StoredNode<PartSource>) {
        writer.write(node.number)
        writer.write(UInt64(node.count))
        writer.write(UInt64(node.size))
        writer.write(small: (node.isLeaf ? 1 : 0) | (node.isPlain ? 2 : 0))
    }

    // MARK: link := count

    mutating func linkCount(_ count: Int) { writer.write(UInt64(count)) }

    // MARK: content

    /// Recurses as deep as paths are long.
    mutating func content(_ content: Content) {
        writer.write(small: content.rowTag.rawValue)
        switch content {
        case .null: break
        case .int(let value): writer.write(value)
        case .bool(let value): writer.write(value)
        case .string(let bytes), .binary(let bytes): writer.write(counted: bytes)
        case .timestamp(let value):
            writer.write(value.seconds)
            writer.write(Int64(value.nanoseconds))
        case .float(let value): writer.write(littleEndian: UInt64(value.bitPattern), count: 4)
        case .double(let value): writer.write(littleEndian: value.bitPattern, count: 8)
        case .decimal(let value):
            writer.write(littleEndian: value.low, count: 8)
            writer.write(littleEndian: value.high, count: 8)
        case .objectID(let value): writer.write(raw: value.bytes)
        case .uuid(let value): writer.write(raw: value.bytes)
        case .link(let object):
            writer.write(object.classID.rawValue)
            writer.write(counted: object.key.rowKey)
        case .object(let fields): contents(fields)
        case .list(let list): tree(list)
        case .set(let elements): tree(elements)
        case .dictionary(let entries): tree(entries)
        case .stored(let value):
            writer.write(value.number)
            writer.write(UInt64(value.byteCount))
        }
    }

    private mutating func contents(_ fields: Fields) {
        writer.write(UInt64(fields.contents.count))
        for content in fields.contents { self.content(content) }
    }

    /// The root of a tree in parts, or where that is; all elements of a tree that is small.
    private mutating func tree(_ tree: CountedTree<some ContentElement>) {
        if let root = tree.root, root.isStoredWithOwner { return inner(root.allChildren[...]) }
        if let root = tree.root?.stored { return reference(to: root) }
        writer.write(UInt64(tree.count))
        for element in tree.loadedElements { element.write(to: &self) }
    }

    mutating func key(_ key: [UInt8]) { writer.write(counted: key) }

    // MARK: schema

    mutating func schema(_ schema: Schema) {
        writer.write(small: RowTag.schema.rawValue)
        writer.write(schema.erasedColumnCount)
        writer.write(UInt64(schema.classes.count))
        for state in schema.classes {
            writer.write(state.isErased)
            if !state.isErased { self.state(state) }
        }
    }

    private mutating func state(_ state: ClassState) {
        writer.write(counted: state.name)
        writer.write(small: state.kind.rawValue)
        writer.write(state.key != nil)
        if let key = state.key {
            writer.write(counted: key.name)
            writer.write(key.type)
            writer.write(key.isNullable)
        }
        writer.write(state.nextGlobalKey)
        writer.write(UInt64(state.columns.count))
        for column in state.columns {
            writer.write(column != nil)
            if let column { self.column(column) }
        }
        writer.write(UInt64(state.linkingColumns.count))
        for linking in state.linkingColumns {
            writer.write(linking.owner.rawValue)
            writer.write(UInt32(truncatingIfNeeded: linking.slot))
        }
        writer.write(UInt64(state.mixedLinkers.count))
        for number in state.mixedLinkers.sorted() { writer.write(number.rawValue) }
    }

    private mutating func column(_ column: Column) {
        writer.write(counted: column.name)
        writer.write(column.place.type)
        writer.write(column.place.isNullable)
        writer.write(small: column.place.collection.rawValue)
        writer.write(column.place.target.rawValue)
        writer.write(column.place.isEmbedded)
    }
}

/// The first byte of a row or of a content in it.
enum RowTag: UInt8 {
    case null = 0
    case int, bool, string, binary, timestamp, float, double, decimal, objectID, uuid, link
    case embedded, list, dictionary, set
    /// Contents that are in parts: a value, or the tree of a collection.
    case storedString
    /// A row of its own begins with one of these.
    case object, tombstone, schema
    case storedBinary, storedList, storedDictionary, storedSet
    /// The root of the tree of a collection.
    case rootOfList, rootOfDictionary, rootOfSet
}

extension Content {
    fileprivate var rowTag: RowTag {
        switch self {
        case .null: .null
        case .int: .int
        case .bool: .bool
        case .string: .string
        case .binary: .binary
        case .timestamp: .timestamp
        case .float: .float
        case .double: .double
        case .decimal: .decimal
        case .objectID: .objectID
        case .uuid: .uuid
        case .link: .link
        case .object: .embedded
        case .list(let list): list.rowTag(.list, .storedList, .rootOfList)
        case .dictionary(let entries): entries.rowTag(.dictionary, .storedDictionary, .rootOfDictionary)
        case .set(let elements): elements.rowTag(.set, .storedSet, .rootOfSet)
        case .stored(let value): value.isText ? .storedString : .storedBinary
        }
    }
}

extension CountedTree where Element: ContentElement {
    fileprivate func rowTag(_ small: RowTag, _ stored: RowTag, _ withRoot: RowTag) -> RowTag {
        root?.isStoredWithOwner ?? false ? withRoot : root?.stored == nil ? small : stored
    }
}

extension ListElement {
    func write(to row: inout RowEncoder) { row.content(content) }
    static func write(_ separator: NoSeparator, to row: inout RowEncoder) {}
}

extension SetElement {
    func write(to row: inout RowEncoder) { row.content(content) }
    static func write(_ separator: Content, to row: inout RowEncoder) { row.content(separator) }
}

extension DictionaryEntry {
    func write(to row: inout RowEncoder) {
        row.key(key)
        row.content(content)
    }

    static func write(_ separator: [UInt8], to row: inout RowEncoder) { row.key(separator) }
}

extension ClassState {
    func hasColumn(_ slot: Int) -> Bool { slot < columns.count && columns[slot] != nil }
}

extension PrimaryKey {
    /// The key as bytes that sort like keys: its type's place, then the value, integers with the highest byte first.
    package var rowKey: [UInt8] {
        switch self {
        case .null: [rank]
        case .int(let value): [rank] + bigEndian(UInt64(bitPattern: value) ^ 1 << 63)
        case .string(let text): [rank] + text
        case .globalKey(let key): [rank] + bigEndian(key.high) + bigEndian(key.low)
        case .objectID(let value): [rank] + value.bytes
        case .uuid(let value): [rank] + value.bytes
        }
    }

    /// The key that has these bytes; nil if none has.
    package init?(rowKey: [UInt8]) {
        let body = rowKey.dropFirst()
        switch rowKey.first {
        case 0 where body.isEmpty: self = .null
        case 1 where body.count == 8: self = .int(Int64(bitPattern: word(body) ^ 1 << 63))
        case 2: self = .string(Array(body))
        case 3 where body.count == 16:
            self = .globalKey(GlobalKey(high: word(body.prefix(8)), low: word(body.suffix(8))))
        case 4:
            guard let value = ObjectID(body) else { return nil }
            self = .objectID(value)
        case 5:
            guard let value = UUIDBytes(body) else { return nil }
            self = .uuid(value)
        default: return nil
        }
    }
}

private func bigEndian(_ value: UInt64) -> [UInt8] {
    (0..<8).map { UInt8(truncatingIfNeeded: value >> UInt64(56 - 8 * $0)) }
}

func word(_ bytes: ArraySlice<UInt8>) -> UInt64 { bytes.reduce(0) { $0 << 8 | UInt64($1) } }
