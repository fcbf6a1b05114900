/// The points at which a merge changes from one way to another: the assumed costs of the ways, in pairs of instructions
/// that meet. The defaults are right for merging; tests use others so that every path is taken.
package struct MergeThresholds: Sendable {
    /// The cost of grouping one instruction, in pair visits.
    var groupingPairs = 4
    /// The cost of a block between barriers in addition to that of its instructions, in pair visits.
    var blockPairs = 64
    /// The most pairs that the first rows meet before anything is grouped.
    var firstRowPairs = 4096

    /// A block of a list with n and m operations goes to the grid if n · m is at most this times n + m.
    var gridFactor = 24
    /// The same where both sides only insert and erase, for which the grid has a faster way.
    var shiftGridFactor = 128
    /// How many operations the blocks below the first one may hold together, for every thousand pairs of the grid.
    var attemptsPerThousandPairs = 32

    package init() {}

    /// Everything is split as far as it can be; nothing is left to the grid but single pairs.
    package static let finest = {
        var thresholds = MergeThresholds(gridFactor: -1, attemptsPerThousandPairs: 1 << 20)
        (thresholds.groupingPairs, thresholds.blockPairs, thresholds.firstRowPairs) = (0, 0, 0)
        return thresholds
    }()
    /// Lists are left to the grid as a whole.
    package static let oneGrid = MergeThresholds(gridFactor: 1 << 20, attemptsPerThousandPairs: 0)

    /// - Parameter gridFactor: for all operations.
    init(gridFactor: Int, attemptsPerThousandPairs: Int) {
        self.gridFactor = gridFactor
        shiftGridFactor = gridFactor
        self.attemptsPerThousandPairs = attemptsPerThousandPairs
    }
}

/// The number of pairs of instructions that the lists of merges had, and of those that were visited.
package struct ListPairs: Sendable {
    package var all = 0
    package var visited = 0

    package init() {}

    package static func += (left: inout ListPairs, right: ListPairs) {
        left.all += right.all
        left.visited += right.visited
    }
}
