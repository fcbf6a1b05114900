/// An element of a `CountedTree`.
package protocol TreeElement {
    /// The part of each child's first element that inner nodes keep, so that searching a sorted tree visits only one
    /// leaf; `NoSeparator` where the order is the user's.
    associatedtype Separator: Sendable
    /// The source of nodes that are not in memory; `Never` where all of them are.
    associatedtype Source: Sendable = Never
    /// The error that reading a node can throw.
    associatedtype Failure: Error = Never
    var separator: Separator { get }
    /// The size of the element, in bytes. A node that is not in memory knows the total of its elements.
    var size: Int { get }
    /// The most elements that a leaf holds: large leaves are quick to walk, small ones quick to copy.
    static var leafCountMax: Int { get }
    /// Reads a node.
    /// - Parameter isKept: True if the node stays in memory, in a tree that is being changed.
    static func node(_ stored: StoredNode<Source>, isKept: Bool) throws(Failure) -> TreeNode<Self>
}

extension TreeElement where Source == Never, Failure == Never {
    package static func node(_ stored: StoredNode<Never>, isKept: Bool) -> TreeNode<Self> { switch stored.source {} }
}

/// The separator of trees that are only addressed by index.
package struct NoSeparator: Sendable {
    package init() {}
}

/// A persistent sequence: a B-tree that counts its elements.
///
/// Copying costs nothing. Reading, inserting, removing and changing one element anywhere cost O(log n), and a change
/// copies only those nodes on its way that another copy of the tree still shares. Nodes that are stored are read when
/// they are needed: once for a change, otherwise again each time, so that reading leaves a tree as it is.
package struct CountedTree<Element: TreeElement> {
    typealias Node = TreeNode<Element>
    package typealias Failure = Element.Failure

    private(set) var root: Node?

    package init() {}

    init(root: Node?) { self.root = root }

    package init(_ elements: some Sequence<Element>) {
        var leaves: [Node] = []
        var leaf: ContiguousArray<Element> = []
        for element in elements {
            if leaf.count == Element.leafCountMax {
                leaves.append(Node(leaf: leaf))
                leaf.removeAll()
            }
            leaf.append(element)
        }
        if !leaf.isEmpty { leaves.append(Node(leaf: leaf)) }
        while leaves.count > 1 {
            leaves = Node.groups(of: leaves.map { Node.Child(node: $0, first: $0.first) }).map { Node(inner: $0) }
        }
        root = leaves.first
    }

    package var count: Int { root?.count ?? 0 }
    package var isEmpty: Bool { root == nil }
    /// The size of all elements together, in bytes.
    var size: Int { root?.size ?? 0 }

    /// The element at an index below `count`.
    package subscript(index: Int) -> Element {
        get throws(Failure) { try element(at: index) { node throws(Failure) in try node.loaded() } }
    }

    mutating func append(_ element: Element) throws(Failure) { try insert(element, at: count) }

    /// Inserts before the element at `index`, which is at most `count`.
    package mutating func insert(_ element: Element, at index: Int) throws(Failure) {
        guard root != nil else {
            root = Node(leaf: [element])
            return
        }
        if try insertInLeaf(element, at: index) { return }
        let sibling = try uniqueRoot().insert(element, at: index)
        if let sibling, let left = root {
            root = Node(inner: [left, sibling].map { Node.Child(node: $0, first: $0.first) }[...])
        }
    }

    /// Inserts where nothing but one leaf and the counts above it change: in the middle of a leaf that has room.
    private mutating func insertInLeaf(_ element: Element, at index: Int) throws(Failure) -> Bool {
        let root = try uniqueRoot()
        var node = root, offset = index, depth = 0
        do throws(Failure) {
            while !node.isLeaf {
                node = try node.countInsertion(at: &offset)
                depth += 1
            }
        } catch {
            root.uncountInsertion(at: index, depth)
            throw error
        }
        guard offset > 0, node.insertInMiddle(element, at: offset) else {
            root.uncountInsertion(at: index, depth)
            return false
        }
        return true
    }

    /// Inserts elements one after the other, the first one before the element at `index`, at most `self.count`.
    mutating func insert(_ count: Int, at index: Int, _ element: (Int) -> Element) throws(Failure) {
        guard root != nil else { return self = CountedTree((0..<count).map(element)) }
        var siblings = try uniqueRoot().insert(count, at: index, element)
        while let left = root, !siblings.isEmpty {
            let nodes = Node.groups(of: ([left] + siblings).map { Node.Child(node: $0, first: $0.first) })
                .map { Node(inner: $0) }
            root = nodes[0]
            siblings = ContiguousArray(nodes.dropFirst())
        }
    }

    @discardableResult
    package mutating func remove(at index: Int) throws(Failure) -> Element {
        let removed = try uniqueRoot().remove(at: index)
        while let node = root, !node.isLeaf, node.children.count == 1 { root = node.children[0] }
        if root?.count == 0 { root = nil }
        return removed
    }

    mutating func removeAll() { root = nil }

    /// Changes the element at an index in place. Its separator must stay the same.
    @inline(__always)
    mutating func modify<Result>(
        at index: Int, _ body: (inout Element) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        var node = try uniqueRoot()
        var offset = index
        while !node.isLeaf {
            let child = node.child(holding: &offset)
            node = try node.uniqueChild(child)
        }
        return try body(&node.elements[offset])
    }

    /// Finds an element of a sorted tree, as `find` does, and changes it in place. Its separator must stay the same.
    /// - Returns: The index of the element and what `body` returns, or the index at which it would be inserted and nil.
    @inline(__always)
    mutating func modify<Result>(
        _ compare: (Element.Separator) throws(Failure) -> Int, _ body: (inout Element) throws(Failure) -> Result
    ) throws(Failure) -> (index: Int, result: Result?) {
        guard root != nil else { return (0, nil) }
        var node = try uniqueRoot(), index = 0
        while !node.isLeaf {
            let child = try node.child(beginningBefore: compare)
            for position in 0..<child { index += node.counts[position] }
            node = try node.uniqueChild(child)
        }
        let offset = try node.elements.partitionPoint(comparing: compare)
        guard offset < node.elements.count, try compare(node.elements[offset].separator) == 0 else {
            return (index + offset, nil)
        }
        return (index + offset, try body(&node.elements[offset]))
    }

    /// Finds an element of a sorted tree; `compare` gives the sign of a separator relative to the one sought.
    /// - Returns: The element and its index, or nil and the index at which it would be inserted.
    @inline(__always)
    package func find(
        _ compare: (Element.Separator) throws(Failure) -> Int
    ) throws(Failure) -> (index: Int, element: Element?) {
        try find(compare) { node throws(Failure) in try node.loaded() }
    }

    /// Calls `body` with each element in order.
    func forEach(_ body: (Element) throws(Failure) -> Void) throws(Failure) {
        try walk { node throws(Failure) in
            try node.loaded()
        } _: { element throws(Failure) in
            try body(element)
            return true
        }
    }

    /// Calls `body` with each element in order, until it returns false.
    func forEachWhile(_ body: (Element) throws(Failure) -> Bool) throws(Failure) {
        try walk({ node throws(Failure) in try node.loaded() }, body)
    }

    /// Calls `body` with each element of the leaves that changed since they were stored, in no particular order.
    func forEachUnstored(_ body: (Element) -> Void) {
        var waiting = root.map { [$0] } ?? []
        while let node = waiting.popLast() {
            guard !node.isStored else { continue }
            for element in node.elements { body(element) }
            waiting.append(contentsOf: node.children)
        }
    }

    func map<Result>(_ body: (Element) throws(Failure) -> Result) throws(Failure) -> [Result] {
        var results: [Result] = []
        results.reserveCapacity(count)
        try forEach { element throws(Failure) in results.append(try body(element)) }
        return results
    }

    // MARK: Nodes

    private mutating func uniqueRoot() throws(Failure) -> Node {
        if !isKnownUniquelyReferenced(&root) || !root.existing.isLoaded { root = try root.existing.changeable() }
        let node = root.existing
        node.isStored = false
        return node
    }
}

