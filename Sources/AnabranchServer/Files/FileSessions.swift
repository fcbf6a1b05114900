import AnabranchCore
import AnabranchHistory
import AnabranchProtocol

/// A synced file and the sessions that use it.
///
///     open ──IDENT accepted──▶ running ──▶ gone, by `close`, by an error, or because the client file was bound anew
///
/// Belongs to one store thread. What it says goes into `replies`, which nobody sees before everything that they speak
/// of is durable.
final class FileSessions {
    /// The client file and the progress of a running session.
    private struct Running {
        let ident: ClientFileID
        var progress: SessionProgress
    }

    private enum Session {
        case open(user: String?)
        case running(Running)
    }

    let file: SyncedFile
    private(set) var replies: [FileReply] = []
    private var sessions: [SessionKey: Session] = [:]
    /// At most one running session a client file (`Spec/History.md`, invariant I-35).
    private var runningSessions: [ClientFileID: SessionKey] = [:]
    /// The sessions that wait for a new ident, with their users.
    private var pendingIdents: [(session: SessionKey, user: String?)] = []

    init(_ file: SyncedFile) {
        self.file = file
    }

    /// Nobody uses the file any more, so nobody would notice that it was closed and opened again.
    var isIdle: Bool { sessions.isEmpty && !file.hasQueuedUploads }

    func takeReplies() -> [FileReply] {
        defer { replies = [] }
        return replies
    }

    // MARK: Calls

    /// Does what the call asks for; uploads are only queued, idents are only noted.
    /// - Throws: trouble of the store, which the session has been told of.
    func handle(_ call: FileRequest, bodies: inout SharedBodies, limits: Limits) throws(HistoryError) {
        let key = call.session
        do throws(HistoryError) {
            switch call.request {
            case .open(let user, let needsFileIdent): open(key, user: user, needsFileIdent: needsFileIdent)
            case .identify(let request): try identify(key, request)
            case .integrate(let message): try integrate(key, message)
            case .scan(let cursor): try scan(key, from: cursor, bodies: &bodies, limits: limits)
            case .close: release(key)
            }
        } catch {
            fail(key, ErrorMessage(error))
            if error.isOfTheStore { throw error }
        }
    }

    private func open(_ key: SessionKey, user: String?, needsFileIdent: Bool) {
        sessions[key] = .open(user: user)
        if needsFileIdent { pendingIdents.append((key, user)) }
    }

    /// IDENT: the checks of `Spec/History.md`, section 4; the history knows rows 1 to 10, here are 11 and 12.
    private func identify(_ key: SessionKey, _ request: IdentRequest) throws(HistoryError) {
        guard case .open(let user) = sessions[key] else { return }
        let ident = request.file.ident
        let progress = try file.identify(request, user: user)
        if let other = runningSessions[ident] {
            guard other.connection != key.connection else {
                return reply(key, .connectionFailed(ErrorMessage(.boundInOtherSession)))
            }
            release(other)
            reply(other, .superseded)
        }
        runningSessions[ident] = key
        sessions[key] = .running(Running(ident: ident, progress: progress))
        reply(key, .accepted(progress.download, exposedVersion: file.version))
    }

    /// UPLOAD: the checks of `Spec/History.md`, section 5. What is new waits for the next commit.
    private func integrate(_ key: SessionKey, _ message: UploadMessage) throws(HistoryError) {
        guard case .running(var running) = sessions[key] else { return }
        let rest = try running.progress.accept(message.upload)
        sessions[key] = .running(running)
        if let rest { try file.enqueue(rest, from: running.ident) }
    }

    private func scan(
        _ key: SessionKey, from cursor: DownloadCursor, bodies: inout SharedBodies, limits: Limits
    ) throws(HistoryError) {
        guard case .running(var running) = sessions[key] else { return }
        let download = try file.downloads(for: running.ident).download(
            after: cursor, byteBudget: limits.downloadBytesSoftMax)
        running.progress.download = download.progress.cursor
        sessions[key] = .running(running)
        let body = bodies.body(of: download, after: cursor, path: file.path, limits: limits)
        reply(key, .download(download.progress, body))
    }

    // MARK: For the operator

    /// Lets a client file expire; the session that uses it is told.
    func expire(_ ident: ClientFileID) throws(HistoryError) {
        try file.expire(ident)
        if let key = runningSessions[ident] {
            fail(key, ErrorMessage(HistoryError(.clientFileExpired, "the operator has let the client file expire")))
        }
    }

    // MARK: Transactions

    /// Allocates the idents that were asked for, all in one transaction, for the sessions that still want them.
    func allocateIdents(at unixSeconds: UInt64) throws(HistoryError) {
        let waiting = pendingIdents.filter { sessions[$0.session] != nil }
        pendingIdents = []
        guard !waiting.isEmpty else { return }
        let idents = try file.allocateIdents(for: waiting.map(\.user), at: unixSeconds)
        for (pending, file) in zip(waiting, idents) {
            reply(pending.session, .allocated(file))
        }
    }

    /// The commit of the queued uploads is durable.
    func didCommit(_ report: IntegrationReport) {
        for outcome in report.outcomes {
            if let refusal = outcome.refusal, let key = runningSessions[outcome.ident] {
                fail(key, ErrorMessage(refusal))
            }
        }
        if report.madeVersions { notifyExposed() }
    }

    /// The log may have grown: every running session looks for something to download.
    func notifyExposed() {
        for key in runningSessions.values { reply(key, .exposed(file.version)) }
    }

    /// The store could not do its work. All sessions resume later on a file that was opened anew, as after a crash:
    /// whatever was not committed comes again.
    func failAll(_ error: HistoryError) {
        for key in sessions.keys { reply(key, .failed(ErrorMessage(error))) }
        sessions = [:]
        runningSessions = [:]
        pendingIdents = []
    }

    // MARK: Ends

    private func release(_ key: SessionKey) {
        if case .running(let running) = sessions.removeValue(forKey: key) { runningSessions[running.ident] = nil }
    }

    /// The session is over at once: an upload behind one that was refused would leave a gap.
    private func fail(_ key: SessionKey, _ message: ErrorMessage) {
        guard sessions[key] != nil else { return }
        release(key)
        reply(key, message.code.isConnectionLevel ? .connectionFailed(message) : .failed(message))
    }

    private func reply(_ key: SessionKey, _ event: FileReply.Event) {
        replies.append(FileReply(session: key, event: event))
    }
}

// MARK: - Between the libraries

extension HistoryError {
    /// Whether it is trouble of the server's own, and not of one client's making.
    fileprivate var isOfTheStore: Bool { wireCode == 201 }
}

extension ErrorMessage {
    /// The one table from the history's errors to the wire's. Trouble of our own stays transient: what cannot be named
    /// is 201, and never a client reset.
    init(_ error: HistoryError) {
        let code = ErrorCode(rawValue: error.wireCode)
        self.init(code, error.isTransient ? "" : error.reason)
    }
}
