/// Divides what an object holds into its own row and those of its parts: what is large, and trees of collections.
struct PartWriter {
    private let limits: PartLimits
    /// The limit for inline values, in bytes: that of `limits`, or less within an object that holds much.
    private var inlineBytesMax: Int
    private let source: PartSource
    private(set) var lastPart: UInt64
    private var rows: [(part: UInt64, content: [UInt8])] = []
    /// Parts that were written, and those that stay as they are stored with everything below them.
    private var written: Set<UInt64> = []
    private var untouched: Set<UInt64> = []
    private var removal: RowRemoval
    private var backlinks: BacklinkTally
    private var sizes = InlineSizes()
    /// Counts what leads from a leaf to somewhere else: links and parts.
    private var leadCount = 0

    init(of object: ObjectReference, in source: PartSource, after lastPart: UInt64, _ limits: PartLimits) {
        self.limits = limits
        inlineBytesMax = limits.inlineBytesMax
        removal = RowRemoval(object: object)
        self.source = source
        self.lastPart = lastPart
        backlinks = BacklinkTally(from: object)
    }

    /// Makes parts of large values that are not stored yet.
    mutating func write(_ fields: Fields, in state: ClassState) -> Fields {
        var fields = fields
        for slot in fields.contents.indices where !state.hasColumn(slot) { fields.contents[slot] = .null }
        _ = write(&fields, beginning: { writer, slot in writer.backlinks.slot = slot })
        return fields
    }

    /// Records which links came and went.
    /// - Returns: The parts that are left of what was stored before, and the rows of links.
    consuming func finish(replacing stored: Fields?, _ writes: inout RowWrites) throws(ApplyError) -> RowRemoval {
        for (slot, content) in (stored?.contents ?? []).enumerated() {
            backlinks.slot = slot
            try release(content)
        }
        for row in rows { writes.write(row.content, at: source.object.part(row.part)) }
        writes.lookCount += sizes.lookCount
        try backlinks.append(to: &writes, &removal, source.rows)
        return removal
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
        case .string(let bytes) where bytes.count > inlineBytesMax: content = store(bytes, isText: true)
        case .binary(let bytes) where bytes.count > inlineBytesMax: content = store(bytes, isText: false)
        case .stored(let value):
            untouched.insert(value.number)
            leadCount += 1
            return false
        case .link(let target):
            backlinks.add(target)
            leadCount += 1
            return false
        case .object(var fields):
            guard write(&fields, beginning: { _, _ in }) else { return false }
            content = .object(fields)
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

    /// The contents of an object; `begin` is called before each.
    private mutating func write(_ fields: inout Fields, beginning begin: (inout PartWriter, Int) -> Void) -> Bool {
        let inlineBytesMaxOutside = inlineBytesMax
        defer { inlineBytesMax = inlineBytesMaxOutside }
        let bytesMax = limits.objectBytesMax
        while inlineBytesMax > Content.itemBytes,
            sizes.bytes(of: fields, max: inlineBytesMax, limit: bytesMax) > bytesMax
        {
            inlineBytesMax /= 2
        }
        var changed: [(slot: Int, content: Content)] = []
        for (slot, var content) in fields.contents.enumerated() {
            begin(&self, slot)
            if write(&content) { changed.append((slot, content)) }
        }
        // A loop that writes to the fields would copy all of them first, even if it then changes nothing.
        for (slot, content) in changed { fields.contents[slot] = content }
        return !changed.isEmpty
    }

    private mutating func store(_ bytes: [UInt8], isText: Bool) -> Content {
        leadCount += 1
        return .stored(StoredValue(isText: isText, byteCount: bytes.count, number: add(bytes), source: source))
    }

    private mutating func write<Element: ContentElement>(_ tree: inout CountedTree<Element>) -> Bool {
        guard let root = tree.root else { return false }
        if root.isStored {
            leadCount += 1
            keep(root)
            return false
        }
        if sizes.bytes(of: root, max: inlineBytesMax) != nil {
            var elements = tree.loadedElements
            var isChanged = root.stored != nil || !root.isLeaf
            for index in elements.indices {
                var content = elements[index].content
                if write(&content) { (elements[index].content, isChanged) = (content, true) }
            }
            if isChanged { tree = CountedTree(elements) }
            return isChanged
        }
        defer { leadCount += 1 }
        var level = root.isLeaf ? write(leaf: root) : writeChildren(of: root)
        var number = root.isLeaf ? nil : root.stored?.number
        while level.count > 1, !isRoot(level) {
            level = write(level, as: number)
            number = nil
        }
        tree = CountedTree(root: level.count > 1 ? TreeNode(root: level[...]) : level.first?.node)
        return true
    }

    // MARK: Nodes

    private mutating func keep<Element: ContentElement>(_ node: TreeNode<Element>) {
        backlinks.isPartial = true
        guard let stored = node.stored else {
            for child in node.children { keep(child) }
            return
        }
        untouched.insert(stored.number)
    }

    /// True if these can be the children of a root that stands in the row of something else.
    private func isRoot<Element: ContentElement>(_ children: [TreeNode<Element>.Child]) -> Bool {
        children.count <= TreeNode<Element>.childrenMax
            && RowEncoder.byteCount(ofInner: children[...]) <= inlineBytesMax / PartLimits.rootsInline
    }

    /// The nodes that take the place of the children of a changed one, all of them stored.
    private mutating func writeChildren<Element: ContentElement>(
        of node: TreeNode<Element>
    ) -> [TreeNode<Element>.Child] {
        var children: [TreeNode<Element>.Child] = []
        for child in node.allChildren {
            if child.node.isStored {
                keep(child.node)
                children.append(child)
            } else {
                let node = child.node
                children += node.isLeaf ? write(leaf: node) : write(writeChildren(of: node), as: node.stored?.number)
            }
        }
        return children
    }

    /// Inner nodes with these children; the first one reuses `number`, which an inner node had before.
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
        let inlineBytesMaxOutside = inlineBytesMax
        inlineBytesMax = limits.inlineBytesMax
        defer { inlineBytesMax = inlineBytesMaxOutside }
        var elements = node.elements
        var row = RowEncoder()
        // Where elements end in the row, and what they lead to.
        var ends = [0], leads = [leadCount]
        for index in elements.indices {
            var content = elements[index].content
            if write(&content) { elements[index].content = content }
            row.element(elements[index])
            ends.append(row.bytes.count)
            leads.append(leadCount)
        }
        var number = node.stored?.number
        return leaves(endingAt: ends).map { range in
            let bytes = Array(row.bytes[ends[range.lowerBound]..<ends[range.upperBound]])
            let isPlain = leads[range.lowerBound] == leads[range.upperBound]
            defer { number = nil }
            return leaf(ContiguousArray(elements[range]), bytes, as: number, isPlain: isPlain)
        }
    }

