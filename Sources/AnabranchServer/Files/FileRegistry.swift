import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import Logging

/// The synced files of one store thread. Opens a file when a session needs it, closes it when none does, and commits
/// the uploads of all files together.
///
/// Works in turns: `handle` requests that have come in, deliver the replies, `commit`, deliver the replies. A merge
/// that takes longer than a step goes on in later turns, with `advanceLongMerge`.
final class FileRegistry {
    private let store: any HistoryStore
    private let keepsState: Bool
    let limits: Limits
    private let backlogBytesMax: Int
    private let objectBytesMax: Int
    private let adoptsUnownedClientFiles: Bool
    private let destructiveSchema: (VirtualPath) -> DestructiveSchema
    let unixSeconds: @Sendable () -> UInt64
    let metrics: SyncMetrics
    let log: FileLog
    private(set) var openFiles: [VirtualPath: FileSessions] = [:]
    var bodies: SharedBodies
    /// Room for the bodies until they are sent.
    var downloadMemory = DownloadMemory(budget: MemoryBudget(bytesMax: .max)) { _ in }
    /// The files with the newest integrations, the newest at the end. They keep in memory what makes the next
    /// integration cheaper.
    var recentFiles: [VirtualPath] = []
    /// How many files keep something for their next integration.
    static let recentFilesMax = 32
    var tails: TailBudget
    /// The files that may have progress to be written.
    var pathsWithProgress: Set<VirtualPath> = []
    /// The files with requests in this turn.
    var activePaths: Set<VirtualPath> = []
    /// The last replies of files that were closed because of an error.
    private var closingReplies: [FileReply] = []
    private let newFiles: UserQuota
    private let newClientFiles: UserQuota
    var merges = MergeSchedule()
    private let storedProgressSessionsMax: Int
    /// How long a step of a merge takes, and each other part of a turn, unless it is one thing that cannot be cut.
    static let stepMillisecondsMax: Int64 = 10
    /// Begins a step.
    let beginStep: @Sendable () -> StepLimit
    /// The requests that are done.
    private var done: [RequestCharge] = []

    /// - Parameters:
    ///   - keepsState: whether uploads are applied to the states of their files; if not, the server is a relay.
    ///   - objectBytesMax: how large an object can grow.
    ///   - adoptsUnownedClientFiles: whether a client file without user belongs to the first one who comes with it.
    ///   - destructiveSchema: whether clients may take classes and columns of a file away.
    ///   - newFiles: a user whose share of new files is used up can only open files that are open already.
    ///   - newClientFiles: a user whose share of new client files is used up gets no further ident.
    ///   - tailsBytesMax: how much of their newest log entries the files may keep in memory together.
    ///   - storedProgressSessionsMax: files with more sessions keep mere progress in memory for a while.
    ///   - beginStep: begins a part of a turn.
    ///   - unixSeconds: the clock, in seconds since 1970: when a client file was last seen.
    init(
        store: any HistoryStore, keepsState: Bool = true, limits: Limits, backlogBytesMax: Int,
        sharedBodiesBytesMax: Int, objectBytesMax: Int = .max, adoptsUnownedClientFiles: Bool = false,
        destructiveSchema: @escaping (VirtualPath) -> DestructiveSchema = { _ in .refuse },
        newFiles: UserQuota = UserQuota(), newClientFiles: UserQuota = UserQuota(), tailsBytesMax: Int = 64 << 20,
        storedProgressSessionsMax: Int = FileSessions.storedProgressSessionsMax, metrics: SyncMetrics, logger: Logger,
        beginStep: @escaping @Sendable () -> StepLimit = { StepLimit(milliseconds: FileRegistry.stepMillisecondsMax) },
        unixSeconds: @escaping @Sendable () -> UInt64
    ) {
        self.store = store
        self.keepsState = keepsState
        self.limits = limits
        self.backlogBytesMax = backlogBytesMax
        self.objectBytesMax = objectBytesMax
        self.adoptsUnownedClientFiles = adoptsUnownedClientFiles
        self.destructiveSchema = destructiveSchema
        self.newFiles = newFiles
        self.newClientFiles = newClientFiles
        self.storedProgressSessionsMax = storedProgressSessionsMax
        self.beginStep = beginStep
        self.unixSeconds = unixSeconds
        self.metrics = metrics
        log = FileLog(metrics: metrics, logger: logger)
        bodies = SharedBodies(bytesMax: sharedBodiesBytesMax)
        tails = TailBudget(bytesMax: tailsBytesMax)
    }

    // MARK: A turn

