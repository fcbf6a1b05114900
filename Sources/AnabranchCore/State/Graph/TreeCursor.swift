/// Walks along the elements of a tree. Nodes that are stored are read when the walk comes to them, and only those on
/// the way from the root to the current leaf are in memory.
struct TreeCursor<Element: TreeElement> {
    private var path: [(node: TreeNode<Element>, next: Int)] = []

    /// - Parameter index: The index of the first element, at most the tree's count.
    init(_ tree: CountedTree<Element>, from index: Int = 0) throws(Element.Failure) {
        guard var node = try tree.root?.loaded() else { return }
        var offset = index
        while !node.isLeaf {
            let child = node.child(holding: &offset)
            path.append((node, child + 1))
            node = try node.children[child].loaded()
        }
        path.append((node, offset))
    }

    /// Returns the next element, or nil at the end. After an error the cursor must not be used any more.
    mutating func next() throws(Element.Failure) -> Element? {
        while let (node, next) = path.last {
            guard next < (node.isLeaf ? node.elements.count : node.children.count) else {
                path.removeLast()
                continue
            }
            path[path.count - 1].next += 1
            if node.isLeaf { return node.elements[next] }
            path.append((try node.children[next].loaded(), 0))
        }
        return nil
    }
}

/// The nodes stay as they are: a tree changes only those that nothing else refers to.
extension TreeCursor: @unchecked Sendable where Element: Sendable {}

/// A tree that is always in memory.
extension CountedTree: Sequence where Element.Failure == Never {
    package struct Iterator: IteratorProtocol {
        private var cursor: TreeCursor<Element>

        init(_ tree: CountedTree) { cursor = TreeCursor(tree) }

        package mutating func next() -> Element? { cursor.next() }
    }

    package func makeIterator() -> Iterator { Iterator(self) }
    package var underestimatedCount: Int { count }
}
