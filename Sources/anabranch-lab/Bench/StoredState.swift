import AnabranchCore
import AnabranchRows
import CoreFoundation
import Foundation
import GRDB

/// A state in a database that is laid out like a shard of a store, and never flushed.
struct StoredState {
    private let pool: DatabasePool
    private let log: String
    private let table = StateTable(file: 1)
    var state: ObjectGraph

    /// Calls `body` with an empty state, and removes its database afterwards.
    static func withTemporary(_ body: (inout StoredState) throws -> Void) throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("anabranch-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        var stored = try StoredState(in: folder)
        try body(&stored)
    }

    private init(in folder: URL) throws {
        var configuration = Configuration()
        configuration.prepareDatabase { try $0.execute(sql: "PRAGMA synchronous = OFF; PRAGMA wal_autocheckpoint = 0") }
        let path = folder.appendingPathComponent("state.sqlite").path
        log = path + "-wal"
        let queue = try DatabaseQueue(path: path)
        try queue.writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA page_size = 4096; PRAGMA auto_vacuum = INCREMENTAL; \(StateTable.sql)")
        }
        try queue.close()
        pool = try DatabasePool(path: path, configuration: configuration)
        state = try table.state(in: pool)
    }

    /// Makes a change and commits it.
    /// - Returns: the bytes of the rows that were written.
    @discardableResult
    mutating func write(_ body: (WriteTransaction) throws -> Void) throws -> Int {
        let changes = try state.write(as: 1, body).changes
        let writes = try pool.read { _ in try state.rowWrites(of: changes) }
        try pool.write { try table.write(writes, in: $0) }
        return writes.rows.reduce(0) { $0 + $1.bytes.count }
    }

    /// The bytes of all rows together.
    var rowBytes: Int {
        get throws {
            try pool.read { try Int.fetchOne($0, sql: "SELECT SUM(LENGTH(content)) FROM state_row") ?? 0 }
        }
    }

    func emptyLog() throws { try pool.writeWithoutTransaction { _ = try $0.checkpoint(.truncate) } }

    var logBytes: Int { (try? FileManager.default.attributesOfItem(atPath: log)[.size] as? Int) ?? 0 }
}

/// The processor time of this process, which waits for nobody else.
enum ProcessorTime {
    static var milliseconds: Double {
        var time = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        return Double(time.tv_sec) * 1e3 + Double(time.tv_nsec) / 1e6
    }
}
