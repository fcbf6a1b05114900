import Foundation
import Testing

/// Each block of a page is compiled, run or read by a test.
@Suite struct PageTests {
    /// The tests that look at the blocks of a language, wherever they stand. Swift of the SDKs of others has a space
    /// before its name, as have the blocks of other languages that nothing here can run.
    private static let tests = [
        "swift": "ExampleTests, TutorialTests", "sh": "GuideTests, HelpTests", "console": "HelpTests",
        "yaml": "PageConfigurationTests", "json": "below", "python": "below", "text": "GuideTests",
    ]

    /// Blocks that are files, or SQL, of pages whose commands are run; and what is neither code nor a command, by page:
    /// how many there are, and what keeps them true.
    private static let others: [String: [String: (count: Int, keptBy: String)]] = [
        "README.md": ["": (1, "a drawing")],
        "Spec/Architecture.md": ["": (1, "a drawing of names that SpecTests looks for")],
        "Spec/Changeset.md": ["": (2, "a grammar; bytes that AcceptedQuirkTests reads")],
        "Spec/Explain.md": ["": (2, "what ExplainTests and ViewDecisionTests compare")],
        "Spec/Server.md": ["": (2, "drawings of names that SpecTests looks for")],
        "Spec/State.md": ["": (4, "grammars")],
        "Spec/Guide/Devices.md": ["xml": (1, "GuideTests runs its commands")],
        "Spec/Guide/FromAtlas.md": ["sql": (1, "PageSQLTests")],
        "Spec/Guide/FromBarq.md": ["js": (1, "GuideTests runs its commands")],
        "Spec/Guide/MoreThanOneMachine.md": ["sql": (2, "PageSQLTests"), "nginx": (1, "PostgresServeTests")],
        "Spec/Guide/Operate.md": ["nginx": (1, "GuideTests runs its commands"), "": (1, "tried with Caddy 2.6.2")],
    ]

    /// Pages whose commands need another machine, a database that is there, or hours: only their form is looked at.
    private static let pagesThatAreNotRun: Set = [
        "Benchmarks/README.md", "Spec/Bridge.md", "Spec/Capture.md", "Spec/Guide/MoreThanOneMachine.md",
        "Spec/Inspector.md", "Tests/Fixtures/README.md",
        "Sources/AnabranchClient/AnabranchClient.docc/SyncATaskList.md",
    ]

    @Test func everyBlockIsLookedAtByATest() throws {
        let run = try Self.pagesOfTheGuides()
        for page in try Self.pages() {
            var found: [String: Int] = [:]
            for block in Self.blocks(of: page) where !block.language.hasPrefix(" ") {
                let language = block.language
                if Self.tests[language] == nil { found[language, default: 0] += 1 }
                if language == "sh" {
                    #expect(
                        run.contains(page.path) != Self.pagesThatAreNotRun.contains(page.path),
                        "\(page.path): commands that GuideTests does not run")
                }
                if language == "text" { #expect(run.contains(page.path), "\(page.path): nothing compares its output") }
            }
            #expect(found == (Self.others[page.path] ?? [:]).mapValues(\.count), "\(page.path)")
        }
    }

    @Test func everyBlockOfJSONIsJSON() throws {
        for page in try Self.pages() {
            for block in Self.blocks(of: page) where block.language == "json" {
                // A document, or one a line.
                let isDocument = Self.isJSON(block.text)
                #expect(
                    isDocument || block.text.split(separator: "\n").allSatisfy { Self.isJSON(String($0)) },
                    "\(page.path): \(block.text)")
            }
        }
    }

    /// Blocks that a shell or Python would refuse before it begins.
    @Test func everyBlockForAShellOrPythonIsRead() throws {
        for page in try Self.pages() {
            for block in Self.blocks(of: page) {
                let complaint: String
                switch block.language {
                case "sh", "console": complaint = try Self.complaint(of: ["bash", "-n"], about: block.text)
                case "python":
                    let read = "import ast, sys; ast.parse(sys.stdin.read())"
                    complaint = try Self.complaint(of: ["python3", "-c", read], about: block.text)
                default: continue
                }
                #expect(complaint.isEmpty, "\(page.path): \(complaint)")
            }
        }
    }

    private struct Block {
        let language: String
        var text = ""
    }

    private static func pages() throws -> [TextFile] {
        try Repository.files(in: "Spec", "Sources", "Tests", "findings", suffix: ".md")
            + ["README.md", "Benchmarks/README.md", "Examples/README.md", "CHANGELOG.md"].map { try TextFile($0) }
    }

    /// Those that `GuideTests` names.
    private static func pagesOfTheGuides() throws -> Set<String> {
        let tests = try TextFile("Tests/AnabranchServerTests/WholeServer/GuideTests.swift").text
        let pages = Set(tests.matches(of: /page: "([^"]+)"/).map { String($0.output.1) })
        #expect(pages.count > 5)
        return pages
    }

    private static func blocks(of page: TextFile) -> [Block] {
        var blocks: [Block] = [], isInside = false
        for line in page.lines {
            if line.hasPrefix("```") {
                isInside.toggle()
                if isInside { blocks.append(Block(language: String(line.dropFirst(3)))) }
            } else if isInside {
                blocks[blocks.count - 1].text += line + "\n"
            }
        }
        return blocks
    }

    private static func isJSON(_ text: String) -> Bool {
        (try? JSONSerialization.jsonObject(with: Data(text.utf8), options: .fragmentsAllowed)) != nil
    }

    private static func complaint(of command: [String], about text: String) throws -> String {
        let process = Process(), input = Pipe(), output = Pipe()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = command
        (process.standardInput, process.standardError) = (input, output)
        try process.run()
        try input.fileHandleForWriting.write(contentsOf: Data(text.utf8))
        try input.fileHandleForWriting.close()
        let complaint = try output.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        return process.terminationStatus == 0 ? "" : String(decoding: complaint, as: UTF8.self)
    }
}
