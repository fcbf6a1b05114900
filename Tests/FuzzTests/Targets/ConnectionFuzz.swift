import AnabranchCore
import AnabranchProtocol

/// Events of one connection, each with the data that it needs from the bytes after it: messages of a client, sensible
/// or not, and what a server says, asked or not. The connection keeps its limits, says only what can be read, and ends
/// once.
func fuzzConnection(_ bytes: [UInt8]) -> String? {
    var world = ConnectionWorld(Choices(bytes))
    return world.run()
}

private struct ConnectionWorld: ~Copyable {
    private var choices: Choices
    private let mode: SyncMode
    private let limits: Limits
    private var connection: ServerConnection
    private var requests: [(handle: SessionHandle, request: SessionRequest)] = []
    private var handles: [SessionHandle] = []
    private var hasSaidLastWords = false

    init(_ choices: consuming Choices) {
        var choices = choices
        mode = choices.pick([SyncMode.partition, .flexible])
        var limits = Limits()
        (limits.sessionsPerConnectionMax, limits.downloadsUnderWayMax) = (3, 2)
        (limits.testCommandsMax, limits.uploadChangesetsMax) = (2, 4)
        limits.echoesErrors = choices.below(2) == 1
        self.limits = limits
        let number = 2 + choices.below(13)
        let prefix = mode == .flexible ? "com.mongodb.realm-query-sync" : "com.mongodb.realm-sync"
        do {
            connection = ServerConnection(
                try Negotiation(offer: "\(prefix)#\(number)", accepting: [mode]), limits: limits)
        } catch {
            preconditionFailure("an offer of the protocol is none")
        }
        self.choices = choices
    }

    mutating func run() -> String? {
        while !choices.isAtEnd {
            if let problem = step() { return problem }
            guard connection.sessionCount <= 2 * limits.sessionsPerConnectionMax,
                connection.downloadsUnderWay <= limits.downloadsUnderWayMax
            else { return "\(connection.sessionCount) sessions, \(connection.downloadsUnderWay) downloads under way" }
        }
        for _ in 0..<10_000 {
            guard let output = connection.next() else { return nil }
            if let problem = take(output) { return problem }
        }
        return "it never ends to speak"
    }

    private mutating func step() -> String? {
        switch choices.below(16) {
        case 0..<7: receive(message())
        case 7: receive(choices.bytes(choices.below(64)))
        case 8, 9: if !requests.isEmpty { answer(requests.removeFirst()) }
        case 10: if let last = requests.popLast() { answer(last) }
        case 11, 12:
            if let output = connection.next() { return take(output) }
        case 13: while let output = connection.next() { if let problem = take(output) { return problem } }
        case 14:
            guard !handles.isEmpty else { return nil }
            connection.receive(.versionExposed(version()), for: choices.pick(handles))
        default: interfere()
        }
        return nil
    }

    // MARK: The client

    private mutating func message() -> [UInt8] {
        let session = 1 + choices.below(4), number = choices.below(4), isFlexible = mode == .flexible
        let text =
            switch choices.below(12) {
            case 0: "bind \(session) \(isFlexible ? "2 0 0 0\n{}" : "1 0 0 0\nx")"
            case 1: "bind \(session) 0 0 1 0\n"
            case 2, 3: "ident \(session) 2 77 \(number) 0 \(number) 5" + (isFlexible ? " \(number) 2\n{}" : "\n")
            case 4: "upload \(session) 0 0 0 \(number) \(number) 0\n"
            case 5: "upload \(session) 0 14 0 5 0 0\n5 0 9 0 4 abcd"
            case 6: "mark \(session) \(number + 1)\n"
            case 7: "unbind \(session)\n"
            case 8: "query \(session) \(number) 2\n{}"
            case 9: "json_error \([9, 112, 212, 233][number]) 2 \(session)\n{}"
            case 10: "ping \(number) 0\n"
            default:
                "test_command \(session) \(number + 1) 73\n"
                    + #"{"command":"ECHO_ERROR","args":{"errorCode":229,"errorBody":"{\"a\":1}"}}"#
            }
        return Array(text.utf8)
    }

    private mutating func receive(_ message: [UInt8]) {
        let hadFailed = connection.hasFailed
        guard let action = connection.receive(message), !hadFailed else { return }
        if case .ask(let handle, let request) = action {
            if case .open = request { handles.append(handle) }
            requests.append((handle, request))
        }
    }

