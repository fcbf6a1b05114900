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

            EXAMPLE
              anabranch bench cases.jsonl --repeats 5
            """)

    @Argument(help: "Cases as for `anabranch merge`, .jsonl or .jsonl.zst.")
    var cases: String

    @Option(help: "How often each case is run.")
    var repeats = 3

    @Flag(help: "Visit every pair of instructions instead of using an index.")
    var pairwise = false

    func validate() throws {
        guard repeats > 0 else { throw ValidationError("--repeats must be 1 or more.") }
    }

    func run() throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.withoutEscapingSlashes]
        try JSONLines.forEach(in: cases, as: MergeCase.self) { _, mergeCase in
            let figures = try BenchCase(mergeCase).figures(
                repeats: repeats, strategy: pairwise ? .everyPair : .indexed)
            print(figures)
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
        var encode: Duration
        var total: Duration { decode + merge + encode }
    }

    let name: String
    /// The local changesets, then the incoming ones.
    let inputs: [Input]
    let localCount: Int
    let bytesIn: Int

    init(_ mergeCase: MergeCase) throws {
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

    func figures(repeats: Int, strategy: MergeStrategy) throws -> String {
        var samples: [Sample] = []
        var outputs: [[UInt8]] = []
        for _ in 0..<repeats { samples.append(try sample(strategy, &outputs)) }
        var hash = SHA256()
        for output in outputs { hash.update(data: output) }
        let bytesOut = outputs.reduce(0) { $0 + $1.count }
        return """
            {"name":"\(name)","bytes_in":\(bytesIn),"bytes_out":\(bytesOut),\
            "decode_ms":\(median(samples.map(\.decode))),"merge_ms":\(median(samples.map(\.merge))),\
            "encode_ms":\(median(samples.map(\.encode))),"total_ms":\(median(samples.map(\.total))),\
            "digest":"\(Hex.encode(hash.finalize()))"}
            """
    }

    private func sample(_ strategy: MergeStrategy, _ outputs: inout [[UInt8]]) throws -> Sample {
        let clock = ContinuousClock()
        outputs = []
        let start = clock.now
        var pool = ChangesetPool()
        pool.reserve(byteCount: bytesIn)
        for input in inputs { try pool.decode(input.bytes, version: input.version, tag: input.tag) }
        let decoded = clock.now
        try pool.merge(
            local: Array(0..<localCount), incoming: Array(localCount..<pool.count), strategy: strategy)
        let merged = clock.now
        outputs = pool.encoded(0..<pool.count)
        return Sample(decode: decoded - start, merge: merged - decoded, encode: clock.now - merged)
    }

    /// In milliseconds, with three decimals.
    private func median(_ durations: [Duration]) -> String {
        let middle = durations.sorted()[durations.count / 2].components
        let milliseconds = Double(middle.seconds) * 1e3 + Double(middle.attoseconds) / 1e15
        return String(format: "%.3f", milliseconds)
    }
}
