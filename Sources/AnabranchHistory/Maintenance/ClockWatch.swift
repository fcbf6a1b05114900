/// Notices when the clock has jumped: by comparison with a clock that only goes forward, and, where that one started
/// again, with the time that the store remembers. A client file is not to expire because of such a jump, after which
/// the server would think that all clients had been away for long (`Spec/BoundedHistory.md`, section 7).
///
/// A server that was off looks the same, and is treated the same: it could see nobody during that time.
package struct ClockWatch: Equatable, Sendable {
    /// The difference between the clocks that is tolerated, in seconds: the precision of the times at which client
    /// files were seen.
    package static let toleranceSeconds: Int64 = 86_400

    /// The jump of the clock, in seconds; nil if none is known.
    package private(set) var jump: Int64?
    /// The readings of the clocks when the wall clock was last trusted.
    private var anchor: (wall: UInt64, monotonic: UInt64)?
    /// The monotonic time at which the jump was noticed, in seconds.
    private var noticed: UInt64 = 0
    private let remembered: UInt64?

    /// - Parameter remembered: the result of `rememberedTime` when the server last ran; nil if there was none.
    package init(remembered: UInt64?) { self.remembered = remembered }

    /// - Parameters:
    ///   - wall: seconds since 1970.
    ///   - monotonic: seconds that only go forward, since any moment of this run.
    ///   - secondsOff: the time without another jump after which the clock is trusted again: a client that is still
    ///     away then has really been away for that long.
    package mutating func record(wall: UInt64, monotonic: UInt64, trustedAfter secondsOff: UInt64) {
        let before = anchor ?? (remembered ?? wall, monotonic)
        let expected = before.wall &+ (monotonic &- before.monotonic)
        let difference = Int64(truncatingIfNeeded: wall &- expected)
        if abs(difference) > Self.toleranceSeconds {
            let total = (jump ?? 0) &+ difference
            jump = abs(total) > Self.toleranceSeconds ? total : nil
            (noticed, anchor) = (monotonic, (wall, monotonic))
        } else {
            anchor = before
            if jump != nil, monotonic &- noticed >= secondsOff { jump = nil }
        }
    }

    /// The operator says that the clock is right.
    package mutating func trust() { jump = nil }

    /// The time by which client files may expire, and that the store is to remember, in seconds since 1970; nil if it
    /// is not trusted.
    package func rememberedTime(wall: UInt64) -> UInt64? { jump == nil ? wall : nil }

    /// True if both have noticed the same.
    package static func == (left: ClockWatch, right: ClockWatch) -> Bool {
        left.jump == right.jump && left.noticed == right.noticed && left.remembered == right.remembered
            && left.anchor?.wall == right.anchor?.wall && left.anchor?.monotonic == right.anchor?.monotonic
    }
}
