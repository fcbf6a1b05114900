import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import AnabranchTesting
import Testing

@testable import AnabranchServer

/// The recorded messages of real clients of Barq, in flexible sync, are accepted from the first frame to the last.
@Suite(.timeLimit(.minutes(30))) struct ForkTranscriptTests {
    /// - Parameter name: of a conversation with an earlier build of this server, or with Barq's own.
    @Test(arguments: ["barq-flexible", "barq-flexible-own-server"]) func subscribersAreServed(_ name: String)
        async throws
    {
        let store = InMemoryStore()
        try await ForkRig.run(store: store, flexible: true) { rig async throws in
            var clients: [Int: Recorded] = [:]
            for line in try Transcript(name).lines {
                if line.kind == "http", line.isFromClient {
                    let offer = line.httpHead.first { $0.hasPrefix("Sec-WebSocket-Protocol: ") }
                    let prefix = try #require(offer?.split(separator: " ")[1].split(separator: "#")[0])
                    let socket = try await rig.open(try rig.token(), prefix: String(prefix))
                    clients[line.connection] = Recorded(socket)
                } else if line.kind == "binary", let client = clients[line.connection] {
                    if line.isFromClient {
                        try await client.send(line.message)
                    } else {
                        if line.message.kind == "download" { for other in clients.values { try await other.settle() } }
                        try await client.await(line.message)
                    }
                }
            }
            // The third connection of a conversation only offers the wrong kind of sync.
            for client in clients.values where client.isBound {
                #expect(client.marks > 3)
                #expect(client.foreignChangesets > 0)
            }
        }
        let file = try store.open(VirtualPath(app: "shop"))
        let entries = try store.read(file.id) { view throws(HistoryError) in
            try view.entries(
                in: VersionRange(after: 0, through: file.head.version), excludingOrigin: nil, byteBudget: .max)
        }
        #expect(Set(entries.map(\.origin)).isSuperset(of: [2, 3]))
    }
}

extension ClientMessage {
    fileprivate var upload: (session: SessionID, message: UploadMessage)? {
        if case .upload(let session, let message) = self { (session, message) } else { nil }
    }
}

/// A client that says what a recorded one has said. Salts and versions are a server's own: where the recorded client
/// names those of its server, this one names those that it has been sent by ours at the same place.
private final class Recorded {
    private let socket: WebSocketClient
    private var salts: [String: String] = [:]
    /// Ours, by those of the recorded server.
    private var versions: [ServerVersion: ServerVersion] = [0: 0]
    private var newest: ServerVersion = 0
    /// The MARK that is not answered yet.
    private var mark: String?
    private(set) var isBound = false
    /// Recorded ones that were answered.
    private(set) var marks = 0
    private(set) var foreignChangesets = 0

    init(_ socket: WebSocketClient) { self.socket = socket }

    func send(_ recorded: SyncMessage) async throws {
        switch recorded.kind {
        case "ident":
            var message = recorded
            message.words = message.words.map { salts[$0] ?? $0 }
            try await socket.send(message.bytes)
            isBound = true
        case "upload":
            try await socket.send(upload(recorded))
        case "mark":
            mark = recorded.words[2]
            try await socket.send(recorded.bytes)
        default:
            try await socket.send(recorded.bytes)
        }
    }

    private func upload(_ recorded: SyncMessage) throws -> [UInt8] {
        let decoded = try ClientMessageCodec().decode(recorded.bytes)
        let (session, message) = try #require(decoded.upload)
        var upload = message.upload
        upload.progress.serverVersion = try translate(upload.progress.serverVersion)
        upload.lockedVersion = try translate(upload.lockedVersion)
        for index in upload.changesets.indices {
            upload.changesets[index].cursor.serverVersion =
                try translate(upload.changesets[index].cursor.serverVersion)
        }
        return ClientMessageCodec().encode(.upload(session: session, UploadMessage(upload))).bytes
    }

    private func translate(_ version: ServerVersion) throws -> ServerVersion {
        try #require(versions[version], "the recorded client was never sent version \(version)")
    }

    /// Waits for what answers the same as a recorded message.
    func await(_ recorded: SyncMessage) async throws {
        switch recorded.kind {
        case "ident":
            let ident = try await socket.message()
            #expect(ident.words.prefix(3) == recorded.words.prefix(3))
            salts[recorded.words[3]] = ident.words[3]
        case "download":
            try await settle()
            versions[ServerVersion(recorded.numbers[1])] = newest
        case "mark":
            if mark == recorded.words[2] { try await settle() }
            marks += 1
        case "json_error" where recorded.words[1] == "113":
            #expect(try await socket.message().words.prefix(2) == recorded.words.prefix(2))
        default: break
        }
    }

    /// Takes all that there is for the client.
    func settle() async throws {
        guard isBound else { return }
        if mark == nil {
            mark = "1000"
            try await socket.send("mark 1 1000\n")
        }
        while let mark {
            let message = try await socket.message()
            switch message.kind {
            case "download":
                newest = ServerVersion(message.numbers[1])
                if message.numbers[9] > 0 { foreignChangesets += 1 }
            case "mark":
                #expect(message.words[2] == mark)
                self.mark = nil
            default:
                Issue.record("\(message) in place of mark \(mark): \(String(decoding: message.body, as: UTF8.self))")
                self.mark = nil
            }
        }
    }
}
