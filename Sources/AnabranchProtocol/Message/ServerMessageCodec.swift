import AnabranchCore

/// Encodes and decodes the messages of a server (`Spec/Protocol.md`, section 5; `Spec/FlexibleSync.md`, sections 1.5
/// and 1.6). Only the grammar of DOWNLOAD in flexible sync depends on the version.
///
/// Decoding finds everything that can be wrong with a message by itself: its type (102), its head, the sizes and the
/// JSON in it (103), the compression (110) and the entries of its body (111, 112).
public struct ServerMessageCodec: Sendable {
    private let limits: Limits
    private let mode: SyncMode
    private let version: ProtocolVersion
    private let dialect: WireDialect

    /// - Parameters:
    ///   - limits: the bounds of a message, and the size from which a DOWNLOAD is deflated.
    ///   - mode: the mode of the connection.
    ///   - version: the version of the connection.
    ///   - dialect: decides how the actions of encoded messages are spelled.
    public init(
        limits: Limits = Limits(), mode: SyncMode = .partition,
        version: ProtocolVersion = ProtocolVersion(ProtocolVersion.supported.upperBound),
        dialect: WireDialect = .realm
    ) {
        self.limits = limits
        self.mode = mode
        self.version = version
        self.dialect = dialect
    }

    /// The message as it goes on the wire.
    public func encode(_ message: ServerMessage) -> EncodedMessage {
        switch message {
        case .ident(let session, let file): encodeIdent(session, file)
        case .download(let session, let download):
            encodeDownload(
                session, download.progress, EncodedBody(deflating: Array(download.entries.bytes), limits: limits),
                download.batch)
        case .mark(let session, let request): encodeMark(session, request)
        case .unbound(let session): encodeUnbound(session)
        case .pong(let timestamp): encodePong(timestamp)
        case .log(let session, let message): encodeLog(session, message)
        case .error(let session, let message): encodeError(session, message)
        case .queryError(let session, let refusal): encodeQueryError(session, refusal)
        case .testCommand(let session, let request, let body): encodeTestCommand(session, request, body)
        }
    }

    /// - Parameter message: a whole WebSocket message.
    /// - Throws: an error with one of the codes 102, 103, 110, 111 and 112.
    public func decode(_ message: [UInt8]) throws(ProtocolError) -> ServerMessage {
        guard let kind = ServerMessage.Kind(of: message) else { throw .unknownMessage(message) }
        var head = HeadReader(message, kind)
        switch kind {
        case .ident: return try decodeIdent(&head)
        case .download: return try decodeDownload(&head)
        case .mark: return try decodeMark(&head)
        case .unbound: return try decodeUnbound(&head)
        case .pong: return try decodePong(&head)
        case .log: return try decodeLog(&head)
        case .error: return try decodeError(&head)
        case .queryError where mode == .partition: throw .unknownMessage(message)
        case .queryError: return try decodeQueryError(&head)
        case .testCommand: return try decodeTestCommand(&head)
        }
    }

    // MARK: ident <session ident> <file ident> <file ident salt>

    private func encodeIdent(_ session: SessionID, _ file: SaltedFileID) -> EncodedMessage {
        var head = HeadWriter(ServerMessage.Kind.ident)
        head.write(session)
        head.write(file.ident)
        head.write(file.salt)
        return head.end()
    }

    private func decodeIdent(_ head: inout HeadReader) throws(ProtocolError) -> ServerMessage {
        let message = ServerMessage.ident(
            session: try head.ident(), SaltedFileID(ident: try head.ident(), salt: try head.ident()))
        _ = try head.end(bodyBytes: 0)
        return message
    }

    // MARK: download <session ident> <download server version> <download client version>
    //                <latest server version> <latest server version salt>
    //                <upload client version> <upload server version> <downloadable bytes>
    //                <is compressed> <uncompressed size> <compressed size> LF <entries>
    //
    // In flexible sync, in the place of <downloadable bytes>: <query version> <batch> <progress>

    /// A DOWNLOAD whose body may be shared with other readers. In flexible sync it has a `batch`.
    func encodeDownload(
        _ session: SessionID, _ progress: DownloadProgress, _ body: EncodedBody, _ batch: QueryBatch? = nil
    ) -> EncodedMessage {
        var head = HeadWriter(ServerMessage.Kind.download)
        head.write(session)
        head.write(progress.cursor.serverVersion)
        head.write(progress.cursor.clientVersion)
        head.write(progress.latest.version)
        head.write(progress.latest.salt)
        head.write(progress.upload.clientVersion)
        head.write(progress.upload.serverVersion)
        if let batch {
            head.write(batch, in: version)
        } else {
            head.write(progress.downloadableBytes)
        }
        head.write(body.isCompressed)
        head.write(body.uncompressedBytes)
        head.write(body.isCompressed ? body.count : 0)
        var message = head.end(sharing: body.shared)
        message.attachment = body.attachment
        return message
    }

