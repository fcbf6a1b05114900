package import AnabranchCore

/// A world of objects that a single writer fills at random.
package struct RandomWorld {
    private let hotSpot: HotSpot

    package init(_ random: inout SeededRandom) { hotSpot = HotSpot(&random) }

    /// Writes the schema and a few objects.
    package static func begin(_ transaction: WriteTransaction) throws {
        for shape in RandomSchema.classes { try transaction.add(shape) }
        for shape in RandomSchema.classes {
            for field in shape.fields { try transaction.add(field, to: shape.name) }
        }
        for key in 0..<2 { try transaction.create(RandomSchema.task.name, key: .int(Int64(key))) }
    }

    /// Writes the part of the schema that an application of flexible sync may bring: without objects that have no
    /// primary keys.
    package static func declare(_ transaction: WriteTransaction) throws {
        let shapes = RandomSchema.classes.filter { $0.name != RandomSchema.log.name }
        for shape in shapes { try transaction.add(shape) }
        for shape in shapes {
            for field in shape.fields where field.target != RandomSchema.log.name {
                try transaction.add(field, to: shape.name)
            }
        }
    }

    /// Makes one random change.
    package func edit(_ transaction: WriteTransaction, seed: UInt64) throws {
        var editor = RandomEditor(transaction, on: hotSpot, seed: seed)
        try editor.edit()
    }
}
