import AnabranchCore

/// The classes of a file that an export can hold, with their objects.
struct ExportClasses {
    /// The classes in the order of their names' bytes.
    let all: [ClassContent]
    private let byNumber: [Int64: ClassContent]

    /// - Parameter count: called with the objects that are found, and the bytes of their keys.
    init(
        _ tables: Tables, in reading: FileReading,
        count: (_ objects: Int, _ keyBytes: Int) throws(RealmFileError) -> Void
    ) throws(RealmFileError) {
        var sound: [Table] = []
        for table in tables.all where table.isClass {
            let isSound = try reading.salvaging(table.place) { () throws(RealmFileError) in try Self.check(table) }
            if isSound { sound.append(table) }
        }
        sound.sort { $0.className.lexicographicallyPrecedes($1.className) }
        let numbers = Set(sound.map(\.number))
        var usable: [(Table, [Column])] = []
        for table in sound {
            var properties: [Column] = []
            for column in table.columns where column.key != table.keyColumn?.key {
                let isSound = try reading.salvaging(table.place(of: column)) { () throws(RealmFileError) in
                    try Self.check(column, targets: numbers)
                }
                if isSound { properties.append(column) }
            }
            usable.append((table, properties))
        }
        var all: [ClassContent] = []
        for (table, properties) in usable {
            all.append(try ClassContent(table, properties: properties, in: reading, count: count))
        }
        self.all = all
        byNumber = Dictionary(all.map { ($0.table.number, $0) }) { first, _ in first }
    }

    private static func check(_ table: Table) throws(RealmFileError) {
        guard String(validating: table.className, as: UTF8.self) != nil else {
            throw .damaged("the name of the class is not UTF-8")
        }
        guard table.keyColumn.map({ String(validating: $0.name, as: UTF8.self) != nil }) ?? true else {
            throw .damaged("the name of the primary key is not UTF-8")
        }
    }

    private static func check(_ column: Column, targets: Set<Int64>) throws(RealmFileError) {
        guard String(validating: column.name, as: UTF8.self) != nil else {
            throw .damaged("the name of the property is not UTF-8")
        }
        guard column.collection != .dictionary || column.hasStringKeys else {
            throw .damaged("a dictionary whose keys are not strings")
        }
        guard column.type == .link else { return }
        guard let target = column.target else { throw .damaged("links without a place among those that name a table") }
        guard targets.contains(target) else { throw .damaged("links to table \(target), which is no class here") }
    }

    /// The class that links lead to.
    func content(ofTable number: Int64?) throws(RealmFileError) -> ClassContent {
        guard let number else { throw .damaged("a link that does not say its class") }
        guard let content = byNumber[number] else {
            throw .damaged("a link to table \(number), which is no class here")
        }
        return content
    }

    /// The line that declares a class (`Spec/Export.md`, section 1).
    func declaration(_ content: ClassContent) -> ExportedClass {
        func property(_ column: Column) -> ExportedClass.Property {
            let target = column.type == .link ? column.target.flatMap { byNumber[$0]?.table.className } : nil
            return ExportedClass.Property(
                name: String(decoding: column.name, as: UTF8.self), type: column.type,
                isNullable: column.isNullable, collection: column.collection,
                target: target.map { String(decoding: $0, as: UTF8.self) })
        }
        return ExportedClass(
            name: String(decoding: content.table.className, as: UTF8.self), kind: content.table.kind,
            key: content.table.keyColumn.map(property), properties: content.properties.map(property))
    }
}
