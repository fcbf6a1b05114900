public import AnabranchCore

/// The client's side of one session (`Spec/Protocol.md`, section 8.2; `Spec/FlexibleSync.md`, part 2): a pure machine
/// that syncs one file, over connections that come and go.
///
///     offline ─ connected ─▶ unbound ─ BIND ─▶ allocating ─ IDENT came ─▶ identifying ─ IDENT ─▶ running
///                                       └────── the file has an ident ──────▶┘
///
///     running ─ integrationFailed ─▶ refusing
///
///     any with BIND ─ ERROR ─▶ failed ─ UNBIND ─▶ unbound, which sends nothing before `resume`
///
///     any with BIND ─ unbind ─ UNBIND ─▶ unbinding ─ UNBOUND or ERROR ─▶ finished
///
///     any ─ disconnected ─▶ offline
///
/// The caller takes messages to send from `next`, after each received message and each action of the application, and
/// passes messages of the server to `receive`. A DOWNLOAD is integrated before anything else happens: the caller
/// reports `integrated` or `integrationFailed`. A message of the server that the table does not allow is thrown as an
/// error, and ends the connection; an invalid call of the program violates a precondition.
///
/// The machine has none of the defects of released clients: parts of a bootstrap never outlive a connection, a
/// bootstrap without changesets is a violation and not an endless loop, and so on.
public struct ClientSession: Sendable {
    /// The number by which client and server name the session on every connection.
    public let ident: SessionID
    /// The mode of sync that the connections must use.
    public let mode: SyncMode
    private let bind: BindRequest
    private let uploads: Bool
    private let limits: Limits

    private enum Phase {
        case offline, unbound, allocating, identifying, running
        /// A DOWNLOAD could not be integrated; the message is JSON_ERROR, if it was not sent yet.
        case refusing(ClientMessage?)
        case failed, unbinding, finished
    }

    private var phase = Phase.offline
    private var version = ProtocolVersion(ProtocolVersion.supported.upperBound)
    /// True if UNBIND comes before anything else.
    private var isEnding = false
    /// An error has ended the session, and `resume` has not been called yet.
    private var isSuspended = false
    /// True once UPLOAD and QUERY may be sent: not before the first MARK of the connection is answered.
    private var allowsChanges = false
    private var marks = ClientMarks()
    /// The progress of flexible sync; it never changes in partition-based sync.
    private var subscriptions = SubscriptionProgress(active: 0)
    private var compensatingWrites = CompensatingWrites()
    /// The DOWNLOAD that the caller integrates.
    private var integrating: (kind: DownloadKind, end: ServerVersion, isEmpty: Bool)?

    /// A session of partition-based sync that has no connection yet.
    ///
    /// - Parameters:
    ///   - ident: from a counter that all sessions of the process have in common.
    ///   - uploads: false for the fresh file of a client reset (section 10).
    public init(_ ident: SessionID, partition: [UInt8], uploads: Bool = true, limits: Limits = Limits()) {
        self.init(ident, .partition, BindRequest(partition: partition, needsFileIdent: false), uploads, limits)
    }

    /// A session of flexible sync that has no connection yet.
    public init(
        _ ident: SessionID, flexible: FlexibleBind = FlexibleBind(), uploads: Bool = true, limits: Limits = Limits()
    ) {
        self.init(ident, .flexible, BindRequest(flexible: flexible, needsFileIdent: false), uploads, limits)
    }

    private init(_ ident: SessionID, _ mode: SyncMode, _ bind: BindRequest, _ uploads: Bool, _ limits: Limits) {
        (self.ident, self.mode, self.bind, self.uploads, self.limits) = (ident, mode, bind, uploads, limits)
    }

    /// True once the session is over, and the server knows it or need not know.
    public var isFinished: Bool {
        if case .finished = phase { true } else { false }
    }

    /// True while the session waits for `resume`, with or without a connection.
    public var isWaitingToResume: Bool { isSuspended && !isFinished }

    /// True if IDENT was sent and no error has come since.
    public var isRunning: Bool {
        if case .running = phase { true } else { false }
    }

    /// True while a MARK has not been sent or answered: it is not known whether everything has arrived.
    public var isWaitingForMark: Bool { marks.isAwaited }

