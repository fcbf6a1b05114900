import Testing

/// The tutorials of the documentation are compiled and run: the tests that do so have the same code.
@Suite struct TutorialTests {
    @Test func theCodeOfTheTutorialsIsTested() throws {
        let begin = #/( *)// Begin of (\w+)/(\w+)\.md/#
        var tested: Set<String> = []
        for test in try Repository.files(in: "Tests/TutorialTests") {
            for (index, line) in test.lines.enumerated() {
                guard let (_, indentation, library, page) = line.wholeMatch(of: begin)?.output else { continue }
                let path = "Sources/\(library)/\(library).docc/\(page).md"
                let body = test.lines[(index + 1)...].prefix { !$0.hasSuffix("// End of the page") }
                let code = body.map { String($0.dropFirst($0.isEmpty ? 0 : indentation.count)) }
                #expect(code == Self.code(of: try TextFile(path)), "\(test.path) has other code than \(path)")
                tested.insert(path)
            }
        }
        let pages = try Repository.files(in: "Sources", suffix: ".md").filter { $0.path.contains(".docc/") }
        #expect(Set(pages.filter { !Self.code(of: $0).isEmpty }.map(\.path)) == tested)
    }

    /// The blocks of Swift, with an empty line between them.
    private static func code(of page: TextFile) -> [String] {
        var code: [String] = [], isCode = false
        for line in page.lines {
            if line == "```swift", !code.isEmpty { code.append("") }
            if line.hasPrefix("```") { isCode = line == "```swift" } else if isCode { code.append(line) }
        }
        return code
    }
}
