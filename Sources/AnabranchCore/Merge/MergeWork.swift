/// A piece of a merge that is still to be done, with the place where it goes on.
enum MergeWork: Sendable {
    case firstRows(FirstRows)
    case objects(rows: [InstructionIndex], columns: [InstructionIndex])
    case pairs(PairRuns)
    case sets(RawSetPairs)
    case blocks(BlockGrid)
    case lists(ListMerges)
    case everyPair(PairwiseGrid)
    case schemaRows(NaNSchemaRows)
    case affectedRows(NaNAffectedRows)
}

/// The work that grouping has found and not done: merges that do not depend on each other and can take long.
///
/// All groups of a block are found before any of this is merged. Work in which a pair can be refused comes first, in
/// the order of the rows: so a merge that the grid refuses early is refused early.
struct DeferredWork {
    var pairs: [PairGroup] = []
    var sets: [RawSetPairs] = []
    var blocks: [BlockGrid] = []
    /// Merges inside elements can be refused; those of the lists themselves only for too many pairs.
    var lists: [ListMergeTask] = []
}

extension Merge {
    /// Does a piece of work, or a part of it: then the rest waits again.
    mutating func run(_ work: consuming MergeWork, in arena: inout ChangesetArena) throws(TransformError) {
        switch consume work {
        case .firstRows(let rows): try run(rows, in: &arena)
        case .objects(let rows, let columns): wait(for: try grouped(.objects, rows, columns, in: &arena))
        case .pairs(let runs): try run(runs, in: &arena)
        case .sets(let sets): try run(sets, in: &arena)
        case .blocks(let blocks): try run(blocks, in: &arena)
        case .lists(let lists): try run(lists, in: &arena)
        case .everyPair(let grid): try run(grid, in: &arena)
        case .schemaRows(let rows): try run(rows, in: &arena)
        case .affectedRows(let rows): try run(rows, in: &arena)
        }
    }

    /// Puts the work that grouping has left on top of the work that waits.
    mutating func wait(for work: consuming DeferredWork) {
        if !work.lists.isEmpty { waiting.append(.lists(ListMerges(work.lists))) }
        for block in work.blocks.reversed() { waiting.append(.blocks(block)) }
        for sets in work.sets.reversed() { waiting.append(.sets(sets)) }
        if !work.pairs.isEmpty { waiting.append(.pairs(PairRuns(work.pairs))) }
    }
}