    /// True if it has a connection, and is not finished.
    package var isConnected: Bool {
        switch phase {
        case .offline, .finished: false
        default: true
        }
    }

    // MARK: - The application and its connections

    /// Begins the session on a new connection.
    ///
    /// - Parameters:
    ///   - version: the negotiated version of the protocol.
    ///   - isFast: whether the previous connection was lost a short time ago (`ClientTimers`): then uploads do not wait
    ///     until everything is downloaded.
    /// - Precondition: the session has none, and is not finished.
    public mutating func connected(_ version: ProtocolVersion, isFast: Bool) {
        guard case .offline = phase else { preconditionFailure("the session has a connection, or has ended") }
        self.version = version
        phase = .unbound
        allowsChanges = isFast
        if !isFast { _ = marks.request() }
    }

    /// Reports that the connection was lost or closed. Does nothing if there was none.
    public mutating func disconnected() {
        forgetProgress()
        if !isFinished { phase = isEnding ? .finished : .offline }
    }

    /// Begins the session again: the delay after an error is over, or the error is resolved.
    public mutating func resume() { isSuspended = false }

    /// Keeps the session from beginning on any connection before `resume`, as after an error.
    package mutating func suspend() { isSuspended = true }

    /// Ends the session: with an UNBIND if the server knows of it.
    public mutating func unbind() {
        isEnding = true
        switch phase {
        case .offline, .unbound: phase = .finished
        case .allocating, .identifying, .running, .refusing, .failed, .unbinding, .finished: break
        }
    }

    /// Requests a MARK.
    ///
    /// - Returns: the request: once an `Event.marked` has it, or a larger one, everything that the server had at the
    ///   time of this call has arrived and was integrated.
    public mutating func requestMark() -> UInt64 { marks.request() }

    /// Forgets the state that the session had on its connection.
    private mutating func forgetProgress() {
        marks.sessionEnded()
        compensatingWrites = CompensatingWrites()
        integrating = nil
    }

    // MARK: - To the server

    /// The next message to send; nil while there is none.
    ///
    /// - Precondition: the last DOWNLOAD was integrated. A file whose ident has come has stored it.
    /// - Throws: the errors of the file; then nothing has changed.
    public mutating func next(_ file: inout some SessionFile) throws -> ClientMessage? {
        precondition(integrating == nil, "a DOWNLOAD is being integrated")
        switch phase {
        case .offline, .unbinding, .finished: return nil
        case .unbound: return isSuspended ? nil : begin(file)
        case .failed:
            phase = isEnding ? .finished : .unbound
            return .unbind(session: ident)
        case .allocating where isEnding, .identifying where isEnding, .running where isEnding,
            .refusing where isEnding:
            phase = .unbinding
            return .unbind(session: ident)
        case .allocating: return nil
        case .identifying: return identify(&file)
        case .running: return try nextMark() ?? nextChange(&file)
        case .refusing(let message):
            phase = .refusing(nil)
            return message
        }
    }

    private mutating func begin(_ file: some SessionFile) -> ClientMessage {
        var request = bind
        request.needsFileIdent = file.file == nil
        phase = request.needsFileIdent ? .allocating : .identifying
        return .bind(session: ident, request)
    }

    private mutating func identify(_ file: inout some SessionFile) -> ClientMessage {
        guard let salted = file.file else { preconditionFailure("the file was not told its ident") }
        file.startUploading()
        // A MARK was answered on an earlier connection, and its consequence was not stored.
        if marks.wasAnswered, !marks.isAwaited, file.needsMark { _ = marks.request() }
        let active = mode == .flexible ? file.activeSubscriptions ?? SubscriptionSet.none : nil
        subscriptions = SubscriptionProgress(active: active?.version ?? 0)
        phase = .running
        let request = IdentRequest(
            file: salted, download: file.progress.cursor, latest: file.progress.latest, subscriptions: active)
        return .ident(session: ident, request)
    }

    private mutating func nextMark() -> ClientMessage? {
        marks.next(after: subscriptions.newestQuery).map { .mark(session: ident, request: $0) }
    }