    // MARK: The server

    private mutating func version() -> ServerVersion { ServerVersion(UInt64(choices.below(8))) }

    private mutating func answer(_ asked: (handle: SessionHandle, request: SessionRequest)) {
        switch asked.request {
        case .open:
            connection.receive(.fileIdentAllocated(SaltedFileID(ident: 2, salt: 77)), for: asked.handle)
        case .identify(let request, _):
            connection.receive(.identAccepted(request.download, exposedVersion: version()), for: asked.handle)
        case .query(let set):
            let refusal = QueryRefusal(version: set.version, message: "no")
            connection.receive(
                choices.below(2) == 0 ? .queryRefused(refusal) : .versionExposed(version()), for: asked.handle)
        case .integrate: connection.receive(.versionExposed(version()), for: asked.handle)
        case .scan(let cursor), .scanBootstrap(_, _, let cursor): download(after: cursor, for: asked.handle)
        case .clientVersion: connection.receive(.clientVersion(1), for: asked.handle)
        case .newestVersion: connection.receive(.newestVersion(version()), for: asked.handle)
        case .close: break
        }
    }

    /// - Parameter isUnasked: whether it comes before it is asked for.
    private mutating func download(
        after cursor: DownloadCursor, for handle: SessionHandle, isUnasked: Bool = false
    ) {
        let end = DownloadCursor(serverVersion: cursor.serverVersion + UInt64(choices.below(4)))
        let progress = DownloadProgress(
            cursor: end, latest: SaltedVersion(version: end.serverVersion, salt: end.serverVersion == 0 ? 0 : 1),
            upload: UploadCursor(), downloadableBytes: 0)
        let changeset = DownloadedChangeset(cursor: end, tag: OriginTag(timestamp: 0, ident: 1), changeset: [])
        let body = choices.below(2) == 0 ? EncodedBody.empty : EncodedBody([changeset])
        if isUnasked {
            _ = connection.receive(unasked: progress, body, after: cursor, for: handle)
            return
        }
        guard mode == .flexible else { return connection.receive(.download(progress, body), for: handle) }
        let query = QueryVersion(UInt64(choices.below(4)))
        let kind: DownloadKind = choices.below(2) == 0 ? .steady : .bootstrap(query, isLast: choices.below(3) > 0)
        connection.receive(
            .flexibleDownload(FlexibleDownload(progress: progress, body: body, kind: kind)), for: handle)
    }

    /// Sends the connection something that nobody has asked for.
    private mutating func interfere() {
        guard !handles.isEmpty else { return connection.log(LogMessage(level: .info, message: "a line")) }
        let handle = choices.pick(handles)
        switch choices.below(9) {
        case 0: connection.receive(.failed(ErrorMessage(.otherSessionError)), for: handle)
        case 1: connection.receive(.failed(ErrorMessage(.sessionClosed)), for: handle)
        case 2: connection.receive(.fileIdentAllocated(SaltedFileID(ident: 3, salt: 1)), for: handle)
        case 3: connection.receive(.identAccepted(DownloadCursor(), exposedVersion: version()), for: handle)
        case 4: download(after: DownloadCursor(), for: handle)
        case 5: connection.fail(handle, ErrorMessage(.badChangeset))
        case 6: download(after: DownloadCursor(serverVersion: version()), for: handle, isUnasked: true)
        case 7: connection.failConnection(ErrorMessage(.connectionClosed))
        default: connection.receive(.superseded, for: handle)
        }
    }

    // MARK: What is said

    private mutating func take(_ output: ServerConnection.Output) -> String? {
        if hasSaidLastWords { return "it says something after its last words" }
        switch output {
        case .ask(let handle, let request):
            requests.append((handle, request))
            return nil
        case .close:
            hasSaidLastWords = true
            return nil
        case .lastMessage(let message):
            hasSaidLastWords = true
            return problem(of: message)
        case .message(let message): return problem(of: message)
        }
    }

    private func problem(of message: EncodedMessage) -> String? {
        let codec = ServerMessageCodec(limits: limits, mode: mode, version: connection.version)
        do throws(ProtocolError) {
            _ = try codec.decode(message.bytes)
            return nil
        } catch {
            return "it says what cannot be read: \(error.reason): \(String(decoding: message.bytes, as: UTF8.self))"
        }
    }
}
