/// A moment as changesets count time: milliseconds since 2015-01-01T00:00:00 UTC (`Spec/Protocol.md`, section 3).
///
/// It comes from its author's clock, may be any number, and is never corrected. The merge compares it.
public struct ChangesetTime: TypedNumber {
    /// Milliseconds since 2015-01-01T00:00:00 UTC.
    public var rawValue: UInt64

    /// 2015-01-01T00:00:00 UTC in milliseconds since 1970.
    private static let epochMilliseconds = 1_420_070_400_000.0

    /// Takes milliseconds since 2015-01-01T00:00:00 UTC.
    @inlinable public init(rawValue: UInt64) { self.rawValue = rawValue }

    /// The millisecond in which a moment lies: 0 for moments before 2015 and for NaN, the largest number for those that
    /// no number reaches.
    public init(secondsSince1970 seconds: Double) {
        let milliseconds = max(0, (seconds - Self.epochMilliseconds / 1000) * 1000)
        rawValue = milliseconds < 0x1p64 ? UInt64(milliseconds) : .max
    }

    /// Seconds since 1970-01-01T00:00:00 UTC, exact to the millisecond for times of this era.
    public var secondsSince1970: Double { (Double(rawValue) + Self.epochMilliseconds) / 1000 }

    /// The most that a clock may be behind the last write and still count as slightly corrected, in milliseconds:
    /// clocks on a network are adjusted by less all the time.
    package static let backstepMillisecondsMax: UInt64 = 5_000

    /// The time of a write after the one at `last`, when the clock shows this time: never before `last`, unless that is
    /// so far ahead that a clock must have been wrong. Then this time counts; otherwise the wrong one would decide
    /// everything that follows.
    package func following(_ last: ChangesetTime) -> ChangesetTime {
        last > self && last.rawValue - rawValue <= Self.backstepMillisecondsMax ? last : self
    }
}
