import AnabranchCore
import AnabranchTesting
import Testing

@testable import AnabranchHistory

/// How objects were before an entry of the log, as far as the log keeps it (`Spec/FlexibleSync.md`, section 3.1).
@Suite struct BeforeImageTests {
    /// Those whose texts begin with "a".
    private static let some = SubscriptionSet(version: 2, query: Array(#"{"Note":"text BEGINSWITH 'a'"}"#.utf8))

    private static func text(_ key: Int64, of fixture: FlexibleFixture) throws -> Payload? {
        try fixture.client.state.read { try $0.object("Note", key: .int(key))?["text"] }
    }

    /// The client comes back.
    private static func identify(_ fixture: inout FlexibleFixture) throws {
        var request = fixture.client.identRequest
        request.subscriptions = some
        fixture.client.startSession()
        fixture.session = try fixture.file.identify(request)
    }

    /// The log does not keep how an object with a long text was, which a query looks at: who was away is told of the
    /// object as a whole.
    @Test(arguments: StoreKind.allCases) func aSmallChangeOfALongTextIsSmallInTheLog(kind: StoreKind) throws {
        var fixture = try FlexibleFixture(kind)
        #expect(try fixture.file.query(Self.some, in: &fixture.session) == nil)
        for key in 1...3 as ClosedRange<Int64> { try fixture.create(key, bytes: 1 << 20) }
        try fixture.integrate()
        try fixture.upload()
        #expect(try fixture.objectCount() == 3)
        fixture.file.leave(fixture.client.ident)
        for (key, text) in [(1, "b"), (2, "ab")] as [(Int64, String)] {
            try fixture.file.write(at: 100) { transaction in
                try transaction.object("Note", key: .int(key))?.set("text", to: .string(Array(text.utf8)))
            }
            #expect(try #require(try fixture.synced.log().last).byteCount < 1_000)
        }
        try Self.identify(&fixture)
        try fixture.integrate()
        #expect(try fixture.objectCount() == 2)
        #expect(try Self.text(1, of: fixture) == nil)
        #expect(try Self.text(2, of: fixture) == .string(Array("ab".utf8)))
        try fixture.upload()
        try fixture.test.verify()
    }

    /// Nor how very many objects were: no segment could have that.
    @Test(arguments: StoreKind.allCases) func theEndOfManyObjectsIsSmallInTheLog(kind: StoreKind) throws {
        var fixture = try FlexibleFixture(kind)
        #expect(try fixture.file.query(Self.some, in: &fixture.session) == nil)
        let text = Payload.string([UInt8](repeating: 0x61, count: 220)), keys = 0..<32_000 as Range<Int64>
        try fixture.file.write(at: 100) { transaction in
            for key in keys { try transaction.create("Note", key: .int(key), ["text": text]) }
        }
        try fixture.integrate()
        try fixture.upload()
        #expect(try fixture.objectCount() == keys.count)
        fixture.file.leave(fixture.client.ident)
        try fixture.file.write(at: 200) { try $0.deleteAll("Note") }
        let entry = try #require(try fixture.synced.log().last)
        #expect(entry.section.count < 10)
        #expect(entry.changeset.count < 1 << 20)
        try Self.identify(&fixture)
        try fixture.integrate()
        #expect(try fixture.objectCount() == 0)
        try fixture.upload()
        try fixture.test.verify()
    }

    /// Entries are kept in memory, read and sealed by all that they have, how their objects were included.
    @Test func howObjectsWereCounts() throws {
        var fixture = try FlexibleFixture(.sqlite)
        #expect(try fixture.file.query(Self.some, in: &fixture.session) == nil)
        try fixture.file.write(at: 50) { try $0.addColumn("number", .int, to: "Note") }
        try fixture.create(1, bytes: 60_000)
        for number in 0..<300 {
            try fixture.file.write(at: ChangesetTime(rawValue: 100 + UInt64(number))) { transaction in
                try transaction.object("Note", key: .int(1))?.set("number", to: .int(Int64(number)))
            }
        }
        let file = fixture.synced, bytesMax = 4 << 20
        let kept = file.version.rawValue - (try #require(file.tail)).base.rawValue
        #expect((1...UInt64(bytesMax / 60_000)).contains(kept))
        var replay = LogReplay(VersionRange(after: file.version - 300, through: file.version)), pages: [Int] = []
        while !replay.isDone {
            let (next, count) = try file.read { [replay] view throws(HistoryError) in
                var next = replay
                let count = try next.next(from: view).count
                return (next, count)
            }
            replay = next
            pages.append(count)
        }
        #expect(pages.reduce(0, +) == 300)
        #expect(try #require(pages.max()) <= (1 << 20) / 60_000 + 1)
        var sealed = 0
        while let commit = try file.sealIfDue(upTo: file.version) {
            try file.commit(commit)
            sealed += 1
        }
        #expect(sealed > 300 * 60_000 / (16 << 20))
        try fixture.test.verify()
    }
}
