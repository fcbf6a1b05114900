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
