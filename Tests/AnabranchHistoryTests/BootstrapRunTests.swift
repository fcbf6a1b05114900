import AnabranchHistory
import AnabranchSimulation
import AnabranchSQLite
import AnabranchTesting
import Foundation
import Testing

/// No client notices what a server forgets, and all end in one state (`Spec/BoundedHistory.md`). Many more runs:
/// `anabranch-lab fuzz history`.
@Suite struct BootstrapRunTests {
    @Test(arguments: StoreKind.allCases) func allEndInOneState(kind: StoreKind) async throws {
        let seeds = ProcessInfo.processInfo.environment["ANABRANCH_SEED"].flatMap(UInt64.init).map { $0...$0 }
        var tally = HistoryTally()
        for seed in seeds ?? (kind == .memory ? 1...120 : 1...24) {
            tally.add(Self.run(kind, seed))
            await Task.yield()  // all tests share a few threads
        }
        guard seeds == nil else { return }
        #expect(tally.sealed > 0 && tally.generations > 0 && tally.dropped > 0 && tally.trimmed > 0)
        #expect(tally.archived > 0 && tally.archived < tally.trimmed)
        #expect(tally.generationDownloads > 0 && tally.merges > 0)
        // Of 24 runs perhaps none has one.
        #expect(tally.resets > 0 || kind != .memory)
    }

    private static func run(_ kind: StoreKind, _ seed: UInt64) -> HistoryTally {
        do {
            let test = try TestStore(kind)
            let run = try HistoryRun(seed: seed, store: test.store) {
                try test.restart()
                return test.store
            }
            try run.run()
            try test.verify()
            return run.tally
        } catch {
            Issue.record(
                """
                \(kind.rawValue), seed \(seed): \(error); repeat with
                ANABRANCH_SEED=\(seed) swift test --filter allEndInOneState
                """)
            return HistoryTally()
        }
    }
}
