import AnabranchCore
import AnabranchTesting
import Foundation
import GRDB
import Testing

@testable import AnabranchHistory
@testable import AnabranchSQLite

/// A deleted file is gone at once; what it occupied goes piece by piece.
@Suite struct DeletionTests {
    private static let path = VirtualPath("/a"), word = [UInt8]("a word that is nowhere else".utf8)

    /// A file with something of all that there is.
    private static func fill(_ test: TestStore, _ path: String = "/a", word: [UInt8] = word) throws -> SyncedFile {
        let file = try SyncedFile(path: VirtualPath(path), store: test.store)
        for _ in 0..<2 { _ = try file.allocateIdent() }
        let object = ObjectName(className: "A", key: 1), field = FieldPath(object: object, field: "data")
        try file.enqueue(
            Upload([
                ChangesetWriter([.addTable("A"), .addColumn("A", "data", .binary), .createObject(object)]).bytes,
                ChangesetWriter([.update(field, .binary(word))]).bytes,
            ]), from: 2)
        _ = try file.integrate(at: 9)
        // The first is older than what is in the log, and changed; the second is newer, and the log becomes another one
        // for this client.
        let schema = ChangesetWriter([.addTable("A"), .addColumn("A", "data", .binary), .createObject(object)]).bytes
        let older = ChangesetWriter([.update(field, .binary(word + [1]))]).bytes
        try file.enqueue(Upload([schema, older], timestamp: 400), from: 3)
        try file.enqueue(
            Upload([ChangesetWriter([.update(field, .binary(word))]).bytes], from: 3, timestamp: 700), from: 3)
        _ = try file.integrate(at: 9)
        let key = String(decoding: word, as: UTF8.self)
        _ = try file.write(idempotencyKey: key, at: 800) { try $0.create("A", key: 7) }
        let place = RecordPlace(space: 1, kind: 1, key: word)
        var records = Commit(file: file.id, lease: file.lease, head: file.head)
        records.records = [RecordChange(place: place, value: word)]
        try file.commit(records)
        let seal = try #require(try file.sealIfDue(SealingPolicy(entriesMax: 2, restMin: 1)))
        try test.store.commit([seal])
        file.finish(seal, nil)
        _ = try file.makeGeneration(endingAt: .max)
        // As if its clients needed nothing, and there were an archive and views.
        try (test.store as? SQLiteStore)?.shards[file.id.shard].pool.write { db in
            try db.execute(
                sql: """
                    INSERT INTO archived_segment SELECT file, last, length(block), block FROM log_segment WHERE file = ?
                    """, arguments: [file.id.number])
            try db.execute(
                sql: """
                    INSERT INTO client_view (file, ident, query_version, changed, projected, first_number, last_number,
                    predicates, role, checksum) VALUES (:file, 3, 1, 1, 1, 1, 1, '{}', '{}', x'00')
                    """, arguments: ["file": file.id.number])
            try db.execute(
                sql: """
                    INSERT INTO view_entry (file, ident, number, version, client_version, timestamp, origin, changeset,
                    checksum, content) VALUES (:file, 3, 1, 1, 0, 0, 1, x'', x'00', x'01')
                    """, arguments: ["file": file.id.number])
            try db.execute(
                sql: "INSERT INTO view_content VALUES (:file, x'01', x'00')", arguments: ["file": file.id.number])
            try db.execute(
                sql: "INSERT INTO view_field VALUES (:file, x'41', 1, x'', NULL)",
                arguments: ["file": file.id.number])
            try db.execute(
                sql: "INSERT INTO withheld_schema VALUES (:file, 3, x'00', x'00')", arguments: ["file": file.id.number])
            try db.execute(
                sql: "INSERT INTO ingested VALUES (:file, 3, x'41', 0, x'31', 1, NULL, x'7b7d', x'00')",
                arguments: ["file": file.id.number])
        }
        return file
    }

    private static func delete(_ file: SyncedFile) throws {
        let commit = file.deletion()
        try file.store.commit([commit])
        file.finish(commit, nil)
    }

    @Test(arguments: StoreKind.allCases) func aDeletedFileIsGoneAndItsPathIsFree(kind: StoreKind) throws {
        let test = try TestStore(kind)
        let neighbour = try test.neighbour(of: "/a")
        let file = try Self.fill(test)
        let other = try Self.fill(test, neighbour)
        let log = try other.log()
        try Self.delete(file)
        #expect(try !test.store.contains(Self.path))
        #expect(try code { _ = try file.allocateIdent() } == .leaseLost)
        for isRestarted in [false, true] {
            if isRestarted { try test.restart() }
            let again = try test.store.open(Self.path)
            #expect(again.head == FileHead() && again.id != file.id)
            try test.store.read(again.id) { view throws(HistoryError) in
                #expect(try view.clientFile(2) == nil)
                #expect(try view.entry(1) == nil)
            }
            test.store.close(again.id, again.lease)
            let files = try [Self.path, VirtualPath("/never")].map { try SyncedFile(path: $0, store: test.store) }
            let digests = try files.map { try $0.withState { try StateDigest(of: $0) } }
            #expect(digests[0] == digests[1])
            #expect(try SyncedFile(path: VirtualPath(neighbour), store: test.store).log() == log)
        }
        let new = try Self.fill(test)
        #expect(try new.log().count == log.count)
        #expect(try test.store.freeDeleted { true })
        #expect(try new.log().count == log.count && new.clientFile(3) != nil)
    }

    @Test(arguments: StoreKind.allCases) func aFileThatWasNeverWrittenCanBeDeleted(kind: StoreKind) throws {
        let test = try TestStore(kind)
        let file = try SyncedFile(path: Self.path, store: test.store)
        try Self.delete(file)
        #expect(try !test.store.contains(Self.path))
        #expect(try test.store.freeDeleted { true })
    }

