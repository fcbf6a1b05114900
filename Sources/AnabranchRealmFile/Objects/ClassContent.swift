import AnabranchCore

/// A class of the file with its objects.
final class ClassContent {
    /// The values of the objects of one leaf, by property; nil if they are damaged.
    private final class LoadedLeaf {
        let values: [(any ColumnLeaf)?]
        /// The objects that have not been read.
        var unreadCount: Int

        init(_ values: [(any ColumnLeaf)?], unreadCount: Int) {
            (self.values, self.unreadCount) = (values, unreadCount)
        }
    }

    let table: Table
    /// The name of the class as a text of JSON.
    let label: [UInt8]
    /// Without the primary key, in the order of their names.
    let properties: [Column]
    private(set) var objects: ObjectIndex
    private(set) var tombstones: ObjectIndex
    private let reading: FileReading
    private var loaded: [Int: LoadedLeaf] = [:]
    /// The embedded objects that a link has led to.
    private var reached: Set<Int> = []

    /// Reads the keys of all objects.
    ///
    /// - Parameters:
    ///   - properties: those that can be read.
    ///   - count: told of objects, and of the bytes of keys, before memory is taken for them.
    init(
        _ table: Table, properties: [Column], in reading: FileReading,
        count: (_ objects: Int, _ keyBytes: Int) throws(RealmFileError) -> Void
    ) throws(RealmFileError) {
        (self.table, self.reading) = (table, reading)
        label = Array(JSONText.label(table.className).dropLast())
        self.properties = properties.sorted { $0.name.lexicographicallyPrecedes($1.name) }
        let keys = ObjectKeys(of: table, clientFileIdent: reading.clientFileIdent)
        objects = ObjectIndex(keys: keys)
        tombstones = ObjectIndex(keys: keys)
        try reading.salvaging(table.place) { () throws(RealmFileError) in
            try load(table.objects, into: &objects, isTombstone: false, count)
        }
        if table.tombstones != 0 {
            try reading.salvaging(table.place) { () throws(RealmFileError) in
                try load(table.tombstones, into: &tombstones, isTombstone: true, count)
            }
        }
        objects.finish()
        tombstones.finish()
    }

    private func load(
        _ root: Int64, into index: inout ObjectIndex, isTombstone: Bool,
        _ count: (Int, Int) throws(RealmFileError) -> Void
    ) throws(RealmFileError) {
        try reading.forEachCluster(root, of: table.place) { cluster, numbers throws(RealmFileError) in
            guard !numbers.isEmpty else { return }
            try reading.salvaging(table.place) { () throws(RealmFileError) in
                guard numbers.allSatisfy({ isTombstone ? $0 <= -2 : $0 >= 0 }) else {
                    throw .damaged(at: cluster.place, "an object of a number that it cannot have")
                }
                try count(numbers.count, 0)
                let keys = try keyLeaf(of: cluster)
                if let texts = keys as? StringLeaf {
                    try count(0, (0..<texts.count).reduce(0) { $0 + (texts.byteCount(at: $1) ?? 0) })
                }
                try index.add(cluster, numbers, keys: keys)
            }
        }
    }

    private func keyLeaf(of cluster: FileReading.Cluster) throws(RealmFileError) -> (any ColumnLeaf)? {
        guard let column = table.keyColumn else { return nil }
        let leaf = try values(of: column, in: cluster)
        guard column.isNullable || !(0..<leaf.count).contains(where: { leaf.element(at: $0).isNull }) else {
            throw .damaged(at: cluster.place, "a primary key is null")
        }
        return leaf
    }

    private func values(
        of column: Column, in cluster: FileReading.Cluster
    ) throws(RealmFileError) -> any ColumnLeaf {
        guard let ref = cluster.ref(ofSlot: column.slot) else {
            throw .damaged(at: cluster.place, "the leaf has no slot \(column.slot)")
        }
        let leaf = try column.leaf(try reading.array(ref), in: reading)
        guard leaf.count == cluster.count else {
            throw .damaged(at: Int(ref), "\(leaf.count) values for \(cluster.count) objects")
        }
        return leaf
    }

    // MARK: Reading

    /// The key of the object, or of the tombstone, that a link leads to.
    func key(of number: Int64) throws(RealmFileError) -> PrimaryKey {
        let index = number <= -2 ? tombstones : objects
        guard let position = index.position(of: number) else { throw .damaged("a link to an object that is not there") }
        return index.key(at: position)
    }

    /// The position of the embedded object that a link leads to: it has one place.
    func embedded(_ number: Int64) throws(RealmFileError) -> Int {
        guard let position = objects.position(of: number) else {
            throw .damaged("an embedded object that is not there")
        }
        guard reached.insert(position).inserted else {
            throw .damaged("an embedded object that has another place, too")
        }
        return position
    }

    /// What an object holds, by property; nil where it is damaged. To be asked for once: when all objects of a leaf
    /// have been read, it is released.
    func elements(at position: Int) throws(RealmFileError) -> [Element?] {
        let (index, row) = objects.leaf(of: position), leaf = try loadedLeaf(index)
        leaf.unreadCount -= 1
        if leaf.unreadCount == 0 { loaded[index] = nil }
        return leaf.values.map { $0?.element(at: row) }
    }

    private func loadedLeaf(_ index: Int) throws(RealmFileError) -> LoadedLeaf {
        if let leaf = loaded[index] { return leaf }
        let cluster = objects.cluster(index)
        var all: [(any ColumnLeaf)?] = []
        for property in properties {
            var found: (any ColumnLeaf)?
            try reading.salvaging(table.place(of: property)) { () throws(RealmFileError) in
                found = try values(of: property, in: cluster)
            }
            all.append(found)
        }
        let leaf = LoadedLeaf(all, unreadCount: cluster.count)
        loaded[index] = leaf
        return leaf
    }
}
