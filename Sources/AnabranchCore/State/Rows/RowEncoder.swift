/// Writes rows (`Spec/State.md`, part D): integers, texts and numbers as in changesets.
struct RowEncoder {
    /// Lists of columns with more elements are stored in chunks, one for each leaf of their tree.
    static let inlineCountMax = 512

    private var writer = ByteWriter()

    var bytes: [UInt8] { writer.bytes }

    /// Where the chunks of an object's long lists are.
    struct ChunkPlace: Hashable {
        var slot: Int
        var number: UInt32
    }

    /// The chunks of an object's long lists, also of those in erased columns.
    static func chunks(of fields: Fields) -> [ChunkPlace: TreeNode<ListElement>] {
        var chunks: [ChunkPlace: TreeNode<ListElement>] = [:]
        for (slot, content) in fields.contents.enumerated() {
            guard case .list(let list) = content, list.count > inlineCountMax else { continue }
            list.forEachLeaf { chunks[ChunkPlace(slot: slot, number: $0.number)] = $0 }
        }
        return chunks
    }

    // MARK: row := tombstone | object

    mutating func tombstone() { writer.write(small: RowTag.tombstone.rawValue) }

    mutating func object(_ fields: Fields, in state: ClassState) {
        writer.write(small: RowTag.object.rawValue)
        writer.write(UInt64(fields.contents.count))
        for (slot, content) in fields.contents.enumerated() {
            if !state.hasColumn(slot) {
                self.content(.null)
            } else if case .list(let list) = content, list.count > Self.inlineCountMax {
                directory(of: list)
            } else {
                self.content(content)
            }
        }
    }

    private mutating func directory(of list: ContentList) {
        var numbers: [UInt32] = []
        list.forEachLeaf { numbers.append($0.number) }
        writer.write(small: RowTag.chunks.rawValue)
        writer.write(UInt64(numbers.count))
        for number in numbers { writer.write(number) }
    }

    // MARK: content

    /// As deep as paths are long.
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
        case .object(let fields): contents(fields.contents.count, fields.contents)
        case .list(let list): contents(list.count, list.lazy.map(\.content))
        case .set(let elements): contents(elements.count, elements.lazy.map(\.content))
        case .dictionary(let entries):
            writer.write(UInt64(entries.count))
            for entry in entries {
                writer.write(counted: entry.key)
                self.content(entry.content)
            }
        }
    }

    private mutating func contents(_ count: Int, _ contents: some Sequence<Content>) {
        writer.write(UInt64(count))
        for content in contents { self.content(content) }
    }

    // MARK: schema

    mutating func schema(_ schema: Schema) {
        writer.write(small: RowTag.schema.rawValue)
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
    case object, list, dictionary, set
    /// A list whose elements are in chunks.
    case chunks
    case tombstone
    case schema
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
        case .object: .object
        case .list: .list
        case .dictionary: .dictionary
        case .set: .set
        }
    }
}

extension ClassState {
    func hasColumn(_ slot: Int) -> Bool { slot < columns.count && columns[slot] != nil }
}

extension PrimaryKey {
    /// The key as bytes that sort like keys: its type's place, then the value, integers with the highest byte first.
    var rowKey: [UInt8] {
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
    init?(rowKey: [UInt8]) {
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

private func word(_ bytes: ArraySlice<UInt8>) -> UInt64 { bytes.reduce(0) { $0 << 8 | UInt64($1) } }
