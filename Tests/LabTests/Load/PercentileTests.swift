import Testing

@testable import anabranch_lab

@Suite struct PercentileTests {
    @Test(arguments: [
        (1...100, 50.0, 99.0, 100.0), (1...1000, 500, 990, 1000), (1...3, 2, 3, 3), (7...7, 7, 7, 7), (1...2, 1, 2, 2),
    ])
    func aPercentileIsATimeThatWasMeasured(_ range: ClosedRange<Int>, _ p50: Double, _ p99: Double, _ max: Double) {
        let percentiles = Percentiles(range.shuffled().map { .milliseconds($0) })
        #expect(percentiles.count == range.count)
        #expect(percentiles.p50 == p50)
        #expect(percentiles.p99 == p99)
        #expect(percentiles.max == max)
    }

    @Test func nothingHasNoPercentiles() {
        let percentiles = Percentiles([])
        #expect(percentiles.count == 0)
        #expect(percentiles.p50 == nil && percentiles.p99 == nil && percentiles.max == nil)
    }

    @Test func timesAreRoundedToAMicrosecond() {
        #expect(Percentiles([.nanoseconds(1_234_567)]).max == 1.235)
    }

    /// The neighbour who has to wait counts, not the one who has luck.
    @Test func ofSeveralLoopsTheWorstIsShown() async throws {
        let slow = ClosedLoop(), quick = ClosedLoop(), start = ContinuousClock.now
        await quick.run { quick.end() }
        await slow.run {
            slow.end()
            await quick.run {}  // takes longer than what the other one did
            throw LoadError("it fails")
        }
        let now = ContinuousClock.now
        let figures = PhaseFigures([quick, slow], LoadPhases(alone: start..<now, during: now..<now, after: now..<now))
        let longest = slow.samples(in: start..<now).map(\.duration).max()
        #expect(figures.alone.max == longest?.inRoundedMilliseconds)
        #expect(figures.alone.count == 1)
        #expect(figures.during == Percentiles([]))
        #expect(figures.failures == 1)
    }
}
