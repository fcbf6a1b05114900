import Synchronization
import AnabranchCore
import AnabranchTesting
import Testing

@testable import AnabranchHistory

/// Writes of the server itself (`Spec/History.md`, section 17).
@Suite struct ServerWriteTests {
    private typealias Fixture = StateTests.Fixture

    private static func setNumber(_ number: Int64) -> (WriteTransaction) throws -> Void {
        { tx in try #require(try tx.object("T", key: 1))["n"] = .int(number) }
    }

    @Test(arguments: StoreKind.allCases) func aWriteBecomesAVersionThatClientsDownload(kind: StoreKind) throws {
        let fixture = try Fixture(kind), file = fixture.file
        let made = try file.write(at: 5000) { try $0.create("T", key: 7, ["n": 3]) }
        #expect(made == ServerWrite(version: 2, isRepetition: false))
        let entry = try #require(try file.log().last)
        #expect((entry.version, entry.origin, entry.clientVersion, entry.timestamp) == (2, 0, 0, 5000))
        let batch = try file.downloads(for: 3).download(after: DownloadCursor(), byteBudget: .max)
        #expect(batch.changesets.map(\.tag.ident) == [2, 1] && batch.changesets.last?.changeset == entry.changeset)
        #expect(try fixture.canonicalState().contains(#"[{"int":"7"},{"e":null,"l":{"list":[]},"n":{"int":"3"}}]"#))
        try fixture.check()
        try fixture.test.verify()
    }

    @Test("one entry from the future does not date what the server writes")
    func theServerHasItsOwnClock() throws {
        let fixture = try Fixture(), file = fixture.file, wrong: ChangesetTime = 2_850_000_000_000
        var number: Int64 = 0
        func time(at clock: ChangesetTime) throws -> ChangesetTime? {
            number += 1
            try file.write(at: clock, Self.setNumber(number))
            return try file.log().last?.timestamp
        }
        #expect(try time(at: wrong) == wrong)
        #expect(try time(at: 350_000_000_000) == 350_000_000_000)
        // A clock that goes back by a little stands still.
        #expect(try time(at: 350_000_000_000 - 5_000) == 350_000_000_000)
        #expect(try time(at: 350_000_000_000 - 5_001) == 350_000_000_000 - 5_001)
    }

    @Test(arguments: StoreKind.allCases) func aKeyIsUsedOnceAlsoAfterARestart(kind: StoreKind) throws {
        var fixture = try Fixture(kind)
        #expect(try fixture.file.write(idempotencyKey: "a", at: 1, Self.setNumber(1)).version == 2)
        #expect(try fixture.file.write(idempotencyKey: "b", at: 1, Self.setNumber(2)).version == 3)
        for _ in 0..<2 {
            let repeated = try fixture.file.write(idempotencyKey: "a", at: 1) { _ in Issue.record("it ran again") }
            #expect(repeated == ServerWrite(version: 2, isRepetition: true))
            try fixture.test.restart()
            fixture.file = try SyncedFile.open(in: fixture.test.store, keepsState: true)
        }
        #expect(fixture.file.version == 3)
        // Other files have keys of their own; writes without a key are never repetitions.
        let other = try SyncedFile.open("/b", in: fixture.test.store, keepsState: true)
        #expect(try other.write(idempotencyKey: "a", at: 1) { try $0.addClass("U") }.version == 1)
        for version in [4, 5] as [ServerVersion] {
            #expect(
                try fixture.file.write(at: 1, Self.setNumber(3)) == ServerWrite(version: version, isRepetition: false))
        }
        try fixture.check()
    }

