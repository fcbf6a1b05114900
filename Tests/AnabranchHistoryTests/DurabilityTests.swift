import GRDB
import AnabranchCore
import AnabranchSQLite
import AnabranchTesting
import Foundation
import Testing

@testable import AnabranchHistory
@testable import AnabranchSQLite

/// The data that the SQLite store keeps when things go wrong (`Spec/Durability.md`).
@Suite struct DurabilityTests {
    /// A store in which something happens, and the state after each commit.
    private struct Fixture {
        let directory: TemporaryDirectory
        let store: SQLiteStore
        let file: SyncedFile

        init() throws {
            directory = try TemporaryDirectory()
            store = try SQLiteStore(oneShardIn: directory.path)
            file = try SyncedFile.open(in: store)
            _ = try file.allocateIdents(for: ["ann", nil], at: 1000)
        }

        /// Versions of two clients that conflict, so that every table gets rows.
        func integrate(_ number: UInt64) throws {
            for ident in [2, 3] as [ClientFileID] {
                let changeset = ChangesetWriter.setting(Int64(number % 3), to: Int64(number))
                let time = ChangesetTime(number + ident.rawValue)
                try file.enqueue(Upload([changeset], from: ClientVersion(number), timestamp: time), from: ident)
            }
            #expect(try file.integrate(at: 1000).outcomes.allSatisfy { $0.refusal == nil })
        }
    }

    /// Everything stored of a file.
    private struct Stored: Equatable {
        var head: FileHead
        var log: [LogEntry]
        var clientFiles: [ClientFile]
        var reciprocals: [[ReciprocalChangeset]]

        init(_ file: SyncedFile) throws {
            head = file.head
            log = try file.log()
            let idents = (0..<head.nextIdent.rawValue).map(ClientFileID.init)
            clientFiles = try idents.compactMap { try file.clientFile($0) }
            reciprocals = try idents.dropFirst(2).map { try file.reciprocals(of: $0) }
        }
    }

    @Test func everythingIsFlushedToTheDisk() throws {
        let fixture = try Fixture()
        let (mode, level) = try fixture.store.shards[0].pool.writeWithoutTransaction { db in
            (try String.fetchOne(db, sql: "PRAGMA journal_mode"), try Int.fetchOne(db, sql: "PRAGMA synchronous"))
        }
        #expect(mode == "wal")
        #expect(level == 2, "FULL")
    }

    @Test func aCrashAfterAnyCommitLosesNothing() throws {
        let fixture = try Fixture()
        for number in 1...20 as ClosedRange<UInt64> {
            try fixture.integrate(number)
            let expected = try Stored(fixture.file)
            let copy = try StoppedStore.copy(of: fixture.directory.path)
            #expect(try StoppedStore.allDamages(in: copy.path) == [])
            let store = try SQLiteStore(oneShardIn: copy.path)
            #expect(try Stored(SyncedFile.open(in: store)) == expected)
        }
    }

    /// A crash in the middle of writing leaves some commit's state, whole.
    @Test func aLogThatWasCutOffAnywhereIsTheStateAfterSomeCommit() throws {
        let fixture = try Fixture()
        var states = [try Stored(fixture.file)]
        for number in 1...6 as ClosedRange<UInt64> {
            try fixture.integrate(number)
            states.append(try Stored(fixture.file))
        }
        let size = try Data(contentsOf: URL(fileURLWithPath: fixture.directory.path + "/shard-00.sqlite-wal")).count
        var newest = 0
        for cut in stride(from: 0, through: size, by: max(1, size / 150)) {
            let copy = try StoppedStore.copy(of: fixture.directory.path, truncatingLogTo: cut)
            let store = try SQLiteStore(oneShardIn: copy.path)
            let stored = try Stored(SyncedFile.open(in: store))
            try store.close()
            #expect(try StoppedStore.allDamages(in: copy.path) == [])
            guard stored.head.nextIdent > 2 else { continue }
            let found = states.firstIndex(of: stored)
            #expect(found != nil && found ?? 0 >= newest, "cut at \(cut)")
            newest = found ?? newest
        }
        #expect(newest >= states.count - 2)
    }

