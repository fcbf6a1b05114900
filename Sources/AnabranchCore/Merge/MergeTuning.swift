/// What the ways to merge are assumed to cost. The defaults are right for merging; tests use others so that every path
/// is taken.
package struct MergeThresholds: Sendable {
    /// For how many pairs each instruction stands that has to be grouped.
    var groupingPairs = 4
    /// For how many pairs a block between wide instructions stands, beside its instructions.
    var blockPairs = 64
    /// The cost in pairs of an index that is short.
    var frontPairs = 4096

    /// A block of a list with n and m operations goes to the grid if n · m is at most this times n + m.
    var gridFactor = 24
    /// The same where both sides only insert and erase, for which the grid has a faster way.
    var shiftGridFactor = 128
    /// How many operations the blocks below the first one may hold together, for every thousand pairs of the grid.
    var attemptsPerThousandPairs = 32

    package init() {}

    /// Everything is split as far as it can be; nothing is left to the grid but single pairs.
    package static let finest = {
        var tuning = MergeThresholds(gridFactor: -1, attemptsPerThousandPairs: 1 << 20)
        (tuning.groupingPairs, tuning.blockPairs, tuning.frontPairs) = (0, 0, 0)
        return tuning
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

/// How many pairs of instructions the lists of merges had, and how many of them were visited.
package struct ListPairs: Sendable {
    package var all = 0
    package var visited = 0

    package init() {}

    package static func += (left: inout ListPairs, right: ListPairs) {
        left.all += right.all
        left.visited += right.visited
    }
}
