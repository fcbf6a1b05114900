/// What stands in the row of something else, and what becomes a part, in bytes.
struct PartLimits {
    /// A value, or a collection, that takes more than about this has rows of its own.
    var inlineBytesMax = 2_048
    /// A leaf with more becomes several, as far as it has several elements.
    var leafBytesMax = 8_192
    /// Of an object that would take more, also smaller values and collections have rows of their own.
    var objectBytesMax = 16_384
    /// The root of a tree stands in the row of something else if so many would take no more there than a value may.
    static let rootsInline = 4
}

// What contents would take in the row of something else, if nothing is read for it.

extension CountedTree where Element: ContentElement {
    /// About what the elements take in the row of something else, if all are in memory and take little together.
    func inlineBytes(max: Int) -> Int? {
        guard count * Content.itemBytes <= max else { return nil }
        var bytes = 0
        var waiting = root.map { [$0] } ?? []
        while let node = waiting.popLast() {
            guard node.isLoaded else { return nil }
            for element in node.elements {
                bytes += element.keyBytes + element.content.inlineBytes(max: max)
                guard bytes <= max else { return nil }
            }
            waiting.append(contentsOf: node.children)
        }
        return bytes
    }

    /// About what the root of a tree in parts takes in the row of something else.
    func rootBytes(max: Int) -> Int {
        guard let root, root.isStored else { return max / PartLimits.rootsInline }
        return root.isStoredWithOwner ? RowEncoder.byteCount(ofInner: root.allChildren[...]) : Content.itemBytes
    }
}

extension Content {
    /// About what the content takes in the row of something else; where it is a part, the name of that. As deep as
    /// paths are long.
    func inlineBytes(max: Int) -> Int {
        switch self {
        case .string(let bytes), .binary(let bytes): Self.itemBytes + (bytes.count > max ? 0 : bytes.count)
        case .stored: Self.itemBytes
        case .link(let object): Self.itemBytes + object.key.byteCount
        case .object(let fields): Self.itemBytes + fields.inlineBytes(max: max)
        case .list(let list): Self.itemBytes + (list.inlineBytes(max: max) ?? list.rootBytes(max: max))
        case .set(let elements): Self.itemBytes + (elements.inlineBytes(max: max) ?? elements.rootBytes(max: max))
        case .dictionary(let entries): Self.itemBytes + (entries.inlineBytes(max: max) ?? entries.rootBytes(max: max))
        default: Self.itemBytes
        }
    }
}

extension Fields {
    func inlineBytes(max: Int) -> Int { contents.reduce(0) { $0 + $1.inlineBytes(max: max) } }
}
