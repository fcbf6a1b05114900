import AnabranchChunks
import Foundation
import GRDB

/// The things that space and folder had in common when they were compared last, in a file.
struct MirrorRows: Sendable {
    struct Row: Equatable, Sendable {
        let key: UUID
        var path: SpacePath
        var found: FolderScan.Found
        /// The content id; nil for a folder.
        let content: String?
        /// The hash of the hashes of its chunks; nil for a folder, and in rows of earlier releases.
        let chunks: Data?

        init(key: UUID, path: SpacePath, found: FolderScan.Found, content: Manifest?) {
            (self.key, self.path, self.found) = (key, path, found)
            (self.content, chunks) = (content?.id.description, content.map { MirrorRows.hash(of: $0.chunks) })
        }

        fileprivate init(key: UUID, path: SpacePath, found: FolderScan.Found, content: String?, chunks: Data?) {
            (self.key, self.path, self.found, self.content, self.chunks) = (key, path, found, content, chunks)
        }
    }

    static func hash(of chunks: [ChunkHash]) -> Data { Data(ChunkHash(of: chunks.flatMap(\.bytes)).bytes) }

    /// The contents of the folder that are being taken up. A process that ends before the row of one is written may
    /// have told the space already: for the next one, that is what folder and space have had in common.
    struct Begun: Sendable {
        fileprivate let database: DatabaseQueue

        func record(_ path: SpacePath, _ chunks: [ChunkHash]) throws {
            try MirrorRows.write(database) { database in
                try database.execute(
                    sql: "INSERT OR REPLACE INTO begun VALUES (?, ?)",
                    arguments: [path.description, MirrorRows.hash(of: chunks)])
            }
        }

        func isRecorded(_ path: SpacePath, _ chunks: [ChunkHash]) throws -> Bool {
            try MirrorRows.write(database) { database in
                try GRDB.Row.fetchOne(
                    database, sql: "SELECT 1 FROM begun WHERE path = ? AND chunks = ?",
                    arguments: [path.description, MirrorRows.hash(of: chunks)]) != nil
            }
        }
    }

    let begun: Begun
    private let database: DatabaseQueue
    private(set) var byKey: [UUID: Row] = [:]
    private(set) var byPath: [SpacePath: UUID] = [:]
    private var byInode: [UInt64: [UUID]] = [:]

    /// - Parameter folder: the mark of the folder. In another one than before, as after a disk was not mounted, nothing
    ///   was deleted: it has nothing in common with the space yet.
    /// - Throws: `SpaceError` if the file cannot be used.
    init(_ path: String, folder: String) throws {
        do {
            var settings = GRDB.Configuration()
            // Rows that a loss of power takes away are found again by comparing.
            settings.prepareDatabase { database in
                try database.execute(sql: "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL")
            }
            database = try DatabaseQueue(path: path, configuration: settings)
            begun = Begun(database: database)
            try database.write { database in
                try database.execute(
                    sql: """
                        CREATE TABLE IF NOT EXISTS mirrored (
                            key BLOB PRIMARY KEY, path TEXT, is_folder INTEGER, inode INTEGER, size INTEGER,
                            modified INTEGER, content TEXT, born INTEGER, chunks BLOB);
                        CREATE TABLE IF NOT EXISTS folder (mark TEXT);
                        CREATE TABLE IF NOT EXISTS begun (path TEXT PRIMARY KEY, chunks BLOB)
                        """)
                let known = Set(try database.columns(in: "mirrored").map(\.name))
                for (name, type) in [("born", "INTEGER DEFAULT 0"), ("chunks", "BLOB")] where !known.contains(name) {
                    try database.execute(sql: "ALTER TABLE mirrored ADD COLUMN \(name) \(type)")
                }
                guard try String.fetchOne(database, sql: "SELECT mark FROM folder") != folder else { return }
                try database.execute(sql: "DELETE FROM mirrored; DELETE FROM folder")
                try database.execute(sql: "INSERT INTO folder VALUES (?)", arguments: [folder])
            }
            for row in try database.read({ try GRDB.Row.fetchAll($0, sql: "SELECT * FROM mirrored") }) {
                guard let key = UUID(data: row["key"]), let path = try? SpacePath(row["path"] as String) else {
                    continue
                }
                let found = FolderScan.Found(
                    isFolder: row["is_folder"], inode: UInt64(bitPattern: row["inode"]), size: row["size"],
                    modified: row["modified"], born: row["born"])
                guard byPath[path] == nil else { continue }
                byKey[key] = Row(
                    key: key, path: path, found: found, content: row["content"], chunks: row["chunks"])
                byPath[path] = key
                byInode[found.inode, default: []].append(key)
            }
        } catch {
            throw SpaceError(.storageFailed, "\(path): \(error)")
        }
    }