    /// QUERY as soon as all writes from before the set was made are uploaded, or UPLOAD up to there. A MARK follows
    /// QUERY.
    private mutating func nextChange(_ file: inout some SessionFile) throws -> ClientMessage? {
        guard allowsChanges else { return nil }
        let unsent = mode == .flexible ? file.unsentSubscriptions(after: subscriptions.newestQuery) : nil
        if let unsent, file.hasUploaded(through: unsent.snapshot) || !uploads {
            let isNew = subscriptions.query(unsent.set.version)
            precondition(isNew, "the subscription set was sent already")
            _ = marks.request()
            return .query(session: ident, unsent.set)
        }
        guard uploads, let upload = try file.nextUpload(through: unsent?.snapshot ?? .largest) else { return nil }
        return .upload(session: ident, UploadMessage(upload))
    }

    // MARK: - From the server

    /// Takes a message of the session. If the session has ended, or its connection, the message is ignored.
    ///
    /// - Returns: the action for the caller, if any. There may also be something new to send.
    /// - Precondition: the last DOWNLOAD was integrated.
    /// - Throws: if the server may not say this now: the connection has to be closed.
    public mutating func receive(_ message: ServerMessage, _ file: some SessionFile) throws(ProtocolError) -> Event? {
        precondition(integrating == nil, "a DOWNLOAD is being integrated")
        switch (phase, message) {
        case (.offline, _), (.finished, _): return nil
        case (_, .log(_, let message)): return .log(message)
        case (_, .error(_, let error)): return try receive(error)

        case (.unbinding, .unbound):
            phase = .finished
            return .unbound
        case (.unbinding, _): return nil

        case (.allocating, .ident(_, let file)):
            phase = .identifying
            return .ident(file)

        case (.running, .download(_, let message)): return try receive(message, file)
        case (.running, .mark(_, let request)): return try receive(mark: request)
        case (.running, .queryError(_, let refusal)):
            guard subscriptions.refuse(refusal.version) else {
                throw ProtocolError(
                    .badMessageOrder, "query_error: subscription set \(refusal.version) is not asked for")
            }
            return .queryRefused(refusal)

        case (.refusing, .download), (.refusing, .mark), (.refusing, .queryError): return nil

        default:
            throw ProtocolError(.badMessageOrder, "\(message.kind.rawValue): the session is not ready for this message")
        }
    }

    private mutating func receive(_ error: ErrorMessage) throws(ProtocolError) -> Event? {
        switch (phase, error.code) {
        case (.running, .compensatingWrite):
            try compensatingWrites.hold(error, limits)
            return nil
        case (_, .compensatingWrite): return nil
        case (.unbound, _), (.failed, _):
            throw ProtocolError(.badMessageOrder, "json_error: the session has not begun, or is over")
        case (.unbinding, _):
            phase = .finished
            return .unbound
        case (_, .schemaVersionChanged):
            unbind()
            return .failed(error)
        default:
            phase = .failed
            isSuspended = true
            forgetProgress()
            return .failed(error)
        }
    }

    private mutating func receive(mark request: UInt64) throws(ProtocolError) -> Event {
        guard let query = marks.answer(request) else {
            throw ProtocolError(.badMessageOrder, "mark: nobody waits for \(request)")
        }
        guard subscriptions.isSettled(query) else {
            throw ProtocolError(.badMessageOrder, "mark: subscription set \(query) has no answer yet")
        }
        allowsChanges = true
        let active = mode == .flexible && subscriptions.active <= query ? subscriptions.active : nil
        return .marked(request, complete: active)
    }
}

// MARK: - Downloads

extension ClientSession {
    private mutating func receive(
        _ message: DownloadMessage, _ file: some SessionFile
    ) throws(ProtocolError) -> Event {
        let download = message.download, old = file.progress
        let check = DownloadCheck(mode, version: file.version, ident: file.file?.ident ?? 0)
        if let problem = check.violation(of: download, after: old) {
            throw ProtocolError(.badSyntax, "download: \(problem)")
        }
        if DownloadCheck.goesBack(download.progress, after: old) {
            let reason = "the server version of the upload cursor goes back"
            refuse(.badProgress, reason)
            return .downloadRefused(.badProgress, reason)
        }
        let isEmpty = download.changesets.isEmpty
        let kind = kind(of: message.batch, isFirst: old.cursor.serverVersion == 0)
        if case .bootstrap(let query, let isLast) = kind,
            let problem = subscriptions.problem(of: query, isLast: isLast, isEmpty: isEmpty, in: version)
        {
            throw ProtocolError(.badMessageOrder, "download: \(problem)")
        }
        integrating = (kind, download.progress.cursor.serverVersion, isEmpty)
        return .download(download, kind)
    }

