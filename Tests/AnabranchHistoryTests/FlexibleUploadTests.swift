import AnabranchCore
import AnabranchRules
import AnabranchTesting
import Synchronization
import Testing

@testable import AnabranchHistory

/// Uploads into flexible files: windows, merges that are set aside, and what a commit writes for those whom it concerns
/// (`Spec/FlexibleSync.md`, sections 3.2 and 3.3).
@Suite struct FlexibleUploadTests {
    /// A step that is over after the smallest piece of work.
    private static var smallestStep: StepLimit { StepLimit.smallest }

    private static func text(_ key: Int64, of fixture: FlexibleFixture) throws -> Payload? {
        try fixture.client.state.read { try $0.object("Note", key: .int(key))?["text"] }
    }

    private static func enqueue(_ fixture: inout FlexibleFixture) throws {
        while let upload = fixture.client.nextUpload(.max), let rest = try fixture.session.progress.accept(upload) {
            fixture.file.enqueue(rest, from: fixture.client.ident, at: 1)
        }
    }

    @Test(arguments: StoreKind.allCases) func aLongMergeDelaysItsSenderAlone(kind: StoreKind) throws {
        var first = try FlexibleFixture(kind)
        try first.create(1)
        try first.integrate()
        try first.upload()
        var second = try first.joined()
        // The first one has missed 40 changes of an object that it changes 40 times itself.
        for number in 0..<40 {
            try second.client.write(at: ChangesetTime(rawValue: 100 + UInt64(number))) { transaction in
                try transaction.object("Note", key: .int(1))?.set("text", to: .string([UInt8(0x41 + number % 26)]))
            }
            try first.client.write(at: ChangesetTime(rawValue: 200 + UInt64(number))) { transaction in
                try transaction.object("Note", key: .int(1))?.set("text", to: .string([UInt8(0x61 + number % 26)]))
            }
        }
        try second.upload()
        try Self.enqueue(&first)
        let file = first.file
        #expect(try file.integrateNew(until: Self.smallestStep).isEmpty)
        #expect(file.hasLongUploads && !file.hasNewUploads)

        // What the second one does meanwhile is in the log at once, and the merge goes on after it.
        try second.integrate()
        try second.client.write(at: 300) { try $0.object("Note", key: .int(1))?.set("text", to: .string([0x2a])) }
        try second.upload()
        #expect(file.hasLongUploads)
        let version = first.synced.version
        while file.hasUploads(of: first.client.ident) {
            if let outcome = try file.integrateLong(until: Self.smallestStep) { #expect(outcome.refusal == nil) }
            _ = try file.integrateNew(until: Self.smallestStep)
        }
        #expect(first.synced.version > version)
        try first.integrate()
        try second.integrate()
        #expect(try Self.text(1, of: first) == .string([0x2a]))
        #expect(try Self.text(1, of: second) == .string([0x2a]))
        try first.upload()
        try second.upload()
        try first.test.verify()
    }

    @Test(arguments: StoreKind.allCases) func aCommitOfAnySizeReachesTheOthers(kind: StoreKind) throws {
        var first = try FlexibleFixture(kind)
        try first.upload()
        var second = try first.joined()
        // Pictures of one transaction.
        try first.client.write(at: 100) { transaction in
            for key in 0..<17 {
                let picture = Payload.string([UInt8](repeating: 0x61, count: 1 << 20))
                try transaction.create("Note", key: .int(Int64(key)), ["text": picture])
            }
        }
        try first.upload()
        #expect(try first.synced.clientFile(second.client.ident)?.isExpired == false)
        try second.integrate()
        #expect(try second.objectCount() == 17)
        // It has not confirmed them yet, and is told of what comes next.
        try second.create(100)
        try second.integrate()
        #expect(try second.objectCount() == 18)
        try second.upload()
        try first.test.verify()
    }

    /// What a client has missed is told by the objects that it is about, however often they have changed.
    @Test(arguments: StoreKind.allCases) func whoWasAwayIsToldOfObjects(kind: StoreKind) throws {
        var first = try FlexibleFixture(kind)
        for key in 0..<4 { try first.create(Int64(key), bytes: 1 << 16) }
        try first.integrate()
        try first.upload()
        first.file.leave(first.client.ident)
        for number in 0..<80 {
            try first.file.write(at: ChangesetTime(rawValue: 100 + UInt64(number))) { transaction in
                let text = Payload.string([UInt8](repeating: UInt8(0x30 + number), count: 1 << 16))
                try transaction.object("Note", key: .int(Int64(number % 4)))?.set("text", to: text)
            }
        }
        try first.identify()
        var bytes = 0
        while let message = try first.file.download(for: &first.session) {
            bytes += message.download.changesets.reduce(0) { $0 + $1.changeset.count }
            try first.client.integrate(message.download)
        }
        #expect(bytes < 8 << 16)
        #expect(try Self.text(3, of: first) == .string([UInt8](repeating: 0x30 + 79, count: 1 << 16)))
        try first.upload()
        try first.test.verify()
    }

    /// A clock by which the first thing takes very long, and all others a millisecond.
    private final class SlowStart: Sendable {
        private let start = ContinuousClock.now
        private let count = Mutex(0)

        var now: ContinuousClock.Instant {
            let asked = count.withLock { count in
                count += 1
                return count
            }
            return start + (asked == 1 ? .zero : .seconds(1_000) + .milliseconds(asked))
        }
    }

    /// What a client has missed is read in each step in which it catches up: the more there is, the fewer these are.
    @Test(arguments: StoreKind.allCases) func whatTakesLongToReadIsReadFewTimes(kind: StoreKind) throws {
        var fixture = try FlexibleFixture(kind)
        try fixture.upload()
        fixture.file.leave(fixture.client.ident)
        for key in 0..<60 as Range<Int64> { try fixture.create(key) }
        try fixture.identify()
        let clock = SlowStart()
        fixture.file.instant = { clock.now }
        let message = try #require(try fixture.file.download(for: &fixture.session, until: Self.smallestStep))
        try fixture.client.integrate(message.download)
        try fixture.integrate()
        #expect(try fixture.objectCount() == 60)
        try fixture.upload()
        try fixture.test.verify()
    }

    /// Downloads that a client has not confirmed are in memory.
    @Test(arguments: StoreKind.allCases) func whoConfirmsNothingIsToldNothingMore(kind: StoreKind) throws {
        var fixture = try FlexibleFixture(kind)
        try fixture.upload()
        let file = fixture.file, ident = fixture.client.ident
        file.entriesMax = 0
        for key in 0..<256 as Range<Int64> { try fixture.create(key) }
        #expect(file.takeClientsToNotify().contains(ident))
        try fixture.integrate()
        _ = file.takeClientsToNotify()
        for key in 256..<276 as Range<Int64> { try fixture.create(key) }
        #expect(!file.takeClientsToNotify().contains(ident))
        #expect(file.views[ident]?.log.entries.count == 256)
        try fixture.upload()
        #expect(file.takeClientToNotify(ident))
        try fixture.integrate()
        #expect(try fixture.objectCount() == 276)
        // Now it is told at once.
        try fixture.upload()
        _ = file.takeClientsToNotify()
        try fixture.create(276)
        #expect(file.takeClientsToNotify().contains(ident))
        try fixture.test.verify()
    }

    /// The upload goes on when its client has left, and its merge names entries of the view by their numbers.
    @Test(arguments: StoreKind.allCases) func aViewStaysWhileAnUploadIsMerged(kind: StoreKind) throws {
        var fixture = try FlexibleFixture(kind)
        try fixture.upload()
        let file = fixture.file, ident = fixture.client.ident
        for key in 0..<10 as Range<Int64> {
            try fixture.client.write(at: 100) { try $0.create("Note", key: .int(key)) }
        }
        try Self.enqueue(&fixture)
        #expect(try file.integrateNew(until: .smallest).isEmpty && file.hasUploads(of: ident))
        file.leave(ident)
        #expect(file.views[ident] != nil && file.awayBytes[ident] == nil)
        while file.hasUploads(of: ident) {
            _ = try file.integrateNew(until: .smallest)
            _ = try file.integrateLong(until: .smallest)
        }
        #expect(file.awayBytes[ident] != nil)
        try fixture.identify()
        try fixture.upload()
        try fixture.integrate()
        #expect(try fixture.synced.withState { try $0.read { try $0.objects("Note").count } } == 10)
        try fixture.test.verify()
    }

    /// What is stored together writes the rows of a client once.
    @Test(arguments: StoreKind.allCases) func smallUploadsOfAClientAreOneTurn(kind: StoreKind) throws {
        var first = try FlexibleFixture(kind)
        try first.upload()
        var second = try first.joined()
        for key in 0..<10 as Range<Int64> {
            try first.client.write(at: 100) { try $0.create("Note", key: .int(key)) }
            try Self.enqueue(&first)
        }
        try second.client.write(at: 100) { try $0.create("Note", key: .int(100)) }
        try Self.enqueue(&second)
        let outcomes = try first.file.integrateNew(until: .none)
        #expect(outcomes.map(\.ident) == [first.client.ident, second.client.ident, first.client.ident])
        #expect(outcomes.first?.uploadCount == 8)
        #expect(outcomes.allSatisfy { $0.refusal == nil } && !first.file.hasNewUploads)
        try first.integrate()
        try second.integrate()
        #expect(try first.objectCount() == 11 && second.objectCount() == 11)
        try first.test.verify()
    }

    private static var readOnly: UserRules {
        get throws {
            let role = """
                {"name": "reader", "apply_when": {}, "read": true, "write": true, "insert": true, "delete": true, \
                "document_filters": {"read": true, "write": {"_id": {"$lt": 0}}}}
                """
            let file = AppFile(path: "rules.json", bytes: #"{"roles": [\#(role)]}"#.utf8)
            return try Rules(classes: ["Note": file], defaultRule: nil).rules(for: try RuleUser(id: "a"))
        }
    }

    /// A client that may not write to the long objects that it has, and uploads a small change of each.
    private static func refused(_ kind: StoreKind, inOneChangeset: Bool) throws -> FlexibleFixture {
        var fixture = try FlexibleFixture(kind)
        for key in 0..<8 as Range<Int64> { try fixture.create(key, bytes: 600_000) }
        try fixture.integrate()
        try fixture.upload()
        try fixture.identify(rules: readOnly)
        try fixture.integrate()
        try fixture.upload()
        let keys = inOneChangeset ? [Array(0..<8)] : (0..<8).map { [$0] } as [[Int64]]
        for keys in keys {
            try fixture.client.write(at: 100) { transaction in
                for key in keys { try transaction.object("Note", key: .int(key))?.set("text", to: .string([0x62])) }
            }
        }
        try enqueue(&fixture)
        return fixture
    }

    /// What is undone of a small upload can be long: some at a time.
    @Test(arguments: StoreKind.allCases) func whatUndoesASmallUploadIsStoredInParts(kind: StoreKind) throws {
        var fixture = try Self.refused(kind, inOneChangeset: false)
        let (synced, file, ident) = (fixture.synced, fixture.file, fixture.client.ident)
        synced.defersCommits = true
        var refusedCount = 0, commitCount = 0
        while file.hasUploads(of: ident) {
            let outcomes =
                file.hasNewUploads
                ? try file.integrateNew(until: .none) : try file.integrateLong(until: .none).map { [$0] } ?? []
            refusedCount += outcomes.reduce(0) { $0 + $1.refusals.count }
            guard let commit = synced.takeDeferred() else { continue }
            #expect(commit.byteCount < 2 << 20)
            try fixture.test.store.commit([commit])
            synced.finish(commit, nil)
            file.didStore(commit)
            commitCount += 1
        }
        synced.defersCommits = false
        #expect(refusedCount == 8)
        #expect(commitCount >= 4)
        try fixture.integrate()
        #expect(try Self.text(7, of: fixture) == .string([UInt8](repeating: 0x61, count: 600_000)))
        try fixture.upload()
        try fixture.test.verify()
    }

    @Test func whatWouldHaveTooMuchUndoneIsRefused() throws {
        let fixture = try Self.refused(.sqlite, inOneChangeset: true), version = fixture.synced.version
        fixture.file.undoingBytesMax = 4 << 20
        let outcomes = try fixture.file.integrateNew(until: .none)
        #expect(outcomes.map(\.refusal?.code) == [.writeNotAllowed])
        #expect(fixture.synced.version == version)
        #expect(!fixture.file.hasUploads(of: fixture.client.ident))
        try fixture.test.verify()
    }

    /// A commit writes what it changes, and nothing of what its readers have not confirmed.
    @Test(arguments: StoreKind.allCases) func aCommitWritesWhatItChanges(kind: StoreKind) throws {
        var first = try FlexibleFixture(kind)
        try first.upload()
        var others = try (0..<10).map { _ in try first.joined() }
        // One of them is refused 1,000 objects with long keys.
        try others[0].client.write(at: 100) { transaction in
            try transaction.addClass("Hidden", key: "_id", .string)
            for number in 0..<1_000 {
                let key = Array("\(number)".utf8) + [UInt8](repeating: 0x01, count: 1_000)
                try transaction.create("Hidden", key: .string(key))
            }
        }
        try others[0].upload()
        first.synced.defersCommits = true
        defer { first.synced.defersCommits = false }
        try first.create(1, bytes: 100_000)
        let commit = try #require(first.synced.takeDeferred())
        // What their views have as it is in the log is stored there alone.
        #expect(commit.views.isEmpty)
        #expect(commit.byteCount < 110_000)
        try first.test.store.commit([commit])
        first.synced.finish(commit, nil)
        first.file.didStore(commit)

        var session = others[0].session, told: [CompensatingWrite] = []
        while let message = try first.file.download(for: &session) {
            told += message.compensations
            try others[0].client.integrate(message.download)
        }
        #expect(told.count == 1)
        let objects = told.flatMap(\.objects)
        #expect(!objects.isEmpty && objects.count < 100)
        #expect(objects.allSatisfy { $0.reason.utf8.count < 300 })
        #expect(try others[0].objectCount() == 1)
        #expect(try others[0].objectCount(of: "Hidden") == 0)
        try first.test.verify()
    }

    /// What the store does not have yet is in memory alone.
    @Test(arguments: StoreKind.allCases) func cachesStayWhileTheyAreAheadOfTheStore(kind: StoreKind) throws {
        var first = try FlexibleFixture(kind)
        try first.upload()
        var second = try first.joined()
        first.synced.defersCommits = true
        try second.client.write(at: 100) { try $0.create("Note", key: .int(1), ["text": .string([0x61])]) }
        try second.upload()
        first.synced.releaseCaches()
        try second.client.write(at: 101) { try $0.object("Note", key: .int(1))?.set("text", to: .string([0x62])) }
        try second.upload()
        let commit = try #require(first.synced.takeDeferred())
        #expect(commit.entries.count == 2)
        try first.test.store.commit([commit])
        first.synced.finish(commit, nil)
        first.file.didStore(commit)
        first.synced.defersCommits = false
        first.synced.releaseCaches()
        try first.integrate()
        let text = try Self.text(1, of: first)
        let stored = try first.synced.withState { try $0.read { try $0.object("Note", key: .int(1))?["text"] } }
        #expect(text == stored && text == .string([0x62]))
        try first.test.verify()
    }

    /// Several operations are stored as one, and what follows one of them is made on top of it.
    @Test(arguments: StoreKind.allCases) func commitsThatAreDeferredAreStoredAsOne(kind: StoreKind) throws {
        var first = try FlexibleFixture(kind)
        try first.upload()
        var second = try first.joined()
        first.synced.defersCommits = true
        for number in 0..<20 {
            try second.create(Int64(number))
            try second.client.write(at: ChangesetTime(rawValue: 500 + UInt64(number))) { transaction in
                try transaction.create("Note", key: .int(Int64(100 + number)), ["text": .string([0x62])])
            }
            try second.upload()
            try second.integrate()
        }
        let version = first.synced.version
        let commit = try #require(first.synced.takeDeferred())
        #expect(commit.entries.count == 40)
        try first.test.store.commit([commit])
        first.synced.finish(commit, nil)
        first.file.didStore(commit)
        first.synced.defersCommits = false
        try first.integrate()
        #expect(try first.objectCount() == 40)
        try first.restart()
        #expect(first.synced.version == version)
        try first.identify()
        try first.integrate()
        #expect(try first.objectCount() == 40)
        try first.test.verify()
    }
}
