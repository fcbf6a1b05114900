import AnabranchCore
public import AnabranchHistory
public import Foundation
import NIOPosix
import Synchronization

extension SyncServer {
    /// The synced files.
    /// - Throws: `SyncServerError.notRunning`.
    func runningFiles() throws(SyncServerError) -> FileQueues {
        guard let files = files.withLock({ $0 }) else { throw .notRunning }
        return files
    }

    /// Reads the state of a synced file as it is now: what is durable, of all clients and of the server.
    ///
    /// - Parameters:
    ///   - path: the file. One that does not exist has an empty state, and is not made.
    ///   - body: reads the state. It runs in a turn of the file, so its clients wait until it returns. If several
    ///     servers share the store, it is called again when another one has written meanwhile.
    /// - Returns: what `body` returns.
    /// - Throws: what `body` throws; `ApplyError` with the place for what makes no sense; `SyncServerError` if the
    ///   server does not run; `HistoryError` if the store fails.
    public func read<Value: Sendable>(
        _ path: VirtualPath, _ body: @escaping @Sendable (StateReader) throws -> Value
    ) async throws -> Value {
        try await runningFiles().run(on: path) { file in
            guard let file = try file.existingFile() else {
                return try ObjectGraph().read { try body(StateReader(transaction: $0, cursor: .beginning)) }
            }
            return try file.readNewestState { transaction, version in
                try body(StateReader(transaction: transaction, cursor: ChangeCursor(version)))
            }
        }
    }

    /// The transactions of a synced file after a cursor, including those of the time when the program did not run, as
    /// far as the log of the file goes back. Each is delivered once it is durable, exactly once, and in the order of
    /// the log.
    ///
    /// A program that stores the cursor of each transaction together with its own result, and continues there the next
    /// time, misses nothing and sees nothing twice. The sequence ends when the server or the task does.
    ///
    /// - Parameters:
    ///   - path: the file. If it does not exist, the sequence waits for it.
    ///   - cursor: that of the last known transaction, or `StateReader.cursor`.
    /// - Returns: a sequence that reads the log as fast as it is asked, and keeps one page of it in memory. It throws
    ///   `SyncServerError.changesForgotten` if the log does not go back so far.
    public func changes(in path: VirtualPath, after cursor: ChangeCursor) -> FileChanges {
        FileChanges(files: { [self] in files.withLock { $0 } }, path: path, start: cursor)
    }

    /// The changes of a synced file, grouped into edits that people recognise: the transactions of one author on
    /// objects that they have in common, without a long pause between them (`Spec/Explain.md`, section 7).
    ///
    /// After each transaction the sequence yields the edit that the transaction belongs to: a new `id` is a new line of
    /// a feed, a known one a line that has changed. A program that begins at a stored cursor misses nothing; an edit
    /// that was under way at the cursor continues under another `id`.
    ///
    /// - Parameters:
    ///   - path: the file. If it does not exist, the sequence waits for it.
    ///   - cursor: of the last edit that is known, or of `StateReader.cursor`.
    ///   - pause: ends an edit, in seconds, by its author's clock.
    /// - Returns: a sequence as `changes` returns it. It keeps at most 128 edits in memory, each of which ends with the
    ///   transaction that takes it to 1,000 objects.
    public func edits(
        in path: VirtualPath, after cursor: ChangeCursor, pause: TimeInterval = FileEdits.usualPause
    ) -> FileEdits {
        FileEdits(changes: changes(in: path, after: cursor), pause: pause)
    }

    /// The synced files, in the order of the bytes of their paths.
    ///
    /// - Parameters:
    ///   - path: the last one that is known; nil to begin with the first.
    ///   - countMax: how many are returned at most; if there are fewer, these were all.
    /// - Throws: `HistoryError` if the store fails, or keeps no list of its files.
    public func partitions(after path: VirtualPath? = nil, countMax: Int = 1_000) async throws -> [VirtualPath] {
        guard let catalog = store as? any HistoryCatalog else {
            throw HistoryError(.storeUnusable, "the store keeps no list of its files")
        }
        return try await NIOThreadPool.singleton.runIfActive {
            try catalog.files(after: path, countMax: countMax).map(\.path)
        }
    }

    /// Deletes a synced file with all that is stored of it. Clients that have it open, or come back to it, get a client
    /// reset; one that opens it makes a new one.
    /// - Returns: whether there was one.
    /// - Throws: `SyncServerError` if the server does not run; `HistoryError` if the store fails.
    @discardableResult
    public func delete(_ path: VirtualPath) async throws -> Bool {
        let files = try runningFiles()
        guard try await files.run(on: path, { try $0.existingFile() != nil }) else { return false }
        return try await files.delete(path, onlyOf: nil)
    }
}
