import Testing

/// A limit is a number whose name ends in `Max` or `Min`, or anything in `Limits.swift`, unless it is private. Each has
/// a comment, and `Spec/Limits.md` has a row for each: `| Limits.messageBytesMax | 33,554,432 | … |`.
@Suite struct LimitTests {
    @Test func theTableOfLimitsIsTrue() throws {
        let limits = try LimitTests.limits()
        let rows = try LimitTests.rowsOfTheTable()
        var differences: [String] = []
        for limit in limits where rows[limit.name] != limit.value {
            let found = rows[limit.name].map(String.init) ?? "missing"
            differences.append("`\(limit.name)` is \(limit.value) in the code, \(found) there")
        }
        for name in rows.keys.sorted() where !limits.contains(where: { $0.name == name }) {
            differences.append("`\(name)` is not in the code")
        }
        #expect(!limits.isEmpty)
        #expect(differences.isEmpty, "Spec/Limits.md is out of date: \(differences.listed)")
    }

    @Test func everyLimitSaysWhatItIsFor() throws {
        let bare = try LimitTests.limits().filter { !$0.isDocumented }.map(\.name)
        #expect(bare.isEmpty, "no documentation comment: \(bare.listed)")
    }

    @Test(arguments: [("32 << 20", 33_554_432), ("180_000", 180_000), ("1024", 1024), ("2 * 60 * 1000", 120_000)])
    func valuesAreRead(expression: String, value: Int) {
        #expect(LimitTests.value(of: expression) == value)
    }

    private struct Limit {
        /// With the type in which it stands.
        var name: String
        var value: Int
        var isDocumented: Bool
    }

    private static func limits() throws -> [Limit] {
        // `var bytesMax = 32 << 20`, `bytesMax: Int = 32 << 20` of a parameter, `limits.bytesMax = 4 << 20`
        let named = /((?:\w+\.)?\w+(?:Max|Min))(?:: \w+)? = ([0-9][0-9_]*(?: (?:<<|\*) [0-9][0-9_]*)*)/
        let declaration = /\b(?:var|let)\s/
        let inLimits = /(?:var|let) (\w+)(?:: \w+)? = ([0-9][0-9_]*(?: (?:<<|\*) [0-9][0-9_]*)*)/
        var limits: [Limit] = []
        for file in try Repository.files(in: "Sources") {
            let pattern = file.name == "Limits.swift" ? inLimits : named
            for (index, line) in file.lines.enumerated() where line.contains(" = ") && !line.contains("private ") {
                // Quicker to see than whether it fits.
                guard file.name == "Limits.swift" || line.contains("Max") || line.contains("Min") else { continue }
                guard let match = line.withoutLiteralsAndComment.firstMatch(of: pattern),
                    let value = value(of: match.output.2)
                else { continue }
                let isDeclaration = line.contains(declaration)
                limits.append(
                    Limit(
                        name: "\(file.typeAround(index)).\(match.output.1)", value: value,
                        isDocumented: !isDeclaration || index > 0 && file.lines[index - 1].contains("///")))
            }
        }
        return limits
    }

    private static func rowsOfTheTable() throws -> [String: Int] {
        let row = #/^\| `(\w+(?:\.\w+)+)` \| ([0-9,]+) \|/#
        var rows: [String: Int] = [:]
        for line in try TextFile("Spec/Limits.md").lines {
            guard let match = line.firstMatch(of: row) else { continue }
            rows[String(match.output.1)] = Int(match.output.2.filter { $0 != "," })
        }
        return rows
    }

    /// A number, or numbers joined by `<<` or `*`.
    private static func value(of expression: some StringProtocol) -> Int? {
        let words = String(expression).filter { $0 != "_" }.split(separator: " ")
        guard let first = words.first.flatMap({ Int($0) }) else { return nil }
        return stride(from: 2, to: words.count, by: 2).reduce(first) { value, index in
            let factor = Int(words[index]) ?? 0
            return words[index - 1] == "<<" ? value << factor : value * factor
        }
    }
}

extension TextFile {
    /// The name of the innermost type or extension around a line.
    fileprivate func typeAround(_ index: Int) -> Substring {
        let declaration = /\b(?:struct|class|enum|actor|protocol|extension) ([A-Z]\w*)/
        var indentation = lines[index].prefix { $0 == " " }.count
        for line in lines[..<index].reversed() where indentation > 0 {
            let outer = line.prefix { $0 == " " }.count
            guard outer < indentation, !line.isEmpty else { continue }
            indentation = outer
            if let match = line.firstMatch(of: declaration) { return match.output.1 }
        }
        return name.prefix { $0 != "." }
    }
}
