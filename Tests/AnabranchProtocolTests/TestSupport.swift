import AnabranchCore
import Testing

@testable import AnabranchProtocol

func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }

func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

/// The entries of an UPLOAD as a client writes them.
func uploadBody(
    _ entries: [(client: UInt64, server: UInt64, timestamp: UInt64, origin: UInt64, [UInt8])]
) -> [UInt8] {
    entries.reduce(into: []) { body, entry in
        let (client, server, timestamp, origin, changeset) = entry
        body += bytes("\(client) \(server) \(timestamp) \(origin) \(changeset.count) ") + changeset
    }
}

/// An UPLOAD of session 1 with a body that is already compressed.
func compressedUpload(_ body: [UInt8], inflatingTo size: Int) -> [UInt8] {
    bytes("upload 1 1 \(size) \(body.count) 9 0 0\n") + body
}

/// The code of the violation that a message is, or `nil` if it is well formed.
func violation(_ message: [UInt8], limits: Limits = Limits(), mode: SyncMode = .partition) -> ErrorCode? {
    do throws(ProtocolError) {
        _ = try ClientMessageCodec(limits: limits, mode: mode).decode(message)
        return nil
    } catch {
        return error.code
    }
}

typealias Action = ServerConnection.Action
typealias Output = ServerConnection.Output

/// A connection, with the answers of a server that has all it is asked for.
final class Conversation {
    private var connection: ServerConnection
    /// The latest session of each ident.
    private(set) var handles: [SessionID: SessionHandle] = [:]

    init(
        _ offer: String = "com.mongodb.realm-sync#14", accepting modes: Set<SyncMode> = [.partition],
        limits: Limits = Limits(), asksBeforeMarks: Bool = false
    ) throws {
        let negotiation = try Negotiation(offer: offer, accepting: modes)
        connection = ServerConnection(negotiation, limits: limits, asksBeforeMarks: asksBeforeMarks)
    }

    var hasFailed: Bool { connection.hasFailed }
    var sessionCount: Int { connection.sessionCount }

    @discardableResult
    func receive(_ message: String) -> Action? { receive(bytes(message)) }

    @discardableResult
    func receive(_ message: [UInt8]) -> Action? {
        let action = connection.receive(message)
        if case .ask(let handle, .open) = action { handles[handle.ident] = handle }
        return action
    }

    /// Everything that is to be sent or scanned now.
    func outputs() -> [Output] {
        var outputs: [Output] = []
        while let output = connection.next() { outputs.append(output) }
        return outputs
    }

    /// One output at a time, as text.
    func next() -> String? { connection.next().map(describe) }

    func said() -> [String] { outputs().map(describe) }

    private func describe(_ output: Output) -> String {
        switch output {
        case .message(let message): text(message.bytes)
        case .lastMessage(let message): "last: " + text(message.bytes)
        case .close(let code): "close \(code)"
        case .ask(let handle, .scan(let cursor)):
            "scan \(handle.ident) \(cursor.serverVersion) \(cursor.clientVersion)"
        case .ask(let handle, .scanBootstrap(let version, let part, let cursor)):
            "scan \(handle.ident) \(cursor.serverVersion) \(cursor.clientVersion) bootstrap \(version).\(part)"
        case .ask(let handle, let request): "ask \(handle.ident) \(request)"
        }
    }

