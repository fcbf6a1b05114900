import AnabranchCore
import Foundation
import Testing

@testable import AnabranchProtocol

/// Whatever a client says, in any order, to a server that answers at once, late, or with refusals: nothing traps, and
/// what comes of it is what the table of `Spec/Protocol.md`, section 8.3, allows. The table stands in `ServerTable`,
/// which knows what was said by both, and nothing of the machine.
@Suite struct ServerSequenceTests {
    /// Longer sequences: `ANABRANCH_SEQUENCE_LENGTH=5 swift test --filter ServerSequenceTests`.
    private static let length =
        ProcessInfo.processInfo.environment["ANABRANCH_SEQUENCE_LENGTH"].flatMap { Int($0) } ?? 4

    @Test(arguments: SyncMode.allCases, ServerWorld.Start.allCases)
    func everySequenceOfMessages(mode: SyncMode, start: ServerWorld.Start) throws {
        var count = 0
        for server in ServerWorld.Server.allCases {
            // All know the same table, and one is enough for the longest.
            let depth = server == .prompt ? Self.length : Self.length - 1
            try visit(mode, server, start.steps(mode), ServerWorld.steps(mode), depth: depth, &count)
        }
        #expect(count > 3_000)
        print("ServerSequenceTests: \(count) sequences of \(mode) from \(start)")
    }

    /// Goes on in all ways, as long as there is a connection, which is begun anew for each.
    private func visit(
        _ mode: SyncMode, _ server: ServerWorld.Server, _ path: [[UInt8]], _ steps: [[UInt8]], depth: Int,
        _ count: inout Int
    ) throws {
        guard depth > 0 else { return }
        for step in steps {
            count += 1
            let path = path + [step]
            if try goesOn(mode, server, path) { try visit(mode, server, path, steps, depth: depth - 1, &count) }
        }
    }

    /// - Returns: whether the connection is still there in the end.
    private func goesOn(_ mode: SyncMode, _ server: ServerWorld.Server, _ path: [[UInt8]]) throws -> Bool {
        do {
            let world = try ServerWorld(mode, server)
            for step in path { try world.receive(step) }
            let goesOn = !world.hasFailed
            try world.finish()
            return goesOn
        } catch let error as WrongOutcome {
            Issue.record("\(server), \(path.map(text)): \(error.description)")
            throw error
        }
    }
}

/// Two sessions on one connection, a server behind them, and what the table says.
final class ServerWorld {
    enum Server: CaseIterable {
        case prompt
        /// The request of one message is answered after the next one.
        case behind
        /// Refuses the first session's IDENTs, UPLOADs and QUERYs.
        case refusing
        /// The socket takes nothing before the end.
        case clogged
    }

    /// Where the sequences begin.
    enum Start: CaseIterable {
        case nothing, bound, running, failed
    }

    private let mode: SyncMode
    private let server: Server
    private var connection: ServerConnection
    private var tables: [SessionID: ServerTable] = [1: ServerTable(), 2: ServerTable()]
    private var requests: [(handle: SessionHandle, request: SessionRequest)] = []
    /// The handle of each session that there is.
    private var handles: [SessionID: SessionHandle] = [:]
    private var pings = 0
    private var version: ServerVersion = 3
    private(set) var hasFailed = false

    init(_ mode: SyncMode, _ server: Server) throws {
        (self.mode, self.server) = (mode, server)
        let offer = mode == .flexible ? "com.mongodb.realm-query-sync#14" : "com.mongodb.realm-sync#14"
        connection = ServerConnection(try Negotiation(offer: offer, accepting: [mode]))
    }

    func receive(_ bytes: [UInt8]) throws {
        let due = requests
        requests = []
        let (expected, session) = expectation(of: bytes)
        try check(connection.receive(bytes), is: expected, for: session)
        if hasFailed { return try sayLastWords(expected) }
        if server != .behind {
            requests += due
            try answerAll()
        } else {
            for (handle, request) in due { try answer(request, for: handle) }
        }
        if server != .clogged { try send() }
    }

    // MARK: What the client says

    private func expectation(of bytes: [UInt8]) -> (ServerTable.Expected, SessionID?) {
        let tables = tables
        do throws(ProtocolError) {
            let message = try ClientMessageCodec(mode: mode).decode(bytes) { tables[$0]?.hasFailed == true }
            guard let session = message.session else {
                pings += 1
                return (.nothing, nil)
            }
            return (self.tables[session, default: ServerTable()].receive(message), session)
        } catch {
            return (.violation(error.code), nil)
        }
    }

