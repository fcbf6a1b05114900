package import AnabranchCore

/// The server's side of one connection (`Spec/Protocol.md`, section 8): a pure machine.
///
///     open ─ refusal, violation or failConnection ─▶ failing ─ JSON_ERROR or close sent ─▶ failed
///     open ─ superseded ─────────────────────────────────────────────────────────────────▶ failed
///
/// While it is open, a message goes to the session it names. Later messages are skipped unread.
///
/// Messages are not pushed: the caller takes them from `next`, and so only as many as the socket accepts. PONG comes
/// first, then log messages; then the sessions take turns: one message of one, the next message of the next. A session
/// has at most a few messages waiting at any time, and in flexible sync a refusal for each QUERY that the caller has
/// refused; so a caller that stops reading while it cannot write bounds the memory of a connection.
///
/// Nothing that a client sends traps, and no answer of the caller does, however late or often it comes. The caller must
/// only see to the kinds of errors: a precondition says which of them each function takes.
///
/// It uses the negotiated mode of sync, and supports all that a client of that mode understands. A server that never
/// needs some of it, such as compensating writes where every write is allowed, pays nothing for it.
public struct ServerConnection: ~Copyable, Sendable {
    /// The version of the protocol on this connection.
    public let version: ProtocolVersion
    /// The mode that is spoken.
    public let mode: SyncMode
    private let limits: Limits
    private let asksBeforeMarks: Bool
    private let incoming: ClientMessageCodec
    private let outgoing: ServerMessageCodec

    private enum Phase {
        case open
        case failing(Output)
        case failed
    }

    private var phase = Phase.open
    private var sessions: [SessionID: ServerSession] = [:]
    /// How many sessions there have been.
    private var serial: UInt64 = 0
    /// The client files whose last session here has ended with 200: the client begins it again.
    private var restarting: Set<ClientFileID> = []

    /// True once a very old client has described itself, which it does before it opens sessions.
    private var isDescribed = false
    private var obsolete: [(session: SessionID, type: String)] = []
    private var pong: Int64?
    private var logMessages: [LogMessage] = []
    /// The sessions that have a message to send, in the order of their turns; each once.
    private var sendQueue: [SessionID] = []
    /// The sessions that want a DOWNLOAD to be made, in the order of their turns; each once.
    private var scanQueue: [SessionID] = []
    /// DOWNLOADs that are being made, or wait to be sent.
    package private(set) var downloadsUnderWay = 0

    /// A connection that has just been opened. If the negotiation refused the client, it only sends the error.
    /// - Parameter asksBeforeMarks: whether a file must report its newest version before a MARK is answered, since
    ///   there may be versions that the connection does not know of (`SessionRequest.newestVersion`).
    public init(_ negotiation: Negotiation, limits: Limits = Limits(), asksBeforeMarks: Bool = false) {
        self.asksBeforeMarks = asksBeforeMarks
        version = negotiation.version
        mode = negotiation.mode
        self.limits = limits
        incoming = ClientMessageCodec(limits: limits, mode: mode)
        outgoing = ServerMessageCodec(limits: limits, mode: mode, version: version, dialect: negotiation.dialect)
        if let refusal = negotiation.refusal { failConnection(refusal) }
    }

    /// True once a connection-level error has ended all sessions.
    public var hasFailed: Bool {
        if case .open = phase { false } else { true }
    }

    /// The number of sessions, those included that were refused but not yet unbound.
    public var sessionCount: Int { sessions.count }

    // MARK: - From the client

    /// Takes one WebSocket binary message, whatever is in it.
    ///
    /// - Returns: what the caller has to do about it, if anything. There may also be something new to send.
    public mutating func receive(_ message: [UInt8]) -> Action? {
        guard case .open = phase else { return nil }
        do throws(ProtocolError) {
            guard let request = try decode(message) else { return try receiveObsolete(message) }
            return try receive(request)
        } catch {
            failConnection(ErrorMessage(error))
            return .connectionFailed(error)
        }
    }

    /// - Returns: nil if clients send no messages of this type.
    private func decode(_ message: [UInt8]) throws(ProtocolError) -> ClientMessage? {
        do throws(ProtocolError) {
            return try incoming.decode(message) { session in sessions[session]?.hasFailed == true }
        } catch {
            guard error.code == .unknownMessage else { throw error }
            return nil
        }
    }

    private mutating func receiveObsolete(_ message: [UInt8]) throws(ProtocolError) -> Action? {
        if !isDescribed, serial == 0, message.starts(with: "client ".utf8) {
            isDescribed = true
            return nil
        }
        guard let request = try ObsoleteRequest(message, limits) else { throw .unknownMessage(message) }
        let limits = limits
        let action = try updateExisting(request.session) { session throws(ProtocolError) in
            try session.receive(request, limits)
        }
        obsolete.append((request.session, request.kind.rawValue))
        return action
    }

    /// The obsolete requests since this was last asked: their sessions and types, for the log.
    package mutating func takeObsolete() -> [(session: SessionID, type: String)] {
        defer { obsolete = [] }
        return obsolete
    }

