/// Finds out which operations on one element of the start survive, element by element (`Spec/Transform.md`,
/// section 13.2): first the updates and nested edits of both sides meet, in order; then, if a side erases the element,
/// what the other side still does to it is discarded, an erase included.
struct ElementResolution: BitwiseCopyable {
    /// The next of the block's shared elements.
    private var next = 0
    /// The current element: where its entries begin, the next one of the major side to merge, and where those of the
    /// minor side begin and end.
    private var first = 0
    private var row = 0
    private var middle = 0
    private var end = 0
    /// Those of the minor side that are updates: nested edits meet nothing else.
    private let updates: ScratchBuffer<UInt32>
    private var updateCount = 0

    private var rows: Range<Int> { first..<middle }
    private var columns: Range<Int> { middle..<end }

    init(_ block: ListBlock, _ memory: inout ScratchMemory) {
        updates = memory.take(block.sharedElements.isEmpty ? 0 : block.entryCount)
    }

    /// Goes on until all elements are through, or until the step is over. Elements of sub-blocks are left out: those
    /// are lists of their own.
    ///
    /// - Parameter visitedPairs: counts the pairs.
    /// - Returns: Whether all are through.
    mutating func advance(
        _ block: ListBlock, except subBlocks: SubBlockRegions, _ budget: inout PairBudget, _ visitedPairs: inout Int
    ) -> Bool {
        while true {
            while row < middle {
                if budget.isStepOver { return false }
                budget.countTime(columns.count)
                merge(block.operation(row), block)
                row += 1
            }
            applyErases(block)
            guard next < block.sharedElements.count else { return true }
            let entries = block.sharedElements[next]
            next += 1
            if !subBlocks.contains(block.region(of: Int(entries.first))) {
                begin(Int(entries.first)..<Int(entries.end), block)
                let pairs = pairs(block)
                visitedPairs += pairs
                // If they may not be visited, the merge is refused anyway.
                if pairs == 0 || !budget.reserve(pairs) { row = middle }
            }
        }
    }

    private mutating func begin(_ entries: Range<Int>, _ block: ListBlock) {
        (first, row, middle, end) = (entries.lowerBound, entries.lowerBound, entries.lowerBound, entries.upperBound)
        while block.side(middle) == 0 { middle += 1 }
        updateCount = 0
        for column in columns where block.sides[1].operations[block.operation(column)].kind == .update {
            updates[updateCount] = UInt32(block.operation(column))
            updateCount += 1
        }
    }

    /// The number of pairs of the element that meet.
    private func pairs(_ block: ListBlock) -> Int {
        rows.reduce(0) { sum, row in
            switch block.sides[0].operations[block.operation(row)].kind {
            case .erase: sum
            case .nested: sum + updateCount
            default: sum + columns.count
            }
        }
    }

    /// Merges a row with the columns, until it is discarded.
    private func merge(_ row: Int, _ block: ListBlock) {
        let (majors, minors) = (block.sides[0].operations, block.sides[1].operations)
        switch majors[row].kind {
        case .erase: return
        case .nested:
            for position in 0..<updateCount where !minors[updates[position]].discarded {
                ListGrid.updateNested(minors[updates[position]], &majors[row])
                if majors[row].discarded { return }
            }
        default:
            for entry in columns {
                let column = block.operation(entry)
                if minors[column].discarded { continue }
                switch minors[column].kind {
                case .update: ListGrid.updateUpdate(&majors[row], &minors[column])
                case .nested: ListGrid.updateNested(majors[row], &minors[column])
                default: break
                }
                if majors[row].discarded { return }
            }
        }
    }

    private mutating func applyErases(_ block: ListBlock) {
        let (majors, minors) = (block.sides[0].operations, block.sides[1].operations)
        let isErased = (
            rows.contains { majors[block.operation($0)].kind == .erase },
            columns.contains { minors[block.operation($0)].kind == .erase }
        )
        if isErased.0 { for column in columns { minors[block.operation(column)].discarded = true } }
        if isErased.1 { for row in rows { majors[block.operation(row)].discarded = true } }
        (first, row, middle, end) = (0, 0, 0, 0)
    }
}
