import AnabranchCore
import AnabranchReplica
import Foundation

/// The files of a client reset, which puts a fresh file in the place of a replica's (`Spec/Replica.md`, section 4). If
/// a process ends between two steps, the next one finishes the reset or starts it over:
///
/// 1. `<path>.fresh` is downloaded; nobody uses it as long as it has that name.
/// 2. Recovered changes are written to it, and it becomes `<path>.ready`.
/// 3. `<path>` becomes `<path>.<time>.backup`, or is removed if everything in it was uploaded.
/// 4. `<path>.ready` becomes `<path>`.
enum ReplicaReset {
    static func freshPath(_ path: String) -> String { path + ".fresh" }
    static func readyPath(_ path: String) -> String { path + ".ready" }

    /// Finishes a reset that an earlier process has left. The caller has the lock of the file, as in `replace`.
    static func finish(_ path: String) throws(ReplicaError) {
        let ready = readyPath(path)
        if exists(ready) {
            if exists(path) {
                // It ended before step 3, and the file may have changed since: the reset starts over.
                try remove(ready)
            } else {
                try rename(ready, path)
            }
        }
        try removeFresh(path)
    }

    /// Removes the fresh file and its lock, which nobody needs without the lock of the replica's file.
    static func removeFresh(_ path: String) throws(ReplicaError) {
        let fresh = freshPath(path)
        try remove(fresh)
        guard unlink(fresh + ".lock") == 0 || errno == ENOENT else { throw failure(fresh + ".lock") }
    }

    /// Carries out steps 2 to 4. Both files are closed.
    /// - Parameter keepsBackup: whether the old file has something that exists nowhere else.
    /// - Returns: the path of the backup.
    static func replace(_ path: String, keepsBackup: Bool, at time: ChangesetTime) throws(ReplicaError) -> String? {
        let fresh = freshPath(path), ready = readyPath(path)
        guard !exists(path + "-wal") else {
            throw ReplicaError(.inUse, "somebody still reads a snapshot of \(path)")
        }
        try rename(fresh, ready)
        try removeFresh(path)
        var backup: String?
        if keepsBackup {
            var name = "\(path).\(time.rawValue).backup", count = 1
            while exists(name) {
                count += 1
                name = "\(path).\(time.rawValue)-\(count).backup"
            }
            try rename(path, name)
            backup = name
        } else {
            try remove(path)
        }
        try rename(ready, path)
        return backup
    }

    static func exists(_ path: String) -> Bool { access(path, F_OK) == 0 }

    /// Removes a database. If it was not closed, there is a write-ahead log next to it, which belongs to it.
    static func remove(_ path: String) throws(ReplicaError) {
        for name in [path, path + "-wal", path + "-shm"] where unlink(name) != 0 && errno != ENOENT {
            throw failure(name)
        }
    }

    static func rename(_ old: String, _ new: String) throws(ReplicaError) {
        guard Foundation.rename(old, new) == 0 else { throw failure(old) }
        let folder = open((new as NSString).deletingLastPathComponent.orDot, O_RDONLY | O_CLOEXEC)
        guard folder >= 0 else { throw failure(new) }
        defer { close(folder) }
        guard fsync(folder) == 0 else { throw failure(new) }
    }

    private static func failure(_ path: String) -> ReplicaError {
        ReplicaError(.storeFailed, "\(path): \(String(cString: strerror(errno)))")
    }
}

extension String {
    fileprivate var orDot: String { isEmpty ? "." : self }
}
