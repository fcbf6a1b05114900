/// The elements of several leaves by their places.
struct LeafElements<Leaf: ColumnLeaf> {
    private let leaves: [Leaf]
    private var starts: [Int] = []
    private(set) var count = 0

    init(_ leaves: [Leaf]) {
        self.leaves = leaves
        for leaf in leaves {
            starts.append(count)
            count += leaf.count
        }
    }

    /// The leaf that an element is in, and its place there.
    subscript(index: Int) -> (leaf: Leaf, place: Int) {
        let leaf = starts.partition { $0 > index } - 1
        return (leaves[leaf], index - starts[leaf])
    }
}

extension Array {
    /// The index of the first element that fulfils a condition, if all elements after it fulfil it, too.
    func partition(_ isBehind: (Element) -> Bool) -> Int {
        var (low, high) = (0, count)
        while low < high {
            let middle = (low + high) / 2
            if isBehind(self[middle]) { high = middle } else { low = middle + 1 }
        }
        return low
    }
}
