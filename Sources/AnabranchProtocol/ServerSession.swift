import AnabranchCore

/// The server's side of one session (`Spec/Protocol.md`, section 8.3).
///
///     BIND, need = 1                BIND, need = 0
///       │                             │
///       ▼                             ▼
///     allocating ─ ident ready ─ IDENT sent ─▶ waiting ─ IDENT ─▶ checking ─ accepted ─▶ running
///
///     any of these ─ error found ─▶ errorPending ─ ERROR sent ─▶ errorSent ─ UNBIND ─▶ finished
///
///     any but errorSent ─ UNBIND ─▶ unbinding ─ UNBOUND sent ─▶ finished
///
/// The specification knows no state `checking`, as if the check of an IDENT took no time. The client does not wait for
/// its end: what it sends meanwhile is taken as in `running`, and is in vain if the check fails.
struct ServerSession: Sendable {
    let handle: SessionHandle
    private var state: State

    private enum State {
        case allocating
        case identReady(SaltedFileID)
        case waiting
        case checking(Feed)
        case running(Feed)
        case errorPending(ErrorMessage)
        case errorSent
        case unbinding
        case finished
    }

    /// What a session has to say: messages are ready at once, a DOWNLOAD has to be made.
    enum Turn {
        case nothing, message, scan
    }

    init(_ handle: SessionHandle, needsFileIdent: Bool) {
        self.handle = handle
        state = needsFileIdent ? .allocating : .waiting
    }

    var isFinished: Bool {
        if case .finished = state { true } else { false }
    }

    /// Whatever the client still sends is void, until it lets go of the session.
    var hasFailed: Bool {
        switch state {
        case .errorPending, .errorSent: true
        default: false
        }
    }

    var pendingError: ErrorMessage? {
        if case .errorPending(let error) = state { error } else { nil }
    }

    /// A DOWNLOAD is being made, or waits to be sent.
    var isDownloading: Bool {
        if case .running(let feed) = state { feed.isDownloading } else { false }
    }

    var turn: Turn {
        switch state {
        case .identReady, .errorPending, .unbinding: .message
        case .running(let feed): feed.turn
        case .allocating, .waiting, .checking, .errorSent, .finished: .nothing
        }
    }

    // MARK: - From the client

    /// The table of section 8.3, row by row; BIND of an ident in use is its column of 107.
    mutating func receive(_ message: ClientMessage, _ limits: Limits) throws(ProtocolViolation) -> Request? {
        switch (state, message) {
        case (_, .bind):
            throw ProtocolViolation(.reuseOfSessionIdent, "bind: session ident in use")

        case (.unbinding, _):
            throw ProtocolViolation(.badMessageOrder, "message after unbind")

        case (.errorSent, .unbind):
            state = .finished
            return nil
        case (.errorPending, .unbind):
            state = .unbinding
            return nil
        case (.errorPending, _), (.errorSent, _):
            return nil

        case (_, .unbind):
            state = .unbinding
            return .detach(handle)

        case (.waiting, .ident(_, let request)):
            state = .checking(Feed())
            return .check(handle, request)

        case (.checking, .upload(_, let message)), (.running, .upload(_, let message)):
            return .integrate(handle, message)

        case (.checking(var feed), .mark(_, let request)):
            feed.mark = request
            state = .checking(feed)
            return nil
        case (.running(var feed), .mark(_, let request)):
            feed.mark = request
            state = .running(feed)
            return nil

        case (.checking, .error(_, let code, let text)), (.running, .error(_, let code, let text)):
            let answer = Self.answer(toClientError: code, limits)
            state = .errorPending(answer)
            return .clientFailed(handle, code: code, text: excerpt(text, limits), answer: answer)
        case (_, .error(_, let code, let text)):
            return .clientFailed(handle, code: code, text: excerpt(text, limits), answer: nil)

        case (_, .testCommand), (_, .ping):
            return nil

        case (_, .ident), (_, .upload), (_, .mark):
            throw ProtocolViolation(.badMessageOrder, "session is not ready for this message")
        }
    }

    /// Section 8.6. The client waits for this: it integrates nothing more by itself.
    private static func answer(toClientError code: Int, _ limits: Limits) -> ErrorMessage {
        let detail = "the client could not integrate a download: error \(code)"
        switch ErrorCode(rawValue: code) {
        case .badChangesetSize, .badChangeset, .badProgress:
            return ErrorMessage(.badClientFile, detail)
        default:
            var answer = ErrorMessage(.otherSessionError, detail)
            answer.backOff = limits.integrationFailureBackOff
            return answer
        }
    }

    private func excerpt(_ text: ArraySlice<UInt8>, _ limits: Limits) -> String {
        String(decoding: text.prefix(limits.clientErrorTextBytesMax), as: UTF8.self)
    }

