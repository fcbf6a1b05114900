public import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import AnabranchTesting
import Foundation
package import NIOCore
import NIOPosix

/// A client of partition-based sync, for tests of a server: what an app with a Realm SDK is for it. It has a state in
/// memory and one partition, speaks to the server over a WebSocket, merges what it downloads, and checks what a real
/// client checks.
///
/// It takes what the server has sent only while one of its calls waits for something. So the test decides what the
/// client knows when it writes, and can have two clients write without knowing of each other. One call at a time.
///
/// There is no TLS, no flexible sync, and no log-in: `token` is one that the server's authenticator knows.
public actor TestClient {
    /// The app whose partition it syncs; empty for a client without an app.
    public nonisolated let app: String
    /// The partition that it syncs.
    public nonisolated let partition: PartitionValue
    private let eventLoop: any EventLoop

    // What a client keeps on its disk.
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
    }

    /// A client that has never been connected.
    /// - Parameters:
    ///   - app: the id of the app; empty for a client without an app layer.
    ///   - partition: what an app passes when it opens a Realm.
    public init(app: String, partition: PartitionValue) {
        self.init(app: app, partition: partition, on: MultiThreadedEventLoopGroup.singleton.next())
    }

    /// The number of its client file, which it gets from the server when it connects for the first time.
    public var ident: ClientFileID? { memory?.ident }

    /// Whether it has a connection, as far as it knows.
    public var isConnected: Bool { connection != nil }

    // MARK: Connecting

    /// Connects and begins to sync. What was not acknowledged before is uploaded again.
    /// - Parameters:
    ///   - url: of the server, for instance `ws://127.0.0.1:9090`.
    ///   - token: what the client presents to the authenticator; nil for none.
    /// - Throws: `TestClientError` if the server is not there, or does not let the client in. Of a client that has
    ///   been here before, the next call that waits throws what the server says about the partition.
    public func connect(to url: String, token: String? = nil) async throws {
        try await connect(to: SyncTarget(url: url).with(token: token, app: app.isEmpty ? nil : app))
    }

    package func connect(to target: SyncTarget) async throws {
        await disconnect()
        let connection = try await TestConnection.opened(to: target, on: eventLoop)
        let inbox = SessionInbox(on: eventLoop)
        session = try await connection.begin(inbox)
        (self.connection, self.inbox) = (connection, inbox)
        let bind = BindRequest(partition: partition.bytes, needsFileIdent: memory == nil)
        await send(.bind(session: session, bind))
        if memory == nil {
            guard case .ident(_, let file) = try await next() else { throw ServerViolation(description: "no IDENT") }
            memory = MemoryClient(file)
        }
        memory?.startSession()
        guard let request = memory?.identRequest else { return }
        await send(.ident(session: session, request))
        try await sendChanges()
    }

    /// The connection is gone, as after a loss of the network. The client keeps what it has, and can write.
    public func disconnect() async {
        let connection = self.connection
        (self.connection, inbox) = (nil, nil)
        await connection?.close()
    }

    /// Throws away all that it has, also what was not uploaded, as an app does after a client reset.
    public func reset() async {
        await disconnect()
        (memory, progress) = (nil, nil)
    }

    // MARK: State

    /// Makes a local transaction, connected or not; `upload()` brings it to the server.
    /// - Parameter body: makes the transaction. Nothing is written if it throws.
    /// - Returns: what `body` returns.
    /// - Throws: what `body` throws; `ApplyError` with the place for what makes no sense; `TestClientError` if the
    ///   client was never connected.
    @discardableResult
    public func write<Value: Sendable>(_ body: @Sendable (WriteTransaction) throws -> Value) throws -> Value {
        guard memory != nil else { throw TestClientError("the client was never connected, so it has no number") }
        lastTimestamp = ChangesetTime.now.following(lastTimestamp + 1)
        var value: Value?
        try memory?.write(at: lastTimestamp) { value = try body($0) }
        guard let value else { preconditionFailure("the transaction was made") }
        return value
    }

    /// Reads the state as the client has it now: what it has downloaded and written.
    /// - Returns: what `body` returns.
    /// - Throws: what `body` throws; `ApplyError` with the place for what makes no sense.
    public func read<Value: Sendable>(_ body: @Sendable (WriteTransaction) throws -> Value) throws -> Value {
        try state.read(body)
    }

    package var state: ObjectGraph { memory?.state ?? ObjectGraph() }

    // MARK: Sync

    /// Uploads what was written, and waits until the server has acknowledged it.
    /// - Throws: `TestClientError` with the code if the server refuses it.
    public func upload() async throws {
        try await sendChanges()
        while let memory, !memory.isAcknowledged { _ = try await next() }
    }

    /// Waits until the client has all that the server had when it was asked.
    /// - Throws: `TestClientError` if the session ends before.
    public func download() async throws {
        lastRequest += 1
        await send(.mark(session: session, request: lastRequest))
        while true {
            if case .mark(_, let request) = try await next(), request == lastRequest { return }
        }
    }

    /// Waits until the state is as it should be: until somebody else has written something, for instance.
    /// - Parameter isDone: looks at the state, first at once, then whenever something has come.
    /// - Throws: what `isDone` throws; `TestClientError` if the session ends before.
    public func wait(until isDone: @Sendable (WriteTransaction) throws -> Bool) async throws {
        while try !read(isDone) { _ = try await next() }
    }

    /// How far it has come, for people.
    package var place: String {
        guard let memory else { return "a client without a file ident" }
        return "client file \(memory.ident), at version \(memory.download.serverVersion) of "
            + "\(progress?.latest.version ?? 0)"
    }

    // MARK: Messages

    /// Uploads what is new; without a change, how far the client has come.
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
    /// What the clock says.
    package static var now: ChangesetTime { ChangesetTime(secondsSince1970: Date().timeIntervalSince1970) }
}
