import AnabranchCore
import AnabranchTesting
import Foundation
import GRDB
import Testing

@testable import AnabranchHistory
@testable import AnabranchSQLite

/// Data that are made of a backup (`Spec/Durability.md`, section 6).
@Suite struct BackupRestorationTests {
    private let test: RunningStore

    init() throws {
        test = try RunningStore()
        _ = try StoreBackup(of: test.path, to: test.backup).run()
    }

    private func contents(of path: String) throws -> [String: Data] {
        var contents: [String: Data] = [:]
        for name in try FileManager.default.contentsOfDirectory(atPath: path) {
            contents[name] = try Data(contentsOf: URL(fileURLWithPath: path + "/" + name))
        }
        return contents
    }

    private func refusal(_ body: () throws -> Void) -> String {
        #expect(throws: HistoryError(.storeUnusable, ""), performing: body)?.reason ?? ""
    }

    private func restore(to path: String) throws {
        #expect(try BackupRestoration(from: test.backup, to: path).run() == [])
        let restoration = try StoreRestoration(directory: path)
        try restoration.run { _ in }
        try restoration.close()
    }

    @Test("no server starts on a backup, nor on a copy of it before it is prepared")
    func unprepared() throws {
        #expect(refusal { _ = try SQLiteStore(directory: test.backup) }.contains("is a backup"))
        #expect(refusal { _ = try StoreRepair(directory: test.backup) }.contains("is a backup"))
        #expect(try BackupRestoration(from: test.backup, to: test.restored).run() == [])
        #expect(refusal { _ = try SQLiteStore(directory: test.restored) }.contains("is a backup"))
        let restoration = try StoreRestoration(directory: test.restored)
        try restoration.run { _ in }
        try restoration.close()
        try SQLiteStore(directory: test.restored).close()
    }

    @Test("a backup stays as it is, and can be restored again; the newest versions get new salts each time")
    func twice() throws {
        let before = try contents(of: test.backup)
        var salts: [Set<Salt>] = []
        for path in [test.restored, test.restored + "-2"] {
            try restore(to: path)
            let files = try StoreReader(directory: path).files()
            #expect(files.map(\.head.version) == files.map { test.versions[$0.path] })
            salts.append(Set(files.map(\.head.versionSalt)))
            let restored = try contents(of: path)
            for name in ["keys.json", "accounts.sqlite"] { #expect(restored[name] == before[name]) }
            #expect(restored[BackupRecord.fileName] == nil)
        }
        salts.append(Set(test.files.map(\.head.versionSalt)))
        #expect(salts[0].isDisjoint(with: salts[1]) && salts[0].isDisjoint(with: salts[2]))
        #expect(try contents(of: test.backup) == before)
    }

    @Test("a backup that restore refuses is none that verify calls good, and verify leaves it as it is")
    func verified() throws {
        let before = try contents(of: test.backup)
        #expect(try StoppedStore.allDamages(in: test.backup) == [])
        #expect(try contents(of: test.backup) == before)
        let shard = URL(fileURLWithPath: test.backup + "/shard-01.sqlite")
        var bytes = try Data(contentsOf: shard)
        bytes[9000] ^= 1
        try bytes.write(to: shard)
        try FileManager.default.removeItem(atPath: test.backup + "/keys.json")
        try Data("no accounts".utf8).write(to: URL(fileURLWithPath: test.backup + "/accounts.sqlite"))
        let found = try StoppedStore.allDamages(in: test.backup)
        #expect(
            found.contains(
                StoreDamage(kind: .checksum, place: "shard-01.sqlite", finding: "it is not what was backed up")))
        #expect(found.contains(StoreDamage(kind: .continuity, place: "keys.json", finding: "it is missing")))
        #expect(found.filter { $0.place == "accounts.sqlite" }.map(\.kind) == [.checksum, .database])
    }

    @Test("accounts that cannot be read are damage of data, too")
    func damagedAccounts() throws {
        try restore(to: test.restored)
        #expect(try StoreVerification(directory: test.restored).checkDatabase() == [])
        try Data("no accounts".utf8).write(to: URL(fileURLWithPath: test.restored + "/accounts.sqlite"))
        let found = try StoreVerification(directory: test.restored).checkDatabase()
        #expect(found.map(\.place) == ["accounts.sqlite"] && found.map(\.kind) == [.database])
    }

    @Test("one changed byte anywhere in a backup is found, and then nothing is restored")
    func damagedBackup() throws {
        for name in ["shard-02.sqlite", "accounts.sqlite", "keys.json", "manifest.json"] {
            let url = URL(fileURLWithPath: test.backup + "/" + name), whole = try Data(contentsOf: url)
            for (bytes, what) in [(whole.count, "changed"), (whole.count - 1, "shorter")] {
                var damaged = whole.prefix(bytes)
                damaged[damaged.count / 2] ^= 1
                try damaged.write(to: url)
                let error = #expect(throws: HistoryError(.storeDamaged, ""), "\(name), \(what)") {
                    try BackupRestoration(from: test.backup, to: test.restored).run()
                }
                #expect(error?.reason.contains("\(name) is not what was backed up") == true)
                #expect(!FileManager.default.fileExists(atPath: test.restored))
            }
            try whole.write(to: url)
        }
        try FileManager.default.removeItem(atPath: test.backup + "/accounts.sqlite")
        #expect(throws: HistoryError(.storeDamaged, "")) {
            try BackupRestoration(from: test.backup, to: test.restored).run()
        }
        #expect(!FileManager.default.fileExists(atPath: test.restored))
    }

    @Test("data are not restored over others, and what was not backed up is refused")
    func refusedPlaces() throws {
        let copy = try test.copyAsAfterACrash()
        #expect(
            refusal { _ = try BackupRestoration(from: copy.path, to: test.restored) }
                .contains("was not made by `anabranch backup`"))
        #expect(refusal { _ = try BackupRestoration(from: test.backup, to: test.path) }.contains("is not empty"))
        #expect(refusal { _ = try BackupRestoration(from: test.backup, to: test.backup) }.contains("is not empty"))
        #expect(
            refusal { _ = try BackupRestoration(from: test.backup + "-2", to: test.restored) }
                .contains("no such directory"))
        let record = URL(fileURLWithPath: test.backup + "/" + BackupRecord.fileName)
        func file(_ name: String, _ bytes: Int = 1) -> String {
            #"{"name":"\#(name)","bytes":\#(bytes),"checksum":""}"#
        }
        for files in [
            file("../x"), file("lock"), file("x.sqlite"), file("shard-00.sqlite", -1), file("shard-00.sqlite", .max),
            file("keys.json") + "," + file("keys.json"), "",
        ] {
            let words = files.isEmpty ? "{" : #"{"time":"","stage":"whole","files":[\#(files)]}"#
            try Data(words.utf8).write(to: record)
            #expect(
                refusal { _ = try BackupRestoration(from: test.backup, to: test.restored) }
                    .contains("backup.json is damaged"))
        }
        #expect(!FileManager.default.fileExists(atPath: test.restored))
    }
}
