import AnabranchCore
import AnabranchHistory
import Foundation
import GRDB
import Testing

@testable import AnabranchSQLite

/// The count that all shards keep in step: it makes leases grow, and tells a shard that is of an earlier time than the
/// others (`Spec/Durability.md`, section 3).
@Suite struct EpochTests {
    private let directory: TemporaryDirectory
    private let store: SQLiteStore

    init() throws {
        directory = try TemporaryDirectory()
        store = try SQLiteStore(directory: directory.path, options: .init(shards: 4))
    }

    private func url(ofShard number: Int) -> URL { URL(fileURLWithPath: "\(directory.path)/shard-0\(number).sqlite") }

    /// The count has no checksum.
    @Test(arguments: [0, -7, Int64.max, Int64.min]) func aDamagedCountEndsNoLease(_ epoch: Int64) throws {
        let path = VirtualPath("/a"), first = try SyncedFile(path: path, store: store)
        _ = try first.allocateIdent()
        for shard in store.shards {
            try shard.pool.write { db in try StoreSchema.setMeta("epoch", to: epoch, in: db) }
        }
        try store.close()
        for number in 3...5 as ClosedRange<UInt64> {
            let again = try SQLiteStore(directory: directory.path)
            #expect(try SyncedFile(path: path, store: again).allocateIdent().ident.rawValue == number)
            try again.close()
        }
    }

    @Test(arguments: ["-7", "9223372036854775807", "'many'", "x'00'", "1.5e300"])
    func aDamagedCountOfOneShardStopsNobody(_ epoch: String) throws {
        try store.close()
        try SQLiteStore(directory: directory.path).close()
        let queue = try DatabaseQueue(path: url(ofShard: 1).path)
        try queue.write { db in try db.execute(sql: "UPDATE store_meta SET value = \(epoch) WHERE name = 'epoch'") }
        try queue.close()
        _ = try StoreReader(directory: directory.path)
        let again = try SQLiteStore(directory: directory.path)
        #expect(again.shards.map(\.epoch) == [6, 6, 6, 6])
    }

    /// An opening counts in one shard after the other, twice.
    @Test(arguments: 0...7) func anOpeningThatWasInterruptedIsNoReasonToRefuse(_ flushed: Int) throws {
        let epochs = store.shards.map(\.epoch)
        #expect(epochs == [2, 2, 2, 2])
        for step in 0..<flushed {
            try store.shards[step % 4].pool.write { db in
                try StoreSchema.setMeta("epoch", to: Int64(3 + step / 4), in: db)
            }
        }
        try store.close()
        let again = try SQLiteStore(directory: directory.path), epoch = try #require(again.shards[0].epoch)
        #expect(again.shards.allSatisfy { $0.epoch == epoch })
        #expect(epoch > 2 && epoch.isMultiple(of: 2))
    }

    /// Otherwise its files would lack what their clients were told, and nobody would notice.
    @Test func aShardOfAnEarlierOpeningIsRefused() throws {
        try store.close()
        let earlier = try Data(contentsOf: url(ofShard: 3))
        try SQLiteStore(directory: directory.path).close()
        try earlier.write(to: url(ofShard: 3))
        for _ in 0..<2 {
            let error = #expect(throws: HistoryError.self) { try SQLiteStore(directory: directory.path) }
            #expect(error?.code == .storeUnusable && error?.reason.hasPrefix("shard-03.sqlite is older") == true)
            #expect(throws: HistoryError(.storeUnusable, "")) { try StoreReader(directory: directory.path) }
        }
    }

    /// A server that is not stopped counts the days, and its files go on.
    @Test func aShardOfAnEarlierDayIsRefused() throws {
        let file = try SyncedFile.open(in: store)
        _ = try file.allocateIdent()
        // Nothing of it is in a write-ahead log then.
        try store.shards[3].setFlushing(true)
        let earlier = try Data(contentsOf: url(ofShard: 3))
        try store.maintain(at: 1)
        #expect(try file.allocateIdent().ident == 3)
        try store.close()
        let today = try Data(contentsOf: url(ofShard: 3))
        try earlier.write(to: url(ofShard: 3))
        let error = #expect(throws: HistoryError.self) { try SQLiteStore(directory: directory.path) }
        #expect(error?.reason.hasPrefix("shard-03.sqlite is older than shard-00.sqlite") == true)
        try today.write(to: url(ofShard: 3))
        try SQLiteStore(directory: directory.path).close()
    }
}
