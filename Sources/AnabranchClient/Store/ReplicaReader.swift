public import AnabranchCore
public import AnabranchReplica
import AnabranchRows
import Foundation
import GRDB

/// A replica as it was at one moment; later changes do not touch it. Its objects are read when they are needed.
public struct ReplicaSnapshot: Sendable {
    /// The objects at that moment.
    public let state: ObjectGraph
    /// The file's ident, its cursors and its subscriptions at that moment.
    public let record: ReplicaRecord
    /// The entries of its log at that moment: local changes that the server had not acknowledged, or that changes which
    /// were not downloaded yet may have to be merged with.
    public let log: [LocalVersion]
    private let snapshot: DatabaseSnapshot

    init(_ snapshot: DatabaseSnapshot) throws {
        (record, log) = try snapshot.read { db in try ReplicaSchema.recordAndLog(in: db) }
        state = try SQLiteReplicaStore.table.state(in: snapshot)
        self.snapshot = snapshot
    }

    /// Reads everything, and checks that it is what was written (`Spec/Replica.md`, section 2.6), and that nothing is
    /// missing, which would not be noticed when single objects are read.
    /// - Throws: `ReplicaError` with the code `damaged`, and the place.
    public func verify() throws(ReplicaError) {
        try SQLiteReplicaStore.translatingErrors(snapshot.path) {
            try snapshot.read { db in
                let finding = try String.fetchOne(db, sql: "PRAGMA integrity_check(1)") ?? ""
                guard finding == "ok" else { throw ReplicaError(.damaged, finding) }
                for version in log {
                    _ = try ReplicaSchema.changeset(of: version.number, in: db)
                    _ = try ReplicaSchema.reciprocal(of: version.number, in: db)
                }
                _ = try ReplicaSchema.bootstrapParts(in: db)
            }
            _ = try StateDigest(of: state)
            guard try !state.hasDamagedLinks() else {
                throw ReplicaError(.damaged, "its links are not those of its objects")
            }
            let isIndexWhole = try snapshot.read { db in
                try PropertyIndex(of: state, in: db).isWhole(of: state, in: db)
            }
            guard isIndexWhole else { throw ReplicaError(.damaged, "its index is not that of its objects") }
        }
    }
}

/// Reads a replica's file that another process may be writing. Without a snapshot it keeps nothing open, so that a
/// client reset can put another file in its place.
public final class ReplicaReader: Sendable {
    private let path: String

    /// Opens the file.
    /// - Throws: `ReplicaError` with the code `unknownFormat` if it is another kind of file, `damaged` if it is not
    ///   what was written, `storeFailed` if it does not exist or cannot be read.
    public init(path: String) throws(ReplicaError) {
        self.path = path
        _ = try snapshot()
    }

    /// The replica as it is now.
    /// - Throws: `ReplicaError`, as when the file is opened.
    public func snapshot() throws(ReplicaError) -> ReplicaSnapshot {
        try SQLiteReplicaStore.translatingErrors(path) {
            guard access(path, F_OK) == 0 else { throw ReplicaError(.storeFailed, "there is no such file") }
            try ReplicaSchema.checkHeader(path)
            let configuration = SQLiteReplicaStore.configuration(label: "anabranch.reader", isReadOnly: true)
            let pool = try DatabasePool(path: path, configuration: configuration)
            try pool.read { db in try ReplicaSchema.prepare(db, isReadOnly: true) }
            return try ReplicaSnapshot(try pool.makeSnapshot())
        }
    }
}
