/// The keys and values of a dictionary, in the order of the file.
struct DictionaryEntries {
    /// The place of a value.
    typealias Place = (leaf: Int, index: Int)

    private let keys: [StringLeaf]
    private let values: [MixedLeaf]

    init(keys: [StringLeaf] = [], values: [MixedLeaf] = []) { (self.keys, self.values) = (keys, values) }

    /// Calls `body` with each key, which is nil if it is null, and the place of its value.
    func forEachKey(_ body: ([UInt8]?, Place) throws(RealmFileError) -> Void) throws(RealmFileError) {
        var place: Place = (0, 0)
        for leaf in keys {
            for index in 0..<leaf.count {
                while place.index == values[place.leaf].count { place = (place.leaf + 1, 0) }
                try body(leaf.bytes(at: index), place)
                place.index += 1
            }
        }
    }

    func value(at place: Place) -> Element { values[place.leaf].element(at: place.index) }
}

extension FileReading {
    /// The entries of a dictionary: two trees of equal length, or up to format 22 a tree of objects with two columns.
    func entries(_ root: Int64) throws(RealmFileError) -> DictionaryEntries {
        guard root != 0 else { return DictionaryEntries() }
        var keys: [StringLeaf] = [], values: [MixedLeaf] = []
        if header.hasClusteredDictionaries {
            try forEachCluster(root, of: RealmFileError.Place()) { cluster, _ throws(RealmFileError) in
                guard let names = cluster.ref(ofSlot: 0), let contents = cluster.ref(ofSlot: 1) else {
                    throw .damaged(at: cluster.place, "a dictionary without values")
                }
                let leaves = (try StringLeaf(try array(names), in: self), try MixedLeaf(try array(contents), in: self))
                guard leaves.0.count == cluster.count, leaves.1.count == cluster.count else {
                    throw .damaged(at: cluster.place, "a dictionary with keys and values that differ in number")
                }
                keys.append(leaves.0)
                values.append(leaves.1)
            }
            return DictionaryEntries(keys: keys, values: values)
        }
        let node = try refs(root)
        guard node.count == 2 else { throw .damaged(at: node.ref, "a dictionary of \(node.count) parts") }
        guard node.integer(at: 0) != 0 else { return DictionaryEntries() }
        keys = try leaves(node.integer(at: 0)) { node throws(RealmFileError) in try StringLeaf(node, in: self) }
        if node.integer(at: 1) != 0 {
            values = try leaves(node.integer(at: 1)) { node throws(RealmFileError) in try MixedLeaf(node, in: self) }
        }
        let counts = (keys.reduce(0) { $0 + $1.count }, values.reduce(0) { $0 + $1.count })
        guard counts.0 == counts.1 else {
            throw .damaged(at: node.ref, "a dictionary of \(counts.0) keys and \(counts.1) values")
        }
        return DictionaryEntries(keys: keys, values: values)
    }
}
