import AnabranchCore
import AnabranchTesting
import Foundation

/// A case of `anabranch-lab bench merge`, with its changesets as bytes.
struct TimedMerge {
    private struct Input {
        var bytes: [UInt8]
        var version: UInt64
        var tag: OriginTag
    }

    private struct Sample {
        var decode: Duration
        var merge: Duration
        /// The time of encoding, or of applying.
        var rest: Duration
        var total: Duration { decode + merge + rest }
    }

    private let name: String
    /// The local changesets, then the incoming ones.
    private let inputs: [Input]
    private let localCount: Int
    private let bytesIn: Int
    private let strategy: MergeStrategy

    init(_ mergeCase: MergeCase, name: String, strategy: MergeStrategy) throws {
        self.name = name
        self.strategy = strategy
        inputs = try (mergeCase.local + mergeCase.incoming).map {
            Input(
                bytes: try Hex.bytes(of: $0.hex), version: $0.version,
                tag: OriginTag(timestamp: $0.timestamp, ident: $0.origin))
        }
        localCount = mergeCase.local.count
        bytesIn = inputs.reduce(0) { $0 + $1.bytes.count }
    }

    private func decoded() throws -> ChangesetArena {
        var arena = ChangesetArena()
        arena.reserve(changesets: inputs.count, byteCount: bytesIn)
        for input in inputs { try arena.decode(input.bytes, version: input.version, tag: input.tag) }
        return arena
    }

    private func merge(_ arena: inout ChangesetArena) throws {
        try arena.merge(
            local: Array(arena.changesets.prefix(localCount)),
            incoming: Array(arena.changesets.dropFirst(localCount)), strategy: strategy)
    }

    // MARK: Encoding

    func figures(repeats: Int) throws -> String {
        var samples: [Sample] = []
        var outputs: [[UInt8]] = []
        if repeats > 1 { _ = try sample(&outputs) }
        for _ in 0..<repeats { samples.append(try sample(&outputs)) }
        let bytesOut = outputs.reduce(0) { $0 + $1.count }
        return try line(samples, rest: "encode", digest: MergeDigest.text(of: outputs), bytesOut: bytesOut)
    }

    private func sample(_ outputs: inout [[UInt8]]) throws -> Sample {
        let clock = ContinuousClock()
        outputs = []
        let start = clock.now
        var arena = try decoded()
        let decoded = clock.now
        try merge(&arena)
        let merged = clock.now
        outputs = arena.encoded(arena.changesets)
        return Sample(decode: decoded - start, merge: merged - decoded, rest: clock.now - merged)
    }

    // MARK: Applying

    func applyFigures(repeats: Int) throws -> String {
        let arena = try decoded()
        var states = (local: try StartState.graph(of: arena), incoming: ObjectGraph())
        states.incoming = states.local
        for changeset in arena.changesets.prefix(localCount) { try states.local.apply(changeset, of: arena) }
        for changeset in arena.changesets.dropFirst(localCount) { try states.incoming.apply(changeset, of: arena) }
        var samples: [Sample] = []
        var digest = ""
        if repeats > 1 { _ = try applySample(states.local, states.incoming) }
        for _ in 0..<repeats {
            let (sample, merged) = try applySample(states.local, states.incoming)
            samples.append(sample)
            let digests = (try StateDigest(of: merged.local), try StateDigest(of: merged.incoming))
            guard digests.0 == digests.1 else { throw InputError(description: "the states differ") }
            digest = "\(digests.0)"
        }
        return try line(samples, rest: "apply", digest: digest)
    }

    private func applySample(
        _ local: ObjectGraph, _ incoming: ObjectGraph
    ) throws -> (sample: Sample, states: (local: ObjectGraph, incoming: ObjectGraph)) {
        var states = (local: local, incoming: incoming)
        let clock = ContinuousClock()
        let start = clock.now
        var arena = try decoded()
        let decoded = clock.now
        try merge(&arena)
        let merged = clock.now
        for changeset in arena.changesets.dropFirst(localCount) { try states.local.apply(changeset, of: arena) }
        for changeset in arena.changesets.prefix(localCount) { try states.incoming.apply(changeset, of: arena) }
        return (Sample(decode: decoded - start, merge: merged - decoded, rest: clock.now - merged), states)
    }

    // MARK: The line

    private func line(_ samples: [Sample], rest: String, digest: String, bytesOut: Int? = nil) throws -> String {
        func text(_ duration: Duration) -> String { String(format: "%.3f", duration.inMilliseconds) }
        func median(_ part: (Sample) -> Duration) -> String { text(samples.map(part).median) }
        let totals = samples.map(\.total).sorted()
        let quotedName = String(decoding: try JSONEncoder().encode(name), as: UTF8.self)
        return """
            {"name":\(quotedName),"bytes_in":\(bytesIn),\(bytesOut.map { "\"bytes_out\":\($0)," } ?? "")\
            "decode_ms":\(median(\.decode)),"merge_ms":\(median(\.merge)),\
            "\(rest)_ms":\(median(\.rest)),"total_ms":\(median(\.total)),\
            "total_min_ms":\(text(totals.first ?? .zero)),"total_max_ms":\(text(totals.last ?? .zero)),\
            "digest":"\(digest)"}
            """
    }
}