    private mutating func receive(_ message: ClientMessage) throws(ProtocolError) -> Action? {
        switch message {
        case .ping(let timestamp, _):
            pong = timestamp
            return nil
        case .bind(let session, let request) where sessions[session] == nil:
            return try open(session, request)
        case .bind(let session, _), .ident(let session, _), .query(let session, _), .upload(let session, _),
            .mark(let session, _), .unbind(let session), .error(let session, _, _), .testCommand(let session, _, _):
            let limits = limits
            let action = try updateExisting(session) { session throws(ProtocolError) in
                try session.receive(message, limits)
            }
            guard case .ask(let handle, .identify(let request, _)) = action else { return action }
            return .ask(handle, .identify(request, hasRestarted: takeRestart(of: request.file.ident)))
        }
    }

    /// True if the client has just begun its session again. A client that cannot be made to counts as if it had.
    private mutating func takeRestart(of file: ClientFileID) -> Bool {
        restarting.remove(file) != nil || !version.hasErrorMessages
    }

    private mutating func open(_ ident: SessionID, _ request: BindRequest) throws(ProtocolError) -> Action? {
        guard sessions.count < limits.sessionsPerConnectionMax * 2 else {
            throw ProtocolError(.connectionClosed, "far too many sessions")
        }
        serial += 1
        let handle = SessionHandle(ident: ident, serial: serial)
        sessions[ident] = ServerSession(
            handle, mode, needsFileIdent: request.needsFileIdent, asksBeforeMarks: asksBeforeMarks)
        if sessions.count > limits.sessionsPerConnectionMax {
            fail(handle, ErrorMessage(.otherSessionError, "too many sessions on one connection"))
            return nil
        }
        if mode == .partition, request.partition.isEmpty {
            fail(handle, ErrorMessage(.illegalRealmPath, "empty"))
            return nil
        }
        return .ask(handle, .open(request))
    }

    // MARK: - From the server

    /// Takes an event of the session's synced file. It is ignored if the session has ended by then.
    ///
    /// - Precondition: a code that fails a session is not 231.
    public mutating func receive(_ event: SessionEvent, for handle: SessionHandle) {
        switch event {
        case .fileIdentAllocated(let file):
            update(handle) { $0.fileIdentAllocated(file) }
        case .identAccepted(let cursor, let exposedVersion):
            update(handle) { $0.identAccepted(cursor: cursor, exposedVersion: exposedVersion) }
        case .versionExposed(let version):
            update(handle) { $0.versionExposed(version) }
        case .download(let progress, let body):
            downloadReady(FlexibleDownload(progress: progress, body: body), for: handle)
        case .flexibleDownload(let download):
            downloadReady(download, for: handle)
        case .queryRefused(let refusal):
            update(handle) { $0.queryRefused(refusal) }
        case .clientVersion(let version):
            update(handle) { $0.answer(clientVersion: version) }
        case .newestVersion(let version):
            update(handle) { $0.answer(newestVersion: version) }
        case .log(let message):
            if version.hasLogMessages { update(handle) { $0.notify(.log(message)) } }
        case .failed(let error) where error.code.isConnectionLevel:
            failConnection(error)
        case .failed(let error):
            fail(handle, error)
        case .superseded:
            end(saying: nil)
        }
    }

    /// Takes a DOWNLOAD that was made before the session asked for it. If the session would not request it next, or too
    /// many are under way, it only announces its version: the session requests a DOWNLOAD in its turn.
    ///
    /// - Parameter cursor: the place that the DOWNLOAD follows.
    /// - Returns: whether it will be sent.
    package mutating func receive(
        unasked progress: DownloadProgress, _ body: EncodedBody, after cursor: DownloadCursor, for handle: SessionHandle
    ) -> Bool {
        var isTaken = false
        guard downloadsUnderWay < limits.downloadsUnderWayMax else {
            receive(.versionExposed(progress.latest.version), for: handle)
            return false
        }
        let codec = outgoing, version = version, download = FlexibleDownload(progress: progress, body: body)
        update(handle) { isTaken = $0.unaskedDownload(download, after: cursor, version, codec) }
        return isTaken
    }

    private mutating func downloadReady(_ download: FlexibleDownload, for handle: SessionHandle) {
        let codec = outgoing, version = version
        var download = download
        if !version.hasCompensatingWrites { download.compensations = [] }
        update(handle) { $0.downloadReady(download, version, codec) }
    }

    /// Sends the client a compensating write (231), after which the session goes on. Call this before the version that
    /// contains the undo is exposed, in ascending order of these versions. Clients below version 5 get nothing.
    ///
    /// - Precondition: the error has a `rejection` with its `serverVersion`, without which clients abort.
    public mutating func warn(_ handle: SessionHandle, _ error: ErrorMessage) {
        precondition(!error.isFinal && error.rejection?.serverVersion != nil, "not a compensating write")
        if version.hasCompensatingWrites { update(handle) { $0.notify(.warning(error)) } }
    }

