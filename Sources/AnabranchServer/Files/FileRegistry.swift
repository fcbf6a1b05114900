import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import Logging
import Metrics

/// The synced files of one store thread. Opens a file when a session needs it, closes it when none does, and commits
/// the uploads of all files together.
///
/// Works in turns: `handle` the requests that have come in, deliver the replies, `commit`, deliver the replies.
final class FileRegistry {
    private let store: any HistoryStore
    private let keepsState: Bool
    private let limits: Limits
    private let backlogBytesMax: Int
    private let destructiveSchema: (VirtualPath) -> DestructiveSchema
    private let unixSeconds: @Sendable () -> UInt64
    private let metrics: SyncMetrics
    private let logger: Logger
    private(set) var openFiles: [VirtualPath: FileSessions] = [:]
    private var bodies: SharedBodies
    /// Room for the bodies until they are sent.
    var downloadMemory = DownloadMemory(budget: MemoryBudget(bytesMax: .max)) { _ in }
    /// The files with the newest integrations, the newest at the end. They keep in memory what makes the next
    /// integration cheaper.
    private var recentFiles: [VirtualPath] = []
    /// How many files keep something for their next integration.
    static let recentFilesMax = 32
    /// The files with requests in this turn.
    private var activePaths: Set<VirtualPath> = []
    /// The last replies of files that were closed because of an error.
    private var closingReplies: [FileReply] = []
    private let newFiles: UserQuota
    private let newClientFiles: UserQuota

    /// - Parameters:
    ///   - keepsState: whether uploads are applied to the states of their files; if not, the server is a relay.
    ///   - destructiveSchema: whether clients may take classes and columns of a file away.
    ///   - newFiles: a user whose share of new files is used up can only open files that are open already.
    ///   - newClientFiles: a user whose share of new client files is used up gets no further ident.
    ///   - unixSeconds: the clock, in seconds since 1970: when a client file was last seen.
    init(
        store: any HistoryStore, keepsState: Bool = true, limits: Limits, backlogBytesMax: Int,
        sharedBodiesBytesMax: Int, destructiveSchema: @escaping (VirtualPath) -> DestructiveSchema = { _ in .refuse },
        newFiles: UserQuota = UserQuota(), newClientFiles: UserQuota = UserQuota(),
        metrics: SyncMetrics, logger: Logger, unixSeconds: @escaping @Sendable () -> UInt64
    ) {
        self.store = store
        self.keepsState = keepsState
        self.limits = limits
        self.backlogBytesMax = backlogBytesMax
        self.destructiveSchema = destructiveSchema
        self.newFiles = newFiles
        self.newClientFiles = newClientFiles
        self.unixSeconds = unixSeconds
        self.metrics = metrics
        self.logger = logger
        bodies = SharedBodies(bytesMax: sharedBodiesBytesMax)
    }

    // MARK: A turn

    /// Handles requests. Uploads are only queued: `commit` integrates them.
    func handle(_ requests: [FileRequest]) -> [FileReply] {
        var replies: [FileReply] = []
        for request in requests {
            if let error = handle(request) {
                replies.append(FileReply(session: request.session, event: .failed(error)))
            }
        }
        for sessions in activeFiles {
            do {
                try sessions.allocateIdents(at: unixSeconds())
            } catch {
                close(sessions, because: error)
            }
        }
        return replies + takeReplies()
    }

    /// What there is to be told, everything of it durable.
    func takeReplies() -> [FileReply] {
        defer { closingReplies = [] }
        return activeFiles.flatMap { $0.takeReplies() } + closingReplies
    }

    /// - Returns: why the file could not be opened.
    private func handle(_ request: FileRequest) -> ErrorMessage? {
        let sessions: FileSessions
        do {
            if let refusal = try refusal(of: request) {
                metrics.refusedSession(because: refusal)
                return refusal.message
            }
            guard let found = try self.sessions(for: request) else { return nil }
            sessions = found
        } catch {
            log(error, path: request.path)
            return ErrorMessage(error)
        }
        activePaths.insert(request.path)
        let start = ContinuousClock.now
        do {
            try sessions.handle(request, bodies: &bodies, memory: downloadMemory, limits: limits)
        } catch {
            log(error, path: request.path)
        }
        if case .scan = request.request { metrics.scanned(in: start.duration(to: .now)) }
        return nil
    }

    /// Integrates all queued uploads in one transaction.
    func commit() -> [FileReply] {
        defer { activePaths.removeAll(keepingCapacity: true) }
        let active = activeFiles
        integrate(active.filter(\.file.hasQueuedUploads))
        let replies = takeReplies()
        for sessions in active where sessions.isIdle { openFiles[sessions.file.path] = nil }
        return replies
    }

