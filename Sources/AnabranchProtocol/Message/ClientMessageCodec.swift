public import AnabranchCore

/// Encodes and decodes the messages of a client (`Spec/Protocol.md`, section 4; `Spec/FlexibleSync.md`, sections 1.2 to
/// 1.4). The grammar is the same in all versions.
///
/// Decoding finds everything that can be wrong with a message by itself, in the order of rows 1 … 6 of section 7.6: its
/// type (102), its head (103), the sizes in it (103), the compression (110) and the entries of its body (103, 111,
/// 112).
public struct ClientMessageCodec: Sendable {
    private let limits: Limits
    private let mode: SyncMode

    /// - Parameters:
    ///   - limits: the bounds of a message, and the size from which an UPLOAD is deflated.
    ///   - mode: the mode of the connection.
    public init(limits: Limits = Limits(), mode: SyncMode = .partition) {
        self.limits = limits
        self.mode = mode
    }

    /// The message as it goes on the wire.
    public func encode(_ message: ClientMessage) -> EncodedMessage {
        switch message {
        case .bind(let session, let request): encodeBind(session, request)
        case .ident(let session, let request): encodeIdent(session, request)
        case .query(let session, let subscriptions): encodeQuery(session, subscriptions)
        case .upload(let session, let upload): encodeUpload(session, upload)
        case .mark(let session, let request): encodeMark(session, request)
        case .unbind(let session): encodeUnbind(session)
        case .ping(let timestamp, let roundTrip): encodePing(timestamp, roundTrip)
        case .error(let session, let code, let text): encodeError(session, code, text)
        case .testCommand(let session, let request, let body): encodeTestCommand(session, request, body)
        }
    }

    /// - Parameters:
    ///   - message: a whole WebSocket message.
    ///   - skipsUploads: whether the uploads of a session are of no interest any more: then the body is not looked at,
    ///     which would be wasted work, and the UPLOAD comes out without changesets.
    /// - Throws: an error with one of the codes 102, 103, 110, 111 and 112.
    public func decode(
        _ message: [UInt8], skipsUploads: (_ session: SessionID) -> Bool = { _ in false }
    ) throws(ProtocolError) -> ClientMessage {
        guard let kind = message.withUnsafeBytes({ ClientMessage.Kind(of: $0) }) else { throw .unknownMessage(message) }
        var head = HeadReader(message, kind)
        switch kind {
        case .bind: return try decodeBind(&head)
        case .ident: return try decodeIdent(&head)
        case .query where mode == .partition: throw .unknownMessage(message)
        case .query: return try decodeQuery(&head)
        case .upload: return try decodeUpload(&head, skipsUploads)
        case .mark: return try decodeMark(&head)
        case .unbind: return try decodeUnbind(&head)
        case .ping: return try decodePing(&head)
        case .error: return try decodeError(&head)
        case .testCommand: return try decodeTestCommand(&head)
        }
    }

    // MARK: bind <session ident> <data size> <token size> <need client file ident> <is subserver> LF <data> <token>

    private func encodeBind(_ session: SessionID, _ request: BindRequest) -> EncodedMessage {
        let data = mode == .flexible ? request.flexible?.json ?? [] : request.partition
        var head = HeadWriter(ClientMessage.Kind.bind)
        head.write(session)
        head.write(data.count)
        head.write(0)  // clients have sent no token since 11.8
        head.write(request.needsFileIdent)
        head.write(false)  // a server of a cluster would say that it is one
        return head.end(body: data)
    }

    private func decodeBind(_ head: inout HeadReader) throws(ProtocolError) -> ClientMessage {
        let session: SessionID = try head.ident()
        let dataBytes = try head.size()
        let tokenBytes = try head.size()
        let needsFileIdent = try head.flag()
        _ = try head.flag()
        guard dataBytes <= limits.partitionBytesMax else { throw head.syntax("partition value too long") }
        guard tokenBytes <= limits.tokenBytesMax else { throw head.syntax("token too long") }
        var body = try head.end(bodyBytes: dataBytes + tokenBytes)
        let data = Array(body.skip(count: dataBytes))
        guard mode == .flexible else {
            return .bind(session: session, BindRequest(partition: data, needsFileIdent: needsFileIdent))
        }
        let json = data.isEmpty ? nil : try FlexibleBind(JSONMembers(NumberReader(data, from: 0), of: head))
        return .bind(session: session, BindRequest(flexible: json, needsFileIdent: needsFileIdent))
    }

