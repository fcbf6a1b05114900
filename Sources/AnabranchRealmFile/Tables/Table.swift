import AnabranchCore

/// A table: its columns, and the place of its objects (`Spec/RealmFile.md`, section 2).
struct Table {
    private static let classPrefix = Array("class_".utf8)

    let name: [UInt8]
    /// The number by which links refer to it.
    let number: Int64
    let kind: TableType
    /// All columns with names, including the primary key.
    private(set) var columns: [Column] = []
    private(set) var keyColumn: Column?
    let objects: Int64
    /// The root of the tombstones; 0 if there are none.
    let tombstones: Int64

    var isClass: Bool { name.starts(with: Self.classPrefix) }
    /// The name of the class; for a table that is not a class, the name of the table.
    var className: [UInt8] { isClass ? Array(name.dropFirst(Self.classPrefix.count)) : name }
    var place: RealmFileError.Place { RealmFileError.Place(className: String(excerptOf: className)) }
    func place(of column: Column) -> RealmFileError.Place {
        RealmFileError.Place(className: String(excerptOf: className), property: String(excerptOf: column.name))
    }

    init(_ name: [UInt8], at ref: Int64, in reading: FileReading) throws(RealmFileError) {
        let node = try reading.refs(ref)
        guard node.count >= 10 else { throw .damaged(at: node.ref, "a table of \(node.count) elements") }
        if node.count < 14 { reading.report(notSeen: "a table of \(node.count) elements") }
        func tagged(_ index: Int, _ what: StaticString) throws(RealmFileError) -> Int {
            index < node.count ? try node.taggedOrZero(at: index, what) : 0
        }
        self.name = name
        number = Int64(try node.tagged(at: 3, "the number of a table"))
        guard let kind = TableType(rawValue: UInt8(try tagged(12, "the kind of a table") & 3)) else {
            throw .damaged(at: node.ref, "a table of a kind that there is not")
        }
        self.kind = kind
        objects = node.integer(at: 2)
        tombstones = node.count > 13 ? node.integer(at: 13) : 0
        try readColumns(node.integer(at: 0), targets: node.integer(at: 7), in: reading)
        if node.count > 11, node.integer(at: 11) != 0 {
            keyColumn = try column(ofKey: Int64(try node.tagged(at: 11, "the column of the primary key")), at: node.ref)
        }
    }

    /// Reads the spec of a table.
    private mutating func readColumns(
        _ ref: Int64, targets: Int64, in reading: FileReading
    ) throws(RealmFileError) {
        let spec = try reading.refs(ref)
        guard spec.count == 6 else { throw .damaged(at: spec.ref, "a spec of \(spec.count) elements") }
        let types = try reading.integers(spec.integer(at: 0), emptyMax: RealmFileLimits.columnsMax)
        let names = try StringLeaf.names(spec.integer(at: 1), in: reading)
        let attributes = try reading.integers(spec.integer(at: 2), emptyMax: RealmFileLimits.columnsMax)
        let enumerations =
            spec.integer(at: 4) == 0
            ? nil : try reading.integers(spec.integer(at: 4), emptyMax: RealmFileLimits.columnsMax)
        let keys = try reading.integers(spec.integer(at: 5))
        guard types.count == keys.count, attributes.count == keys.count else {
            throw .damaged(
                at: spec.ref, "\(types.count) types, \(attributes.count) attributes and \(keys.count) keys of columns")
        }
        let all = (0..<keys.count).map { keys.integer(at: $0) }
        let firstBacklink = all.firstIndex(where: Column.isBacklink) ?? all.count
        guard firstBacklink == names.count, all[firstBacklink...].allSatisfy(Column.isBacklink) else {
            throw .damaged(at: spec.ref, "the columns that are no backlinks are not those with names")
        }
        guard enumerations == nil || enumerations?.count == names.count || enumerations?.count == 0 else {
            throw .damaged(at: spec.ref, "\(enumerations?.count ?? 0) enumerations for \(names.count) columns")
        }
        guard Set(all.map(Column.slot)).count == all.count else {
            throw .damaged(at: spec.ref, "two columns in one slot")
        }
        let targets = targets == 0 ? nil : try reading.integers(targets)
        for (index, name) in names.enumerated() {
            let slot = Column.slot(all[index])
            let target = targets.flatMap { slot < $0.count ? $0.integer(at: slot) : nil }
            let ref = enumerations.map { index < $0.count ? $0.integer(at: index) : 0 } ?? 0
            let values = ref == 0 ? nil : try StringLeaf(try reading.array(ref), in: reading).values
            columns.append(
                try Column(
                    name: name, key: all[index], declared: types.integer(at: index), target: target, values: values))
        }
        guard Set(names).count == names.count else { throw .damaged(at: spec.ref, "two columns of one name") }
    }

    private func column(ofKey key: Int64, at ref: Int) throws(RealmFileError) -> Column {
        let found = columns.filter {
            $0.key == key || $0.slot == Column.slot(key) && Column.type($0.key) == Column.type(key)
        }
        guard let column = found.first, found.count == 1 else {
            throw .damaged(at: ref, "the primary key is not a column")
        }
        guard column.collection == .single, [.int, .string, .objectID, .uuid].contains(column.type) else {
            throw .damaged(at: ref, "a primary key of the type \(column.type)")
        }
        return column
    }
}

/// The tables of a file.
struct Tables {
    private(set) var all: [Table] = []

    /// Tables that are damaged are left out if the reading salvages.
    init(_ reading: FileReading) throws(RealmFileError) {
        guard let refs = reading.header.refs else { return }
        do throws(RealmFileError) {
            _ = try reading.array(refs.top)
            try readTables(refs.tables, names: try StringLeaf.names(refs.names, in: reading), in: reading)
        } catch {
            throw error.within(RealmFileError.Place(offset: Int(refs.top)))
        }
    }

    private mutating func readTables(
        _ ref: Int64, names: [[UInt8]], in reading: FileReading
    ) throws(RealmFileError) {
        let tables = try reading.array(ref)
        guard tables.hasRefs || tables.count == 0 else { throw .damaged(at: tables.ref, "tables without refs") }
        try tables.requireIntegers()
        guard names.count == tables.count else {
            throw .damaged(at: tables.ref, "\(tables.count) tables, and \(names.count) names")
        }
        var numbers: Set<Int64> = [], knownNames: Set<[UInt8]> = []
        for (index, name) in names.enumerated() {
            let ref = tables.integer(at: index)
            guard ref != 0, ref & 1 == 0 else { continue }
            try reading.salvaging(RealmFileError.Place(className: String(excerptOf: name))) {
                () throws(RealmFileError) in
                let table = try Table(name, at: ref, in: reading)
                guard !numbers.contains(table.number), !knownNames.contains(name) else {
                    throw .damaged(at: Int(ref), "the name or the number of another table")
                }
                numbers.insert(table.number)
                knownNames.insert(name)
                all.append(table)
            }
        }
    }
}
