import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import Logging

/// The synced files of one store thread: opens them when a session needs them, lets go of them when none does, and
/// commits what their clients uploaded, all files together.
///
/// To be used in turns: `handle` what has come in, tell the replies, `commit`, tell the replies.
final class FileRegistry {
    private let store: any HistoryStore
    private let keepsState: Bool
    private let limits: Limits
    private let backlogBytesMax: Int
    private let unixSeconds: @Sendable () -> UInt64
    private let metrics: SyncMetrics
    private let logger: Logger
    private var openFiles: [VirtualPath: FileSessions] = [:]
    private var bodies: SharedBodies
    /// The files that were integrated last, the last one at the end: they keep what makes the next integration cheaper.
    private var recentFiles: [VirtualPath] = []
    /// More files keep nothing: those that have been quiet for longest let go of it.
    static let recentFilesMax = 32
    /// The files that calls of this turn were about.
    private var activePaths: Set<VirtualPath> = []
    /// What files that were abandoned still have to say.
    private var closingReplies: [FileReply] = []
    /// Who has made new files, over all store threads.
    private let newFiles: RateCounter
    private let newFilesPerMinuteMax: Int

    /// - Parameters:
    ///   - keepsState: whether uploads are applied to the states of their files; if not, this is a relay.
    ///   - newFiles: counts the files that users make.
    ///   - newFilesPerMinuteMax: who has made so many within the minute opens none that is not open already.
    ///   - unixSeconds: the clock, for when a client file was last seen.
    init(
        store: any HistoryStore, keepsState: Bool = true, limits: Limits, backlogBytesMax: Int,
        sharedBodiesBytesMax: Int, newFiles: RateCounter = RateCounter(), newFilesPerMinuteMax: Int = .max,
        metrics: SyncMetrics, logger: Logger,
        unixSeconds: @escaping @Sendable () -> UInt64
    ) {
        self.store = store
        self.keepsState = keepsState
        self.limits = limits
        self.backlogBytesMax = backlogBytesMax
        self.newFiles = newFiles
        self.newFilesPerMinuteMax = newFilesPerMinuteMax
        self.unixSeconds = unixSeconds
        self.metrics = metrics
        self.logger = logger
        bodies = SharedBodies(bytesMax: sharedBodiesBytesMax)
    }

    /// Everything but the integration of uploads, which waits for `commit`.
    func handle(_ calls: [FileRequest]) -> [FileReply] {
        var replies: [FileReply] = []
        for call in calls {
            guard !exceedsNewFileRate(call) else {
                replies.append(FileReply(session: call.session, event: .failed(Self.tooManyNewFiles)))
                continue
            }
            do {
                guard let sessions = try sessions(for: call) else { continue }
                activePaths.insert(call.path)
                handle(call, by: sessions)
            } catch {
                log(error, path: call.path)
                replies.append(FileReply(session: call.session, event: .failed(ErrorMessage(error))))
            }
        }
        for sessions in activeFiles {
            do {
                try sessions.allocateIdents(at: unixSeconds())
            } catch {
                drop(sessions, error)
            }
            replies += sessions.takeReplies()
        }
        return replies + takeClosingReplies()
    }

    private func handle(_ call: FileRequest, by sessions: FileSessions) {
        let start = ContinuousClock.now
        do {
            try sessions.handle(call, bodies: &bodies, limits: limits)
        } catch {
            log(error, path: call.path)
        }
        if case .scan = call.request { metrics.scanned(in: start.duration(to: .now)) }
    }

    /// Integrates all queued uploads in one transaction.
    func commit() -> [FileReply] {
        defer { activePaths.removeAll(keepingCapacity: true) }
        let files = activeFiles
        integrate(files.filter(\.file.hasQueuedUploads))
        for sessions in files where sessions.isIdle { openFiles[sessions.file.path] = nil }
        return files.flatMap { $0.takeReplies() } + takeClosingReplies()
    }

    /// Lets a client file expire; the session that uses it ends. The replies are among those of the next turn.
    /// - Throws: `badClientFileIdent` if there is no such client file; trouble of the store.
    func expire(_ ident: ClientFileID, of path: VirtualPath) throws(HistoryError) {
        let sessions = try sessions(at: path)
        activePaths.insert(path)
        do {
            try sessions.expire(ident)
        } catch {
            if error.isTransient { drop(sessions, error) }
            throw error
        }
    }