    private func check(_ action: ServerConnection.Action?, is expected: ServerTable.Expected, for session: SessionID?)
        throws
    {
        func require(_ isTrue: Bool) throws {
            if !isTrue { throw WrongOutcome("\(String(describing: action)) instead of \(expected)") }
        }
        switch action {
        case nil: try require(expected == .nothing)
        case .connectionFailed(let error):
            try require(expected == .violation(error.code))
            hasFailed = true
        case .clientFailed(let handle, _, _, let answer):
            try require(expected == .clientFailed(isAnswered: answer != nil) && handle.ident == session)
        case .ask(let handle, let request):
            try require(handle.ident == session)
            switch request {
            case .open:
                handles[handle.ident] = handle
                try require(expected == .open)
            case .identify: try require(expected == .identify)
            case .query: try require(expected == .query)
            case .integrate: try require(expected == .integrate)
            case .close: try require(expected == .close)
            case .scan, .scanBootstrap, .clientVersion, .newestVersion: try require(false)
            }
            try require(handle == handles[handle.ident])
            requests.append((handle, request))
        }
    }

    /// Nothing is said after them, and nothing is heard.
    private func sayLastWords(_ expected: ServerTable.Expected) throws {
        guard case .lastMessage(let last) = connection.next(),
            case .error(session: 0, let error) = try ServerMessageCodec(mode: mode).decode(last.bytes),
            expected == .violation(error.code)
        else { throw WrongOutcome("no last message") }
        try silence()
    }

    private func silence() throws {
        guard connection.next() == nil, connection.receive(bytes("ping 1 0\n")) == nil, connection.next() == nil,
            connection.sessionCount == 0
        else { throw WrongOutcome("there is life after the end") }
    }

    // MARK: What the server behind the sessions says

    private func answerAll() throws {
        while !requests.isEmpty {
            let (handle, request) = requests.removeFirst()
            try answer(request, for: handle)
        }
    }

    private func answer(_ request: SessionRequest, for handle: SessionHandle) throws {
        let session = handle.ident, isRefused = server == .refusing && session == 1
        // An answer for a session that is over is none for its successor.
        func tell(_ event: SessionEvent, _ note: (inout ServerTable) -> Void) {
            connection.receive(event, for: handle)
            if handles[session] == handle { note(&tables[session, default: ServerTable()]) }
        }
        switch request {
        case .open(let bind):
            guard bind.needsFileIdent else { return }
            tell(.fileIdentAllocated(SaltedFileID(ident: 2, salt: 77))) { $0.identAllocated() }
        case .identify where isRefused:
            tell(.failed(ErrorMessage(.badClientFileIdent))) { $0.fail(.badClientFileIdent) }
        case .identify:
            tell(.identAccepted(DownloadCursor(), exposedVersion: version)) { $0.accepted() }
        case .query(let set) where isRefused:
            tell(.queryRefused(QueryRefusal(version: set.version, message: "no"))) { $0.refuse(set.version) }
        case .query: expose()
        case .integrate where isRefused: tell(.failed(ErrorMessage(.badChangeset))) { $0.fail(.badChangeset) }
        case .integrate(let upload): if upload.changesetCount > 0 { expose() }
        case .scan(let cursor):
            guard mode == .flexible else { return tell(.download(progress(at: version), .empty)) { $0.downloadMade() } }
            let query = tables[session]?.openQuery
            tell(.flexibleDownload(download(of: query, after: cursor))) { $0.downloadMade() }
        case .scanBootstrap: throw WrongOutcome("there is no bootstrap of several parts")
        case .clientVersion, .newestVersion, .close: break
        }
    }

    /// All sessions are told.
    private func expose() {
        version += 1
        for handle in handles.values { connection.receive(.versionExposed(version), for: handle) }
    }

    private func progress(at version: ServerVersion) -> DownloadProgress {
        DownloadProgress(
            cursor: DownloadCursor(serverVersion: version), latest: SaltedVersion(version: self.version, salt: 5),
            upload: UploadCursor(), downloadableBytes: 0)
    }

    private func download(of query: QueryVersion?, after cursor: DownloadCursor) -> FlexibleDownload {
        guard let query else { return FlexibleDownload(progress: progress(at: version), body: .empty) }
        let end = DownloadCursor(serverVersion: version)
        let changeset = DownloadedChangeset(cursor: end, tag: OriginTag(timestamp: 0, ident: 1), changeset: [])
        return FlexibleDownload(
            progress: progress(at: version), body: EncodedBody([changeset]), kind: .bootstrap(query, isLast: true))
    }

