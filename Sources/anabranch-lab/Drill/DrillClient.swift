import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import AnabranchTesting
import NIOCore

/// A client with a state, which merges what it is given into it and checks what a real client checks
/// (`Spec/Protocol.md`, section 5.2).
actor DrillClient {
    /// What a real client would close its session for, without a word to its user.
    struct Violation: Error, CustomStringConvertible {
        let description: String
    }

    let partition: String
    private let eventLoop: any EventLoop
    private var random: SeededRandom

    // What a client keeps on its disk.
    private var memory: MemoryClient?
    private var progress: DownloadProgress?
    private var lastTimestamp: ChangesetTime = 0

    // The session.
    private var connection: LoadConnection?
    private var inbox: SessionInbox?
    private var session: SessionID = 0
    private var lastRequest: UInt64 = 0
    /// Connections that the server has closed without a word.
    private var lossCount = 0

    /// How often it comes before it gives up.
    private static let attemptsMax = 20

    init(of partition: String, seed: UInt64, on eventLoop: any EventLoop) {
        self.partition = partition
        self.eventLoop = eventLoop
        random = SeededRandom(scrambling: seed)
    }

    var isThere: Bool { connection != nil }
    var hasFile: Bool { memory != nil }

    /// How far it has come, for people.
    var place: String {
        guard let memory else { return "a client without a file ident" }
        return "client file \(memory.ident), at version \(memory.download.serverVersion) of "
            + "\(progress?.latest.version ?? 0)"
    }

    // MARK: Sessions

    /// Reads until it has everything that there is. If the connection is lost, it comes again, as real clients do: a
    /// server that sees the client's former connection later than its new one closes the new one.
    /// - Parameter isFinishing: whether everything of its own has to be acknowledged, too.
    func join(at target: LoadTarget, isFinishing: Bool = false) async throws {
        for attempt in 1... {
            do {
                if !isThere { try await come(to: target) }
                if isFinishing {
                    try await upload()
                    while let memory, !memory.isAcknowledged { _ = try await next() }
                }
                return try await catchUp()
            } catch let error as LoadError where error.told == nil && attempt < Self.attemptsMax {
                await leave()
            }
        }
    }

    /// Connects and begins a session; what was not acknowledged is uploaded again.
    private func come(to target: LoadTarget) async throws {
        let connection = try await LoadConnection.opened(to: target, on: eventLoop)
        let inbox = SessionInbox(on: eventLoop)
        session = try await connection.begin(inbox)
        (self.connection, self.inbox) = (connection, inbox)
        let name = Array("\"\(partition)\"".utf8)
        await send(.bind(session: session, BindRequest(partition: name, needsFileIdent: memory == nil)))
        if memory == nil {
            guard case .ident(_, let file) = try await next() else { throw Violation(description: "no IDENT comes") }
            memory = MemoryClient(file)
        }
        memory?.startSession()
        guard let request = memory?.identRequest else { return }
        await send(.ident(session: session, request))
        try await upload()
    }

    /// The connection is gone, as after a loss of the network.
    func leave() async {
        let connection = self.connection
        (self.connection, inbox) = (nil, nil)
        await connection?.close()
    }

    /// Throws away its file, as a client that was told to reset.
    func reset() async {
        await leave()
        (memory, progress) = (nil, nil)
    }

    // MARK: Work

    /// Does one thing that clients do.
    func work(at target: LoadTarget, writes: Bool) async throws {
        do {
            try await step(at: target, writes: writes)
        } catch let error as LoadError where error.told == nil && lossCount < Self.attemptsMax {
            lossCount += 1
            await leave()
        }
    }

    private func step(at target: LoadTarget, writes: Bool) async throws {
        if !isThere {
            if random.below(3) > 0 { return try await come(to: target) }
            return writes ? try write() : ()
        }
        switch random.below(10) {
        case 0: await leave()
        case 1 where writes: try write()
        case 2...6 where writes:
            for _ in 0...random.below(3) { try write() }
            try await upload()
        default: try await catchUp()
        }
    }

    /// A local transaction, on or off line.
    func write() throws {
        lastTimestamp = max(LoadClient.now, lastTimestamp + 1)
        var random = self.random
        try memory?.write(at: lastTimestamp) { try Self.edit($0, &random) }
        self.random = random
    }

    private static func edit(_ transaction: WriteTransaction, _ random: inout SeededRandom) throws {
        try transaction.addClass("Note", key: "_id", .int)
        try transaction.addColumn("title", .string, to: "Note")
        try transaction.addColumn("count", .int, to: "Note")
        try transaction.addColumn("tags", .string, collection: .list, to: "Note")
        let key = PrimaryKey.int(Int64(random.below(8))), text = Payload.string(Array("\(random.below(1000))".utf8))
        guard let note = try transaction.object("Note", key: key) else {
            try transaction.create("Note", key: key, ["title": text])
            return
        }
        let tags = try note.list("tags"), count = try tags.count
        switch random.below(10) {
        case 0: try transaction.delete(note)
        case 1...3: try note.set("title", to: text)
        case 4...5: try note.add(1, to: "count")
        case 6 where count > 0: try tags.remove(at: random.below(count))
        default: try tags.insert(text, at: random.below(count + 1))
        }
    }

    /// Uploads what is new; without a change, how far the client has come.
    private func upload() async throws {
        guard let upload = memory?.nextUpload() else { return }
        await send(.upload(session: session, UploadMessage(upload)))
    }

    private func catchUp() async throws {
        lastRequest += 1
        await send(.mark(session: session, request: lastRequest))
        while true {
            if case .mark(_, let request) = try await next(), request == lastRequest { return }
        }
    }

    func digest() throws -> StateDigest { try StateDigest(of: memory?.state ?? ObjectGraph()) }

    // MARK: Messages

    private func send(_ message: ClientMessage) async { await connection?.send(message) }

    private func next() async throws -> ServerMessage {
        guard let inbox else { throw LoadError("the client has left") }
        let message = try await inbox.next()
        if case .download(_, let message) = message { try await take(message.download) }
        return message
    }

    private func take(_ download: Download) async throws {
        guard var memory else { return }
        if let words = Self.violation(of: download, memory, after: progress ?? Self.nothing) {
            throw Violation(description: "\(words) (\(place))")
        }
        do {
            try memory.integrate(download)
        } catch {
            throw Violation(description: "what was downloaded cannot be merged: \(error) (\(place))")
        }
        self.memory = memory
        progress = download.progress
        if !download.changesets.isEmpty { try await upload() }
    }

    private static let nothing = DownloadProgress(
        cursor: DownloadCursor(), latest: SaltedVersion(), upload: UploadCursor(), downloadableBytes: 0)

    /// - Returns: which of the checks fails; nil if none does.
    private static func violation(
        of download: Download, _ client: MemoryClient, after old: DownloadProgress
    ) -> String? {
        let new = download.progress, end = new.cursor
        guard new.latest.version >= old.latest.version else { return "the newest version goes back" }
        guard new.upload.clientVersion >= old.upload.clientVersion else { return "the upload cursor goes back" }
        guard new.upload.clientVersion <= client.version else { return "a version is acknowledged that never was" }
        guard end.serverVersion >= old.cursor.serverVersion, end.serverVersion <= new.latest.version,
            end.clientVersion >= old.cursor.clientVersion, end.clientVersion <= new.upload.clientVersion
        else { return "the download cursor is out of its bounds" }
        guard end.serverVersion >= new.upload.serverVersion,
            new.upload.serverVersion == 0 || new.upload.serverVersion >= old.upload.serverVersion
        else { return "the server version of the upload cursor is out of its bounds" }
        var last = old.cursor
        for changeset in download.changesets {
            let cursor = changeset.cursor
            guard cursor.serverVersion > last.serverVersion, cursor.serverVersion <= end.serverVersion,
                cursor.clientVersion >= last.clientVersion, cursor.clientVersion <= end.clientVersion
            else { return "the cursor of a changeset is out of its bounds" }
            guard changeset.tag.ident > 0, changeset.tag.ident != client.ident else {
                return "a changeset of the client itself comes back"
            }
            last = cursor
        }
        return nil
    }
}