    func handle(_ session: SessionID) throws -> SessionHandle { try #require(handles[session]) }

    func allocate(_ session: SessionID = 1, _ ident: ClientFileID = 2) throws { allocate(try handle(session), ident) }

    func allocate(_ handle: SessionHandle, _ ident: ClientFileID) {
        connection.receive(.fileIdentAllocated(SaltedFileID(ident: ident, salt: 77)), for: handle)
    }

    func accept(_ session: SessionID = 1, at version: ServerVersion = 0, exposed: ServerVersion = 0) throws {
        connection.receive(
            .identAccepted(DownloadCursor(serverVersion: version), exposedVersion: exposed), for: try handle(session))
    }

    func answer(_ event: SessionEvent, for session: SessionID) throws {
        connection.receive(event, for: try handle(session))
    }

    func expose(_ version: ServerVersion, to session: SessionID = 1) throws {
        connection.receive(.versionExposed(version), for: try handle(session))
    }

    /// An empty DOWNLOAD up to a version, which is the latest unless another is given.
    func download(_ session: SessionID = 1, to version: ServerVersion, latest: ServerVersion? = nil) throws {
        let latest = latest ?? version
        let header = DownloadProgress(
            cursor: DownloadCursor(serverVersion: version),
            latest: SaltedVersion(version: latest, salt: latest == 0 ? 0 : 5),
            upload: UploadCursor(), downloadableBytes: 0)
        connection.receive(.download(header, .empty), for: try handle(session))
    }

    /// An empty DOWNLOAD up to a version that nobody has asked for.
    /// - Returns: whether it will be sent.
    func offer(_ session: SessionID = 1, after version: ServerVersion, to end: ServerVersion) throws -> Bool {
        let header = DownloadProgress(
            cursor: DownloadCursor(serverVersion: end), latest: SaltedVersion(version: end, salt: 5),
            upload: UploadCursor(), downloadableBytes: 0)
        return connection.receive(
            unasked: header, .empty, after: DownloadCursor(serverVersion: version), for: try handle(session))
    }

    func fail(_ session: SessionID = 1, _ error: ErrorMessage) throws { connection.fail(try handle(session), error) }

    func warn(_ session: SessionID = 1, _ error: ErrorMessage) throws { connection.warn(try handle(session), error) }

    func supersede(_ session: SessionID = 1) throws { connection.receive(.superseded, for: try handle(session)) }

    /// The answers of the synced file.
    func tell(_ event: SessionEvent, session: SessionID = 1) throws {
        connection.receive(event, for: try handle(session))
    }

    func failConnection(_ error: ErrorMessage) { connection.failConnection(error) }

    func log(_ message: LogMessage) { connection.log(message) }

    /// Brings a session to where it has got its first DOWNLOAD.
    func run(_ session: SessionID = 1) throws {
        receive("bind \(session) 2 0 0 0\n\"\"")
        receive("ident \(session) 2 77 0 0 0 0\n")
        try accept(session)
        #expect(said() == ["scan \(session) 0 0"])
        try download(session, to: 0)
        #expect(said() == ["download \(session) 0 0 0 0 0 0 0 0 0 0\n"])
    }
}

extension Action {
    /// The code with which the connection failed.
    var violation: ErrorCode? {
        if case .connectionFailed(let violation) = self { violation.code } else { nil }
    }
}

/// The code of a JSON_ERROR.
func errorCode(_ message: String?) -> Int? {
    guard let words = message?.split(separator: "\n").first?.split(separator: " "),
        let start = words.firstIndex(of: "json_error"), start + 1 < words.count
    else { return nil }
    return Int(words[start + 1])
}

// MARK: - Flexible sync

extension Conversation {
    /// One changeset of zero bytes, which is enough for a bootstrap.
    private func body(at version: ServerVersion, isEmpty: Bool) -> EncodedBody {
        let cursor = DownloadCursor(serverVersion: version)
        let changeset = DownloadedChangeset(cursor: cursor, tag: OriginTag(timestamp: 0, ident: 1), changeset: [])
        return EncodedBody(isEmpty ? [] : [changeset])
    }

    private func progress(at version: ServerVersion, latest: ServerVersion? = nil) -> DownloadProgress {
        DownloadProgress(
            cursor: DownloadCursor(serverVersion: version), latest: SaltedVersion(version: latest ?? version, salt: 5),
            upload: UploadCursor(), downloadableBytes: 0)
    }

    private func compensations(_ versions: [ServerVersion]) -> [ErrorMessage] {
        versions.map { version in
            var error = ErrorMessage(.compensatingWrite)
            error.rejection = ErrorMessage.Rejection(clientVersion: 3, serverVersion: version, updates: [])
            return error
        }
    }

    /// A bootstrap, or a part of it.
    func bootstrap(
        _ query: QueryVersion, at version: ServerVersion, latest: ServerVersion? = nil, isLast: Bool = true,
        isEmpty: Bool = false, estimate: Double = 1, compensations versions: [ServerVersion] = []
    ) throws {
        let download = FlexibleDownload(
            progress: progress(at: version, latest: latest), body: body(at: version, isEmpty: isEmpty),
            kind: .bootstrap(query, isLast: isLast), estimate: estimate, compensations: compensations(versions))
        try tell(.flexibleDownload(download))
    }

    /// Steady state with compensating writes.
    func steady(to version: ServerVersion, compensations versions: [ServerVersion], isEmpty: Bool = false) throws {
        let download = FlexibleDownload(
            progress: progress(at: version), body: body(at: version, isEmpty: isEmpty),
            compensations: compensations(versions))
        try tell(.flexibleDownload(download))
    }

    func refuse(_ version: QueryVersion) throws {
        try tell(.queryRefused(QueryRefusal(version: version, message: "no")))
    }
}
