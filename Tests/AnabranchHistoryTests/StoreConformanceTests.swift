import AnabranchCore
@testable import AnabranchHistory
import AnabranchTesting
import Testing

/// The promises of `HistoryStore`, for every store.
@Suite struct StoreConformanceTests {
    /// A file that is written directly, without the code that makes sensible commits.
    struct Fixture {
        let store: any HistoryStore
        let file: OpenedFile
        var head = FileHead()

        init(_ test: TestStore, path: String = "/a") throws {
            store = test.store
            file = try store.open(VirtualPath(path))
        }

        mutating func commit(_ fill: (inout Commit) -> Void) throws {
            var commit = Commit(file: file.id, lease: file.lease, head: head)
            fill(&commit)
            try store.commit([commit])
            head = commit.newHead
        }
    }

    static func entry(
        _ number: UInt64, origin: ClientFileID, _ changeset: [UInt8], total: UInt64
    ) -> LogEntry {
        LogEntry(
            version: ServerVersion(number), salt: 7, origin: origin,
            clientVersion: origin == 0 ? 0 : ClientVersion(number * 10), timestamp: .largest - number,
            cumulativeSize: total, changeset: changeset)
    }

    private static func fill(_ fixture: inout Fixture) throws {
        try fixture.commit { commit in
            commit.clientFiles = [
                ClientFile(ident: 2, salt: Salt(Int64.max), lastSeen: 5, user: "ann"),
                ClientFile(ident: 3, salt: 1, lastSeen: 6),
            ]
        }
        try fixture.commit { commit in
            commit.entries = [
                entry(1, origin: 2, [1], total: 1), entry(2, origin: 3, [], total: 1),
                entry(3, origin: 3, [2, 2], total: 3), entry(4, origin: 0, [3, 3, 3], total: 6),
            ]
            commit.conflictKeys = [
                ConflictKeyEntry(key: .max, version: 1, origin: 2), ConflictKeyEntry(key: 9, version: 3, origin: 3),
                ConflictKeyEntry(key: .max, version: 4, origin: 0), ConflictKeyEntry(key: 9, version: 4, origin: 0),
            ]
            commit.reciprocals = [4, 1].map { version in
                ReciprocalChange(ident: 3, reciprocal: ReciprocalChangeset(version: version, changeset: [8]))
            }.reversed()
        }
    }

    @Test(arguments: StoreKind.withPostgres) func aNewFileIsEmptyAndHasTheReservedRows(kind: StoreKind) throws {
        let test = try TestStore(kind)
        let file = try test.store.open(VirtualPath([0, 255, 47]))
        #expect(file.head == FileHead())
        try test.store.read(file.id) { view throws(HistoryError) in
            #expect(try view.head() == FileHead())
            #expect(try view.clientFile(0) == ClientFile.reserved[0])
            #expect(try view.clientFile(1) == ClientFile.reserved[1])
            #expect(try view.clientFile(2) == nil)
            #expect(try view.clientFile(.largest) == nil)
            #expect(try view.entry(0) == nil)
            #expect(try view.entry(1) == nil)
            #expect(try view.entry(.largest) == nil)
            #expect(try view.lastReceipt(from: .largest, upTo: .largest) == nil)
            #expect(try view.reciprocals(of: .largest, in: VersionRange(after: 0, through: .largest)).isEmpty)
        }
    }

