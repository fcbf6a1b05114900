import AnabranchCore
import AnabranchHistory
import Testing

/// One client file and its client: speaks the protocol over a WebSocket, keeps what a real client keeps on its disk,
/// and checks everything that a real client checks (`Spec/Protocol.md`, section 5.2).
final class SyncClient {
    /// A local change.
    struct Change: Equatable {
        let cursor: UploadCursor
        let timestamp: ChangesetTime
        let changeset: [UInt8]
    }

    let partition: String
    /// Where it comes, with its token if it has one.
    var path = "/realm-sync"
    /// The protocols that it offers.
    var offer = WebSocketClient.offer
    /// Called after each message in either direction.
    var onMessage: () async throws -> Void = {}
    private let port: () -> Int
    private var socket: WebSocketClient?
    private var session: UInt64 = 0
    private var lastRequest: UInt64 = 0

    // On disk.
    private(set) var ident: ClientFileID = 0
    private var salt: Salt = 0
    private(set) var download = DownloadCursor()
    private var latest = SaltedVersion()
    private(set) var acknowledged = UploadCursor()
    private(set) var version: ClientVersion = 1
    private(set) var changes: [Change] = []
    private(set) var received: [DownloadedChangeset] = []

    /// How far it has said that it has come.
    private var reported: ClientVersion = 0
    /// The part of it that the server has read.
    private(set) var heard: ClientVersion = 0

    /// - Parameter port: where the server is; asked anew for each connection.
    init(partition: String, port: @escaping () -> Int) {
        self.partition = partition
        self.port = port
    }

    var isConnected: Bool { socket != nil }

    /// A local transaction, on or offline.
    func change(_ changeset: [UInt8], at timestamp: ChangesetTime) {
        version += 1
        let base = download.serverVersion
        changes.append(
            Change(
                cursor: UploadCursor(clientVersion: version, serverVersion: base), timestamp: timestamp,
                changeset: changeset))
    }

    // MARK: Sessions

    func connect() async throws {
        socket = try await WebSocketClient.open(port: port(), path: path, offer: offer)
    }

    /// BIND, and IDENT of the server if the file is new.
    func bind() async throws {
        session += 1
        try await send("bind \(session) \(partition.utf8.count) 0 \(ident == 0 ? 1 : 0) 0\n\(partition)")
        guard ident == 0 else { return }
        let answer = try await next("ident")
        (ident, salt) = (ClientFileID(answer[1]), Salt(answer[2]))
    }

    func identify() async throws { try await send(identMessage(session: session)) }

    /// IDENT, as it stands on the disk.
    func identMessage(session: UInt64) -> String {
        "ident \(session) \(ident) \(salt) \(download.serverVersion) \(download.clientVersion) "
            + "\(latest.version) \(latest.salt)\n"
    }

    /// Uploads whatever was not acknowledged, without waiting for an answer.
    func upload() async throws {
        try await upload(after: changes.count { $0.cursor.clientVersion <= acknowledged.clientVersion })
    }

    /// Uploads the changes after the first `count`.
    func upload(after count: Int) async throws {
        reported = version
        try await send(uploadMessage(after: count))
    }

    func uploadMessage(after count: Int) -> [UInt8] {
        var body: [UInt8] = []
        for change in changes.dropFirst(count) {
            let numbers = [
                change.cursor.clientVersion.rawValue, change.cursor.serverVersion.rawValue, change.timestamp.rawValue,
                0, UInt64(change.changeset.count),
            ]
            body += numbers.flatMap { Array("\($0) ".utf8) } + change.changeset
        }
        let base = version > 1 ? download.serverVersion : 0
        let head =
            "upload \(session) 0 \(body.count) 0 \(version > 1 ? version : 0) \(base) \(download.serverVersion)\n"
        return Array(head.utf8) + body
    }

    /// MARK, and everything until it is answered.
    func mark() async throws {
        lastRequest += 1
        try await send("mark \(session) \(lastRequest)\n")
        while true {
            let message = try await nextMessage()
            guard message.kind == "mark" else { continue }
            #expect(message.numbers == [session, lastRequest])
            return
        }
    }

    /// PING, and everything until it is answered: then the server has read what was sent before.
    func ping() async throws {
        try await send("ping 1 0\n")
        while try await nextMessage().kind != "pong" {}
    }

    /// Reads until the server has acknowledged every change.
    func waitForAcknowledgement() async throws {
        while let last = changes.last, acknowledged.clientVersion < last.cursor.clientVersion {
            _ = try await nextMessage()
        }
    }

