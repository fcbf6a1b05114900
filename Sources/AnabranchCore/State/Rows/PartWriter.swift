/// What stands in the row of something else, and what becomes a part, in bytes.
struct PartLimits {
    /// A value, or a collection, that takes more than about this has rows of its own.
    var inlineBytesMax = 2_048
    /// A leaf with more becomes several, as far as it has several elements.
    var leafBytesMax = 8_192
}

/// Divides what an object holds into its own row and those of its parts: what is large, and trees of collections.
struct PartWriter {
    private let limits: PartLimits
    private let object: ObjectReference
    private let source: PartSource
    private(set) var lastPart: UInt64
    private var rows: [(part: UInt64, content: [UInt8])] = []
    /// Parts that were written anew, or stay as they are stored with everything below them.
    private var written: Set<UInt64> = []
    private var untouched: Set<UInt64> = []
    private var removed: [UInt64] = []
    private var backlinks: BacklinkTally
    /// Counts what leads from a leaf to somewhere else: links and parts.
    private var leadCount = 0

    init(of object: ObjectReference, in source: PartSource, after lastPart: UInt64, _ limits: PartLimits) {
        self.limits = limits
        self.object = object
        self.source = source
        self.lastPart = lastPart
        backlinks = BacklinkTally(from: object)
    }

    /// Makes parts of what is large and not stored yet.
    mutating func write(_ fields: Fields, in state: ClassState) -> Fields {
        var fields = fields
        for slot in fields.contents.indices {
            backlinks.slot = slot
            var content = state.hasColumn(slot) ? fields.contents[slot] : .null
            if write(&content) || !state.hasColumn(slot) { fields.contents[slot] = content }
        }
        return fields
    }

    /// Removes the parts that are left of what was stored before, and notes which links came and went.
    consuming func finish(replacing stored: Fields?, _ writes: inout RowWrites) throws(ApplyError) {
        for (slot, content) in (stored?.contents ?? []).enumerated() {
            backlinks.slot = slot
            try release(content)
        }
        for row in rows { writes.write(row.content, at: source.object.part(row.part)) }
        for part in removed { writes.removed.append(source.object.part(part)) }
        try backlinks.append(to: &writes, source.rows)
    }

    private mutating func add(_ content: [UInt8], as number: UInt64? = nil) -> UInt64 {
        if number == nil { lastPart += 1 }
        let number = number ?? lastPart
        rows.append((number, content))
        written.insert(number)
        return number
    }

    // MARK: What there is now

    /// - Returns: Whether something was replaced by a part.
    private mutating func write(_ content: inout Content) -> Bool {
        switch content {
        case .string(let bytes) where bytes.count > limits.inlineBytesMax: content = store(bytes, isText: true)
        case .binary(let bytes) where bytes.count > limits.inlineBytesMax: content = store(bytes, isText: false)
        case .stored(let value):
            untouched.insert(value.number)
            leadCount += 1
            return false
        case .link(let target):
            backlinks.add(target)
            leadCount += 1
            return false
        case .object(var fields):
            var isChanged = false
            for slot in fields.contents.indices {
                var inner = fields.contents[slot]
                if write(&inner) { (fields.contents[slot], isChanged) = (inner, true) }
            }
            if isChanged { content = .object(fields) }
            return isChanged
        case .list(var list):
            guard write(&list) else { return false }
            content = .list(list)
        case .set(var elements):
            guard write(&elements) else { return false }
            content = .set(elements)
        case .dictionary(var entries):
            guard write(&entries) else { return false }
            content = .dictionary(entries)
        default: return false
        }
        return true
    }

    private mutating func store(_ bytes: [UInt8], isText: Bool) -> Content {
        leadCount += 1
        return .stored(StoredValue(isText: isText, byteCount: bytes.count, number: add(bytes), source: source))
    }

    private mutating func write<Element: ContentElement>(_ tree: inout CountedTree<Element>) -> Bool {
        guard let root = tree.root else { return false }
        if var elements = tree.inlineElements(bytesMax: limits.inlineBytesMax) {
            var isChanged = root.stored != nil || !root.isLeaf
            for index in elements.indices {
                var content = elements[index].content
                if write(&content) { (elements[index].content, isChanged) = (content, true) }
            }
            if isChanged { tree = CountedTree(elements) }
            return isChanged
        }
        defer { leadCount += 1 }
        if root.isStored {
            keep(root)
            return false
        }
        var level = root.isLeaf ? write(leaf: root) : write(inner: root)
        while level.count > 1 { level = write(level, as: nil) }
        tree = CountedTree(root: level.first?.node)
        return true
    }

    // MARK: Nodes

    private mutating func keep<Element: ContentElement>(_ node: TreeNode<Element>) {
        if let stored = node.stored { untouched.insert(stored.number) }
        backlinks.isPartial = true
    }

    /// The nodes that stand for one that was changed: all are stored then.
    private mutating func write<Element: ContentElement>(
        inner node: TreeNode<Element>
    ) -> [TreeNode<Element>.Child] {
        var children: [TreeNode<Element>.Child] = []
        for child in node.allChildren {
            if child.node.isStored {
                keep(child.node)
                children.append(child)
            } else {
                children += child.node.isLeaf ? write(leaf: child.node) : write(inner: child.node)
            }
        }
        return write(children, as: node.stored?.number)
    }

