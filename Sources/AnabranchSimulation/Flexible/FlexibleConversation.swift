import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import AnabranchTesting

/// A client of flexible sync and the server's side of its connection. Every message is encoded, and is lost with the
/// connection. What the server's side asks of the file waits in `requests`.
final class FlexibleConversation {
    /// The releases that `Spec/FlexibleSync.md` distinguishes, with the version of the protocol that each offers.
    static let releases: [(release: CoreVersion, version: Int)] = [
        (CoreVersion(12, 0), 4), (CoreVersion(13, 1), 7), (CoreVersion(13, 26), 11), (CoreVersion(14, 5), 12),
        (CoreVersion(14, 14), 14),
    ]

    var client: FlexibleClient
    private let version: ProtocolVersion
    private var server: ServerConnection
    private(set) var isConnected = false
    /// True once the client's process has had a connection.
    private var hasConnected = false
    /// The requests that the file has to answer, in order.
    private var requests: [(handle: SessionHandle, request: SessionRequest)] = []
    /// The messages that the server has sent and the client has not read yet, encoded.
    private var arriving: [[UInt8]] = []
    /// The session on the server's side; nil while it has none.
    private var handle: SessionHandle?
    /// The session as the file knows it; nil while there is none.
    var session: ViewSession?
    /// The end of what the session had been sent before the last DOWNLOAD that it has not requested, and the version at
    /// which that ends; nil if it has requested one since.
    var unasked: (before: ViewSession.Sent, version: ServerVersion)?
    /// That DOWNLOAD, while it is on its way to the connection, and the place that it follows.
    var news: (download: FlexibleDownload, follows: DownloadCursor)?
    /// The uploads some of whose objects were refused, with the versions that their changesets became.
    var refusals: [(versions: VersionRange, objects: [CompensatingWrite.Object])] = []

    init(_ release: CoreVersion, _ version: Int) throws {
        client = FlexibleClient(release: release)
        self.version = ProtocolVersion(version)
        server = try Self.open(self.version)
    }

    private static func open(_ version: ProtocolVersion) throws -> ServerConnection {
        let separator = version.number < 8 ? "/" : "#"
        let offer = "com.mongodb.realm-query-sync\(separator)\(version.number)"
        return ServerConnection(try Negotiation(offer: offer, accepting: [.flexible]))
    }

    /// Returns a client of the same release with a new file.
    func begunAnew() throws -> FlexibleConversation { try FlexibleConversation(client.release, version.number) }

    // MARK: Connections

    /// - Parameter isFast: whether the last connection of this process, if there was one, was lost only a short time
    ///   ago.
    func connect(isFast: Bool) throws {
        server = try Self.open(version)
        isConnected = true
        client.connect(version, isFast: isFast && hasConnected)
        hasConnected = true
    }

    /// Drops the connection, with all that the client has not read and the server has not handled.
    func disconnect() {
        isConnected = false
        requests = []
        arriving = []
        (handle, session, news) = (nil, nil, nil)
        client.disconnect()
    }

    /// Ends the process of the client and starts another.
    func restart() {
        disconnect()
        hasConnected = false
        client.restart()
    }

    /// Tells the session that the file has something new.
    func expose(_ version: ServerVersion) {
        if session != nil, let handle { server.receive(.versionExposed(version), for: handle) }
    }

    /// The capabilities of the client; but no release gets changesets here that it cannot read at all.
    var capabilities: ClientCapabilities {
        var capabilities = client.file?.capabilities ?? .all
        (capabilities.readsCollectionsInMixed, capabilities.readsAsymmetricClasses) = (true, true)
        return capabilities
    }

    /// True once the client is known to have integrated what it has not requested. Until then it gets no more of it.
    var hasTakenUnasked: Bool { session?.progress.uploaded.serverVersion ?? 0 >= unasked?.version ?? 0 }

    /// - Parameter canSend: whether the socket accepts messages.
    /// - Returns: whether the DOWNLOAD will be sent.
    func deliverNews(canSend: Bool) -> Bool {
        guard let (download, cursor) = news.take(), let handle else { return false }
        if canSend { return server.receive(unasked: download.progress, download.body, after: cursor, for: handle) }
        server.receive(.versionExposed(download.progress.latest.version), for: handle)
        return false
    }

    // MARK: Messages

    /// Passes the next message of the client to the server.
    /// - Returns: whether the client had anything to say.
    func clientSpeaks() throws -> Bool {
        guard isConnected else { return false }
        client.resume()
        guard let message = client.next() else { return false }
        switch server.receive(ClientMessageCodec(mode: .flexible).encode(message).bytes) {
        case .ask(let handle, let request): requests.append((handle, request))
        case .connectionFailed(let error): throw error
        case .clientFailed, nil: break
        }
        return true
    }

    /// Answers the oldest request to the file.
    /// - Returns: whether there was one.
    func fileAnswers(_ answer: (SessionRequest) throws -> SessionEvent?) throws -> Bool {
        guard !requests.isEmpty else { return false }
        let (handle, request) = requests.removeFirst()
        self.handle = handle
        if request == .close { session = nil }
        if let event = try answer(request) { server.receive(event, for: handle) }
        return true
    }

    /// Takes the next message or request of the server.
    /// - Returns: whether the server had anything to say or to ask.
    func serverSpeaks() -> Bool {
        guard isConnected else { return false }
        switch server.next() {
        case .message(let message), .lastMessage(let message): arriving.append(message.bytes)
        case .ask(let handle, let request): requests.append((handle, request))
        case .close, nil: return false
        }
        return true
    }

    /// Lets the client read a message.
    /// - Returns: whether one had arrived.
    /// - Throws: `ProtocolViolation` if the server must not send it; or an error of the codec.
    func clientReads() throws -> Bool {
        guard !arriving.isEmpty else { return false }
        let codec = ServerMessageCodec(mode: .flexible, version: version)
        let message = try codec.decode(arriving.removeFirst())
        try client.receive(message)
        return true
    }
}
