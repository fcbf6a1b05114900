import AnabranchTesting
import Testing

@testable import AnabranchCore

/// Damaged changesets are rejected or are other changesets; nothing traps, and what decodes can be encoded and merged.
@Suite struct DamageTests {
    private static let changesets = VectorFiles.changesets(100)

    @Test func everyTruncationIsRejectedOrDecodes() {
        for (number, bytes) in Self.changesets.enumerated() {
            for count in 0..<bytes.count { check(Array(bytes[..<count]), with: number, "cut at \(count)") }
        }
    }

    @Test func everyFlippedBitIsRejectedOrDecodes() {
        for (number, bytes) in Self.changesets.enumerated() {
            for bit in 0..<8 * bytes.count {
                var damaged = bytes
                damaged[bit / 8] ^= 1 << UInt8(bit % 8)
                check(damaged, with: number, "bit \(bit) flipped")
            }
        }
    }

    /// Decodes the bytes; if that works, checks the encoding and merges with another changeset of the vectors.
    private func check(_ damaged: [UInt8], with number: Int, _ damage: String) {
        var arena = ChangesetArena()
        let tag = OriginTag(timestamp: 10, ident: 2)
        guard let changeset = try? arena.decode(damaged, version: 1, tag: tag) else { return }
        let comment: Comment = "changeset \(number), \(damage): \(Hex.encode(damaged))"
        let encoded = arena.encodedAnew(changeset)
        guard let again = try? arena.decode(encoded, version: 1, tag: tag) else {
            Issue.record("what was encoded does not decode: \(comment)")
            return
        }
        #expect(arena.encodedAnew(again) == encoded, comment)
        #expect(arena.lines(of: again) == arena.lines(of: changeset), comment)
        let other = Self.changesets[(number * 7 + damaged.count) % Self.changesets.count]
        for (local, incoming) in [(damaged, other), (other, damaged)] {
            let outcomes = [MergeStrategy.everyPair, .indexed].map { Outcome.ofMerging([local], [incoming], $0) }
            if outcomes[0] != outcomes[1] { Issue.record("strategies differ: \(comment), other \(Hex.encode(other))") }
        }
    }
}
