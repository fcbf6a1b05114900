import AnabranchCore
import AnabranchTesting
import ArgumentParser
import Foundation

struct BenchMergeCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "merge",
        abstract: "Time decoding, merging and encoding of merge cases.",
        discussion: """
            Prints commit, processor and date on standard error, and a JSON line a case: the medians in milliseconds \
            of all repeats, of the whole also the least and the most, and a SHA-256 digest of all changesets after \
            the merge, local then incoming. Each repeat decodes anew; "merge_ms" includes every index it needs. \
            Before the repeats there is a run that does not count, unless --repeats is 1.

            With --apply both states are there before the clock starts, each with the changes of its own side. \
            "apply_ms" is the time to apply to each what the merge has made of the other side; a part of the total, \
            like the encoding, which is not done then. "digest" is that of the states, which have to be equal. The \
            state from which both sides start is made up from what their changesets take for granted.

            EXAMPLES
              anabranch-lab bench merge cases.jsonl --repeats 5
              anabranch-lab bench merge cases.jsonl --apply
            """)

    @Argument(help: "Cases as for `anabranch-lab merge`, .jsonl or .jsonl.zst.")
    var cases: String

    @Option(help: "How often each case is run.")
    var repeats = 3

    @Flag(help: "Visit every pair of instructions instead of using an index.")
    var pairwise = false

    @Flag(
        help: """
            Apply the changes of each side to the state of the other one, and compare the states. For cases whose \
            objects have integer keys and in which nothing is inside an element of a list, as in those of \
            `anabranch-lab bench cases`.
            """)
    var apply = false

    func validate() throws {
        guard repeats > 0 else { throw ValidationError("--repeats must be 1 or more.") }
    }

    func run() throws {
        BenchEnvironment.show()
        try JSONLines.forEach(in: cases, as: MergeCase.self) { line, mergeCase, _ in
            let name = mergeCase.name ?? mergeCase.seed.map { "seed-\($0)" } ?? "unnamed"
            do {
                let benchCase = try TimedMerge(mergeCase, name: name, strategy: pairwise ? .everyPair : .indexed)
                print(try apply ? benchCase.applyFigures(repeats: repeats) : benchCase.figures(repeats: repeats))
            } catch {
                throw InputError(description: "\(cases), line \(line), \(name): \(error)")
            }
            fflush(nil)
        }
    }
}
