/// Merges two runs of operations on one list, with the result of the grid of all pairs and at near-linear cost
/// (`Spec/Transform.md`, section 13.5).
///
/// A merge goes in steps: `begin`, then `advance` until it is finished. One value serves any number of merges, one
/// after the other, and keeps its memory between them.
///
/// Sendable: all buffers are views of the memory that the value owns.
struct ListMerger: ~Copyable, @unchecked Sendable {
    /// The two runs that are merged.
    private struct Sides {
        let runs: ListRuns
        let summaries: (major: RunSummary, minor: RunSummary)
        /// True if blocks are merged apart: then dirty flags follow from the whole.
        let isSplit: Bool
    }

    /// A piece of a merge that is still to be done.
    enum Work: BitwiseCopyable {
        case block(ListRuns)
        case erasing(ListRuns)
        case rest(ListCut)
        case survivors(ListSurvivors)
        case replay(ScratchBuffer<BlockReplay>)
        case order(ScratchBuffer<BlockOrder>)
        case merge(ScratchBuffer<BlockMerge>)
        case grid(ListGrid)
    }

    private let thresholds: MergeThresholds
    var memory = ScratchMemory()
    private var sides: Sides?
    /// The work that is still to be done; the last piece is next.
    private var waiting: [Work] = []
    /// The number of operations that blocks may still hold together, so that attempts do not cost more than the grid.
    private var attempts = 0
    private var gridFactor = 0
    /// The number of pairs of the current merge that were left to the grid, or to visits of all that both sides do to
    /// one element.
    var visitedPairs = 0

    init(thresholds: MergeThresholds = MergeThresholds()) { self.thresholds = thresholds }

    // MARK: Steps

    /// Begins to rewrite both sides' operations, all of them live, so that each side can come after the other. An
    /// earlier merge that is not finished is dropped.
    ///
    /// The operations are rewritten where they stand, and have to stay there until the merge is finished or dropped.
    ///
    /// - Returns: Whether the two sides fit each other. If not, the general grid has to report it.
    mutating func begin(major: ScratchBuffer<ListOperation>, minor: ScratchBuffer<ListOperation>) -> Bool {
        drop()
        guard let size = RunSummary.startSize(major, minor), let one = RunSummary(major, size),
            let other = RunSummary(minor, size)
        else { return false }
        let runs = ListRuns(major: major, minor: minor, size: size)
        visitedPairs = 0
        gridFactor = one.isShifting && other.isShifting ? thresholds.shiftGridFactor : thresholds.gridFactor
        attempts = runs.count + runs.pairs * thresholds.attemptsPerThousandPairs / 1000
        let isSplit = !isSmall(runs) && one.isDecided(by: other) && other.isDecided(by: one)
        sides = Sides(runs: runs, summaries: (one, other), isSplit: isSplit)
        // A factor that makes everything small leaves all to the grid.
        if !isSplit { attempts = 0 }
        wait(for: isSplit && one.isMostlyErasing ? .erasing(runs) : .block(runs))
        return true
    }

    /// Continues until the merge is finished, or until the step is over.
    ///
    /// - Returns: Whether it is finished. If the budget is overdrawn, its result must not be used.
    mutating func advance(_ budget: inout PairBudget) -> Bool {
        while let work = waiting.popLast() {
            run(work, &budget)
            if budget.isStepOver, !waiting.isEmpty { return false }
        }
        finish()
        return true
    }

    /// Forgets the current merge.
    mutating func drop() {
        waiting.removeAll(keepingCapacity: true)
        sides = nil
        memory.releaseAll()
    }

    private func finish() {
        guard let sides else { return }
        let (major, minor) = (sides.runs.major, sides.runs.minor)
        if sides.isSplit {
            setDirty(major, with: minor)
            setDirty(minor, with: major)
        }
        setPriorSizes(major, sides.runs.size, sides.summaries.minor.growth)
        setPriorSizes(minor, sides.runs.size, sides.summaries.major.growth)
    }

    mutating func wait(for work: Work) { waiting.append(work) }

