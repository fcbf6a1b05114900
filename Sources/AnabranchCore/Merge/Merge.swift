/// The way in which a merge finds the pairs that meet.
package enum MergeStrategy: Sendable {
    /// Visits the pairs that can have an effect.
    case indexed
    /// Visits every pair: the reference that the other one is checked against.
    case everyPair
    /// Visits every pair on one object, and records the outcome (`Merge.outcomes`).
    case recorded
}

/// Rewrites two lists of changesets that start from the same state, so that each can come after the other
/// (`Spec/Transform.md`; how it does so: `README.md` next to this file).
///
///     var merge = Merge()
///     merge.begin(local: local, incoming: incoming, in: arena)
///     while try !merge.advance(in: &arena, pairs: 100_000) { /* do something else for a while */ }
///
/// The size of the steps has no influence on the merged changesets, on which of them count as dirty, or on errors. An
/// unfinished merge can be dropped at any time, together with the arena. `run` takes all steps in one call. One value
/// serves any number of merges: it keeps its memory, and all its merges share one limit.
public struct Merge: ~Copyable, Sendable {
    /// The most pairs of instructions that one value's merges may visit. A pair takes 5 to 30 ns of one core, so this
    /// is one to four minutes.
    ///
    /// Other work that could grow faster than the instructions counts as pairs. Long runs on one list or one place cost
    /// few pairs, so honest clients stay far below.
    package static let pairVisitsMax = 1 << 33

    package var strategy: MergeStrategy
    let thresholds: MergeThresholds
    var budget: PairBudget
    /// The remaining work; the last piece is next.
    var waiting: [MergeWork] = []

    /// The groups of the objects, and for each instruction the next one of its group: memory that is kept.
    var objectGroups = GroupLists()
    var links: [InstructionIndex] = []
    var listMerger: ListMerger
    var tagRanks = TagRanks()
    /// The number of pairs that the lists had, and of those that were visited, in all merges of this value.
    package internal(set) var listPairs = ListPairs()
    /// The effects that rules had in recorded merges, in all merges of this value; object by object, and for each in
    /// the order of the grid.
    package internal(set) var outcomes: [RuleOutcome] = []

    /// A value that has not merged anything yet.
    public init() { self.init(strategy: .indexed) }

    /// - Parameter strategy: `everyPair` takes time in proportion to the product of both sides, and has no limit.
    package init(
        strategy: MergeStrategy = .indexed, thresholds: MergeThresholds = MergeThresholds(),
        pairsMax: Int = Merge.pairVisitsMax
    ) {
        self.strategy = strategy
        self.thresholds = thresholds
        budget = PairBudget(pairs: strategy == .everyPair ? .max : pairsMax)
        listMerger = ListMerger(thresholds: thresholds)
    }

    // MARK: Steps

    /// Begins a merge, and drops the rest of the previous one.
    ///
    /// - Parameters:
    ///   - local: The major side in order. Its changesets are the outer loop of the merge.
    ///   - incoming: The minor side. It is taken in the order of the changesets' versions, and in the order of the list
    ///     where versions are equal.
    ///   - arena: Holds the changesets. Nothing else may change them until the merge is finished.
    public mutating func begin(
        local: [ChangesetIndex], incoming: [ChangesetIndex], in arena: borrowing ChangesetArena
    ) {
        waiting.removeAll(keepingCapacity: true)
        listMerger.drop()
        tagRanks = TagRanks(of: local + incoming)
        let rows = arena.liveInstructions(of: local)
        let columns = arena.liveInstructions(of: arena.inVersionOrder(incoming))
        budget.countLooks(rows.count + columns.count)
        guard !rows.isEmpty, !columns.isEmpty else { return }
        if strategy == .recorded { return waitForRecordedPairs(rows, columns, in: arena) }
        let nan = arena.holdsNaN ? NaNDirtiness(rows: rows, columns: columns, in: arena) : nil
        if strategy == .everyPair {
            waiting.append(.everyPair(PairwiseGrid(rows: rows, columns: columns, nan: nan)))
        } else if let nan {
            waitForPairs(with: nan, rows, columns, in: arena)
        } else if arena.holdsErasure, arena.linksToErasedClass(rows, columns) {
            waiting.append(.everyPair(PairwiseGrid(rows: rows, columns: columns)))
        } else if let list = onlyList(rows, columns, in: arena) {
            waiting.append(.lists(list))
        } else {
            waiting.append(
                .firstRows(FirstRows(rows: rows, columns: columns, pairsMax: pairsOfFirstRows(rows, columns))))
        }
    }

    /// Continues the merge for a number of pair visits.
    ///
    /// - Parameters:
    ///   - arena: The one that the merge was begun with.
    ///   - pairs: About how many pairs of instructions to visit, at least one. A step can take longer, by one pass over
    ///     the instructions of both sides at most (`README.md`, "Steps").
    /// - Returns: Whether the merge is finished.
    /// - Throws: `TransformError`; both sides may then be partly changed, and the arena must be dropped.
    public mutating func advance(
        in arena: inout ChangesetArena, pairs: Int = .max
    ) throws(TransformError) -> Bool {
        budget.beginStep(pairs: pairs)
        do throws(TransformError) {
            while let work = waiting.popLast() {
                try run(work, in: &arena)
                if budget.isOverdrawn { throw TransformError(.tooManyPairs, "too many instructions conflict") }
                if budget.isStepOver { return waiting.isEmpty }
            }
        } catch {
            waiting.removeAll()
            throw error
        }
        return true
    }

    /// Begins a merge and takes all its steps.
    ///
    /// - Throws: `TransformError`; both sides may then be partly changed, and the arena must be dropped.
    public mutating func run(
        local: [ChangesetIndex], incoming: [ChangesetIndex], in arena: inout ChangesetArena
    ) throws(TransformError) {
        begin(local: local, incoming: incoming, in: arena)
        while try !advance(in: &arena) {}
    }
}

extension ChangesetArena {
    /// Merges two lists of changesets that start from the same state, in one step (`Merge.run`).
    ///
    /// - Throws: `TransformError`; both sides may then be partly changed, and the arena must be dropped.
    public mutating func merge(
        local: [ChangesetIndex], incoming: [ChangesetIndex]
    ) throws(TransformError) {
        try merge(local: local, incoming: incoming, strategy: .indexed)
    }

    package mutating func merge(
        local: [ChangesetIndex], incoming: [ChangesetIndex], strategy: MergeStrategy
    ) throws(TransformError) {
        var merge = Merge(strategy: strategy)
        try merge.run(local: local, incoming: incoming, in: &self)
    }
}
