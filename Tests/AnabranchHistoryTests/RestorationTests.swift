import AnabranchCore
import AnabranchTesting
import Foundation
import GRDB
import Testing

@testable import AnabranchHistory
@testable import AnabranchSQLite

/// A restoration that cannot go on: what it says is so, and there is a way out (`Spec/Durability.md`, section 6).
@Suite struct RestorationTests {
    private let directory: TemporaryDirectory
    private let shard: Int

    /// A store whose shard 3 is of an earlier time, and with a file of one version.
    init() throws {
        directory = try TemporaryDirectory()
        let store = try SQLiteStore(directory: directory.path, options: .init(shards: 4))
        let file = try SyncedFile.open(in: store)
        let upload = Upload([ChangesetWriter.setting(1, to: 1)])
        #expect(try file.integrate(upload, from: file.allocateIdent().ident) == nil)
        shard = file.shard
        try store.close()
        let last = URL(fileURLWithPath: directory.path + "/shard-03.sqlite"), earlier = try Data(contentsOf: last)
        try SQLiteStore(directory: directory.path).close()
        try earlier.write(to: last)
    }

    private func put(_ manifest: String) throws {
        try Data(manifest.utf8).write(to: URL(fileURLWithPath: directory.path + "/manifest.json"))
    }

    private func change(_ sql: String) throws {
        let queue = try DatabaseQueue(path: directory.path + "/shard-0\(shard).sqlite")
        try queue.write { db in
            try db.execute(sql: sql)
            #expect(db.changesCount == 1)
        }
        try queue.close()
    }

    /// The damage in the store as a whole, and in its files.
    private func findings() throws -> (store: [StoreDamage], files: [StoreDamage]) {
        let verification = try StoreVerification(directory: directory.path)
        var damages: [StoreDamage] = []
        try verification.checkFiles { damages += $0.damages }
        return (try verification.checkDatabase(), damages)
    }

    @Test func shardsOfDifferentTimesAreRestored() throws {
        #expect(try findings().store.map { $0.finding.contains("is older than") } == [true])
        // As long as it is not run, nothing is changed, and nobody passes it by.
        for isRun in [false, true] {
            #expect(throws: HistoryError(.storeUnusable, "")) { try SQLiteStore(directory: directory.path) }
            let restoration = try StoreRestoration(directory: directory.path)
            if isRun { try restoration.run { _ in } }
            #expect(!restoration.isUnfinished)
            try restoration.close()
        }
        #expect(try findings() == ([], []))
        try SQLiteStore(directory: directory.path).close()
    }

    @Test func aLogWhoseEndIsDamagedIsNamedBeforeAnythingIsChanged() throws {
        try change("UPDATE log_entry SET timestamp = timestamp + 1")
        for _ in 0..<2 {
            let restoration = try StoreRestoration(directory: directory.path)
            #expect(throws: HistoryError(.storeDamaged, "")) { try restoration.run { _ in } }
            #expect(!restoration.isUnfinished)
            try restoration.close()
        }
        let (store, files) = try findings()
        #expect(store.count == 1 && store[0].finding.hasPrefix("shard-03.sqlite is older than shard-00.sqlite"))
        #expect(files.map(\.place).contains("log entry 1"))
        try change("UPDATE log_entry SET timestamp = timestamp - 1")
        let restoration = try StoreRestoration(directory: directory.path)
        try restoration.run { _ in }
        try restoration.close()
        try SQLiteStore(directory: directory.path).close()
    }

    @Test func whatWasRestoredInPartCanBeVerifiedAndNothingElse() throws {
        let manifest = try String(contentsOfFile: directory.path + "/manifest.json", encoding: .utf8)
        try put(manifest.replacing("ready", with: "restoring"))
        let (store, files) = try findings()
        #expect(store.count == 1 && store[0].finding.hasPrefix("`anabranch restore` was interrupted here"))
        #expect(files == [])
        #expect(throws: HistoryError(.storeUnusable, "")) { try StoreReader(directory: directory.path) }
        #expect(throws: HistoryError(.storeUnusable, "")) { try StoreRepair(directory: directory.path) }
        #expect(throws: HistoryError(.storeUnusable, "")) { try SQLiteStore(directory: directory.path) }
    }

    @Test func whatNobodyKnowsToBeDoneIsUnfinished() throws {
        let restoration = try StoreRestoration(directory: directory.path)
        #expect(!restoration.isUnfinished)
        try put("{")
        #expect(restoration.isUnfinished)
        try FileManager.default.removeItem(atPath: directory.path + "/manifest.json")
        #expect(restoration.isUnfinished)
        try restoration.close()
    }
}
