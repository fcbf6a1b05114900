import AnabranchCore

/// A column with a name, as its key describes it (`Spec/RealmFile.md`, section 2).
final class Column {
    /// The types of columns by their numbers in the file.
    private static let types: [Int: PayloadType] = [
        0: .int, 1: .bool, 2: .string, 4: .binary, 6: .null, 8: .timestamp, 9: .float, 10: .double, 11: .decimal,
        12: .link, 15: .objectID, 17: .uuid,
    ]
    private static let listOfLinks = 13
    private static let backlink = 14
    private static let keyTypeString = 2

    let name: [UInt8]
    /// The name as the beginning of a member of JSON.
    let label: [UInt8]
    let key: Int64
    /// The type of the values or elements; `null` is Mixed.
    let type: PayloadType
    let isNullable: Bool
    let collection: CollectionType
    /// True if the keys of a dictionary are strings.
    let hasStringKeys: Bool
    /// The number of the table that links lead to; nil where the table does not state it.
    let target: Int64?
    /// The possible strings of an enumerated column.
    let values: [[UInt8]?]?

    /// The place of the column in the leaves.
    var slot: Int { Self.slot(key) }
    var isMixed: Bool { type == .null }

    static func slot(_ key: Int64) -> Int { Int(key & 0xFFFF) }
    static func type(_ key: Int64) -> Int { Int(key >> 16 & 0x3F) }
    /// Backlinks are columns without a name.
    static func isBacklink(_ key: Int64) -> Bool { type(key) == backlink }

    /// - Parameter declared: the type according to the spec, and the type of a dictionary's keys.
    init(
        name: [UInt8], key: Int64, declared: Int64, target: Int64?, values: [[UInt8]?]?
    ) throws(RealmFileError) {
        let number = Self.type(key), attributes = key >> 22 & 0xFF
        guard let type = number == Self.listOfLinks ? .link : Self.types[number] else {
            throw .damaged("the property \(String(excerptOf: name)) is of type \(number), which there is not")
        }
        let kinds: [(bit: Int64, CollectionType)] = [(32, .list), (64, .dictionary), (128, .set)]
        let collections = kinds.filter { attributes & $0.bit != 0 || $0.1 == .list && number == Self.listOfLinks }
        guard collections.count <= 1 else {
            throw .damaged("the property \(String(excerptOf: name)) is more than one collection")
        }
        (self.name, self.key, self.type, self.target, self.values) = (name, key, type, target, values)
        label = JSONText.label(name)
        isNullable = attributes & 16 != 0
        collection = collections.first?.1 ?? .single
        hasStringKeys = declared >> 16 == Self.keyTypeString
    }

    // MARK: Values

    /// The values of the objects of a leaf.
    func leaf(of cluster: FileReading.Cluster, in reading: FileReading) throws(RealmFileError) -> any ColumnLeaf {
        guard let ref = cluster.ref(ofSlot: slot) else {
            throw .damaged(at: cluster.place, "the leaf has no slot \(slot)")
        }
        let leaf = try leaf(try reading.array(ref), in: reading)
        guard leaf.count == cluster.count else {
            throw .damaged(at: Int(ref), "\(leaf.count) values for \(cluster.count) objects")
        }
        return leaf
    }

    private func leaf(_ node: ArrayNode, in reading: FileReading) throws(RealmFileError) -> any ColumnLeaf {
        guard collection == .single else { return try CollectionLeaf(node) }
        guard type != .link else { return try LinkLeaf(node, to: target, isOptional: true) }
        return try valueLeaf(node, in: reading)
    }

    /// Some elements of a list or set.
    func elementLeaf(_ node: ArrayNode, in reading: FileReading) throws(RealmFileError) -> AnyLeaf {
        guard type != .link else { return AnyLeaf(try LinkLeaf(node, to: target, isOptional: false)) }
        return AnyLeaf(try valueLeaf(node, in: reading))
    }

    private func valueLeaf(_ node: ArrayNode, in reading: FileReading) throws(RealmFileError) -> any ColumnLeaf {
        switch type {
        case .int: isNullable ? try OptionalIntegerLeaf(node) : try IntegerLeaf(node)
        case .bool: try BoolLeaf(node)
        case .string: try StringLeaf(node, values: values, in: reading)
        case .binary: try BinaryLeaf(node, in: reading)
        case .timestamp: try TimestampLeaf(node, in: reading)
        case .float: try FloatingPointLeaf(node, isDouble: false)
        case .double: try FloatingPointLeaf(node, isDouble: true)
        case .decimal: try DecimalLeaf(node, in: reading)
        case .objectID: try IdentifierLeaf(node, isUUID: false)
        case .uuid: try IdentifierLeaf(node, isUUID: true)
        default: try MixedLeaf(node, in: reading)
        }
    }

    /// True if null may stand here; for a dictionary, as one of its values.
    var takesNull: Bool { isNullable || isMixed || type == .link }

    /// True if a value can stand in a dictionary of this column.
    func takes(_ element: Element) -> Bool {
        switch element {
        case .value(let payload): isMixed || payload.type == type || payload == .null && takesNull
        case .link(let link): isMixed || type == .link && (link.table == nil || link.table == target)
        case .list, .dictionary, .collection: isMixed
        }
    }
}

/// A leaf of any type.
struct AnyLeaf: ColumnLeaf {
    private let leaf: any ColumnLeaf

    init(_ leaf: any ColumnLeaf) { self.leaf = leaf }

    var count: Int { leaf.count }
    func element(at index: Int) -> Element { leaf.element(at: index) }
}
