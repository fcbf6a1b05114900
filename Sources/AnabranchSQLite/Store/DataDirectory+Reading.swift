import AnabranchHistory
import Foundation

/// Reading a directory as a user who may lack permission for some files. An unreadable file does not count as damaged.
extension DataDirectory {
    /// - Returns: no file where the file system is read-only and has none: nobody can write there.
    static func openLock(in url: URL, isForReading: Bool) throws(HistoryError) -> (file: Int32?, isWritable: Bool) {
        let path = url.appendingPathComponent(lockName).path, flags = O_NOFOLLOW | O_CLOEXEC
        var file = open(path, O_RDWR | O_CREAT | flags, 0o600)
        let isWritable = file >= 0, failure = errno
        if !isWritable, isForReading, failure == EROFS || failure == EACCES {
            file = open(path, O_RDONLY | flags)
            if file < 0, errno == ENOENT, failure == EROFS { return (nil, false) }
        }
        guard file >= 0 else {
            throw HistoryError(
                .storeUnusable, "\(url.path): the file `lock` cannot be opened, \(String(cString: strerror(failure)))")
        }
        return (file, isWritable)
    }

    /// - Throws: `storeUnusable` if there is no directory, or this user may not read it or the files of a store or a
    ///   backup in it.
    static func checkReadable(_ path: String) throws(HistoryError) {
        var status = stat()
        guard stat(path, &status) == 0 else {
            throw HistoryError(.storeUnusable, "\(path): \(errno == ENOENT ? "no such directory" : lastError)")
        }
        guard status.st_mode & S_IFMT == S_IFDIR else {
            throw HistoryError(.storeUnusable, "\(path): is a file, and no directory with data")
        }
        guard access(path, R_OK | X_OK) == 0 else { throw notReadable(path) }
        let url = URL(fileURLWithPath: path, isDirectory: true)
        for name in BackupRecord.copiedNames.union([BackupRecord.fileName]).sorted() {
            let file = url.appendingPathComponent(name).path
            if access(file, R_OK) != 0, errno == EACCES { throw notReadable(file) }
        }
    }

    /// The error for a file according to `errno`, with the owner of the file, so that somebody who forgot to become
    /// that user can see it.
    private static func notReadable(_ path: String) -> HistoryError {
        let reason = lastError
        var status = stat()
        guard stat(path, &status) == 0 else { return HistoryError(.storeUnusable, "\(path): \(reason)") }
        let owner = getpwuid(status.st_uid).map { String(cString: $0.pointee.pw_name) } ?? "number \(status.st_uid)"
        return HistoryError(.storeUnusable, "\(path): \(reason); it belongs to the user \(owner)")
    }

    /// The bytes of a small file; nil if there is none.
    static func content(of name: String, in url: URL) throws(HistoryError) -> Data? {
        let file = open(url.appendingPathComponent(name).path, O_RDONLY | O_CLOEXEC)
        if file < 0, errno == ENOENT { return nil }
        // Of a directory not even zero bytes can be read.
        guard file >= 0, pread(file, nil, 0, 0) == 0 else {
            let reason = lastError
            if file >= 0 { close(file) }
            throw HistoryError(.storeUnusable, "\(url.path): \(name) cannot be read: \(reason)")
        }
        let handle = FileHandle(fileDescriptor: file, closeOnDealloc: true)
        do {
            return try handle.readToEnd() ?? Data()
        } catch {
            throw HistoryError(.storeUnusable, "\(url.path): \(name) cannot be read: \(error.reasonOfSystem)")
        }
    }

    /// The path for SQLite to read a database. Where this process cannot create files, SQLite could not read a
    /// write-ahead log; but there is none, and none can appear while the directory is locked.
    func readingPath(of name: String) -> String {
        guard !isWritable, !isWrittenByOthers, size(of: name + "-wal") ?? 0 == 0,
            let escaped = path(of: name).addingPercentEncoding(withAllowedCharacters: .urlPathAllowed)
        else { return path(of: name) }
        return "file:\(escaped)?immutable=1"
    }
}

extension Error {
    /// The reason in the words of the system, without those that Foundation adds.
    var reasonOfSystem: String {
        let error = self as NSError
        let inner = error.userInfo[NSUnderlyingErrorKey] as? NSError
        for error in [inner, error].compactMap(\.self) where error.domain == NSPOSIXErrorDomain {
            return String(cString: strerror(Int32(error.code)))
        }
        return localizedDescription
    }
}
