import AnabranchCore
import AnabranchProtocol
import AnabranchTestClient
import Foundation
import NIOCore

/// A client file and, while there is one, its session. It keeps the numbers that a real client keeps and sends what a
/// real client sends (`Spec/Protocol.md`, section 8.2), but integrates nothing: its changesets fit any state.
actor LoadClient: SessionPeer {
    nonisolated let partition: [UInt8]
    nonisolated let eventLoop: any EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { eventLoop.executor.asUnownedSerialExecutor() }

    // What a client keeps on its disk.
    private(set) var file: SaltedFileID?
    private(set) var download: DownloadCursor
    private var latest: SaltedVersion
    private var acknowledged: UploadCursor
    private var version: ClientVersion
    private var lastTimestamp: ChangesetTime = 0
    /// The subscriptions of flexible sync; nil with partitions.
    private var subscriptions: SubscriptionSet?

    // The session.
    private var connection: TestConnection?
    private var session: SessionID = 0
    private var lastRequest: UInt64 = 0
    private var answeredRequest: UInt64 = 0
    /// The reason why the session has ended.
    private(set) var error: TestClientError?
    private var isBound = false
    private var isConfirming = true

    /// The number of changesets of others that have come.
    private(set) var changesetCount = 0
    private var onDownload: (@Sendable (DownloadMessage, ContinuousClock.Instant) -> Void)?
    private var onFailure: (@Sendable (TestClientError) -> Void)?
    private var waiters: [Waiter] = []

    private struct Waiter {
        let isDone: @Sendable (isolated LoadClient) -> Bool
        let continuation: CheckedContinuation<ContinuousClock.Instant, any Error>
    }

    /// The data that a client keeps when its process ends.
    struct Memory: Sendable {
        fileprivate var file: SaltedFileID?
        fileprivate var download = DownloadCursor()
        fileprivate var latest = SaltedVersion()
        fileprivate var acknowledged = UploadCursor()
        fileprivate var version: ClientVersion = 1
    }

    /// - Parameters:
    ///   - eventLoop: the event loop of all connections that the client will have.
    ///   - memory: the data from an earlier life.
    init(of partition: String, on eventLoop: any EventLoop, memory: Memory = Memory(), mode: SyncMode = .partition) {
        subscriptions = mode == .flexible ? SubscriptionSet.none : nil
        self.partition = Array("\"\(partition)\"".utf8)
        self.eventLoop = eventLoop
        (file, download, latest) = (memory.file, memory.download, memory.latest)
        (acknowledged, version) = (memory.acknowledged, memory.version)
    }

    var memory: Memory {
        Memory(file: file, download: download, latest: latest, acknowledged: acknowledged, version: version)
    }

    /// - Parameters:
    ///   - onDownload: is given each DOWNLOAD with changesets, and the time of its arrival.
    ///   - onFailure: is given the reason why the session has ended, unless the client has left.
    func observe(
        onDownload: @escaping @Sendable (DownloadMessage, ContinuousClock.Instant) -> Void,
        onFailure: @escaping @Sendable (TestClientError) -> Void = { _ in }
    ) {
        self.onDownload = onDownload
        self.onFailure = onFailure
    }

    /// See `TestConnection.holdDownloads`.
    func holdDownloads(_ onArrival: @escaping @Sendable (ContinuousClock.Instant) -> Void) throws {
        try connection?.assumeIsolated { try $0.holdDownloads(onArrival) }
    }

    func releaseDownloads() { connection?.assumeIsolated { $0.releaseDownloads() } }

    // MARK: Sessions

    /// Begins a session on a connection of the same event loop: BIND, IDENT, MARK.
    ///
    /// - Returns: the time when the client had everything.
    @discardableResult
    func join(_ connection: TestConnection) async throws -> ContinuousClock.Instant {
        try await identify(on: connection)
        return try await catchUp()
    }

    /// - Returns: the time when the client had everything that there was.
    @discardableResult
    func catchUp() async throws -> ContinuousClock.Instant {
        lastRequest += 1
        let request = lastRequest
        send(.mark(session: session, request: request))
        return try await wait { $0.answeredRequest >= request }
    }

    /// Begins a session and asks for no answer.
    ///
    /// - Parameter changesets: are sent right after IDENT, before any DOWNLOAD can have come: so they were made on the
    ///   state that the client had when it left.
    func identify(
        on connection: TestConnection, uploading changesets: [[UInt8]] = [], timestamp: ChangesetTime? = nil
    ) async throws {
        try await bind(on: connection)
        try identify()
        if !changesets.isEmpty { _ = upload(changesets, timestamp: timestamp) }
    }

    /// Sends IDENT for a file that has been bound.
    func identify() throws {
        guard let file else { throw TestClientError("the client has no file ident") }
        let request = IdentRequest(file: file, download: download, latest: latest, subscriptions: subscriptions)
        send(.ident(session: session, request))
    }

    /// Sends BIND, and waits for the ident if the file is new and wants one.
    func bind(on connection: TestConnection, needsFileIdent: Bool = true) async throws {
        error = nil
        self.connection = connection
        session = try await connection.begin(self)
        isBound = true
        let isNew = needsFileIdent && file == nil
        send(
            .bind(
                session: session,
                subscriptions == nil
                    ? BindRequest(partition: partition, needsFileIdent: isNew)
                    : BindRequest(flexible: FlexibleBind(), needsFileIdent: isNew)))
        if isNew { _ = try await wait { $0.file != nil } }
    }

    /// Ends the session, and waits until the server has done so as well. The connection goes on.
    func unbind() async throws {
        send(.unbind(session: session))
        connection = nil  // what still comes is not answered
        _ = try await wait { !$0.isBound }
    }

    /// Drops the connection, as after a loss of the network.
    func leave() async {
        let connection = self.connection
        self.connection = nil
        await connection?.close()
    }

    // MARK: Flexible sync

    /// Subscribes to something else.
    ///
    /// - Parameter predicates: the predicates by class.
    /// - Returns: the number of the set, and the time when the message was sent.
    func subscribe(_ predicates: [String: String]) throws -> (version: QueryVersion, time: ContinuousClock.Instant) {
        let version = QueryVersion(rawValue: (subscriptions?.version.rawValue ?? 0) + 1)
        let set = SubscriptionSet(version: version, query: Array(try JSONEncoder().encode(predicates)))
        let time = ContinuousClock.now
        send(.query(session: session, set))
        subscriptions = set
        return (version, time)
    }

    /// Has the next IDENT say that the client has these objects.
    func claim(_ predicates: [String: String]) throws {
        subscriptions = SubscriptionSet(version: 1, query: Array(try JSONEncoder().encode(predicates)))
    }

    /// The newest set whose objects are there.
    private(set) var bootstrapped: QueryVersion?
    /// The newest refusal of a set.
    private(set) var refused: QueryRefusal?
    /// The number of messages by which the server said that it undid writes.
    private(set) var rejectionCount = 0

    /// From now on the client takes what it is sent, and never confirms it.
    func stopConfirming() { isConfirming = false }

    /// True once a set is answered: with its objects, or a refusal.
    func isAnswered(_ version: QueryVersion) -> Bool {
        (bootstrapped ?? 0) >= version || (refused?.version ?? 0) >= version
    }

    // MARK: Messages

    /// Waits until the server has read everything that was sent before.
    func ping() async throws { try await connection?.ping() }

    /// Sends changesets, each a version of its own.
    ///
    /// - Parameter timestamp: nil for the current time, with another one for each changeset.
    /// - Returns: the last version, and the time when the message was sent.
    @discardableResult
    func upload(
        _ changesets: [[UInt8]], timestamp: ChangesetTime? = nil
    ) -> (version: ClientVersion, time: ContinuousClock.Instant) {
        let uploads = changesets.map { changeset in
            version += 1
            lastTimestamp = ChangesetTime.now.following(lastTimestamp + 1)
            return UploadedChangeset(
                cursor: UploadCursor(clientVersion: version, serverVersion: download.serverVersion),
                timestamp: timestamp ?? lastTimestamp, changeset: changeset)
        }
        let message = message(with: uploads)
        uploadedVersion = version
        let time = ContinuousClock.now
        send(message)
        return (uploadedVersion, time)
    }

    private func send(_ message: ClientMessage) { connection?.assumeIsolated { $0.send(message) } }

    /// The origin tag of the changeset that was made last; no two of a client have the same.
    var newestTag: OriginTag { OriginTag(timestamp: lastTimestamp, ident: file?.ident ?? 0) }

    /// The number of the client's file; 0 if it has none.
    var identNumber: UInt64 { file?.ident.rawValue ?? 0 }

    /// The version of the changeset that was uploaded last.
    private(set) var uploadedVersion: ClientVersion = 0

    private func message(with changesets: [UploadedChangeset]) -> ClientMessage {
        .upload(
            session: session,
            UploadMessage(
                Upload(
                    progress: UploadCursor(clientVersion: version, serverVersion: download.serverVersion),
                    lockedVersion: download.serverVersion, changesets: changesets)))
    }

    /// An UPLOAD without changesets, which acknowledges a DOWNLOAD.
    var progressMessage: ClientMessage { message(with: []) }

    /// MARKs that nobody waits for.
    func marks(_ count: Int) -> [ClientMessage] {
        (0..<count).map { _ in
            lastRequest += 1
            return .mark(session: session, request: lastRequest)
        }
    }

    func isAcknowledged(_ version: ClientVersion) -> Bool { acknowledged.clientVersion >= version }

    // MARK: Events

    /// Waits until a condition holds.
    ///
    /// - Returns: the arrival of the message that made it so.
    /// - Throws: `TestClientError` if the session ends before.
    func wait(
        until isDone: @escaping @Sendable (isolated LoadClient) -> Bool
    ) async throws -> ContinuousClock.Instant {
        if isDone(self) { return .now }
        if let error { throw error }
        return try await withCheckedThrowingContinuation { waiters.append(Waiter(isDone: isDone, continuation: $0)) }
    }

    func take(_ message: ServerMessage, at time: ContinuousClock.Instant) {
        switch message {
        case .ident(_, let file): self.file = file
        case .download(_, let message): take(message, at: time)
        case .mark(_, let request): answeredRequest = request
        case .unbound: isBound = false
        case .queryError(_, let refusal): refused = refusal
        case .error: rejectionCount += 1
        default: break
        }
        for index in waiters.indices.reversed() where waiters[index].isDone(self) {
            waiters.remove(at: index).continuation.resume(returning: time)
        }
    }

    private func take(_ message: DownloadMessage, at time: ContinuousClock.Instant) {
        let isNews = message.progress.cursor.serverVersion > download.serverVersion
        let isBootstrap = message.batch?.state == .last
        if isBootstrap { bootstrapped = message.batch?.version }
        download = message.progress.cursor
        latest = message.progress.latest
        acknowledged = message.progress.upload
        version += 1  // the commit that keeps the progress
        if isNews {
            changesetCount += message.changesetCount
            if message.changesetCount > 0 { onDownload?(message, time) }
        }
        if isConfirming, isNews || isBootstrap { send(progressMessage) }
    }

    func fail(_ error: TestClientError) {
        self.error = error
        if connection != nil { onFailure?(error) }
        connection = nil
        for waiter in waiters { waiter.continuation.resume(throwing: error) }
        waiters = []
    }
}

extension Sequence<LoadClient> {
    /// Has each of them take what it holds, all those of an event loop in one turn.
    func releaseDownloads() {
        for clients in Dictionary(grouping: self, by: { ObjectIdentifier($0.eventLoop) }).values {
            clients[0].eventLoop.execute { for client in clients { client.assumeIsolated { $0.releaseDownloads() } } }
        }
    }
}
