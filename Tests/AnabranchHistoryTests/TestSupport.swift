import AnabranchCore
@testable import AnabranchHistory
@testable import AnabranchPostgres
import AnabranchPostgresWire
import AnabranchSQLite
import AnabranchTesting
import Foundation
import GRDB
import Synchronization
import Testing

/// A directory that goes away with this object; in memory where the system has plenty.
final class TemporaryDirectory {
    let path: String

    init() throws {
        path = TestFolder.parent + "/anabranch-tests-" + UUID().uuidString
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    }

    /// With what a store needs beside its databases.
    convenience init(copyingManifestOf directory: String) throws {
        try self.init()
        try FileManager.default.copyItem(atPath: directory + "/manifest.json", toPath: path + "/manifest.json")
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }
}

/// The stores under test, and how each is closed and opened again.
enum StoreKind: String, CaseIterable, CustomTestStringConvertible {
    case memory
    case sqlite = "SQLite"
    case shards = "SQLite in eight shards"
    case postgres = "PostgreSQL"

    /// Those over which every test runs.
    static let allCases: [StoreKind] = [.memory, .sqlite, .shards]
    /// Those that the suites about the contract of a store ask.
    static let withPostgres = allCases + [.postgres]

    var testDescription: String { rawValue }
}

/// A database without tables, on the server that tests share. It is cleared for the next one when this object goes.
final class TestDatabase: Sendable {
    private static let free = Mutex<[String]>([])
    /// The databases of stores: a test may keep a file alone, which has its store.
    private static let used = Mutex<[Used]>([])

    private struct Used {
        weak var store: PostgresStore?
        let database: TestDatabase
    }

    let url: String
    private let name: String

    init() throws {
        let server = try TestPostgres.shared.get()
        name = try Self.free.withLock { $0.popLast() } ?? server.makeDatabase()
        url = server.url(name)
    }

    /// Stays as long as the store.
    func stay(for store: PostgresStore) {
        // The others are cleared outside the lock, since that takes time.
        _ = Self.used.withLock { used in
            let unused = used.filter { $0.store == nil }
            used.removeAll { $0.store == nil }
            used.append(Used(store: store, database: self))
            return unused.map(\.database)
        }
    }

    deinit {
        guard let connection = try? PostgresConnection(url, seconds: 60),
            (try? connection.query("DROP SCHEMA IF EXISTS anabranch_store CASCADE")) != nil
        else { return }
        Self.free.withLock { $0.append(name) }
    }
}

extension PostgresStore {
    /// The server of the tests is not durable.
    convenience init(
        _ database: TestDatabase, writers: Int = 4, seconds: Double = 60, isShared: Bool = false
    ) throws(HistoryError) {
        var options = Options()
        options.isShared = isShared
        options.requiresDurability = false
        options.writers = writers
        options.seconds = seconds
        try self.init(database.url, options: options)
        database.stay(for: self)
    }
}

/// A store that can be stopped and started.
final class TestStore {
    private let directory: TemporaryDirectory
    private let database: TestDatabase?
    private(set) var store: any HistoryStore

    init(_ kind: StoreKind) throws {
        directory = try TemporaryDirectory()
        let database = kind == .postgres ? try TestDatabase() : nil
        self.database = database
        store =
            switch kind {
            case .postgres: try PostgresStore(try #require(database))
            case .memory: InMemoryStore()
            case .sqlite: try SQLiteStore(oneShardIn: directory.path)
            case .shards: try SQLiteStore(directory: directory.path)
            }
    }

    var path: String { directory.path }

    /// Another path whose file is in the same shard.
    func neighbour(of path: String) throws -> String {
        let shard = try store.open(VirtualPath(path)).id.shard
        return try #require(
            try (0..<1_000).lazy.map { "/neighbour \($0)" }.first { path in
                try store.open(VirtualPath(path)).id.shard == shard
            })
    }

    /// Starts anew on what is durable; memory counts as durable for the store in memory.
    func restart(isClosed: Bool = false) throws {
        if let running = store as? PostgresStore, let database {
            if !isClosed { running.close() }
            store = try PostgresStore(database)
        }
        guard let running = store as? SQLiteStore else { return }
        if !isClosed { try running.close() }
        store = try SQLiteStore(directory: directory.path)
    }

    /// Checks that nothing on the disk is damaged; the store has to be restarted for further use.
    func verify() throws {
        if let database {
            let reader = try PostgresReader(database.url)
            #expect(try reader.checkStore() == [])
            try reader.forEachFile { file in
                let damages = try reader.check(file).damages
                #expect(damages == [], "\(file.path)")
            }
        }
        guard let running = store as? SQLiteStore else { return }
        try running.close()
        let verification = try StoreVerification(directory: directory.path)
        #expect(try verification.checkDatabase() == [])
        try verification.checkFiles { #expect($0.damages == []) }
    }
}

extension SQLiteStore {
    /// Tests that look into the database have all files in one.
    convenience init(oneShardIn path: String) throws(HistoryError) {
        try self.init(directory: path, options: Options(shards: 1))
    }
}

extension SyncedFile {
    /// Takes the smallest step of an integration, and commits what is merged with it.
    /// - Returns: what was integrated or refused; nil if nothing was.
    func stepIntegration(at time: UInt64, isLong: Bool = false) throws -> IntegrationReport? {
        var limit = StepLimit.smallest
        guard try advanceIntegration(at: time, until: &limit, isLong: isLong) else { return nil }
        let report = try SyncedFile.commitIntegrations(of: [self])[0].get()
        return report.outcomes.isEmpty ? nil : report
    }

