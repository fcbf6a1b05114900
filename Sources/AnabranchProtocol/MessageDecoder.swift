import AnabranchCore

/// Takes the messages of a client apart (`Spec/Protocol.md`, section 4).
///
/// Finds everything that can be wrong with a message by itself, in the order of rows 1 … 6 of section 7.6: its type
/// (102), its head (103), the sizes in it (103), the compression (110) and the entries of its body (111, 112).
public struct MessageDecoder: Sendable {
    private let limits: Limits

    public init(limits: Limits = Limits()) { self.limits = limits }

    /// - Parameters:
    ///   - message: a whole WebSocket message.
    ///   - isVoid: whether what a session uploads is of no interest any more: then the body is not looked at, which
    ///     would be work for nothing, and the UPLOAD comes out without entries.
    public func decode(
        _ message: [UInt8], isVoid: (_ session: SessionID) -> Bool = { _ in false }
    ) throws(ProtocolViolation) -> ClientMessage {
        var head = try MessageHead(message)
        switch head.type {
        case .bind: return try bind(&head)
        case .ident: return try ident(&head)
        case .upload: return try upload(&head, isVoid)
        case .mark: return try mark(&head)
        case .unbind: return try unbind(&head)
        case .ping: return try ping(&head)
        case .error: return try error(&head)
        case .testCommand: return try testCommand(&head)
        }
    }

    private func bind(_ head: inout MessageHead) throws(ProtocolViolation) -> ClientMessage {
        let session: SessionID = try head.ident()
        let partitionBytes = try head.size()
        let tokenBytes = try head.size()
        let needsFileIdent = try head.flag()
        _ = try head.flag()  // a server of a cluster would say that it is one
        guard partitionBytes <= limits.partitionBytesMax else { throw head.syntax("partition value too long") }
        guard tokenBytes <= limits.tokenBytesMax else { throw head.syntax("token too long") }
        var body = try head.end(bodyBytes: partitionBytes + tokenBytes)
        let partition = Array(body.skip(count: partitionBytes))
        return .bind(session: session, BindRequest(partition: partition, needsFileIdent: needsFileIdent))
    }

    private func ident(_ head: inout MessageHead) throws(ProtocolViolation) -> ClientMessage {
        let session: SessionID = try head.ident()
        let request = IdentRequest(
            file: SaltedFileID(ident: try head.ident(), salt: try head.ident()),
            download: DownloadCursor(serverVersion: try head.number(), clientVersion: try head.number()),
            latest: SaltedVersion(version: try head.number(), salt: try head.number()))
        guard request.latest.version == 0 || request.latest.salt != 0 else { throw head.syntax("version without salt") }
        _ = try head.end()
        return .ident(session: session, request)
    }

    private func upload(
        _ head: inout MessageHead, _ isVoid: (SessionID) -> Bool
    ) throws(ProtocolViolation) -> ClientMessage {
        let session: SessionID = try head.ident()
        let isCompressed = try head.flag()
        let uncompressedBytes = try head.size()
        let compressedBytes = try head.size()
        let progress = UploadCursor(clientVersion: try head.number(), serverVersion: try head.number())
        let lockedVersion: ServerVersion = try head.number()
        guard isCompressed || compressedBytes == 0 else { throw head.syntax("compressed size without compression") }
        var body = try head.end(bodyBytes: isCompressed ? compressedBytes : uncompressedBytes)
        if isVoid(session) {
            body = NumberReader([], from: 0)
        } else if isCompressed {
            let inflated = try BodyCompression.inflate(
                body.skip(count: compressedBytes), to: uncompressedBytes, limits: limits)
            body = NumberReader(inflated, from: 0)
        }
        let entries = try UploadEntries(body)
        return .upload(
            session: session, UploadMessage(progress: progress, lockedVersion: lockedVersion, entries: entries))
    }

    private func mark(_ head: inout MessageHead) throws(ProtocolViolation) -> ClientMessage {
        let message = ClientMessage.mark(session: try head.ident(), request: try head.ident())
        _ = try head.end()
        return message
    }

    private func unbind(_ head: inout MessageHead) throws(ProtocolViolation) -> ClientMessage {
        let message = ClientMessage.unbind(session: try head.ident())
        _ = try head.end()
        return message
    }

    private func ping(_ head: inout MessageHead) throws(ProtocolViolation) -> ClientMessage {
        let message = ClientMessage.ping(
            timestamp: try head.signedNumber(), roundTripMilliseconds: try head.number())
        _ = try head.end()
        return message
    }

    private func error(_ head: inout MessageHead) throws(ProtocolViolation) -> ClientMessage {
        guard let code = Int32(exactly: try head.signedNumber()) else { throw head.syntax("code out of range") }
        let textBytes = try head.size()
        let session: SessionID = try head.ident()
        var body = try head.end(bodyBytes: textBytes)
        return .error(session: session, code: Int(code), text: body.skip(count: textBytes))
    }

    private func testCommand(_ head: inout MessageHead) throws(ProtocolViolation) -> ClientMessage {
        let session: SessionID = try head.ident()
        let _: UInt64 = try head.ident()  // of the request
        _ = try head.end(bodyBytes: try head.size())
        return .testCommand(session: session)
    }
}

/// The entries of an UPLOAD, in the order of the client's log. They were all found well formed, and they stay in the
/// message that they came in: however many there are, they take no other memory.
public struct UploadEntries: Sequence, Sendable {
    /// The number of entries.
    public private(set) var count = 0
    /// The sum of the sizes of their changesets.
    public private(set) var changesetBytes = 0
    private let body: NumberReader

    init(_ body: NumberReader) throws(ProtocolViolation) {
        self.body = body
        var rest = body
        while rest.remaining > 0 {
            changesetBytes += try Self.window(&rest).changeset.count
            count += 1
        }
    }

    public func makeIterator() -> Iterator { Iterator(rest: body) }

    public struct Iterator: IteratorProtocol {
        fileprivate var rest: NumberReader

        public mutating func next() -> UploadedChangeset? {
            guard rest.remaining > 0, let window = try? UploadEntries.window(&rest) else { return nil }
            return UploadedChangeset(
                cursor: window.cursor, timestamp: window.tag.timestamp, origin: window.tag.ident,
                changeset: Array(window.changeset))
        }
    }

    private typealias Window = (cursor: UploadCursor, tag: OriginTag, changeset: ArraySlice<UInt8>)

    private static func window(_ body: inout NumberReader) throws(ProtocolViolation) -> Window {
        let cursor = UploadCursor(clientVersion: try number(&body), serverVersion: try number(&body))
        let tag = OriginTag(timestamp: try number(&body), ident: try number(&body))
        let changesetBytes: UInt64 = try number(&body)
        guard changesetBytes <= UInt64(body.remaining) else {
            throw ProtocolViolation(.badChangesetSize, "upload: changeset longer than the rest of the body")
        }
        return (cursor, tag, body.skip(count: Int(changesetBytes)))
    }

    private static func number<Number: TypedNumber>(_ body: inout NumberReader) throws(ProtocolViolation) -> Number {
        Number(rawValue: try number(&body))
    }

    private static func number(_ body: inout NumberReader) throws(ProtocolViolation) -> UInt64 {
        guard let value = body.number(), body.skip(UInt8(ascii: " ")) else {
            throw ProtocolViolation(.badChangesetHeader, "upload: bad number in front of a changeset")
        }
        return value
    }
}

extension UploadEntries: Equatable {
    public static func == (left: UploadEntries, right: UploadEntries) -> Bool { left.elementsEqual(right) }
}
