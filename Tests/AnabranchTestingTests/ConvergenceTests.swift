import AnabranchCore
import Testing

@testable import AnabranchTesting

@Suite struct ConvergenceTests {
    @Test(arguments: [2, 3, 4, 8])
    func replicasThatWroteOffLineEndInOneState(_ replicas: Int) throws {
        var tally = RoundTally()
        for seed in UInt64(replicas * 1000)..<UInt64(replicas * 1000 + 12) {
            let round = try ConvergenceRound(RoundPlan(seed: seed, replicas: replicas, modifications: 512))
            let failure = round.run()
            #expect(
                failure == nil,
                "anabranch-lab fuzz convergence --rounds 1 --seed \(seed) --replicas \(replicas) --modifications 512")
            tally.add(round.tally)
        }
        #expect(tally.rounds == 12)
        #expect(tally.modifications > tally.refused * 4)
        for kind in InstructionKind.allCases { #expect(tally.kinds[Int(kind.rawValue)] > 0, "\(kind)") }
    }

    /// All pairs of single instructions in all small states.
    @Test func pairsOfInstructionsConvergeAndEveryRuleHasAnEffect() async throws {
        let report = try await ExhaustiveStates.check(jobs: 2)
        #expect(report.isClean, "anabranch-lab fuzz convergence --exhaustive: \(report.failureTexts + report.gaps)")
        #expect(report.states == ExhaustiveStates.stateCount)
        #expect(report.pairs > 600_000)
    }

    @Test func theSingleInstructionsStayAsTheyAre() {
        let mixed: [ExhaustiveStates.Element] = [.value, .list(2), .dictionary]
        let changesets = (0...1).flatMap { author in
            SingleInstructions(by: author, listCount: 3, mixed: mixed).changesets
        }
        #expect(changesets.count == 202)
        #expect(digest(changesets.joined()) == 14_584_502_783_803_970_955)
    }

    @Test func aSeedGivesTheSameRound() throws {
        func trace(_ seed: UInt64) throws -> [String] {
            let round = try ConvergenceRound(RoundPlan(seed: seed, replicas: 3, modifications: 60), printsTrace: true)
            #expect(round.run() == nil)
            return round.trace
        }
        #expect(try trace(5) == trace(5))
        #expect(try trace(5) != trace(6))
    }

    @Test func whatIsShrunkKeepsOnlyWhatMatters() {
        let plan = RoundPlan(seed: 1, replicas: 4, modifications: 256)
        let smallest = plan.shrunk { candidate in
            candidate.events.contains { if case .download(replica: 2) = $0 { true } else { false } }
                && candidate.events.contains {
                    if case .write(replica: 1, _, let seeds) = $0 { !seeds.isEmpty } else { false }
                }
        }
        #expect(smallest.events.count == 2)
        #expect(smallest.events.allSatisfy { if case .write(_, _, let seeds) = $0 { seeds.count == 1 } else { true } })
    }
}
