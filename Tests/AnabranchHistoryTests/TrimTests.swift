import AnabranchCore
import AnabranchTesting
import GRDB
import Testing

@testable import AnabranchHistory
@testable import AnabranchSQLite

/// The entries that go from the beginning of a log, and those that must not (`Spec/BoundedHistory.md`, section 6).
@Suite struct TrimTests {
    private typealias Fixture = TrimFixture

    private static let all = VersionRange(after: 0, through: .largest)

    @Test(arguments: StoreKind.allCases, [0, 1_000, 4 << 20])
    func entriesGoWithAllThatBelongsToThemAndTheRestIsAsItWas(kind: StoreKind, tailBytesMax: Int) throws {
        let fixture = try Fixture(kind, tailBytesMax: tailBytesMax)
        let log = try fixture.file.log(), base: ServerVersion = 9, state = try fixture.state()
        try fixture.file.trim(upTo: base)
        let keys = try log.flatMap { try $0.writtenKeys() }
        for isRestarted in [false, true] {
            if isRestarted { try fixture.restart() }
            let file = fixture.file, head = file.head, rest = Array(log[Int(base.rawValue)...])
            #expect(head.baseVersion == base && head.baseSalt == log[8].salt)
            #expect(head.baseCumulativeSize == log[8].cumulativeSize && head.version == log.last?.version)
            #expect(try file.log() == rest)
            #expect(try fixture.state() == state)
            for view in [false, true] {
                try file.read(missesTail: view) { view throws(HistoryError) in
                    #expect(try view.head() == head)
                    #expect(try view.entry(base) == nil)
                    #expect(try view.salt(of: base) == nil)
                    #expect(try view.received(base) == nil)
                    #expect(try view.entry(base + 1) == rest.first)
                    #expect(
                        try view.entries(in: Self.all, excludingOrigin: nil, byteBudget: .max).map(\.version)
                            == rest.map(\.version))
                    let found = try view.versions(writing: keys.map(\.key), in: Self.all, excludingOrigin: 9)
                    #expect(found == keys.map(\.version).filter { $0 > base }.sortedUnique())
                    #expect(try view.receipts(from: 2, in: Self.all).map(\.version) == rest.map(\.version))
                    #expect(try view.receipts(from: 3, in: Self.all).isEmpty)
                    #expect(try view.lastReceipt(from: 3, upTo: .largest) == nil)
                    #expect(try view.lastReceipt(from: 2, upTo: base) == nil)
                    #expect(try view.newestReceipts(in: Self.all).map(\.key) == [2])
                    let files = try view.clientFiles(after: 1, countMax: 9)
                    #expect(files.map(\.baseClientVersion) == [log[8].clientVersion, log[1].clientVersion])
                    #expect(files.map { $0.newestReceipt?.version } == [log.last?.version, nil])
                }
            }
        }
        try fixture.write(5)
        #expect(try fixture.isWhole())
        try fixture.test.verify()
    }

    /// Its own entries are gone, but what it uploaded is not forgotten.
    @Test(arguments: StoreKind.allCases) func whoWasQuietForTheWholeLogComesBack(kind: StoreKind) throws {
        let fixture = try Fixture(kind)
        try fixture.file.trim(upTo: fixture.file.floor(upTo: fixture.file.version))
        #expect(fixture.file.head.baseVersion == fixture.file.version - 1)
        try fixture.restart()
        let file = fixture.file, request = fixture.quiet.identRequest
        #expect(request.download.clientVersion > 0)
        #expect(try file.identify(request).download == request.download)
        #expect(try file.identify(fixture.writer.identRequest).download == fixture.writer.identRequest.download)
        var other = request
        other.download.clientVersion = 0
        #expect(try code { _ = try file.identify(other) } == .divergingHistories)
        other.download.clientVersion = request.download.clientVersion - 1
        #expect(try code { _ = try file.identify(other) } == .divergingHistories)
        try fixture.write(3)
        #expect(try fixture.isWhole())
    }

    @Test(arguments: StoreKind.allCases) func theBaseHasItsSaltAndNothingBelowItHasOne(kind: StoreKind) throws {
        let fixture = try Fixture(kind)
        let salts = try fixture.file.log().map(\.salt), base: ServerVersion = 9
        // It has acknowledged nothing after the base.
        var row = try #require(try fixture.file.clientFile(3))
        (row.uploadCursor.serverVersion, row.lockedVersion) = (base, base)
        try fixture.file.commit([row], at: fixture.file.head)
        try fixture.file.trim(upTo: base)
        var request = fixture.quiet.identRequest
        request.download.serverVersion = base
        request.latest = SaltedVersion(version: base, salt: salts[8])
        #expect(try code { _ = try fixture.file.identify(request) } == nil)
        request.latest.salt.rawValue ^= 1
        #expect(try code { _ = try fixture.file.identify(request) } == .divergingHistories)
        request.latest = SaltedVersion(version: base + 1, salt: salts[9])
        #expect(try code { _ = try fixture.file.identify(request) } == nil)
        request.download.serverVersion = base - 1
        #expect(try code { _ = try fixture.file.identify(request) } == .badServerVersion)
    }

    @Test(arguments: StoreKind.allCases) func whatLiesBeforeTheBaseIsNeverPassedOverInSilence(kind: StoreKind) throws {
        let fixture = try Fixture(kind)
        let file = fixture.file, base: ServerVersion = 9
        try file.trim(upTo: base)
        let source = file.downloads(for: 3)
        let cursor = DownloadCursor(serverVersion: base - 1)
        #expect(try code { _ = try source.download(after: cursor, byteBudget: 9) } == .clientFileExpired)
        _ = try source.download(after: DownloadCursor(serverVersion: base), byteBudget: 9)
        let newest = try #require(try file.clientFile(2)).uploadCursor.clientVersion
        let upload = Upload([ChangesetWriter.setting(1, to: 1)], from: newest + 1, base: base - 1)
        #expect(try file.integrate(upload, from: 2)?.code == .clientFileExpired)
    }

    @Test(arguments: StoreKind.allCases) func aTrimOfWhatSomebodyNeedsIsRefused(kind: StoreKind) throws {
        let fixture = try Fixture(kind)
        let file = fixture.file, store = fixture.test.store
        var row = try #require(try file.clientFile(3))
        // Lineage, base, locked version, whether it has expired, up to where a trim then goes.
        let attempts: [(Lineage, ServerVersion, ServerVersion, Bool, UInt64)] = [
            (.log, 8, 20, false, 0), (.log, 20, 8, false, 0), (.log, 0, 0, false, 0),
            (.generation(1), 20, 20, false, 0), (.log, 9, 9, false, 9), (.log, 8, 8, true, 10),
            (.none, 0, 0, false, 11),
        ]
        for (lineage, base, locked, isExpired, version) in attempts {
            (row.lineage, row.uploadCursor.serverVersion, row.lockedVersion) = (lineage, base, locked)
            row.isExpired = isExpired
            try file.commit([row], at: file.head)
            let wanted = max(9, ServerVersion(version)), isGood = version > 0
            #expect(try (file.floor(upTo: wanted) >= wanted) == isGood)
            let commit = try #require(try file.trimCommit(upTo: wanted))
            #expect(try code { try store.commit([commit]) } == (isGood ? nil : .storeFailed), "\(row)")
            guard isGood else { continue }
            file.finish(commit, nil)
            row = try #require(try file.clientFile(3))
        }
    }

    @Test(arguments: StoreKind.allCases) func aTrimThatContradictsTheLogIsRefused(kind: StoreKind) throws {
        let fixture = try Fixture(kind)
        let file = fixture.file, store = fixture.test.store
        let good = try #require(try file.trimCommit(upTo: 9))
        let mutations: [(inout Commit) -> Void] = [
            { $0.trim?.salt.rawValue ^= 1 }, { $0.trim?.cumulativeSize += 1 }, { $0.trim?.version = 10 },
            { $0.trim?.version = 0 }, { $0.trim?.version = 99 }, { $0.clientFiles[0].baseClientVersion = 0 },
            { $0.clientFiles[1].newestReceipt = Receipt(version: 1, clientVersion: 2) },
            { $0.clientFiles.removeLast() },
        ]
        for (number, mutate) in mutations.enumerated() {
            var commit = good
            mutate(&commit)
            #expect(try code { try store.commit([commit]) } == .storeFailed, "mutation \(number)")
        }
        #expect(try store.read(file.id) { view throws(HistoryError) in try view.head() } == file.head)
        try store.commit([good])
    }

    @Test(arguments: StoreKind.allCases) func muchGoesInSmallCommits(kind: StoreKind) throws {
        let fixture = try Fixture(kind)
        let file = fixture.file
        var bases: [ServerVersion] = []
        while let commit = try file.trimCommit(upTo: 9, entriesMax: 4) {
            try file.commit(commit)
            bases.append(file.head.baseVersion)
        }
        #expect(bases == [4, 8, 9])
        // An entry always goes, however large it is; the newest one stays.
        while let commit = try file.trimCommit(upTo: .largest, bytesMax: 0) {
            try file.commit(commit)
            bases.append(file.head.baseVersion)
        }
        #expect(bases.suffix(2) == [file.version - 2, file.version - 1])
        #expect(bases.count == 3 + Int(file.version.rawValue) - 1 - 9)
        try fixture.test.verify()
    }

    /// Sealed entries cannot be taken apart.
    @Test(arguments: StoreKind.allCases) func aSegmentGoesAsAWholeOrNotAtAll(kind: StoreKind) throws {
        let fixture = try Fixture(kind)
        let log = try fixture.file.log(), state = try fixture.state()
        try fixture.file.seal(SealingPolicy(entriesMax: 4, bytesMax: .max, restMin: 5), segments: 4)
        for (floor, base) in [(3, 0), (4, 4), (11, 8), (14, 12), (18, 18)] as [(ServerVersion, ServerVersion)] {
            try fixture.file.trim(upTo: floor)
            for isRestarted in [false, true] {
                if isRestarted { try fixture.restart() }
                let file = fixture.file
                #expect(file.head.baseVersion == base)
                #expect(try file.log() == Array(log[Int(base.rawValue)...]))
                #expect(try fixture.state() == state)
                try file.read { view throws(HistoryError) in
                    #expect(try view.clientFile(3)?.baseClientVersion == (base > 0 ? log[1].clientVersion : 0))
                    let newest = try view.newestReceipts(in: Self.all)
                    #expect(newest.keys.sorted() == (base > 0 ? [2] : [2, 3]))
                    #expect(newest[2]?.version == file.version)
                }
                _ = try file.identify(fixture.quiet.identRequest)
            }
        }
        // One that is larger than what a commit takes goes all the same.
        let large = try Fixture(kind)
        try large.file.seal(SealingPolicy(entriesMax: 12, bytesMax: .max, restMin: 5), segments: 1)
        let commit = try #require(try large.file.trimCommit(upTo: 14, entriesMax: 2, bytesMax: 1))
        #expect(commit.trim?.version == 12)
        try large.file.commit(commit)
        try fixture.write(3)
        #expect(try fixture.isWhole())
        try fixture.test.verify()
        try large.test.verify()
    }

    /// Page by page, also where a page ends with the last client file.
    @Test(arguments: StoreKind.allCases) func whoNeedsTheMostIsFoundAmongMany(kind: StoreKind) throws {
        let test = try TestStore(kind)
        let file = try SyncedFile.open(in: test.store)
        _ = try file.allocateIdents(for: Array(repeating: nil, count: 20), at: 1_000)
        var rows = try file.read { view throws(HistoryError) in try view.clientFiles(after: 1, countMax: 99) }
        for index in rows.indices {
            rows[index].uploadCursor = UploadCursor(clientVersion: 1, serverVersion: ServerVersion(100 + index))
            rows[index].lockedVersion = .largest
            rows[index].lineage = .log
        }
        rows[3].isExpired = true
        rows[7].uploadCursor.serverVersion = 50
        rows[8].uploadCursor.serverVersion = 50
        rows[9].lineage = .none
        try file.commit(rows, at: file.head)
        for countMax in [1, 3, 5, 20, 21] {
            var scan = PinScan(upTo: 99), seen: [ClientFileID] = []
            while !scan.isDone {
                try file.read { view throws(HistoryError) in
                    try scan.advance(over: view, countMax: countMax) { file, _ in seen.append(file.ident) }
                }
            }
            #expect(scan.floor == 50 && scan.lowest?.ident == 9 && scan.lowest?.lastSeen == 1_000)
            #expect(seen == rows.filter { !$0.isExpired && $0.lineage != .none }.map(\.ident))
        }
        var scan = PinScan(upTo: 50)
        try file.read { view throws(HistoryError) in try scan.advance(over: view) }
        #expect(scan.isDone && scan.lowest == nil && scan.floor == 50)
    }

    // MARK: The SQLite store

    /// - Parameter base: the version up to which entries are gone.
    private static func trimmed(_ base: ServerVersion) throws -> TestStore {
        let fixture = try Fixture(.sqlite)
        try fixture.file.trim(upTo: base)
        try (fixture.test.store as? SQLiteStore)?.close()
        return fixture.test
    }

    @Test(arguments: [
        "UPDATE client_file SET reciprocal_base = 8 WHERE ident = 3",
        "UPDATE client_file SET base_client_version = 0 WHERE ident = 3",
        "UPDATE synced_file SET base_version = 8", "UPDATE synced_file SET base_salt = base_salt + 1",
        "UPDATE synced_file SET base_cumulative_size = base_cumulative_size + 1",
        "UPDATE synced_file SET base_chain = x'00112233445566778899aabbccddeeff'",
        "DELETE FROM log_entry WHERE version = 10",
        "UPDATE state_row SET content = x'00' WHERE class = 1", "DELETE FROM conflict_key WHERE version = 12",
    ]) func damageIsFoundInATrimmedLog(_ sql: String) throws {
        let test = try Self.trimmed(9)
        try StoppedStore.change(test.path, sql)
        var damages: [StoreDamage] = []
        try StoreVerification(directory: test.path).checkFiles { damages += $0.damages }
        #expect(!damages.isEmpty)
    }

    @Test func theStateOfATrimmedLogIsNotMadeAnew() throws {
        let test = try Self.trimmed(9)
        try StoppedStore.change(test.path, "UPDATE state_row SET content = x'00' WHERE class = 1")
        try StoppedStore.change(test.path, "DELETE FROM conflict_key WHERE version = 12")
        var files: [RepairedFile] = []
        let repair = try StoreRepair(directory: test.path)
        try repair.run { files.append($0) }
        try repair.close()
        #expect(files.map(\.repaired) == [.conflictKeys])
        #expect(files[0].reason?.contains("begins after version 9") == true)
        #expect(files[0].damages.map(\.kind) == [.state])
    }

    @Test func onlyTheNewestStateOfATrimmedLogCanBeRead() throws {
        let test = try Self.trimmed(9)
        let file = try #require(try StoreReader(directory: test.path).file(VirtualPath("/a")))
        _ = try file.state(at: file.head.version)
        #expect(try code { _ = try file.state(at: 9) } == .badServerVersion)
        #expect(try code { _ = try file.state(at: file.head.version - 1) } == .badServerVersion)
    }

    /// Who knows the newest version may know more; who is older goes on.
    @Test(arguments: [false, true]) func aTrimmedLogIsRestored(isEmpty: Bool) throws {
        let fixture = try Fixture(.sqlite)
        var older = fixture.quiet.identRequest
        let last = fixture.file.version
        older.latest = SaltedVersion(version: last - 1, salt: try #require(fixture.file.log().last).salt)
        older.download.serverVersion = last - 1
        var row = try #require(try fixture.file.clientFile(3))
        row.uploadCursor.serverVersion = last - 1
        if !isEmpty { try fixture.file.commit([row], at: fixture.file.head) }
        try fixture.file.trim(upTo: last)
        if isEmpty { try fixture.file.commit(Self.trimOfAll(fixture.file)) }
        #expect(fixture.file.head.baseVersion == (isEmpty ? last : last - 1))
        try (fixture.test.store as? SQLiteStore)?.close()
        let restoration = try StoreRestoration(directory: fixture.test.path)
        try restoration.run { #expect($0.version == last && $0.expiredCount == 0) }
        try restoration.close()
        let store = try SQLiteStore(directory: fixture.test.path)
        let file = try SyncedFile.open(in: store, keepsState: true)
        #expect(try code { _ = try file.identify(fixture.quiet.identRequest) } == .divergingHistories)
        #expect(try code { _ = try file.identify(older) } == (isEmpty ? .badServerVersion : nil))
        try file.write(at: 1) { tx in try tx.create("T", key: 77) }
        try store.close()
        var damages: [StoreDamage] = []
        try StoreVerification(directory: fixture.test.path).checkFiles { damages += $0.damages }
        #expect(damages == [])
    }

    /// The newest entry goes too, which no maintenance does.
    private static func trimOfAll(_ file: SyncedFile) throws -> Commit {
        var commit = Commit(file: file.id, lease: file.lease, head: file.head)
        commit.trim = Trim(through: try #require(file.log().last))
        var row = try #require(try file.clientFile(2))
        (row.uploadCursor.serverVersion, row.lockedVersion) = (file.version, file.version)
        row.trim(through: file.version, newest: try #require(row.newestReceipt))
        commit.clientFiles = [row]
        return commit
    }

    /// What nobody needs any more takes no space: the store does not grow with what was written over.
    @Test func theStoreDoesNotGrowWithWhatWasWrittenOver() throws {
        let fixture = try Fixture(.sqlite)
        var pages: [Int] = [], rows: [Int] = []
        for _ in 0..<10 {
            try fixture.write(300)
            try fixture.file.trim(upTo: fixture.file.floor(upTo: fixture.file.version))
            try fixture.test.store.maintain(at: 1 << 40)
            let reader = try DatabaseQueue(path: fixture.test.path + "/shard-00.sqlite")
            try reader.read { db in
                pages.append(try Int.fetchOne(db, sql: "PRAGMA page_count") ?? 0)
                let sql = "SELECT (SELECT COUNT(*) FROM log_entry) + (SELECT COUNT(*) FROM received)"
                rows.append(try Int.fetchOne(db, sql: sql + " + (SELECT COUNT(*) FROM conflict_key)") ?? 0)
            }
            try reader.close()
        }
        #expect(rows.allSatisfy { $0 <= 8 }, "\(rows)")
        #expect(pages[9] <= pages[1] + 2, "\(pages)")
        #expect(try fixture.isWhole())
        try fixture.test.verify()
    }
}
