public import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import AnabranchTesting
import Foundation
package import NIOCore
import NIOPosix

/// A client of partition-based sync, for tests of a server: to the server, it looks like an app with a Realm SDK. It
/// has a state in memory and one partition, syncs over a WebSocket, merges what it downloads, and checks what a real
/// client checks.
///
/// It receives messages only while one of its calls waits for something. So the test decides what the client knows when
/// it writes, and can have two clients write without knowing of each other. One call at a time.
///
/// There is no TLS, no flexible sync, and no log-in: the server's authenticator has to accept the token.
public actor TestClient {
    /// The app whose partition it syncs; empty for a client without an app.
    public nonisolated let app: String
    /// The partition that it syncs.
    public nonisolated let partition: PartitionValue
    private let eventLoop: any EventLoop
    private let release: ToldRelease?

    // The data that a client keeps on disk.
    private var memory: MemoryClient?
    private var progress: DownloadProgress?
    private var lastTimestamp: ChangesetTime = 0

    // The session.
    private var connection: TestConnection?
    private var inbox: SessionInbox?
    private var session: SessionID = 0
    private var lastRequest: UInt64 = 0

    package init(app: String, partition: PartitionValue, on eventLoop: any EventLoop) {
        self.app = app
        self.partition = partition
        self.eventLoop = eventLoop
        release = nil
    }

    /// A client that fails where one of a release would end its process.
    package init(app: String, partition: PartitionValue, release: ToldRelease) {
        self.app = app
        self.partition = partition
        self.release = release
        eventLoop = MultiThreadedEventLoopGroup.singleton.next()
    }

    /// A client that has never been connected.
    /// - Parameters:
    ///   - app: the id of the app; empty for a client without an app layer.
    ///   - partition: the value that an app passes when it opens a Realm.
    public init(app: String, partition: PartitionValue) {
        self.init(app: app, partition: partition, on: MultiThreadedEventLoopGroup.singleton.next())
    }

    /// The number of its client file, which it gets from the server when it connects for the first time.
    public var ident: ClientFileID? { memory?.ident }

    /// True if it has a connection, as far as it knows.
    public var isConnected: Bool { connection != nil }

    // MARK: Connecting

    /// Connects and begins to sync. Changes that are not acknowledged yet are uploaded again.
    /// - Parameters:
    ///   - url: the server's URL, for instance `ws://127.0.0.1:9090`.
    ///   - token: what the client presents to the authenticator; nil for none.
    /// - Throws: `TestClientError` if the server cannot be reached, or does not let the client in. If the client was
    ///   connected before, it is the next call that waits which throws what the server says about the partition.
    public func connect(to url: String, token: String? = nil) async throws {
        try await connect(to: SyncTarget(url: url).with(token: token, app: app.isEmpty ? nil : app))
    }

    package func connect(to target: SyncTarget) async throws {
        await disconnect()
        var target = target
        target.release = release ?? target.release
        let connection = try await TestConnection.opened(to: target, on: eventLoop)
        let inbox = SessionInbox(on: eventLoop)
        session = try await connection.begin(inbox)
        (self.connection, self.inbox) = (connection, inbox)
        let bind = BindRequest(partition: partition.bytes, needsFileIdent: memory == nil)
        await send(.bind(session: session, bind))
        if memory == nil {
            guard case .ident(_, let file) = try await next() else { throw ServerViolation(description: "no IDENT") }
            memory = MemoryClient(file, capabilities: release?.capabilities ?? .all)
        }
        memory?.startSession()
        guard let request = memory?.identRequest else { return }
        await send(.ident(session: session, request))
        try await sendChanges()
    }

    /// Closes the connection, as if the network was lost. The client keeps what it has, and can write.
    public func disconnect() async {
        let connection = self.connection
        (self.connection, inbox) = (nil, nil)
        await connection?.close()
    }

    /// Discards all data, even changes that were not uploaded, as an app does after a client reset.
    public func reset() async {
        await disconnect()
        (memory, progress) = (nil, nil)
    }

    // MARK: State

    /// Makes a local transaction, connected or not; `upload()` sends it to the server.
    /// - Parameter body: makes the transaction. Nothing is written if it throws.
    /// - Returns: what `body` returns.
    /// - Throws: what `body` throws; `ApplyError` with the place, for a change that makes no sense; `TestClientError`
    ///   if the client was never connected.
    @discardableResult
    public func write<Value: Sendable>(_ body: @Sendable (WriteTransaction) throws -> Value) throws -> Value {
        try write(at: .now, body)
    }

    /// The same when the client's clock shows a time.
    @discardableResult
    package func write<Value: Sendable>(
        at time: ChangesetTime, _ body: @Sendable (WriteTransaction) throws -> Value
    ) throws -> Value {
        guard memory != nil else { throw TestClientError("the client was never connected, so it has no number") }
        lastTimestamp = time.following(lastTimestamp + 1)
        var value: Value?
        try memory?.write(at: lastTimestamp) { value = try body($0) }
        guard let value else { preconditionFailure("the transaction was made") }
        return value
    }

    /// Reads the client's present state: what it has downloaded and written.
    /// - Returns: what `body` returns.
    /// - Throws: what `body` throws; `ApplyError` with the place, for an invalid call.
    public func read<Value: Sendable>(_ body: @Sendable (WriteTransaction) throws -> Value) throws -> Value {
        try state.read(body)
    }

    package var state: ObjectGraph { memory?.state ?? ObjectGraph() }

    // MARK: Sync

    /// Uploads the local changes, and waits until the server has acknowledged them.
    /// - Throws: `TestClientError` with the code if the server refuses them.
    public func upload() async throws {
        try await sendChanges()
        while let memory, !memory.isAcknowledged { _ = try await next() }
    }

    /// Waits until the client has everything that the server had when it was asked.
    /// - Throws: `TestClientError` if the session ends before.
    public func download() async throws {
        lastRequest += 1
        await send(.mark(session: session, request: lastRequest))
        while true {
            if case .mark(_, let request) = try await next(), request == lastRequest { return }
        }
    }

    /// Waits until the state is as it should be: until somebody else has written something, for instance.
    /// - Parameter isDone: looks at the state, first at once, then whenever a message has arrived.
    /// - Throws: what `isDone` throws; `TestClientError` if the session ends before.
    public func wait(until isDone: @Sendable (WriteTransaction) throws -> Bool) async throws {
        while try !read(isDone) { _ = try await next() }
    }

    /// The client's place in the server's log, as text for people.
    package var place: String {
        guard let memory else { return "a client without a file ident" }
        return "client file \(memory.ident), at version \(memory.download.serverVersion) of "
            + "\(progress?.latest.version ?? 0)"
    }

    // MARK: Messages

    /// Uploads what is new; without a change, only the client's progress.
    package func sendChanges() async throws {
        guard let upload = memory?.nextUpload() else { return }
        await send(.upload(session: session, UploadMessage(upload)))
    }

    private func send(_ message: ClientMessage) async { await connection?.send(message) }

    private func next() async throws -> ServerMessage {
        guard let inbox else { throw TestClientError("the client is not connected") }
        let message = try await inbox.next()
        if case .download(_, let message) = message { try await take(message.download) }
        return message
    }

    private func take(_ download: Download) async throws {
        guard var memory else { return }
        let check = DownloadCheck(version: memory.version, ident: memory.ident)
        let old = progress ?? DownloadCheck.nothing
        if let words = check.violation(of: download, after: old) {
            throw ServerViolation(description: "\(words) (\(place))")
        }
        if DownloadCheck.goesBack(download.progress, after: old) {
            throw ServerViolation(description: "the server version of the upload cursor goes back (\(place))")
        }
        do {
            try memory.integrate(download)
        } catch {
            throw ServerViolation(description: "what was downloaded cannot be merged: \(error) (\(place))")
        }
        self.memory = memory
        progress = download.progress
        if !download.changesets.isEmpty { try await sendChanges() }
    }
}

extension ChangesetTime {
    /// The time by the system's clock.
    package static var now: ChangesetTime { ChangesetTime(secondsSince1970: Date().timeIntervalSince1970) }
}