    /// Reads one message.
    func receive() async throws { _ = try await nextMessage() }

    /// Reads until the server closes the WebSocket, and returns the close code.
    func receiveAll() async throws -> Int? {
        while true {
            let frame = try await require().receive()
            if frame.opcode == 8 { return frame.closeCode }
            try take(SyncMessage(frame.payload))
        }
    }

    func unbind() async throws {
        try await send("unbind \(session)\n")
        while try await nextMessage().kind != "unbound" {}
    }

    /// The connection is gone, as after a crash of either side.
    func disconnect() async throws {
        try await socket?.close()
        socket = nil
    }

    /// A new session on a new connection for a known or a new file, up to the first DOWNLOAD.
    func reconnect() async throws {
        try await disconnect()
        try await connect()
        try await bind()
        try await identify()
        try await receive()
    }

    func require() throws -> WebSocketClient { try #require(socket) }

    private func send(_ text: String) async throws { try await send(Array(text.utf8)) }

    private func send(_ message: [UInt8]) async throws {
        try await require().send(message)
        try await onMessage()
    }

    private func nextMessage() async throws -> SyncMessage {
        let message = try await require().message()
        if message.kind == "pong" { heard = reported }
        if !["ident", "mark", "unbound", "pong"].contains(message.kind) { try take(message) }
        try await onMessage()
        return message
    }

    private func next(_ kind: String) async throws -> [UInt64] {
        let message = try await nextMessage()
        try #require(
            message.kind == kind, "\(message) in place of \(kind): \(String(decoding: message.body, as: UTF8.self))")
        return message.numbers
    }

    // MARK: Downloads

    private func take(_ message: SyncMessage) throws {
        let text = message.kind == "json_error" ? String(decoding: message.body, as: UTF8.self) : ""
        let received = try #require(ReceivedDownload(message), "\(message) \(text)")
        #expect(message.numbers[0] == session)
        check(received)
        self.received += received.entries
        download = received.progress.cursor
        latest = received.progress.latest
        acknowledged = received.progress.upload
        version += 1  // the commit that keeps the progress
    }

    private func check(_ received: ReceivedDownload) {
        let header = received.progress, end = header.cursor
        #expect(header.latest.version >= latest.version)
        #expect((header.latest.version == 0) == (header.latest.salt == 0))
        #expect(header.upload.clientVersion >= acknowledged.clientVersion)
        #expect(header.upload.clientVersion <= version)
        #expect(end.serverVersion >= download.serverVersion && end.serverVersion <= header.latest.version)
        #expect(end.clientVersion >= download.clientVersion)
        #expect(end.clientVersion <= header.upload.clientVersion)
        #expect(end.serverVersion >= header.upload.serverVersion)
        #expect((header.downloadableBytes == 0) || !header.isComplete)
        var previous = download
        for entry in received.entries {
            let cursor = entry.cursor
            #expect(cursor.serverVersion > previous.serverVersion && cursor.serverVersion <= end.serverVersion)
            #expect(cursor.clientVersion >= previous.clientVersion && cursor.clientVersion <= end.clientVersion)
            #expect(entry.tag.ident > 0 && entry.tag.ident != ident)
            previous = cursor
        }
    }
}

extension SyncClient {
    /// The claims of `Spec/History.md`, section 13, about a client that has received everything.
    func checkInvariants(_ log: [LogEntry]) {
        let own = log.filter { $0.origin == ident }, base = log.first.map { $0.version - 1 } ?? 0
        // What the log does not have any more was there once.
        let (gone, rest) = (changes.dropLast(own.count), changes.suffix(own.count))
        #expect(own.map(\.clientVersion) == rest.map(\.cursor.clientVersion))
        #expect(own.map(\.timestamp) == rest.map(\.timestamp))
        #expect(base > 0 || gone.isEmpty)
        var clientVersion = gone.last?.cursor.clientVersion ?? 0
        var expected: [DownloadedChangeset] = []
        for entry in log {
            if entry.origin == ident {
                clientVersion = entry.clientVersion
            } else if !entry.changeset.isEmpty {
                expected.append(
                    DownloadedChangeset(
                        cursor: DownloadCursor(serverVersion: entry.version, clientVersion: clientVersion),
                        tag: entry.tag, changeset: entry.changeset))
            }
        }
        #expect(received.filter { $0.cursor.serverVersion > base } == expected)
        #expect(download.serverVersion == log.last?.version)
        #expect(download.clientVersion == clientVersion)
    }
}
