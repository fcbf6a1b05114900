import Testing

/// The invariants of `Spec/History.md`, section 13, over random workloads.
@Suite struct InvariantTests {
    private static let stepCount = 200

    @Test(arguments: StoreKind.allCases, [Workload.Profile.data, .schema])
    func invariantsHold(kind: StoreKind, profile: Workload.Profile) async throws {
        let count = RandomRuns.count(20, or: "ANABRANCH_WORKLOADS")
        let runs = RandomRuns(profile == .data ? count : count / 2)
        var comparedForms = 0, trimmedCount: UInt64 = 0
        await runs.each { seed in
            let workload = try Workload(kind, profile, seed: seed)
            try workload.run(steps: Self.stepCount)
            comparedForms += workload.comparedForms
            trimmedCount += workload.trimmedCount
        }
        #expect(comparedForms > 0, "no reciprocal changeset was ever compared")
        #expect(trimmedCount > 0 || profile == .schema || !runs.areMany, "no entry was ever trimmed")
    }
}
