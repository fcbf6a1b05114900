import AnabranchTesting
import Testing

@testable import AnabranchCore

@Suite struct ChangesetArenaTests {
    private let tag = OriginTag(timestamp: 0, ident: 0)

    @Test func failedDecodeLeavesThePoolAsItWas() throws {
        for seed in Seeds.upTo(300) {
            var random = RandomSteps(seed: seed)
            let (first, second) = (changeset(random.steps(12)), changeset(random.steps(12)))
            let cut = Int.random(in: 0..<second.count, using: &random.random)
            var decoded = ChangesetArena()
            try decoded.decode(first, version: 1, tag: tag)
            let before = Snapshot(of: decoded)
            for damaged in [second + [0x3E], Array(second[..<cut])] {
                var arena = decoded
                guard (try? arena.decode(damaged, version: 2, tag: tag)) == nil else { continue }
                let comment: Comment = "\(Seeds.repeatCommand("failedDecodeLeavesThePoolAsItWas", seed: seed))"
                #expect(Snapshot(of: arena) == before, comment)
                // What the failed one defined must not count against the next one.
                let next = try arena.decode(second, version: 2, tag: tag)
                #expect(arena.encoded(next) == second && arena.encoded(0) == first, comment)
            }
        }
    }

    @Test func stringsOfFailedChangesetsCanBeDefinedAgain() throws {
        var arena = ChangesetArena()
        try arena.decode(changeset(.eraseTable("A")), version: 1, tag: tag)
        #expect(throws: ChangesetError.self) {
            try arena.decode(Hex.bytes("3f000141 3e"), version: 2, tag: tag)
        }
        try arena.decode(changeset(.eraseTable("A")), version: 2, tag: tag)
        #expect(arena.lines(of: 1) == ["EraseTable A"])
    }

    /// An instruction of two bytes occupies a cache line.
    @Test func whatWouldOccupyTooMuchMemoryIsRefused() throws {
        let bytes = changeset([Step](repeating: .eraseTable("A"), count: 10_000))
        #expect(bytes.count < 20_100)
        var arena = ChangesetArena()
        try arena.decode(changeset(.createObject()), version: 1, tag: tag)
        let before = Snapshot(of: arena)
        let error = #expect(throws: ChangesetError.self) {
            try arena.decode(bytes, version: 2, tag: tag, memoryBytesMax: 600_000)
        }
        #expect(error?.rule == .tooLarge)
        #expect(Snapshot(of: arena) == before)
        let decoded = try arena.decode(bytes, version: 2, tag: tag, memoryBytesMax: 800_000)
        #expect(arena.encoded(decoded) == bytes)
    }

    @Test func untouchedChangesetsKeepTheirBytesOnlyIfTheEncoderWouldWriteThem() throws {
        let inline = changeset([.createObject(), .update(.at("f"), .int(1))], strings: .inline)
        var arena = ChangesetArena()
        let changeset = try arena.decode(inline, version: 1, tag: tag)
        #expect(!arena[changeset].isCanonical)
        #expect(arena.encoded(changeset) == AnabranchCoreTests.changeset(.createObject(), .update(.at("f"), .int(1))))
    }

    @Test func keptBytesAreThoseThatEncodingAnewGives() throws {
        let changesets = VectorFiles.changesets(400)
        var arena = ChangesetArena()
        for bytes in changesets {
            let changeset = try arena.decode(bytes, version: 1, tag: tag)
            #expect(
                arena[changeset].isCanonical == (arena.encodedAnew(changeset) == bytes), "\(Hex.encode(bytes))")
        }
        // All of them in one arena: names and objects of many changesets share their tables.
        for (changeset, bytes) in zip(arena.changesets, changesets) {
            var alone = ChangesetArena()
            try alone.decode(bytes, version: 1, tag: tag)
            #expect(arena.encoded(changeset) == alone.encoded(0))
            #expect(arena.lines(of: changeset) == alone.lines(of: 0))
        }
    }

    @Test func encoderThatIsUsedAgainWritesTheSame() throws {
        var arena = ChangesetArena()
        var encoder = ChangesetEncoder()
        for bytes in VectorFiles.changesets(60) {
            let changeset = try arena.decode(bytes, version: 1, tag: tag)
            #expect(encoder.encode(changeset, of: arena) == arena.encoded(changeset))
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
        var holdsNullErasure: Bool
        var lines: [[String]]

        init(of arena: ChangesetArena) {
            sizes = [
                arena.bytes.count, arena.names.count, arena.objects.count, arena.strings.count,
                arena.instructions.count,
                arena.elements.count, arena.headers.count,
            ]
            names = (0..<arena.names.count).map { Array(arena.bytes(of: NameID(UInt32($0)))) }
            holdsNaN = arena.holdsNaN
            holdsErasure = arena.holdsErasure
            holdsNullErasure = arena.holdsNullErasure
            lines = arena.changesets.map { arena.lines(of: $0) }
        }
    }
}
