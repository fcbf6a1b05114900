extension Content {
    /// The size of a value, an element or an entry without its own bytes, in bytes.
    static var itemBytes: Int { 8 }

    /// The approximate stored size of the content, in bytes, which `GraphEditor.objectBytesMax` limits. Recurses as
    /// deep as paths are long.
    var size: Int {
        switch self {
        case .string(let bytes), .binary(let bytes): Self.itemBytes + bytes.count
        case .link(let object): Self.itemBytes + object.key.byteCount
        case .stored(let value): Self.itemBytes + value.byteCount
        case .object(let fields): Self.itemBytes + fields.size
        case .list(let list): Self.itemBytes + list.size
        case .set(let elements): Self.itemBytes + elements.size
        case .dictionary(let entries): Self.itemBytes + entries.size
        default: Self.itemBytes
        }
    }
}

extension ListElement {
    var size: Int { content.size }
}

extension SetElement {
    var size: Int { content.size }
}

extension DictionaryEntry {
    var size: Int { key.count + content.size }
}

extension Fields {
    /// The size of all contents together, in bytes.
    var size: Int { contents.reduce(0) { $0 + $1.size } }
}

extension PrimaryKey {
    var byteCount: Int { if case .string(let text) = self { text.count } else { 0 } }
}

extension Edit {
    /// The most that the initial values of the columns of two classes add to an object.
    static var initialBytesMax: Int { 2 * 16 * ClassState.slotCountMax }

    /// The most that an edit can add to an object: its value, a name, and the initial values of columns that the object
    /// does not have yet, its own and those of an embedded object. No other object on the path gets some: no path leads
    /// through an initial value.
    func growthMax(along path: ArraySlice<PathStep>) -> Int {
        let name = if case .name(let bytes)? = path.last { bytes.count } else { 0 }
        let value =
            switch self {
            case .update(.string(let bytes)), .update(.binary(let bytes)): bytes.count
            case .insert(.string(let bytes), _), .insert(.binary(let bytes), _): bytes.count
            case .setInsert(.string(let bytes)), .setInsert(.binary(let bytes)): bytes.count
            case .update(.link(_, let key)), .insert(.link(_, let key), _), .setInsert(.link(_, let key)): key.byteCount
            default: 0
            }
        return Self.initialBytesMax + name + value
    }
}
