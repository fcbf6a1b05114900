import AnabranchCore
import AnabranchSimperium
import AnabranchTesting
import Foundation
import Testing

/// A library whose deltas have the form of the wire's reads ours, and we read its. In Python it counts characters, not
/// code units, so its texts have none beyond the basic plane.
@Suite struct DiffMatchPatchTests {
    private struct Answer: Decodable {
        let applied: String
        let delta: String
    }

    private struct Case: Encodable {
        let old: String
        let new: String
        let delta: String
    }

    @Test func bothReadTheDeltasOfTheOther() throws {
        let environment = ProcessInfo.processInfo.environment
        let first = environment["ANABRANCH_SEED"].flatMap(UInt64.init) ?? 1
        let count = environment["ANABRANCH_COUNT"].flatMap(UInt64.init) ?? 2_000
        let cases = (first..<first + count).map { seed in
            var random = SeededRandom(scrambling: seed)
            let old = Self.text(&random), new = random.isOne(in: 4) ? Self.text(&random) : Self.edited(old, &random)
            return Case(old: old, new: new, delta: TextDelta(from: old, to: new).encoded)
        }
        for (seed, (made, answer)) in zip(first..., zip(cases, try Self.answers(to: cases))) {
            let theirs = try TextDelta(decoding: answer.delta).applied(to: made.old)
            guard !answer.applied.hasBytes(of: made.new) || !theirs.hasBytes(of: made.new) else { continue }
            Issue.record(
                """
                seed \(seed): from \(made.old.debugDescription) to \(made.new.debugDescription), ours \(made.delta) \
                gives \(answer.applied.debugDescription), theirs \(answer.delta) gives \(theirs.debugDescription)
                again: ANABRANCH_SEED=\(seed) ANABRANCH_COUNT=1 scripts/check --filter DiffMatchPatchTests
                """)
            return
        }
    }

    private static func answers(to cases: [Case]) throws -> [Answer] {
        let tests = URL(filePath: #filePath).deletingLastPathComponent()
        let file = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
        defer { try? FileManager.default.removeItem(at: file) }
        let encoder = JSONEncoder(), decoder = JSONDecoder()
        try Data(cases.map { try encoder.encode($0) + [0x0A] }.joined()).write(to: file)
        let process = Process(), output = Pipe()
        process.executableURL = tests.deletingLastPathComponent().deletingLastPathComponent()
            .appending(path: ".build/python/bin/python3")
        process.arguments = ["-B", tests.appending(path: "Programs/diff_match_patch_tool.py").path()]
        process.standardInput = try FileHandle(forReadingFrom: file)
        process.standardOutput = output
        try process.run()
        let lines = try output.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        try #require(process.terminationStatus == 0)
        let answers = try lines.split(separator: 0x0A).map { try decoder.decode(Answer.self, from: $0) }
        try #require(answers.count == cases.count)
        return answers
    }

    /// Characters that look alike, have a meaning in deltas, or are two in one.
    private static let characters: [Unicode.Scalar] = [
        "a", "b", "c", " ", "\n", "\t", "\r", "%", "+", "=", "-", "#", "\"", "\\", "\u{1}", "\u{7F}", "é", "e",
        "\u{301}",
        "\u{2028}", "\u{D7FF}", "\u{E000}", "\u{FEFF}", "\u{FFFD}", "\u{FFFF}", "ß", "~", "/", "?", "`", "^", "{",
    ]

    private static func text(_ random: inout SeededRandom) -> String {
        var text = ""
        for _ in 0..<random.below(random.isOne(in: 9) ? 400 : 20) {
            text.unicodeScalars.append(random.pick(characters))
        }
        return text
    }

    private static func edited(_ text: String, _ random: inout SeededRandom) -> String {
        var scalars = Array(text.unicodeScalars)
        for _ in 0...random.below(3) {
            let start = random.below(scalars.count + 1), end = min(scalars.count, start + random.below(4))
            scalars.replaceSubrange(start..<end, with: (0..<random.below(4)).map { _ in random.pick(characters) })
        }
        return String(String.UnicodeScalarView(scalars))
    }
}
