import AnabranchPropertyList
import Testing

/// Dictionaries and dates.
@Suite struct ValueTests {
    @Test func keysAreTheSameIfTheirBytesAre() {
        var values: PropertyListDictionary = ["e\u{301}": 1, "é": 2, "b": 3, "": 4]
        #expect(Array(values.keys) == ["", "b", "e\u{301}", "é"])
        #expect(values["é"] == 2 && values["e\u{301}"] == 1 && values["c"] == nil)
        values["é"] = 5
        values["c"] = 6
        values["b"] = nil
        values["d"] = nil
        #expect(values == ["": 4, "c": 6, "e\u{301}": 1, "é": 5])
        #expect(values != ["": 4, "c": 6, "é": 1])
        #expect(PropertyListDictionary([("a", 1), ("b", 2), ("a", 3)]) { first, _ in first } == ["a": 1, "b": 2])
        #expect(PropertyListDictionary([("a", 1), ("b", 2), ("a", 3)]) { $1 } == ["a": 3, "b": 2])
    }

    @Test func valuesAreEqualByTypeAndBits() {
        let values: [PropertyList] = [
            1, true, .real(1), .largeInteger(1), .data([1]), "1", .real(0), .real(-0.0), .real(.nan), "é", "e\u{301}",
            [], [:],
            [1], ["1": 1], .illFormedString([0xD800]),
        ]
        for (index, value) in values.enumerated() {
            for (other, otherValue) in values.enumerated() { #expect((value == otherValue) == (index == other)) }
        }
        #expect(Set(values).count == values.count)
    }

    /// Every day of the calendar, counted without it.
    @Test func everyDay() throws {
        var seconds: Int64 = -62_135_596_800
        for year in 1...9999 {
            let isLeap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
            // All of some years, of the others the days around which something begins.
            let isWhole = year < 5 || 1896...1904 ~= year || 1999...2004 ~= year || year > 9996
            for (month, length) in [31, isLeap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31].enumerated() {
                for day in 1...length {
                    defer { seconds += 86_400 }
                    guard isWhole || day == length && month == 1 || day == 1 && month == 0 else { continue }
                    let text = [year, month + 1, day].map { $0 < 10 ? "0\($0)" : "\($0)" }.joined(separator: "-")
                    let whole = String(repeating: "0", count: 10 - text.utf8.count) + text + "T00:00:00Z"
                    #expect(PropertyListDate(seconds: seconds)?.description == whole)
                    #expect(PropertyListDate(whole.utf8)?.seconds == seconds)
                }
            }
        }
        #expect(seconds == 253_402_300_800)
        #expect(PropertyListDate(seconds: seconds) == nil)
    }

    @Test func partsOfASecond() throws {
        #expect(PropertyListDate(seconds: 0, nanoseconds: 1_000_000_000) == nil)
        #expect(PropertyListDate(seconds: 0, nanoseconds: -1) == nil)
        let date = try #require(PropertyListDate(seconds: -1, nanoseconds: 5_000_000))
        #expect(date.description == "1969-12-31T23:59:59.005000000Z")
        #expect(PropertyListDate(date.description.utf8) == date)
        #expect(date < (try #require(PropertyListDate(seconds: 0))))
    }
}
