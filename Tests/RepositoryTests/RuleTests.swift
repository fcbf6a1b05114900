import Testing

/// The merge rules are stated once, in a folder of their own, and the chapter defines the same ones.
@Suite struct RuleTests {
    private static let rules = "Sources/AnabranchCore/Merge/Rules"
    private static let lists = "Sources/AnabranchCore/Merge/Lists"

    /// A statement of a rule is a comment that begins with its code: `/// R20. A moved element …`.
    @Test func theRulesOfTheCodeAreThoseOfTheChapter() throws {
        let statement = #/^\s*///? ((?:[RN][0-9]+(?:, | and )?)+)\.\s/#
        var stated: [String: [String]] = [:]
        for file in try Repository.files(in: Self.rules) {
            for (index, line) in file.lines.enumerated() {
                guard let match = line.prefixMatch(of: statement) else { continue }
                for code in match.output.1.matches(of: /[RN][0-9]+/) {
                    stated[String(code.output), default: []].append("\(file.path):\(index + 1)")
                }
            }
        }
        let defined = try Self.rulesOfTheChapter()
        #expect(defined.count == 36)
        #expect(Set(stated.keys) == defined, "Rules/ states other rules than Spec/Transform.md, sections 6 and 7")
        let repeated = stated.filter { $0.value.count > 1 }.map { "\($0.key) is stated in \($0.value)" }.sorted()
        #expect(repeated.isEmpty, "\(repeated.listed)")
    }

    /// The codes that stand at the start of a line or of a row of a table.
    private static func rulesOfTheChapter() throws -> Set<String> {
        let lines = try TextFile("Spec/Transform.md").lines
        let start = try #require(lines.firstIndex { $0.hasPrefix("## 6.") })
        let end = try #require(lines.firstIndex { $0.hasPrefix("## 8.") })
        let definition = /^(?:\| |\*\*)?([RN][0-9]+)\b/
        return Set(lines[start..<end].compactMap { $0.prefixMatch(of: definition).map { String($0.output.1) } })
    }

    /// Each file of the list merge says which subsections of the chapter it is. These exist, and each has a file.
    @Test func theFilesOfTheListMergeAndItsSectionsBelongTogether() throws {
        let sections = Set(
            try TextFile("Spec/Transform.md").lines.compactMap { line in
                line.prefixMatch(of: #/### (13\.[0-9]+) /#).map { String($0.output.1) }
            })
        var uncited = sections
        for file in try Repository.files(in: Self.lists) {
            let cited = Set(file.comments.matches(of: /\b13\.[0-9]+/).map { String($0.output) })
            #expect(!cited.isEmpty, "\(file.path) says not which part of Spec/Transform.md, section 13, it is")
            #expect(cited.isSubset(of: sections), "\(file.path) cites a section that Spec/Transform.md has not")
            uncited.subtract(cited)
        }
        #expect(!sections.isEmpty)
        #expect(uncited.isEmpty, "no file of \(Self.lists) cites \(uncited.sorted())")
    }
}

extension TextFile {
    /// The lines that are comments.
    fileprivate var comments: String {
        lines.filter { $0.drop { $0 == " " }.hasPrefix("//") }.joined(separator: "\n")
    }
}
