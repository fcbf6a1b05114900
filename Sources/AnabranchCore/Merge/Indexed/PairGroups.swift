// Rows that meet columns one by one, in groups that cannot meet each other.

/// Rows and columns that have to meet, each row all of the columns.
struct PairGroup: Sendable {
    let rows: [InstructionIndex]
    fileprivate var columns: LiveColumns
    /// The number of path elements that lead to the place that all are about, if at least one side only sets it.
    private let depth: UInt32?
    /// Takes over from `columns` once rows have passed many that they leave alone.
    fileprivate var placeColumns: PlaceColumns?

    init(_ rows: [InstructionIndex], _ columns: [InstructionIndex], depth: UInt32? = nil) {
        self.rows = rows
        self.columns = LiveColumns(columns)
        self.depth = depth
    }

    /// - Parameter pairs: The cost of grouping the instructions: that many pairs may be visited without effect.
    fileprivate func placeDepth(after pairs: Int) -> UInt32? {
        placeColumns == nil && columns.visitedInVain > pairs ? depth : nil
    }
}

/// Groups whose pairs are visited, each in its order, and altogether about in the order of their rows.
///
/// That order is the one of the instructions in the arena, except for those decoded or prepended later: only the rows
/// after such a one in its own group have to wait for it.
struct PairRuns: Sendable {
    private struct Turn: Comparable {
        let turn: InstructionIndex
        let group: Int
        let row: Int

        static func < (left: Turn, right: Turn) -> Bool {
            (left.turn, left.group, left.row) < (right.turn, right.group, right.row)
        }
    }

    fileprivate var groups: [PairGroup]
    private let turns: [Turn]
    private var next = 0
    /// The position of the next column of the current row.
    fileprivate var position = 0

    init(_ groups: [PairGroup]) {
        self.groups = groups
        turns = groups.count < 2 ? [] : Self.turns(of: groups)
    }

    private static func turns(of groups: [PairGroup]) -> [Turn] {
        var turns: [Turn] = []
        for (number, group) in groups.enumerated() {
            var turn = InstructionIndex(0)
            for (position, row) in group.rows.enumerated() {
                turn = max(turn, row)
                turns.append(Turn(turn: turn, group: number, row: position))
            }
        }
        return turns.sorted()
    }

    /// The current row and its group; nil when all rows are through.
    @inline(__always)
    fileprivate var current: (group: Int, row: InstructionIndex)? {
        if groups.count == 1 { return next < groups[0].rows.count ? (0, groups[0].rows[next]) : nil }
        guard next < turns.count else { return nil }
        return (turns[next].group, groups[turns[next].group].rows[turns[next].row])
    }

    @inline(__always)
    fileprivate mutating func nextRow() {
        next += 1
        position = 0
    }
}

/// The first rows meet all columns, for no longer than an index of a short merge would take (`Spec/Transform.md`,
/// section 13.8).
///
/// A peer's mistakes mostly show there, and where most is discarded, not much is left to do.
struct FirstRows: Sendable {
    private let rows: [InstructionIndex]
    fileprivate var columns: LiveColumns
    fileprivate let pairsMax: Int
    fileprivate var next = 0
    fileprivate var position = 0
    /// The pairs that the budget had left at the start.
    fileprivate var start: Int?

    init(rows: [InstructionIndex], columns: [InstructionIndex], pairsMax: Int) {
        self.rows = rows
        self.columns = LiveColumns(columns)
        self.pairsMax = pairsMax
    }

    fileprivate var current: InstructionIndex? { next < rows.count ? rows[next] : nil }
    fileprivate var rest: [InstructionIndex] { Array(rows[next...]) }
}

extension Merge {
    mutating func run(_ runs: consuming PairRuns, in arena: inout ChangesetArena) throws(TransformError) {
        while let (group, row) = runs.current {
            let position =
                if runs.groups[group].placeColumns == nil {
                    try mergeRow(row, &runs.groups[group].columns, from: runs.position, in: &arena)
                } else {
                    try mergeRow(row, &runs.groups[group].placeColumns, from: runs.position, in: &arena)
                }
            if let position {
                runs.position = position
                return waiting.append(.pairs(runs))
            }
            changeOver(&runs.groups[group], in: arena)
            runs.nextRow()
        }
        for group in runs.groups { group.placeColumns?.finish(in: &arena) }
    }