    private mutating func run(_ work: Work, _ budget: inout PairBudget) {
        switch work {
        case .block(let runs): mergeBlock(runs, &budget)
        case .erasing(let runs): mergeErasing(runs, &budget)
        case .rest(let cut): mergeRest(cut)
        case .survivors(let survivors):
            survivors.putBack()
            memory.release(survivors.mark)
        case .replay(let replay): run(replay, &budget)
        case .order(let order): run(order, &budget)
        case .merge(let merge): run(merge, &budget)
        case .grid(let grid): run(grid, &budget)
        }
    }

    func isSmall(_ runs: ListRuns) -> Bool { runs.pairs <= gridFactor * runs.count }

    /// For each operation of a side, the index at which its element stood at the start, `UInt32.max` if the side
    /// inserted it; nil if the two sides do not fit each other.
    ///
    /// Nested edits of both sides concern one element if these are equal, and may then conflict below it.
    mutating func startIndices(
        of operations: ScratchBuffer<ListOperation>, with other: ScratchBuffer<ListOperation>
    ) -> [UInt32]? {
        guard let size = RunSummary.startSize(operations, other), RunSummary(operations, size) != nil else {
            return nil
        }
        let mark = memory.mark
        defer { memory.release(mark) }
        let side = ListSide(operations, &memory)
        var replay = SideReplay(side, size: size, &memory)
        var budget = PairBudget(pairs: .max)
        budget.beginStep(pairs: .max)
        _ = replay.advance(&budget)
        var indices = [UInt32](repeating: .max, count: operations.count)
        for number in indices.indices where operations[number].kind != .insert {
            let element = side.replayed[number].target
            indices[number] = element.isOwn ? indices[element.operation] : element
        }
        return indices
    }

    // MARK: Blocks

    private mutating func mergeBlock(_ runs: ListRuns, _ budget: inout PairBudget) {
        if runs.isEmpty { return }
        if isSmall(runs) || attempts < runs.count { return mergeGrid(runs, &budget) }
        attempts -= runs.count
        let mark = memory.mark
        let replay = memory.take(1, of: BlockReplay.self)
        replay[0] = BlockReplay(runs, mark, &memory)
        run(replay, &budget)
    }

    // MARK: Grids

    private mutating func mergeGrid(_ runs: ListRuns, _ budget: inout PairBudget) {
        visitedPairs += runs.pairs
        guard budget.reserve(runs.pairs) else { return }
        run(ListGrid(runs, &memory), &budget)
    }

    /// Merges runs at once: for few pairs.
    mutating func mergeSmall(_ runs: ListRuns, _ budget: inout PairBudget) {
        visitedPairs += runs.pairs
        guard budget.reserve(runs.pairs) else { return }
        budget.countTime(runs.pairs)
        var grid = ListGrid(runs, &memory)
        grid.mergeAll()
        memory.release(grid.mark)
    }

    private mutating func run(_ grid: ListGrid, _ budget: inout PairBudget) {
        var grid = grid
        guard grid.advance(&budget) else { return wait(for: .grid(grid)) }
        memory.release(grid.mark)
    }

    // MARK: Cuts

    /// Cuts the longer run in two and merges one half after the other.
    mutating func mergeHalves(_ runs: ListRuns, _ budget: inout PairBudget) {
        if runs.isEmpty { return }
        if isSmall(runs) || runs.count == 2 { return mergeGrid(runs, &budget) }
        let cut = ListCut(halvesOf: runs)
        wait(for: .rest(cut))
        wait(for: .block(cut.first))
    }

    /// The number of operations of the minor side that meet the major side first, to see what is left of it.
    private static let firstColumns = 4

    /// Merges runs whose major one may be discarded soon: then the grid would cost little (section 13.8).
    private mutating func mergeErasing(_ runs: ListRuns, _ budget: inout PairBudget) {
        guard runs.minor.count > 2 * Self.firstColumns else { return mergeBlock(runs, &budget) }
        let cut = ListCut(runs, firstColumns: Self.firstColumns)
        wait(for: .rest(cut))
        mergeGrid(cut.first, &budget)
    }

    /// Merges what is left when the first part of a cut is merged.
    private mutating func mergeRest(_ cut: ListCut) {
        let survivors = ListSurvivors(of: cut.whole, &memory)
        let runs = cut.rest(with: survivors.live)
        let isErasing = cut.isErasing && 2 * survivors.live.count < cut.whole.count
        wait(for: .survivors(survivors))
        wait(for: isErasing ? .erasing(runs) : .block(runs))
    }
}
