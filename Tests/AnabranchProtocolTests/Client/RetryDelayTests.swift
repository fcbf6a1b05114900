import AnabranchCore
import AnabranchTesting
import Testing

@testable import AnabranchProtocol

/// `Spec/Protocol.md`, section 13.
@Suite struct RetryDelayTests {
    /// With 1 it takes nothing away from a delay, with the most as much as there may be. With 0 it would be asked for
    /// ever: such bits are thrown away where a range is no power of two.
    private struct Extreme: RandomNumberGenerator {
        let bits: UInt64
        mutating func next() -> UInt64 { bits }
    }

    @Test func theDelayDoublesUpToFiveMinutes() {
        var delay = RetryDelay<ConnectionEnd>(), longest = Extreme(bits: 1)
        let delays = (0..<11).map { _ in delay.next(after: .lost, using: &longest) }
        #expect(delays == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300].map { $0 * 1000 })
        var shortest = Extreme(bits: .max)
        #expect(delay.next(after: .lost, using: &shortest) == 225_000)
    }

    @Test func anotherReasonOrAResetBeginsAnew() {
        var delay = RetryDelay<ConnectionEnd>(), longest = Extreme(bits: 1)
        for _ in 0..<3 { _ = delay.next(after: .lost, using: &longest) }
        #expect(delay.next(after: .pongTimeout, using: &longest) == 1000)
        #expect(delay.next(after: .pongTimeout, using: &longest) == 2000)
        delay.reset()
        #expect(delay.next(after: .pongTimeout, using: &longest) == 1000)
    }

    @Test func aConnectionThatHeldForLongBeginsAnew() {
        var delay = RetryDelay<ConnectionEnd>(), longest = Extreme(bits: 1)
        for _ in 0..<3 { _ = delay.next(after: .lost, using: &longest) }
        delay.connectionHeld(milliseconds: 300_000)
        #expect(delay.next(after: .lost, using: &longest) == 8_000, "as long as the longest delay")
        delay.connectionHeld(milliseconds: 300_001)
        #expect(delay.next(after: .lost, using: &longest) == 1_000)
        delay.forbid()
        delay.connectionHeld(milliseconds: 300_001)
        #expect(delay.next(after: .lost, using: &longest) == nil)
    }

    @Test func theNumbersOfAConnectionErrorCountBeforeOnesOwn() {
        var delay = RetryDelay<ConnectionEnd>(), longest = Extreme(bits: 1)
        var error = ErrorMessage(.connectionClosed)
        let own = BackOff(firstSeconds: 60, maxSeconds: 60, multiplier: 1)
        #expect(delay.next(after: .failed(error), error: error, own: own, using: &longest) == 60_000)
        error.backOff = BackOff(firstSeconds: 5, maxSeconds: 9, multiplier: 2)
        #expect(delay.next(after: .failed(error), error: error, own: own, using: &longest) == 5_000)
    }

    @Test func theServersNumbersCount() {
        var delay = RetryDelay<ErrorCode>(), longest = Extreme(bits: 1)
        var error = ErrorMessage(.otherSessionError)
        error.backOff = BackOff(firstSeconds: 10, maxSeconds: 50, multiplier: 3)
        #expect((0..<4).map { _ in delay.next(after: error, using: &longest) } == [10_000, 30_000, 50_000, 50_000])
        error.backOff = BackOff(firstSeconds: 7, maxSeconds: 70, multiplier: 3)
        #expect(delay.next(after: error, using: &longest) == 7_000, "other numbers")
    }

    @Test func twoHundredIsASecond() {
        var delay = RetryDelay<ErrorCode>(), shortest = Extreme(bits: .max)
        var error = ErrorMessage(.sessionClosed)
        error.backOff = BackOff(firstSeconds: 100, maxSeconds: 100, multiplier: 1)
        for _ in 0..<3 { #expect(delay.next(after: error, using: &shortest) == 1000) }
    }

    @Test func anErrorMayForbidToComeBack() {
        var delay = RetryDelay<ConnectionEnd>(), random = SeededRandom(seed: 1)
        let error = ErrorMessage(.switchToFlexibleSync)
        #expect(delay.next(after: .failed(error), error: error, using: &random) == nil)
        #expect(delay.next(after: .lost, error: nil, using: &random) == nil)
        #expect(delay.next(after: .closedByClient, error: nil, using: &random) == nil)
        delay.reset()
        #expect(delay.next(after: .closedByClient, error: nil, using: &random) == 0)
        #expect(delay.next(after: .lost, error: nil, using: &random) != nil)
    }

    /// Whatever numbers a server sends: within a day, never less than three quarters of a second, and growing but for
    /// the random part.
    @Test(arguments: 0..<500 as Range<UInt64>)
    func anyNumbersGiveADelay(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        func number() -> Int {
            [Int.min, -1, 0, 1, 2, 60, 86_400, Int.max, Int.random(in: 0...1000, using: &random)]
                .randomElement(using: &random) ?? 0
        }
        let advice = BackOff(firstSeconds: number(), maxSeconds: number(), multiplier: number())
        var delay = RetryDelay<ConnectionEnd>(), longest = Extreme(bits: 1), last: Int64 = 0
        for _ in 0..<20 {
            var jittered = delay
            let next = try #require(delay.next(after: .lost, advice: advice, using: &longest))
            let shorter = try #require(jittered.next(after: .lost, advice: advice, using: &random))
            #expect(next >= last && 1000...86_400_000 ~= next)
            #expect(next - next / 4...next ~= shorter)
            last = next
        }
    }
}
