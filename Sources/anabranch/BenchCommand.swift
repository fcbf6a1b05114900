import AnabranchCore
import ArgumentParser
import Crypto
import Foundation

struct BenchCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "bench",
        abstract: "Time decoding, merging and encoding of merge cases.",
        discussion: """
            Prints a JSON line a case: the medians in milliseconds of all repeats, and a SHA-256 digest of all changesets
            after the merge, local then incoming. Each repeat decodes anew; "merge_ms" includes every index it needs.

            With --apply both states are there before the clock starts, each with the changes of its own side. "apply_ms" is
            the time to apply to each what the merge has made of the other side; a part of the total, like the encoding, which
            is not done then. "digest" is that of the states, which have to be equal.

            EXAMPLES
              anabranch bench cases.jsonl --repeats 5
              anabranch bench cases.jsonl --apply
            """)

    @Argument(help: "Cases as for `anabranch merge`, .jsonl or .jsonl.zst.")
    var cases: String

    @Option(help: "How often each case is run.")
    var repeats = 3

    @Flag(help: "Visit every pair of instructions instead of using an index.")
    var pairwise = false

    @Flag(help: "Apply the changes of each side to the state of the other one, and compare the states.")
    var apply = false

    func validate() throws {
        guard repeats > 0 else { throw ValidationError("--repeats must be 1 or more.") }
    }

    func run() throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.withoutEscapingSlashes]
        try JSONLines.forEach(in: cases, as: MergeCase.self) { _, mergeCase, _ in
            let benchCase = try BenchCase(mergeCase, strategy: pairwise ? .everyPair : .indexed)
            print(try apply ? benchCase.applyFigures(repeats: repeats) : benchCase.figures(repeats: repeats))
            fflush(nil)
        }
    }
}

/// One case, with its changesets as bytes.
private struct BenchCase {
    struct Input {
        var bytes: [UInt8]
        var version: UInt64
        var tag: OriginTag
    }

    struct Sample {
        var decode: Duration
        var merge: Duration
        /// Encoding, or applying.
        var rest: Duration
        var total: Duration { decode + merge + rest }
    }

    let name: String
    /// The local changesets, then the incoming ones.
    let inputs: [Input]
    let localCount: Int
    let bytesIn: Int
    let strategy: MergeStrategy

    init(_ mergeCase: MergeCase, strategy: MergeStrategy) throws {
        self.strategy = strategy
        let name = mergeCase.name ?? mergeCase.seed.map { "seed-\($0)" } ?? "unnamed"
        func inputs(_ side: [MergeCase.Input]) throws -> [Input] {
            try side.map {
                guard let bytes = Hex.decode($0.hex) else {
                    throw InputError(description: "\(name): a changeset is not hexadecimal digits")
                }
                return Input(
                    bytes: bytes, version: $0.version, tag: OriginTag(timestamp: $0.timestamp, ident: $0.origin))
            }
        }
        self.name = name
        self.inputs = try inputs(mergeCase.local) + inputs(mergeCase.incoming)
        localCount = mergeCase.local.count
        bytesIn = self.inputs.reduce(0) { $0 + $1.bytes.count }
    }

    func figures(repeats: Int) throws -> String {
        var samples: [Sample] = []
        var outputs: [[UInt8]] = []
        for _ in 0..<repeats { samples.append(try sample(&outputs)) }
        var hash = SHA256()
        for output in outputs { hash.update(data: output) }
        let bytesOut = outputs.reduce(0) { $0 + $1.count }
        return line(samples, rest: "encode", digest: Hex.encode(hash.finalize()), bytesOut: bytesOut)
    }

    private func line(_ samples: [Sample], rest: String, digest: String, bytesOut: Int? = nil) -> String {
        """
        {"name":"\(name)","bytes_in":\(bytesIn),\(bytesOut.map { "\"bytes_out\":\($0)," } ?? "")\
        "decode_ms":\(median(samples.map(\.decode))),"merge_ms":\(median(samples.map(\.merge))),\
        "\(rest)_ms":\(median(samples.map(\.rest))),"total_ms":\(median(samples.map(\.total))),\
        "digest":"\(digest)"}
        """
    }

    private func decoded() throws -> ChangesetPool {
        var pool = ChangesetPool()
        pool.reserve(changesets: inputs.count, byteCount: bytesIn)
        for input in inputs { try pool.decode(input.bytes, version: input.version, tag: input.tag) }
        return pool
    }

    private func merge(_ pool: inout ChangesetPool) throws {
        try pool.merge(
            local: Array(0..<localCount), incoming: Array(localCount..<pool.count), strategy: strategy)
    }

    private func sample(_ outputs: inout [[UInt8]]) throws -> Sample {
        let clock = ContinuousClock()
        outputs = []
        let start = clock.now
        var pool = try decoded()
        let decoded = clock.now
        try merge(&pool)
        let merged = clock.now
        outputs = pool.encoded(0..<pool.count)
        return Sample(decode: decoded - start, merge: merged - decoded, rest: clock.now - merged)
    }

    // MARK: Applying

    func applyFigures(repeats: Int) throws -> String {
        let pool = try decoded()
        var states = (local: try StartState.graph(of: pool), incoming: ObjectGraph())
        states.incoming = states.local
        for changeset in 0..<localCount { try states.local.apply(changeset, of: pool) }
        for changeset in localCount..<pool.count { try states.incoming.apply(changeset, of: pool) }
        var samples: [Sample] = []
        var digest = ""
        for _ in 0..<repeats {
            let (sample, merged) = try applySample(states.local, states.incoming)
            samples.append(sample)
            let digests = (try StateDigest(of: merged.local), try StateDigest(of: merged.incoming))
            guard digests.0 == digests.1 else { throw InputError(description: "\(name): the states differ") }
            digest = "\(digests.0)"
        }
        return line(samples, rest: "apply", digest: digest)
    }

    private func applySample(
        _ local: ObjectGraph, _ incoming: ObjectGraph
    ) throws -> (sample: Sample, states: (local: ObjectGraph, incoming: ObjectGraph)) {
        var states = (local: local, incoming: incoming)
        let clock = ContinuousClock()
        let start = clock.now
        var pool = try decoded()
        let decoded = clock.now
        try merge(&pool)
        let merged = clock.now
        for changeset in localCount..<pool.count { try states.local.apply(changeset, of: pool) }
        for changeset in 0..<localCount { try states.incoming.apply(changeset, of: pool) }
        return (Sample(decode: decoded - start, merge: merged - decoded, rest: clock.now - merged), states)
    }

    /// In milliseconds, with three decimals.
    private func median(_ durations: [Duration]) -> String {
        let middle = durations.sorted()[durations.count / 2].components
        let milliseconds = Double(middle.seconds) * 1e3 + Double(middle.attoseconds) / 1e15
        return String(format: "%.3f", milliseconds)
    }
}