    /// Below version 14 the downloads of the active set are steady state, except for the bootstrap with which a file
    /// begins.
    private func kind(of batch: QueryBatch?, isFirst: Bool) -> DownloadKind {
        guard let batch else { return .steady }
        let isOfActive = batch.version == subscriptions.active && !isFirst
        let isSteady = batch.state == .steady || batch.state == .last && !version.hasBatchStates && isOfActive
        return isSteady ? .steady : .bootstrap(batch.version, isLast: batch.state == .last)
    }

    /// Reports that the caller has integrated the content of `Event.download`, or stored a part of a bootstrap,
    /// durably.
    ///
    /// - Returns: the errors 231 to report to the application now, since the versions that undo its writes are there.
    /// - Precondition: there was such an event, and this is the first call since.
    public mutating func integrated() -> [ErrorMessage] {
        switch takeDownload() {
        case (.steady, let end, _): return compensatingWrites.release(through: end)
        case (.bootstrap(let query, let isLast), _, let isEmpty):
            subscriptions.advance(query, isLast: isLast, isEmpty: isEmpty)
            return []
        }
    }

    /// Reports that the caller could not integrate the download: the session sends the error, and then does nothing
    /// more by itself.
    ///
    /// - Parameter code: 212 for a changeset that cannot be merged or applied, 112 for one too large to be stored, 233
    ///   for progress that goes back, and 201 for everything else.
    /// - Precondition: as for `integrated`; the code is one of these.
    public mutating func integrationFailed(_ code: ErrorCode, _ reason: String) {
        let codes: Set<ErrorCode> = [.badChangeset, .badChangesetSize, .badProgress, .otherSessionError]
        precondition(codes.contains(code), "\(code) is no error of an integration")
        _ = takeDownload()
        refuse(code, reason)
    }

    private mutating func takeDownload() -> (kind: DownloadKind, end: ServerVersion, isEmpty: Bool) {
        guard let download = integrating else { preconditionFailure("no DOWNLOAD is being integrated") }
        integrating = nil
        return download
    }

    /// Servers below version 7 do not know the message.
    private mutating func refuse(_ code: ErrorCode, _ reason: String) {
        var json = JSONObject()
        json.add("message", reason)
        let message = ClientMessage.error(session: ident, code: code.rawValue, text: json.bytes)
        phase = .refusing(version.hasErrorActions ? message : nil)
    }

    /// A task that a message of the server sets the caller.
    public enum Event: Equatable, Sendable {
        /// The file's ident: to be stored durably before `next` is called.
        case ident(SaltedFileID)
        /// To be integrated at once, or stored if it is a part of a bootstrap; the caller then says `integrated` or
        /// `integrationFailed`. Everything that can be checked without looking into the changesets has been checked.
        case download(Download, DownloadKind)
        /// A DOWNLOAD that cannot be integrated, for the log; the server gets JSON_ERROR.
        case downloadRefused(ErrorCode, String)
        /// MARK: everything that the server had when this was requested has arrived; the same holds for earlier
        /// requests. In flexible sync also the subscription set that is complete by that, if its bootstrap was
        /// integrated.
        case marked(UInt64, complete: QueryVersion?)
        /// The server cannot serve a subscription set; the one before stays active.
        case queryRefused(QueryRefusal)
        /// The server has ended the session, which now sends UNBIND. `ErrorMessage.reaction` says what to do; if that
        /// is to try again, call `resume` after the `RetryDelay`.
        case failed(ErrorMessage)
        /// A line for the client's log.
        case log(LogMessage)
        /// The session is finished.
        case unbound
    }
}
