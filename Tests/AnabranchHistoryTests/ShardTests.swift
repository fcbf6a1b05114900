import AnabranchCore
import AnabranchTesting
import Foundation
import GRDB
import Testing

@testable import AnabranchHistory
@testable import AnabranchSQLite

/// The differences with several databases (`Spec/Durability.md`, section 3).
@Suite struct ShardTests {
    private let directory: TemporaryDirectory
    private let store: SQLiteStore

    init() throws {
        directory = try TemporaryDirectory()
        store = try SQLiteStore(directory: directory.path, options: .init(shards: 4))
    }

    /// Files in different shards, each with a client file and an upload in its queue.
    private func files(_ count: Int) throws -> [SyncedFile] {
        var files: [SyncedFile] = []
        for number in 0..<1_000 where files.count < count {
            let file = try SyncedFile.open("/\(number)", in: store)
            guard !files.contains(where: { $0.shard == file.shard }) else { continue }
            let ident = try file.allocateIdent().ident
            try file.enqueue(Upload([ChangesetWriter.setting(1, to: Int64(number))]), from: ident)
            files.append(file)
        }
        try #require(files.count == count)
        return files
    }

    private func merge(_ file: SyncedFile) throws {
        var limit = StepLimit.none
        #expect(try file.advanceIntegration(at: 1, until: &limit))
    }

    @Test func aShardThatFailsIsNoTroubleOfTheOthers() throws {
        let files = try files(4)
        for file in files { try merge(file) }
        let failing = files[2]
        try store.shards[failing.shard].pool.writeWithoutTransaction { db in
            try db.execute(
                sql: "CREATE TEMP TRIGGER full BEFORE INSERT ON log_entry BEGIN SELECT RAISE(ABORT, 'full'); END")
        }
        let results = SyncedFile.commitIntegrations(of: files)
        for (file, result) in zip(files, results) {
            let hasFailed = file === failing
            #expect((try? result.get()) == nil ? hasFailed : !hasFailed)
            #expect(file.hasQueuedUploads == hasFailed)
            #expect(file.version == (hasFailed ? 0 : 1))
        }
        try store.shards[failing.shard].pool.writeWithoutTransaction { try $0.execute(sql: "DROP TRIGGER full") }
        try merge(failing)
        #expect(SyncedFile.commitIntegrations(of: [failing]).allSatisfy { (try? $0.get()) != nil })
        #expect(failing.version == 1)
    }

    /// One call commits for all of them, and the machine stops when some are flushed.
    @Test func aCrashBetweenTheFlushesOfShardsLeavesEachFileWhole() throws {
        let files = try files(4)
        let before = try (0..<4).map { try log(of: $0).count }
        for file in files { try merge(file) }
        for result in SyncedFile.commitIntegrations(of: files) { _ = try result.get() }
        for flushed in 0...4 {
            let copy = try TemporaryDirectory(copyingManifestOf: directory.path)
            for shard in 0..<4 {
                let name = "shard-0\(shard).sqlite"
                try FileManager.default.copyItem(atPath: "\(directory.path)/\(name)", toPath: "\(copy.path)/\(name)")
                let log = try log(of: shard), rest = shard < flushed ? log : log.prefix(before[shard])
                try rest.write(to: URL(fileURLWithPath: "\(copy.path)/\(name)-wal"))
            }
            let crashed = try SQLiteStore(directory: copy.path)
            for file in files {
                let version: ServerVersion = file.shard < flushed ? 1 : 0
                #expect(try crashed.file(file.path)?.head.version == version, "\(flushed) shards, \(file.path)")
            }
            try crashed.close()
            let verification = try StoreVerification(directory: copy.path)
            #expect(try verification.checkDatabase() == [])
            try verification.checkFiles { #expect($0.damages == []) }
        }
    }

    /// The write-ahead log of a shard.
    private func log(of shard: Int) throws -> Data {
        try Data(contentsOf: URL(fileURLWithPath: "\(directory.path)/shard-0\(shard).sqlite-wal"))
    }

    @Test func commitsOfOneTransactionAreOfOneShard() throws {
        let files = try files(2)
        defer { withExtendedLifetime(files) {} }
        let commits = files.map { Commit(file: $0.id, lease: $0.lease, head: $0.head) }
        #expect(try code { try store.commit(commits) } == .storeFailed)
        #expect(store.commitByShard(commits).isEmpty)
    }

    /// The numbers are for ever: where a file is follows from its name alone.
    @Test func theShardOfAPathIsFixed() {
        let manifest = StoreManifest(shards: 8, stage: .ready)
        let shards = ["", "/a", "demo/\"values\"", "//p", "x"].map { manifest.shard(of: VirtualPath($0)) }
        #expect(shards == Self.shards)
    }

    private static let shards = [0, 4, 7, 3, 5]

    @Test func theNumberOfShardsIsThatOfTheFirstOpening() throws {
        let file = try files(1)[0]
        try store.close()
        let again = try SQLiteStore(directory: directory.path, options: .init(shards: 9))
        #expect(again.shardCount == 4)
        #expect(try again.contains(file.path))
        for count in [0, 65, -1] {
            let other = try TemporaryDirectory()
            #expect(throws: HistoryError(.storeUnusable, "")) {
                try SQLiteStore(directory: other.path, options: .init(shards: count))
            }
            #expect(try FileManager.default.contentsOfDirectory(atPath: other.path) == ["lock"])
        }
    }

