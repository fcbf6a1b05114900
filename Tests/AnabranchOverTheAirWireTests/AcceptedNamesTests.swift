import AnabranchPropertyList
import Testing

@testable import AnabranchOverTheAirWire

/// The names of the sets of changes that were accepted, in the row of a device.
@Suite struct AcceptedNamesTests {
    private func row(_ names: AcceptedNames) -> PropertyListDictionary {
        var row: PropertyListDictionary = ["round": 3]
        names.write(to: &row)
        return row
    }

    @Test func theyComeBack() throws {
        var names = try AcceptedNames([:])
        #expect(names.names.isEmpty)
        names.append("1.a", at: 1_700_000_000, days: 30)
        names.append("2.é\0", at: 1_700_000_001, days: 30)
        let read = try AcceptedNames(row(names))
        #expect(read.entries.map { $0.name } == ["1.a", "2.é\0"])
        #expect(read.entries.map { $0.time } == [1_700_000_000, 1_700_000_001])
    }

    @Test func rowsOfBeforeAreReadAndWrittenAnew() throws {
        var names = try AcceptedNames(["names": ["1.a", "2.b"], "times": [10, 20]])
        names.append("3.c", at: 30, days: 30)
        let row = row(names)
        #expect(row.map { $0.key } == ["accepted", "round"])
        #expect(try AcceptedNames(row).entries.map { $0.time } == [10, 20, 30])
    }

    @Test func oldOnesAreForgottenButForTheLastTwo() throws {
        var names = try AcceptedNames([:])
        for number in 0..<100 { names.append("\(number)", at: 0, days: 30) }
        #expect(names.names == (36..<100).map { "\($0)" })
        names.append("last", at: 30 * 86_400 + 1, days: 30)
        #expect(names.names == ["99", "last"])
    }

    @Test func theLastOneMayBeRenamed() throws {
        var names = try AcceptedNames([:]), renamed = [names.renameLast(to: "b", at: 1)]
        names.append("a", at: 1, days: 30)
        renamed.append(names.renameLast(to: "a", at: 2))
        renamed.append(names.renameLast(to: "b", at: 2))
        #expect(renamed == [false, false, true])
        #expect(names.names == ["b"])
    }

    @Test func aRowThatIsCutOffIsDamaged() throws {
        var names = try AcceptedNames([:])
        names.append("a name", at: 1, days: 30)
        let bytes = try #require(row(names)["accepted"]?.data)
        for count in [7, bytes.count - 1] {
            #expect(throws: (any Error).self) { try AcceptedNames(["accepted": .data(Array(bytes.prefix(count)))]) }
        }
    }
}
