import AnabranchCore
import AnabranchTesting
import Foundation
import GRDB
import Testing

@testable import AnabranchHistory
@testable import AnabranchSQLite

/// Backups of a store that is in use, and of one that is not (`Spec/Durability.md`, section 6).
@Suite struct BackupTests {
    private let test: RunningStore

    init() throws { test = try RunningStore() }

    private func names(in path: String) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: path).sorted()
    }

    @Test("what is written while a shard is copied is not in its copy, and all that was there before is")
    func oneState() throws {
        // More than is copied in one step.
        try test.grow(test.store.shards, byMebibytes: 9)
        let before = test.versions
        var steps = 0
        let summary = try StoreBackup(of: test.path, to: test.backup).run(isVerified: true) { progress in
            guard progress.step == .copying else { return }
            steps += 1
            try test.write()
        }
        #expect(summary.damages == [])
        #expect(summary.fileCount == test.files.count)
        #expect(summary.userCount == steps)
        #expect(steps > test.store.shardCount + 2)
        #expect(try StoppedStore.allDamages(in: test.backup) == [])
        let reader = try StoreReader(directory: test.backup)
        for file in try reader.files() {
            let first = try #require(before[file.path]), last = try #require(test.versions[file.path])
            #expect((first...last).contains(file.head.version))
            #expect(file.head.version < last)
        }
    }

    @Test("each client file in a backup belongs to a user in it")
    func users() throws {
        _ = try StoreBackup(of: test.path, to: test.backup).run { _ in try test.write() }
        let accounts = try DatabaseQueue(path: test.backup + "/accounts.sqlite")
        let users = try accounts.read { try Set(String.fetchAll($0, sql: "SELECT ident FROM user")) }
        try accounts.close()
        var owners: Set<String> = []
        for number in 0..<test.store.shardCount {
            let shard = try DatabaseQueue(path: test.backup + "/shard-0\(number).sqlite")
            let sql = "SELECT DISTINCT user FROM client_file WHERE user IS NOT NULL"
            owners.formUnion(try shard.read { try String.fetchAll($0, sql: sql) })
            try shard.close()
        }
        #expect(owners.count > 1)
        #expect(owners.isSubset(of: users))
    }

    @Test("the write-ahead log is emptied as soon as the backup lets go of it")
    func writeAheadLog() throws {
        let shard = test.store.shards[test.files[0].shard]
        try test.grow([shard], byMebibytes: 9)
        var peak = 0
        _ = try StoreBackup(of: test.path, to: test.backup).run { _ in
            try test.grow([shard], byMebibytes: 15)
            try test.write()
            peak = max(peak, shard.writeAheadLogBytes)
        }
        #expect(peak > WriteAheadLog.bytesMax)
        try test.grow([shard], byMebibytes: 17)
        try test.write()
        #expect(shard.writeAheadLogBytes <= WriteAheadLog.bytesMax)
    }

    @Test("a day that ends, or a server that starts, between two shards makes the backup no mixture of times")
    func epochs() throws {
        _ = try StoreBackup(of: test.path, to: test.backup).run(isVerified: true) { progress in
            if progress.step == .copying { try test.store.maintain(at: 1) { true } }
        }
        #expect(try StoppedStore.allDamages(in: test.backup) == [])
        try test.restart()
        let second = test.backup + "-2"
        var isRestarted = false
        _ = try StoreBackup(of: test.path, to: second).run { _ in
            if !isRestarted { try test.restart() }
            isRestarted = true
        }
        #expect(isRestarted)
        #expect(try StoppedStore.allDamages(in: second) == [])
    }

    @Test("a store that nobody serves, and one that a crash has left, are copied with all that was committed")
    func stopped() throws {
        let crashed = try test.copyAsAfterACrash()
        let versions = test.versions
        try test.store.close()
        for (source, target) in [(test.path, test.backup), (crashed.path, test.backup + "-2")] {
            #expect(try StoreBackup(of: source, to: target).run(isVerified: true).damages == [])
            let reader = try StoreReader(directory: target)
            for file in try reader.files() { #expect(file.head.version == versions[file.path]) }
        }
    }

    @Test("only its owner can read a backup, also in a directory that was open to all")
    func modes() throws {
        let attributes: [FileAttributeKey: Any] = [.posixPermissions: 0o755]
        try FileManager.default.createDirectory(
            atPath: test.backup, withIntermediateDirectories: true, attributes: attributes)
        _ = try StoreBackup(of: test.path, to: test.backup).run()
        func mode(_ path: String) throws -> Int? {
            try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
        }
        #expect(try mode(test.backup) == 0o700)
        let names = try names(in: test.backup)
        #expect(names.contains("accounts.sqlite") && names.contains("keys.json"))
        #expect(!names.contains("admin-token"))
        for name in names { #expect(try mode(test.backup + "/" + name) == 0o600, "\(name)") }
    }

    @Test("nothing is copied over what is there, and a store, a backup or nothing at all is told from data")
    func refusedPlaces() throws {
        let folder = try TemporaryDirectory()
        try Data("x".utf8).write(to: URL(fileURLWithPath: folder.path + "/diary"))
        func refusal(of source: String, to target: String) -> String {
            #expect(throws: HistoryError(.storeUnusable, "")) { try StoreBackup(of: source, to: target) }?.reason ?? ""
        }
        #expect(refusal(of: test.path, to: folder.path).contains("is not empty (diary)"))
        #expect(refusal(of: test.path, to: test.path).contains("inside of the data"))
        #expect(refusal(of: test.path, to: test.path + "/backup").contains("inside of the data"))
        #expect(refusal(of: folder.path, to: test.backup).contains("there is no store in it"))
        #expect(refusal(of: folder.path + "/none", to: test.backup).contains("no such directory"))
        #expect(!FileManager.default.fileExists(atPath: test.backup))
        _ = try StoreBackup(of: test.path, to: test.backup).run()
        #expect(refusal(of: test.path, to: test.backup).contains("is not empty"))
        #expect(refusal(of: test.backup, to: test.backup + "-2").contains("is a backup itself"))
    }

    @Test("a backup that fails leaves nothing, and one that was interrupted is none until it is made again")
    func interrupted() throws {
        struct Interruption: Error {}
        var calls = 0
        _ = try StoreBackup(of: test.path, to: test.backup).run { _ in calls += 1 }
        let names = try names(in: test.backup)
        for failing in 1...calls {
            let target = test.backup + "-2"
            var call = 0
            #expect(throws: HistoryError(.storeFailed, "")) {
                try StoreBackup(of: test.path, to: target).run { _ in
                    call += 1
                    if call == failing { throw Interruption() }
                }
            }
            #expect(!FileManager.default.fileExists(atPath: target))
        }
        // What a process leaves that is killed when so many files are there.
        var record = try #require(try BackupRecord.read(in: URL(fileURLWithPath: test.backup)))
        (record.stage, record.files) = (.copying, [])
        for count in 0...names.count {
            let target = try TemporaryDirectory()
            for name in names.prefix(count) where name != BackupRecord.fileName {
                try FileManager.default.copyItem(atPath: "\(test.backup)/\(name)", toPath: "\(target.path)/\(name)")
            }
            try record.write(in: URL(fileURLWithPath: target.path))
            #expect(throws: HistoryError(.storeUnusable, "")) { try SQLiteStore(directory: target.path) }
            #expect(throws: HistoryError(.storeUnusable, "")) { try StoreReader(directory: target.path) }
            #expect(throws: HistoryError(.storeUnusable, "")) { try StoreRestoration(directory: target.path) }
            #expect(throws: HistoryError(.storeUnusable, "")) {
                try BackupRestoration(from: target.path, to: target.path + "-restored")
            }
            _ = try StoreBackup(of: test.path, to: target.path).run()
            #expect(try self.names(in: target.path) == names)
            #expect(try StoppedStore.allDamages(in: target.path) == [])
        }
    }

    @Test("contents of files that cannot be copied make no backup and no data, and what is left of them is removed")
    func contents() throws {
        struct Full: Error {}
        func fill(_ path: String) throws {
            try FileManager.default.createDirectory(atPath: path + "/chunks/a", withIntermediateDirectories: true)
            try Data([1]).write(to: URL(fileURLWithPath: path + "/chunks/a/b"))
        }
        func fillUp(_ path: String) throws {
            try fill(path)
            throw Full()
        }
        #expect(throws: HistoryError(.storeFailed, "")) {
            try StoreBackup(of: test.path, to: test.backup) { try fillUp(test.backup) }.run()
        }
        #expect(!FileManager.default.fileExists(atPath: test.backup))
        _ = try StoreBackup(of: test.path, to: test.backup) { try fill(test.backup) }.run()
        #expect(FileManager.default.fileExists(atPath: test.backup + "/chunks/a/b"))
        #expect(throws: HistoryError(.storeFailed, "")) {
            try BackupRestoration(from: test.backup, to: test.restored) { try fillUp(test.restored) }.run()
        }
        #expect(!FileManager.default.fileExists(atPath: test.restored))
        // A process was killed meanwhile.
        let target = try TemporaryDirectory()
        try BackupRecord(stage: .copying).write(in: URL(fileURLWithPath: target.path))
        try fill(target.path)
        _ = try StoreBackup(of: test.path, to: target.path).run()
        #expect(!FileManager.default.fileExists(atPath: target.path + "/chunks"))
    }

    @Test("a backup that was killed before it could mark its directory is in nobody's way")
    func unmarked() throws {
        let target = try TemporaryDirectory()
        for name in ["lock", BackupRecord.fileName + ".new"] {
            try Data().write(to: URL(fileURLWithPath: target.path + "/" + name))
        }
        _ = try StoreBackup(of: test.path, to: target.path).run()
        #expect(try StoppedStore.allDamages(in: target.path) == [])
    }

    @Test("damage of the data is in the backup, and found in it")
    func damagedData() throws {
        try test.store.shards[test.files[0].shard].pool.write { db in
            try db.execute(sql: "UPDATE log_entry SET timestamp = timestamp + 1 WHERE version = 1")
        }
        let summary = try StoreBackup(of: test.path, to: test.backup).run(isVerified: true)
        #expect(summary.damages.contains { $0.kind == .checksum && $0.place.hasSuffix("log entry 1") })
        let damages = try BackupRestoration(from: test.backup, to: test.restored).run()
        #expect(damages == summary.damages)
        #expect(!FileManager.default.fileExists(atPath: test.restored))
    }
}
