public import AnabranchCore
public import AnabranchReplica
import AnabranchRows
import Foundation
import GRDB

/// A replica as it was at one moment; later changes do not touch it. Its objects are read when they are needed.
public struct ReplicaSnapshot: Sendable {
    /// The state.
    public let state: ObjectGraph
    /// The numbers.
    public let record: ReplicaRecord
    /// The entries of its log.
    public let log: [LocalVersion]

    init(_ snapshot: DatabaseSnapshot) throws {
        (record, log) = try snapshot.read { db in (try ReplicaSchema.record(in: db), try ReplicaSchema.log(in: db)) }
        state = try SQLiteReplicaStore.table.state(in: snapshot)
    }
}

/// Reads a replica's file that another process may be writing. Without a snapshot it keeps nothing open, so that a
/// client reset can put another file in its place.
public final class ReplicaReader: Sendable {
    private let path: String

    /// Opens the file.
    /// - Throws: `ReplicaError` with the code `unknownFormat` if it is another kind of file, `storeFailed` if it is not
    ///   there or cannot be read.
    public init(path: String) throws(ReplicaError) {
        self.path = path
        _ = try snapshot()
    }

    /// What is there now.
    /// - Throws: `ReplicaError`, as when it is opened.
    public func snapshot() throws(ReplicaError) -> ReplicaSnapshot {
        try SQLiteReplicaStore.translatingErrors(path) {
            guard access(path, F_OK) == 0 else {
                throw ReplicaError(.storeFailed, "there is no replica \(path)")
            }
            let configuration = SQLiteReplicaStore.configuration(label: "anabranch.reader", isReadOnly: true)
            let pool = try DatabasePool(path: path, configuration: configuration)
            try pool.read { db in try ReplicaSchema.prepare(db, path: path) }
            return try ReplicaSnapshot(try pool.makeSnapshot())
        }
    }
}
