import AnabranchTesting
import Testing

@testable import AnabranchCore

/// The fast way to merge against the plain grid of every pair: bytes, flags and refusals are the same.
@Suite struct StrategyTests {
    @Test(arguments: [false, true])
    func indexedMergeDoesWhatTheGridDoes(_ isCareful: Bool) throws {
        var refusals = 0
        let seeds = Seeds.upTo(3000)
        for seed in seeds {
            let grid = try Self.outcome(seed: seed, isCareful: isCareful, .everyPair)
            for thresholds in [MergeThresholds(), .finest] {
                let indexed = try Self.outcome(seed: seed, isCareful: isCareful, .indexed, thresholds)
                #expect(
                    grid == indexed,
                    """
                    \(RuleForms.tieOfInserts)
                    \(Seeds.repeatCommand("indexedMergeDoesWhatTheGridDoes", seed: seed))
                    """)
            }
            if grid == .refused { refusals += 1 }
        }
        // Both kinds of outcome are worth comparing.
        #expect(seeds.count == 1 || (1..<seeds.count * 9 / 10).contains(refusals))
    }

    /// Merges several changesets on each side, in one to three runs.
    private static func outcome(
        seed: UInt64, isCareful: Bool, _ strategy: MergeStrategy,
        _ thresholds: MergeThresholds = MergeThresholds()
    ) throws -> Outcome {
        var random = RandomSteps(seed: seed)
        random.isCareful = isCareful
        func side() -> [[UInt8]] {
            (0..<Int.random(in: 1...6, using: &random.random)).map { _ in
                let steps = random.steps(.random(in: 0...12, using: &random.random))
                return changeset(steps, strings: random.random.isOne(in: 2) ? .first : .inline)
            }
        }
        let (local, incoming) = (side(), side())
        let cut = Int.random(in: 0...incoming.count, using: &random.random)
        var arena = ChangesetArena()
        var merge = Merge(strategy: strategy, thresholds: thresholds)
        do {
            try arena.mergeRuns(local, incoming, runs: [0..<cut, cut..<incoming.count], with: &merge)
        } catch is TransformError {
            return .refused
        }
        return Outcome(of: arena)
    }

    /// Many instructions on one object, so that groups are split by field and below.
    @Test func largeGroupsAreMergedAsTheGridMergesThem() throws {
        for seed in Seeds.upTo(60) {
            var random = RandomSteps(seed: seed)
            (random.isCareful, random.isPeaceful) = (true, true)
            var sides: [[UInt8]] = []
            for _ in 0..<2 {
                var steps = random.steps(250)
                // Erasures of classes and columns leave little to compare.
                steps.removeAll {
                    switch $0 {
                    case .eraseTable, .eraseColumn: !random.random.isOne(in: 20)
                    default: false
                    }
                }
                sides.append(changeset(steps))
            }
            let grid = Outcome.ofMerging([sides[0]], [sides[1]], .everyPair)
            #expect(grid != .refused)
            for thresholds in [MergeThresholds(), .finest] {
                let indexed = Outcome.ofMerging([sides[0]], [sides[1]], .indexed, thresholds)
                #expect(
                    grid == indexed, "\(Seeds.repeatCommand("largeGroupsAreMergedAsTheGridMergesThem", seed: seed))")
            }
        }
    }

    /// An earlier run of the message has left an erasure in the arena; in this run neither side has one.
    @Test func anErasureElsewhereInTheArenaLeavesNothingUnmerged() throws {
        let insertions = changeset((0..<40).map { .insert(.item(0), size: UInt32($0)) })
        let outcomes = try [MergeStrategy.everyPair, .indexed].map { strategy in
            var arena = ChangesetArena()
            try arena.decode(changeset([.eraseTable("Z")]), version: 1, tag: Age.majorOlder.tags.major)
            try arena.decode(insertions, version: 2, tag: Age.majorOlder.tags.major)
            try arena.decode(insertions, version: 1, tag: Age.majorOlder.tags.minor)
            try arena.merge(local: [1], incoming: [2], strategy: strategy)
            return Outcome(of: arena)
        }
        #expect(outcomes[0] == outcomes[1])
    }
}
