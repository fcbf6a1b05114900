import AnabranchCore
import AnabranchHistory
import AnabranchTesting
import Foundation
import GRDB
import Testing

@testable import AnabranchSQLite

/// Stores of older formats become stores of this one (`Spec/Durability.md`, section 3).
@Suite struct StoreMigrationTests {
    private struct Killed: Error {}

    private let folder = TestFolder.parent + "/anabranch-migration-\(UUID().uuidString)"

    /// Runs `body` with a folder that has a store of format 2, and removes it.
    private func migrating(_ name: String, _ body: () async throws -> Void) async throws {
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try await Fixture.unpack("store-format-2/\(name)", to: folder)
        try await body()
    }

    /// What the logs, the client files, the reciprocal changesets and the keys of the old store are, as text.
    private func rows(
        of database: String, _ queries: KeyValuePairs<String, String>
    ) throws -> [String: [String]] {
        let queue = try DatabaseQueue(path: folder + "/" + database)
        defer { try? queue.close() }
        return try queue.read { db in
            db.add(function: Self.unpacked)
            var found: [String: [String]] = [:]
            for (name, sql) in queries { found[name] = try String.fetchAll(db, sql: sql).sorted() }
            return found
        }
    }

    /// Contents as they were before they were stored.
    private static let unpacked = DatabaseFunction("unpacked", argumentCount: 1, pure: true) { values in
        guard let stored = Data.fromDatabaseValue(values[0]) else { return values[0] }
        return Data(try PackedContent.unpacked(Array(stored)) ?? Array(stored))
    }

    private static func select(_ columns: [String], from table: String) -> String {
        let text = columns.map { $0 == "changeset" ? "quote(unpacked(t.changeset))" : "quote(t.\($0))" }.joined(separator: " || '|' || ")
        return "SELECT quote(f.path) || '|' || \(text) FROM \(table) t JOIN synced_file f ON f.id = t.file"
    }

    private static let entries = [
        "version", "salt", "origin", "client_version", "timestamp", "cumulative_size", "changeset",
    ]
    private static let clientFiles = [
        "ident", "salt", "client_version", "reciprocal_base", "locked_version", "last_seen", "user",
    ]

