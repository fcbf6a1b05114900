import AnabranchTesting
import Testing

@testable import AnabranchCore

/// The index of what changesets touch: a log entry that an upload does not find neither changes it nor is changed.
@Suite struct TouchesTests {
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
            var pool = ChangesetPool()
            let local = try pool.decode(entry, version: 1, tag: Age.majorOlder.tags.major)
            let incoming = try pool.decode(upload, version: 1, tag: Age.majorOlder.tags.minor)
            let before = pool.bytesOfAll
            let comment: Comment = "\(Seeds.repeatCommand("entriesThatAreNotFoundDoNotMatter", seed: seed))"
            #expect(throws: Never.self, comment) {
                try pool.merge(local: [local], incoming: [incoming], strategy: .everyPair)
            }
            #expect(pool.bytesOfAll == before, comment)
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

    @Test func touchesAreTheSameInEveryPoolAndProcess() throws {
        let bytes = AnabranchCoreTests.changeset(
            .createObject(ObjectName(key: .string(Array("a key of more than eight bytes".utf8)))), .addTable("B"))
        var pool = ChangesetPool()
        try pool.decode(
            AnabranchCoreTests.changeset(.eraseTable("Z"), .createObject()), version: 1, tag: Age.equal.tags.major)
        let changeset = try pool.decode(bytes, version: 2, tag: Age.equal.tags.major)
        let touches = pool.touches(of: changeset)
        #expect(touches == (try Self.touches(bytes)))
        // Stored with log entries, so fixed for good.
        #expect(touches.posted == [1_626_572_073_139_992_640, 2_662_070_890_634_546_907])
    }

    private static func finds(_ upload: [UInt8], _ entry: [UInt8]) throws -> Bool {
        let (sought, posted) = (try touches(upload), try touches(entry))
        return sought.seeksEverything || !Set(sought.sought).isDisjoint(with: posted.posted)
    }

    private static func touches(_ bytes: [UInt8]) throws -> Touches {
        var pool = ChangesetPool()
        let changeset = try pool.decode(bytes, version: 1, tag: Age.equal.tags.major)
        return pool.touches(of: changeset)
    }
}
