import AnabranchHistory
import AnabranchSimulation
import AnabranchTesting
import Testing

/// Each client has what its queries and its role let it see (`Spec/FlexibleSync.md`). Many more runs:
/// `anabranch-lab fuzz flexible`.
@Suite struct FlexibleRunTests {
    @Test(.timeLimit(.minutes(30)), arguments: StoreKind.allCases)
    func clientsHaveWhatTheySee(kind: StoreKind) async throws {
        let runs = RandomRuns(kind == .memory ? 200 : 40)
        var tally = FlexibleTally()
        await runs.each { seed in
            let test = try TestStore(kind), run = try FlexibleRun(seed: seed, in: test)
            try run.run(steps: 100)
            try test.verify()
            tally.add(run.tally)
        }
        guard runs.areMany else { return }
        #expect(tally.cutUploads > 0)
        #expect(tally.refusedObjects > 0 && tally.compensations > 0 && tally.refusedQueries > 0)
        #expect(tally.bootstraps > 0 && tally.disconnections > 0 && tally.restarts > 0)
        #expect(tally.parts > 0 && tally.interruptedBootstraps > 0)
        #expect(tally.news > tally.droppedNews && tally.droppedNews > 0 && tally.failedCommits > 0)
        #expect(tally.trimmed > 0 && tally.expired > 0 && tally.resets > 0 && tally.ingested > 0)
    }
}

extension FlexibleRun {
    /// A run whose store is closed and opened again now and then.
    convenience init(seed: UInt64, in test: TestStore) throws {
        try self.init(seed: seed, store: test.store) {
            try test.restart()
            return test.store
        }
    }
}
