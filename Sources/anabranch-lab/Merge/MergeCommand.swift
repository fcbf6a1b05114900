import AnabranchCore
import AnabranchTesting
import ArgumentParser
import Foundation

struct MergeCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "merge",
        abstract: "Merge the cases of a file of JSON lines and write what both sides become.",
        discussion: """
            A case has the form of the vectors' merges, with a name: {"name", "local": [C…], "incoming": [C…]} with C \
            = {"version", "base", "timestamp", "origin", "hex"}. Its result is {"name", "local_after", \
            "incoming_after"} with {"dirty", "hex"} for each changeset, or {"name", "error", "reason"}.

            EXAMPLE
              anabranch-lab merge --in cases.jsonl --out results.jsonl
            """)

    @Option(name: .customLong("in"), help: "Cases, .jsonl or .jsonl.zst.")
    var input: String

    @Option(name: .customLong("out"), help: "Where the results go; - is the standard output.")
    var output: String

    @Flag(help: "Visit every pair of instructions instead of using an index.")
    var pairwise = false

    func run() throws {
        var lines = Data()
        try JSONLines.forEach(in: input, as: MergeCase.self) { _, mergeCase, _ in
            lines.append(Data((try result(of: mergeCase).jsonLine() + "\n").utf8))
        }
        if output == "-" {
            FileHandle.standardOutput.write(lines)
        } else {
            guard FileManager.default.createFile(atPath: output, contents: lines) else {
                throw InputError(description: "\(output): cannot be written")
            }
        }
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

/// What a merge makes of both sides.
private struct MergeResult: Encodable {
    var name: String?
    var localAfter: [MergeCase.Output]?
    var incomingAfter: [MergeCase.Output]?
    var error: String?
    /// In words, beside `error`.
    var reason: String?
}