// Visits to nodes; `read` loads a node that is not in memory.
extension CountedTree {
    @inline(__always)
    fileprivate func element<Thrown: Error>(
        at index: Int, _ read: (Node) throws(Thrown) -> Node
    ) throws(Thrown) -> Element {
        var node = try read(root.existing)
        var offset = index
        while !node.isLeaf {
            let child = node.child(holding: &offset)
            node = try read(node.children[child])
        }
        return node.elements[offset]
    }

    @inline(__always)
    fileprivate func find<Thrown: Error>(
        _ compare: (Element.Separator) throws(Thrown) -> Int, _ read: (Node) throws(Thrown) -> Node
    ) throws(Thrown) -> (index: Int, element: Element?) {
        guard let root else { return (0, nil) }
        var node = try read(root)
        var index = 0
        while !node.isLeaf {
            let child = try node.child(beginningBefore: compare)
            for position in 0..<child { index += node.counts[position] }
            node = try read(node.children[child])
        }
        let offset = try node.elements.partitionPoint(comparing: compare)
        guard offset < node.elements.count, try compare(node.elements[offset].separator) == 0 else {
            return (index + offset, nil)
        }
        return (index + offset, node.elements[offset])
    }

    @inline(__always)
    fileprivate func walk<Thrown: Error>(
        _ read: (Node) throws(Thrown) -> Node, _ body: (Element) throws(Thrown) -> Bool
    ) throws(Thrown) {
        guard let root else { return }
        // The tree is balanced and shallow: this holds the children of only a handful of nodes.
        var waiting = [root]
        while let next = waiting.popLast() {
            let node = try read(next)
            for element in node.elements { guard try body(element) else { return } }
            waiting.append(contentsOf: node.children.reversed())
        }
    }
}

