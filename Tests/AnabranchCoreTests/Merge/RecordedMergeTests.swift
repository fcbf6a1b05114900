import AnabranchTesting
import Testing

@testable import AnabranchCore

/// The recorded strategy: the bytes of the others, and an outcome for everything that a rule did.
@Suite struct RecordedMergeTests {
    @Test func recordedMergesGiveTheReferencesBytesAndExplainThem() throws {
        var tally = OutcomeCheck()
        for vector in VectorFiles.merges { try check(vector, &tally, "random merge \(vector.seed ?? 0)") }
        for scenario in VectorFiles.scenarios {
            for (number, vector) in scenario.merges.enumerated() {
                try check(vector, &tally, "\(scenario.name), merge \(number)")
            }
        }
        let missing = MergeRule.allCases.filter { tally.rules[$0] == nil }.map(\.rawValue)
        #expect(tally.discarded > 4_000 && tally.changed > 1_000, "\(tally.discarded), \(tally.changed)")
        // No two sides of these put one value into one set.
        #expect(missing == ["R26"])
    }

    @Test func theRecordOfALinkToAnErasedClassNamesBoth() throws {
        var arena = ChangesetArena()
        var (eraser, adder) = (ChangesetWriter(), ChangesetWriter())
        eraser.write(.eraseTable("A"))
        adder.write(.addColumn("B", "a", .link, target: "A"))
        let erase = try arena.decode(eraser.bytes, version: 1, tag: tag(1))
        let add = try arena.decode(adder.bytes, version: 1, tag: tag(2))
        for (local, incoming) in [(erase, add), (add, erase)] {
            var arena = arena
            var merge = Merge(strategy: .recorded)
            try merge.run(local: [local], incoming: [incoming], in: &arena)
            let outcome = try #require(merge.outcomes.first)
            #expect(merge.outcomes.count == 1 && outcome.rule == .R8)
            let (lost, kept) = local == add ? (outcome.major, outcome.minor) : (outcome.minor, outcome.major)
            #expect(lost.after == nil && lost.changeset == add && !kept.isAffected && kept.changeset == erase)
        }
    }

    private func tag(_ ident: ClientFileID) -> OriginTag { OriginTag(timestamp: 5, ident: ident) }

    private func check(_ vector: MergeCase, _ tally: inout OutcomeCheck, _ name: String) throws {
        do {
            var sides: (local: [ChangesetIndex], incoming: [ChangesetIndex]) = ([], [])
            let merged = try tally.check { arena in
                sides = (
                    try vector.local.map { try arena.decode($0) }, try vector.incoming.map { try arena.decode($0) }
                )
                return sides
            }
            #expect((merged == nil) == (vector.error == "merge"), "\(name)")
            guard let merged else { return }
            #expect(sides.local.map { merged.hexOutput(of: $0) } == vector.local_after?.map(\.hex), "\(name)")
            #expect(sides.incoming.map { merged.hexOutput(of: $0) } == vector.incoming_after?.map(\.hex), "\(name)")
        } catch let gap as OutcomeCheck.Gap {
            Issue.record("\(name): \(gap)")
        }
    }
}