    /// Switches to the tree where most pairs do nothing.
    private mutating func changeOver(_ group: inout PairGroup, in arena: borrowing ChangesetArena) {
        let columns = group.columns.indices
        guard let depth = group.placeDepth(after: cost(ofGrouping: group.rows, columns)) else { return }
        tagRanks.makeReady(in: arena)
        let live = columns.filter { !arena[$0].isDiscarded }
        group.placeColumns = PlaceColumns(live, depth: depth, tagRanks, in: arena)
        budget.countTime(columns.count)
    }

    /// Merges a row with the columns that it conflicts with, from a position on, until it is discarded, or until the
    /// step is over.
    ///
    /// - Returns: Where to go on; nil if the row is through.
    private mutating func mergeRow(
        _ row: InstructionIndex, _ columns: inout PlaceColumns?, from start: Int, in arena: inout ChangesetArena
    ) throws(TransformError) -> Int? {
        var major = arena[row]
        guard !major.isDiscarded, var place = columns.take() else { return nil }
        defer { columns = place }
        let original = major
        let search = place.search(for: major, rank: tagRanks[major.owner], in: arena)
        var position = start
        var end: Int?
        while end == nil {
            if budget.isStepOver { return position }
            budget.count(place.pairsOfSearch)
            guard let found = place.first(search, from: position) else { break }
            try Cell.merge(&major, with: found.column, &budget, in: &arena)
            if arena[found.column].isDiscarded { place.remove(found.position, in: arena) }
            if major.isDiscarded { end = found.position }
            position = found.position + 1
        }
        place.add(&major, upTo: end, in: &arena)
        if major.isDiscarded || !major.isUnchanged(from: original) { arena.store(major, at: row) }
        return nil
    }

    mutating func run(_ rows: consuming FirstRows, in arena: inout ChangesetArena) throws(TransformError) {
        let start = rows.start ?? budget.left
        rows.start = start
        // A row that was begun goes to its end.
        while let row = rows.current, rows.position > 0 || start - budget.left < rows.pairsMax {
            if let position = try mergeRow(row, &rows.columns, from: rows.position, in: &arena) {
                rows.position = position
                return waiting.append(.firstRows(rows))
            }
            rows.next += 1
            rows.position = 0
        }
        let (rest, columns) = (rows.rest, rows.columns.live(in: arena))
        guard !rest.isEmpty, !columns.isEmpty else { return }
        wait(for: try grouped(arena.holdsErasure ? .everything : .objects, rest, columns, in: &arena))
    }

    /// Merges each row with each column, all at once: for few pairs.
    mutating func mergeSmall(
        _ rows: [InstructionIndex], _ columns: [InstructionIndex], in arena: inout ChangesetArena
    ) throws(TransformError) {
        var columns = LiveColumns(columns)
        for row in rows { _ = try mergeRow(row, &columns, from: 0, mayPause: false, in: &arena) }
    }

    /// Merges a row with each column from a position on, until it is discarded, or until the step is over.
    ///
    /// - Returns: Where to go on; nil if the row is through.
    private mutating func mergeRow(
        _ row: InstructionIndex, _ columns: inout LiveColumns, from start: Int, mayPause: Bool = true,
        in arena: inout ChangesetArena
    ) throws(TransformError) -> Int? {
        var major = arena[row]
        if major.isDiscarded { return nil }
        let original = major
        var (passed, discarded, position) = (0, 0, start)
        let count = columns.indices.count
        while position < count, !major.isDiscarded {
            if mayPause, budget.isStepOver { break }
            let column = columns.indices[position]
            position += 1
            if arena[column].isDiscarded {
                passed += 1
            } else if !major.sharesObject(with: arena[column]) {
                budget.count()
            } else {
                try Cell.merge(&major, with: column, &budget, in: &arena)
                if arena[column].isDiscarded { discarded += 1 }
            }
        }
        budget.count(passed)
        columns.count(passed: passed, discarded: discarded, visited: position - start)
        if major.isDiscarded || !major.isUnchanged(from: original) { arena.store(major, at: row) }
        if position < count, !major.isDiscarded { return position }
        columns.tidy(in: arena)
        return nil
    }
}

extension Instruction {
    /// True if both are on one object, or one of them is on none.
    @inline(__always)
    fileprivate func sharesObject(with other: Instruction) -> Bool {
        object == other.object || object == .none || other.object == .none
    }
}
