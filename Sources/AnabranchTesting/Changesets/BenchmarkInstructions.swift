import AnabranchCore

/// The instructions of the benchmark cases.
extension ChangesetWriter {
    mutating func createObject(_ className: String, _ key: Int) {
        write(.createObject(ObjectName(className: className, key: .int(Int64(key)))))
    }

    mutating func update(_ className: String, _ key: Int, _ field: String, to value: Int) {
        write(.update(path(className, key, field), .int(Int64(value))))
    }

    mutating func updateLink(_ className: String, _ key: Int, _ field: String, to target: (class: String, key: Int)) {
        let link = Payload.link(className: Array(target.class.utf8), key: .int(Int64(target.key)))
        write(.update(path(className, key, field), link))
    }

    /// Adds an Int column. The empty name is interned first: clients' tables have it, though no byte refers to it.
    mutating func addColumn(_ className: String, _ field: String) {
        intern([])
        write(.addColumn(className, field))
    }

    private func path(_ className: String, _ key: Int, _ field: String) -> FieldPath {
        FieldPath(object: ObjectName(className: className, key: .int(Int64(key))), field: field)
    }
}

/// One list in one object, as the benchmarks use it: the instructions on it, and its size.
struct ListWriter {
    /// The number of elements after everything written so far.
    var size: Int

    mutating func insert(_ value: Int, at index: Int, to changeset: inout ChangesetWriter) {
        changeset.write(.insert(element(index), .int(Int64(value)), size: UInt32(size)))
        size += 1
    }

    mutating func erase(at index: Int, to changeset: inout ChangesetWriter) {
        changeset.write(.erase(element(index), size: UInt32(size)))
        size -= 1
    }

    func move(from index: Int, to destination: Int, to changeset: inout ChangesetWriter) {
        changeset.write(.move(element(index), to: UInt32(destination), size: UInt32(size)))
    }

    func set(_ value: Int, at index: Int, to changeset: inout ChangesetWriter) {
        changeset.write(.update(element(index), .int(Int64(value)), size: UInt32(size)))
    }

    private func element(_ index: Int) -> FieldPath {
        FieldPath(object: ObjectName(className: "Doc"), field: "items", path: [.index(UInt32(index))])
    }
}
