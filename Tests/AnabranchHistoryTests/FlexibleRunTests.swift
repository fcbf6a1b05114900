import AnabranchHistory
import AnabranchSimulation
import AnabranchTesting
import Foundation
import Testing

/// Each client has what its queries and its role let it see (`Spec/FlexibleSync.md`). Many more runs:
/// `anabranch-lab fuzz flexible`.
@Suite struct FlexibleRunTests {
    @Test(.timeLimit(.minutes(30)), arguments: StoreKind.allCases)
    func clientsHaveWhatTheySee(kind: StoreKind) async throws {
        let seeds = ProcessInfo.processInfo.environment["ANABRANCH_SEED"].flatMap(UInt64.init).map { $0...$0 }
        var tally = FlexibleTally()
        for seed in seeds ?? (kind == .memory ? 1...1_000 : 1...40) {
            tally.add(Self.run(kind, seed))
            await Task.yield()  // all tests share a few threads
        }
        guard seeds == nil else { return }
        #expect(tally.refusedObjects > 0 && tally.compensations > 0 && tally.refusedQueries > 0)
        #expect(tally.bootstraps > 0 && tally.disconnections > 0 && tally.restarts > 0)
        #expect(tally.parts > 0 && tally.interruptedBootstraps > 0)
        #expect(tally.trimmed > 0 && tally.expired > 0 && tally.resets > 0 && tally.ingested > 0)
    }

    private static func run(_ kind: StoreKind, _ seed: UInt64) -> FlexibleTally {
        do {
            let test = try TestStore(kind)
            let run = try FlexibleRun(seed: seed, store: test.store) {
                try test.restart()
                return test.store
            }
            try run.run(steps: 100)
            try test.verify()
            return run.tally
        } catch {
            Issue.record(
                """
                \(kind.rawValue), seed \(seed): \(error); repeat with
                ANABRANCH_SEED=\(seed) swift test --filter clientsHaveWhatTheySee
                """)
            return FlexibleTally()
        }
    }
}
