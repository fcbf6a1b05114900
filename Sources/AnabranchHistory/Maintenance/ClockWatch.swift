/// Notices when the clock has jumped: by the difference to a clock that only goes on, and, where that began anew, by
/// the time that the store remembers. A client file is not to expire because of such a jump: to the server all clients
/// seem to have been away for long then (`Spec/BoundedHistory.md`, section 7).
///
/// A server that was off looks the same, and is the same: nobody could be seen meanwhile.
package struct ClockWatch: Equatable, Sendable {
    /// What the clocks may differ by, in seconds: as much as the times at which client files were seen.
    package static let toleranceSeconds: Int64 = 86_400

    /// By how many seconds the clock has jumped; nil if nothing is known against it.
    package private(set) var jump: Int64?
    /// Whether client files may expire by the clock.
    package var isTrusted: Bool { jump == nil && anchor != nil }
    /// What the clocks showed when the clock was last trusted.
    private var anchor: (wall: UInt64, monotonic: UInt64)?
    /// When the jump was noticed.
    private var noticed: UInt64 = 0
    private let remembered: UInt64?

    /// - Parameter remembered: what `rememberedTime` said when the server last ran; nil if there was none.
    package init(remembered: UInt64?) { self.remembered = remembered }

    /// - Parameters:
    ///   - wall: seconds since 1970.
    ///   - monotonic: seconds that only go on, since any moment of this run.
    ///   - secondsOff: after so long a time without another jump the clock is trusted again: who is away still has
    ///     been away for so long.
    package mutating func note(wall: UInt64, monotonic: UInt64, trustedAfter secondsOff: UInt64) {
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

    /// What the store is to remember: the newest time that is trusted.
    package func rememberedTime(wall: UInt64) -> UInt64? { jump == nil ? wall : nil }

    /// Whether both have noticed the same.
    package static func == (left: ClockWatch, right: ClockWatch) -> Bool {
        left.jump == right.jump && left.noticed == right.noticed && left.remembered == right.remembered
            && left.anchor?.wall == right.anchor?.wall && left.anchor?.monotonic == right.anchor?.monotonic
    }
}
