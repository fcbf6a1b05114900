import AnabranchCore

/// The server's side of one session (`Spec/Protocol.md`, section 8.3; `Spec/FlexibleSync.md`, section 1.7).
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
/// The specification has no state `checking`, as if the check of an IDENT took no time. The client does not wait for
/// its end: messages that arrive during the check are taken as in `running`, and are dropped if the check fails.
///
/// No event traps, in any order: an answer that nothing requested, that comes twice, or that crossed the end of the
/// session is ignored. The messages that a running session still has to send are kept next to the state, not in it, so
/// that they are changed in place and never copied.
struct ServerSession: Sendable {
    let handle: SessionHandle
    private let mode: SyncMode
    /// True if the file must report its newest version before a MARK is answered.
    private let asksBeforeMarks: Bool
    private var state: State
    /// The client file that the client has named in IDENT.
    private(set) var clientFile: ClientFileID?
    /// Used in `checking` and `running`.
    private var feed = DownloadFeed()
    /// Answers to TEST_COMMANDs and obsolete requests, which come at any time.
    private var answers: [EncodedMessage] = []
    /// The number of obsolete requests that wait for an answer of the file.
    private var awaitedAnswers = 0
    /// True if the session has ended by itself, and its file does not know yet.
    private var hasToClose = false

    private enum State {
        case allocating
        case identReady(SaltedFileID)
        case waiting
        case checking
        case running
        case errorPending(ErrorMessage)
        case errorSent
        case unbinding
        case finished
    }

    /// The turn that a session wants: messages are ready at once, a DOWNLOAD has to be made first.
    enum Turn {
        case nothing, message, scan
    }

    init(_ handle: SessionHandle, _ mode: SyncMode, needsFileIdent: Bool, asksBeforeMarks: Bool) {
        self.handle = handle
        self.mode = mode
        self.asksBeforeMarks = asksBeforeMarks
        state = needsFileIdent ? .allocating : .waiting
    }

    var isFinished: Bool {
        if case .finished = state { true } else { false }
    }

