package import AnabranchCore
package import AnabranchProtocol
package import AnabranchTesting

/// The client's side of flexible sync, without network or disk (`Spec/FlexibleSync.md`, part 2): the session of one
/// file, over connections that come and go.
///
/// The caller takes what there is to send with `next`, and passes on what the server says with `receive`. Anything that
/// a real client of the release would not survive, or that would make it wait forever, is thrown as a
/// `ProtocolViolation`. After that the value is of no further use.
package struct FlexibleClient {
    /// The state of the session on the client's side (`Spec/Protocol.md`, section 8.2).
    enum Phase: Equatable {
        case unbound, waitingForIdent, identifying, running
        /// UNBIND was sent.
        case deactivating
        /// The server has ended the session; UNBIND has to be sent.
        case failed
        /// The server has ended the session, and UNBIND was sent.
        case suspended
        case finished
    }

    /// The state of the session that belongs to one connection.
    struct Link {
        let number: Int
        let version: ProtocolVersion
        var phase = Phase.unbound
        var isUnbinding = false
        /// The version of the last QUERY.
        var query: QueryVersion = 0
        /// Each MARK that was sent, and the QUERY before it.
        var marks: [(request: UInt64, query: QueryVersion)] = []
        /// True once changes and queries may be sent: from the start after a fast reconnection, otherwise once the
        /// first MARK is answered.
        var allowsChanges: Bool
    }

    /// The release of the client, whose defects it has.
    package let release: CoreVersion
    /// The ident that the client gives its session.
    package let session: SessionID
    /// True if parts of a bootstrap left by an earlier connection are not a mistake: they are applied before the new
    /// ones.
    private let acceptsStaleParts: Bool
    /// The client's file; nil until the server has given it an ident.
    package internal(set) var file: MemoryClient?
    package internal(set) var subscriptions = SubscriptionSets()
    /// The progress of the last DOWNLOAD that was integrated.
    var progress = DownloadProgress(
        cursor: DownloadCursor(), latest: SaltedVersion(), upload: UploadCursor(), downloadableBytes: 0)
    var pendingBootstrap: PendingBootstrap?
    /// The errors 231 whose version has not arrived yet.
    var waitingCompensations: [ErrorMessage] = []
    /// The errors 231 that were reported to the application.
    package internal(set) var compensations: [ErrorMessage] = []
    /// The error that ended the session or the connection.
    package internal(set) var lastError: ErrorMessage?
    /// The session reason of the next BIND.
    var sessionReason = 0
    /// The lines that the server has sent for the client's log.
    package internal(set) var logLines: [String] = []
    /// The answers to TEST_COMMANDs.
    package internal(set) var testAnswers: [[UInt8]] = []
    var link: Link?
    private var linkCount = 0
    /// The latest MARK that is wanted, and the latest that was answered.
    private var markTarget: UInt64 = 0
    var markReceived: UInt64 = 0

    /// - Parameter acceptsStaleParts: whether the client goes on, as a real one does, when parts of a bootstrap left by
    ///   an earlier connection precede new ones.
    package init(release: CoreVersion, session: SessionID = 1, acceptsStaleParts: Bool = false) {
        self.release = release
        self.session = session
        self.acceptsStaleParts = acceptsStaleParts
    }

    // MARK: Behaviour of the release

    /// True if the release reads the batch state as one of three, whatever version was negotiated.
    var readsBatchStates: Bool { release >= CoreVersion(14, 11) }

    /// True if a set is complete as soon as its bootstrap is integrated.
    func completesAtOnce(_ version: QueryVersion) -> Bool {
        release < CoreVersion(12, 12) || version == 0 && !readsBatchStates
    }

    private var bind: FlexibleBind? {
        release < CoreVersion(13, 19) ? nil : FlexibleBind(sessionReason: sessionReason)
    }

    private var capabilities: ClientCapabilities {
        let version = ProtocolVersion(ProtocolVersion.supported.upperBound)
        return ClientRelease(offering: link?.version ?? version, userAgent: "RealmSync/\(release)").capabilities
    }

    // MARK: The application

    /// Makes one local transaction.
    ///
    /// - Parameter isAccepted: decides whether the recorded changeset is kept; if not, the transaction has no effect.
    package mutating func write(
        at timestamp: ChangesetTime, if isAccepted: ([UInt8]) throws -> Bool = { _ in true },
        _ body: (WriteTransaction) throws -> Void
    ) throws {
        guard file != nil else { throw ProtocolViolation("2.8", "no ident yet") }
        try file?.write(at: timestamp, if: isAccepted, body)
    }

    /// Commits another subscription set, with the text of its query.
    package mutating func subscribe(_ query: String) throws -> QueryVersion {
        try file?.commit([], at: 0)
        return subscriptions.commit(query, at: file?.version ?? 0)
    }

    /// Requests another MARK, which is answered when everything has arrived.
    package mutating func requestMark() { markTarget += 1 }

    /// Ends the session, as when the application closes the file.
    package mutating func unbind() { link?.isUnbinding = true }

    /// Ends the process and starts another.
    package mutating func restart() {
        disconnect()
        dropParts()
    }

    private mutating func dropParts() {
        pendingBootstrap = nil
        subscriptions.bootstrapsDropped()
    }

    // MARK: Connections

    /// - Parameters:
    ///   - version: the protocol version that was negotiated.
    ///   - isFast: whether the last connection was lost only a short time ago, in which case nothing waits for a MARK.
    package mutating func connect(_ version: ProtocolVersion, isFast: Bool = false) {
        disconnect()
        linkCount += 1
        link = Link(number: linkCount, version: version, allowsChanges: isFast)
        if !isFast { markTarget += 1 }
    }

    /// Drops the connection. Parts of a bootstrap are kept.
    package mutating func disconnect() {
        link = nil
        waitingCompensations = []
    }

    /// Begins the session again on its connection, if it has ended with an error that says so.
    package mutating func resume() {
        guard link?.phase == .suspended, lastError?.triesAgain == true else { return }
        dropParts()
        waitingCompensations = []
        link?.phase = .unbound
        link?.query = 0
        link?.marks = []
    }

    /// True while the session runs.
    package var isRunning: Bool { link?.phase == .running }

    /// True if the session has ended on the connection, so that `resume` or another connection comes next.
    package var isSuspended: Bool { link?.phase == .suspended }

    // MARK: To the server

    /// The next message; nil while there is nothing to say.
    package mutating func next() -> ClientMessage? {
        switch link?.phase {
        case .unbound:
            link?.phase = file == nil ? .waitingForIdent : .identifying
            return .bind(session: session, BindRequest(flexible: bind, needsFileIdent: file == nil))
        case .identifying:
            return identify()
        case .running where link?.isUnbinding == true:
            link?.phase = .deactivating
            return .unbind(session: session)
        case .running:
            return nextMark() ?? nextChange()
        case .failed:
            link?.phase = .suspended
            return .unbind(session: session)
        case .waitingForIdent, .deactivating, .suspended, .finished, nil:
            return nil
        }
    }

    private mutating func identify() -> ClientMessage? {
        file?.startSession()
        guard var request = file?.identRequest else { return nil }
        request.subscriptions = subscriptions.identified
        link?.phase = .running
        sessionReason = 0
        return .ident(session: session, request)
    }

    private mutating func nextMark() -> ClientMessage? {
        guard markTarget > max(markReceived, link?.marks.last?.request ?? 0) else { return nil }
        let query = link?.query ?? 0
        link?.marks.append((markTarget, query))
        return .mark(session: session, request: markTarget)
    }

    /// Returns a QUERY if everything written before it is uploaded, or else an UPLOAD up to the next QUERY.
    private mutating func nextChange() -> ClientMessage? {
        guard let link, link.allowsChanges else { return nil }
        let unsent = subscriptions.unsent(above: link.query)
        if let unsent, file?.hasUploaded(through: unsent.snapshot) == true {
            self.link?.query = unsent.set.version
            markTarget += 1
            return .query(session: session, unsent.set)
        }
        guard let upload = file?.nextUpload(through: unsent?.snapshot ?? .largest) else { return nil }
        return .upload(session: session, UploadMessage(upload))
    }

    /// Returns a TEST_COMMAND, whose answer is added to `testAnswers`.
    package func testCommand(_ request: UInt64, _ body: String) -> ClientMessage {
        .testCommand(session: session, request: request, body: Array(body.utf8))
    }

    // MARK: From the server

    /// - Throws: `ProtocolViolation` if the server must not send the message.
    package mutating func receive(_ message: ServerMessage) throws {
        switch message {
        case .ident(_, let file):
            guard link?.phase == .waitingForIdent else { throw ProtocolViolation("Protocol 8.2", "unexpected IDENT") }
            self.file = MemoryClient(file, capabilities: capabilities)
            link?.phase = .identifying
        case .download(_, let download):
            if try isRunning("DOWNLOAD") { try receive(download) }
        case .mark(_, let request):
            if try isRunning("MARK") { try marked(request) }
        case .queryError(_, let refusal):
            if try isRunning("QUERY_ERROR") { try subscriptions.refused(refusal.version, refusal.message) }
        case .error(let session, let error):
            try receive(error, isOfConnection: session == 0)
        case .unbound:
            guard link?.phase == .deactivating else { throw ProtocolViolation("Protocol 8.2", "unexpected UNBOUND") }
            link?.phase = .finished
        case .log(_, let line):
            guard release >= CoreVersion(13, 19) else { throw ProtocolViolation("Protocol 5.7", "LOG_MESSAGE") }
            logLines.append(line.message)
        case .testCommand(_, _, let body):
            testAnswers.append(body)
        case .pong:
            break
        }
    }

    /// - Throws: `ProtocolViolation` if the message may not arrive now. After UNBIND it is ignored.
    private func isRunning(_ message: String) throws(ProtocolViolation) -> Bool {
        switch link?.phase {
        case .running: return true
        case .deactivating: return false
        default: throw ProtocolViolation("Protocol 8.2", "unexpected \(message)")
        }
    }

    private mutating func marked(_ request: UInt64) throws(ProtocolViolation) {
        guard let mark = link?.marks.last(where: { $0.request <= request }), let sent = link?.marks.last,
            markReceived < request, request <= sent.request
        else { throw ProtocolViolation("Protocol 5.3", "MARK that nobody waits for") }
        if subscriptions.isWaiting(upTo: mark.query) { throw ProtocolViolation("7", "MARK before the bootstrap") }
        markReceived = request
        link?.allowsChanges = true
        if request == markTarget { subscriptions.markAnswered() }
    }

    // MARK: At the end

    /// Checks, once the server has nothing more to say, that the client waits for nothing.
    ///
    /// - Throws: `ProtocolViolation` if the client waits for something.
    package func checkNothingIsMissing() throws(ProtocolViolation) {
        guard let link, link.phase == .running else { return }
        if markReceived < markTarget { throw ProtocolViolation("8", "MARK \(markTarget) is not answered") }
        if let waiting = subscriptions.entries.last(where: { $0.state == .awaitingMark }) {
            throw ProtocolViolation("7", "set \(waiting.set.version) waits for a MARK")
        }
        if subscriptions.isWaiting(upTo: link.query) { throw ProtocolViolation("7", "set \(link.query) has no answer") }
        if subscriptions.active == nil { throw ProtocolViolation("2.1", "set 0 has no bootstrap") }
        if let version = waitingCompensations.first?.rejection?.serverVersion {
            throw ProtocolViolation("2.7", "version \(version), which error 231 names, has not come")
        }
    }

    /// True if the bootstrap is left from an earlier connection, and the client may not add parts to it.
    func isStale(_ bootstrap: PendingBootstrap) -> Bool { !acceptsStaleParts && bootstrap.link != link?.number }
}
