import AnabranchCore

/// Strings in one of their four forms, which the header of the array states. They are bytes: nothing ensures UTF-8.
struct StringLeaf: ColumnLeaf {
    private enum Form {
        case short(ArrayNode)
        /// With a zero byte after each string.
        case binaries(BinaryLeaf)
        /// By their places among the values of the column.
        case enumerated(ArrayNode, [[UInt8]?])
    }

    let count: Int
    private let form: Form

    /// - Parameter values: the values of an enumerated column.
    init(_ node: ArrayNode, values: [[UInt8]?]? = nil, in reading: FileReading) throws(RealmFileError) {
        if node.hasRefs {
            let binaries = try BinaryLeaf(node, in: reading)
            for index in 0..<binaries.count where binaries.byteCount(at: index) != nil {
                guard binaries.lastByte(at: index) == 0 else {
                    throw .damaged(at: node.ref, "a string without a zero byte at its end")
                }
            }
            (form, count) = (.binaries(binaries), binaries.count)
        } else if node.kind == .bytes {
            try Self.checkBlocks(of: node)
            (form, count) = (.short(node), node.count)
        } else {
            let values = try Self.checkIndices(in: node, of: values)
            (form, count) = (.enumerated(node, values), node.count)
        }
    }

    /// Checks the last byte of each block, which states how many bytes of the block the string leaves unused.
    private static func checkBlocks(of node: ArrayNode) throws(RealmFileError) {
        guard node.width > 0 || node.count <= RealmFileLimits.emptyElementsMax else {
            throw .damaged(at: node.ref, "\(node.count) strings that take no bytes")
        }
        guard node.width > 0 else { return }
        for index in 0..<node.count {
            let end = (index + 1) * node.width
            guard Int(node.bytes(end - 1..<end)[0]) <= node.width else {
                throw .damaged(at: node.ref, "a string that ends before it begins")
            }
        }
    }

    private static func checkIndices(in node: ArrayNode, of values: [[UInt8]?]?) throws(RealmFileError) -> [[UInt8]?] {
        guard node.count > 0 || values != nil else { return [] }
        guard let values else { throw .damaged(at: node.ref, "enumerated strings of a column without values") }
        try node.requireIntegers()
        for index in 0..<node.count {
            let place = node.integer(at: index)
            guard place >= 0, place < values.count else {
                throw .damaged(at: node.ref, "string \(place) of \(values.count) that the column has")
            }
        }
        return values
    }

    /// Short strings that are names: null reads as the empty one.
    static func names(_ ref: Int64, in reading: FileReading) throws(RealmFileError) -> [[UInt8]] {
        let node = try reading.array(ref)
        guard !node.hasRefs, node.kind == .bytes || node.count == 0 else {
            throw .damaged(at: node.ref, "names that are no short strings")
        }
        let leaf = try StringLeaf(node, in: reading)
        return (0..<leaf.count).map { leaf.bytes(at: $0) ?? [] }
    }

    /// All strings, each in memory of its own.
    var values: [[UInt8]?] { (0..<count).map { bytes(at: $0) } }

    func bytes(at index: Int) -> [UInt8]? {
        switch form {
        case .short(let node): Self.short(node, index).map { Array($0) }
        case .binaries(let leaf): leaf.bytes(at: index, droppingLast: 1)
        case .enumerated(let node, let values): values[Int(node.integer(at: index))]
        }
    }

    private static func short(_ node: ArrayNode, _ index: Int) -> UnsafeRawBufferPointer? {
        guard node.width > 0 else { return nil }
        let start = index * node.width, unused = Int(node.bytes(start..<start + node.width)[node.width - 1])
        return unused < node.width ? node.bytes(start..<start + node.width - 1 - unused) : nil
    }

    /// The bytes that a string takes; nil for null.
    func byteCount(at index: Int) -> Int? {
        switch form {
        case .short(let node): Self.short(node, index)?.count
        case .binaries(let leaf): leaf.byteCount(at: index).map { $0 - 1 }
        case .enumerated(let node, let values): values[Int(node.integer(at: index))]?.count
        }
    }

    func element(at index: Int) -> Element { .value(bytes(at: index).map(Payload.string) ?? .null) }
}
