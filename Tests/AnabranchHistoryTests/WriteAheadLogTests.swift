import AnabranchCore
@testable import AnabranchHistory
@testable import AnabranchSQLite
import AnabranchTesting
import Foundation
import GRDB
import Testing

/// The write-ahead log of a store stays short (`Spec/Durability.md`, section 3).
@Suite struct WriteAheadLogTests {
    private let test: TestStore
    private let store: SQLiteStore
    private let file: SyncedFile

    init() throws {
        test = try TestStore(.sqlite)
        store = try #require(test.store as? SQLiteStore)
        file = try SyncedFile.open(in: store)
        try store.shards[0].pool.write { db in try db.execute(sql: "CREATE TABLE filler (content BLOB)") }
    }

    private func grow(byMebibytes count: Int) throws {
        for _ in 0..<count {
            try store.shards[0].pool.write { db in
                try db.execute(sql: "INSERT INTO filler VALUES (randomblob(1048576))")
            }
        }
    }

    /// Reads until it is told to end.
    private final class Reader: Sendable {
        let letsGo = DispatchSemaphore(value: 0)
        private let steps: AsyncStream<Bool>

        init(_ store: SQLiteStore, _ file: SyncedFileID) async {
            let (steps, didStep) = AsyncStream.makeStream(of: Bool.self)
            self.steps = steps
            Thread.detachNewThread { [letsGo] in
                let hasRead: Void? = try? store.read(file) { view throws(HistoryError) in
                    _ = try view.head()
                    didStep.yield(true)
                    letsGo.wait()
                }
                didStep.yield(hasRead != nil)
            }
            _ = await steps.first { _ in true }
        }

        func end() async -> Bool {
            letsGo.signal()
            return await steps.first { _ in true } == true
        }
    }

    @Test("a read that lasts stops neither commits nor other reads, and the log is emptied when it has ended")
    func reader() async throws {
        let reader = await Reader(store, file.id)
        try grow(byMebibytes: 65)
        _ = try file.allocateIdent()
        #expect(try file.clientFile(2) != nil)
        #expect(store.writeAheadLogBytes > WriteAheadLog.bytesMax)
        #expect(await reader.end())
        try grow(byMebibytes: 17)
        _ = try file.allocateIdent()
        #expect(store.writeAheadLogBytes <= WriteAheadLog.bytesMax)
    }

    @Test("a log that a reader has made very long is emptied when the reader lets go")
    func emptied() async throws {
        let reader = await Reader(store, file.id)
        try grow(byMebibytes: 65)
        reader.letsGo.signal()
        log(barrierBytesMax: store.writeAheadLogBytes - 1).limit(in: store.shards[0].pool)
        #expect(store.writeAheadLogBytes == 0)
        #expect(await reader.end())
    }

    @Test("a log that is not very long keeps no reader out", arguments: 0...1)
    func notEmptied(more: Int) async throws {
        let reader = await Reader(store, file.id)
        try grow(byMebibytes: 65)
        log(barrierBytesMax: store.writeAheadLogBytes + more).limit(in: store.shards[0].pool)
        #expect(store.writeAheadLogBytes > WriteAheadLog.bytesMax)
        #expect(await reader.end())
    }

    private func log(barrierBytesMax: Int) -> WriteAheadLog {
        WriteAheadLog(ofDatabaseAt: test.path + "/shard-00.sqlite", barrierBytesMax: barrierBytesMax)
    }

    /// A mebibyte is 258 pages here, and a page has 24 bytes more in the log.
    @Test("a log of 8,192 pages is moved into the database, and begins anew")
    func moved() throws {
        try grow(byMebibytes: 30)
        #expect(store.writeAheadLogBytes > 30 << 20)
        try grow(byMebibytes: 30)
        let pages = store.writeAheadLogBytes / 4_120
        #expect((WriteAheadLog.movedPagesMin..<WriteAheadLog.movedPagesMin + 300).contains(pages))
    }

    @Test("pages that become free are not written, however SQLite was built")
    func freed() throws {
        try grow(byMebibytes: 2)
        try store.shards[0].pool.writeWithoutTransaction { db in _ = try db.checkpoint(.truncate) }
        #expect(store.writeAheadLogBytes == 0)
        try store.shards[0].pool.write { db in try db.execute(sql: "DELETE FROM filler WHERE rowid = 1") }
        #expect((1...256 << 10).contains(store.writeAheadLogBytes))
    }

    @Test("a log that cannot be emptied stops nobody, and is emptied later")
    func busy() throws {
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        let other = try DatabaseQueue(path: test.path + "/shard-00.sqlite", configuration: configuration)
        try other.inDatabase { db in try db.execute(sql: "BEGIN; SELECT * FROM synced_file") }
        try grow(byMebibytes: 65)
        _ = try file.allocateIdent()
        #expect(store.writeAheadLogBytes > WriteAheadLog.bytesMax)
        try other.inDatabase { db in try db.execute(sql: "COMMIT") }
        try grow(byMebibytes: 1)
        _ = try file.allocateIdent()
        #expect(store.writeAheadLogBytes <= WriteAheadLog.bytesMax)
        #expect(try file.clientFile(3) != nil)
    }

    @Test("a store that is closed leaves no log, whose damage nobody would notice")
    func closed() throws {
        _ = try file.allocateIdent()
        #expect(store.writeAheadLogBytes > 0)
        try store.close()
        #expect(store.writeAheadLogBytes == 0)
        try store.close()
        let again = try SQLiteStore(oneShardIn: test.path)
        #expect(try SyncedFile.open(in: again).clientFile(2) != nil)
        try again.close()
    }

    @Test("an upload that is merged in steps holds no transaction between them")
    func merging() throws {
        _ = try file.allocateIdents(for: [nil, nil], at: 1)
        let updates = (0..<12).map { ChangesetWriter.setting(1, to: $0) }
        try file.integrate(Upload(updates), from: 2)
        try file.enqueue(Upload([updates[0]], timestamp: 600), from: 3)
        for _ in 0..<5 { #expect(try file.stepIntegration(at: 1) == nil) }
        try store.shards[0].pool.writeWithoutTransaction { db in _ = try db.checkpoint(.truncate) }
        #expect(store.writeAheadLogBytes == 0)
        #expect(try file.integrate(at: 1).outcomes.map(\.newVersions) == [1])
    }
}
