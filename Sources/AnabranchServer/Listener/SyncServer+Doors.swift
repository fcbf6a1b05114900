package import AnabranchCore
package import AnabranchHistory
import Synchronization

extension SyncServer {
    /// Attaches a door. To be called before `run`.
    package func attach(_ door: any RecordDoor) { doors.withLock { $0.append(door) } }

    /// Makes writes at the head of a file, which is created if it does not exist, in one commit.
    /// - Returns: for each write the version that it made or found, or the error of its body.
    /// - Throws: `SyncServerError` if the server does not run; `HistoryError` if the store fails, after which
    ///   all may be repeated.
    package func write(
        _ writes: [HeadWrite], atHeadOf path: VirtualPath
    ) async throws -> [Result<ServerVersion, any Error>] {
        try await runningFiles().write(writes, to: path)
    }

    /// Reads the state at the head of a file and the records there, in a turn of the file.
    /// - Returns: what `body` returns; nil if there is no such file.
    /// - Throws: what `body` throws; `SyncServerError` if the server does not run; a failure of the store.
    package func readHead<Value: Sendable>(
        of path: VirtualPath, _ body: @escaping @Sendable (WriteTransaction, PendingRecords) throws -> Value
    ) async throws -> Value? {
        try await runningFiles().run(on: path) { try $0.existingFile()?.readHead(body) }
    }

    /// Checks that something may be added to the disk of the store: a door that keeps something beside it asks before.
    /// - Throws: `SyncServerError` if the server does not run; `noRoom` while too little is free.
    package func requireSpace() throws { try runningFiles().environment.space.require() }

    /// The version that the clients of a file have all seen: none of them can send a change that was made before it.
    /// - Returns: nil if there is no such file.
    /// - Throws: `SyncServerError` if the server does not run; a failure of the store.
    package func versionSeenByAll(of path: VirtualPath) async throws -> ServerVersion? {
        try await runningFiles().run(on: path) { turns in
            try turns.existingFile().map { file in
                let status = try file.historyStatus()
                return status.lowestPin?.version ?? status.head.version
            }
        }
    }

    /// A follower that is woken when there are new durable entries in a file.
    /// - Throws: `SyncServerError` if the server does not run.
    package func follow(_ path: VirtualPath) throws(SyncServerError) -> LogFollower {
        let environment = try runningFiles().environment
        return environment.followers.follow(environment.names.file(at: path))
    }
}
