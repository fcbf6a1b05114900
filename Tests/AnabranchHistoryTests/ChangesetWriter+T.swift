import AnabranchCore
import AnabranchTesting

/// Changes of objects of class "T", which have an integer key, a field "n" that holds an integer, and a field "l" that
/// holds a list of integers.
extension ChangesetWriter {
    /// The class and its fields, as each client's first transaction declares them.
    static let schema = ChangesetWriter([
        .addTable("T"), .addColumn("T", "n"), .addColumn("T", "l", .int, .list),
    ]).bytes

    mutating func addTable(_ className: String = "T") { write(.addTable(className)) }

    mutating func eraseTable(_ className: String = "T") { write(.eraseTable(className)) }

    mutating func addColumn(_ field: String, linkTo target: String, in className: String = "T") {
        write(.addColumn(className, field, .link, nullable: true, target: target))
    }

    mutating func eraseColumn(_ field: String) { write(.eraseColumn("T", field)) }

    mutating func create(_ object: Int64, in className: String = "T") {
        write(.createObject(ObjectName(className: className, key: .int(object))))
    }

    mutating func erase(_ object: Int64) { write(.eraseObject(ObjectName(className: "T", key: .int(object)))) }

    mutating func set(_ object: Int64, to value: Int64, field: String = "n") {
        write(.update(path(object, field), .int(value)))
    }

    mutating func setNull(_ object: Int64, field: String) { write(.update(path(object, field), .null)) }

    mutating func add(_ object: Int64, amount: Int64) { write(.addInteger(path(object, "n"), amount)) }

    mutating func listSet(_ object: Int64, at index: Int, to value: Int64, size: Int) {
        write(.update(element(object, index), .int(value), size: UInt32(size)))
    }

    mutating func listInsert(_ object: Int64, at index: Int, value: Int64, size: Int) {
        write(.insert(element(object, index), .int(value), size: UInt32(size)))
    }

    mutating func listMove(_ object: Int64, from index: Int, to destination: Int, size: Int) {
        write(.move(element(object, index), to: UInt32(destination), size: UInt32(size)))
    }

    mutating func listErase(_ object: Int64, at index: Int, size: Int) {
        write(.erase(element(object, index), size: UInt32(size)))
    }

    /// A changeset that sets field "n" of an object.
    static func setting(_ object: Int64, to value: Int64) -> [UInt8] {
        var changeset = ChangesetWriter()
        changeset.set(object, to: value)
        return changeset.bytes
    }

    private func path(_ object: Int64, _ field: String) -> FieldPath {
        FieldPath(object: ObjectName(className: "T", key: .int(object)), field: field)
    }

    private func element(_ object: Int64, _ index: Int) -> FieldPath {
        FieldPath(
            object: ObjectName(className: "T", key: .int(object)), field: "l", path: [.index(UInt32(index))])
    }
}
