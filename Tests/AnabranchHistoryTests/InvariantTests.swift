import Foundation
import Testing

/// The invariants of `Spec/History.md`, section 13, over random workloads.
@Suite struct InvariantTests {
    private static let stepCount = 200

    @Test(arguments: StoreKind.allCases, [Workload.Profile.data, .schema])
    func invariantsHold(kind: StoreKind, profile: Workload.Profile) async throws {
        let environment = ProcessInfo.processInfo.environment
        let seed = environment["ANABRANCH_SEED"].flatMap(UInt64.init)
        // scripts/nightly has many more.
        let dataCount = environment["ANABRANCH_WORKLOADS"].flatMap(UInt64.init) ?? 20
        let count = profile == .data ? dataCount : max(1, dataCount / 2)
        var comparedForms = 0, trimmedCount: UInt64 = 0
        for seed in seed.map({ $0...$0 }) ?? 1...count {
            do {
                let workload = try Workload(kind, profile, seed: seed)
                try workload.run(steps: Self.stepCount)
                comparedForms += workload.comparedForms
                trimmedCount += workload.trimmedCount
            } catch {
                Issue.record(
                    """
                    \(kind.rawValue), \(profile), seed \(seed): \(error); repeat with
                    ANABRANCH_SEED=\(seed) swift test --filter invariantsHold
                    """)
            }
            await Task.yield()  // all tests share a few threads
        }
        #expect(comparedForms > 0, "no reciprocal changeset was ever compared")
        #expect(trimmedCount > 0 || profile == .schema || seed != nil, "no entry was ever trimmed")
    }
}
