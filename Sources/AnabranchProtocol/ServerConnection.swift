import AnabranchCore

/// Names one session for the caller. It is never used again, unlike the ident, so that an answer that comes too late
/// cannot be taken for an answer to the session's successor.
public struct SessionHandle: Hashable, Sendable {
    /// The client's name for the session.
    public let ident: SessionID
    let serial: UInt64
}

/// What a message of the client asks the caller to do.
public enum Request: Equatable, Sendable {
    /// A session begins. The caller finds the server-side file and, if the client needs one, allocates a file ident
    /// (`fileIdentAllocated`). An impossible partition value is refused by `fail` with 204.
    case open(SessionHandle, partition: [UInt8], needsFileIdent: Bool)
    /// IDENT: to be answered by `identAccepted`, `fail`, or, if another session of this connection has bound the file,
    /// `failConnection` with 108.
    case check(SessionHandle, IdentRequest)
    /// UPLOAD: to be integrated, or refused by `fail`. It can come while the check of the IDENT is under way: the order
    /// has to be kept, and if the check fails the UPLOAD is void.
    case integrate(SessionHandle, UploadMessage)
    /// UNBIND: the session's hold on its file ends now. There is nothing to answer.
    case detach(SessionHandle)
    /// The client could not integrate a DOWNLOAD: for the log. With an answer, which is on its way, the session is over
    /// and its hold on the file ends.
    case clientFailed(SessionHandle, code: Int, text: String, answer: ErrorMessage?)
    /// The client broke the rules: all sessions are over, and their hold on files ends. The error is on its way.
    case connectionFailed(ProtocolViolation)
}

/// What a connection has to do next in order to say what it has to say.
public enum Output: Equatable, Sendable {
    /// Send this.
    case message(EncodedMessage)
    /// Scan the log from here on and answer by `downloadReady`, or by `fail`.
    case scan(SessionHandle, from: DownloadCursor)
    /// Send this and nothing after it, read and discard until the client leaves, and give up after
    /// `Limits.softCloseMillisecondsMax`.
    case lastMessage(EncodedMessage)
    /// Close with this WebSocket close code, and then the socket: all that can be said to a client below version 4.
    case close(code: UInt16)
}

/// The server's side of one connection (`Spec/Protocol.md`, section 8): a pure machine.
///
///     open ─ refusal, violation or failConnection ─▶ failing ─ JSON_ERROR or close sent ─▶ failed
///
/// While it is open, a message goes to the session it names. Later messages are swallowed unread.
///
/// What is to be sent is not pushed but asked for with `next`, so that the caller holds back what the socket cannot
/// take. PONG comes first; then the sessions take turns: one message of one, the next message of the next. A session
/// owes at most a few messages at any time; a caller that also stops reading while it cannot write bounds the memory
/// of a connection.
///
/// A client can do nothing that traps. A caller that answers what was not asked does: those are preconditions. Answers
/// to a session that has ended meanwhile are legal and ignored.
public struct ServerConnection: ~Copyable, Sendable {
    public let version: ProtocolVersion
    private let limits: Limits
    private let decoder: MessageDecoder

    private enum Phase {
        case open
        case failing(Output)
        case failed
    }

    private var phase = Phase.open
    private var sessions: [SessionID: ServerSession] = [:]
    private var serial: UInt64 = 0

    private var pong: Int64?
    private var logMessages: [LogMessage] = []
    /// Idents of the sessions that have a message to send, in the order of their turns; each once.
    private var speakers: [SessionID] = []
    /// Idents of the sessions that want a DOWNLOAD to be made, likewise.
    private var scanners: [SessionID] = []
    private var downloadsUnderWay = 0

    /// A connection that has just been opened. If the negotiation refused the client, all there is to do is to tell it.
    public init(_ negotiation: Negotiation, limits: Limits = Limits()) {
        version = negotiation.version
        self.limits = limits
        decoder = MessageDecoder(limits: limits)
        if let refusal = negotiation.refusal { failConnection(refusal) }
    }

