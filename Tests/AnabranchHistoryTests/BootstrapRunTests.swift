import AnabranchHistory
import AnabranchSimulation
import AnabranchSQLite
import AnabranchTesting
import Testing

/// No client notices what a server forgets, and all end in one state (`Spec/BoundedHistory.md`). Many more runs:
/// `anabranch-lab fuzz history`.
@Suite struct BootstrapRunTests {
    @Test(arguments: StoreKind.allCases) func allEndInOneState(kind: StoreKind) async throws {
        let runs = RandomRuns(kind == .memory ? 120 : 24)
        var tally = HistoryTally()
        await runs.each { seed in
            let test = try TestStore(kind)
            let run = try HistoryRun(seed: seed, store: test.store) {
                try test.restart()
                return test.store
            }
            try run.run()
            try test.verify()
            tally.add(run.tally)
        }
        guard runs.areMany else { return }
        #expect(tally.sealed > 0 && tally.generations > 0 && tally.dropped > 0 && tally.trimmed > 0)
        #expect(tally.archived > 0 && tally.archived < tally.trimmed)
        #expect(tally.generationDownloads > 0 && tally.merges > 0)
        // Of 24 runs perhaps none has one.
        #expect(tally.resets > 0 || kind != .memory)
    }
}
