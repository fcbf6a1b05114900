import AnabranchCore

/// The objects of a class, or its tombstones, by number and by key.
struct ObjectIndex {
    /// A leaf of the class, and the position of its first object.
    private struct Leaf {
        let cluster: FileReading.Cluster
        let first: Int
    }

    private(set) var numbers: [Int64] = []
    private var keys: ObjectKeys
    private var leaves: [Leaf] = []
    /// All numbers as a set, once one has come that is not greater than all before it; nil until then.
    private var known: Set<Int64>?
    /// The positions in the order of the numbers, if the file has another order.
    private var byNumber: [Int]?

    var count: Int { numbers.count }

    /// Reads the numbers and keys of all objects of a class, or of its tombstones.
    ///
    /// - Parameter count: called with objects, and the bytes of keys, before memory is taken for them.
    init(
        of table: Table, isTombstones: Bool = false, in reading: FileReading,
        count: (_ objects: Int, _ keyBytes: Int) throws(RealmFileError) -> Void
    ) throws(RealmFileError) {
        keys = ObjectKeys(of: table, clientFileIdent: reading.clientFileIdent)
        let root = isTombstones ? table.tombstones : table.objects
        if isTombstones, root == 0 { return }
        try reading.salvaging(table.place) { () throws(RealmFileError) in
            try reading.forEachCluster(root, of: table.place) { cluster, numbers throws(RealmFileError) in
                guard !numbers.isEmpty else { return }
                try reading.salvaging(table.place) { () throws(RealmFileError) in
                    guard numbers.allSatisfy({ isTombstones ? $0 <= -2 : $0 >= 0 }) else {
                        throw .damaged(at: cluster.place, "an object of a number that it cannot have")
                    }
                    try count(numbers.count, 0)
                    let leaf = try Self.keys(of: cluster, table, in: reading)
                    if let texts = leaf as? StringLeaf {
                        try count(0, (0..<texts.count).reduce(0) { $0 + (texts.byteCount(at: $1) ?? 0) })
                    }
                    try add(cluster, numbers, keys: leaf)
                }
            }
        }
        guard known != nil else { return }
        known = nil
        byNumber = numbers.indices.sorted { numbers[$0] < numbers[$1] }
    }

    /// The primary keys of the objects of a leaf; nil if the class has none.
    private static func keys(
        of cluster: FileReading.Cluster, _ table: Table, in reading: FileReading
    ) throws(RealmFileError) -> (any ColumnLeaf)? {
        guard let column = table.keyColumn else { return nil }
        let leaf = try column.leaf(of: cluster, in: reading)
        guard column.isNullable || !(0..<leaf.count).contains(where: { leaf.element(at: $0).isNull }) else {
            throw .damaged(at: cluster.place, "a primary key is null")
        }
        return leaf
    }

    /// Adds the objects of a leaf, all or none of them.
    ///
    /// - Parameters:
    ///   - added: their numbers.
    ///   - leaf: their primary keys; nil if the class has none.
    private mutating func add(
        _ cluster: FileReading.Cluster, _ added: [Int64], keys leaf: (any ColumnLeaf)?
    ) throws(RealmFileError) {
        var last = numbers.last ?? .min, isAscending = known == nil
        for number in added {
            isAscending = isAscending && number > last
            last = number
        }
        if !isAscending {
            var all = known.take() ?? Set(numbers)
            defer { known = all }
            guard Set(added).count == added.count, all.isDisjoint(with: added) else {
                throw .damaged(at: cluster.place, "two objects of one number")
            }
            all.formUnion(added)
        }
        leaves.append(Leaf(cluster: cluster, first: numbers.count))
        let start = numbers.count
        numbers += added
        if let leaf { keys.append(leaf, at: start) }
    }

    // MARK: Reading

    func position(of number: Int64) -> Int? {
        let index =
            byNumber.map { byNumber in byNumber.partition { numbers[$0] >= number } }
            ?? numbers.partition { $0 >= number }
        guard index < count else { return nil }
        let position = byNumber?[index] ?? index
        return numbers[position] == number ? position : nil
    }

    func key(at position: Int) -> PrimaryKey { keys.key(at: position, number: numbers[position]) }

    /// Calls `body` with each position, in the order of the keys.
    func forEachPosition(_ body: (Int) throws -> Void) rethrows {
        typealias Place = (prefix: UInt64, position: Int)
        func place(_ position: Int) -> Place {
            (keys.prefix(at: position, number: numbers[position]), position)
        }
        func precedes(_ left: Place, _ right: Place) -> Bool {
            left.prefix != right.prefix ? left.prefix < right.prefix : key(at: left.position) < key(at: right.position)
        }
        var last: Place?, isSorted = true
        for position in numbers.indices where isSorted {
            let next = place(position)
            if let last { isSorted = !precedes(next, last) }
            last = next
        }
        if isSorted {
            for position in numbers.indices { try body(position) }
        } else {
            var places = numbers.indices.map(place)
            places.sort(by: precedes)
            for (_, position) in places { try body(position) }
        }
    }

    /// The leaf that an object is in, and its place there.
    func leaf(of position: Int) -> (index: Int, row: Int) {
        let index = leaves.partition { $0.first > position } - 1
        return (index, position - leaves[index].first)
    }

    func cluster(_ index: Int) -> FileReading.Cluster { leaves[index].cluster }
}
