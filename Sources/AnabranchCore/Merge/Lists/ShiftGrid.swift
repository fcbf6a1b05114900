/// The grid of all pairs for two sides that only insert and erase (`Spec/Transform.md`, section 13.5).
///
/// Such a pair has two outcomes: one operation stands before the other, which shifts by what the first adds to the
/// length of the list, or both erase one element and are discarded. So R14, R19 and R21 are implemented here a second
/// time, as one comparison of numbers: a pair costs that and two additions, and no branch that depends on where users
/// work. `ListArithmeticTests` compares it with `ListArithmetic`.
struct ShiftGrid: BitwiseCopyable {
    /// The index, then inserts before erases (R19), then the rank of an insert's tag (R14).
    private struct SortKey: BitwiseCopyable {
        var order: Int64
        /// The amount that the operation adds to the `order` of those after it.
        let step: Int64

        static let oneIndex: Int64 = 1 << 33
        static let eraseBit: Int64 = 1 << 32

        init(_ operation: ListOperation) {
            let index = Int64(operation.index) * Self.oneIndex
            order = operation.kind == .erase ? index | Self.eraseBit : index | Int64(operation.tag)
            step = operation.kind == .erase ? -Self.oneIndex : Int64(operation.count) * Self.oneIndex
        }

        var index: UInt32 { UInt32(truncatingIfNeeded: order >> 33) }
        var isErase: Bool { order & Self.eraseBit != 0 }
    }

    private struct Column: BitwiseCopyable {
        var key: SortKey
        let number: Int
    }

    private let operations: ScratchBuffer<ListOperation>
    /// Those that are not discarded, `count` of them.
    private let columns: ScratchBuffer<Column>
    private var count = 0
    /// The number of columns, from the first on, that have met a row.
    private var metCount = 0

    init(columns operations: ScratchBuffer<ListOperation>, _ memory: inout ScratchMemory) {
        self.operations = operations
        columns = memory.take(operations.count)
        for number in operations.indices where !operations[number].discarded {
            columns[count] = Column(key: SortKey(operations[number]), number: number)
            count += 1
        }
    }

    /// Merges a live row with every live column.
    @inline(__always)
    mutating func merge(_ row: inout ListOperation) {
        if count == 0 { return }
        var key = SortKey(row)
        let position = shift(&key)
        row.dirty = true
        if position == count {
            metCount = count
            row.index = key.index
        } else {
            metCount = metCount > position ? metCount - 1 : position
            row.discard()
            operations[columns[position].number].discard()
            count -= 1
            columns.move(position + 1..<count + 1, to: position)
        }
    }

    /// Writes the indices of the columns, when all rows are merged.
    func finish() {
        for position in 0..<count {
            let number = columns[position].number
            operations[number].index = columns[position].key.index
            if position < metCount { operations[number].dirty = true }
        }
    }

    /// - Returns: The position of the column that erases the same element (R21), or `count` if there is none.
    @inline(__always)
    private func shift(_ row: inout SortKey) -> Int {
        for position in 0..<count {
            let column = columns[position].key
            if row.order == column.order, row.isErase { return position }
            let rowIsBefore = (row.order &- column.order) >> 63
            columns[position].key.order = column.order &+ (row.step & rowIsBefore)
            row.order &+= column.step & ~rowIsBefore
        }
        return count
    }
}
