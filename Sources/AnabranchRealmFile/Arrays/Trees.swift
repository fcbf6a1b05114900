extension FileReading {
    private typealias Limits = RealmFileLimits

    // MARK: Lists

    /// The leaves of a tree of elements, in order (`Spec/RealmFile.md`, section 2).
    func leaves<Leaf: ColumnLeaf>(
        _ root: Int64, _ read: (ArrayNode) throws(RealmFileError) -> Leaf
    ) throws(RealmFileError) -> [Leaf] {
        var leaves: [Leaf] = []
        _ = try addLeaves(below: root, depth: 0, to: &leaves, read)
        return leaves
    }

    /// - Returns: the number of elements.
    private func addLeaves<Leaf: ColumnLeaf>(
        below ref: Int64, depth: Int, to leaves: inout [Leaf], _ read: (ArrayNode) throws(RealmFileError) -> Leaf
    ) throws(RealmFileError) -> Int {
        let node = try array(ref)
        guard depth < Limits.treeLevelsMax else {
            throw .damaged(at: node.ref, "a tree of more than \(Limits.treeLevelsMax) levels")
        }
        guard node.isInner else {
            let leaf = try read(node)
            guard leaf.count <= Limits.listNodeElementsMax else {
                throw .damaged(at: node.ref, "a leaf of \(leaf.count) elements")
            }
            leaves.append(leaf)
            return leaf.count
        }
        try node.requireRefs()
        guard 2...Limits.listNodeElementsMax + 2 ~= node.count else {
            throw .damaged(at: node.ref, "an inner node of \(node.count) elements")
        }
        let total = try node.tagged(at: node.count - 1, "the number of elements below a node")
        let ends = node.integer(at: 0)
        if ends != 0, ends & 1 == 0 { _ = try array(ends) }
        var count = 0
        for index in 1..<node.count - 1 {
            count += try addLeaves(below: node.integer(at: index), depth: depth + 1, to: &leaves, read)
        }
        guard count == total else { throw .damaged(at: node.ref, "\(count) elements, and not \(total), below a node") }
        return count
    }

    // MARK: Objects

    /// A leaf of a tree of objects.
    struct Cluster {
        /// The number of its objects.
        let count: Int
        /// The keys of the objects, then the arrays of their values by slot.
        fileprivate let node: ArrayNode

        /// The ref of the values in a slot; nil beyond the last slot of the leaf.
        func ref(ofSlot slot: Int) -> Int64? { slot + 1 < node.count ? node.integer(at: slot + 1) : nil }
        var place: Int { node.ref }
    }

    /// Calls `body` with each leaf of a tree of objects and the numbers of its objects. Damage of a node removes
    /// everything below it.
    ///
    /// - Parameter place: the place of the tree, for errors.
    func forEachCluster(
        _ root: Int64, of place: RealmFileError.Place, _ body: (Cluster, [Int64]) throws(RealmFileError) -> Void
    ) throws(RealmFileError) {
        _ = try walk(root, offset: 0, depth: 0, level: nil, place, body)
    }

    /// - Returns: the number of objects.
    private func walk(
        _ ref: Int64, offset: UInt64, depth: Int, level: Int?, _ place: RealmFileError.Place,
        _ body: (Cluster, [Int64]) throws(RealmFileError) -> Void
    ) throws(RealmFileError) -> Int {
        let node = try refs(ref)
        guard node.count > 0 else { throw .damaged(at: node.ref, "objects without their number") }
        guard node.isInner else {
            guard level ?? 0 == 0 else {
                throw .damaged(at: node.ref, "a leaf in the place of a node of level \(level ?? 0)")
            }
            let numbers = try keys(of: node).map { Int64(bitPattern: offset &+ $0) }
            try body(Cluster(count: numbers.count, node: node), numbers)
            return numbers.count
        }
        guard depth < Limits.treeLevelsMax, 3...Limits.clusterElementsMax + 3 ~= node.count else {
            throw .damaged(at: node.ref, "an inner node of \(node.count) elements on level \(depth) from the top")
        }
        let own = try node.tagged(at: 1, "the level of a node")
        guard 1...Limits.treeLevelsMax ~= own, level == nil || level == own else {
            throw .damaged(at: node.ref, "an inner node of level \(own)")
        }
        let total = try node.tagged(at: 2, "the number of objects below a node")
        let offsets = node.integer(at: 0) == 0 ? nil : try integers(node.integer(at: 0))
        guard offsets == nil || offsets?.count == node.count - 3 else {
            throw .damaged(at: node.ref, "\(offsets?.count ?? 0) offsets for \(node.count - 3) children")
        }
        var count = 0
        for index in 0..<node.count - 3 {
            let below = offsets?.unsigned(at: index) ?? UInt64(index) << UInt64(8 * own)
            try salvaging(place) { () throws(RealmFileError) in
                count += try walk(
                    node.integer(at: index + 3), offset: offset &+ below, depth: depth + 1, level: own - 1, place, body)
            }
        }
        guard count == total else { throw .damaged(at: node.ref, "\(count) objects, and not \(total), below a node") }
        return count
    }

    /// The keys of a leaf, relative to its offset.
    private func keys(of leaf: ArrayNode) throws(RealmFileError) -> [UInt64] {
        let first = leaf.integer(at: 0), isCounted = first & 1 == 1
        let keys = isCounted ? nil : try integers(first)
        let count: Int
        if let keys { count = keys.count } else { count = try leaf.tagged(at: 0, "the number of objects") }
        guard count <= Limits.clusterElementsMax else { throw .damaged(at: leaf.ref, "a leaf of \(count) objects") }
        return (0..<count).map { keys?.unsigned(at: $0) ?? UInt64($0) }
    }
}
