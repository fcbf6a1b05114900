import Foundation
import GRDB

/// Stores of older formats, which nothing writes any more.
enum OlderStore {
    /// Makes a store such a one. Nobody may have it open.
    /// - Parameters:
    ///   - shards: those that are not brought to this format yet; if the first one is, neither is the manifest.
    ///   - statements: take away what its tables lacked, beside `content_bytes`.
    static func make(
        in directory: String, format: Int, shards: Range<Int> = 0..<1, without statements: String = ""
    ) throws {
        let mark = "PRAGMA user_version = \(format)"
        for shard in shards {
            try execute(
                "ALTER TABLE log_entry DROP COLUMN content_bytes; \(statements); \(mark)",
                in: directory + "/shard-0\(shard).sqlite")
        }
        try execute(mark, in: directory + "/anabranch.sqlite")
        guard shards.lowerBound == 0 else { return }
        let manifest = directory + "/manifest.json"
        try String(contentsOfFile: manifest, encoding: .utf8).replacing(/"format" : [0-9]+/, with: "\"format\" : \(format)")
            .write(toFile: manifest, atomically: true, encoding: .utf8)
    }

    private static func execute(_ sql: String, in path: String) throws {
        let queue = try DatabaseQueue(path: path)
        try queue.writeWithoutTransaction { db in try db.execute(sql: sql) }
        try queue.close()
    }
}
