import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import Metrics
import NIOCore
import OrderedCollections

/// A synced file and the sessions that use it.
///
///     open ──IDENT accepted──▶ running ──▶ gone: closed, failed, or superseded by another session of the client file
///
/// It belongs to the queue of its file. `takeReplies` hands out its replies only once everything that they report is
/// durable.
final class FileSessions {
    struct Running {
        let clientFile: ClientFileID
        let user: Principal
        let capabilities: ClientCapabilities
        var progress: SessionProgress
        /// True if the session has everything, or had it when it last asked.
        var isLive: Bool
        /// The version at which the last unrequested DOWNLOAD ends; 0 if the session has requested one since.
        var unaskedVersion: ServerVersion = 0

        /// True once the client is known to have integrated the unasked DOWNLOAD. Until then there is no other one.
        var hasTakenUnasked: Bool { (view?.progress ?? progress).uploaded.serverVersion >= unaskedVersion }
        /// The wait of a DOWNLOAD for memory.
        var wait: MemoryWait?
        /// The session of the view, in flexible sync, in place of `progress`; and what it had been sent before the last
        /// unrequested DOWNLOAD, nil if it has requested one since.
        var view: ViewSession?
        var sentBefore: ViewSession.Sent?
        /// The evidence about the client's clock.
        var clock: ClientClock
    }

    let file: SyncedFile
    /// The views of the file; nil unless each client sees a part of it.
    let flexible: FlexibleFile?
    var replies: [FileReply] = []
    /// The sessions whose client has not named its file yet.
    private var open: Set<SessionKey> = []
    /// The running sessions. New versions are announced in this order, which does not depend on hashes.
    var running: OrderedDictionary<SessionKey, Running> = [:]
    /// The session that uses a client file: at most one (`Spec/History.md`, invariant I-35).
    private var sessionOfClientFile: [ClientFileID: SessionKey] = [:]
    /// The sessions that wait for a new ident, with their users.
    private var pendingIdents: [(session: SessionKey, user: String?)] = []
    /// The uploads that are not committed, in the order of the file's queue.
    var uploads = ClientQueue<(clientFile: ClientFileID, charge: RequestCharge)> { $0.clientFile }
    /// The waiting requests of flexible sync, by client file; and the clients whose searches are next.
    var viewRequests: [ClientFileID: ViewRequests] = [:]
    var newSearches: CircularBuffer<ClientFileID> = []
    var longSearches: CircularBuffer<ClientFileID> = []
    var done: [RequestCharge] = []
    /// The version that was last announced to sessions.
    var announcedVersion: ServerVersion
    /// The number of entries of other nodes that the metrics have counted.
    var followedCount: UInt64 = 0
    /// False while the log has no changes: a version of flexible sync can be that of a view alone.
    var hasChanges: Bool

    let environment: FileEnvironment
    /// The costs of views that were not counted yet, by user: each is less than a millisecond.
    var uncounted: [ExactString: Duration] = [:]

    init(_ file: SyncedFile, _ flexible: FlexibleFile? = nil, _ environment: FileEnvironment) {
        self.file = file
        self.flexible = flexible
        self.environment = environment
        announcedVersion = file.version
        hasChanges = file.head.cumulativeSize > 0
        flexible?.quota = ViewQuota { [unowned self] in
            user(of: $0).map(isQueryTimeUsedUp) ?? false
        } charge: { [unowned self] ident, time in
            if let user = user(of: ident) { charge(user, time) }
        } step: {
            environment.beginStep()
        }
    }

    /// True if the file can be closed: no session would notice that it is opened again later.
    var isIdle: Bool {
        hasNoSessions && !file.hasQueuedUploads && !file.hasUnwrittenProgress && viewRequests.isEmpty
    }

    /// True if there are versions that have not been announced to sessions.
    var hasUnannouncedVersions: Bool { announcedVersion < version }

    /// The client files that have a session.
    var clientFiles: [ClientFileID] { Array(sessionOfClientFile.keys) }

    /// The user whose uploads, or whose session, a client file has.
    private func user(of clientFile: ClientFileID) -> String? {
        viewRequests[clientFile]?.user ?? sessionOfClientFile[clientFile].flatMap { running[$0]?.user.user }
    }

    func session(of clientFile: ClientFileID) -> SessionKey? { sessionOfClientFile[clientFile] }

    var hasNoSessions: Bool { open.isEmpty && running.isEmpty }

    func takeReplies() -> [FileReply] {
        defer { replies = [] }
        return replies
    }

    /// The requests that are done.
    func takeDone() -> [RequestCharge] {
        defer { done = [] }
        return done
    }

    // MARK: Requests

