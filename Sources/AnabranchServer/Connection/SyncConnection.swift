import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import Logging

/// One client's connection without its socket: the protocol's machine, and which synced file each session uses.
///
/// Whoever drives it passes on what comes in (`receive`, `take`), then hands the `takeCalls()` to the files and sends
/// what `next()` yields, as long as the socket takes it.
struct SyncConnection: ~Copyable {
    enum Outbound {
        case message(EncodedMessage)
        /// Nothing follows: the sending side is to be shut, and what comes in ignored.
        case lastMessage(EncodedMessage)
        /// A close frame and the end.
        case close(code: UInt16)
    }

    private struct Session {
        let path: VirtualPath
        let partition: [UInt8]
        /// 0 until the client has named its file.
        var clientIdent: ClientFileID = 0
    }

    let ident: ConnectionID
    private let principal: Principal
    private let authorizer: any Authorizer
    private let metrics: SyncMetrics
    private let logger: Logger
    private var machine: ServerConnection
    private var sessions: [SessionHandle: Session] = [:]
    private var calls: [FileRequest] = []
    /// Another connection has bound a client file of this one, which is therefore dead and has to end without a word.
    private(set) var isSuperseded = false

    /// - Parameters:
    ///   - member: who the client is. Partitions of different apps are different files.
    ///   - authorizer: what the client may do.
    init(
        _ ident: ConnectionID, negotiation: Negotiation, principal: Principal,
        authorizer: any Authorizer = AllowAllAuthorizer(),
        limits: Limits, metrics: SyncMetrics, logger: Logger
    ) {
        self.ident = ident
        self.principal = principal
        self.authorizer = authorizer
        self.metrics = metrics
        self.logger = logger
        machine = ServerConnection(negotiation, limits: limits)
    }

    /// What the files are to be asked, in this order.
    mutating func takeCalls() -> [FileRequest] {
        defer { calls = [] }
        return calls
    }

    // MARK: From the client

    mutating func receive(_ message: [UInt8]) {
        metrics.messagesReceived.increment()
        metrics.bytesReceived.increment(by: message.count)
        switch machine.receive(message) {
        case .open(let session, let request): open(session, request)
        case .check(let session, let ident):
            sessions[session]?.clientIdent = ident.file.ident
            call(session, .identify(ident))
        case .integrate(let session, let upload):
            metrics.uploadsReceived.increment()
            integrate(session, upload)
        case .detach(let session):
            log("session ended", session)
            close(session)
        case .clientFailed(let session, let code, let text, let answer):
            log("the client could not integrate", session, ["code": "\(code)", "text": "\(text)"], level: .warning)
            if answer != nil { close(session) }
        case .connectionFailed(let violation):
            logger.notice(
                "protocol violation", metadata: ["code": "\(violation.code.rawValue)", "reason": "\(violation.reason)"])
            closeAll()
        case nil:
            break
        }
    }

    /// BIND. The bytes of the partition mean nothing here.
    private mutating func open(_ session: SessionHandle, _ request: BindRequest) {
        metrics.sessionsOpened.increment()
        // An app id contains no slash, so the two parts cannot be mistaken for others.
        let partition = request.partition
        sessions[session] = Session(
            path: VirtualPath(Array(principal.app.utf8) + [UInt8(ascii: "/")] + partition), partition: partition)
        log("session opened", session)
        guard authorizer.permission(for: principal, on: partition) > .none else {
            fail(session, ErrorMessage(.permissionDenied))
            sessions[session] = nil
            return
        }
        call(session, .open(user: principal.user, needsFileIdent: request.needsFileIdent))
    }

    /// UPLOAD. One without changesets tells only what the client has taken in, which a reader does as well.
    private mutating func integrate(_ session: SessionHandle, _ upload: UploadMessage) {
        guard let partition = sessions[session]?.partition else { return }
        let permission = authorizer.permission(for: principal, on: partition)
        if permission == .none {
            refuse(session, .permissionDenied)
        } else if permission < .write, upload.changesetCount > 0 {
            refuse(session, .writeNotAllowed)
        } else {
            call(session, .integrate(upload))
        }
    }

