import AnabranchHistory
import AnabranchSQLite
import Foundation
import GRDB
import Testing

/// A store that has lost files is not taken for a new one (`Spec/Durability.md`, section 4).
@Suite struct LostDatabaseTests {
    /// A directory in which a server has run.
    private struct Fixture {
        let directory: TemporaryDirectory

        init() throws {
            directory = try TemporaryDirectory()
            let store = try SQLiteStore(directory: directory.path, options: .init(shards: 3))
            _ = try SyncedFile.open(in: store).allocateIdent()
            try store.close()
        }

        func remove(_ names: String...) throws {
            for name in names { try FileManager.default.removeItem(atPath: directory.path + "/" + name) }
        }

        /// Leaves nothing in the directory.
        func clear() throws {
            for name in try FileManager.default.contentsOfDirectory(atPath: directory.path) { try remove(name) }
        }

        func put(_ name: String, _ content: String = "x") throws {
            try Data(content.utf8).write(to: URL(fileURLWithPath: directory.path + "/" + name))
        }

        func content(_ name: String) throws -> Data {
            try Data(contentsOf: URL(fileURLWithPath: directory.path + "/" + name))
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

    @Test func aShardThatIsMissingOrEmptyIsRefused() throws {
        let fixture = try Fixture()
        try fixture.put("shard-01.sqlite", "")
        #expect(fixture.refusal()?.contains("shard-01.sqlite is empty (0 bytes): restore a backup") == true)
        try fixture.remove("shard-01.sqlite")
        #expect(fixture.refusal()?.contains("shard-01.sqlite is missing: restore a backup") == true)
    }

    @Test func aShardOfAnotherStoreOrPlaceIsRefused() throws {
        let fixture = try Fixture(), other = try Fixture()
        let own = try fixture.content("shard-01.sqlite")
        for foreign in [try other.content("shard-01.sqlite"), try fixture.content("shard-02.sqlite")] {
            try foreign.write(to: URL(fileURLWithPath: fixture.directory.path + "/shard-01.sqlite"))
            #expect(fixture.refusal()?.hasPrefix("shard-01.sqlite belongs to another store, or is another") == true)
        }
        try own.write(to: URL(fileURLWithPath: fixture.directory.path + "/shard-01.sqlite"))
        #expect(fixture.refusal() == nil)
    }

    @Test func aManifestThatIsMissingOrDamagedIsRefused() throws {
        let fixture = try Fixture()
        let manifest = String(decoding: try fixture.content("manifest.json"), as: UTF8.self)
        for (text, words) in [
            ("{", "manifest.json is damaged"), (manifest.replacing(": 6", with: ": 99"), "has format 99"),
            // All else can be different there.
            ("{\"format\": 7, \"stage\": \"trimming\"}", "has format 7; this program reads up to 6"),
            (manifest.replacing("siphash", with: "md5"), "manifest.json is damaged"),
            (manifest.replacing("\"shards\" : 3", with: "\"shards\" : 65"), "manifest.json is damaged"),
            (manifest.replacing("ready", with: "restoring"), "`anabranch restore` was interrupted here"),
            (manifest.replacing("ready", with: "migrating-backup"), "`anabranch restore` was interrupted here"),
        ] {
            try fixture.put("manifest.json", text)
            #expect(fixture.refusal()?.contains(words) == true, "\(text): \(fixture.refusal() ?? "")")
        }
        try fixture.remove("manifest.json")
        #expect(fixture.refusal()?.contains("manifest.json is missing, but shard-00.sqlite, ") == true)
        #expect(fixture.refusal()?.contains("copy manifest.json from any backup of this store") == true)
        // It is there, but not for this process.
        try FileManager.default.createDirectory(
            atPath: fixture.directory.path + "/manifest.json", withIntermediateDirectories: false)
        #expect(fixture.refusal()?.hasSuffix(": manifest.json cannot be read: Is a directory") == true)
        try fixture.remove("manifest.json")
        try fixture.put("manifest.json", manifest)
        #expect(fixture.refusal() == nil)
    }

    /// As far as a process can come that is killed while it makes a store.
    @Test func aStoreThatWasMadeInPartIsFinished() throws {
        let fixture = try Fixture()
        let manifest = String(decoding: try fixture.content("manifest.json"), as: UTF8.self)
        let making = manifest.replacing("ready", with: "making")
        try fixture.put("manifest.json", making)
        try fixture.remove("shard-01.sqlite", "anabranch.sqlite")
        try fixture.put("shard-01.sqlite.new", "half")
        #expect(fixture.refusal() == nil)
        #expect(String(decoding: try fixture.content("manifest.json"), as: UTF8.self) == manifest)
        #expect(try fixture.content("anabranch.sqlite").count > 0)
    }

    /// Another store that was put there in the meantime is not overwritten.
    @Test(arguments: ["making", "ready"]) func whatStandsInTheMarkersPlaceIsNotOverwritten(_ stage: String) throws {
        let fixture = try Fixture()
        let manifest = String(decoding: try fixture.content("manifest.json"), as: UTF8.self)
        try fixture.put("manifest.json", manifest.replacing("ready", with: stage))
        let path = fixture.directory.path + "/anabranch.sqlite"
        try SQLiteFixture.makeDatabase(at: path, applicationID: 0x416e_6162, version: 2)
        let old = try fixture.content("anabranch.sqlite")
        #expect(fixture.refusal()?.contains("anabranch.sqlite is a store of format 2, beside one of format 6") == true)
        try fixture.put("anabranch.sqlite", String(repeating: "to be or not to be ", count: 1000))
        #expect(fixture.refusal()?.contains("anabranch.sqlite is not the marker of this store") == true)
        for isEmpty in [true, false] {
            if isEmpty { try fixture.put("anabranch.sqlite", "") } else { try fixture.remove("anabranch.sqlite") }
            try fixture.put("anabranch.sqlite-wal")
            #expect(fixture.refusal()?.contains("anabranch.sqlite-wal is of another store") == true)
            #expect(try fixture.content("anabranch.sqlite-wal").count == 1)
        }
        try fixture.remove("anabranch.sqlite-wal")
        #expect(fixture.refusal() == nil)
        #expect(try fixture.content("anabranch.sqlite") != old)
    }

    // MARK: Format 3

    /// Its tables are not those of any release: nobody reads it, and above all nobody repairs it.
    @Test(arguments: [["manifest.json"], ["shard-01.sqlite"], ["anabranch.sqlite"], StoreParts.all])
    func aStoreOfADevelopmentVersionIsRefusedAndStaysAsItIs(_ parts: [String]) throws {
        let fixture = try Fixture()
        for name in parts {
            if name == "manifest.json" {
                let manifest = String(decoding: try fixture.content(name), as: UTF8.self)
                try fixture.put(name, manifest.replacing(": 6", with: ": 3"))
            } else {
                let queue = try DatabaseQueue(path: fixture.directory.path + "/" + name)
                try queue.write { try $0.execute(sql: "PRAGMA user_version = 3") }
                try queue.close()
            }
        }
        let names = parts == ["anabranch.sqlite"] ? parts : StoreParts.all
        for name in StoreParts.all where !names.contains(name) { try fixture.remove(name) }
        // A shard is opened for writing before it is read, which changes its first page.
        let unopened = parts == ["shard-01.sqlite"] ? ["manifest.json", "anabranch.sqlite"] : names
        let contents = try unopened.map { try fixture.content($0) }
        let path = fixture.directory.path
        let openings: [() throws -> Void] = [
            { _ = try SQLiteStore(directory: path) }, { _ = try StoreReader(directory: path) },
            { _ = try StoreVerification(directory: path) }, { _ = try StoreRepair(directory: path) },
            { _ = try StoreRestoration(directory: path) },
        ]
        for open in openings {
            let error = #expect(throws: HistoryError.self) { try open() }
            #expect(error?.code == .storeUnusable)
            #expect(error?.reason.contains("has format 3, which development versions wrote") == true)
            #expect(try unopened.map { try fixture.content($0) } == contents)
        }
    }

    private enum StoreParts {
        static let all = ["manifest.json", "anabranch.sqlite", "shard-00.sqlite", "shard-01.sqlite", "shard-02.sqlite"]
    }

    // MARK: The marker

    /// It holds nothing that could be lost.
    @Test func aMarkerThatIsDamagedIsMadeAnew() throws {
        let fixture = try Fixture()
        let whole = try fixture.content("anabranch.sqlite")
        #expect(whole.count == 4096)
        for place in 0..<112 {
            var damaged = whole
            damaged[place] ^= 0x40
            try damaged.write(to: URL(fileURLWithPath: fixture.directory.path + "/anabranch.sqlite"))
            #expect(fixture.refusal() == nil, "byte \(place)")
            let marker = try fixture.content("anabranch.sqlite")
            #expect(marker[60..<64] == whole[60..<64] && marker[68..<72] == whole[68..<72], "byte \(place)")
        }
        for content in ["", "x"] {
            try fixture.put("anabranch.sqlite", content)
            #expect(fixture.refusal() == nil)
            #expect(try fixture.content("anabranch.sqlite").count == 4096)
        }
    }

    // MARK: Stores of one database

    @Test(arguments: ["accounts.sqlite", "keys.json", "admin-token", "anabranch.sqlite-wal"])
    func anEmptyDatabaseBesideFilesOfAnEarlierLifeIsRefused(_ name: String) throws {
        let fixture = try Fixture()
        try fixture.clear()
        try fixture.put(name)
        try fixture.put("anabranch.sqlite", "")
        for _ in 0..<2 {
            let refusal = try #require(fixture.refusal())
            #expect(refusal.contains("anabranch.sqlite is empty (0 bytes), but \(name) beside it"))
            #expect(refusal.contains("restore a backup"))
        }
        // What the words advise.
        try fixture.remove("anabranch.sqlite")
        if name.hasPrefix("anabranch") { try fixture.remove(name) }
        #expect(fixture.refusal() == nil)
    }

    @Test func aDatabaseWithoutTablesIsRefusedLikeAnEmptyOne() throws {
        let fixture = try Fixture()
        try fixture.clear()
        try fixture.put("keys.json")
        // As `sqlite3 anabranch.sqlite VACUUM` makes it: a page and nothing in it.
        try SQLiteFixture.makeEmptyDatabase(at: fixture.directory.path + "/anabranch.sqlite")
        #expect(fixture.refusal()?.contains("anabranch.sqlite has no tables, but keys.json beside it") == true)
    }

    @Test func anOldStoreThatWasMigratedIsNotForgotten() throws {
        let fixture = try Fixture()
        try fixture.clear()
        try fixture.put("anabranch.sqlite.migrated")
        #expect(fixture.refusal()?.contains("anabranch.sqlite is missing, but anabranch.sqlite.migrated bes") == true)
        let error = #expect(throws: HistoryError.self) { try StoreReader(directory: fixture.directory.path) }
        #expect(error?.reason.contains("rename it to anabranch.sqlite") == true)
        try fixture.put("anabranch.sqlite", "")
        #expect(fixture.refusal()?.contains("anabranch.sqlite is empty (0 bytes), but anabranch.sqlite.mig") == true)
        try fixture.remove("anabranch.sqlite")
        try SQLiteFixture.makeEmptyDatabase(at: fixture.directory.path + "/anabranch.sqlite")
        #expect(fixture.refusal()?.contains("anabranch.sqlite has no tables, but anabranch.sqlite.migrated") == true)
    }

    @Test func aDatabaseThatIsGoneWithoutItsLogIsRefused() throws {
        let fixture = try Fixture()
        try fixture.clear()
        try fixture.put("anabranch.sqlite-wal")
        #expect(fixture.refusal()?.contains("anabranch.sqlite is missing, but anabranch.sqlite-wal beside") == true)
    }

    @Test func somebodyElsesFileIsRefusedInWords() throws {
        let fixture = try Fixture()
        try fixture.put("shard-00.sqlite", String(repeating: "to be or not to be ", count: 1000))
        #expect(fixture.refusal()?.hasPrefix("shard-00.sqlite is damaged or no database: restore a backup") == true)
        try fixture.clear()
        try fixture.put("anabranch.sqlite", String(repeating: "to be or not to be ", count: 1000))
        #expect(fixture.refusal()?.hasPrefix("anabranch.sqlite is damaged or no database: restore a backup") == true)
        try fixture.remove("anabranch.sqlite")
        try SQLiteFixture.makeEmptyDatabase(at: fixture.directory.path + "/anabranch.sqlite", applicationID: 5)
        #expect(fixture.refusal()?.hasPrefix("anabranch.sqlite is not a store of Anabranch: restore") == true)
    }

    @Test func aStoreThatWasNeverUsedIsNew() throws {
        let fixture = try Fixture()
        try fixture.clear()
        // Keys can be made before the first start.
        try fixture.put("keys.json")
        #expect(fixture.refusal() == nil)
        let empty = try TemporaryDirectory()
        try Data().write(to: URL(fileURLWithPath: empty.path + "/anabranch.sqlite"))
        #expect(throws: Never.self) { try SQLiteStore(directory: empty.path) }
    }

    @Test func readersDoNotTakeAnEmptyDatabaseForAnOldOne() throws {
        let fixture = try Fixture()
        try fixture.clear()
        try fixture.put("anabranch.sqlite", "")
        let error = #expect(throws: HistoryError.self) { try StoreVerification(directory: fixture.directory.path) }
        #expect(error?.reason.hasPrefix("the store has no tables") == true)
    }
}
