import AnabranchCore

/// A moment of the years 0001 to 9999 in the proleptic Gregorian calendar, in UTC.
public struct PropertyListDate: Hashable, Sendable {
    /// Whole seconds since 1970-01-01T00:00:00Z, negative before.
    public let seconds: Int64
    /// Nanoseconds after them, less than 1,000,000,000.
    public let nanoseconds: Int32

    private static let allSeconds: ClosedRange<Int64> = -62_135_596_800...253_402_300_799
    /// 2001-01-01T00:00:00Z, from which the binary form counts.
    private static let reference: Int64 = 978_307_200

    /// A moment; nil if its year is not from 0001 to 9999, or the nanoseconds are not part of a second.
    public init?(seconds: Int64, nanoseconds: Int32 = 0) {
        guard Self.allSeconds.contains(seconds), 0..<1_000_000_000 ~= nanoseconds else { return nil }
        (self.seconds, self.nanoseconds) = (seconds, nanoseconds)
    }

    /// Reads `YYYY-MM-DDThh:mm:ss`, perhaps a fraction, and `Z` or an offset such as `+01:00`; nil for another text,
    /// for a moment that does not exist, and for one that is finer than a nanosecond.
    public init?(_ text: some Collection<UInt8>) {
        var zone = text.dropFirst(19)
        var nanoseconds: Int32 = 0
        if zone.first == UInt8(ascii: ".") {
            let digits = zone.dropFirst().prefix { 0x30...0x39 ~= $0 }
            guard !digits.isEmpty, digits.dropFirst(9).allSatisfy({ $0 == 0x30 }) else { return nil }
            for place in 0..<9 { nanoseconds = nanoseconds * 10 + Int32(digits.dropFirst(place).first ?? 0x30) - 0x30 }
            zone = zone.dropFirst(1 + digits.count)
        }
        // Other forms of RFC 3339 are not allowed: small letters, offsets without a colon.
        let isUTC = zone.elementsEqual("Z".utf8)
        guard isUTC || zone.count == 6, text.dropFirst(10).first == UInt8(ascii: "T"),
            let milliseconds = RFC3339.milliseconds(Array(text.prefix(19)) + zone)
        else { return nil }
        self.init(seconds: milliseconds / 1000, nanoseconds: nanoseconds)
    }

    /// The moment a number of seconds after 2001, to the nearest nanosecond; nil for years out of range, and for NaN.
    init?(secondsSince2001 interval: Double) {
        // All years are less, and what is not a number is not.
        guard interval.magnitude < 1e12 else { return nil }
        let truncated = Int64(interval)
        let whole = Double(truncated) > interval ? truncated - 1 : truncated
        let fraction = Int32((interval - Double(whole)) * 1e9 + 0.5)
        let carries = fraction == 1_000_000_000
        self.init(seconds: whole + Self.reference + (carries ? 1 : 0), nanoseconds: carries ? 0 : fraction)
    }

    /// Seconds since 2001-01-01T00:00:00Z without the fraction; exact.
    var wholeSecondsSince2001: Double { Double(seconds - Self.reference) }
}

extension PropertyListDate: Comparable, CustomStringConvertible {
    public static func < (left: Self, right: Self) -> Bool {
        (left.seconds, left.nanoseconds) < (right.seconds, right.nanoseconds)
    }

    /// The moment as the XML form has it; with a fraction of nine digits if it has any.
    public var description: String {
        let (days, second) = (seconds - Self.allSeconds.lowerBound).quotientAndRemainder(dividingBy: 86_400)
        let (year, month, day) = Self.calendarDay(Int(days))
        let fraction = nanoseconds == 0 ? "" : ".\(Self.digits(Int(nanoseconds), 9))"
        let date = "\(Self.digits(year, 4))-\(Self.digits(month, 2))-\(Self.digits(day, 2))"
        let time = [second / 3600, second / 60 % 60, second % 60].map { Self.digits(Int($0), 2) }.joined(separator: ":")
        return "\(date)T\(time)\(fraction)Z"
    }

    private static func digits(_ number: Int, _ count: Int) -> String {
        let text = String(number)
        return String(repeating: "0", count: max(0, count - text.count)) + text
    }

    /// The calendar day a number of days after 0001-01-01. Years are counted from March on, so that the day of a leap
    /// year is the last one.
    private static func calendarDay(_ days: Int) -> (year: Int, month: Int, day: Int) {
        let daysSinceMarch = days + 306
        let (eras, dayOfEra) = daysSinceMarch.quotientAndRemainder(dividingBy: 146_097)
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let month = (5 * dayOfYear + 2) / 153
        let day = dayOfYear - (153 * month + 2) / 5 + 1
        return (eras * 400 + yearOfEra + (month < 10 ? 0 : 1), month < 10 ? month + 3 : month - 9, day)
    }
}
