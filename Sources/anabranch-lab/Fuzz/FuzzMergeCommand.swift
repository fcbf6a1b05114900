import AnabranchCore
import AnabranchTesting
import ArgumentParser
import CommandSupport
import Foundation

struct FuzzMergeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "merge",
        abstract: "Compare the indexed merge with the merge of every pair on random changesets.",
        discussion: """
            Case number i of a run has the seed S + i and is repeated by it alone. Bytes, dirty flags and whether \
            there is an error must be the same; also with lists cut into the smallest blocks, and merged in one. The \
            first difference ends the run with exit status 1, after it was shrunk; it is printed as a line that \
            `anabranch-lab merge` reads, with the command that repeats it.

            With --costs, decoding, merging and encoding by the index must not take more than twice the time that \
            visiting every pair takes, and half a millisecond: below that, to make an index costs more than to visit \
            pairs most of which are discarded already. The exit status is 1 as well if a case does. Times depend on \
            what else the machine does, so nobody looks unless asked to. What seems slow is measured again; --jobs 1 \
            gives true times.

            Two shares of pairs of operations on lists are printed that the merge did not visit. The first is of the \
            merge as everybody gets it: that visits all pairs of small blocks, up to about 256 × 256 inserts and \
            erases, because a grid without branches is faster there. The second is of the cases that only insert, \
            erase and update, with lists cut into the smallest blocks: what the near-linear merge can do without \
            visiting.

            EXAMPLES
              anabranch-lab fuzz merge --cases 200000 --seed 1
              anabranch-lab fuzz merge --cases 1 --seed 4711
              anabranch-lab fuzz merge --cases 20000 --json | jq .differences
              anabranch-lab fuzz merge --cases 20000 --costs --jobs 1
            """)

    @Option(help: "How many cases.")
    var cases = 10_000

    @Option(help: "The seed of the first case.")
    var seed: UInt64 = 1

    @Option(help: ArgumentHelp("The most operations on a side, from 1 to 400.", valueName: "operations"))
    var maxSize = 400

    @Flag(help: "Look for cases that cost more than twice what every pair costs.")
    var costs = false

    @Option(help: "How many cases are merged at a time; 1 gives true times.")
    var jobs = ProcessInfo.processInfo.activeProcessorCount

    @Flag(help: "Print what was found as one JSON object.")
    var json = false

    func validate() throws {
        guard cases > 0 else { throw ValidationError("--cases must be 1 or more.") }
        guard (1...400).contains(maxSize) else { throw ValidationError("--max-size must be from 1 to 400.") }
        guard jobs > 0 else { throw ValidationError("--jobs must be 1 or more.") }
    }

    private static let casesPerPiece = 200

    func run() async throws {
        let start = ContinuousClock.now, interruption = Interruption()
        RunProgress.say("\(cases) cases from seed \(seed) on, \(jobs) at a time; Ctrl-C ends with a summary")
        let pieces = (cases - 1) / Self.casesPerPiece + 1
        let tally = try await FuzzMergeTally.sum(
            of: pieces, jobs: jobs, interval: RunProgress.interval, isStopped: { interruption.isAsked },
            onProgress: report
        ) {
            [seed, cases, maxSize, costs] piece in
            let first = piece * Self.casesPerPiece
            var tally = FuzzMergeTally()
            for number in first..<min(first + Self.casesPerPiece, cases) {
                let merge = RandomMerge(seed: seed &+ UInt64(number), sizeMax: maxSize)
                try tally.add(merge, MergeComparison(merge), withCosts: costs)
            }
            return tally
        }
        RunProgress.end()
        let elapsed = ContinuousClock.now - start
        print(json ? try tally.json(after: elapsed) : tally.report(after: elapsed, costs: costs))
        if !json, let difference = tally.differences.min() { try describe(difference) }
        if !tally.differences.isEmpty || tally.costlyCases > 0 { throw ExitCode.failure }
        guard tally.cases < cases else { return }
        RunProgress.say(
            "stopped after \(tally.cases) of \(cases) cases; go on with --seed \(seed &+ UInt64(tally.cases)) "
                + "--cases \(cases - tally.cases)")
        throw ExitCode(Interruption.status)
    }

    private func report(_ tally: FuzzMergeTally, after elapsed: Duration) {
        let cells = String(format: "%.1f million cells", Double(tally.cells) / 1e6)
        let share = Double(tally.cases) / Double(cases)
        RunProgress.report("\(tally.cases) of \(cases) cases, \(cells)", share: share, after: elapsed)
    }

    // MARK: A difference

    private func describe(_ seed: UInt64) throws {
        let merge = RandomMerge(seed: seed, sizeMax: maxSize)
        let smallest = merge.shrunk { (try? MergeComparison($0).isEqual) == false }
        let limit = maxSize == 400 ? "" : " --max-size \(maxSize)"
        print(
            """
            DIFFERENCE in the case with seed \(seed), \(merge.local.count) × \(merge.incoming.count) operations
            repeat: anabranch-lab fuzz merge --cases 1 --seed \(seed)\(limit)
            shrunk to \(smallest.local.count) × \(smallest.incoming.count) operations:
            \(smallest.line)
            """)
        let check = try MergeComparison(smallest)
        print("every pair: \(check.everyPair)")
        for (way, outcome) in check.differences { print("\(way): \(outcome)") }
    }
}
