import AnabranchCore
import AnabranchTesting

/// The uploads of attackers, all of them about one object.
enum AttackChangesets {
    static let className = "Target"
    private static let object = ObjectName(className: className, key: .int(1))
    private static let field = FieldPath(object: object, field: "n")

    private static func item(_ index: UInt32) -> FieldPath {
        FieldPath(object: object, field: "l", path: [.index(index)])
    }

    private static let columns: [NamedInstruction] = [
        .addTable(className), .addColumn(className, "n"), .addColumn(className, "d", .binary, .dictionary),
        .addColumn(className, "f", .double), .addColumn(className, "l", .null, nullable: true, .list),
    ]
    private static let creation: [NamedInstruction] = [.createObject(object), .insert(item(0), .int(0), size: 0)]

    /// Makes the class, and the object; its list has one element.
    static var start: [UInt8] { ChangesetWriter(columns + creation).bytes }

    /// The parts of `start`, for clients that have to ask for objects before they make one.
    static var schema: [UInt8] { ChangesetWriter(columns).bytes }
    static var firstObject: [UInt8] { ChangesetWriter(creation).bytes }

    static func additions(_ count: Int) -> [UInt8] {
        ChangesetWriter(Array(repeating: .addInteger(field, 1), count: count)).bytes
    }

    static func updates(_ count: Int) -> [UInt8] {
        ChangesetWriter(Array(repeating: .update(field, .int(7)), count: count)).bytes
    }

    /// Sets a field to NaN, which is equal to nothing, not even to itself.
    static var noNumber: [UInt8] {
        ChangesetWriter([.update(FieldPath(object: object, field: "f"), .double(.nan))]).bytes
    }

    /// Lengthens the list of one element, and makes that a list again and again.
    static func newLists(_ count: Int) -> [UInt8] {
        ChangesetWriter(
            [.insert(item(1), .int(0), size: 1)] + Array(repeating: .update(item(0), .list, size: 2), count: count)
        ).bytes
    }

    /// Sets an entry of the dictionary to zeros.
    static func value(_ number: Int, bytes: Int) -> [UInt8] {
        let place = FieldPath(object: object, field: "d", path: [.name("k\(number)")])
        return ChangesetWriter([.update(place, .binary([UInt8](repeating: 0, count: bytes)))]).bytes
    }

    static func longName(_ megabytes: Double) -> [UInt8] {
        ChangesetWriter([
            .createObject(ObjectName(className: String(repeating: "x", count: Int(megabytes * 1e6)), key: .int(1)))
        ]).bytes
    }
}
