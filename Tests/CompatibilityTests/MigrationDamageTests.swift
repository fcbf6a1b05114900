import AnabranchCore
import AnabranchHistory
import AnabranchTesting
import Foundation
import GRDB
import Testing

@testable import AnabranchSQLite

/// An old store that is damaged: what is whole becomes a store of the new format, what is not is known to be damaged
/// there, and the old one is kept (`Spec/Durability.md`, section 3).
@Suite struct MigrationDamageTests {
    private static let paths = [
        VirtualPath("demo/\"values\""), VirtualPath("demo/\"lists\""), VirtualPath("demo/\"random\""),
        VirtualPath("demo/\"relay\""), VirtualPath("demo/\"caught-up\""), VirtualPath("demo/\"few\""),
        VirtualPath([0x64, 0x2f, 0xff, 0x00, 0x25, 0x20, 0xc3, 0xbc]),
    ]

    /// A folder with a store of format 2.
    private final class Folder {
        let path = TestFolder.parent + "/anabranch-migration-\(UUID().uuidString)"
        var database: URL { URL(fileURLWithPath: path + "/anabranch.sqlite") }

        init() async throws { try await Fixture.unpack("store-format-2/stopped", to: path) }

        init(with database: Data) throws {
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
            try database.write(to: self.database)
        }

        deinit { try? FileManager.default.removeItem(atPath: path) }

        func change(_ sql: String) throws {
            let queue = try DatabaseQueue(path: database.path)
            try queue.write { db in
                try db.execute(sql: sql)
                #expect(db.changesCount >= 1, "\(sql)")
            }
            try queue.close()
        }

        func migrate(_ report: (StoreMigrationProgress) throws -> Void = { _ in }) throws {
            try SQLiteStore(directory: path, options: .init(shards: 1), migrating: report).close()
        }

        /// What is wrong with each file that is there, and why the old store is kept.
        func findings() throws -> (files: [VirtualPath: [StoreDamage]], reasons: [StoreDamage]) {
            let verification = try StoreVerification(directory: path)
            var files: [VirtualPath: [StoreDamage]] = [:]
            try verification.checkFiles { files[$0.path] = $0.damages }
            return (files, try verification.checkMigratedStore())
        }
    }

    @Test func aPageThatCannotBeReadIsTheTroubleOfFewFiles() async throws {
        let whole = try await Folder(), original = try Data(contentsOf: whole.database)
        let pageBytes = 4096
        var migratedCount = 0, refusedCount = 0, othersAreWhole = 0
        for page in 1..<(original.count / pageBytes) {
            var bytes = original
            for place in page * pageBytes..<(page + 1) * pageBytes { bytes[place] = 0xff }
            let folder = try Folder(with: bytes)
            do {
                try folder.migrate()
            } catch let error as HistoryError {
                // The names of the files can be nowhere else, and nobody shall take them for new ones.
                #expect(error.code == .storeDamaged, "page \(page + 1): \(error)")
                refusedCount += 1
                continue
            }
            migratedCount += 1
            let (files, reasons) = try folder.findings()
            for path in Self.paths {
                let reader = try StoreReader(directory: folder.path)
                let found = Result { try reader.file(path) }
                if case .success(nil) = found { Issue.record("page \(page + 1): \(path) is lost") }
            }
            if files.values.contains(where: { $0.isEmpty }) { othersAreWhole += 1 }
            #expect(!reasons.isEmpty, "page \(page + 1)")
        }
        #expect(migratedCount > 50 && refusedCount < 5, "\(migratedCount), \(refusedCount)")
        // Some tables have one page for all files.
        #expect(othersAreWhole > migratedCount - 10, "\(othersAreWhole) of \(migratedCount)")
    }

    @Test(
        arguments: [
            "UPDATE log_entry SET checksum = x'00' WHERE version = 255; "
                + "UPDATE synced_file SET chain = x'00' WHERE version = 255",
            "UPDATE log_entry SET changeset = 5 WHERE version = 100",
            "UPDATE log_entry SET checksum = 5 WHERE version = 100",
            "UPDATE client_file SET last_seen = 'x' WHERE file = (SELECT id FROM synced_file WHERE version = 255)",
            "UPDATE reciprocal SET changeset = 5 WHERE version = (SELECT MAX(version) FROM reciprocal)",
            "UPDATE synced_file SET chain = 5 WHERE version = 255",
            "UPDATE synced_file SET next_ident = 'many' WHERE version = 255",
            "UPDATE synced_file SET cumulative_size = -28 WHERE version = 255",
            "UPDATE synced_file SET cumulative_size = 9223372036854775807 WHERE version > 12",
            "UPDATE synced_file SET version = -1 WHERE version = 255",
            "UPDATE synced_file SET base_version = -1 WHERE version = 255",
            "UPDATE synced_file SET next_ident = -1 WHERE version = 255",
        ])
    func aColumnThatCannotBeReadIsTheTroubleOfItsFile(_ sql: String) async throws {
        let folder = try await Folder()
        try folder.change(sql)
        var newest: StoreMigrationProgress?
        try folder.migrate { newest = $0 }
        #expect(newest?.fileCount == 7)
        let files = try folder.findings().files
        #expect(files.count == 7)
        let damaged = files.filter { !$0.value.isEmpty }.keys
        #expect(damaged.contains(VirtualPath("demo/\"random\"")), "\(sql)")
        #expect(damaged.allSatisfy { Self.paths[0] == $0 || Self.paths[2] == $0 }, "\(sql): \(damaged)")
        let store = try SQLiteStore(directory: folder.path)
        // A reciprocal changeset is looked at when it is needed.
        if !sql.hasPrefix("UPDATE reciprocal") {
            #expect(throws: HistoryError(.storeDamaged, "")) { try SyncedFile(path: Self.paths[2], store: store) }
        }
        _ = try SyncedFile(path: Self.paths[1], store: store)
    }

