import Testing

@testable import AnabranchTesting

@Suite struct RandomMergeTests {
    @Test(arguments: [1, 1001, 2001, 3001])
    func theIndexAndTheGridOfAllPairsAgree(_ firstSeed: UInt64) throws {
        for seed in firstSeed..<firstSeed + 250 {
            let merge = RandomMerge(seed: seed, sizeMax: 60)
            #expect(
                try MergeComparison(merge).isEqual, "anabranch-lab fuzz merge --cases 1 --seed \(seed) --max-size 60")
        }
    }

    @Test func aSeedGivesTheSameCase() {
        #expect(RandomMerge(seed: 5, sizeMax: 400).line == RandomMerge(seed: 5, sizeMax: 400).line)
        #expect(RandomMerge(seed: 5, sizeMax: 400).line != RandomMerge(seed: 6, sizeMax: 400).line)
    }

    /// A seed that once showed an error still makes the same changesets.
    @Test func seedsKeepTheirCases() {
        let lines = (0..<2000 as Range<UInt64>).lazy.map { RandomMerge(seed: $0, sizeMax: 60).line.utf8 }
        #expect(digest(lines.joined()) == 772_747_604_904_591_619)
    }

    @Test func sizesKeepTheLimitAndATenthIsBeyond100() {
        let merges = (0..<1000).map { RandomMerge(seed: $0, sizeMax: 400) }
        #expect(merges.allSatisfy { 1...400 ~= $0.local.count && 1...400 ~= $0.incoming.count })
        #expect(merges.count { $0.local.count > 100 && $0.incoming.count > 100 } >= 100)
        let small = (0..<200).map { RandomMerge(seed: $0, sizeMax: 7) }
        #expect(small.allSatisfy { $0.local.count <= 7 && $0.incoming.count <= 7 })
    }

    @Test func everyActionIsTakenAndSomeMergesAreErrors() throws {
        var actions: Set<RandomMerge.Step.Action> = []
        var failures = 0
        for seed in 0..<400 as Range<UInt64> {
            let merge = RandomMerge(seed: seed, sizeMax: 20)
            actions.formUnion((merge.local + merge.incoming).map(\.action))
            if try MergeComparison(merge).everyPair == .failed { failures += 1 }
        }
        #expect(actions.count == RandomMerge.Step.Action.allCases.count)
        #expect(failures > 0)
    }

    @Test func whatIsShrunkKeepsOnlyTheStepsThatMatter() throws {
        let seeds = 0..<1000 as Range<UInt64>
        let merge = try #require(
            seeds.lazy.map { RandomMerge(seed: $0, sizeMax: 400) }.first { Self.hasBoth($0) && $0.local.count > 100 })
        let smallest = merge.shrunk(while: Self.hasBoth)
        #expect(smallest.local.map(\.action) == [.move])
        #expect(smallest.incoming.map(\.action) == [.erase])
        #expect(smallest.shape.listSize == 0)
    }

    /// Stands for a difference between the two ways.
    private static func hasBoth(_ merge: RandomMerge) -> Bool {
        merge.local.contains { $0.action == .move } && merge.incoming.contains { $0.action == .erase }
    }
}
