import AnabranchCore
import AnabranchHistory
import AnabranchSQLite
import AnabranchTesting
import Foundation

/// The content of an app before it is attacked: objects of one class, with a number `n`, a text `t`, a fraction `d`
/// and, perhaps, bytes `b` that nothing compresses.
struct AttackedObjects: Sendable {
    static let className = "Item"

    var count: Int
    var textBytes = 200
    var dataBytes = 0

    /// Makes the class, for clients that come before there is an object.
    static var schema: [UInt8] {
        ChangesetWriter([
            .addTable(className), .addColumn(className, "n"), .addColumn(className, "t", .string),
            .addColumn(className, "d", .double), .addColumn(className, "b", .binary),
        ]).bytes
    }

    /// A changeset that makes objects whose numbers are 0.
    static func creating(
        _ keys: some Sequence<Int>, _ field: String? = nil, _ value: Payload? = nil
    ) -> [UInt8] {
        var changeset = ChangesetWriter()
        for key in keys {
            let object = ObjectName(className: className, key: .int(Int64(key)))
            changeset.write(.createObject(object))
            if let field, let value { changeset.write(.update(FieldPath(object: object, field: field), value)) }
        }
        return changeset.bytes
    }

    /// Writes the objects to the file of an app.
    func write(to directory: URL, app: AttackedApp) throws {
        let store = try SQLiteStore(directory: directory.path)
        let file = try SyncedFile(path: VirtualPath(app.rawValue), store: store)
        try file.write(at: 1) { transaction in
            try transaction.addClass(Self.className, key: "_id", .int)
            try transaction.addColumn("n", .int, to: Self.className)
            try transaction.addColumn("t", .string, to: Self.className)
            try transaction.addColumn("d", .double, to: Self.className)
            try transaction.addColumn("b", .binary, to: Self.className)
        }
        var random = SeededRandom(scrambling: UInt64(count))
        for first in stride(from: 0, to: count, by: 500) {
            try file.write(at: 2) { transaction in
                for id in first..<min(first + 500, count) {
                    let data = (0..<dataBytes / 8).flatMap { _ in withUnsafeBytes(of: random.next(), Array.init) }
                    try transaction.create(
                        Self.className, key: .int(Int64(id)),
                        [
                            "n": .int(Int64(id)), "d": .double(Double(id)), "b": .binary(data),
                            "t": .string(Array(repeating: UInt8(ascii: "a"), count: textBytes)),
                        ])
                }
            }
        }
        try store.close()
    }
}