    /// True while the client has not released the failed session yet; whatever it sends until then is skipped.
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
        if case .running = state { feed.isDownloading } else { false }
    }

    var turn: Turn {
        switch state {
        case _ where hasAnswer: .message
        case .identReady, .errorPending, .unbinding: .message
        case .running: feed.turn
        case .allocating, .waiting, .checking, .errorSent, .finished: .nothing
        }
    }

    /// The part of a session's state that its connection uses.
    struct Summary {
        let turn: Turn
        let isDownloading: Bool
        let isFinished: Bool
    }

    var summary: Summary { Summary(turn: turn, isDownloading: isDownloading, isFinished: isFinished) }

    /// Neither over nor about to be over.
    private var isLive: Bool {
        switch state {
        case .allocating, .identReady, .waiting, .checking, .running: true
        case .errorPending, .errorSent, .unbinding, .finished: false
        }
    }

    /// True if an answer can be sent. A request that came before an error was found is answered before the error.
    private var hasAnswer: Bool { !answers.isEmpty && (isLive || pendingError != nil) }

    /// The client has named its file.
    private var hasFile: Bool {
        switch state {
        case .checking, .running: true
        default: false
        }
    }

    // MARK: - From the client

    /// The table of section 8.3, row by row; BIND of an ident in use is its column of 107.
    mutating func receive(
        _ message: ClientMessage, _ limits: Limits
    ) throws(ProtocolError) -> ServerConnection.Action? {
        switch (state, message) {
        case (_, .bind):
            throw ProtocolError(.reuseOfSessionIdent, "bind: session ident in use")

        case (.unbinding, _):
            throw ProtocolError(.badMessageOrder, "message after unbind")

        case (.errorSent, .unbind):
            state = .finished
            return nil
        case (.errorPending, .unbind):
            state = .unbinding
            return takeClose()
        case (.errorPending, _), (.errorSent, _):
            return nil

        case (_, .unbind):
            state = .unbinding
            return .ask(handle, .close)

        case (.waiting, .ident(_, let request)):
            state = .checking
            clientFile = request.file.ident
            if let subscriptions = request.subscriptions { feed.identify(subscriptions.version) }
            return .ask(handle, .identify(request, hasRestarted: false))

        case (.checking, .query(_, let subscriptions)), (.running, .query(_, let subscriptions)):
            guard feed.query(subscriptions.version) else {
                throw ProtocolError(.badMessageOrder, "query: version is not greater than the one before")
            }
            return .ask(handle, .query(subscriptions))

        case (.checking, .upload(_, let message)), (.running, .upload(_, let message)):
            return .ask(handle, .integrate(message))

        case (.checking, .mark(_, let request)), (.running, .mark(_, let request)):
            feed.mark(request, asksFile: asksBeforeMarks)
            return asksBeforeMarks ? .ask(handle, .newestVersion) : nil

        case (.checking, .error(_, let code, let text)), (.running, .error(_, let code, let text)):
            let answer = Self.answer(toClientError: code, limits)
            state = .errorPending(answer)
            return .clientFailed(handle, code: code, text: excerpt(text, limits), answer: answer)
        case (_, .error(_, let code, let text)):
            return .clientFailed(handle, code: code, text: excerpt(text, limits), answer: nil)

        case (_, .testCommand(_, let request, let body)):
            guard mode == .flexible, answers.count < limits.testCommandsMax else { return nil }
            let command = TestCommand(body, limits)
            let answer = ServerMessage.testCommand(session: handle.ident, request: request, body: command.answer)
            answers.append(ServerMessageCodec(limits: limits, mode: mode).encode(answer))
            if let error = command.error { end(error) }
            return takeClose()

        case (_, .ping):
            return nil

        case (_, .ident), (_, .query), (_, .upload), (_, .mark):
            throw ProtocolError(.badMessageOrder, "session is not ready for this message")
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

    /// Takes a request that current clients no longer send: it is answered, or ends the session (section 4.6).
    mutating func receive(
        _ request: ObsoleteRequest, _ limits: Limits
    ) throws(ProtocolError) -> ServerConnection.Action? {
        guard isLive else { return nil }
        guard !request.needsFile || hasFile else {
            throw ProtocolError(.badMessageOrder, "\(request.kind.rawValue): session is not ready for this message")
        }
        if answers.count + awaitedAnswers >= limits.testCommandsMax {
            end(ErrorMessage(.otherSessionError, "\(request.kind.rawValue): too many requests"))
        } else if let refusal = request.refusal {
            end(refusal)
        } else if let file = request.file {
            awaitedAnswers += 1
            return .ask(handle, .clientVersion(file))
        } else if let answer = request.answer {
            answers.append(answer)
        }
        return takeClose()
    }

    mutating func answer(clientVersion: ClientVersion) {
        guard awaitedAnswers > 0 else { return }
        awaitedAnswers -= 1
        answers.append(ObsoleteRequest.answer(clientVersion: clientVersion, handle.ident))
    }

    private func excerpt(_ text: [UInt8], _ limits: Limits) -> String {
        String(decoding: text.prefix(limits.clientErrorTextBytesMax), as: UTF8.self)
    }

    // MARK: - From the server

    mutating func fileIdentAllocated(_ file: SaltedFileID) {
        if case .allocating = state { state = .identReady(file) }
    }

    mutating func identAccepted(cursor: DownloadCursor, exposedVersion: ServerVersion) {
        guard case .checking = state else { return }
        feed.begin(at: cursor, exposedVersion: exposedVersion)
        state = .running
    }

    /// Ignored before the IDENT has come: `identAccepted` will bring the version.
    mutating func versionExposed(_ version: ServerVersion) {
        if hasFile { feed.expose(version) }
    }

    mutating func downloadReady(
        _ download: FlexibleDownload, _ version: ProtocolVersion, _ codec: ServerMessageCodec
    ) {
        guard case .running = state, feed.isMakingDownload else { return }
        if let problem = feed.problem(of: download, in: version) {
            return end(ErrorMessage(.otherSessionError, problem))
        }
        feed.downloadReady(download, as: handle.ident, codec)
    }

    mutating func answer(newestVersion: ServerVersion) {
        if hasFile { feed.fileAnswered(newestVersion) }
    }

    /// Takes a DOWNLOAD of the newest version that the session has not requested. If the session would not request it
    /// next, it only announces its version.
    /// - Parameter cursor: the place that it follows.
    /// - Returns: whether it was taken.
    mutating func unaskedDownload(
        _ download: FlexibleDownload, after cursor: DownloadCursor, _ version: ProtocolVersion,
        _ codec: ServerMessageCodec
    ) -> Bool {
        versionExposed(download.progress.latest.version)
        guard case .running = state, feed.beginDownload(unaskedAfter: cursor) else { return false }
        downloadReady(download, version, codec)
        return true
    }

    mutating func queryRefused(_ refusal: QueryRefusal) {
        if hasFile { feed.refuse(refusal) }
    }

    mutating func notify(_ notice: DownloadFeed.Notice) {
        if hasFile { feed.notify(notice) }
    }

    /// The first error counts.
    mutating func fail(_ error: ErrorMessage) {
        if isLive { state = .errorPending(error) }
    }

    /// Ends the session with an error that the file does not know of.
    private mutating func end(_ error: ErrorMessage) {
        hasToClose = isLive
        fail(error)
    }

    private mutating func takeClose() -> ServerConnection.Action? {
        defer { hasToClose = false }
        return hasToClose ? .ask(handle, .close) : nil
    }

    // MARK: - To the client

    /// The next message to send, or request to make in order to have one; nil if it is not the session's turn.
    mutating func next(_ codec: ServerMessageCodec) -> ServerConnection.Output? {
        let ident = handle.ident
        switch state {
        case _ where hasAnswer:
            return .message(answers.removeFirst())
        case .identReady(let file):
            state = .waiting
            return .message(codec.encode(.ident(session: ident, file)))
        case .running:
            return switch feed.next() {
            case .notice(.warning(let error)): .message(codec.encode(.error(session: ident, error)))
            case .notice(.refusal(let refusal)): .message(codec.encode(.queryError(session: ident, refusal)))
            case .notice(.log(let message)): .message(codec.encode(.log(session: ident, message)))
            case .download(let message): .message(message)
            case .mark(let request): .message(codec.encode(.mark(session: ident, request: request)))
            case .scan(let request): .ask(handle, request)
            case nil: nil
            }
        case .errorPending where hasToClose:
            hasToClose = false
            return .ask(handle, .close)
        case .errorPending(let error):
            state = .errorSent
            return .message(codec.encode(.error(session: ident, error)))
        case .unbinding:
            state = .finished
            return .message(codec.encode(.unbound(session: ident)))
        case .allocating, .waiting, .checking, .errorSent, .finished:
            return nil
        }
    }
}
