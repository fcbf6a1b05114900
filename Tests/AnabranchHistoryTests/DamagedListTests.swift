import AnabranchCore
import AnabranchHistory
import Foundation
import GRDB
import Testing

@testable import AnabranchSQLite

/// Damage to the list of the files (`Spec/Durability.md`, sections 4 and 5).
@Suite struct DamagedListTests {
    private let directory: TemporaryDirectory
    private let shard: String

    /// A store with the files /aa and /ab.
    init() throws {
        directory = try TemporaryDirectory()
        shard = directory.path + "/shard-00.sqlite"
        let store = try SQLiteStore(oneShardIn: directory.path)
        for path in ["/aa", "/ab"] { _ = try SyncedFile.open(path, in: store).allocateIdent() }
        try store.close()
    }

    /// The record of the first file has a wrong checksum, or cannot be read.
    @Test(arguments: ["cumulative_size = cumulative_size + 1", "version_salt = 'x'"])
    func aDamagedRecordKeepsNoOtherFileFromBeingListed(_ change: String) throws {
        let queue = try DatabaseQueue(path: shard)
        try queue.write { try $0.execute(sql: "UPDATE synced_file SET \(change) WHERE path = CAST('/aa' AS BLOB)") }
        try queue.close()
        let paths = [VirtualPath("/aa"), VirtualPath("/ab")]
        let reader = try StoreReader(directory: directory.path)
        #expect(try reader.files().map(\.path) == paths)
        #expect(throws: HistoryError(.storeDamaged, "")) { try reader.file(paths[0]) }
        #expect(try reader.file(paths[1]) != nil)
        reader.directory.release()
        let store = try SQLiteStore(oneShardIn: directory.path)
        #expect(try store.files(after: nil, countMax: 1).map(\.path) == [paths[0]])
        #expect(try store.files(after: nil, countMax: 9).map(\.path) == paths)
        #expect(throws: HistoryError(.storeDamaged, "")) { try store.open(paths[0]) }
        _ = try store.open(paths[1])
    }

    /// What is read after the last name would be the same again, for ever.
    @Test func anIndexOfNamesThatIsOutOfOrderEndsTheList() throws {
        let queue = try DatabaseQueue(path: shard)
        let sql = "SELECT rootpage FROM sqlite_master WHERE name = 'sqlite_autoindex_synced_file_1'"
        let page = try #require(try queue.read { try Int.fetchOne($0, sql: sql) })
        try queue.close()
        var bytes = try Data(contentsOf: URL(fileURLWithPath: shard))
        let index = (page - 1) * 4096..<page * 4096
        let name = try #require(bytes.range(of: Data("/ab".utf8), in: index))
        bytes[name.upperBound - 1] = 0x22
        try bytes.write(to: URL(fileURLWithPath: shard))
        let reader = try StoreReader(directory: directory.path)
        #expect(try !StoreVerification(reader).checkDatabase().isEmpty)
        var listing = try FileListing(reader.databases)
        #expect(try listing.next()?.path == VirtualPath("/aa"))
        #expect(throws: HistoryError(.storeDamaged, "")) { try listing.next() }
    }
}
