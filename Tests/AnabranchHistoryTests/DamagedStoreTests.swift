import AnabranchCore
import AnabranchSQLite
import AnabranchTesting
import Foundation
import GRDB
import Testing

@testable import AnabranchHistory
@testable import AnabranchSQLite

/// What a store reads is what it has written, or reading fails as trouble of the server's own (`Spec/Durability.md`,
/// section 4).
@Suite struct DamagedStoreTests {
    /// A store whose clients 2 and 3 conflict, and what each client downloads of it; 4 only reads.
    private struct Fixture {
        let directory: TemporaryDirectory
        let expected: [ClientFileID: [Download]]
        let idents: [SaltedFileID]
        let head: SaltedVersion

        init(rounds: UInt64) throws {
            directory = try TemporaryDirectory()
            let store = try SQLiteStore(oneShardIn: directory.path)
            let file = try SyncedFile.open(in: store)
            let idents = try file.allocateIdents(for: ["ann", nil, "eve"], at: 1000)
            for number in 1...rounds {
                for ident in [2, 3] as [ClientFileID] {
                    // One that the merge empties, now and then.
                    let isEmpty = number % 5 == 0
                    let changeset = isEmpty ? [] : ChangesetWriter.setting(Int64(number % 3), to: Int64(number))
                    let time = ChangesetTime(number + ident.rawValue)
                    try file.enqueue(Upload([changeset], from: ClientVersion(number), timestamp: time), from: ident)
                }
                #expect(try file.integrate(at: 1000).outcomes.allSatisfy { $0.refusal == nil })
            }
            self.idents = idents
            head = SaltedVersion(version: file.head.version, salt: file.head.versionSalt)
            expected = try Dictionary(uniqueKeysWithValues: idents.map { ($0.ident, try Self.downloads($0, of: file)) })
            try store.close()
        }

        /// Everything that a client gets who comes with what it had before the first of these downloads.
        static func downloads(_ ident: SaltedFileID, of file: SyncedFile) throws -> [Download] {
            var cursor = try file.identify(IdentRequest(file: ident)).download
            var downloads: [Download] = []
            repeat {
                downloads.append(try file.downloads(for: ident.ident).download(after: cursor, byteBudget: 200))
                cursor = downloads.last?.progress.cursor ?? cursor
            } while cursor.serverVersion < file.version
            return downloads
        }
    }

    /// Values of every column that counts, changed by hand behind the back of the store.
    @Test(arguments: [
        "UPDATE log_entry SET changeset = x'3f' || substr(changeset, 2) || x'00' WHERE version = 6",
        "UPDATE log_entry SET changeset = x'' WHERE version = 6",
        "UPDATE log_entry SET salt = salt + 1 WHERE version = 6",
        "UPDATE log_entry SET client_version = client_version + 1 WHERE version = 6",
        "UPDATE log_entry SET timestamp = timestamp + 1 WHERE version = 6",
        "UPDATE log_entry SET checksum = x'00' WHERE version = 6",
        "UPDATE log_entry SET cumulative_size = cumulative_size + 1 WHERE version = 6",
        "UPDATE log_entry SET origin = 5 WHERE version = 6",
        "UPDATE log_entry SET timestamp = 'x' WHERE version = 6",
        "DELETE FROM log_entry WHERE version = 6",
        "DELETE FROM log_entry WHERE version = (SELECT MAX(version) FROM log_entry)",
        "UPDATE synced_file SET version = version - 1",
        "UPDATE synced_file SET version_salt = version_salt + 1",
        "UPDATE synced_file SET cumulative_size = cumulative_size + 1",
        "UPDATE synced_file SET chain = x'00'",
        "UPDATE synced_file SET next_ident = next_ident - 1",
        "UPDATE synced_file SET next_ident = next_ident + 1",
        "UPDATE client_file SET salt = salt + 1",
        "UPDATE client_file SET client_version = client_version + 1",
        "UPDATE client_file SET reciprocal_base = reciprocal_base + 1",
        "UPDATE client_file SET last_seen = 0",
        "UPDATE client_file SET user = 'bob'",
        "DELETE FROM client_file WHERE ident = 4",
    ])
    func nothingThatWasChangedIsSent(_ sql: String) throws {
        let fixture = try Fixture(rounds: 6)
        try Self.change(fixture, sql)
        let store = try SQLiteStore(oneShardIn: fixture.directory.path)
        let error = #expect(throws: HistoryError.self) {
            let file = try SyncedFile.open(in: store)
            _ = try Fixture.downloads(fixture.idents[2], of: file)
        }
        #expect(error?.code == .storeDamaged)
    }

    /// The changeset is needed by a merge, and by the merge alone.
    @Test(arguments: [
        "UPDATE log_entry SET changeset = x'3f' || substr(changeset, 2) || x'00' WHERE version = 1",
        "UPDATE reciprocal SET changeset = changeset || x'00' WHERE ident = 3",
    ])
    func nothingThatWasChangedIsMerged(_ sql: String) throws {
        let fixture = try Fixture(rounds: 6)
        try Self.change(fixture, sql)
        let store = try SQLiteStore(oneShardIn: fixture.directory.path)
        let file = try SyncedFile.open(in: store)
        let upload = Upload([ChangesetWriter.setting(1, to: 9)], from: 40, timestamp: 9)
        try file.enqueue(upload, from: 3)
        let before = file.version
        let outcomes = try? file.integrate(at: 1).outcomes
        #expect(outcomes == nil || outcomes?.first?.refusal?.code == .storeDamaged)
        #expect(try file.log(after: before).isEmpty)
    }

    private static func change(_ fixture: Fixture, _ sql: String) throws {
        let queue = try DatabaseQueue(path: fixture.directory.path + "/shard-00.sqlite")
        try queue.write { db in
            try db.execute(sql: sql)
            #expect(db.changesCount > 0, "\(sql)")
        }
        try queue.close()
    }

    /// A bit of the database file, anywhere. Each client gets what it would have got, or trouble of the server's own.
    @Test(arguments: 1...4 as ClosedRange<UInt64>)
    func aFlippedBitIsNeverSent(seed: UInt64) throws {
        let fixture = try Fixture(rounds: 40)
        let original = try Data(contentsOf: URL(fileURLWithPath: fixture.directory.path + "/shard-00.sqlite"))
        var random = SeededRandom(seed: seed)
        var refused = 0
        for _ in 0..<100 {
            var bytes = original
            // Most of a small database is free space.
            var place = 0
            repeat { place = Int.random(in: 0..<bytes.count, using: &random) } while bytes[place] == 0
            bytes[place] ^= 1 << UInt8.random(in: 0..<8, using: &random)
            let copy = try TemporaryDirectory(copyingManifestOf: fixture.directory.path)
            try bytes.write(to: URL(fileURLWithPath: copy.path + "/shard-00.sqlite"))
            guard let store = try? SQLiteStore(oneShardIn: copy.path) else {
                refused += 1
                continue
            }
            for ident in fixture.idents {
                do {
                    let file = try SyncedFile.open(in: store)
                    // SQLite's index of the names is all that knows them.
                    if file.head == FileHead() { break }
                    let found = try Fixture.downloads(ident, of: file)
                    #expect(found == fixture.expected[ident.ident], "seed \(seed): byte \(place) was changed")
                } catch let error as HistoryError {
                    refused += 1
                    #expect(error.isStoreFailure, "seed \(seed): byte \(place) was changed: \(error)")
                }
            }
        }
        #expect(refused > 10)
    }
}
