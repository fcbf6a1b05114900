import AnabranchCore

/// How a column spells times. Objects have times to the millisecond; a row whose value is the same millisecond stays as
/// it is.
public enum DateForm: String, CaseIterable, Sendable {
    /// `2026-11-28 23:38:54.123`, in UTC, as SQLite and Django have it; also read with `T` and an offset.
    case text
    /// `2026-11-28T23:38:54.123Z`.
    case rfc3339
    /// Whole seconds since 1970.
    case unix
    /// Milliseconds since 1970.
    case unixMilliseconds = "unix-ms"
    /// Days since noon of 24 November −4713.
    case julian

    private static let julianEpoch = 2_440_587.5
    private static let dayMilliseconds: Int64 = 86_400_000

    /// The milliseconds since 1970 of a value; nil if it is not a time in this form.
    func milliseconds(_ value: SQLValue) -> Int64? {
        switch (self, value) {
        case (.text, .text(var bytes)), (.rfc3339, .text(var bytes)):
            if bytes.count == 10 { bytes += Array("T00:00:00".utf8) }
            guard bytes.count >= 16 else { return nil }
            if bytes[10] == UInt8(ascii: " ") { bytes[10] = UInt8(ascii: "T") }
            let hasZone = bytes[10...].contains { "Zz+-".utf8.contains($0) }
            if bytes.count == 16 { bytes += Array(":00".utf8) }
            return RFC3339.milliseconds(hasZone ? bytes : bytes + Array("Z".utf8))
        case (.unix, .int(let seconds)):
            let (product, isTooLarge) = seconds.multipliedReportingOverflow(by: 1000)
            return isTooLarge ? nil : product
        case (.unix, .real(let seconds)): return Self.whole((seconds * 1000).rounded())
        case (.unixMilliseconds, .int(let value)): return value
        case (.unixMilliseconds, .real(let value)): return Self.whole(value.rounded())
        case (.julian, .real(let day)): return Self.milliseconds(julian: day)
        // The affinity of a column DATE makes an integer of noon.
        case (.julian, .int(let day)): return Self.milliseconds(julian: Double(day))
        default: return nil
        }
    }

    private static func milliseconds(julian day: Double) -> Int64? {
        whole(((day - julianEpoch) * Double(dayMilliseconds)).rounded())
    }

    private static func whole(_ value: Double) -> Int64? { Int64(exactly: value) }

    /// The value of a time.
    func value(ofMilliseconds time: Int64) -> SQLValue {
        switch self {
        case .text: return SQLValue(Self.text(time, separator: " ", zone: ""))
        case .rfc3339: return SQLValue(Self.text(time, separator: "T", zone: "Z"))
        case .unix: return time.isMultiple(of: 1000) ? .int(time / 1000) : .real(Double(time) / 1000)
        case .unixMilliseconds: return .int(time)
        case .julian: return .real(Double(time) / Double(Self.dayMilliseconds) + Self.julianEpoch)
        }
    }

    private static func text(_ time: Int64, separator: String, zone: String) -> String {
        var (days, rest) = time.quotientAndRemainder(dividingBy: dayMilliseconds)
        if rest < 0 { (days, rest) = (days - 1, rest + dayMilliseconds) }
        // Eras of 400 years, which begin on 1 March.
        let shifted = days + 719_468, era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
        let dayOfEra = shifted - era * 146_097
        let year = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * year + year / 4 - year / 100)
        let month = (5 * dayOfYear + 2) / 153, day = dayOfYear - (153 * month + 2) / 5 + 1
        func digits(_ number: Int64, _ count: Int) -> String {
            let text = String(number)
            return String(repeating: "0", count: max(0, count - text.count)) + text
        }
        let calendarMonth = month < 10 ? month + 3 : month - 9
        let calendarYear = year + era * 400 + (calendarMonth <= 2 ? 1 : 0)
        let date = "\(digits(calendarYear, 4))-\(digits(calendarMonth, 2))-\(digits(day, 2))"
        let seconds = rest / 1000, milliseconds = rest % 1000
        let clock = "\(digits(seconds / 3600, 2)):\(digits(seconds / 60 % 60, 2)):\(digits(seconds % 60, 2))"
        return date + separator + clock + (milliseconds == 0 ? "" : ".\(digits(milliseconds, 3))") + zone
    }
}
