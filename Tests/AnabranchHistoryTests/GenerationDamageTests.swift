import AnabranchCore
import AnabranchTesting
import Foundation
import GRDB
import Testing

@testable import AnabranchHistory
@testable import AnabranchSQLite

/// Damage to bootstrap generations is found and repaired, and a deleted file leaves nothing of them
/// (`Spec/BoundedHistory.md`, section 2).
@Suite struct GenerationDamageTests {
    @Test(arguments: [
        "UPDATE generation_segment SET block = substr(block, 1, 40) || x'ff' || substr(block, 42) WHERE last = 2",
        "UPDATE generation_segment SET block = x'00' WHERE last = 2",
        "UPDATE generation_segment SET block = 'x' WHERE last = 2", "DELETE FROM generation_segment WHERE last = 2",
        "DELETE FROM generation_segment WHERE last = (SELECT MAX(last) FROM generation_segment)",
        """
        UPDATE generation_segment SET block = (SELECT block FROM generation_segment WHERE last = 1) WHERE last = 2
        """,
        "UPDATE generation SET entry_count = entry_count + 1", "UPDATE generation SET bytes = bytes - 1",
        "UPDATE generation SET cumulative_size = cumulative_size + 1", "UPDATE generation SET checksum = x'00'",
        "UPDATE generation SET bytes = 'x'", "DELETE FROM generation",
    ])
    func damageIsFoundAndTheGenerationMadeAnew(sql: String) throws {
        let fixture = try GenerationFixture(.sqlite), file = fixture.file, directory = fixture.test.path
        let generation = try fixture.trimmed(), state = try fixture.state()
        var inside = MemoryClient(try file.allocateIdent())
        let source = file.downloads(for: inside.ident)
        try inside.integrate(try source.download(after: inside.download, byteBudget: 0))
        let store = try #require(fixture.test.store as? SQLiteStore)
        try store.close()
        #expect(try StoppedStore.damages(in: directory) == [])
        try StoppedStore.change(directory, sql)
        let found = try StoppedStore.damages(in: directory)
        #expect(!found.isEmpty && found.allSatisfy { $0.kind == .generation }, "\(found)")

        let repair = try StoreRepair(directory: directory)
        var repaired: [RepairedFile] = []
        try repair.run { repaired.append($0) }
        try repair.close()
        #expect(repaired.map(\.repaired) == [.generations] && repaired.allSatisfy { $0.damages.isEmpty })
        try fixture.test.restart(isClosed: true)
        let mended = try SyncedFile.open(in: fixture.test.store, keepsState: true)
        #expect(try mended.clientFile(inside.ident)?.isExpired == true)
        #expect(try mended.clientFile(fixture.writer.ident)?.isExpired == false)
        #expect(try mended.generations().map(\.version) == [generation.version])
        var fresh = MemoryClient(try mended.allocateIdent())
        try fresh.download(from: mended)
        #expect(try StateDigest(of: fresh.state) == state)
    }

    @Test func aDeletedFileLeavesNothingOfThem() throws {
        let fixture = try GenerationFixture(.sqlite), file = fixture.file
        _ = try fixture.trimmed()
        try file.commit(file.deletion())
        try fixture.test.store.maintain(at: 1)
        let store = try #require(fixture.test.store as? SQLiteStore)
        let counts = try store.shards[0].pool.read { db in
            try ["generation", "generation_segment"].map { try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM \($0)") }
        }
        #expect(counts == [0, 0])
    }
}