    // MARK: What is sent

    private func send() throws {
        while let output = connection.next() {
            switch output {
            case .ask(let handle, let request):
                guard case .scan = request, tables[handle.ident]?.mayScan == true else {
                    throw WrongOutcome("asks \(request)")
                }
                requests.append((handle, request))
                if server != .behind { try answerAll() }
            case .message(let message): try sent(try ServerMessageCodec(mode: mode).decode(message.bytes))
            case .lastMessage, .close: throw WrongOutcome("ends the connection")
            }
        }
    }

    private func sent(_ message: ServerMessage) throws {
        guard let session = message.sessionOfServer else {
            guard case .pong = message, pings > 0 else { throw WrongOutcome("says \(message)") }
            // Of several the newest is answered.
            pings = 0
            return
        }
        try tables[session, default: ServerTable()].sent(message)
    }

    /// Requests are answered.
    func finish() throws {
        if hasFailed { return try silence() }
        repeat {
            try answerAll()
            try send()
        } while !requests.isEmpty
        for table in tables.values { try table.checkIsSettled() }
        let count = tables.values.count(where: \.isThere)
        guard connection.sessionCount == count, pings == 0 else {
            throw WrongOutcome("\(connection.sessionCount) sessions instead of \(count), \(pings) pings")
        }
    }
}

// MARK: - The steps

extension ServerWorld.Start {
    func steps(_ mode: SyncMode) -> [[UInt8]] {
        let ident = ServerWorld.ident(1, mode)
        return switch self {
        case .nothing: []
        case .bound: [ServerWorld.bind(1, mode, needsIdent: true)]
        case .running:
            [
                ServerWorld.bind(1, mode), ident, bytes("mark 1 1\n"), ServerWorld.bind(2, mode),
                ServerWorld.ident(2, mode),
            ]
        case .failed: [ServerWorld.bind(1, mode), ident, bytes("json_error 101 2 1\n{}")]
        }
    }
}

extension ServerWorld {
    fileprivate static func bind(_ session: Int, _ mode: SyncMode, needsIdent: Bool = false) -> [UInt8] {
        let data = mode == .flexible ? "{}" : "\"\""
        return bytes("bind \(session) 2 0 \(needsIdent ? 1 : 0) 0\n\(data)")
    }

    fileprivate static func ident(_ session: Int, _ mode: SyncMode) -> [UInt8] {
        bytes("ident \(session) \(session + 1) 77 0 0 0 0" + (mode == .flexible ? " 0 2\n{}" : "\n"))
    }

    /// All that a client says in sequences: for the second session less, as they do not know of each other.
    fileprivate static func steps(_ mode: SyncMode) -> [[UInt8]] {
        let body = uploadBody([(1, 0, 5, 0, [0])])
        var steps = [
            bind(1, mode), bind(1, mode, needsIdent: true), ident(1, mode), bytes("upload 1 0 0 0 1 0 0\n"),
            bytes("upload 1 0 \(body.count) 0 1 0 0\n") + body, compressedUpload(bytes("zzz"), inflatingTo: 10),
            bytes("mark 1 7\n"), bytes("unbind 1\n"), bytes("json_error 212 2 1\n{}"), bytes("json_error 101 2 1\n{}"),
            bytes("ping 5 0\n"), bytes("unknown 1\n"), bind(2, mode), ident(2, mode),
            bytes("upload 2 0 0 0 1 0 0\n"), bytes("mark 2 8\n"), bytes("unbind 2\n"),
        ]
        if mode == .flexible {
            steps += ["query 1 1 2\n{}", "query 1 2 2\n{}", "test_command 1 5 2\n{}"].map(bytes)
        }
        return steps
    }
}

extension ClientMessage {
    /// Nil for PING.
    fileprivate var session: SessionID? {
        switch self {
        case .ping: nil
        case .bind(let session, _), .ident(let session, _), .query(let session, _), .upload(let session, _),
            .mark(let session, _), .unbind(let session), .error(let session, _, _), .testCommand(let session, _, _):
            session
        }
    }
}

extension ServerMessage {
    /// Nil if it is one of the connection.
    fileprivate var sessionOfServer: SessionID? {
        switch self {
        case .pong, .log(session: 0, _), .error(session: 0, _): nil
        case .ident(let session, _), .download(let session, _), .mark(let session, _), .unbound(let session),
            .log(let session, _), .error(let session, _), .queryError(let session, _), .testCommand(let session, _, _):
            session
        }
    }
}
