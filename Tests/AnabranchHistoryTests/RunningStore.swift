import AnabranchCore
import AnabranchHistory
import AnabranchTesting
import Foundation
import GRDB
import Testing

@testable import AnabranchSQLite

/// A data directory as a server has it, in use: a store of four shards with some files, accounts and keys; and places
/// for copies of it.
final class RunningStore {
    private let folder: TemporaryDirectory
    private(set) var store: SQLiteStore
    private(set) var files: [SyncedFile]
    private var accounts: SQLiteAccountStore
    private var userCount = 0
    private var number: UInt64 = 0

    var path: String { folder.path + "/data" }
    var backup: String { folder.path + "/backup" }
    var restored: String { folder.path + "/restored" }

    init() throws {
        folder = try TemporaryDirectory()
        let path = folder.path + "/data"
        store = try SQLiteStore(directory: path, options: .init(shards: 4))
        accounts = try SQLiteAccountStore(directory: path)
        files = try Self.files(in: store)
        for name in ["keys.json", "admin-token"] {
            try Data("secret".utf8).write(to: URL(fileURLWithPath: path + "/" + name))
        }
        try write()
    }

    private static func files(in store: SQLiteStore) throws -> [SyncedFile] {
        try (0..<8).map { try SyncedFile.open("/file \($0)", in: store, seed: UInt64($0)) }
    }

    /// A new user writes into each file.
    func write() throws {
        userCount += 1
        number += 1
        let ident = "user \(userCount)"
        try accounts.add(
            User(
                ident: ident, app: "a", identities: [Identity(ident: "i" + ident, provider: "p", name: ident)],
                createdAt: 5))
        for file in files {
            let client = try file.allocateIdents(for: [ident], at: 1000)[0].ident
            let changeset = ChangesetWriter.setting(Int64(number % 3), to: Int64(number))
            #expect(try file.integrate(Upload([changeset], timestamp: ChangesetTime(number)), from: client) == nil)
        }
    }

    /// Commits bytes to shards; they are no damage.
    func grow(_ shards: [StoreShard], byMebibytes count: Int) throws {
        for shard in shards {
            try shard.pool.write { db in
                try db.execute(sql: "CREATE TABLE IF NOT EXISTS filler (content BLOB)")
                for _ in 0..<count { try db.execute(sql: "INSERT INTO filler VALUES (randomblob(1048576))") }
            }
        }
    }

    var versions: [VirtualPath: ServerVersion] {
        Dictionary(uniqueKeysWithValues: files.map { ($0.path, $0.version) })
    }

    /// As a server ends, and another one starts.
    func restart() throws {
        try store.close()
        try accounts.close()
        store = try SQLiteStore(directory: path)
        accounts = try SQLiteAccountStore(directory: path)
        files = try Self.files(in: store)
    }

    /// The files as they are while the store is open.
    func copyAsAfterACrash() throws -> TemporaryDirectory {
        let copy = try TemporaryDirectory()
        for name in try FileManager.default.contentsOfDirectory(atPath: path) where !name.hasSuffix("-shm") {
            try FileManager.default.copyItem(atPath: path + "/" + name, toPath: copy.path + "/" + name)
        }
        return copy
    }
}