    func row(at path: SpacePath) -> Row? { byPath[path].flatMap { byKey[$0] } }

    /// The rows of the files, or the folder, that had an inode.
    func rows(of inode: UInt64) -> [Row] { (byInode[inode] ?? []).compactMap { byKey[$0] } }

    /// The rows at some paths, and below those that were folders.
    func rows(within paths: Set<SpacePath>) -> [Row] {
        let own = paths.compactMap { row(at: $0) }, folders = Set(own.filter(\.found.isFolder).map(\.path))
        if folders.isEmpty { return own }
        return byKey.values.filter { row in
            paths.contains(row.path) || sequence(first: row.path) { $0.parent }.contains(where: folders.contains)
        }
    }

    /// Sets what both had in common of a thing. Another one that had this path is not known any more.
    mutating func set(_ row: Row) throws {
        if let other = byPath[row.path], other != row.key { try remove(other) }
        if let old = byKey[row.key] { forgetPlace(of: old) }
        byKey[row.key] = row
        byPath[row.path] = row.key
        byInode[row.found.inode, default: []].append(row.key)
        try write { database in
            try database.execute(
                sql: """
                    INSERT OR REPLACE INTO mirrored
                        (key, path, is_folder, inode, size, modified, content, born, chunks)
                    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
                    """,
                arguments: [
                    row.key.data, row.path.description, row.found.isFolder, Int64(bitPattern: row.found.inode),
                    row.found.size, row.found.modified, row.content, row.found.born, row.chunks,
                ])
            try database.execute(sql: "DELETE FROM begun WHERE path = ?", arguments: [row.path.description])
        }
    }

    mutating func remove(_ key: UUID) throws {
        guard let old = byKey.removeValue(forKey: key) else { return }
        forgetPlace(of: old)
        try write { try $0.execute(sql: "DELETE FROM mirrored WHERE key = ?", arguments: [key.data]) }
    }

    private mutating func forgetPlace(of row: Row) {
        if byPath[row.path] == row.key { byPath[row.path] = nil }
        byInode[row.found.inode]?.removeAll { $0 == row.key }
        if byInode[row.found.inode]?.isEmpty == true { byInode[row.found.inode] = nil }
    }

    /// Takes over how the disk composes the letters of names: to it, those that look the same are different ones. And
    /// when things were made, if they are the same as in rows that do not say it.
    mutating func takeOver(_ found: [SpacePath: FolderScan.Found]) throws {
        for (path, now) in found {
            guard var row = row(at: path) else { continue }
            let isUndated = row.found.born == 0 && now.born != 0 && row.found == now
            guard isUndated || !row.path.isComposed(as: path) else { continue }
            row.path = path
            if isUndated { row.found = now }
            try set(row)
        }
    }

    /// A path, as far as it is known how the disk composes its letters.
    func spelled(_ path: SpacePath) -> SpacePath {
        if let row = row(at: path) { return row.path }
        return path.parent.map { spelled($0).child(path.name) } ?? path
    }

    /// Everything at and below a path is at another one now.
    mutating func move(_ path: SpacePath, to target: SpacePath) throws {
        for row in byKey.values where path.contains(row.path) {
            var row = row
            row.path = SpacePath(
                unchecked: target.components + row.path.components.dropFirst(path.components.count))
            try set(row)
        }
    }

    private func write(_ body: (Database) throws -> Void) throws { try Self.write(database, body) }

    private static func write<Value>(_ database: DatabaseQueue, _ body: (Database) throws -> Value) throws -> Value {
        do { return try database.write(body) } catch { throw SpaceError(.storageFailed, "\(error)") }
    }
}