    @Test(arguments: ["stopped", "killed"]) func everythingIsCopied(_ name: String) async throws {
        try await migrating(name) {
            let old = try rows(
                of: "anabranch.sqlite",
                [
                    "entries": Self.select(Self.entries, from: "log_entry"),
                    "clients": Self.select(Self.clientFiles, from: "client_file"),
                    "reciprocals": Self.select(["ident", "version", "changeset", "checksum"], from: "reciprocal"),
                    "conflict keys": Self.select(["hash", "version", "origin"], from: "touch"),
                    "keys": Self.select(["key", "version"], from: "write_key"),
                ])
            let before = try Data(contentsOf: URL(fileURLWithPath: folder + "/anabranch.sqlite"))
            let store = try SQLiteStore(directory: folder)
            #expect(store.shardCount == 8)
            try store.close()
            var new: [String: [String]] = [:]
            for shard in 0..<8 {
                let found = try rows(
                    of: "shard-0\(shard).sqlite",
                    [
                        "entries": Self.select(Self.entries, from: "log_entry"),
                        "clients": Self.select(Self.clientFiles, from: "client_file"),
                        "reciprocals": Self.select(["ident", "version", "changeset", "checksum"], from: "reciprocal"),
                        "conflict keys": Self.select(["key", "version", "origin"], from: "conflict_key"),
                        "keys": Self.select(["key", "version"], from: "idempotency_key"),
                    ])
                new.merge(found) { ($0 + $1).sorted() }
            }
            for (name, rows) in old { #expect(new[name] == rows, "\(name)") }
            let kept = try Data(contentsOf: URL(fileURLWithPath: folder + "/anabranch.sqlite.migrated"))
            if name == "stopped" { #expect(kept.count == before.count) }
            try expectWholeAndFinish()
        }
    }

    /// Nothing is damaged; the old store goes then.
    private func expectWholeAndFinish() throws {
        let verification = try StoreVerification(directory: folder)
        #expect(try verification.checkDatabase() == [])
        try verification.checkFiles { #expect($0.damages == []) }
        #expect(verification.migratedStore == folder + "/anabranch.sqlite.migrated")
        #expect(try verification.checkMigratedStore() == [])
        verification.removeMigratedStore()
        #expect(verification.migratedStore == nil)
    }

    /// Their numbers are not those of files that were migrated.
    @Test func newFilesCanBeMadeAtOnce() async throws {
        try await migrating("stopped") {
            let store = try SQLiteStore(directory: folder, options: .init(shards: 1))
            for path in ["/new", "/newer"] {
                let ident = try SyncedFile(path: VirtualPath(path), store: store).allocateIdents(for: [nil], at: 1)
                #expect(ident.map(\.ident) == [2])
            }
            try store.close()
            #expect(try StoreReader(directory: folder).files().count == 9)
            try expectWholeAndFinish()
        }
    }

    /// The first format had no states.
    @Test func theFirstFormatIsMigratedToo() async throws {
        try await migrating("stopped") {
            let queue = try DatabaseQueue(path: folder + "/anabranch.sqlite")
            try await queue.write { db in
                try db.execute(
                    sql: """
                        DROP TABLE state_row; DROP TABLE write_key;
                        ALTER TABLE synced_file DROP COLUMN state_version; PRAGMA user_version = 1;
                        """)
            }
            try queue.close()
            let refusal = #expect(throws: HistoryError.self) { try StoreReader(directory: folder) }
            #expect(refusal?.reason == "the store has format 1; a server that opens it brings it to 6")
            let store = try SQLiteStore(directory: folder)
            #expect(try store.file(VirtualPath("demo/\"values\""))?.head.stateVersion == 13)
            try store.close()
            try expectWholeAndFinish()
        }
    }

    /// Each step is one transaction or one change of the directory; what is between two of them is left by a process
    /// that is killed.
    @Test func aMigrationThatIsKilledBetweenAnyTwoStepsGoesOn() async throws {
        var stepCount = 0
        try await migrating("stopped") {
            try SQLiteStore(directory: folder, options: .init(shards: 2)) { _ in stepCount += 1 }.close()
        }
        #expect(stepCount > 20)
        for killedAt in 1...stepCount {
            try await migrating("stopped") {
                var step = 0
                let error = #expect(throws: HistoryError.self) {
                    try SQLiteStore(directory: folder, options: .init(shards: 2)) { _ in
                        step += 1
                        if step == killedAt { throw Killed() }
                    }
                }
                #expect(error?.code == .storeFailed)
                #expect(throws: HistoryError.self) { try StoreReader(directory: folder) }
                // Again, so that what goes on can be killed, too.
                _ = try? SQLiteStore(directory: folder) { _ in throw Killed() }
                try SQLiteStore(directory: folder).close()
                try expectWholeAndFinish()
                #expect(try StoreReader(directory: folder).files().map(\.head.version) == [1, 3, 0, 5, 255, 3, 13])
            }
        }
    }

    /// An older program can write until the migration has taken the database, and never what is lost.
    @Test func whatAnOlderProgramWritesBetweenTwoKillsIsThere() async throws {
        var writeCount = 0, step = 0, isDone = false
        while !isDone {
            step += 1
            try await migrating("stopped") {
                var count = 0
                let store = try? SQLiteStore(directory: folder, options: .init(shards: 1)) { _ in
                    count += 1
                    if count == step { throw Killed() }
                }
                isDone = store != nil
                try store?.close()
                let queue = try DatabaseQueue(path: folder + "/anabranch.sqlite")
                let isOld = try await queue.write { db in
                    // The older program looks at this, too.
                    guard try Int.fetchOne(db, sql: "PRAGMA user_version") == 2 else { return false }
                    try db.execute(
                        sql: """
                            INSERT INTO write_key (number, file, key, version)
                            SELECT 1000, id, x'aa', 1 FROM synced_file WHERE version = 255
                            """)
                    return true
                }
                try queue.close()
                writeCount += isOld ? 1 : 0
                try SQLiteStore(directory: folder).close()
                let keys = try rows(
                    of: "shard-00.sqlite", ["keys": "SELECT hex(key) FROM idempotency_key WHERE number = 1000"])
                #expect(keys["keys"] == (isOld ? ["AA"] : []), "killed in step \(step)")
                try expectWholeAndFinish()
            }
        }
        #expect(writeCount > 1 && writeCount < step)
    }

    /// A backup that is put where the database was, in the middle of its migration, is not mixed with it.
    @Test func anotherDatabaseThanTheOneThatIsBeingMigratedIsRefused() async throws {
        try await migrating("stopped") {
            let files = FileManager.default, database = folder + "/anabranch.sqlite"
            try files.copyItem(atPath: database, toPath: folder + "/backup")
            _ = try? SQLiteStore(directory: folder, options: .init(shards: 1)) {
                if $0.fileCount == 3 { throw Killed() }
            }
            try files.removeItem(atPath: database)
            try files.copyItem(atPath: folder + "/backup", toPath: database)
            for name in ["", ".migrated"] {
                let error = #expect(throws: HistoryError.self) { try SQLiteStore(directory: folder) }
                #expect(error?.code == .storeUnusable)
                #expect(error?.reason.contains("but another one is being migrated") == true)
                #expect(try Data(contentsOf: URL(fileURLWithPath: database)).count > 4096)
                if name.isEmpty { try files.moveItem(atPath: database + ".migrated", toPath: folder + "/aside") }
            }
            // What the words advise.
            try files.moveItem(atPath: folder + "/aside", toPath: database + ".migrated")
            try files.removeItem(atPath: database)
            try SQLiteStore(directory: folder).close()
            try expectWholeAndFinish()
        }
    }

    /// The old database would be left without a name.
    @Test func nothingTakesThePlaceOfTheOnlyCopy() async throws {
        try await migrating("stopped") {
            let database = folder + "/anabranch.sqlite", before = try Data(contentsOf: URL(fileURLWithPath: database))
            for _ in 0..<2 {
                try Data().write(to: URL(fileURLWithPath: database + ".migrated"))
                let error = #expect(throws: HistoryError.self) { try SQLiteStore(directory: folder) }
                #expect(error?.reason.contains("anabranch.sqlite.migrated: File exists") == true)
                #expect(try Data(contentsOf: URL(fileURLWithPath: database)).count == before.count)
            }
            try FileManager.default.removeItem(atPath: database + ".migrated")
            var progress: [StoreMigrationProgress] = []
            try SQLiteStore(directory: folder) { progress.append($0) }.close()
            #expect(progress.last?.isDone == true && progress.dropLast().allSatisfy { !$0.isDone })
            try expectWholeAndFinish()
        }
    }

    /// A client of the old server goes on: what it knows of its file is still so.
    @Test func aClientOfTheOldServerGoesOn() async throws {
        try await migrating("stopped") {
            let store = try SQLiteStore(directory: folder)
            let file = try SyncedFile(path: VirtualPath("demo/\"random\""), store: store)
            let latest = SaltedVersion(version: 255, salt: 1_587_246_150_557_174_868)
            let client = SaltedFileID(ident: 2, salt: 6_459_067_610_863_555_780)
            let cursor = DownloadCursor(serverVersion: 200, clientVersion: 69)
            let progress = try file.identify(
                IdentRequest(file: client, download: cursor, latest: latest), user: "65a1b2c3d4e5f6a7b8c9d0e0")
            #expect(progress.threshold == UploadCursor(clientVersion: 69, serverVersion: 174))
            let upload = Upload(
                progress: UploadCursor(clientVersion: 70, serverVersion: 200),
                changesets: [
                    UploadedChangeset(
                        cursor: UploadCursor(clientVersion: 70, serverVersion: 200), timestamp: 1, changeset: [])
                ])
            try file.enqueue(upload, from: 2)
            #expect(try file.integrate(at: 1_700_000_100).outcomes.allSatisfy { $0.refusal == nil })
            #expect(try file.clientFile(2)?.uploadCursor == UploadCursor(clientVersion: 70, serverVersion: 200))
            try store.close()
            try expectWholeAndFinish()
        }
    }

    /// Damage is neither hidden nor a reason to lose the rest.
    @Test func whatIsDamagedStaysSo() async throws {
        for (sql, place) in [
            ("UPDATE log_entry SET timestamp = timestamp + 1 WHERE version = 100", "log entry 100"),
            ("UPDATE log_entry SET checksum = x'00' WHERE version = 100", "log entry 100"),
            ("DELETE FROM log_entry WHERE version = 255", "log"),
            ("UPDATE client_file SET user = 'eve' WHERE ident = 3", "client file 3"),
            (
                "UPDATE reciprocal SET changeset = x'01' WHERE version = (SELECT MAX(version) FROM reciprocal)",
                "reciprocal changeset of client file"
            ),
        ] {
            try await migrating("stopped") {
                let queue = try DatabaseQueue(path: folder + "/anabranch.sqlite")
                try await queue.write { db in
                    let isOne = "file = (SELECT id FROM synced_file WHERE path = CAST('demo/\"random\"' AS BLOB))"
                    try db.execute(sql: "\(sql) AND \(isOne)")
                    #expect(db.changesCount == 1)
                }
                try queue.close()
                let store = try? SQLiteStore(directory: folder)
                try store?.close()
                var places: [String] = []
                try StoreVerification(directory: folder).checkFiles { file in
                    places += file.damages.map(\.place)
                    #expect(file.damages.isEmpty || file.path == VirtualPath("demo/\"random\""))
                }
                #expect(places.contains { $0.hasPrefix(place) }, "\(sql): \(places)")
            }
        }
    }

    /// What an older program looks at first: its name, the application's mark and a format above its own.
    @Test func olderProgramsFindANewerFormat() async throws {
        try await migrating("stopped") {
            try SQLiteStore(directory: folder).close()
            let queue = try DatabaseQueue(path: folder + "/anabranch.sqlite")
            let marks = try await queue.read { db in
                [try Int.fetchOne(db, sql: "PRAGMA application_id"), try Int.fetchOne(db, sql: "PRAGMA user_version")]
            }
            #expect(marks == [0x416e_6162, 6])
            try queue.close()
            // An older store that is put in its place is not passed over in silence.
            try FileManager.default.removeItem(atPath: folder + "/anabranch.sqlite")
            try FileManager.default.copyItem(
                atPath: folder + "/anabranch.sqlite.migrated", toPath: folder + "/anabranch.sqlite")
            let error = #expect(throws: HistoryError.self) { try SQLiteStore(directory: folder) }
            #expect(error?.reason.contains("is a store of format 2, beside one of format 6") == true)
        }
    }

    /// Today's limit for new partitions is far below what older servers let in.
    @Test func longPartitionsStayBindable() async throws {
        try await migrating("stopped") {
            let path = VirtualPath(Array(repeating: 0x61, count: 60_000))
            let queue = try DatabaseQueue(path: folder + "/anabranch.sqlite")
            try await queue.write { db in
                try db.execute(
                    sql: "UPDATE synced_file SET path = ? WHERE version = 0", arguments: [Data(path.bytes)])
            }
            try queue.close()
            let store = try SQLiteStore(directory: folder)
            #expect(try store.contains(path))
            try store.close()
        }
    }
}
