import AnabranchCore
import AnabranchProtocol
import Synchronization

@testable import AnabranchClient

/// A server without a socket, for which a test speaks: it answers each message at once. Where the test says nothing, it
/// answers as a server does that has no data, and confirms what is uploaded.
final class SpokenServer: Transport {
    enum Reply: Sendable {
        case say(ServerMessage)
        case close(Int)
    }

    /// - Parameter connection: from 1.
    /// - Returns: nil for what a server answers.
    typealias Answer = @Sendable (_ message: ClientMessage, _ connection: Int) -> [Reply]?

    private let answer: Answer
    private let state = Mutex(State())

    struct State {
        var connections = 0
        var lastIdent: ClientFileID = 1
        var version: ServerVersion = 1
        /// Ended by an error. What their clients say before they hear of it is passed over.
        var failed: Set<SessionID> = []
        /// The messages of clients, with the number of the connection.
        var heard: [(connection: Int, message: ClientMessage)] = []
    }

    init(_ answer: @escaping Answer = { _, _ in nil }) { self.answer = answer }

    var heard: [(connection: Int, message: ClientMessage)] { state.withLock { $0.heard } }

    func connect(_ request: WebSocketRequest) async throws -> any TransportConnection {
        let number = state.withLock { state in
            state.connections += 1
            return state.connections
        }
        return Connection(self, number)
    }

    private func answers(to message: ClientMessage, on connection: Int) -> [Reply] {
        let hasFailed = state.withLock { state in
            state.heard.append((connection, message))
            if case .unbind(let session) = message { return state.failed.remove(session) != nil }
            return message.session.map { state.failed.contains($0) } ?? false
        }
        if hasFailed { return [] }
        let replies = answer(message, connection) ?? state.withLock { $0.honest(message) }.map { .say($0) }
        for case .say(.error(let session, _)) in replies { state.withLock { _ = $0.failed.insert(session) } }
        return replies
    }

    private final class Connection: TransportConnection {
        let chosenProtocol = "com.mongodb.realm-sync#14"
        private let server: SpokenServer
        private let number: Int
        private let incoming: AsyncThrowingStream<[UInt8], any Error>
        private let outgoing: AsyncThrowingStream<[UInt8], any Error>.Continuation

        init(_ server: SpokenServer, _ number: Int) {
            (self.server, self.number) = (server, number)
            (incoming, outgoing) = AsyncThrowingStream.makeStream()
        }

        func send(_ message: [UInt8]) async throws {
            for reply in server.answers(to: try ClientMessageCodec().decode(message), on: number) {
                switch reply {
                case .say(let message): outgoing.yield(ServerMessageCodec().encode(message).bytes)
                case .close(let code): outgoing.finish(throwing: TransportError(.closed(code: code), "closed"))
                }
            }
        }

        func receive() async throws -> [UInt8] {
            for try await message in incoming { return message }
            throw TransportError(.disconnected, "closed here")
        }

        func close() async { outgoing.finish() }
    }
}

extension SpokenServer.State {
    /// The answer of a server without data.
    mutating func honest(_ message: ClientMessage) -> [ServerMessage] {
        switch message {
        case .bind(let session, let request):
            guard request.needsFileIdent else { return [] }
            lastIdent += 1
            return [.ident(session: session, SaltedFileID(ident: lastIdent, salt: 7))]
        case .upload(let session, let upload):
            version += 1
            let progress = DownloadProgress(
                cursor: DownloadCursor(serverVersion: version, clientVersion: upload.progress.clientVersion),
                latest: SaltedVersion(version: version, salt: 7), upload: upload.progress, downloadableBytes: 0)
            return [.download(session: session, DownloadMessage(Download(progress: progress)))]
        case .mark(let session, let request): return [.mark(session: session, request: request)]
        case .unbind(let session): return [.unbound(session: session)]
        case .ping(let timestamp, _): return [.pong(timestamp: timestamp)]
        case .ident, .query, .error, .testCommand: return []
        }
    }
}

extension ClientMessage {
    fileprivate var session: SessionID? {
        switch self {
        case .bind(let session, _), .ident(let session, _), .query(let session, _), .upload(let session, _),
            .mark(let session, _), .unbind(let session), .error(let session, _, _), .testCommand(let session, _, _):
            session
        case .ping: nil
        }
    }
}