    /// Ends a session, which is told why.
    private mutating func refuse(_ session: SessionHandle, _ code: ErrorCode) {
        fail(session, ErrorMessage(code))
        close(session)
    }

    // MARK: From the files

    mutating func take(_ reply: FileReply) {
        let session = reply.session.session
        switch reply.event {
        case .allocated(let file):
            log("client file allocated", session, ["client_ident": "\(file.ident)"])
            machine.fileIdentAllocated(session, file)
        case .accepted(let cursor, let exposedVersion):
            log("session running", session, ["from_version": "\(cursor.serverVersion)"])
            machine.identAccepted(session, cursor: cursor, exposedVersion: exposedVersion)
        case .exposed(let version):
            machine.versionExposed(session, version)
        case .download(let header, let body):
            metrics.downloadsMade.increment()
            machine.downloadReady(session, header, body)
        case .failed(let error):
            fail(session, error)
            sessions[session] = nil
        case .connectionFailed(let error):
            fail(error)
        case .superseded:
            logger.info("the client file was bound by another connection")
            isSuperseded = true
            sessions[session] = nil
        }
    }

    // MARK: From the host

    /// Rights have changed: sessions that may not even read any more are over.
    mutating func recheckPermissions() {
        for (session, state) in sessions where authorizer.permission(for: principal, on: state.partition) == .none {
            refuse(session, .permissionDenied)
        }
    }

    var sessionCount: Int { sessions.count }

    /// The sessions, in the order of their idents.
    func report() -> [SessionReport] {
        sessions.map { SessionReport(ident: $0.ident, path: $1.path, clientIdent: $1.clientIdent) }
            .sorted { $0.ident < $1.ident }
    }

    /// Ends a session that may come back at once.
    /// - Returns: false if there is none of that name.
    mutating func disconnect(session ident: SessionID) -> Bool {
        guard let session = sessions.keys.first(where: { $0.ident == ident }) else { return false }
        refuse(session, .sessionClosed)
        return true
    }

    /// Ends the connection with a message.
    mutating func fail(_ error: ErrorMessage) {
        logger.notice("connection failed", metadata: ["code": "\(error.code.rawValue)", "reason": "\(error.message)"])
        machine.failConnection(error)
        closeAll()
    }

    /// The socket is gone, or is about to be.
    mutating func end() { closeAll() }

    // MARK: To the client

    /// What to send next; nil while there is nothing.
    mutating func next() -> Outbound? {
        while let output = machine.next() {
            switch output {
            case .message(let message):
                count(message)
                return .message(message)
            case .lastMessage(let message):
                count(message)
                return .lastMessage(message)
            case .close(let code):
                return .close(code: code)
            case .scan(let session, let cursor):
                call(session, .scan(from: cursor))
            }
        }
        return nil
    }

    private func count(_ message: EncodedMessage) {
        metrics.messagesSent.increment()
        metrics.bytesSent.increment(by: message.count)
        if let code = message.errorCode { metrics.failed(code) }
    }

    // MARK: Sessions

    private mutating func call(_ session: SessionHandle, _ request: FileRequest.Request) {
        guard let path = sessions[session]?.path else { return }
        calls.append(
            FileRequest(path: path, session: SessionKey(connection: ident, session: session), request: request))
    }

    private mutating func close(_ session: SessionHandle) {
        call(session, .close)
        sessions[session] = nil
    }

    private mutating func closeAll() {
        for session in sessions.keys { call(session, .close) }
        sessions = [:]
    }

    private mutating func fail(_ session: SessionHandle, _ error: ErrorMessage) {
        log(
            "session failed", session, ["code": "\(error.code.rawValue)", "reason": "\(error.message)"], level: .notice)
        machine.fail(session, error)
    }

    private func log(
        _ text: Logger.Message, _ session: SessionHandle, _ details: Logger.Metadata = [:],
        level: Logger.Level = .debug
    ) {
        guard logger.logLevel <= level else { return }
        var metadata: Logger.Metadata = ["session": "\(session.ident)"]
        if let session = sessions[session] {
            metadata["path"] = "\(session.path.abbreviated)"
            if session.clientIdent > 0 { metadata["client_ident"] = "\(session.clientIdent)" }
        }
        logger.log(level: level, text, metadata: metadata.merging(details) { $1 })
    }
}
