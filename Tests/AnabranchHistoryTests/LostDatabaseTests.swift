import AnabranchHistory
import AnabranchSQLite
import Foundation
import Testing

/// A database that has lost its contents is not taken for a new one (`Spec/Durability.md`, section 4).
@Suite struct LostDatabaseTests {
    /// A directory in which a server has run.
    private struct Fixture {
        let directory: TemporaryDirectory
        var database: String { directory.path + "/anabranch.sqlite" }

        init() throws {
            directory = try TemporaryDirectory()
            let store = try SQLiteStore(directory: directory.path)
            _ = try SyncedFile.open(in: store)
            try store.close()
            try remove("anabranch.sqlite-wal")
            try remove("anabranch.sqlite-shm")
        }

        func remove(_ name: String) throws {
            let path = directory.path + "/" + name
            if FileManager.default.fileExists(atPath: path) { try FileManager.default.removeItem(atPath: path) }
        }

        func put(_ name: String, _ content: String = "x") throws {
            try Data(content.utf8).write(to: URL(fileURLWithPath: directory.path + "/" + name))
        }

        /// Why the directory is refused; nil if it is not.
        func refusal() -> String? {
            do {
                try SQLiteStore(directory: directory.path).close()
                return nil
            } catch {
                return error.reason
            }
        }
    }

    @Test(arguments: ["accounts.sqlite", "keys.json", "admin-token", "anabranch.sqlite-wal"])
    func anEmptyDatabaseBesideFilesOfAnEarlierLifeIsRefused(_ name: String) throws {
        let fixture = try Fixture()
        try fixture.put(name)
        try fixture.put("anabranch.sqlite", "")
        for _ in 0..<2 {
            let refusal = try #require(fixture.refusal())
            #expect(refusal.contains("anabranch.sqlite is empty (0 bytes), but \(name) beside it"))
            #expect(refusal.contains("restore a backup"))
        }
        // What the words advise.
        for name in ["anabranch.sqlite", "anabranch.sqlite-wal"] { try fixture.remove(name) }
        #expect(fixture.refusal() == nil)
    }

    @Test func aDatabaseWithoutTablesIsRefusedLikeAnEmptyOne() throws {
        let fixture = try Fixture()
        try fixture.put("keys.json")
        try fixture.remove("anabranch.sqlite")
        // As `sqlite3 anabranch.sqlite VACUUM` makes it: a page and nothing in it.
        let other = try TemporaryDirectory()
        try SQLiteFixture.makeEmptyDatabase(at: other.path + "/empty")
        try FileManager.default.copyItem(atPath: other.path + "/empty", toPath: fixture.database)
        #expect(fixture.refusal()?.contains("anabranch.sqlite has no tables, but keys.json beside it") == true)
    }

    @Test func aDatabaseThatIsGoneWithoutItsLogIsRefused() throws {
        let fixture = try Fixture()
        try fixture.put("anabranch.sqlite-wal")
        try fixture.remove("anabranch.sqlite")
        #expect(fixture.refusal()?.contains("anabranch.sqlite is missing, but anabranch.sqlite-wal beside") == true)
    }

    @Test func somebodyElsesFileIsRefusedInWords() throws {
        let fixture = try Fixture()
        try fixture.put("anabranch.sqlite", String(repeating: "to be or not to be ", count: 1000))
        let refusal = try #require(fixture.refusal())
        #expect(refusal.hasPrefix("anabranch.sqlite is damaged or no database: restore a backup"))
        try fixture.remove("anabranch.sqlite")
        try SQLiteFixture.makeEmptyDatabase(at: fixture.database, applicationID: 5)
        #expect(fixture.refusal()?.hasPrefix("anabranch.sqlite is not a store of Anabranch: restore") == true)
    }

    @Test func aStoreThatWasNeverUsedIsNew() throws {
        let fixture = try Fixture()
        try fixture.remove("anabranch.sqlite")
        // Keys can be made before the first start.
        try fixture.put("keys.json")
        #expect(fixture.refusal() == nil)
        let empty = try TemporaryDirectory()
        try Data().write(to: URL(fileURLWithPath: empty.path + "/anabranch.sqlite"))
        #expect(throws: Never.self) { try SQLiteStore(directory: empty.path) }
    }

    @Test func readersDoNotTakeAnEmptyDatabaseForAnOldOne() throws {
        let fixture = try Fixture()
        try fixture.put("anabranch.sqlite", "")
        let error = #expect(throws: HistoryError.self) { try StoreVerification(directory: fixture.directory.path) }
        #expect(error?.reason.hasPrefix("the store has no tables") == true)
    }
}
