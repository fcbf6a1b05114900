import Foundation
import Logging
import Synchronization

/// A value that is read from one or several files, and read again when one of them has changed, or when the set of
/// files has. To change such a file, rename a new one over it.
final class WatchedFile<Value: Sendable>: Sendable {
    /// A stamp that changes when the content or the permissions of a file do.
    private struct Stamp: Equatable {
        let inode: UInt64, size: Int64, seconds: Int, nanoseconds: Int
        let mode: mode_t, owner: uid_t, group: gid_t

        let path: String

        init(_ path: String) throws(FileError) {
            var status = stat()
            guard stat(path, &status) == 0 else { throw FileError.last(path) }
            self.path = path
            inode = UInt64(status.st_ino)
            size = Int64(status.st_size)
            seconds = status.modified.tv_sec
            nanoseconds = status.modified.tv_nsec
            (mode, owner, group) = (status.st_mode, status.st_uid, status.st_gid)
        }
    }

    private struct State {
        var stamps: [Stamp]
        var value: Value
    }

    private let name: String
    private let paths: @Sendable () throws -> [String]
    private let logger: Logger
    private let read: @Sendable () async throws -> Value
    private let state: Mutex<State>

    /// - Parameter read: reads the files.
    /// - Throws: what `read` throws; `FileError` if there is no such file.
    convenience init(
        _ paths: String..., logger: Logger, read: @escaping @Sendable () async throws -> Value
    ) async throws {
        try await self.init(paths[0], logger: logger, paths: { paths }, read: read)
    }

    /// - Parameters:
    ///   - name: a name for all of them together, for the log.
    ///   - paths: finds the files.
    init(
        _ name: String, logger: Logger, paths: @escaping @Sendable () throws -> [String],
        read: @escaping @Sendable () async throws -> Value
    ) async throws {
        self.name = name
        self.paths = paths
        self.logger = logger
        self.read = read
        let stamps = try paths().map { try Stamp($0) }
        state = Mutex(State(stamps: stamps, value: try await read()))
    }

    /// The value that was read last.
    var current: Value { state.withLock { $0.value } }

    /// The newest value that could be read. Files that are gone or wrong do not change it.
    func value() async -> Value {
        await refresh()
        return current
    }

    /// Reads the files again if they have changed.
    /// - Returns: whether there is a new value.
    @discardableResult
    func refresh() async -> Bool {
        let known = state.withLock { $0.stamps }
        guard let stamps = try? paths().map({ try Stamp($0) }), stamps != known else { return false }
        do {
            let value = try await read()
            state.withLock { $0 = State(stamps: stamps, value: value) }
            logger.audit("file", "file read again", ["path": "\(name)"])
            return true
        } catch {
            // The error is logged once for each change.
            state.withLock { $0.stamps = stamps }
            logger.error("file not usable", metadata: ["path": "\(name)", "error": "\(error)"])
            return false
        }
    }
}

extension stat {
    fileprivate var modified: timespec {
        #if canImport(Darwin)
        st_mtimespec
        #else
        st_mtim
        #endif
    }
}