    /// The elements of each leaf, as ranges of indices: all leaves hold about the same amount, so that growth in one
    /// place leaves no small ones behind.
    private func leaves(endingAt ends: [Int]) -> [Range<Int>] {
        let bytes = ends[ends.count - 1]
        let count = (bytes + limits.leafBytesMax - 1) / limits.leafBytesMax
        let evenly = (bytes + count - 1) / count
        var leaves: [Range<Int>] = []
        var first = 0
        for index in 1..<ends.count - 1 {
            let isFull = ends[index] - ends[first] >= evenly || ends[index + 1] - ends[first] > limits.leafBytesMax
            if isFull {
                leaves.append(first..<index)
                first = index
            }
        }
        return leaves + [first..<ends.count - 1]
    }

    private mutating func leaf<Element: ContentElement>(
        _ elements: ContiguousArray<Element>, _ row: [UInt8], as number: UInt64?, isPlain: Bool
    ) -> TreeNode<Element>.Child {
        let stored = StoredNode(
            number: add(row, as: number), source: source, count: elements.count,
            size: elements.reduce(0) { $0 + $1.size }, isLeaf: true, isPlain: isPlain)
        return TreeNode<Element>.Child(
            node: TreeNode(leaf: elements, as: stored), first: elements[0].separator)
    }

    // MARK: What there was before

    private mutating func release(_ content: Content) throws(ApplyError) {
        switch content {
        case .stored(let value): if !untouched.contains(value.number) { removal.parts.append(value.number) }
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
            if !written.contains(stored.number) { removal.parts.append(stored.number) }
            if stored.isLeaf, stored.isPlain { return }
        }
        let node = try node.loaded()
        for element in node.elements { try release(element.content) }
        for child in node.children { try release(child) }
    }
}
