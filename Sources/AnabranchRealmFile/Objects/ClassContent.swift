import AnabranchCore

/// A class of the file with its objects.
final class ClassContent {
    /// The values of the objects of one leaf, by property; nil if they are damaged.
    fileprivate final class LoadedLeaf {
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
    /// The properties except for the primary key, in the order of their names.
    let properties: [Column]
    let objects: ObjectIndex
    private let tombstones: ObjectIndex
    private let reading: FileReading
    private var loaded: [Int: LoadedLeaf] = [:]
    /// The embedded objects that a link has led to.
    private var reached: Set<Int> = []

    /// Reads the keys of all objects.
    ///
    /// - Parameters:
    ///   - properties: the properties that can be read.
    ///   - count: called with objects, and the bytes of keys, before memory is taken for them.
    init(
        _ table: Table, properties: [Column], in reading: FileReading,
        count: (_ objects: Int, _ keyBytes: Int) throws(RealmFileError) -> Void
    ) throws(RealmFileError) {
        (self.table, self.reading) = (table, reading)
        label = Array(JSONText.label(table.className).dropLast())
        self.properties = properties.sorted { $0.name.lexicographicallyPrecedes($1.name) }
        objects = try ObjectIndex(of: table, in: reading, count: count)
        tombstones = try ObjectIndex(of: table, isTombstones: true, in: reading, count: count)
    }

    // MARK: Reading

    /// The key of the object, or of the tombstone, that a link leads to.
    func key(of number: Int64) throws(RealmFileError) -> PrimaryKey {
        let index = number <= -2 ? tombstones : objects
        guard let position = index.position(of: number) else { throw .damaged("a link to an object that is not there") }
        return index.key(at: position)
    }

    /// The position of the embedded object that a link leads to, which must be the only link to it.
    func embedded(_ number: Int64) throws(RealmFileError) -> Int {
        guard let position = objects.position(of: number) else {
            throw .damaged("an embedded object that is not there")
        }
        guard reached.insert(position).inserted else {
            throw .damaged("an embedded object that has another place, too")
        }
        return position
    }

    /// The fields of an object. May be called once for each object: when all objects of a leaf have been read, it is
    /// released.
    func fields(at position: Int) throws(RealmFileError) -> Fields {
        let (index, row) = objects.leaf(of: position), leaf = try loadedLeaf(index)
        leaf.unreadCount -= 1
        if leaf.unreadCount == 0 { loaded[index] = nil }
        return Fields(leaf: leaf, row: row)
    }

    /// The values of an object.
    struct Fields {
        fileprivate let leaf: LoadedLeaf
        fileprivate let row: Int

        /// The value of a property, by its place among all; nil where it is damaged.
        subscript(property: Int) -> Element? { leaf.values[property]?.element(at: row) }
    }

    private func loadedLeaf(_ index: Int) throws(RealmFileError) -> LoadedLeaf {
        if let leaf = loaded[index] { return leaf }
        let cluster = objects.cluster(index)
        var all: [(any ColumnLeaf)?] = []
        for property in properties {
            var found: (any ColumnLeaf)?
            try reading.salvaging(table.place(of: property)) { () throws(RealmFileError) in
                found = try property.leaf(of: cluster, in: reading)
            }
            all.append(found)
        }
        let leaf = LoadedLeaf(all, unreadCount: cluster.count)
        loaded[index] = leaf
        return leaf
    }
}