    /// Handles requests, at least one, until the step is over. Uploads are only queued: `commit` integrates them.
    func handle(until limit: StepLimit = .none, _ next: () -> FileRequest?) -> [FileReply] {
        var replies: [FileReply] = []
        while let request = next() {
            if let error = handle(request) {
                replies.append(FileReply(session: request.session, event: .failed(error)))
            }
            if limit.isOver { break }
        }
        for sessions in activeFiles { sessions.file.releaseScans() }
        updateClientFiles()
        return replies + takeReplies()
    }

    /// One transaction for all files of a shard.
    private func updateClientFiles() {
        let waiting = activeFiles.compactMap { sessions in
            sessions.takeClientFileRequests().map { (sessions: sessions, users: $0) }
        }
        guard !waiting.isEmpty else { return }
        let results = SyncedFile.updateClientFiles(
            of: waiting.map { ($0.sessions.file, $0.users) }, at: unixSeconds())
        for ((sessions, users), result) in zip(waiting, results) {
            switch result {
            case .success(let idents): sessions.didAllocate(idents)
            // No session needs that it is noted when client files were last seen.
            case .failure(let error) where users.isEmpty: log.note(error, path: sessions.file.path)
            case .failure: allocateIdents(for: users, of: sessions)
            }
        }
    }

    /// Tries it again for one file, and that alone: the trouble may be another file's, or have come from the note.
    private func allocateIdents(for users: [String?], of sessions: FileSessions) {
        do {
            sessions.didAllocate(try sessions.file.allocateIdents(for: users, at: unixSeconds()))
        } catch {
            close(sessions, because: error)
        }
    }

    /// What there is to be told, everything of it durable.
    func takeReplies() -> [FileReply] {
        defer { closingReplies = [] }
        for sessions in activeFiles { done += sessions.takeDone() }
        return activeFiles.flatMap { $0.takeReplies() } + closingReplies
    }

    /// The requests that were done when replies were last taken.
    func takeDone() -> [RequestCharge] {
        defer { done = [] }
        return done
    }

    /// - Returns: why the file could not be opened.
    private func handle(_ request: FileRequest) -> ErrorMessage? {
        let sessions: FileSessions
        do {
            if let refusal = try refusal(of: request) {
                metrics.refusedSession(because: refusal)
                done.append(request.charge)
                return refusal.message
            }
            guard let found = try self.sessions(for: request) else {
                done.append(request.charge)
                return nil
            }
            sessions = found
        } catch {
            done.append(request.charge)
            log.note(error, path: request.path)
            return ErrorMessage(error)
        }
        activePaths.insert(request.path)
        let start = ContinuousClock.now
        do {
            try sessions.handle(request, bodies: &bodies, memory: downloadMemory, limits: limits, at: unixSeconds())
        } catch {
            log.note(error, path: request.path)
        }
        if case .scan = request.request { metrics.scanned(in: start.duration(to: .now)) }
        if sessions.file.hasQueuedUploads { merges.append(sessions) }
        return nil
    }

    /// Whether a session asks for what has just come, not for what it has missed.
    func isLive(_ request: FileRequest) -> Bool { openFiles[request.path]?.isLive(request.session) ?? false }

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
            sessions.announce(bodies: &bodies, limits: limits, until: beginStep())
            retainRecent([path])
            return made
        } catch let error as HistoryError {
            // That a relay cannot be written to is no trouble of its store.
            if error.isTransient, error.code != .storeUnusable, let sessions = openFiles[path] {
                close(sessions, because: error)
            } else {
                log.note(error, path: path)
            }
            throw error
        }
    }

    // MARK: Open files

    var activeFiles: [FileSessions] { activePaths.compactMap { openFiles[$0] } }

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
                objectBytesMax: objectBytesMax, adoptsUnownedClientFiles: adoptsUnownedClientFiles,
                backlogBytesMax: backlogBytesMax),
            storedProgressSessionsMax: storedProgressSessionsMax)
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

    func close(_ sessions: FileSessions, because error: HistoryError) {
        log.note(error, path: sessions.file.path)
        end(sessions, because: error)
    }

    func end(_ sessions: FileSessions, because error: HistoryError) {
        merges.remove(sessions)
        sessions.failAll(error)
        closingReplies += sessions.takeReplies()
        done += sessions.takeDone()
        forget(sessions)
    }

    /// Its file can be opened anew.
    func forget(_ sessions: FileSessions) {
        openFiles[sessions.file.path] = nil
        _ = tails.note([(sessions.file.path, 0)])
    }
}
