/// A stored node, with everything that is known about it without reading it.
package final class StoredNode<Source: Sendable>: Sendable {
    /// The number of the node among the parts of its object, from 1.
    let number: UInt64
    /// The source that the node is read from.
    let source: Source
    /// The number of elements in the node and those below it.
    let count: Int
    /// The size of these elements together, in bytes.
    let size: Int
    let isLeaf: Bool
    /// True if no element is a link or leads to other parts: a search for these need not read the node.
    let isPlain: Bool

    init(number: UInt64, source: Source, count: Int, size: Int, isLeaf: Bool, isPlain: Bool) {
        self.number = number
        self.source = source
        self.count = count
        self.size = size
        self.isLeaf = isLeaf
        self.isPlain = isPlain
    }
}

/// A leaf with elements, an inner node with two or more children, or a node that is not in memory and has neither.
package final class TreeNode<Element: TreeElement> {
    static var childrenMax: Int { 32 }

    // Exclusive by construction: only the one tree that refers to a node changes it. Checked at run time, 20,000
    // inserts at random places of a list, in one transaction, take a quarter more instructions (callgrind).
    @exclusivity(unchecked) var elements: ContiguousArray<Element> = []
    @exclusivity(unchecked) private(set) var children: ContiguousArray<TreeNode> = []
    /// The number of elements in each child; `firsts` has the separators of their first elements.
    @exclusivity(unchecked) private(set) var counts: ContiguousArray<Int> = []
    @exclusivity(unchecked) private(set) var firsts: ContiguousArray<Element.Separator> = []
    @exclusivity(unchecked) private(set) var count = 0
    /// The node as it was stored last; nil if it never was, or has no place of its own.
    let stored: StoredNode<Element.Source>?
    /// True while the node is unchanged since it was stored.
    @exclusivity(unchecked) var isStored: Bool
    let isLoaded: Bool

    /// A child, and where it begins.
    struct Child {
        let node: TreeNode
        let first: Element.Separator
    }

    init(leaf elements: ContiguousArray<Element>, as stored: StoredNode<Element.Source>? = nil) {
        self.elements = elements
        self.stored = stored
        isStored = stored != nil
        isLoaded = true
        count = elements.count
    }

    init(inner children: ArraySlice<Child>, as stored: StoredNode<Element.Source>? = nil) {
        self.children = ContiguousArray(children.map(\.node))
        self.stored = stored
        isStored = stored != nil
        isLoaded = true
        counts = ContiguousArray(children.map(\.node.count))
        firsts = ContiguousArray(children.map(\.first))
        count = counts.reduce(0, +)
    }

    /// A root that is stored with the owner of the tree; its children are stored.
    convenience init(root children: ArraySlice<Child>) {
        self.init(inner: children)
        isStored = true
    }

    /// A node that is read when it is needed.
    init(_ stored: StoredNode<Element.Source>) {
        self.stored = stored
        isStored = true
        isLoaded = false
        count = stored.count
    }

    private init(copyOf node: TreeNode) {
        (elements, children) = (node.elements, node.children)
        (counts, firsts, count) = (node.counts, node.firsts, node.count)
        (stored, isStored, isLoaded) = (node.stored, false, true)
    }

    /// The right part of an inner node.
    private init(inner node: TreeNode, from middle: Int) {
        children = ContiguousArray(node.children[middle...])
        counts = ContiguousArray(node.counts[middle...])
        firsts = ContiguousArray(node.firsts[middle...])
        (stored, isStored, isLoaded) = (nil, false, true)
        count = counts.reduce(0, +)
    }

    /// Divides nodes evenly, so that none is an only child.
    static func groups(of children: [Child]) -> [ArraySlice<Child>] {
        let count = (children.count + childrenMax - 1) / childrenMax
        return (0..<count).map { children[$0 * children.count / count..<($0 + 1) * children.count / count] }
    }

    // Only for a node in memory.
    var isLeaf: Bool { children.isEmpty }
    var first: Element.Separator { isLeaf ? elements[0].separator : firsts[0] }
    var isStoredWithOwner: Bool { isStored && stored == nil }
    var allChildren: [Child] { zip(children, firsts).map { Child(node: $0, first: $1) } }

    /// The size of all elements together, in bytes.
    var size: Int {
        if isStored, let stored { return stored.size }
        return elements.reduce(0) { $0 + $1.size } + children.reduce(0) { $0 + $1.size }
    }

    private var isSmall: Bool {
        isLeaf ? elements.count < Element.leafCountMax / 4 : children.count < Self.childrenMax / 4
    }

    // MARK: Reading

    @inline(__always)
    func loaded() throws(Element.Failure) -> TreeNode { isLoaded ? self : try read(isKept: false) }

    /// A copy of the node, in memory, that nothing else refers to.
    func changeable() throws(Element.Failure) -> TreeNode {
        isLoaded ? TreeNode(copyOf: self) : try read(isKept: true)
    }

    private func read(isKept: Bool) throws(Element.Failure) -> TreeNode {
        guard let stored else { return self }
        return try Element.node(stored, isKept: isKept)
    }

    /// The child that holds the element at `offset`, which becomes the offset in that child. The last holds the end.
    @inline(__always)
    func child(holding offset: inout Int) -> Int {
        counts.withUnsafeBufferPointer { counts in
            var child = 0
            while child + 4 < counts.count {
                let four = counts[child] + counts[child + 1] + counts[child + 2] + counts[child + 3]
                if offset < four { break }
                offset -= four
                child += 4
            }
            while child < counts.count - 1, offset >= counts[child] {
                offset -= counts[child]
                child += 1
            }
            return child
        }
    }

    @inline(__always)
    func uniqueChild(_ child: Int) throws(Element.Failure) -> TreeNode {
        if !isKnownUniquelyReferenced(&children[child]) || !children[child].isLoaded {
            children[child] = try children[child].changeable()
        }
        let node = children[child]
        node.isStored = false
        return node
    }

    // MARK: Inserting

    /// Counts an element that is about to be inserted at `offset`, which becomes the offset in the child that is
    /// returned.
    @inline(__always)
    func countInsertion(at offset: inout Int) throws(Element.Failure) -> TreeNode {
        let position = child(holding: &offset)
        let node = try uniqueChild(position)
        counts[position] += 1
        count += 1
        return node
    }

    /// Takes that back, in this node and those below it that have counted.
    func uncountInsertion(at index: Int, _ depth: Int) {
        var node = self, offset = index
        for _ in 0..<depth {
            let position = node.child(holding: &offset)
            node.counts[position] -= 1
            node.count -= 1
            node = node.children[position]
        }
    }

    /// Inserts into a leaf, not as its first element; false if it has no room.
    @inline(__always)
    func insertInMiddle(_ element: Element, at offset: Int) -> Bool {
        guard elements.count < Element.leafCountMax else { return false }
        elements.insert(element, at: offset)
        count += 1
        return true
    }

    /// Inserts and returns a new right sibling if the node had to be split.
    func insert(_ element: Element, at index: Int) throws(Element.Failure) -> TreeNode? {
        guard !isLeaf else {
            count += 1
            elements.insert(element, at: index)
            guard elements.count > Element.leafCountMax else { return nil }
            // A tree that grows at its end gets full leaves.
            return split(index == elements.count - 1 ? index : elements.count / 2)
        }
        var offset = index
        let position = child(holding: &offset)
        let sibling = try uniqueChild(position).insert(element, at: offset)
        count += 1
        refresh(position)
        guard let sibling else { return nil }
        return adopt(sibling, at: position + 1)
    }

    private func adopt(_ child: TreeNode, at position: Int) -> TreeNode? {
        children.insert(child, at: position)
        counts.insert(child.count, at: position)
        firsts.insert(child.first, at: position)
        return children.count > Self.childrenMax ? split(children.count / 2) : nil
    }

    /// Inserts elements one after the other and returns the new right siblings, in order, if the node had to be split.
    func insert(
        _ count: Int, at index: Int, _ element: (Int) -> Element
    ) throws(Element.Failure) -> ContiguousArray<TreeNode> {
        guard !isLeaf else { return splice(count, at: index, element) }
        var offset = index
        let position = child(holding: &offset)
        let siblings = try uniqueChild(position).insert(count, at: offset, element)
        self.count += count
        refresh(position)
        guard !siblings.isEmpty else { return [] }
        children.insert(contentsOf: siblings, at: position + 1)
        counts.insert(contentsOf: siblings.map(\.count), at: position + 1)
        firsts.insert(contentsOf: siblings.map(\.first), at: position + 1)
        guard children.count > Self.childrenMax else { return [] }
        let groups = Self.groups(of: allChildren), kept = groups[0].count
        children.removeLast(children.count - kept)
        counts.removeLast(counts.count - kept)
        firsts.removeLast(firsts.count - kept)
        self.count = counts.reduce(0, +)
        return ContiguousArray(groups.dropFirst().map { TreeNode(inner: $0) })
    }

    /// The same for a leaf: the leaves become full, and the last one is joined with the elements after the place.
    private func splice(_ added: Int, at index: Int, _ element: (Int) -> Element) -> ContiguousArray<TreeNode> {
        let max = Element.leafCountMax, later = elements.count - index
        var next = 0
        guard elements.count + added > max else {
            elements.insert(contentsOf: (0..<added).map(element), at: index)
            count = elements.count
            return []
        }
        var rest = ContiguousArray<Element>()
        rest.reserveCapacity(max + 1)
        rest.append(contentsOf: elements[index...])
        elements.removeLast(later)
        var leaves: ContiguousArray<TreeNode> = []
        func fill(_ leaf: inout ContiguousArray<Element>) {
            let end = Swift.min(added, next + max - leaf.count)
            while next < end {
                leaf.append(element(next))
                next += 1
            }
        }
        elements.reserveCapacity(max + 1)
        fill(&elements)
        count = elements.count
        while next < added {
            var leaf = ContiguousArray<Element>()
            leaf.reserveCapacity(max + 1)
            fill(&leaf)
            if next == added, leaf.count + later <= max {
                leaf.append(contentsOf: rest)
                rest.removeAll()
            }
            leaves.append(TreeNode(leaf: leaf))
        }
        if !rest.isEmpty { leaves.append(TreeNode(leaf: rest)) }
        return leaves
    }

    private func split(_ middle: Int) -> TreeNode {
        let sibling: TreeNode
        if isLeaf {
            var later = ContiguousArray<Element>()
            later.reserveCapacity(Element.leafCountMax + 1)
            later.append(contentsOf: elements[middle...])
            sibling = TreeNode(leaf: later)
            elements.removeLast(elements.count - middle)
        } else {
            sibling = TreeNode(inner: self, from: middle)
            children.removeLast(children.count - middle)
            counts.removeLast(counts.count - middle)
            firsts.removeLast(firsts.count - middle)
        }
        count -= sibling.count
        return sibling
    }

    /// Records a child's count and first element after it has changed.
    private func refresh(_ position: Int) {
        counts[position] = children[position].count
        firsts[position] = children[position].first
    }

    // MARK: Removing

    func remove(at index: Int) throws(Element.Failure) -> Element {
        guard !isLeaf else {
            count -= 1
            return elements.remove(at: index)
        }
        var offset = index
        let position = child(holding: &offset)
        let node = try uniqueChild(position)
        // Comes before any change, because it can fail.
        if node.mayBecomeSmall { try loadNeighbour(of: position) }
        let removed = try node.remove(at: offset)
        count -= 1
        if node.isSmall { join(position) } else { refresh(position) }
        return removed
    }

    private var mayBecomeSmall: Bool {
        isLeaf ? elements.count <= Element.leafCountMax / 4 : children.count <= Self.childrenMax / 4
    }

    /// Every child has a neighbour.
    private func neighbour(of position: Int) -> Int { position == children.count - 1 ? position - 1 : position + 1 }

    private func loadNeighbour(of position: Int) throws(Element.Failure) {
        _ = try uniqueChild(neighbour(of: position))
    }

    /// Joins a small child with its neighbour, which must be loaded and changeable; splits them evenly again if that is
    /// too much for one node.
    private func join(_ position: Int) {
        let left = Swift.min(position, neighbour(of: position))
        let node = children[left]
        let extra = node.absorb(children[left + 1])
        children.remove(at: left + 1)
        counts.remove(at: left + 1)
        firsts.remove(at: left + 1)
        refresh(left)
        if let extra { _ = adopt(extra, at: left + 1) }
    }

    private func absorb(_ right: TreeNode) -> TreeNode? {
        count += right.count
        if isLeaf {
            elements += right.elements
            return elements.count > Element.leafCountMax ? split(elements.count / 2) : nil
        }
        children += right.children
        counts += right.counts
        firsts += right.firsts
        return children.count > Self.childrenMax ? split(children.count / 2) : nil
    }
}
