import AnabranchHistory
import Foundation

/// A directory that holds one store. Until it is released no other process, and no other store of this one, can use
/// it.
final class DataDirectory: Sendable {
    let databasePath: String
    private let lock: Int32

    init(_ path: String) throws(HistoryError) {
        let url = URL(fileURLWithPath: path, isDirectory: true)
        do {
            // What users have written is nobody else's business.
            try FileManager.default.createDirectory(
                at: url, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        } catch {
            throw HistoryError(.storeUnusable, "\(path): \(error.localizedDescription)")
        }
        databasePath = url.appendingPathComponent("anabranch.sqlite").path
        lock = open(url.appendingPathComponent("lock").path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard lock >= 0 else {
            throw HistoryError(.storeUnusable, "\(path): the file `lock` cannot be opened, \(DataDirectory.lastError)")
        }
        guard flock(lock, LOCK_EX | LOCK_NB) == 0 else {
            let reason = errno == EWOULDBLOCK ? "in use by another process" : DataDirectory.lastError
            throw HistoryError(.storeUnusable, "\(path): \(reason)")
        }
    }

    /// Runs also after an initializer that has opened the lock and then failed.
    deinit { close(lock) }

    /// Lets others use the directory.
    func release() { flock(lock, LOCK_UN) }

    private static var lastError: String { String(cString: strerror(errno)) }
}
