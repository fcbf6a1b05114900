import Testing

/// One word has one meaning (`Spec/README.md`), and a word that was given up does not come back: `RetiredWords.md` has
/// those.
@Suite struct WordTests {
    /// A row of the table of retired words.
    private struct RetiredWord {
        let word: String
        let now: String
        /// Paths, or beginnings of paths, where it may stand.
        let exceptions: [String]
    }

    @Test func noRetiredWordIsUsed() throws {
        let retired = try Self.retiredWords()
        #expect(retired.count > 50)
        let words = Dictionary(uniqueKeysWithValues: retired.map { ($0.word, $0) })
        let files =
            try Repository.files(in: "Sources", "Tests", "Examples", "Benchmarks/Benchmarks")
            + Repository.files(in: "Sources", "Tests", suffix: ".md") + Repository.files(in: "Tests", suffix: ".py")
            + Repository.files(in: "scripts", suffix: "") + [TextFile("Benchmarks/README.md")]
        for file in files where file.path != Self.retiredWordsPath {
            let places = file.places { line in
                for word in line.utf8.split(whereSeparator: { !$0.isWordByte }) {
                    guard let found = words[String(Substring(word))] else { continue }
                    if found.exceptions.contains(where: file.path.hasPrefix) { continue }
                    return "\(found.word) is retired, see \(Self.retiredWordsPath); the word is \(found.now)"
                }
                return nil
            }
            #expect(places.isEmpty, "\(places.listed)")
        }
    }

    /// The word that replaced another is in use itself, and no word is explained twice.
    @Test func theTablesAreConsistent() throws {
        let retired = try Self.retiredWords()
        let retiredWords = Set(retired.map(\.word))
        #expect(retiredWords.count == retired.count, "a retired word stands twice")
        let sources = try Repository.files(in: "Sources", "Tests").map(\.text).joined(separator: "\n")
        let code = Set(sources.utf8.split { !$0.isWordByte }.map { String(Substring($0)) })
        for row in retired {
            for match in row.now.matches(of: /`(\w+)`/) where !code.contains(String(match.output.1)) {
                Issue.record("\(match.output.1), which replaced \(row.word), is nowhere in the code")
            }
            for path in row.exceptions { #expect(Repository.exists(path), "there is no \(path)") }
        }
        let words = try Self.rows(of: "Spec/README.md", below: "## Words").flatMap { row in
            row[0].split(separator: ", ").map(String.init)
        }
        let repeated = Dictionary(grouping: words) { $0 }.filter { $0.value.count > 1 }.keys.sorted()
        #expect(words.count > 40)
        #expect(repeated.isEmpty, "explained twice: \(repeated.listed)")
    }

    // MARK: The tables

    private static let retiredWordsPath = "Tests/RepositoryTests/RetiredWords.md"

    private static func retiredWords() throws -> [RetiredWord] {
        try rows(of: retiredWordsPath, below: "# Retired words").map { row in
            RetiredWord(
                word: row[0].filter { $0 != "`" }, now: row[1],
                exceptions: row[2].matches(of: /`([^`]+)`/).map { String($0.output.1) })
        }
    }

    /// The cells of the rows of all tables of a page below a heading, without the heads of the tables.
    private static func rows(of path: String, below heading: String) throws -> [[String]] {
        let lines = try TextFile(path).lines
        let start = try #require(lines.firstIndex(of: heading))
        var rows: [[String]] = []
        for line in lines[start...] where line.hasPrefix("|") {
            if line.hasPrefix("|---") {
                rows.removeLast()
            } else {
                rows.append(line.dropFirst().split(separator: "|", omittingEmptySubsequences: false).map(\.trimmed))
            }
        }
        return rows
    }
}

extension Substring {
    fileprivate var trimmed: String {
        String(drop { $0 == " " }.reversed().drop { $0 == " " }.reversed())
    }
}
