import Testing

/// The examples are packages of their own, and their code is what pages show.
@Suite struct ExampleTests {
    /// The tutorials of the libraries are compared as wholes (`TutorialTests`).
    @Test func pagesShowCodeOfExamplesAndTests() throws {
        let examples = try Repository.files(in: "Examples", "Tests/TutorialTests")
        let pages = try Repository.files(in: "Spec", suffix: ".md") + [TextFile("README.md")]
        let blocks = pages.flatMap { page in Self.blocks(of: page).map { (page.path, $0) } }
        #expect(blocks.count > 15)
        for (page, block) in blocks {
            #expect(examples.contains { Self.contains($0.lines, block) }, "\(page): in no example: \(block.listed)")
        }
    }

    /// An example is compiled here with what it depends on in its own package.
    @Test func theManifestsSayWhatTheRootSays() throws {
        let root = Self.targets(of: try TextFile("Package.swift").text)
        for folder in try Repository.folders(in: "Examples")
        where Repository.exists("Examples/\(folder)/Package.swift") {
            let manifest = try TextFile("Examples/\(folder)/Package.swift").text
            #expect(manifest.contains(#".package(name: "anabranch", path: "../..")"#))
            let targets = Self.targets(of: manifest)
            #expect(!targets.isEmpty)
            for (name, dependencies) in targets { #expect(root[name] == dependencies, "\(name)") }
        }
    }

    /// The manifest of an app, and its view, are no part of the program of a page, but stand in an example.
    @Test func thePageAboutAClientShowsItsExample() throws {
        let page = try TextFile("Sources/AnabranchClient/AnabranchClient.docc/SyncATaskList.md")
        let blocks = Self.blocks(of: page, from: "``` swift\n")
        let files = try Repository.files(in: "Examples/Tasks")
        #expect(blocks.count == 2)
        for block in blocks {
            let lines = block.map { $0.replacing("\"../anabranch\"", with: "\"../..\"") }
            #expect(files.contains { Self.contains($0.lines, lines) }, "in no file of the example: \(block.listed)")
        }
    }

    /// The names of what each target depends on, be it a target or a product.
    private static func targets(of manifest: String) -> [String: Set<String>] {
        var targets: [String: Set<String>] = [:]
        for declaration in manifest.split(separator: /\.(?:target|testTarget|executableTarget)\(/).dropFirst() {
            guard let name = declaration.firstMatch(of: /name: "([\w-]+)"/),
                let list = declaration.firstMatch(of: /dependencies: \[((?:[^\[\]])*)\]/)
            else { continue }
            let names = list.output.1.matches(of: /(package: )?"([\w-]+)"/).filter { $0.output.1 == nil }
            targets[String(name.output.1)] = Set(names.map { String($0.output.2) })
        }
        return targets
    }

    private static func blocks(of page: TextFile, from fence: String = "```swift\n") -> [[String]] {
        page.text.split(separator: fence).dropFirst().map { rest in
            rest.prefix(upTo: rest.firstRange(of: "\n```")?.lowerBound ?? rest.endIndex)
                .split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
        }
    }

    /// True if the lines of a block follow each other somewhere, perhaps all of them indented.
    private static func contains(_ lines: [String], _ block: [String]) -> Bool {
        lines.indices.contains { start in
            let indentation = lines[start].prefix { $0 == " " }
            return lines[start...].starts(with: block.map { $0.isEmpty ? "" : indentation + $0 })
        }
    }
}
