import Foundation

/// The pages of the repository, for tests that read them.
enum Pages {
    private static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    /// The paths of all pages for people who use or change Anabranch.
    static func all() throws -> [String] {
        var pages = ["README.md"]
        for folder in ["Benchmarks", "Examples", "Sources", "Spec", "Tests", "findings"] {
            let paths = try FileManager.default.subpathsOfDirectory(atPath: root.appendingPathComponent(folder).path)
            pages += paths.filter { $0.hasSuffix(".md") && !$0.contains(".build/") }.map { "\(folder)/\($0)" }
        }
        return pages.sorted()
    }

    static func text(of page: String) throws -> String {
        try String(contentsOf: root.appendingPathComponent(page), encoding: .utf8)
    }

    /// The blocks of a page that are in a language.
    static func blocks(in language: String, of page: String) throws -> [String] {
        var blocks: [String] = [], isInside = false, isWanted = false
        for line in try text(of: page).components(separatedBy: "\n") {
            if line.hasPrefix("```") {
                isInside.toggle()
                isWanted = isInside && line == "```\(language)"
                if isWanted { blocks.append("") }
            } else if isWanted {
                blocks[blocks.count - 1] += line + "\n"
            }
        }
        return blocks
    }
}
