import AnabranchCore
import AnabranchTesting
import Testing

@testable import AnabranchHistory
@testable import AnabranchSQLite

/// Sealing changes no answer (`Spec/Durability.md`, section 8). That whole runs of clients notice nothing of it,
/// `invariantsHold` shows.
@Suite struct SealedLogTests {
    /// A file with a log that clients have made, and all else that they left, in a store of any kind.
    private struct Fixture {
        let test: TestStore
        let log: [LogEntry]
        let idents: ClientFileID
        var file: SyncedFile

        init(_ kind: StoreKind, _ profile: Workload.Profile, seed: UInt64) throws {
            test = try TestStore(kind)
            let made = try Workload(.memory, profile, seed: seed)
            try made.run(steps: 150)
            log = try made.file.log()
            idents = made.file.head.nextIdent
            let opened = try test.store.open(VirtualPath("/a"))
            var commit = Commit(file: opened.id, lease: opened.lease, head: opened.head)
            commit.entries = log
            commit.conflictKeys = try LogEntry.conflictKeys(of: log)
            for number in 2..<idents.rawValue {
                let ident = ClientFileID(number)
                commit.clientFiles += [try made.file.clientFile(ident)].compactMap(\.self)
                commit.reciprocals += try made.file.reciprocals(of: ident).map {
                    ReciprocalChange(ident: ident, reciprocal: $0)
                }
            }
            commit.received = log.filter { $0.origin > 0 }.prefix(3).map {
                ReceivedChangeset(version: $0.version, time: 7, changeset: $0.changeset + [0])
            }
            try test.store.commit([commit])
            file = try SyncedFile.open(in: test.store)
        }

        mutating func restart() throws {
            try test.restart()
            file = try SyncedFile.open(in: test.store)
        }

        /// Seals the next entries, or all that can be sealed.
        @discardableResult
        func seal(_ count: Int, rest: Int = 1) throws -> Bool {
            let policy = SealingPolicy(entriesMax: count, bytesMax: .max, restMin: rest)
            guard let commit = try file.sealIfDue(policy) else { return false }
            try file.commit(commit)
            return true
        }

        /// Everything that is not asked by `SegmentQuestions`.
        func listing() throws -> [CatalogEntry] {
            let catalog = try #require(test.store as? any HistoryCatalog)
            var listing: [CatalogEntry] = []
            while case let piece = try catalog.entries(
                of: VirtualPath("/a"), after: listing.last?.version ?? 0, countMax: 7), !piece.isEmpty
            { listing += piece }
            return listing
        }

        func ask(_ questions: SegmentQuestions) throws -> SegmentQuestions.Answers {
            try test.store.read(file.id) { view throws(HistoryError) in try questions.ask(view) }
        }

        func received() throws -> [ReceivedChangeset?] {
            try log.map { entry in
                try test.store.read(file.id) { view throws(HistoryError) in try view.received(entry.version) }
            }
        }
    }

    @Test(
        "no answer of a view is another one when entries are sealed, nor after a restart",
        arguments: StoreKind.allCases)
    func answers(kind: StoreKind) throws {
        for seed in LogSegmentTests.seeds(1...12) {
            let comment = LogSegmentTests.repetition(seed, "SealedLogTests")
            var fixture = try Fixture(kind, seed % 2 == 0 ? .data : .schema, seed: seed)
            var random = SeededRandom(seed: seed)
            let questions = (0..<100).map { _ in
                SegmentQuestions(fixture.log, idents: fixture.idents, using: &random)
            }
            let answers = try questions.map { try fixture.ask($0) }
            let (listing, received, head) = (try fixture.listing(), try fixture.received(), fixture.file.head)
            var sealedCount = 0
            while try fixture.seal(1 + random.below(40)) {
                sealedCount += 1
                #expect(try fixture.listing() == listing, comment)
                for (question, answer) in zip(questions, answers).shuffled(using: &random).prefix(20) {
                    #expect(try fixture.ask(question) == answer, comment)
                }
            }
            #expect(sealedCount > 1, comment)
            for _ in 0..<2 {
                for (question, answer) in zip(questions, answers) {
                    #expect(try fixture.ask(question) == answer, comment)
                }
                #expect(try fixture.file.log() == fixture.log, comment)
                #expect(try fixture.listing() == listing && fixture.received() == received, comment)
                #expect(fixture.file.head == head, comment)
                try fixture.restart()
            }
            try fixture.test.verify()
        }
    }