    // MARK: ident <session ident> <file ident> <file ident salt> <download server version> <download client version>
    //             <latest server version> <latest server version salt>
    //
    // In flexible sync also: <query version> <query size> LF <query>

    private func encodeIdent(_ session: SessionID, _ request: IdentRequest) -> EncodedMessage {
        var head = HeadWriter(ClientMessage.Kind.ident)
        head.write(session)
        head.write(request.file.ident)
        head.write(request.file.salt)
        head.write(request.download.serverVersion)
        head.write(request.download.clientVersion)
        head.write(request.latest.version)
        head.write(request.latest.salt)
        return mode == .flexible ? end(head, request.subscriptions ?? .none) : head.end()
    }

    private func decodeIdent(_ head: inout HeadReader) throws(ProtocolError) -> ClientMessage {
        let session: SessionID = try head.ident()
        var request = IdentRequest(
            file: SaltedFileID(ident: try head.ident(), salt: try head.ident()),
            download: DownloadCursor(serverVersion: try head.number(), clientVersion: try head.number()),
            latest: SaltedVersion(version: try head.number(), salt: try head.number()))
        guard request.latest.version == 0 || request.latest.salt != 0 else { throw head.syntax("version without salt") }
        if mode == .flexible {
            request.subscriptions = try subscriptions(&head)
        } else {
            _ = try head.end()
        }
        return .ident(session: session, request)
    }

    // MARK: query <session ident> <query version> <query size> LF <query>

    private func encodeQuery(_ session: SessionID, _ subscriptions: SubscriptionSet) -> EncodedMessage {
        var head = HeadWriter(ClientMessage.Kind.query)
        head.write(session)
        return end(head, subscriptions)
    }

    private func decodeQuery(_ head: inout HeadReader) throws(ProtocolError) -> ClientMessage {
        .query(session: try head.ident(), try subscriptions(&head))
    }

    /// `<query version> <query size> LF <query>`
    private func end(_ head: consuming HeadWriter, _ subscriptions: SubscriptionSet) -> EncodedMessage {
        head.write(subscriptions.version)
        head.write(subscriptions.query.count)
        return head.end(body: subscriptions.query)
    }

    private func subscriptions(_ head: inout HeadReader) throws(ProtocolError) -> SubscriptionSet {
        let version: QueryVersion = try head.number()
        let queryBytes = try head.size()
        guard queryBytes <= limits.queryBytesMax else { throw head.syntax("query too long") }
        var body = try head.end(bodyBytes: queryBytes)
        return SubscriptionSet(version: version, query: Array(body.skip(count: queryBytes)))
    }

    // MARK: upload <session ident> <is compressed> <uncompressed size> <compressed size>
    //              <progress client version> <progress server version> <locked server version> LF <entries>

    private func encodeUpload(_ session: SessionID, _ upload: UploadMessage) -> EncodedMessage {
        let body = EncodedBody(deflating: Array(upload.entries.bytes), limits: limits)
        var head = HeadWriter(ClientMessage.Kind.upload)
        head.write(session)
        head.write(body.isCompressed)
        head.write(body.uncompressedBytes)
        head.write(body.isCompressed ? body.count : 0)
        head.write(upload.progress.clientVersion)
        head.write(upload.progress.serverVersion)
        head.write(upload.lockedVersion)
        return head.end(body: body.bytes)
    }

