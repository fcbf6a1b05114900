import Foundation
import Testing

/// The promises about diffs and deltas (`Spec/Simperium.md`), over random ones.
@Suite struct RandomJSONDiffTests {
    /// Half a million of them take a minute: `ANABRANCH_SEED` and `ANABRANCH_COUNT` choose others.
    @Test func randomDiffsKeepTheirPromises() {
        let environment = ProcessInfo.processInfo.environment
        let first = environment["ANABRANCH_SEED"].flatMap(UInt64.init) ?? 1
        let count = environment["ANABRANCH_COUNT"].flatMap(UInt64.init) ?? 20_000
        for seed in first..<first + count {
            let example = RandomJSONDiffCase(seed: seed)
            guard let problem = example.problem else { continue }
            Issue.record(
                """
                seed \(seed): \(problem)
                \(example.description)
                again: ANABRANCH_SEED=\(seed) ANABRANCH_COUNT=1 scripts/check --filter RandomJSONDiffTests
                """)
            return
        }
    }
}