    /// Whether a connection-level error ended all sessions.
    public var hasFailed: Bool {
        if case .open = phase { false } else { true }
    }

    /// The number of sessions, those included that were refused but not yet unbound.
    public var sessionCount: Int { sessions.count }

    // MARK: - From the client

    /// Takes one WebSocket binary message, whatever is in it.
    ///
    /// - Returns: what the caller has to do about it, if anything. There may also be something new to send.
    public mutating func receive(_ message: [UInt8]) -> Request? {
        guard case .open = phase else { return nil }
        do throws(ProtocolViolation) {
            return try receive(try decode(message))
        } catch {
            failConnection(ErrorMessage(error))
            return .connectionFailed(error)
        }
    }

    private func decode(_ message: [UInt8]) throws(ProtocolViolation) -> ClientMessage {
        try decoder.decode(message) { session in sessions[session]?.hasFailed == true }
    }

    private mutating func receive(_ message: ClientMessage) throws(ProtocolViolation) -> Request? {
        switch message {
        case .ping(let timestamp, _):
            pong = timestamp
            return nil
        case .bind(let session, let bind) where sessions[session] == nil:
            return try open(session, bind)
        case .bind(let session, _), .ident(let session, _), .upload(let session, _), .mark(let session, _),
            .unbind(let session), .error(let session, _, _), .testCommand(let session):
            return try receive(message, for: session)
        }
    }

    private mutating func open(_ ident: SessionID, _ bind: BindRequest) throws(ProtocolViolation) -> Request? {
        guard sessions.count < limits.sessionsPerConnectionMax * 2 else {
            throw ProtocolViolation(.connectionClosed, "far too many sessions")
        }
        serial += 1
        let handle = SessionHandle(ident: ident, serial: serial)
        sessions[ident] = ServerSession(handle, needsFileIdent: bind.needsFileIdent)
        if sessions.count > limits.sessionsPerConnectionMax {
            fail(handle, ErrorMessage(.otherSessionError, "too many sessions on one connection"))
            return nil
        }
        if bind.partition.isEmpty {
            fail(handle, ErrorMessage(.illegalRealmPath, "empty"))
            return nil
        }
        return .open(handle, partition: bind.partition, needsFileIdent: bind.needsFileIdent)
    }

    private mutating func receive(
        _ message: ClientMessage, for ident: SessionID
    ) throws(ProtocolViolation) -> Request? {
        guard var session = sessions[ident] else {
            throw ProtocolViolation(.badSessionIdent, "no such session")
        }
        let turn = session.turn
        let request = try session.receive(message, limits)
        store(session, queuedFor: turn)
        return request
    }

    // MARK: - From the server

    /// The ident for a session that needs one is durable and can be told.
    public mutating func fileIdentAllocated(_ handle: SessionHandle, _ file: SaltedFileID) {
        update(handle) { $0.fileIdentAllocated(file) }
    }

    /// The IDENT passed its check: the session runs, from this cursor on.
    ///
    /// - Parameter exposedVersion: the newest durable server version.
    public mutating func identAccepted(_ handle: SessionHandle, cursor: DownloadCursor, exposedVersion: ServerVersion) {
        update(handle) { $0.identAccepted(cursor: cursor, exposedVersion: exposedVersion) }
    }

    /// New server versions are durable. May be called at any time and in any order.
    public mutating func versionExposed(_ handle: SessionHandle, _ version: ServerVersion) {
        update(handle) { $0.versionExposed(version) }
    }

    /// The DOWNLOAD that `Output.scan` asked for.
    public mutating func downloadReady(_ handle: SessionHandle, _ progress: DownloadProgress, _ body: DownloadBody) {
        update(handle) { $0.downloadReady(progress, body) }
    }

