import AnabranchCore
import AnabranchTesting
import Foundation
import GRDB
import Testing

@testable import AnabranchHistory
@testable import AnabranchSQLite

/// Entries that go from a log and are kept (`Spec/BoundedHistory.md`, section 6.1).
@Suite struct ArchiveTests {
    private typealias Fixture = TrimFixture

    // MARK: Trims

    @Test(arguments: StoreKind.allCases) func whatGoesFromTheLogIsInTheArchiveAsItWas(kind: StoreKind) throws {
        let fixture = try Fixture(kind), dropping = try Fixture(kind)
        let log = try fixture.file.log(), base: ServerVersion = 9
        try fixture.file.trim(upTo: base, keep: .archive)
        try dropping.file.trim(upTo: base)
        for isRestarted in [false, true] {
            if isRestarted {
                try fixture.restart()
                try dropping.restart()
            }
            #expect(try fixture.file.archive() == Array(log.prefix(9)))
            #expect(try dropping.file.archive() == [])
            // All else is as if they were gone.
            #expect(fixture.file.head == dropping.file.head && fixture.file.head.baseVersion == base)
            #expect(try fixture.file.log() == dropping.file.log())
            #expect(try fixture.file.freed(byExpiring: 3, upTo: 20) == dropping.file.freed(byExpiring: 3, upTo: 20))
            try fixture.file.read { view throws(HistoryError) in
                #expect(try view.entry(base) == nil)
                #expect(try view.salt(of: base) == nil)
                let all = VersionRange(after: 0, through: .largest)
                #expect(try view.entries(in: all, excludingOrigin: nil, byteBudget: .max).first?.version == base + 1)
            }
        }
        let bytes = try fixture.file.historyStatus().archivedBytes
        #expect(try dropping.file.historyStatus().archivedBytes == 0 && bytes > 0)
        let catalog = try #require(fixture.test.store as? any HistoryCatalog)
        #expect(try catalog.file(VirtualPath("/a"))?.archivedBytes == bytes)
        #expect(try catalog.files(after: nil, countMax: 9).map(\.archivedBytes) == [bytes])
        try fixture.write(5)
        try fixture.file.trim(upTo: fixture.file.version, keep: .archive)
        #expect(try fixture.file.archive().count == Int(fixture.file.version.rawValue) - 1)
        #expect(try fixture.file.archive().starts(with: log))
        #expect(try fixture.isWhole())
        try fixture.test.verify()
    }

    /// A segment that was there moves as it is.
    @Test func segmentsMoveByteForByte() throws {
        let fixture = try Fixture(.sqlite), store = try #require(fixture.test.store as? SQLiteStore)
        try fixture.file.seal(SealingPolicy(entriesMax: 4, bytesMax: .max, restMin: 5), segments: 3)
        func blocks(_ table: String) throws -> [Row] {
            try store.shards[0].pool.read { db in
                try Row.fetchAll(db, sql: "SELECT file, last, block FROM \(table) ORDER BY last")
            }
        }
        let segments = try blocks("log_segment")
        try fixture.file.trim(upTo: 10, keep: .archive)
        #expect(fixture.file.head.baseVersion == 8)
        #expect(try blocks("archived_segment") == Array(segments.prefix(2)))
        #expect(try blocks("log_segment") == Array(segments.suffix(1)))
        try fixture.test.verify()
    }

    /// What goes where nothing is kept, or is gone, is missing; the rest is found.
    @Test(arguments: StoreKind.allCases) func anArchiveBeginsAnywhereAndHasGaps(kind: StoreKind) throws {
        let fixture = try Fixture(kind), file = fixture.file, log = try file.log()
        for (floor, keep) in [(4, .drop), (9, .archive), (12, .drop), (13, .archive), (15, .archive)]
            as [(ServerVersion, HistoryPolicy.Keep)]
        {
            try file.trim(upTo: floor, keep: keep)
            #expect(file.head.baseVersion == floor)
        }
        #expect(try file.archive().map(\.version) == [5, 6, 7, 8, 9, 13, 14, 15])
        for (version, expected) in [
            (0, []), (4, []), (5, [5]), (7, [5, 6, 7]), (9, [5, 6, 7, 8, 9]), (11, [5, 6, 7, 8, 9]), (13, [13]),
            (14, [14]), (99, [14, 15]),
        ] as [(ServerVersion, [Int])] {
            #expect(try file.archivedEntries(upTo: version) == expected.map { log[$0 - 1] }, "\(version)")
        }
        try fixture.test.verify()
    }

