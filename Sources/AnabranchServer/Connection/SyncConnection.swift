import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import Logging
import Metrics

/// One client's connection without its socket: the protocol's machine, and the synced file of each session.
///
/// Its driver passes the input to `receive`, hands `takeRequests()` to the files, and sends the results of `next()` as
/// long as the socket takes them.
struct SyncConnection: ~Copyable {
    enum Outbound {
        case message(EncodedMessage)
        /// A message that nothing follows: the sending side is shut, and further input is ignored.
        case lastMessage(EncodedMessage)
        /// A close frame that nothing follows.
        case close(code: UInt16)
    }

    private struct Session {
        /// The app, a slash and the partition value, which may be long: there is no second copy of it.
        let path: VirtualPath
        /// 0 until the client has named its file.
        var clientFile: ClientFileID = 0
    }

    let id: ConnectionID
    private let principal: Principal
    private let dialect: WireDialect
    private let capabilities: ClientCapabilities
    private let uploader: Uploader
    private let authorizer: any Authorizer
    private let names: FileNames
    private let metrics: SyncMetrics
    private let logger: Logger
    private let refusals: RecentRefusals?
    private var machine: ServerConnection
    /// The files that the sessions' requests go to. The authorities on existing sessions are `machine` (towards the
    /// client) and `FileSessions` (towards the file).
    private var sessions: [SessionHandle: Session] = [:]
    private var requests: [FileRequest] = []
    /// The types of the client's messages that no client of today sends.
    private var obsoleteTypes: Set<String> = []
    /// True once a partition has been logged that was hardly meant.
    private var hasToldOfPartition = false
    /// True once another connection has bound a client file of this one. Then this one is dead and has to end without a
    /// message.
    private(set) var isSuperseded = false

    /// - Parameters:
    ///   - principal: the client's user. Partitions of different apps are different files.
    ///   - authorizer: decides what the user may do.
    ///   - names: the files that partitions mean.
    ///   - asksBeforeMarks: as of `ServerConnection`: true where other nodes write the files, too.
    ///   - refusals: where ends of sessions are recorded, for an operator; nil for nowhere.
    init(
        _ id: ConnectionID, negotiation: Negotiation, principal: Principal,
        authorizer: any Authorizer = AllowAllAuthorizer(), names: FileNames = FileNames(), limits: Limits,
        asksBeforeMarks: Bool = false, metrics: SyncMetrics, logger: Logger, refusals: RecentRefusals? = nil
    ) {
        self.id = id
        self.principal = principal
        dialect = negotiation.dialect
        capabilities = negotiation.release.capabilities
        uploader = Uploader(
            release: negotiation.release.said?.number ?? 0,
            protocolVersion: UInt64(clamping: negotiation.version.number))
        self.authorizer = authorizer
        self.names = names
        self.metrics = metrics
        self.logger = logger
        self.refusals = refusals
        machine = ServerConnection(negotiation, limits: limits, asksBeforeMarks: asksBeforeMarks)
    }

    /// Takes the new requests to synced files, in order.
    mutating func takeRequests() -> [FileRequest] {
        defer { requests = [] }
        return requests
    }

    // MARK: From the client

    mutating func receive(_ message: [UInt8]) {
        metrics.messagesReceived.increment()
        metrics.bytesReceived.increment(by: message.count)
        let action = machine.receive(message)
        for (session, type) in machine.takeObsolete() { log(obsolete: type, of: session) }
        switch action {
        case .ask(let session, let request):
            ask(session, request)
        case .clientFailed(let session, let code, let text, let answer):
            log("the client could not integrate", session, ["code": "\(code)", "text": "\(text)"], level: .warning)
            if answer != nil { close(session) }
        case .connectionFailed(let error):
            logger.notice(
                "protocol violation", metadata: ["code": "\(error.code.rawValue)", "reason": "\(error.reason)"])
            closeAll()
        case nil:
            break
        }
    }

    /// Counts an obsolete message; the log has one line for each type.
    private mutating func log(obsolete type: String, of session: SessionID) {
        metrics.receivedObsolete(type)
        guard obsoleteTypes.insert(type).inserted else { return }
        logger.notice("obsolete message", metadata: ["type": "\(type)", "session": "\(session)"])
    }

    /// Passes a request on to the file of its session, if the user has the permission for it.
    private mutating func ask(_ session: SessionHandle, _ request: SessionRequest) {
        switch request {
        case .open(let bind):
            open(session, bind)
        case .identify(let claim, _):
            sessions[session]?.clientFile = claim.file.ident
            submit(request, of: session)
        case .integrate(let upload):
            metrics.uploadsReceived.increment()
            integrate(upload, in: session)
        case .query, .scan, .scanBootstrap, .clientVersion, .newestVersion:
            submit(request, of: session)
        case .close:
            log("session ended", session)
            close(session)
        }
    }

