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

    @Test("a log that a reader has made long is emptied by the next commit, when the reader lets go")
    func emptied() async throws {
        let (steps, didStep) = AsyncStream.makeStream(of: Bool.self)
        let letsGo = DispatchSemaphore(value: 0)
        Thread.detachNewThread { [store, id = file.id] in
            let hasRead: Void? = try? store.read(id) { view throws(HistoryError) in
                _ = try view.head()
                didStep.yield(true)
                letsGo.wait()
            }
            didStep.yield(hasRead != nil)
        }
        var step = steps.makeAsyncIterator()
        #expect(await step.next() == true)
        try grow(byMebibytes: 65)
        letsGo.signal()
        #expect(store.writeAheadLogBytes > WriteAheadLog.bytesMax)
        _ = try file.allocateIdent()
        #expect(store.writeAheadLogBytes == 0)
        #expect(await step.next() == true)
        #expect(try file.clientFile(2) != nil)
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

    @Test("an upload that is merged in steps holds no transaction between them")
    func merging() throws {
        _ = try file.allocateIdents(for: [nil, nil], at: 1)
        let updates = (0..<12).map { ChangesetWriter.setting(1, to: $0) }
        try file.integrate(Upload(updates), from: 2)
        try file.enqueue(Upload([updates[0]], timestamp: 600), from: 3)
        for _ in 0..<5 {
            var limit = StepLimit(asking: { true }, piece: 1)
            #expect(try !file.advanceIntegration(at: 1, until: &limit))
        }
        try store.shards[0].pool.writeWithoutTransaction { db in _ = try db.checkpoint(.truncate) }
        #expect(store.writeAheadLogBytes == 0)
        #expect(try file.integrate(at: 1).outcomes.map(\.newVersions) == [1])
    }
}