    @Test func nothingOfItIsLeftInTheDatabaseNorInItsLog() throws {
        let test = try TestStore(.sqlite)
        func isOnDisk() throws -> Bool {
            let names = try FileManager.default.contentsOfDirectory(atPath: test.path)
            return try names.contains { name in
                try Data(contentsOf: URL(fileURLWithPath: test.path + "/" + name)).range(of: Data(Self.word)) != nil
            }
        }
        let file = try Self.fill(test), other = try Self.fill(test, "/b", word: [7])
        #expect(try isOnDisk())
        try Self.delete(file)
        #expect(try test.store.freeDeleted { true })
        #expect(try !isOnDisk())
        #expect(try other.log().count == 6)
    }

    @Test func whatSomebodyStillReadsIsFreedLater() throws {
        let test = try TestStore(.sqlite), store = try #require(test.store as? SQLiteStore)
        let file = try Self.fill(test), pool = store.shards[0].pool
        // What the reader sees is in the write-ahead log.
        let snapshot = try pool.makeSnapshot()
        try Self.delete(file)
        #expect(try !store.freeDeleted { true })
        #expect(try pool.read(SQLiteFile.deleted) == [file.id.number])
        try snapshot.close()
        #expect(try store.freeDeleted { true })
        #expect(try pool.read(SQLiteFile.deleted) == [])
        let freePages = try pool.read { db in try Int.fetchOne(db, sql: "PRAGMA freelist_count") }
        #expect(freePages == 0)
    }

    @Test func aDamagedRowIsNoObstacle() throws {
        let test = try TestStore(.sqlite), store = try #require(test.store as? SQLiteStore)
        let file = try Self.fill(test)
        try store.shards[0].pool.write { db in
            try db.execute(sql: "PRAGMA writable_schema = ON")
            try db.execute(
                sql: """
                    UPDATE sqlite_schema SET sql = replace(sql, 'changeset BLOB NOT NULL', 'changeset BLOB')
                    WHERE name = 'log_entry'
                    """)
            try db.execute(sql: "PRAGMA writable_schema = RESET")
        }
        try store.shards[0].pool.write { db in try db.execute(sql: "UPDATE log_entry SET changeset = NULL") }
        try Self.delete(file)
        #expect(try store.freeDeleted { true })
    }

    /// Else a table that comes later is forgotten.
    @Test func everyTableWithRowsOfFilesIsFreed() throws {
        let test = try TestStore(.sqlite), store = try #require(test.store as? SQLiteStore)
        let file = try Self.fill(test), pool = store.shards[0].pool
        func counts() throws -> [String: Int] {
            try pool.read { db in
                let tables = try String.fetchAll(
                    db,
                    sql: """
                        SELECT name FROM sqlite_master WHERE type = 'table' AND name <> 'deleted_file'
                        AND EXISTS (SELECT 1 FROM pragma_table_info(sqlite_master.name) AS c WHERE c.name = 'file')
                        """)
                return try Dictionary(
                    uniqueKeysWithValues: tables.map {
                        ($0, try Int.fetchOne(db, sql: "SELECT count(*) FROM \($0)") ?? 0)
                    })
            }
        }
        let before = try counts()
        #expect(Set(before.keys) == Set(SQLiteFile.tablesOfFiles.map(\.name)))
        for (table, count) in before { #expect(count > 0, "\(table) has no rows: the test says nothing about it") }
        try Self.delete(file)
        #expect(try store.freeDeleted { true })
        for (table, count) in try counts() { #expect(count == 0, "\(table)") }
    }

    /// As when the process ends between any two pieces.
    @Test func whatIsLeftIsFreedLaterAndIsNoDamage() throws {
        let test = try TestStore(.sqlite)
        let number = try Self.fill(test).id.number
        try Self.delete(try SyncedFile(path: Self.path, store: test.store))
        var restarts = 0, isFreed = false
        while !isFreed {
            let store = try #require(test.store as? SQLiteStore)
            var pieces = 0
            isFreed = try store.freeDeleted {
                pieces += 1
                return pieces == 1
            }
            try store.close()
            let damages = try { try StoreVerification(directory: test.path).checkDatabase() }()
            #expect(damages == [], "after \(restarts) pieces")
            try test.restart(isClosed: true)
            // Its rows would be those of a new file.
            if !isFreed { #expect(try test.store.open(VirtualPath("/\(restarts)")).id.number > number) }
            restarts += 1
        }
        #expect(restarts == SQLiteFile.tablesOfFiles.count + 1)
    }

    @Test(arguments: StoreKind.allCases) func theFilesOfAUserAreListed(kind: StoreKind) throws {
        let test = try TestStore(kind)
        for (path, users) in [("/a", ["ann", "ann"]), ("/b", ["ann", nil]), ("/c", ["bob"]), ("/d", ["bob", "ann"])] {
            _ = try SyncedFile(path: VirtualPath(path), store: test.store).allocateIdents(for: users, at: 9)
        }
        let catalog = try #require(test.store as? any HistoryCatalog)
        let all = [
            UserFile(path: VirtualPath("/a"), ownCount: 2, otherCount: 0),
            UserFile(path: VirtualPath("/b"), ownCount: 1, otherCount: 1),
            UserFile(path: VirtualPath("/d"), ownCount: 1, otherCount: 1),
        ]
        #expect(try catalog.files(of: "ann", after: nil, countMax: 9) == all)
        #expect(try catalog.files(of: "ann", after: VirtualPath("/a"), countMax: 1) == [all[1]])
        #expect(try catalog.files(of: "eve", after: nil, countMax: 9) == [])
    }
}
