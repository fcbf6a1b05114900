import Testing

/// The calls of a file space that the document shows are lines that are tested.
@Suite struct CallTableTests {
    @Test func eachCallIsALineOfATest() throws {
        let tested = Set(
            try TextFile("Tests/AnabranchFilesTests/CallsTests.swift").lines.map { $0.drop { $0 == " " } })
        let lines = try TextFile("Spec/Files.md").lines
        let start = try #require(lines.firstIndex { $0.hasPrefix("| Document |") })
        let rows = lines[(start + 2)...].prefix { $0.hasPrefix("|") }
        #expect(rows.count > 15)
        for row in rows {
            let calls = row.matches(of: /`([^`]+)`/).map(\.output.1)
            #expect(!calls.isEmpty, "\(row)")
            for call in calls { #expect(tested.contains(call), "no test has the line \(call)") }
        }
    }
}
