import AnabranchCore
import AnabranchTesting
import ArgumentParser
import CommandSupport
import Foundation

struct MergeCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "merge",
        abstract: "Merge the cases of a file of JSON lines and write what both sides become.",
        discussion: """
            A case has the form of the vectors' merges, with a name: {"name", "local": [C…], "incoming": [C…]} with C \
            = {"version", "base", "timestamp", "origin", "hex"}. Its result is {"name", "local_after", \
            "incoming_after"} with {"dirty", "hex"} for each changeset, or {"name", "error", "reason"}.

            A summary on standard error says how many were merged, and how many are errors. That some are is a result, \
            and the exit status 0, unless --strict is given.

            EXAMPLES
              anabranch-lab merge --in cases.jsonl --out results.jsonl
              anabranch-lab merge --in cases.jsonl --out - --strict
            """)

    @Option(name: .customLong("in"), help: "Cases, .jsonl or .jsonl.zst.")
    var input: String

    @Option(name: .customLong("out"), help: "Where the results go; - is the standard output.")
    var output: String

    @Flag(help: "Visit every pair of instructions instead of using an index.")
    var pairwise = false

    @Flag(help: "End with exit status 1 if a case is an error.")
    var strict = false

    @Flag(help: "The summary as a JSON object.")
    var json = false

    func run() throws {
        let file = try OutputFile(output, reading: [input])
        var summary = MergeSummary()
        do {
            try JSONLines.forEach(in: input, as: MergeCase.self) { _, mergeCase, _ in
                let result = result(of: mergeCase)
                summary.cases += 1
                if result.error == nil { summary.merged += 1 } else { summary.failed += 1 }
                try file.write(Data((try result.jsonLine() + "\n").utf8))
            }
        } catch {
            file.discard()
            throw error
        }
        try file.finish()
        RunProgress.say(json ? try summary.jsonLine() : summary.text)
        if strict, summary.failed > 0 { throw ExitCode.failure }
    }

    private func result(of mergeCase: MergeCase) -> MergeResult {
        do {
            var input = try MergeInput(mergeCase)
            try input.arena.merge(
                local: input.local, incoming: input.incoming, strategy: pairwise ? .everyPair : .indexed)
            return MergeResult(
                name: mergeCase.name, localAfter: input.outputs(of: input.local),
                incomingAfter: input.outputs(of: input.incoming))
        } catch let error as TransformError {
            return MergeResult(name: mergeCase.name, error: "merge", reason: error.description)
        } catch {
            return MergeResult(name: mergeCase.name, error: "changeset", reason: "\(error)")
        }
    }
}

/// The outcome of all cases.
private struct MergeSummary: Encodable {
    var cases = 0
    var merged = 0
    var failed = 0

    var text: String { "\(counted(cases, "case")): \(merged) merged, \(failed) failed" }
}

/// The result of a merge for both sides.
private struct MergeResult: Encodable {
    var name: String?
    var localAfter: [MergeCase.Output]?
    var incomingAfter: [MergeCase.Output]?
    var error: String?
    /// The error in words, along with `error`.
    var reason: String?
}
