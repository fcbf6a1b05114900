import AnabranchTesting
import Foundation
import Testing

@testable import AnabranchCore

/// Damaged changesets that still decode, applied to states of the scenarios: they work or are refused, never trap, and
/// what is refused leaves the state as it was. `ANABRANCH_MUTATIONS` sets how many.
@Suite struct MutatedChangesetTests {
    private static let count = ProcessInfo.processInfo.environment["ANABRANCH_MUTATIONS"].flatMap(Int.init) ?? 20_000

    @Test func whatIsRefusedLeavesTheStateAsItWas() throws {
        for seed in Seeds.upTo(8) {
            var generator = SeededRandom(seed: seed)
            var (applied, refused) = (0, 0)
            while applied + refused < Self.count / 8 {
                let vector = generator.pick(VectorFiles.convergedScenarios)
                let log = vector.server_log.map { Hex.bytes($0.hex) }
                var graph = ObjectGraph()
                for entry in log.prefix(Int.random(in: 0...log.count, using: &generator)) { try graph.apply(entry) }
                for _ in 0..<50 {
                    let damaged = generator.damaged(generator.pick(log))
                    var arena = ChangesetArena()
                    let tag = OriginTag(timestamp: 1, ident: 2)
                    guard (try? arena.decode(damaged, version: 1, tag: tag)) != nil else { continue }
                    let (before, digest) = (graph, try StateDigest(of: graph))
                    do throws(ApplyError) {
                        let changes = try graph.apply(0, of: arena)
                        applied += 1
                        var followed = digest
                        try followed.update(from: before, to: graph, changes: changes)
                        expect(followed == (try StateDigest(of: graph)), "digest", seed, damaged)
                    } catch {
                        refused += 1
                        expect(error.code != .unavailable, "outcome", seed, damaged)
                        expect(digest == (try? StateDigest(of: graph)), "state", seed, damaged)
                    }
                }
            }
            #expect(applied > 0 && refused > 0)
        }
    }

    private func expect(_ holds: Bool, _ what: String, _ seed: UInt64, _ changeset: [UInt8]) {
        if holds { return }
        Issue.record("\(what): \(Hex.encode(changeset)); \(Seeds.repeatCommand("MutatedChangesetTests", seed: seed))")
    }
}

extension SeededRandom {
    /// The bytes with a few of them changed, removed, added or repeated.
    fileprivate mutating func damaged(_ bytes: [UInt8]) -> [UInt8] {
        var damaged = bytes
        for _ in 0..<Int.random(in: 1...3, using: &self) {
            guard !damaged.isEmpty else { break }
            let index = Int.random(in: 0..<damaged.count, using: &self)
            switch Int.random(in: 0..<8, using: &self) {
            case 0: damaged.remove(at: index)
            case 1: damaged.insert(UInt8.random(in: 0...255, using: &self), at: index)
            case 2: damaged.insert(contentsOf: damaged[index..<min(index + 8, damaged.count)], at: index)
            case 3: damaged[index] ^= 1 << UInt8.random(in: 0..<8, using: &self)
            default: damaged[index] = UInt8.random(in: 0..<14, using: &self)
            }
        }
        return damaged
    }
}
