import AnabranchTesting
import Testing

@testable import AnabranchCore

/// A merge can be cut into steps of any size, which never changes what comes out of it, and dropped between them.
@Suite struct StepTests {
    /// The changesets of both sides, and the runs in which the incoming ones are merged.
    private struct Sides {
        var local: [[UInt8]]
        var incoming: [[UInt8]]
        var runs: [Range<Int>]

        init(seed: UInt64) {
            var random = RandomSteps(seed: seed)
            random.isCareful = seed % 3 != 0
            random.isPeaceful = seed % 6 == 1
            func side() -> [[UInt8]] {
                (0..<Int.random(in: 1...4, using: &random.random)).map { _ in
                    changeset(random.steps(.random(in: 0...40, using: &random.random)))
                }
            }
            (local, incoming) = (side(), side())
            let cut = Int.random(in: 0...incoming.count, using: &random.random)
            runs = [0..<cut, cut..<incoming.count]
        }

        init(_ local: [Step], _ incoming: [Step]) {
            (self.local, self.incoming, runs) = ([changeset(local)], [changeset(incoming)], [0..<1])
        }
    }

    /// The result of a merge in steps of so many pairs, and the pairs that each step took from the budget.
    private struct Run {
        private(set) var outcome = Outcome.refused
        private(set) var error: String?
        private(set) var pairsOfSteps: [Int] = []

        init(_ sides: Sides, pairs: Int, _ thresholds: MergeThresholds = MergeThresholds()) throws {
            var arena = ChangesetArena()
            var merge = Merge(thresholds: thresholds)
            var left = merge.budget.left
            do {
                try arena.mergeRuns(sides.local, sides.incoming, runs: sides.runs, with: &merge, pairs: pairs) {
                    pairsOfSteps.append(left - $0.budget.left)
                    left = $0.budget.left
                }
                outcome = Outcome(of: arena)
            } catch let error as TransformError {
                self.error = error.description
            }
        }

        func isSame(as other: Run) -> Bool { outcome == other.outcome && error == other.error }
    }

    private static let stepSizes = [1, 2, 3, 7, 50, 1000]

