import AnabranchCore
import Testing
import AnabranchTesting

/// How much the merge of lists looks at: a change of its thresholds shows here first.
@Suite struct MergeFigureTests {
    /// Random merges as those of `anabranch-lab fuzz merge --seed 1`, cells and visited pairs to the last one.
    @Test func randomMergesVisitAsManyPairsAsTheyDid() throws {
        var cells = 0, failures = 0, pairs = ListPairs(), smallBlockPairs = ListPairs()
        for seed in 1...600 as ClosedRange<UInt64> {
            let merge = RandomMerge(seed: seed, sizeMax: 400)
            let check = try MergeComparison(merge, ways: [.indexed, .finest])
            cells += merge.cells
            if check.everyPair == .failed { failures += 1 }
            pairs += check.listPairs
            if merge.isOrdinaryList { smallBlockPairs += check.smallBlockPairs }
        }
        let figures = [
            "cells \(cells), refused \(failures)", "pairs on lists \(pairs.all), visited \(pairs.visited)",
            "with the smallest blocks \(smallBlockPairs.all), visited \(smallBlockPairs.visited)",
        ]
        try Fixture.expect(figures, equals: "values/merge-figures.txt")
    }
}