    /// A write of the server itself; running sessions of the file hear of it in the next turn.
    /// - Throws: what `SyncedFile.write` throws.
    func write(
        to path: VirtualPath, idempotencyKey: String?, at timestamp: ChangesetTime,
        _ body: (WriteTransaction) throws -> Void
    ) throws -> ServerWrite {
        do {
            let sessions = try sessions(at: path)
            activePaths.insert(path)
            let made = try sessions.file.write(idempotencyKey: idempotencyKey, at: timestamp, body)
            sessions.notifyExposed()
            return made
        } catch let error as HistoryError {
            log(error, path: path)
            throw error
        }
    }

    private var activeFiles: [FileSessions] { activePaths.compactMap { openFiles[$0] } }

    private func takeClosingReplies() -> [FileReply] {
        defer { closingReplies = [] }
        return closingReplies
    }

    // MARK: Files

    /// Only BIND opens a file; a call for a session that a closed file had is late.
    private func sessions(for call: FileRequest) throws(HistoryError) -> FileSessions? {
        if let sessions = openFiles[call.path] { return sessions }
        guard case .open(let user, _) = call.request else { return nil }
        let sessions = try sessions(at: call.path)
        if let user, sessions.file.head == FileHead() { newFiles.count(user, now: Int64(clamping: unixSeconds())) }
        return sessions
    }

    /// A file that nobody has written to yet costs the user who opens it nothing, and the server a row for ever.
    /// Whether there is a file can only be found out by making it, so a user who has made too many has to do with those
    /// that are open.
    private func exceedsNewFileRate(_ call: FileRequest) -> Bool {
        guard case .open(let user?, _) = call.request, openFiles[call.path] == nil else { return false }
        return newFiles.current(user, now: Int64(clamping: unixSeconds())) >= newFilesPerMinuteMax
    }

    private static let tooManyNewFiles = ErrorMessage(.otherSessionError, "too many new files; wait")

    private func sessions(at path: VirtualPath) throws(HistoryError) -> FileSessions {
        if let sessions = openFiles[path] { return sessions }
        let sessions = FileSessions(
            try SyncedFile(path: path, store: store, keepsState: keepsState, backlogBytesMax: backlogBytesMax))
        openFiles[path] = sessions
        return sessions
    }

    /// One transaction for all; if it fails, one for each, so that a file in trouble does not stop the others.
    private func integrate(_ files: [FileSessions]) {
        guard !files.isEmpty else { return }
        do {
            let start = ContinuousClock.now
            let reports = try SyncedFile.integrate(files.map(\.file), at: unixSeconds())
            metrics.committed(reports, in: start.duration(to: .now))
            for (sessions, report) in zip(files, reports) {
                sessions.didCommit(report)
                for outcome in report.outcomes { log(outcome, path: sessions.file.path) }
            }
            retainRecent(files.map(\.file.path))
        } catch {
            if let only = files.first, files.count == 1 { return drop(only, error) }
            for file in files { integrate([file]) }
        }
    }

    private func retainRecent(_ paths: [VirtualPath]) {
        recentFiles.removeAll { paths.contains($0) }
        recentFiles += paths
        for path in recentFiles.dropLast(Self.recentFilesMax) { openFiles[path]?.file.letGo() }
        recentFiles.removeFirst(max(0, recentFiles.count - Self.recentFilesMax))
    }

    private func drop(_ sessions: FileSessions, _ error: HistoryError) {
        log(error, path: sessions.file.path)
        sessions.failAll(error)
        closingReplies += sessions.takeReplies()
        openFiles[sessions.file.path] = nil
    }

    /// Tells of instructions that did not enter the log; a refusal is told by its session.
    private func log(_ outcome: ClientOutcome, path: VirtualPath) {
        guard let reason = outcome.mootInstructions.firstReason else { return }
        logger.notice(
            "instructions were left out, for their class or column has been erased",
            metadata: [
                "path": "\(path.abbreviated)", "client": "\(outcome.ident)",
                "count": "\(outcome.mootInstructions.count)", "first": "\(reason)",
            ])
    }

    private func log(_ error: HistoryError, path: VirtualPath) {
        metrics.storeFailures.increment()
        logger.error("the store failed", metadata: ["path": "\(path.abbreviated)", "error": "\(error)"])
    }
}
