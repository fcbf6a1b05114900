import AnabranchTesting
import Testing

@testable import AnabranchCore

/// The keys under which changesets conflict: a log entry that an upload does not find neither changes it nor is
/// changed.
@Suite struct ConflictKeysTests {
    @Test func entriesThatAreNotFoundDoNotMatter() throws {
        var missed = 0
        let seeds = Seeds.upTo(4000)
        for seed in seeds {
            var random = RandomSteps(seed: seed)
            random.isCareful = seed % 2 == 0
            let count = Int.random(in: 1...4, using: &random.random)
            let (entry, upload) = (changeset(random.steps(count)), changeset(random.steps(count)))
            guard try !Self.finds(upload, entry) else { continue }
            missed += 1
            var arena = ChangesetArena()
            let local = try arena.decode(entry, version: 1, tag: Age.majorOlder.tags.major)
            let incoming = try arena.decode(upload, version: 1, tag: Age.majorOlder.tags.minor)
            let before = arena.bytesOfAll
            let comment: Comment = "\(Seeds.repeatCommand("entriesThatAreNotFoundDoNotMatter", seed: seed))"
            #expect(throws: Never.self, comment) {
                try arena.merge(local: [local], incoming: [incoming], strategy: .everyPair)
            }
            #expect(arena.bytesOfAll == before, comment)
        }
        #expect(seeds.count == 1 || missed > seeds.count / 10)
    }

    @Test func entriesOfTheSameObjectAreFound() throws {
        let touching = changeset(.update(.at("f"), .int(1)))
        #expect(try Self.finds(touching, changeset(.createObject())))
        #expect(try Self.finds(touching, changeset(.setErase(.at("g"), .null))))
        #expect(try Self.finds(touching, changeset(.eraseTable("A"))))
        #expect(try Self.finds(touching, changeset(.eraseColumn("A", "f"))))
        #expect(try !Self.finds(touching, changeset(.eraseColumn("A", "g"))))
        #expect(try !Self.finds(touching, changeset(.eraseObject(ObjectName(key: .int(2))))))
        #expect(try !Self.finds(touching, changeset(.eraseObject(ObjectName(className: "B")))))
        #expect(try Self.finds(changeset(.eraseTable("Z")), touching))
    }

    @Test func keysAreTheSameInEveryArenaAndProcess() throws {
        let bytes = AnabranchCoreTests.changeset(
            .createObject(ObjectName(key: .string(Array("a key of more than eight bytes".utf8)))), .addTable("B"))
        var arena = ChangesetArena()
        try arena.decode(
            AnabranchCoreTests.changeset(.eraseTable("Z"), .createObject()), version: 1, tag: Age.equal.tags.major)
        let changeset = try arena.decode(bytes, version: 2, tag: Age.equal.tags.major)
        let keys = arena.conflictKeys(of: changeset)
        #expect(keys == (try Self.keys(bytes)))
        // Stored with log entries, so fixed for good.
        #expect(keys.writes == [1_626_572_073_139_992_640, 2_662_070_890_634_546_907])
    }

    @Test func anObjectHasTheKeyOfItsInstructions() throws {
        let keys: [PrimaryKey] = [
            .null, .int(-5), .string([]), .string(Array("a key of more than eight bytes".utf8)),
            .globalKey(GlobalKey(high: 3, low: 9)), .objectID(ObjectID(low: 1, high: 2)),
            .uuid(UUIDBytes(low: 4, high: 5)),
        ]
        for key in keys {
            let written = try Self.keys(changeset(.createObject(ObjectName(className: "Some", key: key)))).writes
            #expect(written == [ConflictKeys.object(ObjectAddress("Some".utf8, key))], "\(key)")
        }
    }

    /// As many as a long upload has: those of a column are there once, and none is missing.
    @Test func manyUpdatesOfAColumnHaveOneKey() throws {
        let objects = (0..<5_000).map { ObjectName(key: .int($0)) }
        let steps = objects.flatMap { object in
            ["f", "g", "h"].map { Step.update(FieldPath(object: object, field: $0, path: []), .int(1)) }
        }
        let keys = try Self.keys(changeset(steps))
        let parts = try steps.map { try Self.keys(changeset($0)) }
        #expect(Set(keys.writes) == Set(parts.flatMap(\.writes)) && keys.writes.count == objects.count + 3)
        #expect(Set(keys.reads) == Set(parts.flatMap(\.reads)) && keys.reads.count == objects.count + 4)
    }

    private static func finds(_ upload: [UInt8], _ entry: [UInt8]) throws -> Bool {
        let (upload, entry) = (try keys(upload), try keys(entry))
        return upload.readsEverything || !Set(upload.reads).isDisjoint(with: entry.writes)
    }

    private static func keys(_ bytes: [UInt8]) throws -> ConflictKeys {
        var arena = ChangesetArena()
        let changeset = try arena.decode(bytes, version: 1, tag: Age.equal.tags.major)
        return arena.conflictKeys(of: changeset)
    }
}