    /// Handles one request. Uploads are queued for `merge`; requests for new idents wait for `didAllocate`.
    /// - Returns: false if the step is over before the answer is known; the request has to be handled again.
    /// - Throws: a failure of the store, which has been reported to the session.
    func handle(
        _ request: FileRequest, memory: DownloadMemory, until limit: StepLimit
    ) throws(HistoryError) -> Bool {
        let key = request.session
        var isWaiting = false
        defer { if !isWaiting { done.append(request.charge) } }
        do throws(HistoryError) {
            switch request.request {
            case .open(let bind): open(key, for: request.user, needsFileIdent: bind.needsFileIdent)
            case .identify(let claim, let hasRestarted):
                try identify(key, claim, of: request.principal, request.capabilities, hasRestarted: hasRestarted)
            case .integrate(let upload):
                isWaiting = try queue(upload, for: request)
            case .scan(let cursor), .scanBootstrap(_, part: _, from: let cursor):
                isWaiting = try !scan(request, from: cursor, memory: memory, until: limit)
                return !isWaiting
            case .query(let subscriptions):
                isWaiting = queue(subscriptions, for: request)
            case .clientVersion(let claimed):
                reply(key, .clientVersion(try file.integratedVersion(of: claimed, user: request.user)))
            case .newestVersion:
                try follow()
                if running[key] != nil { reply(key, .newestVersion(file.version)) }
            case .close: remove(key)
            }
        } catch {
            end(key, because: error)
            if error.isStoreFailure, !isOfOneView(error, request) { throw error }
        }
        return true
    }

    private func open(_ key: SessionKey, for user: String?, needsFileIdent: Bool) {
        open.insert(key)
        if needsFileIdent { pendingIdents.append((key, user)) }
    }

    /// Handles an IDENT (`Spec/History.md`, section 4). Rows 1 to 10 are in the history library, 11 and 12 here.
    private func identify(
        _ key: SessionKey, _ claim: IdentRequest, of user: Principal, _ capabilities: ClientCapabilities,
        hasRestarted: Bool
    ) throws(HistoryError) {
        guard open.contains(key) else { return }
        if flexible != nil, let user = user.user, isQueryTimeUsedUp(by: user) { return failForQueryTime(key) }
        let clientFile = claim.file.ident
        let view = try identifyView(claim, of: user, hasRestarted: hasRestarted)
        let progress = if let view { view.progress } else { try file.identify(claim, user: user.user) }
        file.forgetIdentified(clientFile, at: environment.clock.seenTime)
        releaseDropped()
        if let other = sessionOfClientFile[clientFile] {
            guard other.connection != key.connection else {
                return reply(key, .failed(ErrorMessage(.boundInOtherSession)))
            }
            dropWaiting(of: other, clientFile)
            removeRunning(other)
            reply(other, .superseded)
        }
        open.remove(key)
        running[key] = Running(
            clientFile: clientFile, user: user, capabilities: capabilities, progress: progress,
            isLive: progress.download.serverVersion >= file.version, view: view,
            clock: ClientClock(start: environment.now(), version: progress.download.serverVersion))
        sessionOfClientFile[clientFile] = key
        if flexible?.isSearching(for: clientFile) ?? false { queueIdentified(key) } else { accept(key) }
    }

    /// Lets the session of an IDENT run.
    func accept(_ key: SessionKey) {
        guard let session = running[key] else { return }
        let cursor = (session.view?.progress ?? session.progress).download
        reply(key, .identAccepted(cursor, exposedVersion: file.version))
    }

    /// Handles an UPLOAD, with the checks of `Spec/History.md`, section 5. The new part waits for the next commit,
    /// except for the mere progress of one session among many.
    /// - Returns: whether it waits.
    private func queue(_ upload: UploadMessage, for request: FileRequest) throws(HistoryError) -> Bool {
        let key = request.session, uploader = request.uploader
        guard let index = running.index(forKey: key), var rest = try accept(upload.upload, ofRunning: index) else {
            return false
        }
        let clientFile = running.values[index].clientFile
        try recordClock(ofRunning: index, rest.changesets)
        if request.mayOnlyRead { try withholdSchema(of: &rest, for: key) }
        if !rest.changesets.isEmpty {
            try environment.space.require()
            try requireRoom()
        }
        if let flexible {
            rest.uploader = uploader
            return try queue(rest, from: clientFile, into: flexible, of: key, request.charge)
        }
        let isOneOfMany = running.count > environment.options.storedProgressSessionsMax
        if isOneOfMany, try file.recordProgress(rest, from: clientFile, at: environment.clock.seenTime) { return false }
        rest.uploader = uploader
        try file.enqueue(rest, from: clientFile)
        uploads.append((clientFile, request.charge))
        return true
    }

