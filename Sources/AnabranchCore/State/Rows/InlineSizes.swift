/// The approximate bytes that contents would take in the row of something else, found without reading anything. Each
/// collection is looked through once for each `max`, however deep it stands.
struct InlineSizes {
    private struct Question: Hashable {
        /// The root of a collection that stays in memory for as long as this is used.
        let root: ObjectIdentifier
        let max: Int
    }

    private var answers: [Question: Int?] = [:]
    private(set) var lookCount = 0

    /// The bytes that the elements of a collection that is not stored take; nil if they take more than `max` together,
    /// or not all of them are in memory.
    mutating func bytes<Element: ContentElement>(of root: TreeNode<Element>, max: Int) -> Int? {
        guard root.count * Content.itemBytes <= max else { return nil }
        let question = Question(root: ObjectIdentifier(root), max: max)
        if let answer = answers[question] { return answer }
        let answer = sum(of: root, max: max)
        answers.updateValue(answer, forKey: question)
        return answer
    }

    private mutating func sum<Element: ContentElement>(of root: TreeNode<Element>, max: Int) -> Int? {
        var bytes = 0
        var waiting = [root]
        while let node = waiting.popLast() {
            guard node.isLoaded else { return nil }
            for element in node.elements {
                bytes += element.keyBytes
                bytes += self.bytes(of: element.content, max: max, limit: max - bytes)
                guard bytes <= max else { return nil }
            }
            waiting.append(contentsOf: node.children)
        }
        return bytes
    }

    /// The bytes that the contents of an object take; if that is more than `limit`, any number above it. Recurses as
    /// deep as paths are long.
    mutating func bytes(of fields: Fields, max: Int, limit: Int) -> Int {
        var bytes = 0
        for content in fields.contents {
            bytes += self.bytes(of: content, max: max, limit: limit - bytes)
            guard bytes <= limit else { break }
        }
        return bytes
    }

    /// The bytes that one content takes; for a part, those of its name.
    private mutating func bytes(of content: Content, max: Int, limit: Int) -> Int {
        lookCount += 1
        let inside =
            switch content {
            case .string(let bytes), .binary(let bytes): bytes.count > max ? 0 : bytes.count
            case .link(let object): object.key.byteCount
            case .object(let fields): bytes(of: fields, max: max, limit: limit - Content.itemBytes)
            case .list(let list): bytes(of: list, max: max)
            case .set(let elements): bytes(of: elements, max: max)
            case .dictionary(let entries): bytes(of: entries, max: max)
            default: 0
            }
        return Content.itemBytes + inside
    }

    private mutating func bytes(of tree: CountedTree<some ContentElement>, max: Int) -> Int {
        guard let root = tree.root else { return 0 }
        if root.isStoredWithOwner { return RowEncoder.byteCount(ofInner: root.allChildren[...]) }
        return root.isStored ? Content.itemBytes : bytes(of: root, max: max) ?? max / PartLimits.rootsInline
    }
}