    @Test("the newest entry keeps its row, and so do as many as the policy says", arguments: StoreKind.allCases)
    func rest(kind: StoreKind) throws {
        let fixture = try Fixture(kind, .data, seed: 1)
        let sealedEnd = {
            try fixture.file.read { view throws(HistoryError) in try view.sealedEnd() }
        }
        let start = Checksum(startOf: VirtualPath("/a"))
        #expect(try sealedEnd() == LogPlace(version: 0, cumulativeSize: 0, chain: start))
        while try fixture.seal(1, rest: 5) {}
        #expect(try sealedEnd()?.version == fixture.log[fixture.log.count - 6].version)
        while try fixture.seal(3, rest: 0) {}
        let last = fixture.log[Int(try #require(try sealedEnd()).version.rawValue) - 1]
        #expect(fixture.log.count - Int(last.version.rawValue) <= 3 && last.version < fixture.file.version)
        #expect(
            try sealedEnd()
                == LogPlace(
                    version: last.version, cumulativeSize: last.cumulativeSize,
                    chain: fixture.log.prefix(Int(last.version.rawValue)).reduce(start) { $0.following($1) }))
        try fixture.test.verify()
    }

    @Test("entries are due when they are many or large, and one call seals one segment")
    func policy() throws {
        let fixture = try Fixture(.memory, .data, seed: 2)
        var policy = SealingPolicy(entriesMax: fixture.log.count, bytesMax: .max, restMin: 1)
        #expect(try fixture.file.sealIfDue(policy) == nil)
        policy.entriesMax = fixture.log.count - 1
        #expect(try fixture.file.sealIfDue(policy)?.sealed?.count == fixture.log.count - 1)
        policy.entriesMax = 5
        #expect(try fixture.file.sealIfDue(policy)?.sealed?.count == 5)
        (policy.entriesMax, policy.bytesMax) = (.max, 60)
        let sealed = try #require(try fixture.file.sealIfDue(policy)?.sealed)
        let sizes = fixture.log.prefix(sealed.count).map(\.changeset.count)
        #expect(sizes.reduce(0, +) >= 60 && sizes.dropLast().reduce(0, +) < 60)
        policy.bytesMax = Int(fixture.file.head.cumulativeSize) + 1
        #expect(try fixture.file.sealIfDue(policy) == nil)
    }

    @Test("a segment that is not of the rows is refused, and nothing changes", arguments: StoreKind.allCases)
    func otherSegments(kind: StoreKind) throws {
        let fixture = try Fixture(kind, .data, seed: 3)
        let start = Checksum(startOf: VirtualPath("/a")), base = LogPlace(version: 0, cumulativeSize: 0, chain: start)
        var other = fixture.log
        other[1].timestamp = other[1].timestamp + 1
        let second = LogPlace(
            version: 1, cumulativeSize: fixture.log[0].cumulativeSize, chain: start.following(fixture.log[0]))
        let attempts = [
            try SealedEntries(Array(other.prefix(3)), after: base, of: start),
            try SealedEntries(Array(fixture.log[1..<4]), after: second, of: start),
            try SealedEntries(fixture.log, after: base, of: start),
            try SealedEntries(Array(fixture.log.prefix(3)), after: base, of: Checksum(startOf: VirtualPath("/b"))),
        ]
        let before = try fixture.listing()
        for sealed in attempts {
            let file = try SyncedFile.open(in: fixture.test.store)
            var commit = Commit(file: file.id, lease: file.lease, head: file.head)
            commit.sealed = sealed
            #expect(throws: HistoryError(.storeDamaged, "")) { try file.commit(commit) }
            #expect(try file.log() == fixture.log && fixture.listing() == before)
        }
        try fixture.test.verify()
    }

    @Test("a client that has uploaded nothing for long is let in, with its receipt in a segment or above")
    func receipts() throws {
        for kind in StoreKind.allCases {
            let test = try TestStore(kind)
            let file = try SyncedFile.open(in: test.store, tailBytesMax: 0)
            let clients = try file.allocateIdents(for: [nil, nil], at: 1)
            for number in 1...40 as ClosedRange<UInt64> {
                let ident: ClientFileID = number == 3 || number == 35 ? 3 : 2
                try file.integrate(
                    Upload([ChangesetWriter.setting(1, to: Int64(number))], from: ClientVersion(number)), from: ident)
            }
            try file.seal(SealingPolicy(entriesMax: 10, restMin: 10))
            for (version, clientVersion) in [(2, 0), (3, 3), (20, 3), (34, 3), (35, 35), (40, 35)] {
                let request = IdentRequest(
                    file: clients[1],
                    download: DownloadCursor(
                        serverVersion: ServerVersion(version), clientVersion: ClientVersion(clientVersion)),
                    latest: SaltedVersion(version: ServerVersion(version), salt: file.head.versionSalt))
                _ = try file.identify(request)
            }
        }
    }

    @Test("what is kept has a bound, and what is asked for again stays")
    func bound() {
        var cache = BoundedCache<Int, Int>(bytesMax: 100)
        cache.keep(0, as: 0, byteCount: 51)
        #expect(cache.find(0) == nil && cache.byteCount == 0)
        for number in 1...1000 {
            cache.keep(number, as: number, byteCount: 1 + number % 10)
            #expect(cache.find(1) == 1 && cache.find(number) == number && cache.byteCount <= 100)
        }
        #expect(cache.find(900) == nil)
    }
}
