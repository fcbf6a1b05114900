import Foundation
import Testing

/// The output of the commands, byte for byte, is their interface.
@Suite(.timeLimit(.minutes(30))) struct CommandSnapshotTests {
    /// The tracked files; those that take long have a folder of their own.
    private static func paths(nightly: Bool) throws -> [String] {
        try FileManager.default.subpathsOfDirectory(atPath: Fixture.folder.path)
            .filter { $0.hasSuffix(".snapshot") && $0.hasPrefix("nightly/") == nightly }.sorted()
    }

    @Test(arguments: try CommandSnapshotTests.paths(nightly: false))
    func commandsPrintWhatTheyPrinted(_ path: String) async throws { try await CommandSnapshot(path).check() }

    /// Nobody who has made a mistake has to guess, or is told something wrong.
    @Test func eachMistakeIsGradedAOrB() throws {
        let file = Fixture.folder.appendingPathComponent("commands/mistakes.snapshot")
        let text = try String(contentsOf: file, encoding: .utf8)
        let headings = text.split(separator: "\n").drop { !$0.hasPrefix("# The server") }.filter { $0.hasPrefix("#") }
        let grades = headings.flatMap { $0.matches(of: /(?:# |[.] )([A-F]):/).map(\.output.1) }
        #expect(grades.count >= 63 && grades.allSatisfy { "AB".contains($0) }, "\(grades)")
    }

    @Test(
        .enabled(if: ProcessInfo.processInfo.environment["ANABRANCH_NIGHTLY"] != nil, "takes half a minute"),
        arguments: try CommandSnapshotTests.paths(nightly: true))
    func longCommandsPrintWhatTheyPrinted(_ path: String) async throws { try await CommandSnapshot(path).check() }
}