    /// Inner nodes with these children; the first gets a number that was in use for the like.
    private mutating func write<Element: ContentElement>(
        _ children: [TreeNode<Element>.Child], as number: UInt64?
    ) -> [TreeNode<Element>.Child] {
        var number = number
        return TreeNode<Element>.groups(of: children).map { group in
            var encoder = RowEncoder()
            encoder.inner(group)
            let stored = StoredNode(
                number: add(encoder.bytes, as: number), source: source,
                count: group.reduce(0) { $0 + $1.node.count }, size: group.reduce(0) { $0 + $1.node.size },
                isLeaf: false, isPlain: group.allSatisfy { $0.node.stored?.isPlain ?? false })
            number = nil
            return TreeNode.Child(node: TreeNode(inner: group, as: stored), first: group[group.startIndex].first)
        }
    }

    /// The leaf, divided where it is too long for one row.
    private mutating func write<Element: ContentElement>(
        leaf node: TreeNode<Element>
    ) -> [TreeNode<Element>.Child] {
        var leaves: [TreeNode<Element>.Child] = []
        var elements: ContiguousArray<Element> = []
        var row = RowEncoder(), number = node.stored?.number
        var leadsBefore = leadCount
        for var element in node.elements {
            let leads = leadCount
            var content = element.content
            if write(&content) { element.content = content }
            var next = RowEncoder()
            next.element(element)
            if !elements.isEmpty, row.bytes.count + next.bytes.count > limits.leafBytesMax {
                leaves.append(leaf(elements, row, as: number, isPlain: leads == leadsBefore))
                (elements, row, number, leadsBefore) = ([], RowEncoder(), nil, leads)
            }
            elements.append(element)
            row.append(next)
        }
        leaves.append(leaf(elements, row, as: number, isPlain: leadCount == leadsBefore))
        return leaves
    }

    private mutating func leaf<Element: ContentElement>(
        _ elements: ContiguousArray<Element>, _ row: RowEncoder, as number: UInt64?, isPlain: Bool
    ) -> TreeNode<Element>.Child {
        let stored = StoredNode(
            number: add(row.bytes, as: number), source: source, count: elements.count,
            size: elements.reduce(0) { $0 + $1.size }, isLeaf: true, isPlain: isPlain)
        return TreeNode<Element>.Child(
            node: TreeNode(leaf: elements, as: stored), first: elements[0].separator)
    }

    // MARK: What there was before

    private mutating func release(_ content: Content) throws(ApplyError) {
        switch content {
        case .stored(let value): if !untouched.contains(value.number) { removed.append(value.number) }
        case .link(let target): backlinks.subtract(target)
        case .object(let fields): for inner in fields.contents { try release(inner) }
        case .list(let list): if let root = list.root { try release(root) }
        case .set(let elements): if let root = elements.root { try release(root) }
        case .dictionary(let entries): if let root = entries.root { try release(root) }
        default: break
        }
    }

    private mutating func release<Element: ContentElement>(_ node: TreeNode<Element>) throws(ApplyError) {
        if let stored = node.stored {
            guard !untouched.contains(stored.number) else { return }
            if !written.contains(stored.number) { removed.append(stored.number) }
            if stored.isLeaf, stored.isPlain { return }
        }
        let node = try node.loaded()
        for element in node.elements { try release(element.content) }
        for child in node.children { try release(child) }
    }
}

extension CountedTree where Element: ContentElement {
    /// The elements, if all are in memory and take little together where they are stored.
    fileprivate func inlineElements(bytesMax: Int) -> [Element]? {
        guard count * Content.itemBytes <= bytesMax else { return nil }
        var elements: [Element] = []
        var bytes = 0
        var waiting = root.map { [$0] } ?? []
        while let node = waiting.popLast() {
            guard node.isLoaded else { return nil }
            for element in node.elements {
                bytes += element.keyBytes + element.content.inlineBytes(max: bytesMax)
                guard bytes <= bytesMax else { return nil }
                elements.append(element)
            }
            waiting.append(contentsOf: node.children.reversed())
        }
        return elements
    }

    fileprivate func inlineBytes(max: Int) -> Int? {
        inlineElements(bytesMax: max)?.reduce(0) { $0 + $1.keyBytes + $1.content.inlineBytes(max: max) }
    }
}

extension Content {
    /// About what the content takes in the row of something else; where it is a part, the name of that. As deep as
    /// paths are long.
    fileprivate func inlineBytes(max: Int) -> Int {
        switch self {
        case .string(let bytes), .binary(let bytes): Self.itemBytes + (bytes.count > max ? 0 : bytes.count)
        case .stored: Self.itemBytes
        case .link(let object): Self.itemBytes + object.key.byteCount
        case .object(let fields): fields.contents.reduce(Self.itemBytes) { $0 + $1.inlineBytes(max: max) }
        case .list(let list): Self.itemBytes + (list.inlineBytes(max: max) ?? Self.itemBytes)
        case .set(let elements): Self.itemBytes + (elements.inlineBytes(max: max) ?? Self.itemBytes)
        case .dictionary(let entries): Self.itemBytes + (entries.inlineBytes(max: max) ?? Self.itemBytes)
        default: Self.itemBytes
        }
    }
}