    // MARK: - From the server

    mutating func fileIdentAllocated(_ file: SaltedFileID) {
        guard isLive else { return }
        guard case .allocating = state else { preconditionFailure("the session did not ask for a file ident") }
        state = .identReady(file)
    }

    mutating func identAccepted(cursor: DownloadCursor, exposedVersion: ServerVersion) {
        guard isLive else { return }
        guard case .checking(var feed) = state else { preconditionFailure("no IDENT is being checked") }
        feed.cursor = cursor
        feed.exposedVersion = max(feed.exposedVersion, exposedVersion)
        state = .running(feed)
    }

    /// Before the IDENT is checked this is no news yet: `identAccepted` will say it.
    mutating func versionExposed(_ version: ServerVersion) {
        if hasFile { updateFeed { $0.exposedVersion = max($0.exposedVersion, version) } }
    }

    mutating func downloadReady(_ progress: DownloadProgress, _ body: DownloadBody) {
        let message = ServerMessage.download(session: handle.ident, progress, body)
        updateFeed { $0.downloadReady(progress, message.encoded) }
    }

    mutating func warn(_ warning: ErrorMessage) {
        updateFeed { $0.warnings.append(warning) }
    }

    /// The first error counts.
    mutating func fail(_ error: ErrorMessage) {
        if isLive { state = .errorPending(error) }
    }

    /// Neither over nor about to be over. An event that comes later crossed the end of the session, and is void.
    private var isLive: Bool {
        switch state {
        case .allocating, .identReady, .waiting, .checking, .running: true
        case .errorPending, .errorSent, .unbinding, .finished: false
        }
    }

    private var hasFile: Bool {
        switch state {
        case .checking, .running: true
        default: false
        }
    }

    private mutating func updateFeed(_ update: (inout Feed) -> Void) {
        switch state {
        case .checking(var feed):
            update(&feed)
            state = .checking(feed)
        case .running(var feed):
            update(&feed)
            state = .running(feed)
        default:
            precondition(!isLive, "the session has no file yet")
        }
    }

    // MARK: - To the client

    /// What to send, or to do in order to send it; `nil` if it is not the session's turn.
    mutating func next() -> Output? {
        switch state {
        case .identReady(let file):
            state = .waiting
            return .message(ServerMessage.ident(session: handle.ident, file).encoded)
        case .running(var feed):
            defer { state = .running(feed) }
            return feed.next(handle)
        case .errorPending(let error):
            state = .errorSent
            return .message(ServerMessage.error(session: handle.ident, error).encoded)
        case .unbinding:
            state = .finished
            return .message(ServerMessage.unbound(session: handle.ident).encoded)
        case .allocating, .waiting, .checking, .errorSent, .finished:
            return nil
        }
    }
}

/// What a running session owes its client (`Spec/History.md`, section 7): a first DOWNLOAD even if it is empty, then
/// one whenever there is something beyond the cursor, and, once there is nothing, the answer to the latest MARK.
private struct Feed: Sendable {
    var cursor = DownloadCursor()
    var exposedVersion: ServerVersion = 0
    var mark: UInt64?
    /// They go before the DOWNLOAD that they speak of.
    var warnings: [ErrorMessage] = []
    private var hasSentDownload = false
    private var download = Download.none

    private enum Download {
        case none, underWay
        case ready(EncodedMessage)
    }

    var isDownloading: Bool {
        if case .none = download { false } else { true }
    }

    var turn: ServerSession.Turn {
        if !warnings.isEmpty { return .message }
        switch download {
        case .ready: return .message
        case .underWay: return .nothing
        case .none: break
        }
        if !hasSentDownload || exposedVersion > cursor.serverVersion { return .scan }
        return mark == nil ? .nothing : .message
    }

    mutating func downloadReady(_ progress: DownloadProgress, _ message: EncodedMessage) {
        guard case .underWay = download else { preconditionFailure("no DOWNLOAD was asked for") }
        precondition(cursor.serverVersion <= progress.cursor.serverVersion, "a DOWNLOAD must not go back")
        cursor = progress.cursor
        exposedVersion = max(exposedVersion, progress.latest.version)
        download = .ready(message)
    }

    mutating func next(_ handle: SessionHandle) -> Output? {
        if !warnings.isEmpty {
            return .message(ServerMessage.error(session: handle.ident, warnings.removeFirst()).encoded)
        }
        if case .ready(let message) = download {
            download = .none
            hasSentDownload = true
            return .message(message)
        }
        switch turn {
        case .scan:
            download = .underWay
            return .scan(handle, from: cursor)
        case .message:
            defer { mark = nil }
            return mark.map { .message(ServerMessage.mark(session: handle.ident, request: $0).encoded) }
        case .nothing:
            return nil
        }
    }
}
