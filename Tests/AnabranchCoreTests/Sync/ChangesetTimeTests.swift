import Testing

@testable import AnabranchCore

@Suite struct ChangesetTimeTests {
    @Test(
        arguments: [
            (1_420_070_400.0, 0), (1_420_070_401.5, 1500), (1_420_070_399.999, 0), (-1, 0), (.nan, 0), (-.infinity, 0),
            (1_763_769_600, 343_699_200_000), (.infinity, UInt64.max), (1e300, .max),
        ] as [(Double, UInt64)])
    func secondsSince1970BecomeMilliseconds(seconds: Double, milliseconds: UInt64) {
        #expect(ChangesetTime(secondsSince1970: seconds).rawValue == milliseconds)
    }

    @Test(arguments: [0, 1, 999, 1500, 343_699_200_001, 4_398_046_511_104] as [ChangesetTime])
    func theMillisecondSurvives(time: ChangesetTime) {
        // Half a millisecond later: a Double of this size is finer than that, but not exact.
        #expect(ChangesetTime(secondsSince1970: time.secondsSince1970 + 0.0005) == time)
    }

    @Test func sortingDropsWhatIsThereTwice() {
        #expect([UInt64]().sortedUnique() == [])
        #expect([7].sortedUnique() == [7])
        #expect([3, 1, 3, 2, 1, 3].sortedUnique() == [1, 2, 3])
    }
}
