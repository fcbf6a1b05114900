import AnabranchProtocol
import Synchronization
import Testing

@testable import AnabranchServer

/// The expired tokens that are remembered (`Spec/Forks.md`, section 5).
@Suite struct ExpiredTokensTests {
    /// Times that one reader of the clock after the other sees.
    private final class Readings: Sendable {
        private let times: Mutex<[UInt64]>

        init(_ times: [UInt64]) { self.times = Mutex(times) }

        func next() -> UInt64 { times.withLock { $0.removeFirst() } }
    }

    private static func answers(at times: [UInt64]) -> [Bool] {
        let readings = Readings(times), tokens = ExpiredTokens(monotonicSeconds: { readings.next() })
        return times.map { _ in tokens.refusal(of: "token", because: "it has expired") == nil }
    }

    @Test func aTokenIsNewOnceInTenMinutes() {
        #expect(Self.answers(at: [0, 599, 1_198]) == [true, false, false])
        #expect(Self.answers(at: [0, 600, 601]) == [true, true, false])
    }

    /// Two connections come with the same token at the end of a second: the first to read the clock is the second to
    /// be heard.
    @Test func aThreadThatComesLateHasReadTheClockBefore() {
        #expect(Self.answers(at: [700, 699]) == [true, false])
    }
}