    private func decodeUpload(
        _ head: inout HeadReader, _ skipsUploads: (SessionID) -> Bool
    ) throws(ProtocolError) -> ClientMessage {
        let session: SessionID = try head.ident()
        let size = try head.bodySize()
        let progress = UploadCursor(clientVersion: try head.number(), serverVersion: try head.number())
        let lockedVersion: ServerVersion = try head.number()
        // A body with too many changesets is inflated until they are too many, and then refused for that.
        var counter = EntryCounter<UploadedChangeset>()
        let body = try head.end(size, isSkipped: skipsUploads(session), limits: limits) { begun in
            counter.count(in: begun) > limits.uploadChangesetsMax
        }
        let entries = try BodyEntries<UploadedChangeset>(body, countMax: limits.uploadChangesetsMax)
        return .upload(
            session: session, UploadMessage(progress: progress, lockedVersion: lockedVersion, entries: entries))
    }

    // MARK: mark <session ident> <request ident>

    private func encodeMark(_ session: SessionID, _ request: UInt64) -> EncodedMessage {
        var head = HeadWriter(ClientMessage.Kind.mark)
        head.write(session)
        head.write(request)
        return head.end()
    }

    private func decodeMark(_ head: inout HeadReader) throws(ProtocolError) -> ClientMessage {
        let message = ClientMessage.mark(session: try head.ident(), request: try head.ident())
        _ = try head.end()
        return message
    }

    // MARK: unbind <session ident>

    private func encodeUnbind(_ session: SessionID) -> EncodedMessage {
        var head = HeadWriter(ClientMessage.Kind.unbind)
        head.write(session)
        return head.end()
    }

    private func decodeUnbind(_ head: inout HeadReader) throws(ProtocolError) -> ClientMessage {
        let message = ClientMessage.unbind(session: try head.ident())
        _ = try head.end()
        return message
    }

    // MARK: ping <timestamp> <rtt>

    private func encodePing(_ timestamp: Int64, _ roundTrip: UInt64) -> EncodedMessage {
        var head = HeadWriter(ClientMessage.Kind.ping)
        head.write(timestamp)
        head.write(roundTrip)
        return head.end()
    }

    private func decodePing(_ head: inout HeadReader) throws(ProtocolError) -> ClientMessage {
        let message = ClientMessage.ping(timestamp: try head.signedNumber(), roundTripMilliseconds: try head.number())
        _ = try head.end()
        return message
    }

    // MARK: json_error <code> <size> <session ident> LF <JSON>

    private func encodeError(_ session: SessionID, _ code: Int, _ text: [UInt8]) -> EncodedMessage {
        var head = HeadWriter(ClientMessage.Kind.error)
        head.write(code)
        head.write(text.count)
        head.write(session)
        return head.end(body: text)
    }

    private func decodeError(_ head: inout HeadReader) throws(ProtocolError) -> ClientMessage {
        let code = try head.errorCode()
        let textBytes = try head.size()
        let session: SessionID = try head.ident()
        var body = try head.end(bodyBytes: textBytes)
        return .error(session: session, code: code, text: Array(body.skip(count: textBytes)))
    }

    // MARK: test_command <session ident> <request ident> <size> LF <body>

    private func encodeTestCommand(_ session: SessionID, _ request: UInt64, _ body: [UInt8]) -> EncodedMessage {
        var head = HeadWriter(ClientMessage.Kind.testCommand)
        head.write(session)
        head.write(request)
        head.write(body.count)
        return head.end(body: body)
    }

    private func decodeTestCommand(_ head: inout HeadReader) throws(ProtocolError) -> ClientMessage {
        let session: SessionID = try head.ident()
        let request: UInt64 = try head.ident()
        let bodyBytes = try head.size()
        var body = try head.end(bodyBytes: bodyBytes)
        return .testCommand(session: session, request: request, body: Array(body.skip(count: bodyBytes)))
    }
}

extension ClientMessage {
    /// The length of an UPLOAD's body before it was compressed, as the head states it; nil if that cannot be read.
    package static func inflatedUploadBytes(_ message: UnsafeRawBufferPointer) -> Int? {
        // No head is longer than this.
        var head = HeadReader(Array(message.prefix(256)), Kind.upload)
        guard Kind(of: message) == .upload, let _ = try? head.ident() as UInt64 else { return nil }
        return try? head.bodySize().uncompressedBytes
    }
}