    /// One transaction for all files; if it fails, one for each, so that a file in trouble does not stop the others.
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
            if let only = files.first, files.count == 1 { return close(only, because: error) }
            for sessions in files { integrate([sessions]) }
        }
    }

    // MARK: Between turns

    /// Expires a client file; the session that uses it ends. The replies are among those of the next turn.
    /// - Throws: `badClientFileIdent` if there is no such client file; trouble of the store.
    func expire(_ clientFile: ClientFileID, of path: VirtualPath) throws(HistoryError) {
        let sessions = try sessions(at: path)
        activePaths.insert(path)
        do {
            try sessions.expire(clientFile)
        } catch {
            if error.isTransient { close(sessions, because: error) }
            throw error
        }
    }

    /// Makes a write of the server itself. What running sessions of the file are told of it is among the replies.
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
            retainRecent([path])
            return made
        } catch let error as HistoryError {
            // That a relay cannot be written to is no trouble of its store.
            if error.isTransient, error.code != .storeUnusable, let sessions = openFiles[path] {
                close(sessions, because: error)
            } else {
                log(error, path: path)
            }
            throw error
        }
    }

    // MARK: Open files

    private var activeFiles: [FileSessions] { activePaths.compactMap { openFiles[$0] } }

    /// - Returns: nil if the file is not open and the request does not open it: its session has ended meanwhile.
    private func sessions(for request: FileRequest) throws(HistoryError) -> FileSessions? {
        if let sessions = openFiles[request.path] { return sessions }
        guard case .open = request.request else { return nil }
        let sessions = try sessions(at: request.path)
        if let user = request.user, sessions.file.head == FileHead() { newFiles.count(user, now: now) }
        return sessions
    }

    private func sessions(at path: VirtualPath) throws(HistoryError) -> FileSessions {
        if let sessions = openFiles[path] { return sessions }
        let sessions = FileSessions(
            try SyncedFile(
                path: path, store: store, keepsState: keepsState, destructiveSchema: destructiveSchema(path),
                backlogBytesMax: backlogBytesMax))
        openFiles[path] = sessions
        return sessions
    }

    /// Opening an unknown path makes a file, and every new client of it makes a row: both stay. So a user can make a
    /// limited number of them a minute. Beyond that of files, only those that are open can be used.
    private func refusal(of request: FileRequest) throws(HistoryError) -> SessionRefusal? {
        guard case .open(let bind) = request.request else { return nil }
        if openFiles[request.path] == nil {
            if let user = request.user, newFiles.isUsedUp(by: user, now: now) { return .files }
            let isLong = bind.partition.count > limits.newPartitionBytesMax
            if isLong, try !store.contains(request.path) { return .partition }
        }
        if bind.needsFileIdent, let user = request.user {
            if newClientFiles.isUsedUp(by: user, now: now) { return .clientFiles }
            newClientFiles.count(user, now: now)
        }
        return nil
    }

    private var now: Int64 { Int64(clamping: unixSeconds()) }

    private func retainRecent(_ paths: [VirtualPath]) {
        recentFiles.removeAll { paths.contains($0) }
        recentFiles += paths
        for path in recentFiles.dropLast(Self.recentFilesMax) { openFiles[path]?.file.releaseCaches() }
        recentFiles.removeFirst(max(0, recentFiles.count - Self.recentFilesMax))
    }

    private func close(_ sessions: FileSessions, because error: HistoryError) {
        log(error, path: sessions.file.path)
        sessions.failAll(error)
        closingReplies += sessions.takeReplies()
        openFiles[sessions.file.path] = nil
    }

    // MARK: Log

    /// Logs trouble of the store, and instructions that did not enter the log. Another refused upload is logged by its
    /// session.
    private func log(_ outcome: ClientOutcome, path: VirtualPath) {
        if let refusal = outcome.refusal, refusal.isStoreTrouble { log(refusal, path: path, client: outcome.ident) }
        if outcome.entriesRestoringNulls > 0 {
            logger.notice(
                "null was put back into sets, for no client could download that it was taken out",
                metadata: [
                    "path": "\(path.abbreviated)", "client": "\(outcome.ident)",
                    "count": "\(outcome.entriesRestoringNulls)",
                ])
        }
        guard let reason = outcome.skippedInstructions.firstReason else { return }
        logger.notice(
            "instructions were left out, for their class or column has been erased",
            metadata: [
                "path": "\(path.abbreviated)", "client": "\(outcome.ident)",
                "count": "\(outcome.skippedInstructions.count)", "first": "\(reason)",
            ])
    }

    private func log(_ error: HistoryError, path: VirtualPath, client: ClientFileID? = nil) {
        metrics.failed(error)
        var metadata: Logger.Metadata = ["path": "\(path.abbreviated)", "error": "\(error.withWireCode)"]
        if let client { metadata["client"] = "\(client)" }
        logger.error("the store failed", metadata: metadata)
    }
}
