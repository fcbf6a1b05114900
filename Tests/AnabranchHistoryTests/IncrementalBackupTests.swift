import AnabranchCore
import AnabranchTesting
import Foundation
import GRDB
import Testing

@testable import AnabranchHistory
@testable import AnabranchSQLite

/// Backups that hold what has changed since an earlier one (`Spec/Durability.md`, section 6).
@Suite struct IncrementalBackupTests {
    private let test: RunningStore
    /// The first is whole, and each of the others was made since the one before.
    private let backups: [String]

    init() throws {
        test = try RunningStore()
        try test.grow(test.store.shards, byMebibytes: 1)
        backups = (0..<3).map { [test] in "\(test.backup)s/\($0)" }
        for (number, path) in backups.enumerated() {
            try test.write()
            _ = try StoreBackup(of: test.path, to: path, bases: Array(backups.prefix(number).suffix(1))).run()
        }
    }

    private func names(in path: String) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: path).sorted()
    }

    private func contents(of path: String) throws -> [String: Data] {
        var contents: [String: Data] = [:]
        for name in try names(in: path) {
            contents[name] = try Data(contentsOf: URL(fileURLWithPath: path + "/" + name))
        }
        return contents
    }

    private func refusal(_ body: () throws -> Void) -> String {
        #expect(throws: HistoryError(.storeUnusable, ""), performing: body)?.reason ?? ""
    }

    private func move(_ path: String, to newPath: String) throws {
        try FileManager.default.moveItem(atPath: path, toPath: newPath)
    }

    // MARK: What it holds

    @Test("an incremental backup and those before it are together what a whole one would be")
    func restored() throws {
        let summary = try StoreBackup(of: test.path, to: test.backup).run()
        let last = backups[2] + "-last"
        let increment = try StoreBackup(of: test.path, to: last, bases: [backups[2]]).run(isVerified: true)
        #expect(increment.damages == [])
        #expect(increment.wholeBytes == summary.bytes && summary.bytes == summary.wholeBytes)
        #expect(increment.bytes < summary.bytes / 4)
        let whole = try contents(of: test.backup)
        #expect(try BackupRestoration(from: last, to: test.restored).run() == [])
        let restored = try contents(of: test.restored)
        for (name, content) in whole where name.hasPrefix("shard-") || name == "keys.json" {
            #expect(restored[name] == content, "\(name)")
        }
        let restoration = try StoreRestoration(directory: test.restored)
        try restoration.run { _ in }
        try restoration.close()
        let files = try StoreReader(directory: test.restored).files()
        #expect(files.map(\.head.version) == files.map { test.versions[$0.path] })
        for name in try names(in: last) {
            let attributes = try FileManager.default.attributesOfItem(atPath: last + "/" + name)
            #expect(attributes[.posixPermissions] as? Int == 0o600, "\(name)")
        }
    }

    @Test("it can be verified, and is nothing that is read or served as it is")
    func read() throws {
        var damages: [StoreDamage] = []
        let verification = try StoreVerification(directory: backups[2])
        damages += try verification.checkDatabase()
        try verification.checkFiles { damages += $0.damages }
        #expect(damages == [])
        #expect(refusal { _ = try StoreReader(directory: backups[2]) }.contains("is an incremental backup"))
        #expect(refusal { _ = try StoreRestoration(directory: backups[2]) }.contains("is an incremental backup"))
        #expect(refusal { _ = try SQLiteStore(directory: backups[2]) }.contains("is an incremental backup"))
    }

    @Test("a database of which no block has stayed, or that the base lacks, is there as a whole")
    func wholeDatabases() throws {
        let folder = try TemporaryDirectory(), target = folder.path + "/1"
        let source = try test.copyAsAfterACrash()
        try FileManager.default.removeItem(atPath: source.path + "/accounts.sqlite")
        _ = try StoreBackup(of: source.path, to: folder.path + "/0").run()
        _ = try StoreBackup(of: test.path, to: target, bases: [folder.path + "/0"]).run()
        let names = try names(in: target)
        #expect(names.contains("accounts.sqlite") && names.contains("shard-00.sqlite.delta"))
        #expect(!names.contains("accounts.sqlite.delta") && !names.contains("shard-00.sqlite"))
        #expect(try BackupRestoration(from: target, to: test.restored).run() == [])
    }

    @Test("blocks that differ, a file that grows or is cut: the delta and the old file make the new one")
    func deltas() throws {
        var random = SeededRandom(scrambling: 5)
        let folder = try TemporaryDirectory()
        func write(_ bytes: [UInt8], to number: Int) throws -> BackupRecord.File {
            let place = URL(fileURLWithPath: "\(folder.path)/\(number)")
            try FileManager.default.createDirectory(at: place, withIntermediateDirectories: true)
            try Data(bytes).write(to: place.appendingPathComponent("x"))
            let content = try CopiedFile.content(of: "x", in: place)
            return BackupRecord.File(name: "x", bytes: content.bytes, checksum: content.checksum)
        }
        let block = BlockDelta.blockBytes
        for size in [0, 1, block, 5 * block + 7, FilePieces.pieceBytes, 2 * FilePieces.pieceBytes + 3 * block + 1] {
            for newSize in [0, 1, size, max(0, size - 3), size / 2, size + block, size + FilePieces.pieceBytes] {
                let old = (0..<size).map { _ in UInt8(truncatingIfNeeded: random.next()) }
                var new = old.prefix(newSize) + Array(repeating: 7, count: max(0, newSize - size))
                for _ in 0..<random.below(6) where !new.isEmpty { new[random.below(new.count)] ^= 1 }
                let base = try write(old, to: 0), file = try write(Array(new), to: 1)
                let places = (0...1).map { URL(fileURLWithPath: "\(folder.path)/\($0)") }
                let delta = try BlockDelta.write(
                    of: file, in: places[1], since: BackupContent(base, in: places[0], since: nil)
                ) { _ in }
                let stored = delta ?? file
                #expect(stored.storedBytes <= file.bytes)
                #expect(try names(in: places[1].path) == (delta == nil ? ["x"] : ["x", "x.delta"]))
                let content = try BackupContent(
                    stored, in: places[1], since: BackupContent(base, in: places[0], since: nil))
                var read: [UInt8] = []
                while let piece = try content.next() { read += piece }
                #expect(read == Array(new), "\(size) \(newSize)")
                try FileManager.default.removeItem(atPath: places[1].path)
            }
        }
    }

    private func file(_ bytes: [UInt8], in folder: TemporaryDirectory) throws -> BackupRecord.File {
        let url = URL(fileURLWithPath: folder.path)
        try Data(bytes).write(to: url.appendingPathComponent("x"))
        let content = try CopiedFile.content(of: "x", in: url)
        return BackupRecord.File(name: "x", bytes: content.bytes, checksum: content.checksum)
    }

    @Test("a delta for which the disk has no room is left out, and the database stays as it is")
    func noRoom() throws {
        let folder = try TemporaryDirectory(), url = URL(fileURLWithPath: folder.path)
        let file = try file(Array(repeating: 1, count: 3 * BlockDelta.blockBytes), in: folder)
        let base = try BackupContent(file, in: url, since: nil)
        var new = Array(repeating: UInt8(1), count: file.bytes)
        new[0] = 2
        let target = try TemporaryDirectory(), newFile = try self.file(new, in: target)
        let full = try FileHandle(forWritingTo: URL(fileURLWithPath: "/dev/full"))
        let isWhole = try BlockDelta.write(of: newFile, at: target.path + "/x", since: base, to: full) { _ in }
        #expect(!isWhole)
    }

    @Test("a copy that cannot be read as it was written is not a backup; with --verify, nor is a delta")
    func verified() throws {
        let folder = try TemporaryDirectory(), url = URL(fileURLWithPath: folder.path)
        var file = try file([1, 2, 3], in: folder)
        let base = try BackupContent(file, in: url, since: nil)
        file.checksum = String(repeating: "0", count: 32)
        #expect(throws: HistoryError(.storeDamaged, "")) {
            try BlockDelta.write(of: file, in: url, since: base) { _ in }
        }
        try test.write()
        var isDamaged = false
        #expect(throws: HistoryError(.storeDamaged, "")) {
            try StoreBackup(of: test.path, to: test.backup, bases: [backups[2]]).run(isVerified: true) { progress in
                guard progress.step == .comparing, !isDamaged else { return }
                // As a disk would do it that keeps something else than what it was given.
                for name in try names(in: test.backup) where name.hasSuffix(".delta") && !isDamaged {
                    let delta = try FileHandle(forUpdating: URL(fileURLWithPath: test.backup + "/" + name))
                    guard try delta.seekToEnd() > 0 else { continue }
                    try delta.seek(toOffset: 100)
                    let byte = try delta.read(upToCount: 1)?.first ?? 0
                    try delta.seek(toOffset: 100)
                    try delta.write(contentsOf: [byte ^ 1])
                    isDamaged = true
                }
            }
        }
        #expect(isDamaged && !FileManager.default.fileExists(atPath: test.backup))
    }

    @Test("who verifies it makes it whole where nobody else can look, under a name that nobody knows before")
    func temporaryDirectories() throws {
        var paths: [String] = []
        func verification() throws -> StoreVerification {
            try StoreVerification(directory: backups[2], temporaryDirectory: { paths.append($0) })
        }
        func check() throws {
            let verifications = [try verification(), try verification()]
            for verification in verifications { #expect(try verification.checkDatabase() == []) }
            try withExtendedLifetime(verifications) {
                #expect(Set(paths).count == 2)
                for path in paths {
                    let names = try names(in: path)
                    #expect(names.contains("keys.json"))
                    for place in [path] + names.map({ path + "/" + $0 }) {
                        let mode = try FileManager.default.attributesOfItem(atPath: place)[.posixPermissions] as? Int
                        #expect(mode == (place == path ? 0o700 : 0o600), "\(place)")
                    }
                }
            }
        }
        try check()
        for path in paths { #expect(!FileManager.default.fileExists(atPath: path)) }
    }

    @Test("a link that somebody has put into the target is not followed")
    func links() throws {
        let other = test.backup + "-other", words = Data("mine".utf8)
        for name in [BackupRecord.fileName + ".new", "lock"] {
            try words.write(to: URL(fileURLWithPath: other))
            try FileManager.default.createDirectory(atPath: test.backup, withIntermediateDirectories: true)
            try FileManager.default.createSymbolicLink(
                atPath: test.backup + "/" + name, withDestinationPath: name == "lock" ? other + "-new" : other)
            _ = try? StoreBackup(of: test.path, to: test.backup).run()
            #expect(try Data(contentsOf: URL(fileURLWithPath: other)) == words, "\(name)")
            #expect(!FileManager.default.fileExists(atPath: other + "-new"))
            try FileManager.default.removeItem(atPath: test.backup)
        }
    }

    @Test("a file that has become longer is read no further than to where it should end")
    func longer() throws {
        let url = URL(fileURLWithPath: backups[0] + "/shard-02.sqlite"), file = try FileHandle(forWritingTo: url)
        let bytes = Int(try file.seekToEnd())
        try file.truncate(atOffset: UInt64(bytes + 100 * FilePieces.pieceBytes))
        var done = 0
        #expect(throws: HistoryError(.storeDamaged, "")) {
            try BackupRestoration(from: backups[0], to: test.restored).run { progress in
                #expect(progress.done <= progress.total)
                done = progress.done
            }
        }
        #expect(done > 0)
    }

    // MARK: Bases

    @Test("a base that is named by a link is found when the link leads to another backup")
    func linkedBase() throws {
        let latest = test.backup + "-latest"
        try FileManager.default.createSymbolicLink(atPath: latest, withDestinationPath: backups[2])
        _ = try StoreBackup(of: test.path, to: test.backup, bases: [latest]).run()
        try FileManager.default.removeItem(atPath: latest)
        try FileManager.default.createSymbolicLink(atPath: latest, withDestinationPath: test.backup)
        #expect(try BackupRestoration(from: test.backup, to: test.restored).run() == [])
    }

    @Test("bases are refused where none is needed")
    func needlessBases() throws {
        #expect(
            refusal { _ = try StoreVerification(directory: backups[0], bases: [backups[1]]) }
                .contains("is not an incremental backup"))
        #expect(
            refusal { _ = try BackupRestoration(from: backups[0], bases: [backups[1]], to: test.restored) }
                .contains("is not an incremental backup"))
    }

    @Test("a chain has 64 backups; then a whole one has to be made")
    func longChain() throws {
        var last = backups[2]
        for number in 3..<BackupChain.membersMax {
            var record = try #require(try BackupRecord.read(in: URL(fileURLWithPath: last)))
            let checksum = try #require(BackupRecord.checksum(in: last)), next = "\(test.backup)s/\(number)"
            record.base = BackupRecord.Base(path: last, time: record.time, checksum: checksum)
            record.files = []
            try FileManager.default.createDirectory(atPath: next, withIntermediateDirectories: true)
            try FileManager.default.copyItem(atPath: last + "/manifest.json", toPath: next + "/manifest.json")
            try record.write(in: URL(fileURLWithPath: next))
            if number == BackupChain.membersMax - 1 {
                _ = try StoreBackup(of: test.path, to: test.backup, bases: [last]).run()
            }
            last = next
        }
        let words = refusal { _ = try StoreBackup(of: test.path, to: test.backup + "-2", bases: [last]) }
        #expect(words.contains("needs 63 earlier backups") && words.contains("make a whole backup"), "\(words)")
    }

    @Test("a base is found where it was, beside the backup, or where somebody says; otherwise nothing is restored")
    func places() throws {
        let folder = try TemporaryDirectory(), moved = (0..<3).map { "\(folder.path)/\($0)" }
        for (path, newPath) in zip(backups, moved) { try move(path, to: newPath) }
        #expect(try BackupRestoration(from: moved[2], to: test.restored).run() == [])
        let far = folder.path + "/elsewhere"
        try move(moved[0], to: far)
        for bases in [[], [moved[1]], [folder.path], [test.path]] {
            let words = refusal { _ = try BackupRestoration(from: moved[2], bases: bases, to: far + "2") }
            #expect(words.contains("\(moved[1]) holds what has changed since the backup \(backups[0]) of "))
            // The second one is the backup itself, which was found.
            let given = bases.isEmpty || bases == [moved[1]] ? "" : "; --base names something else (\(bases[0]))"
            #expect(words.contains("which is not there\(given): say where it is with --base"))
        }
        #expect(!FileManager.default.fileExists(atPath: far + "2"))
        #expect(try BackupRestoration(from: moved[2], bases: [moved[1], far], to: far + "2").run() == [])
        _ = try StoreBackup(of: test.path, to: moved[2] + "-next", bases: [moved[2], far]).run()
        #expect(refusal { _ = try StoreVerification(directory: moved[2]) }.contains("--base"))
        _ = try StoreVerification(directory: moved[2], bases: [far])
    }

    @Test("another backup in the place of a base is none, nor is one of another store, or half a one")
    func otherBases() throws {
        let other = try RunningStore()
        _ = try StoreBackup(of: other.path, to: other.backup).run()
        func backUp(_ base: String) throws { _ = try StoreBackup(of: test.path, to: test.backup, bases: [base]) }
        #expect(refusal { try backUp(other.backup) }.contains("is a backup of another store"))
        #expect(refusal { try backUp(test.path) }.hasSuffix("is not a backup; --base takes an earlier backup"))
        let inside = backups[0] + "/inside"
        #expect(
            refusal { _ = try StoreBackup(of: test.path, to: inside, bases: [backups[0]]) }
                .contains("is inside of \(backups[0])"))
        #expect(!FileManager.default.fileExists(atPath: inside))
        #expect(refusal { try backUp(test.path + "/none") }.contains("no such directory"))
        try FileManager.default.removeItem(atPath: backups[1])
        _ = try StoreBackup(of: test.path, to: backups[1]).run()
        let words = refusal { _ = try BackupRestoration(from: backups[2], to: test.restored) }
        #expect(words.contains("since the backup \(backups[1]) of ") && words.contains("another backup is there now"))
        var record = try #require(try BackupRecord.read(in: URL(fileURLWithPath: backups[1])))
        record.stage = .copying
        try record.write(in: URL(fileURLWithPath: backups[1]))
        #expect(refusal { try backUp(backups[1]) }.contains("was interrupted"))
        for path in [test.backup, test.restored] { #expect(!FileManager.default.fileExists(atPath: path)) }
    }

    @Test("one changed byte in any backup of a chain is found, and named, when it is restored or made longer")
    func damaged() throws {
        let files = [
            (0, "shard-02.sqlite"), (1, "shard-02.sqlite.delta"), (2, "shard-01.sqlite.delta"), (2, "keys.json"),
        ]
        for (number, name) in files {
            let url = URL(fileURLWithPath: backups[number] + "/" + name), whole = try Data(contentsOf: url)
            for place in Array(0..<16) + stride(from: 16, to: whole.count, by: whole.count / 16 + 1) {
                var damaged = whole
                damaged[place % whole.count] ^= 0x40
                try damaged.write(to: url)
                let error = #expect(throws: HistoryError(.storeDamaged, ""), "\(name), byte \(place)") {
                    try BackupRestoration(from: backups[2], to: test.restored).run()
                }
                #expect(error?.reason.contains("\(number)/\(name) is not what was backed up") == true, "\(place)")
                #expect(!FileManager.default.fileExists(atPath: test.restored))
            }
            try whole.dropLast().write(to: url)
            #expect(throws: HistoryError(.storeDamaged, "")) {
                try BackupRestoration(from: backups[2], to: test.restored).run()
            }
            if name != "keys.json" {
                #expect(throws: HistoryError(.storeDamaged, "")) {
                    try StoreBackup(of: test.path, to: test.backup, bases: [backups[2]]).run()
                }
                #expect(!FileManager.default.fileExists(atPath: test.backup))
            }
            try whole.write(to: url)
        }
        #expect(try BackupRestoration(from: backups[2], to: test.restored).run() == [])
    }

    // MARK: Interruptions

    @Test("one that fails leaves nothing, and one that was interrupted is none until it is made again")
    func interrupted() throws {
        struct Interruption: Error {}
        var calls = 0
        _ = try StoreBackup(of: test.path, to: test.backup, bases: [backups[2]]).run { _ in calls += 1 }
        let target = test.backup + "-2", whole = try names(in: test.backup)
        for failing in 1...calls {
            var call = 0
            #expect(throws: HistoryError(.storeFailed, "")) {
                try StoreBackup(of: test.path, to: target, bases: [backups[2]]).run { _ in
                    call += 1
                    if call == failing { throw Interruption() }
                }
            }
            #expect(!FileManager.default.fileExists(atPath: target))
        }
        // What a process leaves that is killed between two files; whoever reads a base leaves it as it is.
        let before = try contents(of: backups[2])
        for name in whole + ["shard-01.sqlite"] where name != BackupRecord.fileName {
            try FileManager.default.createDirectory(atPath: target, withIntermediateDirectories: true)
            try Data("x".utf8).write(to: URL(fileURLWithPath: target + "/" + name))
            try BackupRecord(stage: .copying).write(in: URL(fileURLWithPath: target))
            #expect(throws: HistoryError(.storeUnusable, "")) { try BackupRestoration(from: target, to: test.restored) }
            _ = try StoreBackup(of: test.path, to: target, bases: [backups[2]]).run()
            #expect(try names(in: target) == whole)
            try FileManager.default.removeItem(atPath: target)
        }
        #expect(try contents(of: backups[2]) == before)
    }
}