    /// Handles a BIND. The file is that of the partition's value, however the client spells it.
    private mutating func open(_ session: SessionHandle, _ bind: BindRequest) {
        metrics.sessionsOpened.increment()
        let partition =
            dialect.hasPlainPartitions ? PartitionValue.canonical(plain: bind.partition) : Array(bind.partition)
        // An app id contains no slash, so no two partitions of two apps have one path.
        let path =
            machine.mode == .flexible
            ? VirtualPath(principal.app)
            : names.file(at: VirtualPath(Array(principal.app.utf8) + [UInt8(ascii: "/")] + partition))
        sessions[session] = Session(path: path)
        log("session opened", session, level: .info)
        if machine.mode == .partition, !hasToldOfPartition, PartitionValue.isMistaken(bind.partition) {
            hasToldOfPartition = true
            log("the partition looks like extended JSON and names no value", session, level: .warning)
        }
        guard permission(on: path) > .none else {
            fail(session, ErrorMessage(.permissionDenied))
            sessions[session] = nil
            return
        }
        submit(.open(bind), of: session)
    }

    /// The user's permission on a file. In flexible sync, roles decide, for each object. In partition-based sync, the
    /// partition's value counts, not the file's name, which can have an older spelling of it. The token limits both.
    private func permission(on path: VirtualPath) -> Permission {
        let rights = principal.rights
        guard machine.mode == .partition else { return rights.permission }
        let partition = Array(path.canonical.partition ?? [])
        if let only = rights.partition, only != PartitionValue.withoutSlash(partition) { return .none }
        return rights.isAdmin
            ? rights.permission : min(rights.permission, authorizer.permission(for: principal, on: partition))
    }

    /// The reason for the user's permission on a file, in words; nil if roles decide.
    private func reason(on path: VirtualPath) -> String? {
        let rights = principal.rights
        guard machine.mode == .partition else { return rights.permission == .none ? "the token allows nothing" : nil }
        let partition = Array(path.canonical.partition ?? [])
        if let only = rights.partition, only != PartitionValue.withoutSlash(partition) {
            return "the token is for another partition"
        }
        if rights.isAdmin || rights.permission < authorizer.permission(for: principal, on: partition) {
            return "the token allows no more"
        }
        return authorizer.reason(for: principal, on: partition)
    }

    /// Passes an UPLOAD to the file, even if the user may only read: the client's progress and its schema are no
    /// writes, and the file makes the distinction.
    private mutating func integrate(_ upload: UploadMessage, in session: SessionHandle) {
        guard let path = sessions[session]?.path else { return }
        let permission = permission(on: path)
        guard permission > .none else { return end(session, .permissionDenied) }
        submit(.integrate(upload), of: session, mayOnlyRead: permission < .write)
    }

    /// Counts a WebSocket that is about to be closed with this code because of its input.
    func countFramingError(_ code: UInt16) { metrics.failedFraming(code) }

    // MARK: From the files

    /// - Parameter canSend: whether the socket accepts messages. If not, an unrequested DOWNLOAD is dropped, so that a
    ///   slow reader costs no memory for it: the session requests it when it can be sent.
    mutating func receive(_ reply: FileReply, canSend: Bool) {
        let session = reply.session.session
        if let cursor = reply.follows, case .download(let progress, let body) = reply.event {
            guard canSend else { return machine.receive(.versionExposed(progress.latest.version), for: session) }
            let isTaken = machine.receive(unasked: progress, body, after: cursor, for: session)
            if isTaken { metrics.downloadsMade.increment() }
            return
        }
        switch reply.event {
        case .fileIdentAllocated(let file):
            log("client file allocated", session, ["client_ident": "\(file.ident)"])
        case .identAccepted(let cursor, _):
            log("session running", session, ["from_version": "\(cursor.serverVersion)"])
        case .versionExposed, .queryRefused, .clientVersion, .newestVersion, .log:
            break
        case .download:
            metrics.downloadsMade.increment()
        case .flexibleDownload(let download):
            metrics.downloadsMade.increment()
            for error in download.compensations { record(undone: error, in: session) }
        case .failed(let error) where error.code.isConnectionLevel:
            return fail(error)
        case .failed(let error):
            fail(session, error)
            sessions[session] = nil
            return
        case .superseded:
            logger.info("the client file was bound by another connection")
            isSuperseded = true
            sessions[session] = nil
        }
        machine.receive(reply.event, for: session)
    }

    // MARK: From the rest of the server

