import AnabranchCore

/// The objects of a class, or its tombstones, by number and by key. All that is held of each are these two.
struct ObjectIndex {
    /// A leaf of the class, and the position of its first object.
    private struct Leaf {
        let cluster: FileReading.Cluster
        let first: Int
    }

    private(set) var numbers: [Int64] = []
    private var keys: ObjectKeys
    private var leaves: [Leaf] = []
    /// The numbers, once one has come that is not above all before it.
    private var known: Set<Int64>?
    /// The positions in the order of the numbers, where the file has another.
    private var byNumber: [Int]?

    var count: Int { numbers.count }

    init(keys: ObjectKeys) { self.keys = keys }

    /// Adds the objects of a leaf, all or none of them.
    ///
    /// - Parameters:
    ///   - added: their numbers.
    ///   - leaf: their primary keys; nil if the class has none.
    mutating func add(
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
        if let leaf { for index in 0..<leaf.count { keys.append(leaf.element(at: index), at: start + index) } }
    }

    /// To be called when all objects have been added.
    mutating func finish() {
        guard known != nil else { return }
        known = nil
        byNumber = numbers.indices.sorted { numbers[$0] < numbers[$1] }
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
        func precedes(_ left: Int, _ right: Int) -> Bool {
            keys.precedes((left, numbers[left]), (right, numbers[right]))
        }
        if zip(numbers.indices.dropFirst(), numbers.indices).contains(where: precedes) {
            for position in numbers.indices.sorted(by: precedes) { try body(position) }
        } else {
            for position in numbers.indices { try body(position) }
        }
    }

    /// The leaf that an object is in, and its place there.
    func leaf(of position: Int) -> (index: Int, row: Int) {
        let index = leaves.partition { $0.first > position } - 1
        return (index, position - leaves[index].first)
    }

    func cluster(_ index: Int) -> FileReading.Cluster { leaves[index].cluster }
}