    @Test func everyStepSizeGivesTheSameBytesFlagsAndErrors() throws {
        var refusals = 0
        let seeds = Seeds.upTo(400)
        for seed in seeds {
            let sides = Sides(seed: seed)
            for thresholds in [MergeThresholds(), .finest] {
                let whole = try Run(sides, pairs: .max, thresholds)
                for pairs in Self.stepSizes {
                    let run = try Run(sides, pairs: pairs, thresholds)
                    #expect(
                        run.isSame(as: whole),
                        "\(Seeds.repeatCommand("everyStepSizeGivesTheSameBytesFlagsAndErrors", seed: seed))")
                }
                if whole.error != nil { refusals += 1 }
            }
        }
        #expect(seeds.count == 1 || (1..<seeds.count * 2 * 9 / 10).contains(refusals))
    }

    /// Sides whose pairs are all in one group, in one row, in one list or in the grid.
    private static let longMerges: [(name: String, local: [Step], incoming: [Step], pairsMin: Int, isPaidFirst: Bool)] =
        {
            let updates = (0..<300).map { Step.update(.at("f"), .int($0)) }
            let increments = (0..<300).map { Step.addInteger(.at("f"), $0) }
            let inserts = (0..<600).map { Step.insert(.item(0), size: $0) }
            let moves = (0..<300).map { Step.move(.item($0), to: ($0 + 7) % 300, size: 300) }
            let moves2 = (0..<300).map { Step.move(.item(($0 * 11) % 300), to: ($0 * 7 + 1) % 300, size: 300) }
            let elementUpdates =
                (0..<200).map { _ in Step.update(.item(0), .list, size: 1) } + [.insert(.item(0), size: 1)]
            let setInserts = (0..<200).map { _ in Step.setInsert(.at("s"), .text("x")) }
            let setErases = (0..<200).map { _ in Step.setErase(.at("s"), .text("y")) }
            let links = (0..<60).map { Step.addColumn("A", "l\($0)", .link, target: "B") }
            return [
                ("increments of one field", updates, increments, 2_400, false),
                ("a row", [updates[0]], increments, 300, false),
                ("updates of one list element", elementUpdates, elementUpdates, 40_000, true),
                ("moves in one list", moves, moves2, 0, true),
                ("inserts in one list", inserts, inserts, 0, true),
                ("changes of a set", setInserts + setErases, setErases + setInserts, 0, false),
                ("links to an erased class", links + updates, [.eraseTable("B")] + increments, 60, false),
                ("not a number", updates + [.update(.at("g"), .double(.nan))], increments, 2_400, false),
            ]
        }()

    @Test(arguments: longMerges.indices)
    func aStepVisitsLittleMoreThanItMay(_ number: Int) throws {
        let (name, local, incoming, pairsMin, isPaidFirst) = Self.longMerges[number]
        let sides = Sides(local, incoming)
        let whole = try Run(sides, pairs: .max)
        #expect(whole.error == nil && whole.pairsOfSteps.reduce(0, +) >= pairsMin, "\(name)")
        for pairs in [1, 10, 1000] {
            let run = try Run(sides, pairs: pairs)
            #expect(run.isSame(as: whole), "\(name), \(pairs) pairs a step")
            #expect(run.pairsOfSteps.reduce(0, +) == whole.pairsOfSteps.reduce(0, +), "\(name)")
            // One pass over the instructions: four pairs for each. Lists pay for pairs before they visit them, so the
            // budget says less of each step than of all.
            let most = pairs + 4 * (local.count + incoming.count)
            let pairsOfAll = run.pairsOfSteps.reduce(0, +)
            #expect(run.pairsOfSteps.count >= pairsOfAll / most, "\(name): \(run.pairsOfSteps.count) steps")
            if !isPaidFirst { #expect(run.pairsOfSteps.allSatisfy { $0 <= most }, "\(name)") }
        }
    }

    /// A column that is not a number and is never met: each row ends at the first column, alone or after others.
    @Test(arguments: [0, 1, 10])
    func rowsThatEndAtOnceDoNotLookAtTheColumnsBehind(otherRows: Int) throws {
        let other = ObjectName(key: .int(2))
        var incoming = [Step.eraseObject()]
        for number in 0..<300 { incoming.append(.addInteger(Place(object: other, field: "i"), Int64(number))) }
        incoming.append(.update(Place(object: other, field: "l"), .link("A", 1)))
        if otherRows == 0 { incoming.append(.update(Place(object: other, field: "d"), .double(.nan))) }
        var sides = Sides([], incoming)
        // Each changeset of the other side becomes dirty with its first row.
        let others = (0..<otherRows).map { Step.update(.at("f"), .int(Int64($0))) }
        sides.local = (0..<300).map { _ in changeset([.update(.at("g"), .double(otherRows == 0 ? 1 : .nan))] + others) }
        let run = try Run(sides, pairs: 100)
        let pairs = run.pairsOfSteps.reduce(0, +)
        // Few rows between are merged one by one; many are grouped, and what that costs is counted.
        let isGrouped = otherRows > 4
        #expect(isGrouped ? pairs > 300 * 4 * 300 : pairs < 2_000, "\(pairs) pairs")
        #expect(run.pairsOfSteps.count < (isGrouped ? 4 * 300 * 300 / 100 * 2 : 30), "\(run.pairsOfSteps.count) steps")
    }

    @Test func aMergeThatIsDroppedLeavesNothingBehind() throws {
        for seed in Seeds.upTo(100) {
            let sides = Sides(seed: seed)
            var arena = ChangesetArena()
            let tags = Age.majorOlder.tags
            for bytes in sides.local { try arena.decode(bytes, version: 1, tag: tags.major) }
            for bytes in sides.incoming { try arena.decode(bytes, version: 1, tag: tags.minor) }
            let local = Array(arena.changesets.prefix(sides.local.count))
            let incoming = Array(arena.changesets.dropFirst(sides.local.count))
            var whole = arena
            let isMerged = (try? whole.merge(local: local, incoming: incoming)) != nil

            // One value begins the merge in copies of the arena, and drops both but the last one.
            var merge = Merge()
            for steps in 1...5 {
                var copy = arena
                merge.begin(local: local, incoming: incoming, in: copy)
                for _ in 0..<steps * steps {
                    guard let isFinished = try? merge.advance(in: &copy, pairs: steps), !isFinished else { break }
                }
            }
            let again = (try? merge.run(local: local, incoming: incoming, in: &arena)) != nil
            #expect(
                again == isMerged && (!isMerged || Outcome(of: arena) == Outcome(of: whole)),
                "\(Seeds.repeatCommand("aMergeThatIsDroppedLeavesNothingBehind", seed: seed))")
        }
    }
}