    /// Tells the client of a compensating write (231). To be called before the version that contains the undo is
    /// exposed, in ascending order of these versions; the session goes on. Clients below version 5 are not told.
    ///
    /// - Precondition: the error has a `rejection` with its `serverVersion`, without which clients abort.
    public mutating func warn(_ handle: SessionHandle, _ error: ErrorMessage) {
        precondition(!error.isFinal && error.rejection?.serverVersion != nil, "not a compensating write")
        if version.hasCompensatingWrites { update(handle) { $0.warn(error) } }
    }

    /// Ends a session by an error of 200 … 299: the caller lets go of its file. A client below version 4 has to be
    /// disconnected.
    public mutating func fail(_ handle: SessionHandle, _ error: ErrorMessage) {
        precondition(!error.code.isConnectionLevel && error.isFinal, "\(error.code) does not end a session")
        let adapted = error.adapted(to: version)
        update(handle) { $0.fail(adapted) }
    }

    /// Ends the connection by an error of 100 … 199: the caller lets go of all its files. The first one counts.
    public mutating func failConnection(_ error: ErrorMessage) {
        precondition(error.code.isConnectionLevel, "\(error.code) does not end a connection")
        end(error)
    }

    /// Puts a line into the client's log. Clients below version 10 are not told.
    public mutating func log(_ message: LogMessage) {
        if version.hasLogMessages, !hasFailed { logMessages.append(message) }
    }

    private mutating func end(_ error: ErrorMessage) {
        guard case .open = phase else { return }
        phase = .failing(
            version.hasErrorMessages
                ? .lastMessage(ServerMessage.error(session: 0, error).encoded)
                : .close(code: Self.closeCode(for: error)))
        sessions = [:]
        speakers = []
        scanners = []
        downloadsUnderWay = 0
        logMessages = []
        pong = nil
    }

    /// Old clients come back soon after 1000, and after an hour upon any other code.
    private static func closeCode(for error: ErrorMessage) -> UInt16 {
        error.action == .transient ? 1000 : 1008
    }

    // MARK: - To the client

    /// What to send next, or to do in order to send it; `nil` if there is nothing. To be asked for until then whenever
    /// the socket can take more, a message was received, or the caller had news.
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
            return .message(ServerMessage.pong(timestamp: timestamp).encoded)
        }
        if !logMessages.isEmpty {
            return .message(ServerMessage.log(session: 0, logMessages.removeFirst()).encoded)
        }
        if !speakers.isEmpty { return giveTurn(to: speakers.removeFirst()) }
        guard !scanners.isEmpty, downloadsUnderWay < limits.downloadsUnderWayMax else { return nil }
        return giveTurn(to: scanners.removeFirst())
    }

    private mutating func giveTurn(to ident: SessionID) -> Output? {
        guard var session = sessions[ident] else { preconditionFailure("a session that is gone has no turn") }
        if let error = session.pendingError, !version.hasErrorMessages {
            end(error)
            return next()
        }
        let output = session.next()
        store(session, queuedFor: .nothing)
        return output
    }

    // MARK: - Sessions

    private mutating func update(_ handle: SessionHandle, _ event: (inout ServerSession) -> Void) {
        guard var session = sessions[handle.ident], session.handle == handle else { return }
        let turn = session.turn
        event(&session)
        store(session, queuedFor: turn)
    }

    /// Stores a changed session, and sees to it that it stands in the queue of what it now wants.
    private mutating func store(_ session: ServerSession, queuedFor oldTurn: ServerSession.Turn) {
        let ident = session.handle.ident
        if let old = sessions[ident], old.isDownloading != session.isDownloading {
            downloadsUnderWay += session.isDownloading ? 1 : -1
        }
        sessions[ident] = session.isFinished ? nil : session
        guard session.turn != oldTurn else { return }
        switch oldTurn {
        case .nothing: break
        case .message: speakers.removeAll { $0 == ident }
        case .scan: scanners.removeAll { $0 == ident }
        }
        switch session.turn {
        case .nothing: break
        case .message: speakers.append(ident)
        case .scan: scanners.append(ident)
        }
    }
}