    @Test(arguments: StoreKind.allCases) func onlyWhatWasSealedCanBeArchived(kind: StoreKind) throws {
        let fixture = try Fixture(kind), file = fixture.file
        try file.seal(SealingPolicy(entriesMax: 4, bytesMax: .max, restMin: 5), segments: 2)
        #expect(try file.trimCommit(upTo: 9, keep: .archive)?.trim?.version == 8)
        var commit = try #require(try file.trimCommit(upTo: 9))
        commit.trim?.keep = .archive
        let refusal = #expect(throws: HistoryError.self) { try fixture.test.store.commit([commit]) }
        #expect(refusal?.reason == "the log up to version 9 has not been sealed")
        // The newest entry is never sealed.
        try file.trim(upTo: file.version, keep: .archive)
        #expect(file.head.baseVersion == file.version - 1)
        try fixture.test.verify()
    }

    @Test(arguments: StoreKind.allCases) func maintenanceKeepsWhatItIsToldToKeep(kind: StoreKind) throws {
        let fixture = try GenerationFixture(kind)
        var policy = HistoryPolicy.generating()
        policy.sealEntries = 4
        policy.keep = .archive
        for _ in 0..<3 {
            let before = try fixture.file.archive().count, size = fixture.file.head.baseCumulativeSize
            let log = try fixture.file.archive() + fixture.file.log()
            let report = try fixture.file.maintain(at: 1000, policy), head = fixture.file.head
            #expect(report.archivedEntries == report.trimmedEntries && report.archivedEntries > 0)
            #expect(report.archivedBytes == report.trimmedBytes)
            #expect(report.archivedBytes == head.baseCumulativeSize - size)
            let archive = try fixture.file.archive()
            #expect(archive.count == before + Int(report.archivedEntries))
            // For a generation the log may have got empty entries.
            #expect(try (archive + fixture.file.log()).starts(with: log))
            try fixture.write(9)
        }
        policy.keep = .drop
        let report = try fixture.file.maintain(at: 1000, policy)
        #expect(report.trimmedEntries > 0 && report.archivedEntries == 0 && report.archivedBytes == 0)
        try fixture.test.verify()
    }

    // MARK: Reading