    @Test func freePagesCanBeGivenBack() throws {
        for shard in store.shards {
            let found = try shard.pool.read { db in
                [try Int.fetchOne(db, sql: "PRAGMA auto_vacuum"), try Int.fetchOne(db, sql: "PRAGMA page_size")]
            }
            #expect(found == [2, 4096])
        }
    }

    @Test(arguments: [1, 8, 9, 64]) func allConnectionsThatReadAreBounded(shards: Int) throws {
        let directory = try TemporaryDirectory()
        let store = try SQLiteStore(directory: directory.path, options: .init(shards: shards))
        let readers = store.shards.map(\.pool.configuration.maximumReaderCount)
        #expect(readers.allSatisfy { $0 >= 2 && $0 <= StoreShard.readersMax })
        #expect(readers.reduce(0, +) <= StoreShard.allReadersMax)
        let cache = try store.shards[0].pool.read { db in try Int.fetchOne(db, sql: "PRAGMA cache_size") }
        #expect(cache == -StoreShard.readerCacheBytesMax >> 10)
        try store.close()
    }

    @Test("while all write-ahead logs together are too long, one with more than half of its share is emptied")
    func logs() throws {
        for shard in store.shards {
            try shard.pool.write { db in try db.execute(sql: "CREATE TABLE filler (content BLOB)") }
            #expect(store.writeAheadLogBytes < WriteAheadLog.bytesMax)
            for _ in 0..<20 {
                try shard.pool.write { db in try db.execute(sql: "INSERT INTO filler VALUES (randomblob(1048576))") }
            }
            try shard.commit([])
        }
        #expect(store.shards.map { $0.writeAheadLogBytes > 20 << 20 } == [true, true, true, false])
        #expect(store.shards[3].writeAheadLogBytes == 0)
    }

    @Test(arguments: -1...1) func logsAreTooLongAboveTheLimit(more: Int) {
        let sizes = WriteAheadLogSizes(count: 4)
        _ = sizes.limit(ofLog: 0, with: WriteAheadLog.bytesMax - 1_000)
        let limit = sizes.limit(ofLog: 1, with: 1_000 + more)
        #expect(limit == (more > 0 ? WriteAheadLog.bytesMax / 8 : WriteAheadLog.bytesMax))
    }

    @Test func nobodyElseCanReadIt() throws {
        _ = try files(4)
        for name in try FileManager.default.contentsOfDirectory(atPath: directory.path) {
            let attributes = try FileManager.default.attributesOfItem(atPath: directory.path + "/" + name)
            #expect(attributes[.posixPermissions] as? Int == 0o600, "\(name)")
        }
    }

    // MARK: Files that have no commit