    /// What the log determines is made from it, and a key that is lost is no reason to distrust the rest.
    @Test(arguments: ["touch", "write_key"]) func derivedDataThatCannotBeReadDoNoHarm(_ table: String) async throws {
        let folder = try await Folder()
        let queue = try DatabaseQueue(path: folder.database.path)
        let sql = "SELECT rootpage FROM sqlite_master WHERE name = '\(table)'"
        let page = try #require(try await queue.read { try Int.fetchOne($0, sql: sql) })
        try queue.close()
        var bytes = try Data(contentsOf: folder.database)
        for place in (page - 1) * 4096..<page * 4096 { bytes[place] = 0xff }
        try bytes.write(to: folder.database)
        try folder.migrate()
        let (files, reasons) = try folder.findings()
        #expect(files.count == 7 && files.values.allSatisfy { $0.isEmpty }, "\(files)")
        #expect(!reasons.isEmpty)
    }

    /// Which entry a client has uploaded last is read from the entries themselves.
    @Test func aDamagedIndexOfReceiptsIsNotBelieved() async throws {
        let folder = try await Folder()
        let columns = ["client_version", "timestamp"].map { "ON log_entry (file, origin, version, \($0))" }
        for (from, to) in [(columns[0], columns[1]), (columns[1], columns[0])] {
            let queue = try DatabaseQueue(path: folder.database.path)
            try await queue.writeWithoutTransaction { db in
                try db.execute(sql: "PRAGMA writable_schema = ON")
                try db.execute(
                    sql: "UPDATE sqlite_master SET sql = replace(sql, ?, ?) WHERE name = 'receipt'",
                    arguments: [from, to])
                #expect(db.changesCount == 1)
            }
            try queue.close()
            guard to == columns[1] else { continue }
            let again = try DatabaseQueue(path: folder.database.path)
            try await again.writeWithoutTransaction { try $0.execute(sql: "REINDEX receipt") }
            try again.close()
        }
        try folder.migrate()
        let (files, reasons) = try folder.findings()
        #expect(files.count == 7 && files.values.allSatisfy { $0.isEmpty }, "\(files)")
        #expect(!reasons.isEmpty)
    }

    // MARK: What is compared before the old store is removed

    @Test func anOldStoreThatHasMoreThanTheNewOneIsKept() async throws {
        for (sql, reason) in [
            ("UPDATE synced_file SET version = version + 1 WHERE version = 255", "the copy has less"),
            ("UPDATE synced_file SET next_ident = next_ident + 1 WHERE version = 255", "the copy has less"),
            ("UPDATE synced_file SET path = x'61' WHERE version = 255", "was not copied as a whole"),
            ("DELETE FROM synced_file WHERE version = 255", "the record of file "),
        ] {
            let folder = try await Folder()
            try folder.migrate()
            #expect(try folder.findings().reasons == [])
            let queue = try DatabaseQueue(path: folder.path + "/anabranch.sqlite.migrated")
            try await queue.write { try $0.execute(sql: sql) }
            try queue.close()
            let (files, reasons) = try folder.findings()
            #expect(files.values.allSatisfy { $0.isEmpty })
            #expect(reasons.count == 1 && reasons[0].finding.contains(reason), "\(sql): \(reasons)")
        }
        let folder = try await Folder()
        try folder.migrate()
        try Data("no database at all".utf8).write(to: URL(fileURLWithPath: folder.path + "/anabranch.sqlite.migrated"))
        #expect(try folder.findings().reasons.map(\.kind) == [.database])
    }

    @Test func rowsOfAFileWithoutRecordAreNotForgotten() async throws {
        let folder = try await Folder()
        try folder.change("DELETE FROM synced_file WHERE version = 255")
        try folder.migrate()
        let (files, reasons) = try folder.findings()
        #expect(files.count == 6 && files.values.allSatisfy { $0.isEmpty })
        #expect(reasons.count == 1 && reasons[0].finding.hasPrefix("the record of file "))
    }
}
