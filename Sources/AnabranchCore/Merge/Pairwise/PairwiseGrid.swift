// The grid (`Spec/Transform.md`, section 2): rows are major instructions, columns are minor ones, and every pair of
// live ones meets once. Any order that respects that of rows and that of columns gives the same result; the folder
// `Indexed/` uses this to visit only the pairs that can have an effect.

/// Rows that meet columns, all pairs of them, and how far they have come.
struct PairwiseGrid: Sendable {
    /// A row that is on its way through the columns.
    private struct Row: Sendable {
        var index: InstructionIndex
        /// The position of the next column.
        var position = 0
        /// The column that caused the row to be prepended: it is discarded when the row has met the rest.
        var cause: InstructionIndex?
    }

    private let rows: [InstructionIndex]
    private var columns: [InstructionIndex]
    private let nan: NaNDirtiness?
    private var nextRow = 0
    /// The current row. A row that rule R8 prepends before it comes last, and goes first.
    private var current: [Row] = []
    /// The number of discarded columns that rows have passed over.
    private(set) var passedCount = 0
    /// The effects that rules had; nil if they are not recorded.
    private(set) var outcomes: [RuleOutcome]?

    init(
        rows: [InstructionIndex], columns: [InstructionIndex], nan: NaNDirtiness? = nil, isRecorded: Bool = false
    ) {
        self.rows = rows
        self.columns = columns
        self.nan = nan
        if isRecorded { outcomes = [] }
    }

    /// Goes on until all pairs have met, or until the step is over.
    ///
    /// - Returns: Whether all have met.
    mutating func advance(_ budget: inout PairBudget, in arena: inout ChangesetArena) throws(TransformError) -> Bool {
        while true {
            if current.isEmpty {
                guard nextRow < rows.count else { return true }
                current.append(Row(index: rows[nextRow]))
                nextRow += 1
            }
            guard try mergeRow(&budget, in: &arena) else {
                if budget.isStepOver { return false }
                continue
            }
            if let column = current.removeLast().cause { arena.discard(column) }
        }
    }

    /// Merges the last of the current rows with the live columns from its position on, until it is discarded.
    ///
    /// - Returns: Whether the row is through; if not, the step is over, or another row goes first.
    private mutating func mergeRow(
        _ budget: inout PairBudget, in arena: inout ChangesetArena
    ) throws(TransformError) -> Bool {
        var row = current[current.count - 1]
        var major = arena[row.index]
        guard !major.isDiscarded else { return true }
        let original = major
        while row.position < columns.count, !major.isDiscarded {
            if budget.isStepOver { return leave(row, major, in: &arena) }
            let column = columns[row.position]
            row.position += 1
            let minor = arena[column]
            if minor.isDiscarded {
                passedCount += 1
                budget.count()
            } else if major.addsLink(toErased: minor) {
                recordErasedLink(of: major, at: row.index, column, isOfMajor: true, in: &arena)
                let erase = arena.prependEraseColumn(of: major, before: column)
                columns.insert(erase, at: row.position - 1)
                budget.count(columns.count - row.position)
                major.discard()
            } else if minor.addsLink(toErased: major) {
                recordErasedLink(of: major, at: row.index, column, isOfMajor: false, in: &arena)
                let erase = arena.prependEraseColumn(of: minor, before: row.index)
                _ = leave(row, major, in: &arena)
                current.append(Row(index: erase, position: row.position, cause: column))
                return false
            } else if outcomes != nil {
                let pair = MeetingPair(major, at: row.index, column, in: arena)
                try Cell.merge(&major, with: column, &budget, in: &arena)
                if let outcome = pair.outcome(major, in: &arena) { outcomes?.append(outcome) }
            } else {
                try Cell.merge(&major, with: column, &budget, in: &arena)
                if let nan { nan.markDirty(major, arena[column], in: &arena) }
            }
        }
        if major.isDiscarded || !major.isUnchanged(from: original) { arena.store(major, at: row.index) }
        return true
    }

    private mutating func recordErasedLink(
        of major: Instruction, at row: InstructionIndex, _ column: InstructionIndex, isOfMajor: Bool,
        in arena: inout ChangesetArena
    ) {
        guard outcomes != nil else { return }
        let pair = MeetingPair(major, at: row, column, in: arena)
        outcomes?.append(pair.outcomeOfErasedLink(isOfMajor: isOfMajor, in: &arena))
    }

    /// Keeps the row for later.
    private mutating func leave(_ row: Row, _ major: Instruction, in arena: inout ChangesetArena) -> Bool {
        arena[row.index] = major
        current[current.count - 1] = row
        return false
    }
}

extension Merge {
    /// Lets every pair meet that is on one object, or on the schema; or really every one, if something of the schema is
    /// erased.
    mutating func waitForRecordedPairs(
        _ rows: [InstructionIndex], _ columns: [InstructionIndex], in arena: borrowing ChangesetArena
    ) {
        guard !arena.holdsErasure else {
            return waiting.append(.everyPair(PairwiseGrid(rows: rows, columns: columns, isRecorded: true)))
        }
        let rows = Dictionary(grouping: rows) { arena[$0].object }
        let groups = Dictionary(grouping: columns) { arena[$0].object }
        for (object, columns) in groups.sorted(by: { $0.value[0] > $1.value[0] }) {
            guard let rows = rows[object] else { continue }
            waiting.append(.everyPair(PairwiseGrid(rows: rows, columns: columns, isRecorded: true)))
        }
    }
}