    @Test(arguments: StoreKind.allCases) func aWriteThatChangesNothingMakesNoVersion(kind: StoreKind) throws {
        let fixture = try Fixture(kind), file = fixture.file
        #expect(try file.write(at: 1) { _ = try $0.objects("T") } == ServerWrite(version: 1, isRepetition: false))
        #expect(try file.write(idempotencyKey: "look", at: 1) { _ in }.isRepetition == false)
        try file.write(at: 1, Self.setNumber(1))
        #expect(
            try file.write(idempotencyKey: "look", at: 1, Self.setNumber(2))
                == ServerWrite(version: 1, isRepetition: true))
        #expect(file.version == 2)
    }

    @Test func misuseNamesThePlaceAndLeavesNothing() throws {
        let fixture = try Fixture(), file = fixture.file
        let before = try fixture.canonicalState()
        let cases: [(String, (WriteTransaction) throws -> Void)] = [
            ("U: no such class", { _ = try $0.create("U", key: 1) }),
            ("T[1].n: STRING does not fit the field", { try $0.object("T", key: 1)?.set("n", to: "text") }),
            ("T[1].none: no such field", { try $0.object("T", key: 1)?["none"] = 1 }),
            ("T[1].l: index 5 is out of range", { try $0.object("T", key: 1)?.list("l").insert(1, at: 5) }),
        ]
        for (reason, body) in cases {
            let error = #expect(throws: ApplyError.self) {
                try file.write(idempotencyKey: "k", at: 1) { tx in
                    try tx.create("T", key: 50)
                    try body(tx)
                }
            }
            #expect(error?.description.lowercased() == reason.lowercased())
        }
        struct Interrupted: Error {}
        #expect(throws: Interrupted.self) {
            try file.write(idempotencyKey: "k", at: 1) { tx in
                try tx.create("T", key: 50)
                throw Interrupted()
            }
        }
        #expect(file.version == 1)
        #expect(try fixture.canonicalState() == before)
        #expect(try file.write(idempotencyKey: "k", at: 1, Self.setNumber(1)).isRepetition == false)
        try fixture.check()
    }

    /// The writer has seen the entry before.
    @Test func theTimestampIsNeverBeforeThatOfTheEntryBefore() throws {
        let fixture = try Fixture(), file = fixture.file
        for (wall, expected) in [(100, 500), (700, 700), (600, 700)] as [(UInt64, ChangesetTime)] {
            try file.write(at: ChangesetTime(wall), Self.setNumber(Int64(wall)))
            #expect(try file.log().last?.timestamp == expected)
        }
    }

    /// Of two changes to one field the newer one stays, from the server or from a client.
    @Test func uploadsMergeWithWrites() throws {
        let fixture = try Fixture(), file = fixture.file
        try file.write(at: 1000, Self.setNumber(1))
        let theirs = try fixture.changeset { try $0.object("T", key: 1)?.set("n", to: 2) }
        #expect(try file.integrate(Upload([theirs], from: 9, base: 1, timestamp: 999), from: 3) == nil)
        #expect(try file.log().last?.changeset == [])
        #expect(try file.integrate(Upload([theirs], from: 9, base: 1, timestamp: 1001), from: 4) == nil)
        #expect(try file.reciprocals(of: 4) == [ReciprocalChangeset(version: 2, changeset: [])])
        #expect(try fixture.canonicalState().contains(#""n":{"int":"2"}"#))
        try fixture.check()
    }

    /// Changes to what the server has erased are left out too.
    @Test func whatTheServerErasesIsGone() throws {
        let fixture = try Fixture(), file = fixture.file
        let theirs = try fixture.changeset { try $0.object("T", key: 1)?.list("l").append(2) }
        try file.write(at: 1) { try $0.eraseColumn("l", of: "T") }
        try file.enqueue(Upload([theirs], from: 9, base: 1), from: 3)
        let outcome = try #require(try file.integrate(at: 1).outcomes.first)
        #expect(outcome.refusal == nil && outcome.skippedInstructions.count == 1)
        try fixture.check()
    }

    @Test(arguments: StoreKind.allCases) func keysThatTheServerMakesAreNeverMadeAgain(kind: StoreKind) throws {
        var fixture = try Fixture(kind)
        try fixture.file.write(at: 1) { tx in
            try tx.addClass("G")
            try tx.create("G")
        }
        try fixture.test.restart()
        fixture.file = try SyncedFile.open(in: fixture.test.store, keepsState: true)
        try fixture.file.write(at: 1) { try $0.create("G") }
        #expect(try fixture.canonicalState().contains(#""G":[[{"gk":"1-0"},{}],[{"gk":"1-1"},{}]]"#))
        try fixture.check()
    }

    /// The store cannot say that it has committed: the write, tried again under its key, takes effect once.
    @Test func aWriteWithAKeyCanBeTriedAgain() throws {
        let store = ForgetfulStore()
        let file = try SyncedFile(path: VirtualPath("/a"), store: store)
        _ = try file.allocateIdent()
        #expect(try file.integrate(Upload([ChangesetWriter.schema]), from: 2) == nil)
        store.isForgetful.withLock { $0 = true }
        let write = { try file.write(idempotencyKey: "once", at: 1) { try $0.create("T", key: 1) } }
        #expect(try code { _ = try write() } == .storeFailed)
        store.isForgetful.withLock { $0 = false }
        #expect(try write() == ServerWrite(version: 2, isRepetition: true))
        #expect(file.version == 2)
        try file.write(at: 1) { try #require(try $0.object("T", key: 1))["n"] = 5 }
        var replayed = ObjectGraph()
        #expect(try replayed.replay(file.log()).skippedCount == 0)
        #expect(try file.withState { try StateDigest(of: $0) } == StateDigest(of: replayed))
    }
}
