import AnabranchCore

/// The keys of the objects of a class, in little memory: there can be millions.
struct ObjectKeys {
    private enum Kind {
        /// Embedded objects have none.
        case none
        /// They follow from the numbers.
        case globalKeys(clientFileIdent: UInt64)
        case ints, strings, objectIDs, uuids
    }

    private let kind: Kind
    private var ints: [Int64] = []
    /// All texts or identifiers, one behind the other.
    private var bytes: [UInt8] = []
    /// Of the texts.
    private var ends: [Int] = []
    /// The positions whose key is null. What stands at them means nothing.
    private var nulls: Set<Int> = []

    init(of table: Table, clientFileIdent: UInt64) {
        kind =
            switch table.keyColumn?.type {
            case nil where table.kind == .embedded: .none
            case nil: .globalKeys(clientFileIdent: clientFileIdent)
            case .int: .ints
            case .objectID: .objectIDs
            case .uuid: .uuids
            default: .strings
            }
    }

    /// - Parameter position: that of the object, behind all that have been appended.
    mutating func append(_ element: Element, at position: Int) {
        var payload = Payload.null
        if case .value(let value) = element { payload = value }
        if payload == .null { nulls.insert(position) }
        switch kind {
        case .none, .globalKeys: break
        case .ints: if case .int(let value) = payload { ints.append(value) } else { ints.append(0) }
        case .strings:
            if case .string(let text) = payload { bytes += text }
            ends.append(bytes.count)
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

    /// - Parameter number: that of the object at the position.
    func key(at position: Int, number: Int64) -> PrimaryKey {
        guard nulls.isEmpty || !nulls.contains(position) else { return .null }
        return switch kind {
        case .none: .null
        case .globalKeys(let ident): .globalKey(GlobalKey(objectNumber: number, clientFileIdent: ident))
        case .ints: .int(ints[position])
        case .strings: .string(Array(text(position)))
        case .objectIDs: ObjectID(bytes[12 * position..<12 * (position + 1)]).map(PrimaryKey.objectID) ?? .null
        case .uuids: UUIDBytes(bytes[16 * position..<16 * (position + 1)]).map(PrimaryKey.uuid) ?? .null
        }
    }

    private func text(_ position: Int) -> ArraySlice<UInt8> {
        bytes[(position == 0 ? 0 : ends[position - 1])..<ends[position]]
    }

    /// The order of two positions, whose numbers are given with them.
    func precedes(_ left: (position: Int, number: Int64), _ right: (position: Int, number: Int64)) -> Bool {
        if nulls.isEmpty {
            if case .ints = kind { return ints[left.position] < ints[right.position] }
            if case .strings = kind { return text(left.position).lexicographicallyPrecedes(text(right.position)) }
        }
        return key(at: left.position, number: left.number) < key(at: right.position, number: right.number)
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