    /// Ends a session: the caller releases its file. A client below version 4 has to be disconnected.
    ///
    /// - Precondition: the code is one of 200 … 299, and not 231.
    public mutating func fail(_ handle: SessionHandle, _ error: ErrorMessage) {
        precondition(!error.code.isConnectionLevel && error.isFinal, "\(error.code) does not end a session")
        if error.code == .sessionClosed, let file = sessions[handle.ident]?.clientFile { restarting.insert(file) }
        let adapted = error.adapted(to: version)
        update(handle) { $0.fail(adapted) }
    }

    /// Ends the connection: the caller releases all its files. The first error counts.
    ///
    /// - Precondition: the code is one of 100 … 199.
    public mutating func failConnection(_ error: ErrorMessage) {
        precondition(error.code.isConnectionLevel, "\(error.code) does not end a connection")
        end(error)
    }

    /// Sends a line for the client's log. Clients below version 10 get nothing.
    public mutating func log(_ message: LogMessage) {
        if version.hasLogMessages, !hasFailed { logMessages.append(message) }
    }

    private mutating func end(_ error: ErrorMessage) {
        end(
            saying: version.hasErrorMessages
                ? .lastMessage(outgoing.encode(.error(session: 0, error))) : .close(code: Self.closeCode(for: error)))
    }

    private mutating func end(saying output: Output?) {
        guard case .open = phase else { return }
        phase = output.map { .failing($0) } ?? .failed
        sessions = [:]
        sendQueue = []
        scanQueue = []
        downloadsUnderWay = 0
        logMessages = []
        pong = nil
    }

    /// Old clients come back soon after 1000, and after an hour upon any other code.
    private static func closeCode(for error: ErrorMessage) -> UInt16 {
        error.action == .transient ? 1000 : 1008
    }

    // MARK: - To the client

    /// The next message to send, or request to make in order to have one; nil if there is nothing. Call this until it
    /// returns nil, whenever the socket can take more, a message was received, or the caller has passed on a result.
    public mutating func next() -> Output? {
        switch phase {
        case .open: break
        case .failing(let output):
            phase = .failed
            return output
        case .failed: return nil
        }
        if let timestamp = pong {
            pong = nil
            return .message(outgoing.encode(.pong(timestamp: timestamp)))
        }
        if !logMessages.isEmpty {
            return .message(outgoing.encode(.log(session: 0, logMessages.removeFirst())))
        }
        if !sendQueue.isEmpty { return giveTurn(to: sendQueue.removeFirst()) }
        guard !scanQueue.isEmpty, downloadsUnderWay < limits.downloadsUnderWayMax else { return nil }
        return giveTurn(to: scanQueue.removeFirst())
    }

    /// - Parameter ident: taken out of its queue.
    private mutating func giveTurn(to ident: SessionID) -> Output? {
        if !version.hasErrorMessages, let error = sessions[ident]?.pendingError {
            end(error)
            return next()
        }
        let codec = outgoing
        return update(ident, isQueued: false) { $0.next(codec) } ?? nil
    }

    // MARK: - Sessions

    private mutating func update(_ handle: SessionHandle, _ event: (inout ServerSession) -> Void) {
        _ = update(handle.ident) { session in if session.handle == handle { event(&session) } }
    }

    /// - Throws: the errors of `event`, or 106 if there is no such session.
    private mutating func updateExisting<Result>(
        _ ident: SessionID, _ event: (inout ServerSession) throws(ProtocolError) -> Result
    ) throws(ProtocolError) -> Result {
        guard let result = try update(ident, event) else { throw ProtocolError(.badSessionIdent, "no such session") }
        return result
    }

    /// Changes a session and puts it into the queue that it now belongs to. Every event comes through here, so that the
    /// session is changed in place and not copied.
    ///
    /// - Parameter isQueued: false if it has just been taken out of its queue.
    /// - Returns: the result of `event`; nil if there is no such session.
    private mutating func update<Result, Failure>(
        _ ident: SessionID, isQueued: Bool = true, _ event: (inout ServerSession) throws(Failure) -> Result
    ) throws(Failure) -> Result? {
        guard let index = sessions.index(forKey: ident) else { return nil }
        let (result, old, new) = try Self.change(&sessions.values[index], event)
        if new.isDownloading != old.isDownloading { downloadsUnderWay += new.isDownloading ? 1 : -1 }
        if new.isFinished { sessions.remove(at: index) }
        let oldTurn = isQueued ? old.turn : .nothing
        guard new.turn != oldTurn else { return result }
        switch oldTurn {
        case .nothing: break
        case .message: sendQueue.removeAll { $0 == ident }
        case .scan: scanQueue.removeAll { $0 == ident }
        }
        switch new.turn {
        case .nothing: break
        case .message: sendQueue.append(ident)
        case .scan: scanQueue.append(ident)
        }
        return result
    }

    private static func change<Result, Failure>(
        _ session: inout ServerSession, _ event: (inout ServerSession) throws(Failure) -> Result
    ) throws(Failure) -> (Result, old: ServerSession.Summary, new: ServerSession.Summary) {
        let old = session.summary
        return (try event(&session), old, session.summary)
    }
}
