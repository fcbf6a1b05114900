import AnabranchCore
import AnabranchTesting
import Testing

@testable import AnabranchExplain
@testable import AnabranchHistory

/// Versions as edits (`Spec/Explain.md`, section 7).
@Suite struct EditGroupTests {
    /// A version of an author at a time in seconds, on some objects.
    private struct Made {
        var author: ClientFileID
        var seconds: UInt64
        var keys: [Int64]
    }

    private static func entries(_ made: [Made]) -> [LogEntry] {
        made.enumerated().map { index, made in
            var writer = ChangesetWriter()
            for key in made.keys { writer.set(key, to: Int64(index)) }
            return LogEntry(
                version: ServerVersion(index + 1), salt: 1, origin: made.author, clientVersion: 2,
                timestamp: ChangesetTime(made.seconds * 1000), cumulativeSize: 0, changeset: writer.bytes)
        }
    }

    private static func edits(_ made: [Made]) throws -> [Edit] {
        var groups = EditGroups(), edits: [Edit] = []
        for entry in entries(made).reversed() { edits += try groups.add(entry) }
        return edits + groups.finish()
    }

    private static func keys(_ edit: Edit) -> Set<Int64> {
        Set(edit.objects.compactMap { if case .int(let key) = $0.object.key { key } else { nil } })
    }

    @Test func anEditEndsAtAPauseAndWithItsObjects() throws {
        let edits = try Self.edits([
            Made(author: 2, seconds: 0, keys: [1]), Made(author: 3, seconds: 900, keys: [1]),
            Made(author: 2, seconds: 300, keys: [1, 2]), Made(author: 2, seconds: 310, keys: [3]),
            Made(author: 2, seconds: 600, keys: [2]), Made(author: 2, seconds: 901, keys: [2]),
            Made(author: 0, seconds: 901, keys: []),
        ])
        #expect(edits.map(\.versions) == [6...6, 1...5, 4...4, 2...2])
        #expect(edits.map(\.versionCount) == [1, 3, 1, 1])
        #expect(edits.map(Self.keys) == [[2], [1, 2], [3], [1]])
        #expect(edits.map(\.author) == [2, 2, 2, 3])
    }

    @Test func whatBecameOfAnObjectIsSaid() throws {
        var writer = ChangesetWriter()
        writer.create(1)
        writer.set(1, to: 5)
        var last = ChangesetWriter()
        last.erase(1)
        last.create(2)
        let changesets = [writer.bytes, last.bytes]
        var groups = EditGroups(), edits: [Edit] = []
        for (index, changeset) in changesets.enumerated().reversed() {
            edits += try groups.add(
                LogEntry(
                    version: ServerVersion(index + 1), salt: 1, origin: 2, clientVersion: 2, timestamp: 1000,
                    cumulativeSize: 0, changeset: changeset))
        }
        edits += groups.finish()
        let edit = try #require(edits.first)
        #expect(edits.count == 1)
        #expect(edit.objects.map(\.isDeleted) == [false, true])
        #expect(edit.objects.map(\.isInserted) == [true, true])
        #expect(edit.objects.map { $0.fields.map { String(decoding: $0, as: UTF8.self) } } == [[], ["n"]])
    }

    /// Every version is in one edit, edits come in the order of their last versions, and neighbours of an edit keep the
    /// pause; with as many authors and objects as there may be open edits and more.
    @Test(arguments: 1...40 as ClosedRange<UInt64>) func everyVersionIsInOneEdit(seed: UInt64) throws {
        var random = SeededRandom(seed: seed), seconds: [UInt64: UInt64] = [:]
        let authors = 1 + random.below(6), keys = 1 + random.below(400)
        let made = (0..<600).map { _ in
            let author = UInt64(2 + random.below(authors))
            seconds[author, default: 0] += UInt64(random.below(random.isOne(in: 9) ? 700 : 20))
            let count = random.isOne(in: 5) ? 2 : 1
            return Made(
                author: ClientFileID(rawValue: author), seconds: seconds[author] ?? 0,
                keys: (0..<count).map { _ in Int64(random.below(keys)) })
        }
        let edits = try Self.edits(made)
        #expect(edits.reduce(0) { $0 + $1.versionCount } == made.count, "seed \(seed)")
        #expect(edits.map(\.versions.upperBound) == edits.map(\.versions.upperBound).sorted(by: >), "seed \(seed)")
        #expect(edits.allSatisfy { $0.objects.allSatisfy { $0.fields.count == 1 } }, "seed \(seed)")
        for (index, version) in made.enumerated() {
            let number = ServerVersion(index + 1)
            let owners = edits.filter {
                $0.author == version.author && $0.versions.contains(number)
                    && Self.keys($0).isSuperset(of: version.keys)
            }
            #expect(!owners.isEmpty, "seed \(seed), version \(number)")
        }
    }
}