    @Test func aFullDiskIsTransientAndLosesNothing() throws {
        let fixture = try Fixture()
        try fixture.integrate(1)
        let before = try Stored(fixture.file)
        let limit = { (pages: Int) in
            try fixture.store.shards[0].pool.writeWithoutTransaction { db in
                _ = try Int.fetchOne(db, sql: "PRAGMA max_page_count = \(pages)")
            }
        }
        try limit(1)
        var random = SeededRandom(seed: 1), writer = ChangesetWriter()
        for _ in 0..<20_000 { writer.set(1, to: Int64(bitPattern: random.next())) }
        let large = writer.bytes
        try fixture.file.enqueue(Upload([large], from: 2, timestamp: 9), from: 2)
        for _ in 0..<2 {
            do {
                _ = try fixture.file.integrate(at: 1000)
                Issue.record("the disk was not full")
            } catch {
                #expect(error.code == .storeFailed)
                #expect(error.isTransient)
            }
            #expect(try Stored(fixture.file) == before)
            #expect(fixture.file.hasQueuedUploads)
        }
        #expect(throws: HistoryError.self) {
            try fixture.file.allocateIdents(for: Array(repeating: nil, count: 1000), at: 1)
        }
        try limit(1_000_000)
        #expect(try fixture.file.integrate(at: 1000).outcomes.map(\.newVersions) == [1])
        #expect(try fixture.file.allocateIdent().ident == 4)
        try fixture.store.close()
        #expect(try StoppedStore.allDamages(in: fixture.directory.path) == [])
    }

    @Test func whetherChangesCanBeCommittedIsFoundOutByCommitting() throws {
        let fixture = try Fixture()
        try fixture.integrate(1)
        let before = try Stored(fixture.file)
        for isRefused in [false, true, false] {
            try fixture.store.shards[0].pool.writeWithoutTransaction { db in
                try db.execute(sql: "PRAGMA query_only = \(isRefused)")
            }
            if isRefused {
                #expect(throws: HistoryError.self) { try fixture.store.checkCommit() }
            } else {
                try fixture.store.checkCommit()
            }
        }
        #expect(try Stored(fixture.file) == before)
        try fixture.store.close()
        #expect(try StoppedStore.allDamages(in: fixture.directory.path) == [])
    }

    /// A commit of which the store could not say that it had succeeded.
    @Test func repeatingAnIntegrationThatWasCommittedChangesNothing() throws {
        let fixture = try Fixture()
        let upload = Upload([ChangesetWriter.setting(1, to: 1)], from: 5)
        try fixture.file.enqueue(upload, from: 2)
        _ = try fixture.file.integrate(at: 1000)
        try fixture.file.enqueue(upload, from: 2)
        let report = try fixture.file.integrate(at: 1000)
        #expect(report.outcomes == [ClientOutcome(ident: 2, newVersions: 0, refusal: nil)])
        #expect(fixture.file.version == 1)
    }

    @Test func aSecondUserOfTheDirectoryIsRefusedInWords() throws {
        let fixture = try Fixture()
        #expect(throws: HistoryError(.storeUnusable, "")) { try SQLiteStore(oneShardIn: fixture.directory.path) }
        let error = #expect(throws: HistoryError.self) { try StoreRepair(directory: fixture.directory.path) }
        #expect(error?.reason.hasSuffix("in use by another process: stop the server, or use a backup") == true)
        try fixture.store.close()
        _ = try SQLiteStore(oneShardIn: fixture.directory.path)
    }

    @Test func aStoreOfAnotherFormatIsRefusedInWords() throws {
        for (statement, words) in [
            ("PRAGMA user_version = 99", "shard-00.sqlite has format 99; this program reads format 7"),
            (
                "PRAGMA application_id = 5",
                "shard-00.sqlite is not a store of Anabranch: restore a backup, or use another directory"
            ),
        ] {
            let fixture = try Fixture()
            try fixture.store.shards[0].pool.writeWithoutTransaction { try $0.execute(sql: statement) }
            try fixture.store.close()
            #expect(throws: HistoryError(.storeUnusable, "")) { try SQLiteStore(oneShardIn: fixture.directory.path) }
            let error = #expect(throws: HistoryError.self) { try StoreVerification(directory: fixture.directory.path) }
            #expect(error?.reason == words)
        }
        let empty = try TemporaryDirectory()
        #expect(throws: HistoryError(.storeUnusable, "")) { try StoreVerification(directory: empty.path) }
        #expect(throws: HistoryError(.storeUnusable, "")) { try StoreVerification(directory: empty.path + "/none") }
        #expect(throws: HistoryError(.storeUnusable, "")) { try SQLiteStore(oneShardIn: "/dev/null/x") }
    }

    @Test func aClosedStoreFailsWithoutHarm() throws {
        let fixture = try Fixture()
        try fixture.file.enqueue(Upload([ChangesetWriter.setting(1, to: 1)]), from: 2)
        fixture.file.releaseCaches()
        try fixture.store.close()
        #expect(throws: HistoryError(.storeFailed, "")) { try fixture.file.integrate(at: 1) }
        #expect(throws: HistoryError(.storeFailed, "")) { try fixture.file.clientFile(2) }
    }

    // MARK: verify

    /// Every kind of stored value, changed by hand, is reported with its place and kind.
    @Test func verificationNamesEachDamage() throws {
        let damages: [(sql: String, kind: StoreDamage.Kind, place: String)] = [
            (
                "UPDATE log_entry SET changeset = x'3f' || substr(changeset, 2) || x'00' WHERE version = 5", .checksum,
                "log entry 5"
            ),
            ("UPDATE log_entry SET timestamp = timestamp + 1 WHERE version = 5", .checksum, "log entry 5"),
            ("UPDATE log_entry SET checksum = x'00' WHERE version = 5", .checksum, "log entry 5"),
            ("UPDATE log_entry SET salt = 0 WHERE version = 5", .value, "log entry 5"),
            ("UPDATE log_entry SET origin = 1 WHERE version = 5", .cursor, "log entry 5"),
            ("UPDATE log_entry SET origin = 'x' WHERE version = 5", .value, "log entry number 5"),
            ("UPDATE log_entry SET client_version = 99 WHERE version = 5", .cursor, "log entry 5"),
            ("UPDATE log_entry SET cumulative_size = 1 WHERE version = 5", .size, "log entry 5"),
            ("UPDATE log_entry SET changeset = x'ffff' WHERE version = 5", .changeset, "log entry 5"),
            ("UPDATE log_entry SET version = -1 WHERE version = 5", .continuity, "log entry \(UInt64.max)"),
            ("DELETE FROM log_entry WHERE version = 5", .continuity, "log entry 6"),
            ("DELETE FROM log_entry WHERE version = (SELECT MAX(version) FROM log_entry)", .continuity, "log"),
            ("DELETE FROM conflict_key WHERE version = 5", .conflictKeys, "log entry 5"),
            ("UPDATE conflict_key SET origin = 7 WHERE version = 5", .conflictKeys, "log entry 5"),
            ("INSERT INTO conflict_key VALUES (1, 1, 1, 1)", .conflictKeys, "conflict keys"),
            ("DELETE FROM synced_file", .continuity, "shard-00.sqlite, file 1"),
            ("UPDATE synced_file SET version = 'x'", .value, "record of the file"),
            ("UPDATE synced_file SET version = version - 1", .continuity, "log"),
            ("UPDATE synced_file SET chain = x'00'", .checksum, "log"),
            ("UPDATE synced_file SET version_salt = 1", .value, "log"),
            ("UPDATE synced_file SET cumulative_size = 1", .size, "log"),
            ("UPDATE synced_file SET base_salt = 1", .value, "log"),
            ("UPDATE synced_file SET next_ident = 9", .continuity, "client files"),
            ("DELETE FROM client_file WHERE ident = 2", .continuity, "client file 3"),
            ("UPDATE client_file SET ident = -1 WHERE ident = 2", .continuity, "client file \(UInt64.max)"),
            ("UPDATE client_file SET salt = 7 WHERE ident = 1", .value, "client file 1"),
            ("UPDATE client_file SET salt = 0 WHERE ident = 2", .value, "client file 2"),
            ("UPDATE client_file SET user = 'eve' WHERE ident = 2", .checksum, "client file 2"),
            (
                "UPDATE client_file SET client_version = 0, reciprocal_base = 1 WHERE ident = 2", .cursor,
                "client file 2"
            ),
            ("UPDATE client_file SET reciprocal_base = 99 WHERE ident = 2", .cursor, "client file 2"),
            ("UPDATE client_file SET locked_version = 99 WHERE ident = 2", .cursor, "client file 2"),
            (
                "UPDATE reciprocal SET changeset = x'01' WHERE ident = 3 AND version = 7", .checksum,
                "reciprocal changeset of client file 3, version 7"
            ),
            (
                "UPDATE reciprocal SET version = 99 WHERE ident = 3 AND version = 7", .reciprocal,
                "reciprocal changeset of client file 3, version 99"
            ),
            (
                "UPDATE reciprocal SET ident = 2 WHERE ident = 3 AND version = 7", .reciprocal,
                "reciprocal changeset of client file 2, version 7"
            ),
            (
                "UPDATE client_file SET is_expired = 1 WHERE ident = 3", .reciprocal,
                "reciprocal changeset of client file 3, version 7"
            ),
        ]
        for (sql, kind, place) in damages {
            let fixture = try Fixture()
            for number in 1...4 as ClosedRange<UInt64> { try fixture.integrate(number) }
            try fixture.store.shards[0].pool.writeWithoutTransaction { db in
                try db.execute(sql: sql)
                #expect(db.changesCount > 0, "\(sql)")
            }
            try fixture.store.close()
            let found = try StoppedStore.allDamages(in: fixture.directory.path)
            #expect(found.contains { $0.kind == kind && $0.place == place }, "\(sql): \(found)")
        }
    }

    /// Bytes of the database file, changed anywhere: the verification reports, or nothing that counts was hit; it never
    /// traps.
    @Test func flippedBitsOfTheDatabaseFileNeverGoUnnoticed() throws {
        let fixture = try Fixture()
        for number in 1...40 as ClosedRange<UInt64> { try fixture.integrate(number) }
        try fixture.store.close()
        let original = try Data(contentsOf: URL(fileURLWithPath: fixture.directory.path + "/shard-00.sqlite"))
        let expected = try Stored(SyncedFile.open(in: SQLiteStore(oneShardIn: fixture.directory.path)))
        var random = SeededRandom(seed: 1)
        for _ in 0..<300 {
            var bytes = original
            let place = Int.random(in: 0..<bytes.count, using: &random)
            bytes[place] ^= 1 << UInt8.random(in: 0..<8, using: &random)
            let copy = try TemporaryDirectory(copyingManifestOf: fixture.directory.path)
            try bytes.write(to: URL(fileURLWithPath: copy.path + "/shard-00.sqlite"))
            guard let damages = try? StoppedStore.allDamages(in: copy.path), damages.isEmpty else { continue }
            // A database that says that it cannot be written can be read and verified, and no server uses it.
            guard let store = try? SQLiteStore(oneShardIn: copy.path) else { continue }
            let stored = try Stored(SyncedFile.open(in: store))
            #expect(stored == expected, "byte \(place) was changed and nothing was noticed")
        }
    }

    // MARK: Checksums

    /// The function agrees with other implementations of SipHash-2-4 with 128 bits.
    @Test func theChecksumIsSipHash() {
        let expected = [
            0: "a3817f04ba25a8e66df67214c7550293", 1: "da87c1d86b99af44347659119b22fc45",
            8: "3b62a9ba6258f5610f83e264f31497b4", 15: "5493e99933b0a8117e08ec0f97cfc3d9",
            63: "5150d1772f50834a503e069a973fbd7c",
        ]
        for (count, text) in expected {
            var hash = SipHash128(key: (0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908))
            let result = hash.finish(with: (0..<UInt8(count)).map { $0 }[...])
            let bytes = Checksum(low: result.low, high: result.high).bytes
            #expect(bytes.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined() == text)
            #expect(Checksum(bytes: bytes) == Checksum(low: result.low, high: result.high))
        }
        #expect(Checksum(bytes: [1, 2, 3]) == nil)
    }
}
