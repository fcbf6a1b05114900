import AnabranchChunks
import Foundation
import GRDB
import Synchronization

/// Contents that wait for upload or were published from here, and pins.
extension ContentCache {
    func pending() throws -> [Pending] {
        try perform { database in
            try Row.fetchAll(database, sql: "SELECT * FROM pending ORDER BY number").compactMap { row in
                guard let file = UUID(data: row["file"]), let content = Manifest(Array(row["content"] as Data)) else {
                    return nil
                }
                return Pending(
                    file: file, content: content, base: (row["base"] as Data?).flatMap { ChunkHash(bytes: $0) },
                    name: row["name"], parent: (row["parent"] as Data?).flatMap { UUID(data: $0) },
                    modified: Date(timeIntervalSince1970: row["modified"]), isCopy: row["is_copy"])
            }
        }
    }

    /// Has a content that `store` has made wait for upload, in place of one of the same file that waits.
    func add(_ pending: Pending) throws {
        try perform { database in
            try Self.record(pending.content, database)
            try Self.insert(pending, database)
        }
    }

    private static func record(_ content: Manifest, _ database: Database) throws {
        for (index, chunk) in content.chunks.enumerated() {
            try record(chunk, content.byteCount(ofChunk: index), database)
        }
    }

    private static func insert(_ pending: Pending, _ database: Database) throws {
        try database.execute(
            sql: """
                INSERT OR REPLACE INTO pending
                SELECT ?, ?, ?, ?, ?, ?, ?, coalesce(max(number), 0) + 1 FROM pending
                """,
            arguments: [
                pending.file.data, Data(pending.content.bytes), pending.base.map { Data($0.bytes) }, pending.name,
                pending.parent?.data, pending.modified.timeIntervalSince1970, pending.isCopy,
            ])
    }

    /// A content is published: as that of its file, or not at all, since it has become a copy, which waits now.
    func finish(_ done: Pending, isPublished: Bool, copy: Pending? = nil) throws {
        try perform { database in
            try database.execute(
                sql: "DELETE FROM pending WHERE file = ? AND content = ?",
                arguments: [done.file.data, Data(done.content.bytes)])
            if let copy { try Self.insert(copy, database) }
            if isPublished {
                try database.execute(
                    sql: "INSERT OR REPLACE INTO published VALUES (?, ?)",
                    arguments: [done.file.data, Data(done.content.bytes)])
            }
        }
        if isPublished { published.withLock { $0[done.file] = done.content.id } }
    }

    /// The content id that was published last from here; nil if none was, or another one names it.
    func publishedContent(of file: UUID) -> ChunkHash? { published.withLock { $0[file] } }

    var publishedFiles: [UUID] { published.withLock { Array($0.keys) } }

    /// A content that was published from here is known to who wrote next, or has lost, so that a copy waits.
    /// - Parameter content: nothing happens if another one was published since.
    /// - Returns: the copy.
    @discardableResult
    func forgetPublished(
        of file: UUID, _ content: ChunkHash, copy makeCopy: ((Manifest) -> Pending)? = nil
    ) throws -> Pending? {
        let copy = try perform { database -> Pending? in
            let bytes = try Data.fetchOne(
                database, sql: "SELECT content FROM published WHERE file = ?", arguments: [file.data])
            guard let found = bytes.flatMap({ Manifest(Array($0)) }), found.id == content else { return nil }
            let copy = makeCopy?(found)
            if let copy { try Self.insert(copy, database) }
            try database.execute(sql: "DELETE FROM published WHERE file = ?", arguments: [file.data])
            return copy
        }
        published.withLock { if $0[file] == content { $0[file] = nil } }
        return copy
    }

    // MARK: Pins

    func setPin(_ file: UUID, _ isPinned: Bool) throws {
        try perform { database in
            try database.execute(
                sql: isPinned ? "INSERT OR IGNORE INTO pin VALUES (?)" : "DELETE FROM pin WHERE file = ?",
                arguments: [file.data])
        }
    }

    func pins() throws -> [UUID] {
        try perform { try Data.fetchAll($0, sql: "SELECT file FROM pin").compactMap { UUID(data: $0) } }
    }
}