    /// Ends sessions without any permission, after permissions have changed.
    mutating func recheckPermissions() {
        for session in orderedSessions {
            guard let path = sessions[session]?.path, permission(on: path) == .none else { continue }
            end(session, .permissionDenied)
        }
    }

    var sessionCount: Int { sessions.count }

    /// The sessions in an order that does not depend on hashes: simulations count on it.
    private var orderedSessions: [SessionHandle] { sessions.keys.sorted { $0.ident < $1.ident } }

    /// The sessions, in the order of their idents.
    func report() -> [SessionReport] {
        sessions.map { SessionReport(ident: $0.ident, path: $1.path, clientIdent: $1.clientFile) }
            .sorted { $0.ident < $1.ident }
    }

    /// Ends a session. The client may reconnect immediately, or has to delete its local file without a backup.
    /// - Returns: false if there is no such session.
    mutating func disconnect(session ident: SessionID, deletingLocalFile: Bool) -> Bool {
        guard let session = sessions.keys.first(where: { $0.ident == ident }) else { return false }
        var error = ErrorMessage(deletingLocalFile ? .permissionDenied : .sessionClosed)
        if deletingLocalFile { error.action = .deleteRealm }
        fail(session, error)
        close(session)
        return true
    }

    /// Ends all sessions: the socket is gone, or is about to be.
    mutating func end() { closeAll() }

    // MARK: To the client

    /// The next thing to send; nil while there is nothing.
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
            case .ask(let session, let request):
                ask(session, request)
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

    private mutating func submit(_ request: SessionRequest, of session: SessionHandle, mayOnlyRead: Bool = false) {
        guard let path = sessions[session]?.path else { return }
        requests.append(
            FileRequest(
                path: path, session: SessionKey(connection: id, session: session), principal: principal,
                capabilities: capabilities, request: request, uploader: uploader,
                mayOnlyRead: mayOnlyRead, mayBeLong: machine.downloadsUnderWay <= 1))
    }

    /// Releases the file of a session.
    private mutating func close(_ session: SessionHandle) {
        submit(.close, of: session)
        sessions[session] = nil
    }

    private mutating func closeAll() {
        for session in orderedSessions { submit(.close, of: session) }
        sessions = [:]
    }

    /// Ends a session and tells its client why.
    private mutating func end(_ session: SessionHandle, _ code: ErrorCode) {
        fail(session, ErrorMessage(code))
        close(session)
    }

    private mutating func fail(_ session: SessionHandle, _ error: ErrorMessage) {
        let path = sessions[session]?.path
        var details: Logger.Metadata = ["code": "\(error.code.rawValue)", "reason": "\(error.message)"]
        details["user"] = principal.user.map { "\($0)" }
        var words = error.message
        // An operator's order to delete the local file is a 206, too.
        if error.code == .writeNotAllowed || error.code == .permissionDenied && error.action != .deleteRealm {
            details["mode"] = machine.mode == .flexible ? "flexible" : "partition"
            details["provider"] = principal.provider.map { "\($0)" }
            if let path, let reason = reason(on: path) {
                details["because"] = "\(reason)"
                words += ": \(reason)"
            }
        }
        log("session failed", session, details, level: .notice)
        if let user = principal.user {
            refusals?.record(of: user, path: path?.abbreviated, code: "\(error.code.rawValue)", reason: words)
        }
        machine.fail(session, error)
    }

    /// Records writes of the client that were undone, for an operator.
    private func record(undone error: ErrorMessage, in session: SessionHandle) {
        guard let user = principal.user, let rejection = error.rejection, let first = rejection.updates.first else {
            return
        }
        let others = rejection.updates.count > 1 ? ", and \(rejection.updates.count - 1) more" : ""
        let place = rejection.serverVersion.map { " in version \($0), which `anabranch explain` explains" } ?? ""
        refusals?.record(
            of: user, path: sessions[session]?.path.abbreviated, code: "\(error.code.rawValue)",
            reason: "undone\(place): \(first.reason)\(others)")
    }

    /// Ends the connection with a message.
    private mutating func fail(_ error: ErrorMessage) {
        logger.notice("connection failed", metadata: ["code": "\(error.code.rawValue)", "reason": "\(error.message)"])
        machine.failConnection(error)
        closeAll()
    }

    private func log(
        _ text: Logger.Message, _ session: SessionHandle, _ details: Logger.Metadata = [:],
        level: Logger.Level = .debug
    ) {
        guard logger.logLevel <= level else { return }
        var metadata: Logger.Metadata = ["session": "\(session.ident)"]
        if let session = sessions[session] {
            metadata["path"] = "\(session.path.abbreviated)"
            if session.clientFile > 0 { metadata["client_ident"] = "\(session.clientFile)" }
        }
        logger.log(level: level, text, metadata: metadata.merging(details) { $1 })
    }
}
