import Foundation
import Testing

/// The symbols that other packages can use are written down, so that a change of them is seen.
@Suite struct PublicSymbolTests {
    #if os(Linux)
    @Test func thePublicSymbolsAreTheListedOnes() throws {
        let tracked = "Tests/RepositoryTests/PublicSymbols"
        let found = FileManager.default.temporaryDirectory.appendingPathComponent("symbols-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: found) }
        let modules = try #require(Bundle.main.executableURL).resolvingSymlinksInPath()
            .deletingLastPathComponent().appendingPathComponent("Modules")
        let script = Process()
        script.executableURL = Repository.root.appendingPathComponent("scripts/public-symbols")
        script.arguments = ["--modules", modules.path, found.path]
        try script.run()
        script.waitUntilExit()
        #expect(script.terminationStatus == 0)

        for library in try Repository.files(in: tracked, suffix: ".txt") {
            let built = try String(contentsOf: found.appendingPathComponent(library.name), encoding: .utf8)
            let lines = built.split(separator: "\n").map(String.init)
            let changes = lines.difference(from: library.lines).map { change in
                switch change {
                case .insert(_, let line, _): "+ \(line)"
                case .remove(_, let line, _): "- \(line)"
                }
            }
            #expect(
                changes.isEmpty,
                """
                \(library.name) has changed, see Spec/Architecture.md, 6; `scripts/public-symbols` rewrites it:\
                \(changes.listed)
                """)
        }
    }
    #endif

    /// A library that others can depend on has a list.
    @Test func everyLibraryHasAList() throws {
        let products = try TextFile("Package.swift").text.matches(of: /\.library\(name: "([A-Z][A-Za-z]+)"/)
        let lists = try Repository.files(in: "Tests/RepositoryTests/PublicSymbols", suffix: ".txt").map(\.name)
        #expect(products.map { "\($0.output.1).txt" }.sorted() == lists)
    }
}
