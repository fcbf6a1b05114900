// Barriers: instructions that meet everything of their level, such as the erasure of an object among all instructions
// on the object. A barrier is a row or a column of its own, and between barriers the grid falls into blocks, which are
// split further one after the other.

extension GroupLevel {
    @inline(__always)
    fileprivate func isBarrier(_ instruction: Instruction) -> Bool {
        switch self {
        case .everything: instruction.kind == .eraseTable || instruction.kind == .eraseColumn
        case .objects: false
        case .object: instruction.kind == .eraseObject
        case .place(let depth): instruction.setsPlace(depth)
        }
    }

    /// The number of path elements that the instructions of the level share, if they share a field.
    fileprivate var depth: UInt32? { if case .place(let depth) = self { depth } else { nil } }
}

/// The blocks of the grid between barriers, and how far their merge has come.
///
/// They come row by row, which respects the order of rows and of columns.
struct BlockGrid: Sendable {
    /// Barriers next to each other, or other instructions between two barriers.
    fileprivate struct Run: Sendable {
        var indices: [InstructionIndex]
        var isBarrier: Bool
    }

    fileprivate let level: GroupLevel
    fileprivate var rows: [Run]
    fileprivate var columns: [Run]
    fileprivate var row = 0
    fileprivate var column = 0

    fileprivate init(
        _ rows: [InstructionIndex], _ columns: [InstructionIndex], _ level: GroupLevel,
        in arena: borrowing ChangesetArena
    ) {
        self.level = level
        self.rows = Self.runs(rows, level, in: arena)
        self.columns = Self.runs(columns, level, in: arena)
    }

    private static func runs(
        _ indices: [InstructionIndex], _ level: GroupLevel, in arena: borrowing ChangesetArena
    ) -> [Run] {
        var result: [Run] = []
        for index in indices {
            let isBarrier = level.isBarrier(arena[index])
            if let last = result.indices.last, result[last].isBarrier == isBarrier {
                result[last].indices.append(index)
            } else {
                result.append(Run(indices: [index], isBarrier: isBarrier))
            }
        }
        return result
    }

    /// The next block in which both sides have live instructions; nil at the end.
    fileprivate mutating func next(
        _ budget: inout PairBudget, in arena: borrowing ChangesetArena
    ) -> (rows: Run, columns: Run)? {
        while row < rows.count {
            rows[row].indices.removeAll { arena[$0].isDiscarded }
            if column == columns.count || rows[row].indices.isEmpty {
                (row, column) = (row + 1, 0)
                continue
            }
            columns[column].indices.removeAll { arena[$0].isDiscarded }
            budget.countLooks(rows[row].indices.count + columns[column].indices.count)
            column += 1
            if !columns[column - 1].indices.isEmpty { return (rows[row], columns[column - 1]) }
        }
        return nil
    }
}

extension Merge {
    /// Cuts a level into blocks; where the blocks would be too small, all pairs are visited.
    mutating func splitAtBarriers(
        _ rows: [InstructionIndex], _ columns: [InstructionIndex], _ level: GroupLevel, into work: inout DeferredWork,
        in arena: inout ChangesetArena
    ) throws(TransformError) {
        guard arena.contains(rows, columns, { level.isBarrier($0) }) else {
            return try splitBlock(rows, columns, level, into: &work, in: &arena)
        }
        let blocks = BlockGrid(rows, columns, level, in: arena)
        if costsLess(blocks, than: rows.count, columns.count) {
            work.blocks.append(blocks)
        } else {
            work.pairs.append(PairGroup(rows, columns))
        }
    }

    /// True if the blocks cost less than all pairs: each instruction is looked at in each of its blocks.
    private func costsLess(_ blocks: BlockGrid, than rows: Int, _ columns: Int) -> Bool {
        let (rowRuns, columnRuns) = (blocks.rows.count, blocks.columns.count)
        let looks = rows &* columnRuns &+ columns &* rowRuns
        return thresholds.blockPairs &* rowRuns &* columnRuns &+ thresholds.groupingPairs &* looks <= rows &* columns
    }

    mutating func run(_ blocks: consuming BlockGrid, in arena: inout ChangesetArena) throws(TransformError) {
        while let (rows, columns) = blocks.next(&budget, in: arena) {
            if isSmall(rows.indices, columns.indices) {
                try mergeSmall(rows.indices, columns.indices, in: &arena)
                if !budget.isStepOver { continue }
                return waiting.append(.blocks(blocks))
            }
            var work = DeferredWork()
            if rows.isBarrier || columns.isBarrier {
                work.pairs.append(PairGroup(rows.indices, columns.indices, depth: blocks.level.depth))
            } else {
                try splitBlock(rows.indices, columns.indices, blocks.level, into: &work, in: &arena)
            }
            waiting.append(.blocks(blocks))
            return wait(for: work)
        }
    }
}
