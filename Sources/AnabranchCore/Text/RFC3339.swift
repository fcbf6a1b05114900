/// Times as texts of RFC 3339 (`Spec/Export.md`, section 4), in the proleptic Gregorian calendar.
package enum RFC3339 {
    /// The milliseconds from 1970-01-01T00:00:00Z to the time in a text; nil for any other text, and for a day or an
    /// hour that does not exist.
    ///
    /// Years are 0001 … 9999. A fraction of any length is cut after its third digit, towards the past. `T` and `Z` may
    /// be lower-case letters, and an offset may lack its colon, as old versions of mongoexport write it.
    package static func milliseconds(_ text: some Sequence<UInt8>) -> Int64? {
        var reader = Reader(rest: Array(text)[...])
        guard let year = reader.number(4), reader.take("-"), let month = reader.number(2), reader.take("-"),
            let day = reader.number(2), reader.take("Tt"), let hour = reader.number(2), reader.take(":"),
            let minute = reader.number(2), reader.take(":"), let second = reader.number(2),
            let fraction = reader.fraction(), let offset = reader.offset(), reader.rest.isEmpty,
            year > 0, 1...12 ~= month, 1...days(in: month, of: year) ~= day, hour < 24, minute < 60, second < 60
        else { return nil }
        let minutes = (daysSince1970(year, month, day) * 24 + hour) * 60 + minute - offset
        return Int64((minutes * 60 + second) * 1000 + fraction)
    }

    private static func isLeap(_ year: Int) -> Bool {
        year.isMultiple(of: 4) && (!year.isMultiple(of: 100) || year.isMultiple(of: 400))
    }

    private static func days(in month: Int, of year: Int) -> Int {
        month == 2 ? (isLeap(year) ? 29 : 28) : [4, 6, 9, 11].contains(month) ? 30 : 31
    }

    private static func daysSince1970(_ year: Int, _ month: Int, _ day: Int) -> Int {
        let past = year - 1
        let daysOfYears = past * 365 + past / 4 - past / 100 + past / 400
        return daysOfYears + (1..<month).reduce(0) { $0 + days(in: $1, of: year) } + day - 1 - 719_162
    }

    private struct Reader {
        var rest: ArraySlice<UInt8>

        /// A number of `count` digits.
        mutating func number(_ count: Int) -> Int? {
            var value = 0
            for _ in 0..<count {
                guard let digit = digit() else { return nil }
                value = value * 10 + digit
            }
            return value
        }

        /// Takes one of the characters if it comes next.
        mutating func take(_ characters: StaticString) -> Bool {
            guard let byte = rest.first, characters.withUTF8Buffer({ $0.contains(byte) }) else { return false }
            rest.removeFirst()
            return true
        }

        /// The milliseconds of a fraction, 0 without one; nil for a point without digits.
        mutating func fraction() -> Int? {
            guard take(".") else { return 0 }
            var (value, unit) = (0, 100)
            guard let first = digit() else { return nil }
            value = first * unit
            while let digit = digit() {
                unit /= 10
                value += digit * unit
            }
            return value
        }

        /// The minutes that the local time is ahead of UTC.
        mutating func offset() -> Int? {
            if take("Zz") { return 0 }
            let isBehind = rest.first == UInt8(ascii: "-")
            guard take("+-"), let hours = number(2), hours < 24 else { return nil }
            _ = take(":")
            guard let minutes = number(2), minutes < 60 else { return nil }
            return (hours * 60 + minutes) * (isBehind ? -1 : 1)
        }

        private mutating func digit() -> Int? {
            guard let byte = rest.first, 0x30...0x39 ~= byte else { return nil }
            rest.removeFirst()
            return Int(byte - 0x30)
        }
    }
}

extension Timestamp {
    /// The years that have texts, 0001 … 9999.
    private static let datedSeconds: Range<Int64> = -62_135_596_800..<253_402_300_800
    private static let perSecond: Int64 = 1_000_000_000

    /// The time in a text as `RFC3339.milliseconds` takes it; nil for another one. Of a fraction nine digits count.
    package init?(rfc3339 text: some Sequence<UInt8>) {
        let text = Array(text)
        guard let milliseconds = RFC3339.milliseconds(text) else { return nil }
        let seconds = milliseconds / 1000 - (milliseconds % 1000 < 0 ? 1 : 0)
        let hasFraction = text.count > 20 && text[19] == UInt8(ascii: ".")
        let digits = hasFraction ? text[20...].prefix { 0x30...0x39 ~= $0 }.prefix(9) : []
        let rest = (0..<9).reduce(Int64(0)) { number, place in
            number * 10 + (place < digits.count ? Int64(digits[20 + place] - 0x30) : 0)
        }
        // Both parts have one sign.
        let isMixed = seconds < 0 && rest > 0
        self.init(
            seconds: seconds + (isMixed ? 1 : 0), nanoseconds: Int32(rest - (isMixed ? Self.perSecond : 0)))
    }

    /// The time as a text of RFC 3339 in UTC, with milliseconds, as JavaScript has it, or with all nine digits if there
    /// are more; nil for other years.
    package var rfc3339: String? {
        let (seconds, rest) =
            nanoseconds < 0
            ? (seconds &- 1, Int64(nanoseconds) + Self.perSecond) : (seconds, Int64(nanoseconds))
        guard Self.datedSeconds.contains(seconds), 0..<Self.perSecond ~= rest else { return nil }
        let dayLength: Int64 = 86_400
        // Days since 0000-03-01, in eras of 400 years.
        let second = (seconds % dayLength + dayLength) % dayLength, days = (seconds - second) / dayLength + 719_468
        let (era, dayOfEra) = days.quotientAndRemainder(dividingBy: 146_097)
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153, month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0), day = dayOfYear - (153 * shiftedMonth + 2) / 5 + 1
        func digits(_ number: Int64, _ count: Int) -> String {
            let text = String(number)
            return String(repeating: "0", count: max(0, count - text.utf8.count)) + text
        }
        let date = "\(digits(year, 4))-\(digits(month, 2))-\(digits(day, 2))"
        let clock = "\(digits(second / 3600, 2)):\(digits(second / 60 % 60, 2)):\(digits(second % 60, 2))"
        let fraction = rest % 1_000_000 == 0 ? digits(rest / 1_000_000, 3) : digits(rest, 9)
        return "\(date)T\(clock).\(fraction)Z"
    }
}
