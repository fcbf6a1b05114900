import AnabranchHistory
import Foundation

/// A directory that holds one store. Until it is released no other process, and no other store of this one, can use
/// it.
final class DataDirectory: Sendable {
    static let databaseName = "anabranch.sqlite"

    let databasePath: String
    /// Of the uploads that are being integrated.
    let suspectsPath: String
    private let url: URL
    private let lock: Int32

    init(_ path: String) throws(HistoryError) {
        url = URL(fileURLWithPath: path, isDirectory: true)
        do {
            // What users have written is nobody else's business.
            try FileManager.default.createDirectory(
                at: url, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        } catch {
            throw HistoryError(.storeUnusable, "\(path): \(error.localizedDescription)")
        }
        suspectsPath = url.appendingPathComponent("suspects").path
        databasePath = url.appendingPathComponent(Self.databaseName).path
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
    deinit {
        // A process that is being started still has the file.
        release()
        close(lock)
    }

    /// Lets others use the directory.
    func release() { flock(lock, LOCK_UN) }

    /// Makes sure that only the owner of the process can read a database, wherever the directory is copied to.
    static func makePrivate(database path: String) throws {
        let mode: [FileAttributeKey: Any] = [.posixPermissions: 0o600]
        if !FileManager.default.fileExists(atPath: path) {
            // SQLite gives its other files the mode of this one.
            guard FileManager.default.createFile(atPath: path, contents: nil, attributes: mode) else {
                throw HistoryError(.storeFailed, "\(path) cannot be made")
            }
        }
        for name in ["", "-wal", "-shm"].map({ path + $0 }) where FileManager.default.fileExists(atPath: name) {
            try FileManager.default.setAttributes(mode, ofItemAtPath: name)
        }
    }

    // MARK: A database that has lost its contents

    /// Refuses an empty database beside files of an earlier life, before SQLite makes a new store of it: every client
    /// would have to reset. Without the file itself a new store is what the operator wants, unless a write-ahead log is
    /// left, which SQLite would delete.
    /// - Returns: whether there is the file.
    func checkDatabaseIsWhole() throws(HistoryError) -> Bool {
        let log = Self.databaseName + "-wal"
        switch size(of: Self.databaseName) {
        case nil:
            try refuse("is missing", beside: [log])
            return false
        case 0: try refuse("is empty (0 bytes)", beside: [log] + Self.otherFiles)
        default: break
        }
        return true
    }

    /// The same for a file without tables.
    func checkIsNew() throws(HistoryError) { try refuse("has no tables", beside: Self.otherFiles) }

    /// What a server makes after the database.
    private static let otherFiles = ["accounts.sqlite", "keys.json", "admin-token"]

    private func refuse(_ finding: String, beside names: [String]) throws(HistoryError) {
        let left = names.filter { size(of: $0) ?? 0 > 0 }
        guard !left.isEmpty else { return }
        let name = Self.databaseName
        throw HistoryError(
            .storeUnusable,
            """
            \(url.path): \(name) \(finding), but \(left.joined(separator: ", ")) beside it tell of an \
            earlier life: restore a backup; or, to begin with an empty store, delete \(name) and \(name)-wal
            """)
    }

    /// In bytes; nil if there is no such file.
    private func size(of name: String) -> Int? {
        let path = url.appendingPathComponent(name).path
        return (try? FileManager.default.attributesOfItem(atPath: path))?[.size].flatMap { ($0 as? NSNumber)?.intValue }
    }

    private static var lastError: String { String(cString: strerror(errno)) }
}