    @Test(arguments: StoreKind.withPostgres) func lookingForAFileMakesNone(kind: StoreKind) throws {
        let test = try TestStore(kind)
        let path = VirtualPath([0, 255, 47])
        for _ in 0..<2 { #expect(try !test.store.contains(path)) }
        _ = try test.store.open(path)
        #expect(try test.store.contains(path))
        #expect(try !test.store.contains(VirtualPath([0, 255])))
    }

    @Test(arguments: StoreKind.withPostgres) func whatWasCommittedIsReadBackAlsoAfterARestart(kind: StoreKind) throws {
        let test = try TestStore(kind)
        var fixture = try Fixture(test)
        try Self.fill(&fixture)
        for _ in 0..<2 {
            try test.restart()
            let reopened = try test.store.open(VirtualPath("/a"))
            #expect(
                reopened.head == FileHead(version: 4, versionSalt: 7, cumulativeSize: 6, nextIdent: 4))
            try test.store.read(reopened.id) { view throws(HistoryError) in
                #expect(try view.head() == reopened.head)
                #expect(
                    try view.clientFile(2) == ClientFile(ident: 2, salt: Salt(Int64.max), lastSeen: 5, user: "ann"))
                #expect(try view.clientFile(3) == ClientFile(ident: 3, salt: 1, lastSeen: 6))
                #expect(try view.entry(3) == Self.entry(3, origin: 3, [2, 2], total: 3))
                #expect(try view.entry(4) == Self.entry(4, origin: 0, [3, 3, 3], total: 6))
                #expect(try view.entry(5) == nil)
            }
        }
    }

    @Test(arguments: StoreKind.withPostgres) func scansPassOverOwnAndEmptyEntriesAndKeepTheBudget(kind: StoreKind)
        throws
    {
        let test = try TestStore(kind)
        var fixture = try Fixture(test)
        try Self.fill(&fixture)
        try fixture.store.read(fixture.file.id) { view throws(HistoryError) in
            let versions = {
                (base: ServerVersion, last: ServerVersion, ident: ClientFileID?, budget: Int) throws(HistoryError) in
                let range = VersionRange(after: base, through: last)
                return try view.entries(in: range, excludingOrigin: ident, byteBudget: budget).map(\.version)
            }
            #expect(try versions(0, .largest, nil, .max) == [1, 3, 4])
            #expect(try versions(1, 4, nil, 0) == [3])
            #expect(try versions(0, .largest, 0, .max) == [1, 3])
            #expect(try versions(0, .largest, 9, .max) == [1, 3, 4])
            #expect(try versions(0, 4, 3, .max) == [1, 4])
            #expect(try versions(1, 3, 2, .max) == [3])
            #expect(try versions(0, 4, 9, 0) == [1])
            #expect(try versions(0, 4, 9, 1) == [1, 3])
            #expect(try versions(4, 4, 9, .max) == [])
            let all = VersionRange(after: 0, through: .largest)
            #expect(try view.versions(in: all, excludingOrigin: 9) == [1, 3, 4])
            #expect(try view.versions(in: VersionRange(after: 1, through: 3), excludingOrigin: 2) == [3])
            #expect(try view.versions(in: VersionRange(after: 0, through: 4), excludingOrigin: 3) == [1, 4])
            #expect(
                try view.receipts(from: 3, in: VersionRange(after: 1, through: 3)) == [
                    Receipt(version: 2, clientVersion: 20), Receipt(version: 3, clientVersion: 30),
                ])
            #expect(try view.receipts(from: 3, in: VersionRange(after: 3, through: .largest)) == [])
            #expect(try view.lastReceipt(from: 3, upTo: 2) == Receipt(version: 2, clientVersion: 20))
            #expect(try view.lastReceipt(from: 3, upTo: .largest) == Receipt(version: 3, clientVersion: 30))
            #expect(try view.lastReceipt(from: 3, upTo: 1) == nil)
        }
    }

    @Test(arguments: StoreKind.withPostgres) func conflictKeysFindTheVersionsOfOthers(kind: StoreKind) throws {
        let test = try TestStore(kind)
        var fixture = try Fixture(test)
        try Self.fill(&fixture)
        try fixture.store.read(fixture.file.id) { view throws(HistoryError) in
            let versions = {
                (hashes: [UInt64], base: ServerVersion, last: ServerVersion, ident: ClientFileID) throws(HistoryError)
                in
                try view.versions(
                    writing: hashes, in: VersionRange(after: base, through: last), excludingOrigin: ident)
            }
            #expect(try versions([9, .max], 0, 4, 9) == [1, 3, 4])
            #expect(try versions([9, .max], 0, 3, 2) == [3])
            #expect(try versions([9], 0, .largest, 3) == [4])
            #expect(try versions([9, .max], 1, 4, 9) == [3, 4])
            #expect(try versions([8], 0, 4, 9) == [])
            #expect(try versions([], 0, 4, 9) == [])
        }
    }

    @Test(arguments: StoreKind.withPostgres) func reciprocalsAreReplacedAndGoWithTheirBase(kind: StoreKind) throws {
        let test = try TestStore(kind)
        var fixture = try Fixture(test)
        try Self.fill(&fixture)
        let store = fixture.store, id = fixture.file.id
        let versions = { (ident: ClientFileID) throws in
            try store.read(id) { view throws(HistoryError) in
                try view.reciprocals(of: ident, in: VersionRange(after: 0, through: .largest)).map(\.version)
            }
        }
        #expect(try versions(3) == [1, 4])
        #expect(try versions(2) == [])
        try fixture.commit { commit in
            commit.reciprocals = [(1, []), (2, [5]), (4, [6])].map { version, bytes in
                ReciprocalChange(ident: 3, reciprocal: ReciprocalChangeset(version: version, changeset: bytes))
            }
        }
        let found = try store.read(id) { view throws(HistoryError) in
            try view.reciprocals(of: 3, in: VersionRange(after: 0, through: 2))
        }
        #expect(
            found == [ReciprocalChangeset(version: 1, changeset: []), ReciprocalChangeset(version: 2, changeset: [5])])
        var row = ClientFile(ident: 3, salt: 1, lastSeen: 7)
        row.uploadCursor = UploadCursor(clientVersion: 30, serverVersion: 2)
        try fixture.commit { $0.clientFiles = [row] }
        #expect(try versions(3) == [4])
        row.isExpired = true
        try fixture.commit { $0.clientFiles = [row] }
        #expect(try versions(3) == [])
    }

    @Test(arguments: StoreKind.withPostgres) func onlyTheNewestLeaseAndVersionMayCommit(kind: StoreKind) throws {
        let test = try TestStore(kind)
        var fixture = try Fixture(test)
        try Self.fill(&fixture)
        let before = fixture.head
        var behind = fixture
        behind.head.version = 3
        #expect(
            try code { try behind.commit { $0.clientFiles = [ClientFile(ident: 4, salt: 1, lastSeen: 1)] } }
                == .leaseLost)
        let successor = try Fixture(test)
        #expect(successor.file.lease > fixture.file.lease)
        #expect(
            try code { try fixture.commit { $0.clientFiles = [ClientFile(ident: 4, salt: 1, lastSeen: 1)] } }
                == .leaseLost)
        #expect(try test.store.read(successor.file.id) { view throws(HistoryError) in try view.head() } == before)
    }

    /// A state with objects of which some have long lists, and what is done to it.
    private static func changes(of graph: inout ObjectGraph, _ number: Int) throws -> StateChanges {
        try graph.write(as: 2) { tx in
            try tx.addClass("T", key: "_id", .int)
            try tx.addColumn("l", .int, collection: .list, to: "T")
            for key in 0..<3 as Range<Int64> {
                let list = try tx.create("T", key: .int(key)).list("l")
                for value in 0..<(key == 0 ? 400 : 3) { try list.append(.int(Int64(value))) }
            }
            if number == 2 {
                try tx.addClass("U", key: "_id", .int)
                try tx.create("U", key: 1)
            }
            if number == 3 {
                try tx.delete(try #require(try tx.object("T", key: 1)))
                try tx.eraseClass("U")
            }
            if number == 4 { try #require(try tx.object("T", key: 0)).list("l").removeAll() }
        }.changes
    }

    @Test(arguments: StoreKind.withPostgres) func theStateIsStoredWithItsCommit(kind: StoreKind) throws {
        let test = try TestStore(kind)
        var fixture = try Fixture(test)
        var total: UInt64 = 0
        for number in 1...5 {
            var after = try fixture.store.state(of: fixture.file.id)
            let changes = try Self.changes(of: &after, number)
            total += 1
            try fixture.commit { commit in
                commit.entries = [Self.entry(UInt64(number), origin: 0, [1], total: total)]
                commit.state = StateUpdate(version: ServerVersion(number), after: after, changes: changes)
            }
            let expected = try after.canonicalJSON()
            #expect(try fixture.store.state(of: fixture.file.id).canonicalJSON() == expected, "commit \(number)")
            try test.restart()
            fixture = try Fixture(test)
            fixture.head = fixture.file.head
            let version = ServerVersion(number)
            #expect(fixture.head.version == version && fixture.head.stateVersion == version)
            #expect(try fixture.store.state(of: fixture.file.id).canonicalJSON() == expected, "restart \(number)")
        }
        // A state that does not follow the stored one, and a commit that leaves the state as it is.
        var behind = fixture
        behind.head.stateVersion = 4
        #expect(
            try code { try behind.commit { $0.clientFiles = [ClientFile(ident: 2, salt: 1, lastSeen: 1)] } }
                == .leaseLost)
        try fixture.commit { $0.entries = [Self.entry(6, origin: 0, [1], total: 6)] }
        let head = try fixture.store.read(fixture.file.id) { view throws(HistoryError) in try view.head() }
        #expect(head.version == 6 && head.stateVersion == 5)
    }

    /// Objects can be read while the file is.
    @Test(arguments: StoreKind.withPostgres) func statesAreReadWithinReads(kind: StoreKind) throws {
        let test = try TestStore(kind)
        let fixture = try Fixture(test)
        var after = try fixture.store.state(of: fixture.file.id)
        let changes = try Self.changes(of: &after, 1)
        var commit = Commit(file: fixture.file.id, lease: fixture.file.lease, head: fixture.head)
        commit.state = StateUpdate(version: 0, after: after, changes: changes)
        try fixture.store.commit([commit])
        let state = try fixture.store.state(of: fixture.file.id)
        let text = try fixture.store.read(fixture.file.id) { view throws(HistoryError) in
            _ = try view.head()
            do throws(ApplyError) {
                return try state.canonicalJSON()
            } catch {
                throw HistoryError(readingStateFailed: error)
            }
        }
        #expect(try text == after.canonicalJSON())
    }

    @Test(arguments: StoreKind.withPostgres) func theNewestIdempotencyKeysAreFound(kind: StoreKind) throws {
        let test = try TestStore(kind)
        var fixture = try Fixture(test)
        let count = IdempotencyKey.countMax + 3
        for number in 0..<count {
            try fixture.commit { $0.idempotencyKey = IdempotencyKey(key: Array("\(number)".utf8), version: 0) }
        }
        try test.restart()
        let reopened = try Fixture(test)
        let found = try reopened.store.read(reopened.file.id) { view throws(HistoryError) in
            var found: [Bool] = []
            for number in 0..<count { found.append(try view.version(ofWrite: Array("\(number)".utf8)) == 0) }
            return found
        }
        #expect(found.suffix(IdempotencyKey.countMax).allSatisfy { $0 })
        #expect(found.prefix(3) == [false, false, false])
        let other = try Fixture(test, path: "/b")
        let missing = try other.store.read(other.file.id) { view throws(HistoryError) in
            try view.version(ofWrite: Array("5".utf8))
        }
        #expect(missing == nil)
    }

    @Test(arguments: StoreKind.withPostgres) func commitsHandedInTogetherTakeEffectTogether(kind: StoreKind) throws {
        let test = try TestStore(kind)
        let first = try Fixture(test, path: "/a"), second = try Fixture(test, path: try test.neighbour(of: "/a"))
        let commits = [first, second].map { fixture in
            var commit = Commit(file: fixture.file.id, lease: fixture.file.lease, head: fixture.head)
            commit.clientFiles = [ClientFile(ident: 2, salt: 1, lastSeen: 1)]
            return commit
        }
        _ = try test.store.open(VirtualPath(try test.neighbour(of: "/a")))
        #expect(try code { try test.store.commit(commits) } == .leaseLost)
        let rows = try [first, second].map { fixture in
            try test.store.read(fixture.file.id) { view throws(HistoryError) in try view.clientFile(2) }
        }
        #expect(rows == [nil, nil])
    }

    @Test(arguments: StoreKind.withPostgres) func filesCanBeWrittenFromManyThreads(kind: StoreKind) async throws {
        let test = try TestStore(kind)
        let store = test.store
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<8 {
                group.addTask {
                    let file = try SyncedFile.open("/\(number)", in: store)
                    let ident = try file.allocateIdent().ident
                    for version in 1...50 as ClosedRange<UInt64> {
                        let changeset = ChangesetWriter.setting(1, to: Int64(version))
                        try file.integrate(Upload([changeset], from: ClientVersion(version)), from: ident)
                    }
                }
            }
            try await group.waitForAll()
        }
        for number in 0..<8 {
            let file = try SyncedFile.open("/\(number)", in: store)
            #expect(try file.log().map(\.clientVersion.rawValue) == Array(1...50))
        }
    }
}
