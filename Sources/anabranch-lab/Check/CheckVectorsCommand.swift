import AnabranchTesting
import ArgumentParser

struct CheckVectorsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "vectors",
        abstract: "Check the engine against recorded scenarios and merges of the reference.",
        discussion: """
            Each line of a file is a scenario or a single merge. Decoding and encoding, both sides of every merge with \
            the dirty flags, the rule that explains each instruction which a merge drops or changes, the server's log, \
            and the states in which the server and each client end are compared \
            with what was recorded; so is what a file of flexible sync does of which every client sees everything. \
            Every difference is printed, then a line a kind, then the sum. The exit status is 1 if something differs, \
            if a file cannot be read, or if nothing ran.

            EXAMPLE
              anabranch-lab check vectors Tests/Vectors/*.jsonl.zst
            """)

    @Argument(help: "Files, .jsonl or .jsonl.zst.")
    var files: [String]

    func run() throws {
        var check = VectorCheck { print($0) }
        var unreadable = 0
        for file in files {
            do {
                try VectorLine.forEach(in: file) { check.run($1, at: "\(file):\($0)") }
            } catch {
                RunProgress.say("\(error)")
                unreadable += 1
            }
        }
        for tally in check.tallies { print(tally) }
        print(check.explained)
        print("\(check.passed) passed, \(check.failed) failed")
        if check.failed > 0 || unreadable > 0 || check.passed == 0 { throw ExitCode.failure }
    }
}

/// The number of checks of one kind that passed.
struct Tally: CustomStringConvertible {
    let kind: String
    private(set) var passed = 0
    private(set) var failed = 0
    private(set) var skipped: [String: Int] = [:]
    private let report: (String) -> Void

    init(_ kind: String, report: @escaping (String) -> Void) {
        self.kind = kind
        self.report = report
    }

    /// Counts a check; `problem` is nil if it passed.
    mutating func write(_ place: String, _ problem: String?) {
        guard let problem else { return passed += 1 }
        failed += 1
        report("\(kind): \(place): \(problem)")
    }

    mutating func skip(_ reason: String) { skipped[reason, default: 0] += 1 }

    var description: String {
        var text = "\(kind): \(passed) passed, \(failed) failed"
        if !skipped.isEmpty {
            let reasons = skipped.sorted { $0.key < $1.key }.map { "\($0.value) \($0.key)" }
            text += ", \(skipped.values.reduce(0, +)) skipped (\(reasons.joined(separator: ", ")))"
        }
        return text
    }
}
