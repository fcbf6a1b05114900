import AnabranchHistory
import Foundation
import GRDB

/// A directory that holds one store. Until it is released no other process, and no other store of this one, can write
/// to it.
final class DataDirectory: Sendable {
    static let accountsName = "accounts.sqlite"
    /// The keys that sign tokens.
    static let keysName = "keys.json"
    static let lockName = "lock"

    let url: URL
    /// The lock file; nil if nobody can write, so that none is needed.
    private let lock: Int32?
    /// True if another process writes to it, and this one only reads.
    let isWrittenByOthers: Bool
    /// True if this process can make files in it: not on a read-only medium, and not in the directory of a user who
    /// lets others read.
    let isWritable: Bool

    /// - Parameters:
    ///   - isForReading: others may read as well, and a process that has the directory already may write.
    ///   - advice: for a user who finds the directory in use.
    init(_ path: String, isForReading: Bool = false, advice: String = "") throws(HistoryError) {
        url = URL(fileURLWithPath: path, isDirectory: true)
        try Self.make(url.standardizedFileURL)
        (lock, isWritable) = try Self.openLock(in: url, isForReading: isForReading)
        guard let lock else {
            isWrittenByOthers = false
            return
        }
        let isLocked = flock(lock, (isForReading ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0
        isWrittenByOthers = !isLocked && isForReading && errno == EWOULDBLOCK
        guard isLocked || isWrittenByOthers else {
            let reason = errno == EWOULDBLOCK ? "in use by another process\(advice)" : DataDirectory.lastError
            throw HistoryError(.storeUnusable, "\(path): \(reason)")
        }
    }

    /// Makes a directory that is missing, durably.
    private static func make(_ url: URL) throws(HistoryError) {
        guard !FileManager.default.fileExists(atPath: url.path) else { return }
        let parent = url.deletingLastPathComponent()
        try make(parent)
        do {
            // The content that users have written is nobody else's business.
            try FileManager.default.createDirectory(
                at: url, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        } catch {
            throw HistoryError(.storeUnusable, "\(url.path): \(error.reasonOfSystem)")
        }
        try sync(directory: parent.path)
    }

    /// Runs also after an initializer that has opened the lock and then failed.
    deinit {
        // A process that is just being started may hold the file for a moment longer.
        release()
        if let lock { close(lock) }
    }

    /// The bytes that a user without privileges can still write; nil if the file system does not say.
    var freeBytes: Int? {
        var status = statvfs()
        guard statvfs(url.path, &status) == 0 else { return nil }
        return Int(
            clamping: UInt64(status.f_bavail).multipliedReportingOverflow(by: UInt64(status.f_frsize)).partialValue)
    }

    /// True if nobody else reads or writes, from now on.
    func lockAlone() -> Bool {
        guard let lock else { return false }
        return !isWrittenByOthers && flock(lock, LOCK_EX | LOCK_NB) == 0
    }

    /// Lets others use the directory.
    func release() { if let lock { flock(lock, LOCK_UN) } }

    /// Opens a directory that has a store, without making anything.
    convenience init(existing path: String, isForReading: Bool = false) throws(HistoryError) {
        try Self.checkReadable(path)
        let url = URL(fileURLWithPath: path, isDirectory: true)
        try BackupRecord.refuseIncomplete(in: url)
        let names = [StoreManifest.fileName] + (0..<StoreManifest.shardsMax).map { Self.shardName($0) }
        guard names.contains(where: { FileManager.default.fileExists(atPath: url.appendingPathComponent($0).path) })
        else {
            // For an old store there is a better error.
            _ = try StoreManifest.read(in: url)
            throw HistoryError(.storeUnusable, "\(path): there is no store in it")
        }
        try self.init(path, isForReading: isForReading, advice: ": stop the server, or use a backup")
    }

    // MARK: Names

    static func shardName(_ number: Int) -> String { "shard-\(number < 10 ? "0" : "")\(number).sqlite" }

    func path(of name: String) -> String { url.appendingPathComponent(name).path }

    func path(ofShard number: Int) -> String { path(of: Self.shardName(number)) }

    // MARK: Files

    /// Makes sure that only the owner of the process can read a database, wherever the directory is copied to.
    static func makePrivate(database path: String) throws {
        try makePrivate(path)
        for name in ["-wal", "-shm"].map({ path + $0 }) where FileManager.default.fileExists(atPath: name) {
            try makePrivate(name)
        }
    }

    /// The same for another file, which is made if it is missing. SQLite gives its additional files the mode of the
    /// database.
    static func makePrivate(_ path: String) throws {
        let mode: mode_t = 0o600
        // Opening and closing a database that SQLite has open would end its locks.
        if chmod(path, mode) == 0 { return }
        // Foundation would first make a file of another name, which stays if the process ends at that moment.
        guard errno == ENOENT else { throw HistoryError(.storeFailed, "\(path): \(lastError)") }
        try makeFile(path).close()
    }

    /// Makes a file that must not exist yet, which only the owner of the process can read: nobody can have put another
    /// one, or a link, in its place.
    static func makeFile(_ path: String) throws -> FileHandle {
        let file = open(path, O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY | O_CLOEXEC, 0o600)
        guard file >= 0 else { throw HistoryError(.storeFailed, "\(path): \(lastError)") }
        return FileHandle(fileDescriptor: file, closeOnDealloc: true)
    }

    /// Gives a file another name, durably; it takes the place of a file that had the name.
    static func rename(_ path: String, to newPath: String) throws(HistoryError) {
        guard Foundation.rename(path, newPath) == 0 else {
            throw HistoryError(.storeFailed, "\(newPath): \(lastError)")
        }
        try sync(directory: (newPath as NSString).deletingLastPathComponent)
    }

    /// Makes the names of files durable.
    private static func sync(directory path: String) throws(HistoryError) {
        let folder = open(path, O_RDONLY | O_CLOEXEC)
        defer { if folder >= 0 { close(folder) } }
        // Some file systems have nothing to flush in a directory, and say that the call is invalid.
        guard folder >= 0, fsync(folder) == 0 || errno == EINVAL else {
            throw HistoryError(.storeFailed, "\(path): \(lastError)")
        }
    }

    /// Replaces a file so that it is there entirely and durably, or as it was before.
    static func write(_ content: some Encodable, to url: URL) throws(HistoryError) {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
        let new = url.path + ".new"
        do {
            // A file left by an interrupted call.
            unlink(new)
            let file = try makeFile(new)
            try file.write(contentsOf: try encoder.encode(content) + Data("\n".utf8))
            try file.synchronize()
            try file.close()
        } catch {
            throw HistoryError(.storeFailed, "\(new): \(error.reasonOfSystem)")
        }
        try rename(new, to: url.path)
    }

    /// The suffixes of a database's files.
    static let suffixes = ["", "-wal", "-shm", "-journal"]

    func remove(_ name: String) {
        for suffix in Self.suffixes { unlink(path(of: name + suffix)) }
    }

    /// The size of a file in bytes; nil if there is no such file.
    func size(of name: String) -> Int? {
        var status = stat()
        return stat(path(of: name), &status) == 0 ? Int(status.st_size) : nil
    }

    static var lastError: String { String(cString: strerror(errno)) }
}
