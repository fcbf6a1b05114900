import AnabranchTesting
import Testing

@testable import AnabranchCore

@Suite struct ChangesetPoolTests {
    private let tag = OriginTag(timestamp: 0, ident: 0)

    @Test func failedDecodeLeavesThePoolAsItWas() throws {
        for seed in Seeds.upTo(300) {
            var random = RandomSteps(seed: seed)
            let (first, second) = (changeset(random.steps(12)), changeset(random.steps(12)))
            let cut = Int.random(in: 0..<second.count, using: &random.random)
            var decoded = ChangesetPool()
            try decoded.decode(first, version: 1, tag: tag)
            let before = Snapshot(of: decoded)
            for damaged in [second + [0x3E], Array(second[..<cut])] {
                var pool = decoded
                guard (try? pool.decode(damaged, version: 2, tag: tag)) == nil else { continue }
                let comment: Comment = "\(Seeds.repeatCommand("failedDecodeLeavesThePoolAsItWas", seed: seed))"
                #expect(Snapshot(of: pool) == before, comment)
                // What the failed one defined must not count against the next one.
                let next = try pool.decode(second, version: 2, tag: tag)
                #expect(pool.encoded(next) == second && pool.encoded(0) == first, comment)
            }
        }
    }

    @Test func stringsOfFailedChangesetsCanBeDefinedAgain() throws {
        var pool = ChangesetPool()
        try pool.decode(changeset(.eraseTable("A")), version: 1, tag: tag)
        #expect(throws: ChangesetError.self) {
            try pool.decode(Hex.bytes("3f000141 3e"), version: 2, tag: tag)
        }
        try pool.decode(changeset(.eraseTable("A")), version: 2, tag: tag)
        #expect(pool.lines(of: 1) == ["EraseTable A"])
    }

    @Test func untouchedChangesetsKeepTheirBytesOnlyIfTheEncoderWouldWriteThem() throws {
        let inline = changeset([.createObject(), .update(.at("f"), .int(1))], strings: .inline)
        var pool = ChangesetPool()
        let changeset = try pool.decode(inline, version: 1, tag: tag)
        #expect(!pool.headers[changeset].isCanonical)
        #expect(pool.encoded(changeset) == AnabranchCoreTests.changeset(.createObject(), .update(.at("f"), .int(1))))
    }

    @Test func keptBytesAreThoseThatEncodingAnewGives() throws {
        let changesets = VectorFiles.changesets(400)
        var pool = ChangesetPool()
        for bytes in changesets {
            let changeset = try pool.decode(bytes, version: 1, tag: tag)
            #expect(
                pool.headers[changeset].isCanonical == (pool.encodedAnew(changeset) == bytes), "\(Hex.encode(bytes))")
        }
        // All of them in one pool: names and objects of many changesets share their tables.
        for (changeset, bytes) in changesets.enumerated() {
            var alone = ChangesetPool()
            try alone.decode(bytes, version: 1, tag: tag)
            #expect(pool.encoded(changeset) == alone.encoded(0))
            #expect(pool.lines(of: changeset) == alone.lines(of: 0))
        }
    }

    @Test func encoderThatIsUsedAgainWritesTheSame() throws {
        var pool = ChangesetPool()
        var encoder = ChangesetEncoder()
        for bytes in VectorFiles.changesets(60) {
            let changeset = try pool.decode(bytes, version: 1, tag: tag)
            #expect(encoder.encode(changeset, of: pool) == pool.encoded(changeset))
        }
    }

    /// Keys that would all have one hash value if a peer knew the factors of the hash function.
    @Test func keysThatCancelKnownFactorsDoNotCollide() {
        for factor in [0x9E37_79B9_7F4A_7C15, 0xD6E8_FEB8_6659_FD93, 0, UInt64.max] {
            let className = NameID(0)
            let low = Set(
                (0..<1000).map { ObjectKey(className: className, type: .uuid, word0: factor, word1: $0).hash })
            let high = Set(
                (0..<1000).map { ObjectKey(className: className, type: .uuid, word0: $0, word1: factor).hash })
            #expect(low.count > 990 && high.count > 990)
        }
    }

    /// All that a decode may change.
    private struct Snapshot: Equatable {
        var sizes: [Int]
        var names: [[UInt8]]
        var holdsNaN: Bool
        var holdsErasure: Bool
        var lines: [[String]]

        init(of pool: ChangesetPool) {
            sizes = [
                pool.bytes.count, pool.names.count, pool.objects.count, pool.strings.count, pool.instructions.count,
                pool.elements.count, pool.headers.count,
            ]
            names = (0..<pool.names.count).map { Array(pool.bytes(of: NameID(UInt32($0)))) }
            holdsNaN = pool.holdsNaN
            holdsErasure = pool.holdsErasure
            lines = (0..<pool.count).map { pool.lines(of: $0) }
        }
    }
}
