import AnabranchReplica
import Foundation
import GRDB

/// Copies of replicas for other devices or users, to be bundled with an application for example (`Spec/Replica.md`,
/// section 5).
package enum ReplicaCopy {
    /// Writes a copy of the committed content of a replica's file, even while another process uses it. The copy has the
    /// same objects, and continues from the same place in the server's log under an ident of its own.
    ///
    /// - Parameters:
    ///   - source: the replica's file.
    ///   - target: the path of the copy, where no file exists yet.
    /// - Throws: `ReplicaError` with the code `notAllowed` if local changes wait to be uploaded, or there is a file
    ///   already; as `ReplicaReader` if the replica cannot be read. Then no file is left.
    package static func write(_ source: String, to target: String) throws {
        guard access(target, F_OK) != 0 else {
            throw ReplicaError(.notAllowed, "\(target): there is a file already")
        }
        let unfinished = target + ".part"
        defer { for name in [unfinished, unfinished + ".lock"] { unlink(name) } }
        try SQLiteReplicaStore.translatingErrors(source) {
            try ReplicaSchema.checkHeader(source)
            let configuration = SQLiteReplicaStore.configuration(label: "anabranch.copy", isReadOnly: true)
            guard access(source, F_OK) == 0 else { throw ReplicaError(.storeFailed, "there is no such file") }
            let queue = try DatabaseQueue(path: source, configuration: configuration)
            try queue.read { db in try ReplicaSchema.prepare(db, isReadOnly: true) }
            unlink(unfinished)
            try FileLock.makePrivate(unfinished)
            try queue.writeWithoutTransaction { db in
                try db.execute(sql: "VACUUM INTO ?", arguments: [unfinished])
            }
            try queue.close()
        }
        let store = try SQLiteReplicaStore(path: unfinished)
        do {
            var replica = try Replica(store)
            try replica.becomeCopy()
        } catch {
            try? store.close()
            throw error
        }
        try store.close()
        guard rename(unfinished, target) == 0 else {
            throw ReplicaError(.storeFailed, "\(target): \(String(cString: strerror(errno)))")
        }
    }
}