    private func decodeDownload(_ head: inout HeadReader) throws(ProtocolError) -> ServerMessage {
        let session: SessionID = try head.ident()
        var progress = DownloadProgress(
            cursor: DownloadCursor(serverVersion: try head.number(), clientVersion: try head.number()),
            latest: SaltedVersion(version: try head.number(), salt: try head.number()),
            upload: UploadCursor(clientVersion: try head.number(), serverVersion: try head.number()),
            downloadableBytes: 0)
        let batch = mode == .flexible ? try head.batch(in: version) : nil
        if batch == nil { progress.downloadableBytes = try head.number() }
        let size = try head.bodySize()
        guard progress.latest.version == 0 || progress.latest.salt != 0 else {
            throw head.syntax("version without salt")
        }
        let body = try head.end(size, isSkipped: false, limits: limits)
        let entries = try BodyEntries<DownloadedChangeset>(body, countMax: limits.downloadChangesetsMax)
        return .download(session: session, DownloadMessage(progress: progress, batch: batch, entries: entries))
    }

    // MARK: mark <session ident> <request ident>

    private func encodeMark(_ session: SessionID, _ request: UInt64) -> EncodedMessage {
        var head = HeadWriter(ServerMessage.Kind.mark)
        head.write(session)
        head.write(request)
        return head.end()
    }

    private func decodeMark(_ head: inout HeadReader) throws(ProtocolError) -> ServerMessage {
        let message = ServerMessage.mark(session: try head.ident(), request: try head.ident())
        _ = try head.end(bodyBytes: 0)
        return message
    }

    // MARK: unbound <session ident>

    private func encodeUnbound(_ session: SessionID) -> EncodedMessage {
        var head = HeadWriter(ServerMessage.Kind.unbound)
        head.write(session)
        return head.end()
    }

    private func decodeUnbound(_ head: inout HeadReader) throws(ProtocolError) -> ServerMessage {
        let message = ServerMessage.unbound(session: try head.ident())
        _ = try head.end(bodyBytes: 0)
        return message
    }

    // MARK: pong <timestamp>

    private func encodePong(_ timestamp: Int64) -> EncodedMessage {
        var head = HeadWriter(ServerMessage.Kind.pong)
        head.write(timestamp)
        return head.end()
    }

    private func decodePong(_ head: inout HeadReader) throws(ProtocolError) -> ServerMessage {
        let message = ServerMessage.pong(timestamp: try head.signedNumber())
        _ = try head.end(bodyBytes: 0)
        return message
    }

    // MARK: log_message <session ident or 0> <size> LF <JSON>

    private func encodeLog(_ session: SessionID, _ message: LogMessage) -> EncodedMessage {
        let json = message.json
        var head = HeadWriter(ServerMessage.Kind.log)
        head.write(session)
        head.write(json.count)
        return head.end(body: json)
    }

    private func decodeLog(_ head: inout HeadReader) throws(ProtocolError) -> ServerMessage {
        let session: SessionID = try head.number()
        let jsonBytes = try head.size()
        let body = try head.end(bodyBytes: jsonBytes)
        return .log(session: session, try LogMessage(JSONMembers(body, of: head)))
    }

    // MARK: json_error <code> <size> <session ident or 0> LF <JSON>

    private func encodeError(_ session: SessionID, _ message: ErrorMessage) -> EncodedMessage {
        let json = message.json(in: dialect)
        var head = HeadWriter(ServerMessage.Kind.error)
        head.write(message.code.rawValue)
        head.write(json.count)
        head.write(session)
        return head.end(body: json, errorCode: message.code)
    }

    private func decodeError(_ head: inout HeadReader) throws(ProtocolError) -> ServerMessage {
        let code = ErrorCode(rawValue: try head.errorCode())
        let jsonBytes = try head.size()
        let session: SessionID = try head.number()
        let body = try head.end(bodyBytes: jsonBytes)
        // Section 7.1: an unknown code is handled by its action, but only in a session.
        guard code.isKnown ? code.isConnectionLevel == (session == 0) : session > 0 else {
            throw head.syntax("error \(code.rawValue) of the wrong level")
        }
        return .error(session: session, try ErrorMessage(code, JSONMembers(body, of: head)))
    }

    // MARK: query_error <code> <size> <session ident> <query version> LF <text>

    private func encodeQueryError(_ session: SessionID, _ refusal: QueryRefusal) -> EncodedMessage {
        let text = Array(refusal.message.utf8)
        var head = HeadWriter(ServerMessage.Kind.queryError)
        head.write(refusal.code.rawValue)
        head.write(text.count)
        head.write(session)
        head.write(refusal.version)
        return head.end(body: text)
    }

    private func decodeQueryError(_ head: inout HeadReader) throws(ProtocolError) -> ServerMessage {
        let code = ErrorCode(rawValue: try head.errorCode())
        let textBytes = try head.size()
        let session: SessionID = try head.ident()
        let version: QueryVersion = try head.number()
        var body = try head.end(bodyBytes: textBytes)
        let text = String(decoding: body.skip(count: textBytes), as: UTF8.self)
        return .queryError(session: session, QueryRefusal(version: version, message: text, code: code))
    }

    // MARK: test_command <session ident> <request ident> <size> LF <body>

    private func encodeTestCommand(_ session: SessionID, _ request: UInt64, _ body: [UInt8]) -> EncodedMessage {
        var head = HeadWriter(ServerMessage.Kind.testCommand)
        head.write(session)
        head.write(request)
        head.write(body.count)
        return head.end(body: body)
    }

    private func decodeTestCommand(_ head: inout HeadReader) throws(ProtocolError) -> ServerMessage {
        let session: SessionID = try head.ident()
        let request: UInt64 = try head.ident()
        let bodyBytes = try head.size()
        var body = try head.end(bodyBytes: bodyBytes)
        return .testCommand(session: session, request: request, body: Array(body.skip(count: bodyBytes)))
    }
}
