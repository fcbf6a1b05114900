/// The grid of all pairs for two sides that only insert and erase (`Spec/Transform.md`, sections 6 and 13).
///
/// Such a pair has two outcomes: one operation stands before the other, which shifts by what the first adds to the
/// length of the list (R14, R19, R21), or both erase one element and are discarded. What stands before what is the
/// order of one number, so that a pair costs a comparison and two additions, and no branch that depends on where users
/// work.
enum ShiftGrid {
    typealias Operations = UnsafeMutableBufferPointer<ListOperation>

    /// The index, then inserts before erases, then the rank of an insert's tag.
    private struct Place: BitwiseCopyable {
        var order: Int64
        /// What the operation adds to the `order` of those behind it.
        let step: Int64

        static let oneIndex: Int64 = 1 << 33
        static let eraseBit: Int64 = 1 << 32

        init(_ operation: ListOperation) {
            let index = Int64(operation.index) * Self.oneIndex
            order = operation.kind == .erase ? index | Self.eraseBit : index | Int64(operation.tag)
            step = operation.kind == .erase ? -Self.oneIndex : Self.oneIndex
        }

        var index: UInt32 { UInt32(truncatingIfNeeded: order >> 33) }
        var isErase: Bool { order & Self.eraseBit != 0 }
    }

    private struct Column: BitwiseCopyable {
        var place: Place
        let number: Int
    }

    static func accepts(_ operations: Operations) -> Bool {
        operations.allSatisfy { $0.kind == .insert || $0.kind == .erase }
    }

    /// Merges every live major operation with every live minor one, in grid order.
    static func merge(major: Operations, minor: Operations) {
        withUnsafeTemporaryAllocation(of: Column.self, capacity: minor.count) { columns in
            var count = 0
            for number in minor.indices where !minor[number].discarded {
                columns.initializeElement(at: count, to: Column(place: Place(minor[number]), number: number))
                count += 1
            }
            // How many columns, from the first on, have met a row.
            var metCount = 0
            for row in major.indices where count > 0 && !major[row].discarded {
                var place = Place(major[row])
                let position = shift(&place, columns, count)
                major[row].dirty = true
                if position == count {
                    metCount = count
                    major[row].index = place.index
                } else {
                    metCount = metCount > position ? metCount - 1 : position
                    discard(&major[row])
                    discard(&minor[columns[position].number])
                    count -= 1
                    for next in position..<count { columns[next] = columns[next + 1] }
                }
            }
            for position in 0..<count {
                let number = columns[position].number
                minor[number].index = columns[position].place.index
                if position < metCount { minor[number].dirty = true }
            }
        }
    }

    private static func discard(_ operation: inout ListOperation) {
        operation.discarded = true
        operation.dirty = true
    }

    /// - Returns: The position of the column that erases the same element, or `count` if there is none.
    @inline(__always)
    private static func shift(_ row: inout Place, _ columns: UnsafeMutableBufferPointer<Column>, _ count: Int) -> Int {
        for position in 0..<count {
            let column = columns[position].place
            if row.order == column.order, row.isErase { return position }
            let rowIsBefore = (row.order &- column.order) >> 63
            columns[position].place.order = column.order &+ (row.step & rowIsBefore)
            row.order &+= column.step & ~rowIsBefore
        }
        return count
    }
}
