import Testing

/// `Spec/` is what code refers to, so what code refers to has to be there.
@Suite struct SpecTests {
    /// As in "`Spec/History.md`, section 6", "`Spec/Transform.md`, sections 4, 6 and 7", "`Spec/State.md`, B5 to B9"
    /// and "`Spec/State.md`, part A".
    @Test func referencesToChaptersLeadSomewhere() throws {
        let reference =
            /Spec\/(\w+\.md)(?:`?, (?:sections? |part )?((?:[A-E]?[0-9.]+(?:, | and | to )?|[A-E]\b)+))?/
        let number = /[A-E]?[0-9]+(?:\.[0-9]+)?|[A-E]/
        let missing = try Repository.files(in: "Sources", "Tests").places { line in
            guard line.contains("Spec/") else { return nil }
            for match in line.matches(of: reference) {
                let chapter = String(match.output.1)
                guard let sections = try? SpecTests.sections(of: chapter) else { return "there is no Spec/\(chapter)" }
                for section in (match.output.2 ?? "").matches(of: number).map({ String($0.output) })
                where !sections.contains(section) {
                    return "Spec/\(chapter) has no section \(section)"
                }
            }
            return nil
        }
        #expect(missing.isEmpty, "\(missing.listed)")
    }

    /// Links to pages, to their headings, and to sections, as in "[Admin](Admin.md), section 5".
    @Test func linksLeadSomewhere() throws {
        let link = /\]\(([^)#:]*)(?:#([^)]*))?\)(?:,? sections? ([A-E]?[0-9]+(?:\.[0-9]+)?))?/
        for file in try Self.pages() {
            let folder = file.path.dropLast(file.name.count)
            var broken: [String] = []
            for line in Self.prose(of: file) {
                for match in line.replacing(/`[^`]*`/, with: "").matches(of: link) {
                    let (_, target, anchor, section) = match.output
                    let path = target.isEmpty ? file.path : "\(folder)\(target)"
                    guard Repository.exists(path) else {
                        broken.append("there is no \(target)")
                        continue
                    }
                    guard path.hasSuffix(".md") else { continue }
                    if let anchor, try !Self.anchors(of: TextFile(path)).contains(String(anchor)) {
                        broken.append("\(path) has no heading #\(anchor)")
                    }
                    if let section, try !Self.sections(ofPage: path).contains(String(section)) {
                        broken.append("\(path) has no section \(section)")
                    }
                }
            }
            #expect(broken.isEmpty, "\(file.path): \(broken.joined(separator: "; "))")
        }
    }

    private static func pages() throws -> [TextFile] {
        let pages = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "Benchmarks/README.md", "Examples/README.md"]
        return try Repository.files(in: "Spec", "Sources", "Tests", "findings", suffix: ".md")
            + pages.map { try TextFile($0) }
    }

    /// The lines outside of blocks of code.
    private static func prose(of page: TextFile) -> [String] {
        var isCode = false
        return page.lines.filter { line in
            if line.hasPrefix("```") { isCode.toggle() }
            return !isCode
        }
    }

    /// The names that links give the headings of a page.
    private static func anchors(of page: TextFile) -> Set<String> {
        let anchors: [String] = prose(of: page).compactMap { line in
            guard let mark = line.prefixMatch(of: #/#+\s/#) else { return nil }
            let words = line[mark.range.upperBound...].lowercased()
            return words.filter { $0.isLetter || $0.isNumber || " -_".contains($0) }.replacing(" ", with: "-")
        }
        return Set(anchors)
    }

    @Test func theIndexNamesEveryChapter() throws {
        let index = try TextFile("Spec/README.md").text
        let unnamed = try Repository.files(in: "Spec", suffix: ".md").map { String($0.path.dropFirst("Spec/".count)) }
            .filter { $0 != "README.md" && !index.contains("](\($0))") }
        #expect(unnamed.isEmpty, "not in Spec/README.md: \(unnamed.listed)")
    }

    /// The page names types and their members, as in `SyncedFile.enqueue`.
    @Test func thePageOfTheServerNamesWhatThereIs() throws {
        let sources = try Repository.files(in: "Sources").map { SwiftSource(path: $0.path, text: $0.text) }
        let names = Set(sources.flatMap { $0.declarations() }.map(\.name))
        let missing = try TextFile("Spec/Server.md").places { line in
            line.matches(of: /[`\s]([A-Z]\w*[a-z]\w*)(?:\.(\w+))?(?=[`\s]|$)/)
                .filter { line.contains("`\($0.output.1)") || $0.output.2 != nil }
                .flatMap { [$0.output.1, $0.output.2].compactMap { $0.map(String.init) } }
                .first { !names.contains($0) && !Repository.exists("Sources/AnabranchServer/\($0)/") }
                .map { "there is no \($0)" }
        }
        #expect(missing.isEmpty, "\(missing.listed)")
    }

    /// The chapter says what each number means that an operator sees.
    @Test func everyMetricIsExplained() throws {
        let chapter = try TextFile("Spec/Admin.md").text
        var names: Set<String> = []
        for file in try Repository.files(in: "Sources/AnabranchServer") {
            for match in file.text.matches(of: /"(anabranch_[a-z_]+)"/) {
                let name = String(match.output.1)
                names.insert(name.hasSuffix("_duration") ? name + "_seconds" : name)
            }
        }
        let unexplained = names.filter { !chapter.contains("`\($0)`") && !chapter.contains("`\($0){") }.sorted()
        #expect(names.count >= 20)
        #expect(unexplained.isEmpty, "not in Spec/Admin.md: \(unexplained.listed)")
    }

    /// A dashboard shows a line of help for each.
    @Test func everyMetricHasALineOfHelp() throws {
        let help = try TextFile("Sources/AnabranchServer/Admin/MetricHelp.swift").text
        let helped = help.matches(of: /"((?:anabranch|process)_[a-z_]+)": "[^"]+\."/).map { String($0.output.1) }
        let chapter = try TextFile("Spec/Admin.md").text
        let explained = chapter.matches(of: /`((?:anabranch|process)_[a-z_]+)(?:\{[a-z,]+\})?`/).map {
            String($0.output.1)
        }
        #expect(helped == helped.sorted() && Set(helped).count == helped.count)
        #expect(Set(explained).symmetricDifference(helped).sorted() == [])
    }

    /// The metrics that Prometheus and Grafana are told to look at is there.
    @Test(arguments: ["alerts.yaml", "grafana.json"]) func everyMetricThatIsAskedForExists(file: String) throws {
        let chapter = try TextFile("Spec/Admin.md").text
        let suffixes = /_(bucket|sum|count)$/
        let names = Set(
            try TextFile("scripts/deploy/\(file)").text.matches(of: /\b(?:anabranch|process)_[a-z_]+/).map {
                String($0.output).replacing(suffixes, with: "")
            })
        let missing = names.filter { !chapter.contains("`\($0)`") && !chapter.contains("`\($0){") }
        #expect(names.count >= 10)
        #expect(missing.sorted() == [])
    }

    /// The numbers of a chapter's headings: "## 5. Sessions", "### 5.1 Framing", "# Part A. Data", "## A1. Classes".
    private static func sections(of chapter: String) throws -> Set<String> {
        try sections(ofPage: "Spec/\(chapter)")
    }

    private static func sections(ofPage path: String) throws -> Set<String> {
        let heading = #/^#+ (?:Part )?([A-E]?[0-9]*(?:\.[0-9]+)?)\.?\s/#
        return Set(
            try TextFile(path).lines.compactMap { line in
                line.firstMatch(of: heading).map { String($0.output.1) }
            })
    }
}