    /// A file with predictable salts; most tests are about its log alone, and do not care what changesets do to
    /// objects.
    static func open(
        _ path: String = "/a", in store: any HistoryStore, seed: UInt64 = 1, keepsState: Bool = false,
        destructiveSchema: DestructiveSchema = .allow, cachedObjectsMax: Int = 16_384, tailBytesMax: Int = 4 << 20,
        commitBytesMax: Int? = nil
    ) throws(HistoryError) -> SyncedFile {
        let file = try SyncedFile(
            path: VirtualPath(path), store: store, keepsState: keepsState, destructiveSchema: destructiveSchema,
            cachedObjectsMax: cachedObjectsMax, tailBytesMax: tailBytesMax, randomness: SeededRandom(seed: seed))
        if let commitBytesMax { file.mergeOptions.commitBytesMax = commitBytesMax }
        return file
    }

    /// A new client file of nobody.
    func allocateIdent() throws -> SaltedFileID { try allocateIdents(for: [nil], at: 1000)[0] }

    /// Integrates one upload at once and returns the refusal, if any.
    @discardableResult
    func integrate(_ upload: Upload, from ident: ClientFileID, at time: UInt64 = 1000) throws -> HistoryError? {
        try enqueue(upload, from: ident)
        return try integrate(at: time).outcomes.first { $0.ident == ident }?.refusal
    }

    /// Seals all that is due, or so many segments of it.
    func seal(_ policy: SealingPolicy, segments count: Int = .max) throws {
        for _ in 0..<count {
            guard let commit = try sealIfDue(policy) else { return }
            try self.commit(commit)
        }
    }

    /// A client file as it is, whether that is written or not.
    func newest(_ ident: ClientFileID) throws -> ClientFile? {
        try read { view throws(HistoryError) in try current(ident, in: view) }
    }

    func reciprocals(of ident: ClientFileID) throws -> [ReciprocalChangeset] {
        try read { view throws(HistoryError) in
            try view.reciprocals(of: ident, in: VersionRange(after: 0, through: .largest))
        }
    }
}

extension Upload {
    /// Changesets with the client versions `first`, `first + 1` … on one base.
    init(
        _ changesets: [[UInt8]], from first: ClientVersion = 1, base: ServerVersion = 0, timestamp: ChangesetTime = 500
    ) {
        let uploaded = zip(first.rawValue..., changesets).map { version, bytes in
            UploadedChangeset(
                cursor: UploadCursor(clientVersion: ClientVersion(version), serverVersion: base), timestamp: timestamp,
                changeset: bytes)
        }
        let last = first + UInt64(changesets.count) - 1
        self.init(progress: UploadCursor(clientVersion: last, serverVersion: base), changesets: uploaded)
    }
}

/// The code of the error that `body` throws; nil if it throws none.
func code(_ body: () throws -> Void) throws -> HistoryError.Code? {
    do {
        try body()
        return nil
    } catch let error as HistoryError {
        return error.code
    }
}

/// Databases that no server has made.
enum SQLiteFixture {
    /// With a table.
    static func makeDatabase(at path: String, applicationID: Int, version: Int) throws {
        try? FileManager.default.removeItem(atPath: path)
        let queue = try DatabaseQueue(path: path)
        try queue.writeWithoutTransaction { db in
            try db.execute(sql: "CREATE TABLE t (x); PRAGMA user_version = \(version)")
            try db.execute(sql: "PRAGMA application_id = \(applicationID)")
        }
        try queue.close()
    }

    /// A page, and no table in it.
    static func makeEmptyDatabase(at path: String, applicationID: Int = 0) throws {
        let queue = try DatabaseQueue(path: path)
        try queue.writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA application_id = \(applicationID)")
            try db.execute(sql: "CREATE TABLE t (x); DROP TABLE t; VACUUM")
        }
        try queue.close()
    }
}

extension Array where Element == (ident: ClientFileID, upload: Upload) {
    /// Removes the first changesets of a client.
    mutating func take(_ count: Int, from ident: ClientFileID) -> [UploadedChangeset] {
        var taken: [UploadedChangeset] = []
        while taken.count < count, let place = firstIndex(where: { $0.ident == ident }) {
            let part = self[place].upload.changesets.prefix(count - taken.count)
            taken += part
            self[place].upload.changesets.removeFirst(part.count)
            if self[place].upload.changesets.isEmpty { remove(at: place) }
        }
        return taken
    }
}