    /// - Returns: false if the step is over before the answer is known.
    private func scan(
        _ request: FileRequest, from cursor: DownloadCursor, memory: DownloadMemory, until limit: StepLimit
    ) throws(HistoryError) -> Bool {
        let key = request.session, capabilities = request.capabilities
        guard let clientFile = running[key]?.clientFile else { return true }
        if let flexible { return try scan(flexible, for: request, from: cursor, memory: memory, until: limit) }
        let outcome = try memory.download(
            file.downloads(for: clientFile, capabilities), after: cursor, for: request,
            bytesSoftMax: environment.options.limits.downloadBytesSoftMax)
        running[key]?.wait = outcome.wait
        guard case .made(let download, let permit) = outcome else { return true }
        let lineage = try file.downloads(for: clientFile).lineage(after: cursor)
        running[key]?.progress.download = download.progress.cursor
        running[key]?.unaskedVersion = 0
        running[key]?.isLive = download.progress.cursor.serverVersion >= file.version
        var body = body(of: download, after: cursor, in: lineage, capabilities)
        permit?.resize(to: body.count)
        body.attachment = permit.map(MessageAttachment.init)
        reply(key, .download(download.progress, body))
        return true
    }

    private func accept(_ upload: Upload, ofRunning index: Int) throws(HistoryError) -> Upload? {
        flexible == nil
            ? try running.values[index].progress.accept(upload)
            : try running.values[index].view?.progress.accept(upload)
    }

    /// True if the session has everything, or had it when it last asked: it asks only for entries that have come since.
    func isLive(_ key: SessionKey) -> Bool {
        running[key].map { flexible?.isUpToDate($0.clientFile) ?? $0.isLive } ?? false
    }

    // MARK: Transactions

    /// True if there are client files to be made, or to be noted.
    var hasClientFileRequests: Bool { !pendingIdents.isEmpty || file.hasIdentified }

    /// The users of the sessions that wait for a new ident, in the order of `didAllocate`.
    func usersWithoutIdent() -> [String?] {
        pendingIdents.removeAll { !open.contains($0.session) }
        return pendingIdents.map(\.user)
    }

    /// Hands out new idents, when they are durable.
    func didAllocate(_ idents: [SaltedFileID]) {
        for (session, ident) in zip(pendingIdents.map(\.session), idents) {
            reply(session, .fileIdentAllocated(ident))
        }
        pendingIdents = []
    }

    /// Merges queued uploads until the step is over; uploads that come after the merge has begun wait for the next one.
    /// - Returns: whether they are merged, and can be committed.
    /// - Throws: a failure of the store.
    func merge(until limit: StepLimit, isLong: Bool) throws(HistoryError) -> Bool {
        var limit = limit
        return try file.advanceIntegration(at: environment.clock.seenTime, until: &limit, isLong: isLong)
    }

    /// Called when the commit of a merge is durable.
    func didCommit(_ report: IntegrationReport, until limit: StepLimit) {
        done += uploads.removeFirst(report.uploadsDone).map(\.charge)
        for outcome in report.outcomes {
            guard let refusal = outcome.refusal, let key = sessionOfClientFile[outcome.ident] else { continue }
            end(key, because: refusal)
        }
        if report.madeVersions { announce(until: limit) }
    }

    /// Fails all sessions because the store could not do its work. They resume on a file that is opened again, as after
    /// a crash: their clients upload again what was not committed.
    func failAll(_ error: HistoryError) {
        for key in open.union(running.keys) { reply(key, .failed(ErrorMessage(error))) }
        open = []
        running = [:]
        sessionOfClientFile = [:]
        pendingIdents = []
        done += uploads.removeAll().map(\.charge)
        done += viewRequests.values.flatMap(\.charges)
        viewRequests = [:]
        (newSearches, longSearches) = ([], [])
    }

    /// Drops the replies that report a commit which has failed. Sessions that have ended stay ended.
    func forgetReplies() {
        replies.removeAll {
            switch $0.event {
            case .failed, .superseded: false
            default: true
            }
        }
    }

    // MARK: The end of a session

    func remove(_ key: SessionKey) {
        open.remove(key)
        if let clientFile = running[key]?.clientFile { dropWaiting(of: key, clientFile) }
        guard let removed = removeRunning(key) else { return }
        sessionOfClientFile[removed.clientFile] = nil
        flexible?.leave(removed.clientFile)
    }

    /// Removes a running session. The last one takes its place, so that the others need not move.
    @discardableResult
    private func removeRunning(_ key: SessionKey) -> Running? {
        guard let index = running.index(forKey: key) else { return nil }
        running.swapAt(index, running.count - 1)
        return running.removeLast().value
    }

    /// Ends a session at once: an upload that follows a refused one would leave a gap.
    func fail(_ key: SessionKey, _ error: ErrorMessage) {
        guard open.contains(key) || running[key] != nil else { return }
        remove(key)
        reply(key, .failed(adapted(error)))
    }

    func reply(_ key: SessionKey, _ event: SessionEvent) {
        replies.append(FileReply(session: key, event: event))
    }
}