/// Access that cannot fail, for callers that have already read the whole tree.
extension CountedTree {
    package func loadedElement(at index: Int) -> Element { element(at: index) { $0.inMemory } }

    package func findLoaded(_ compare: (Element.Separator) -> Int) -> (index: Int, element: Element?) {
        find(compare) { $0.inMemory }
    }

    var loadedElements: [Element] {
        var elements: [Element] = []
        elements.reserveCapacity(count)
        walk {
            $0.inMemory
        } _: {
            elements.append($0)
            return true
        }
        return elements
    }
}

/// A node is changed only by a tree that alone refers to it; whatever is shared is constant.
extension CountedTree: @unchecked Sendable where Element: Sendable {}

extension Optional {
    /// The root of a tree that holds an element: callers pass an index below `count`.
    fileprivate var existing: Wrapped {
        guard let self else { preconditionFailure("index beyond the end of a tree") }
        return self
    }
}

extension TreeNode {
    /// The last child that begins at or before the element sought, or else the first.
    @inline(__always)
    fileprivate func child<Thrown: Error>(
        beginningBefore compare: (Element.Separator) throws(Thrown) -> Int
    ) throws(Thrown) -> Int {
        Swift.max(try firsts.partitionPoint { first throws(Thrown) in try compare(first) <= 0 } - 1, 0)
    }

    /// The node itself, which must have been read.
    fileprivate var inMemory: TreeNode {
        guard isLoaded else { preconditionFailure("a node that was not read") }
        return self
    }
}

extension ContiguousArray where Element: TreeElement {
    /// The index of the first element whose separator does not come before the one sought. Only separators are copied:
    /// elements hold more references.
    @inline(__always)
    fileprivate func partitionPoint<Thrown: Error>(
        comparing compare: (Element.Separator) throws(Thrown) -> Int
    ) throws(Thrown) -> Int {
        try withUnsafeBufferPointer { elements throws(Thrown) in
            var (low, high) = (0, elements.count)
            while low < high {
                let middle = (low + high) >> 1
                if try compare(elements[middle].separator) < 0 { low = middle + 1 } else { high = middle }
            }
            return low
        }
    }
}

extension ContiguousArray {
    /// The index of the first element for which `isBefore` is false; those for which it is true must come first.
    @inline(__always)
    fileprivate func partitionPoint<Thrown: Error>(
        _ isBefore: (Element) throws(Thrown) -> Bool
    ) throws(Thrown) -> Int {
        var (low, high) = (0, count)
        while low < high {
            let middle = (low + high) >> 1
            if try isBefore(self[middle]) { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