    /// Opening a file costs no flush, and leaves nothing behind.
    @Test func aFileIsMadeByItsFirstCommit() throws {
        let path = VirtualPath("/new")
        var file: SyncedFile? = try SyncedFile(path: path, store: store)
        #expect(try store.contains(path))
        #expect(try store.file(path) == nil)
        #expect(try file?.clientFile(1) == ClientFile.reserved[1])
        #expect(try file?.clientFile(2) == nil)
        #expect(try file?.withState { try $0.canonicalJSON() } == ObjectGraph().canonicalJSON())
        file = nil
        #expect(try !store.contains(path))
        file = try SyncedFile(path: path, store: store)
        #expect(try file?.allocateIdent().ident == 2)
        file = nil
        #expect(try store.file(path)?.head.nextIdent == 3)
        #expect(try SyncedFile(path: path, store: store).clientFile(2) != nil)
    }

    @Test func aNewFileThatIsOpenedTwiceHasOneWriter() throws {
        let first = try SyncedFile.open("/new", in: store), second = try SyncedFile.open("/new", in: store)
        #expect(try code { _ = try first.allocateIdent() } == .leaseLost)
        #expect(try second.allocateIdent().ident == 2)
    }

    // MARK: Leases

    @Test func leasesGrowAlsoAcrossRestarts() throws {
        let path = VirtualPath("/a")
        let first = try store.open(path)
        store.close(first.id, first.lease)
        let second = try store.open(path)
        #expect(first.lease < second.lease)
        // What is closed cannot be written, and closing it again ends nobody else's lease.
        store.close(first.id, first.lease)
        #expect(
            try code { try store.commit([Commit(file: first.id, lease: first.lease, head: first.head)]) } == .leaseLost)
        try store.commit([Commit(file: second.id, lease: second.lease, head: second.head)])
        try store.close()
        let again = try SQLiteStore(directory: directory.path), third = try again.open(path)
        #expect(second.lease < third.lease)
        #expect(third.id == second.id)
    }

    /// Otherwise files would be looked for in the wrong ones, and their clients would have to reset.
    @Test func aStoreWithAnotherNumberOfShardsThanItsManifestSaysIsRefused() throws {
        try store.close()
        let manifest = URL(fileURLWithPath: directory.path + "/manifest.json")
        let text = try String(contentsOf: manifest, encoding: .utf8)
        for (count, reason) in [(2, "belongs to another store"), (5, "shard-04.sqlite is missing")] {
            let changed = text.replacingOccurrences(of: "\"shards\" : 4", with: "\"shards\" : \(count)")
            #expect(changed != text)
            try Data(changed.utf8).write(to: manifest)
            let error = #expect(throws: HistoryError.self) { try SQLiteStore(directory: directory.path) }
            #expect(error?.code == .storeUnusable && error?.reason.contains(reason) == true)
        }
    }

    // MARK: When a client was last seen

    /// Noted once a day, so that a client that only reads does not seem to be away.
    @Test func whoIdentifiesItselfIsSeen() throws {
        let file = try SyncedFile.open(in: store), client = try file.allocateIdent()
        for (time, expected) in [(1000 + 86_399, 1000), (1000 + 86_400, 87_400)] as [(UInt64, UInt64)] {
            _ = try file.identify(IdentRequest(file: client))
            #expect(file.hasIdentified)
            for result in SyncedFile.updateClientFiles(of: [(file, [])], at: time) { #expect(try result.get() == []) }
            #expect(!file.hasIdentified)
            #expect(try file.clientFile(client.ident)?.lastSeen == expected)
        }
    }

    /// Who comes back within the day makes no commit of its own, nor ends one that others wait for.
    @Test func whoWasSeenLatelyIsNotNoted() throws {
        let file = try SyncedFile.open(in: store), client = try file.allocateIdent()
        for (time, isNoted) in [(1000 + 86_399, false), (1000 + 86_400, true)] as [(UInt64, Bool)] {
            _ = try file.identify(IdentRequest(file: client))
            file.forgetIdentified(client.ident, at: time)
            #expect(file.hasIdentified == isNoted)
        }
    }

    // MARK: What is kept to explain merges

    @Test func whatMergingHasChangedIsKeptAsItWasReceived() throws {
        let file = try SyncedFile.open(in: store, keepsState: false)
        let idents = try file.allocateIdents(for: [nil, nil], at: 1)
        let uploads = (0..<2 as Range<Int64>).map { value in
            var changes = ChangesetWriter()
            changes.listInsert(1, at: 0, value: value, size: 0)
            return Upload([changes.bytes], from: 5, timestamp: ChangesetTime(500 - UInt64(value)))
        }
        for (ident, upload) in zip(idents, uploads) {
            var upload = upload
            upload.uploader = Uploader(release: 14_005_002, protocolVersion: 14)
            #expect(try file.integrate(upload, from: ident.ident, at: 1_000_000) == nil)
        }
        let (first, second, entry) = try file.read { view throws(HistoryError) in
            (try view.received(1), try view.received(2), try view.entry(2))
        }
        #expect(first == nil)
        #expect(second?.changeset == uploads[1].changesets[0].changeset && second?.time == 1_000_000)
        #expect(entry?.changeset != second?.changeset)
        #expect(entry?.base == 0 && entry?.uploader == Uploader(release: 14_005_002, protocolVersion: 14))
        #expect(try file.clientFile(3)?.newestReceipt == Receipt(version: 2, clientVersion: 5))
        try store.maintain(at: 1_000_000 + 30 * 86_400)
        #expect(try file.read { view throws(HistoryError) in try view.received(2) } == second)
        try store.maintain(at: 1_000_001 + 30 * 86_400) { false }
        #expect(try file.read { view throws(HistoryError) in try view.received(2) } == second)
        try store.maintain(at: 1_000_001 + 30 * 86_400)
        #expect(try file.read { view throws(HistoryError) in try view.received(2) } == nil)
    }

    /// A piece is a transaction: one that is large is left alone by commits for long.
    @Test func whatIsKeptIsFreedInPiecesAndShardByShard() throws {
        for shard in store.shards {
            try shard.pool.write { db in
                for version in 1...6 {
                    try db.execute(
                        sql: "INSERT INTO received (file, version, time, checksum, changeset) VALUES (1, ?, 1, x'', ?)",
                        arguments: [version, Data(count: 3 << 20)])
                }
            }
        }
        func counts() throws -> [Int?] {
            try store.shards.map { shard in
                try shard.pool.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM received") }
            }
        }
        try store.shards[0].pool.writeWithoutTransaction { db in
            try db.execute(
                sql: "CREATE TEMP TRIGGER bad BEFORE DELETE ON received BEGIN SELECT RAISE(ABORT, 'bad'); END")
        }
        var pieces = 0
        #expect(throws: HistoryError(.storeFailed, "")) {
            try store.maintain(at: .max) {
                pieces += 1
                return pieces <= 3
            }
        }
        #expect(try counts() == [6, 2, 6, 6])
        #expect(throws: HistoryError(.storeFailed, "")) { try store.maintain(at: .max) }
        #expect(try counts() == [6, 0, 0, 0])
        let freePages = try store.shards.map { shard in
            try shard.pool.read { db in try Int.fetchOne(db, sql: "PRAGMA freelist_count") }
        }
        #expect(freePages == [0, 0, 0, 0])
        let other = try TemporaryDirectory()
        try SQLiteStore(directory: other.path, options: .init(explainDays: .max)).maintain(at: .max)
    }

    /// Somebody has made it anew.
    @Test func aDatabaseThatCannotGivePagesBackIsMaintainedToo() throws {
        try store.shards[0].pool.writeWithoutTransaction { db in
            try db.execute(
                sql: """
                    PRAGMA auto_vacuum = NONE; VACUUM; CREATE TABLE filler (content BLOB);
                    INSERT INTO filler VALUES (zeroblob(1048576)); DROP TABLE filler;
                    """)
        }
        var pieces = 0
        try store.maintain(at: 1) {
            pieces += 1
            return pieces < 100
        }
        #expect(pieces < 100)
        let freePages = try store.shards[0].pool.read { try Int.fetchOne($0, sql: "PRAGMA freelist_count") ?? 0 }
        #expect(freePages > 200)
    }
}
