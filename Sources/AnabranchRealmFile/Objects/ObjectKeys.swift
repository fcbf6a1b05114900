import AnabranchCore

/// The keys of the objects of a class, in little memory: there can be millions. Texts stay in the file.
struct ObjectKeys {
    private enum Kind {
        /// Embedded objects have no keys.
        case none
        /// The keys follow from the numbers.
        case globalKeys(clientFileIdent: UInt64)
        case ints, texts, objectIDs, uuids
    }

    private let kind: Kind
    private var ints: [Int64] = []
    /// All identifiers, one after the other.
    private var bytes: [UInt8] = []
    /// The texts, with the position of the first of each leaf.
    private var texts: [(first: Int, leaf: StringLeaf)] = []
    /// The positions whose key is null. The values at these positions mean nothing.
    private var nulls: Set<Int> = []

    init(of table: Table, clientFileIdent: UInt64) {
        kind =
            switch table.keyColumn?.type {
            case nil where table.kind == .embedded: .none
            case nil: .globalKeys(clientFileIdent: clientFileIdent)
            case .int: .ints
            case .objectID: .objectIDs
            case .uuid: .uuids
            default: .texts
            }
    }

    /// - Parameter first: the position of the first object of the leaf, after all that have been appended.
    mutating func append(_ leaf: any ColumnLeaf, at first: Int) {
        if case .texts = kind {
            if let leaf = leaf as? StringLeaf { texts.append((first, leaf)) }
            return
        }
        for index in 0..<leaf.count { append(leaf.element(at: index), at: first + index) }
    }

    private mutating func append(_ element: Element, at position: Int) {
        var payload = Payload.null
        if case .value(let value) = element { payload = value }
        if payload == .null { nulls.insert(position) }
        switch kind {
        case .none, .globalKeys, .texts: break
        case .ints: if case .int(let value) = payload { ints.append(value) } else { ints.append(0) }
        case .objectIDs:
            if case .objectID(let value) = payload {
                bytes += value.bytes
            } else {
                bytes += repeatElement(0, count: 12)
            }
        case .uuids:
            if case .uuid(let value) = payload { bytes += value.bytes } else { bytes += repeatElement(0, count: 16) }
        }
    }

    /// - Parameter number: the number of the object at the position.
    func key(at position: Int, number: Int64) -> PrimaryKey {
        guard nulls.isEmpty || !nulls.contains(position) else { return .null }
        return switch kind {
        case .none: .null
        case .globalKeys(let ident): .globalKey(GlobalKey(objectNumber: number, clientFileIdent: ident))
        case .ints: .int(ints[position])
        case .texts: text(position).map(PrimaryKey.string) ?? .null
        case .objectIDs: ObjectID(bytes[12 * position..<12 * (position + 1)]).map(PrimaryKey.objectID) ?? .null
        case .uuids: UUIDBytes(bytes[16 * position..<16 * (position + 1)]).map(PrimaryKey.uuid) ?? .null
        }
    }

    private func text(_ position: Int) -> [UInt8]? {
        let (first, leaf) = texts[texts.partition { $0.first > position } - 1]
        return leaf.bytes(at: position - first)
    }

    /// A number that is greater or equal for a greater key: most keys are told apart by it.
    func prefix(at position: Int, number: Int64) -> UInt64 {
        switch key(at: position, number: number) {
        case .null: 0
        case .int(let value): UInt64(bitPattern: value) ^ 1 << 63
        case .string(let text): Self.number(text)
        case .globalKey(let value): value.high
        case .objectID(let value): Self.number(value.bytes)
        case .uuid(let value): Self.number(value.bytes)
        }
    }

    /// The first eight bytes, the highest first.
    private static func number(_ bytes: some Sequence<UInt8>) -> UInt64 {
        var number: UInt64 = 0, shift: UInt64 = 64
        for byte in bytes.prefix(8) {
            shift -= 8
            number |= UInt64(byte) << shift
        }
        return number
    }
}

extension GlobalKey {
    /// The key that an object without a primary key has (`Spec/RealmFile.md`, section 2.4). A high part of 0 stands for
    /// the file that made the object.
    init(objectNumber number: Int64, clientFileIdent: UInt64) {
        let bits = UInt64(bitPattern: number <= -2 ? -2 &- number : number)
        let high = (bits & 0xFF00) >> 8 | (bits & 0xFFFF_FF00_0000_0000) >> 32
        let low = bits & 0xFF | (bits & 0xFF_FFFF_0000) >> 8
        self.init(high: high == 0 ? clientFileIdent : high, low: low)
    }
}
