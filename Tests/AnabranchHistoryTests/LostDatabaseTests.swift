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

        /// The reason why the directory is refused; nil if it is not.
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
            ("{", "manifest.json is damaged"), (manifest.replacing(": 7", with: ": 99"), "has format 99"),
            // All else can be different there.
            ("{\"format\": 8, \"stage\": \"trimming\"}", "has format 8; this program reads format 7: export it with"),
            (manifest.replacing("siphash", with: "md5"), "manifest.json is damaged"),
            (manifest.replacing("\"shards\" : 3", with: "\"shards\" : 65"), "manifest.json is damaged"),
            (manifest.replacing("ready", with: "restoring"), "`anabranch restore` was interrupted here"),
            (manifest.replacing("ready", with: "trimming"), "manifest.json is damaged"),
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
        try fixture.remove("shard-01.sqlite")
        try fixture.put("shard-01.sqlite.new", "half")
        #expect(fixture.refusal() == nil)
        #expect(String(decoding: try fixture.content("manifest.json"), as: UTF8.self) == manifest)
    }

    // MARK: Other formats

    /// Nobody reads what is in it, and above all nobody repairs it.
    @Test(arguments: ["manifest.json", "shard-01.sqlite", "anabranch.sqlite"], [1, 6, 8])
    func aStoreOfAnotherFormatIsRefusedAndStaysAsItIs(_ name: String, _ format: Int) throws {
        let fixture = try Fixture(), path = fixture.directory.path
        switch name {
        case "manifest.json":
            let manifest = String(decoding: try fixture.content(name), as: UTF8.self)
            try fixture.put(name, manifest.replacing(": 7", with: ": \(format)"))
        case "anabranch.sqlite":
            // All of a store, before there were manifests.
            try fixture.clear()
            try SQLiteFixture.makeDatabase(at: path + "/" + name, applicationID: 0x416e_6162, version: format)
        default:
            let queue = try DatabaseQueue(path: path + "/" + name)
            try queue.write { try $0.execute(sql: "PRAGMA user_version = \(format)") }
            try queue.close()
        }
        // A shard is opened for writing before it is read, which changes its first page.
        let unopened = name == "shard-01.sqlite" ? "manifest.json" : name, content = try fixture.content(unopened)
        let openings: [() throws -> Void] = [
            { _ = try SQLiteStore(directory: path) }, { _ = try StoreReader(directory: path) },
            { _ = try StoreVerification(directory: path) }, { _ = try StoreRepair(directory: path) },
            { _ = try StoreRestoration(directory: path) },
            { _ = try StoreBackup(of: path, to: path + "-copy") },
        ]
        for open in openings.dropLast(name == "shard-01.sqlite" ? 1 : 0) {
            let error = #expect(throws: HistoryError.self) { try open() }
            #expect(error?.code == .storeUnusable)
            let found = name == "anabranch.sqlite" ? "1 to 5" : "\(format)"
            #expect(error?.reason.contains("has format \(found); this program reads format 7") == true)
            #expect(try fixture.content(unopened) == content)
        }
    }

    @Test func somebodyElsesFileIsRefusedInWords() throws {
        let fixture = try Fixture()
        try fixture.put("shard-00.sqlite", String(repeating: "to be or not to be ", count: 1000))
        #expect(fixture.refusal()?.hasPrefix("shard-00.sqlite is damaged or no database: restore a backup") == true)
    }

    @Test func aStoreThatWasNeverUsedIsNew() throws {
        let fixture = try Fixture()
        try fixture.clear()
        // Keys can be made before the first start.
        try fixture.put("keys.json")
        let error = #expect(throws: HistoryError.self) { try StoreVerification(directory: fixture.directory.path) }
        #expect(error?.reason.hasSuffix("there is no store in it") == true)
        #expect(fixture.refusal() == nil)
    }
}