    @Test func aStoreThatIsReadHasTheLogAndBehindItTheArchive() throws {
        let fixture = try Fixture(.sqlite), log = try fixture.file.log()
        for (floor, keep) in [(3, .archive), (4, .drop), (9, .archive)] as [(ServerVersion, HistoryPolicy.Keep)] {
            try fixture.file.trim(upTo: floor, keep: keep)
        }
        try (fixture.test.store as? SQLiteStore)?.close()
        let file = try #require(try StoreReader(directory: fixture.test.path).file(VirtualPath("/a")))
        let all = Array(log.filter { $0.version != 4 }.reversed())
        for limit in [0, 1, 13, 14, 16, 20, all.count, .max] {
            var entries: [LogEntry] = []
            try file.forEachEntry(newest: limit) { entries.append($0) }
            #expect(entries == Array(all.prefix(limit)), "\(limit)")
        }
        for entry in log {
            #expect(try file.entry(entry.version) == (entry.version == 4 ? nil : entry))
        }
        for version in [0, 99] as [ServerVersion] { #expect(try file.entry(version) == nil) }
    }

    // MARK: Damage

    private static func change(_ directory: String, _ sql: String, _ arguments: StatementArguments = []) throws {
        let queue = try DatabaseQueue(path: directory + "/shard-00.sqlite")
        try queue.write { db in
            try db.execute(sql: sql, arguments: arguments)
            #expect(db.changesCount > 0, "\(sql)")
        }
        try queue.close()
    }

    private static func verified(_ directory: String) throws -> VerifiedFile {
        var files: [VerifiedFile] = []
        try StoreVerification(directory: directory).checkFiles { files.append($0) }
        return try #require(files.first)
    }

    /// A closed store whose archive has the entries 3 to 14, but for 9 and 10, in segments of two.
    private static func archived() throws -> (test: TestStore, log: [LogEntry]) {
        let fixture = try Fixture(.sqlite), log = try fixture.file.log()
        try fixture.file.seal(SealingPolicy(entriesMax: 2, bytesMax: .max, restMin: 5), segments: 7)
        for (floor, keep) in [(2, .drop), (8, .archive), (10, .drop), (14, .archive)]
            as [(ServerVersion, HistoryPolicy.Keep)]
        {
            try fixture.file.trim(upTo: floor, keep: keep)
        }
        try (fixture.test.store as? SQLiteStore)?.close()
        return (fixture.test, log)
    }

    @Test(
        "damage to the archive is named, and repair takes those segments away and no others",
        arguments: [
            ("block = substr(block, 1, 40) || x'ff' || substr(block, 42) WHERE last = 6", 6),
            ("block = x'00' WHERE last = 6", 6), ("block = 'x' WHERE last = 6", 6),
            ("bytes = bytes + 1 WHERE last = 12", 12), ("last = 7 WHERE last = 6", 7),
            ("block = (SELECT block FROM archived_segment WHERE last = 4) WHERE last = 6", 6),
            ("last = 16 WHERE last = 14", 16),
        ] as [(String, Int)])
    func damage(_ change: String, place: Int) throws {
        let (test, _) = try Self.archived()
        let whole = try Self.verified(test.path)
        #expect(whole.damages == [] && whole.archivedCount == 10)
        try Self.change(test.path, "UPDATE archived_segment SET \(change)")
        let found = try Self.verified(test.path)
        #expect(!found.damages.isEmpty && found.damages.allSatisfy { $0.kind == .archive }, "\(found.damages)")
        #expect(Set(found.damages.map(\.place)) == ["archived log segment up to entry \(place)"])
        #expect(found.goodVersion == whole.goodVersion)
        let repair = try StoreRepair(directory: test.path)
        var repaired: [RepairedFile] = []
        try repair.run { repaired.append($0) }
        try repair.close()
        #expect(repaired.map(\.repaired) == [.archive] && repaired.allSatisfy { $0.damages.isEmpty })
        let mended = try Self.verified(test.path)
        #expect(mended.damages == [] && mended.archivedCount == 8)
    }

    /// Its checksum is right: so it is found by what it does not fit to, which is the next one if the first changes.
    @Test(arguments: [(4, 6), (8, 8), (14, 14)]) func aSegmentThatDoesNotFitIsFound(last: Int, place: Int) throws {
        let (test, log) = try Self.archived()
        var entries = Array(log[last - 2..<last])
        entries[0].timestamp = 9
        let start = Checksum(startOf: VirtualPath("/a"))
        let block = try LogSegment.seal(entries, after: start, of: start)
        try Self.change(
            test.path, "UPDATE archived_segment SET block = ?, bytes = ? WHERE last = ?",
            [Data(block), block.count, last])
        let damages = try Self.verified(test.path).damages
        #expect(Set(damages.map(\.place)) == ["archived log segment up to entry \(place)"], "\(damages)")
    }

    @Test func whatIsDamagedIsNotRead() throws {
        let (test, log) = try Self.archived()
        try Self.change(test.path, "UPDATE archived_segment SET block = x'00' WHERE last = 6")
        try test.restart(isClosed: true)
        let file = try SyncedFile.open(in: test.store, keepsState: true)
        #expect(try file.archivedEntries(upTo: 8) == Array(log[6...7]))
        let error = #expect(throws: HistoryError.self) { _ = try file.archivedEntries(upTo: 5) }
        #expect(error?.code == .storeDamaged)
        #expect(error?.reason.hasPrefix("the archived log segment up to entry 6: ") == true)
        // Clients are served all the same.
        #expect(try file.log() == Array(log[14...]))
    }

    // MARK: The store

    @Test func aBackupHasTheArchive() throws {
        let fixture = try Fixture(.sqlite), log = try fixture.file.log(), folder = try TemporaryDirectory()
        try fixture.file.trim(upTo: 9, keep: .archive)
        let backup = try StoreBackup(of: fixture.test.path, to: folder.path + "/backup").run(isVerified: true)
        #expect(backup.damages == [])
        let restored = folder.path + "/restored"
        #expect(try BackupRestoration(from: folder.path + "/backup", to: restored).run() == [])
        let restoration = try StoreRestoration(directory: restored)
        try restoration.run { _ in }
        try restoration.close()
        #expect(try Self.verified(restored).damages == [])
        let store = try SQLiteStore(directory: restored)
        #expect(try SyncedFile.open(in: store, keepsState: true).archive() == Array(log.prefix(9)))
        try store.close()
    }

    /// An older program deletes what it knows.
    @Test func aProgramThatKnowsNoArchiveDeletesItWithItsFile() throws {
        let (test, _) = try Self.archived()
        try Self.change(test.path, "INSERT INTO deleted_file (file) SELECT id FROM synced_file")
        try Self.change(test.path, "DELETE FROM deleted_file")
        let queue = try DatabaseQueue(path: test.path + "/shard-00.sqlite")
        #expect(try queue.read { db in try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM archived_segment") } == 0)
        try queue.close()
    }
}

extension SyncedFile {
    /// All of it.
    func archive() throws(HistoryError) -> [LogEntry] {
        var entries: [LogEntry] = []
        while true {
            let older = try archivedEntries(upTo: entries.first.map { $0.version - 1 } ?? .largest)
            if older.isEmpty { return entries }
            entries = older + entries
        }
    }
}
