import AnabranchCore
import AnabranchTesting
import Foundation
import Testing

@testable import AnabranchProtocol

/// Whatever a server says, in any order, and whatever the application does meanwhile: nothing traps, and what comes of
/// it is what the table of `Spec/Protocol.md`, section 8.2, allows. The table stands in `SessionTable`, which knows
/// what was sent to and fro, and nothing of the machine.
@Suite struct ClientSequenceTests {
    /// Longer sequences: `ANABRANCH_SEQUENCE_LENGTH=5 swift test --filter ClientSequenceTests`.
    static let length = ProcessInfo.processInfo.environment["ANABRANCH_SEQUENCE_LENGTH"].flatMap { Int($0) } ?? 4

    @Test(arguments: SyncMode.allCases, ClientWorld.Start.allCases)
    func everySequenceOfMessages(mode: SyncMode, start: ClientWorld.Start) throws {
        var world = ClientWorld(mode)
        for step in start.steps(mode) { try world.take(step) }
        var count = 0
        try visit(world, Self.length, ClientWorld.Step.all(mode), &count, path: [])
        #expect(count > 10_000)
    }

    /// Goes on in all ways, as long as there is a connection.
    private func visit(
        _ world: ClientWorld, _ depth: Int, _ steps: [ClientWorld.Step], _ count: inout Int, path: [ClientWorld.Step]
    ) throws {
        guard depth > 0 else { return }
        for step in steps {
            var next = world
            count += 1
            do {
                try next.take(step)
            } catch {
                Issue.record("\(path + [step]): \(error)")
                throw error
            }
            if !next.connection.hasFailed { try visit(next, depth - 1, steps, &count, path: path + [step]) }
        }
    }
}

/// Two sessions with their files on one connection, and what the table says of them.
struct ClientWorld {
    enum Step {
        case server(String)
        /// A session says all that it has to say.
        case speak(SessionID)
        case unbind(SessionID)
        case mark(SessionID)
        case resume(SessionID)
        case write(SessionID)
        case reconnect(isFast: Bool)
    }

    /// Where the sequences begin.
    enum Start: CaseIterable {
        case nothing, asked, running, refusing, suspended
    }

    private(set) var connection: ClientConnection
    private let mode: SyncMode
    private var sessions: [SessionID: ClientSession] = [:]
    private var files: [SessionID: MemoryFile] = [:]
    private var tables: [SessionID: SessionTable] = [:]
    private var random = SeededRandom(seed: 1)

    init(_ mode: SyncMode) {
        self.mode = mode
        connection = ClientConnection(ProtocolVersion(14), mode, openedAt: 0, using: &random)
        for session in [1, 2] as [SessionID] {
            sessions[session] = mode == .flexible ? ClientSession(session) : ClientSession(session, partition: [0x78])
            sessions[session]?.connected(ProtocolVersion(14), isFast: session == 2)
            files[session] = MemoryFile(mode, keepsState: false)
            tables[session] = SessionTable()
        }
    }

    mutating func take(_ step: Step) throws {
        switch step {
        case .server(let message): try receive(message)
        case .speak(let session): try speak(session)
        case .unbind(let session):
            sessions[session]?.unbind()
            if sessions[session]?.isFinished == true { tables[session]?.isFinished = true }
        case .mark(let session): _ = sessions[session]?.requestMark()
        case .resume(let session): sessions[session]?.resume()
        case .write(let session): try write(session)
        case .reconnect(let isFast): reconnect(isFast)
        }
    }

    private mutating func write(_ session: SessionID) throws {
        try files[session]?.commit()
        if mode == .flexible { _ = try files[session]?.subscribe("{}") }
    }

    private mutating func reconnect(_ isFast: Bool) {
        connection = ClientConnection(ProtocolVersion(14), mode, openedAt: 0, using: &random)
        for session in sessions.keys {
            sessions[session]?.disconnected()
            guard sessions[session]?.isFinished == false else {
                tables[session] = SessionTable(isFinished: true)
                continue
            }
            sessions[session]?.connected(ProtocolVersion(14), isFast: isFast)
            tables[session] = SessionTable()
        }
    }

    private mutating func speak(_ ident: SessionID) throws {
        guard var session = sessions[ident], var file = files[ident] else { return }
        while let message = try session.next(&file) {
            let bytes = connection.encode(message).bytes
            #expect(throws: Never.self) { try ClientMessageCodec(mode: mode).decode(bytes) }
            try tables[ident]?.sent(message)
        }
        if session.isFinished { tables[ident]?.isFinished = true }
        (sessions[ident], files[ident]) = (session, file)
    }

    private mutating func receive(_ text: String) throws {
        let message = try ServerMessageCodec(mode: mode).decode(bytes(text))
        let verdict = message.sessionIdent.map { tables[$0]?.verdict(on: message) ?? .violation } ?? .allowed
        do throws(ProtocolError) {
            let event = try connection.receive(bytes(text), at: 1, using: &random)
            guard case .session(let ident, let message) = event, var session = sessions[ident],
                var file = files[ident]
            else {
                if case .failed = event { return }
                if case .log = event { return }
                throw ProtocolError(.otherError, "no event for \(text)")
            }
            let answer = try session.receive(message, file)
            do { try check(verdict, answer, message) } catch { throw ProtocolError(.otherError, "\(error)") }
            tables[ident]?.received(message, answer)
            do {
                if let answer { try file.take(answer, of: &session) }
            } catch {
                throw ProtocolError(.otherError, "the file: \(error)")
            }
            if session.isFinished { tables[ident]?.isFinished = true }
            (sessions[ident], files[ident]) = (session, file)
        } catch {
            guard error.code != .otherError, verdict != .ignored else { throw error }
            // What the numbers of a message say may be wrong although its kind is allowed.
            guard verdict == .violation || message.hasNumbers else { throw error }
            connection.fail()
        }
    }

    private func check(_ verdict: SessionTable.Verdict, _ event: ClientSession.Event?, _ message: ServerMessage) throws
    {
        switch (verdict, event) {
        case (.violation, _): throw WrongOutcome("is taken, and is a violation")
        case (.ignored, let event?): throw WrongOutcome("is \(event), and is to be ignored")
        case (.ignored, nil), (.allowed, _): break
        }
    }
}

struct WrongOutcome: Error {
    let description: String
    init(_ description: String) { self.description = description }
}

/// The flags of the table, and its rows.
struct SessionTable {
    enum Verdict { case allowed, ignored, violation }

    /// B, M, I, U and E: BIND sent, ident known, IDENT sent, UNBIND sent, ERROR received.
    private var bind = false, ident = false, identSent = false, unbind = false, error = false
    /// There has been a BIND on this connection.
    private var wasBound = false
    /// A DOWNLOAD was not integrated.
    private var isRefusing = false
    var isFinished = false

    init(isFinished: Bool = false) { self.isFinished = isFinished }

    // MARK: What the client sends

    mutating func sent(_ message: ClientMessage) throws {
        func require(_ isTrue: Bool) throws { if !isTrue { throw WrongOutcome("\(message) in \(self)") } }
        switch message {
        case .bind(_, let request):
            try require(!bind && !isFinished)
            self = SessionTable()
            (bind, wasBound, ident) = (true, true, !request.needsFileIdent)
        case .ident:
            try require(bind && ident && !identSent && !unbind && !error)
            identSent = true
        case .mark, .upload, .query:
            try require(identSent && !unbind && !error && !isRefusing)
        case .error:
            try require(identSent && !unbind && !error && isRefusing)
        case .unbind:
            try require(bind && !unbind)
            unbind = true
            if error { (bind, ident) = (false, false) }
        case .ping, .testCommand: throw WrongOutcome("\(message)")
        }
    }

    // MARK: What the server says

    /// True if a message of this kind may come now.
    func verdict(on message: ServerMessage) -> Verdict {
        guard wasBound else { return .violation }
        if isFinished { return .ignored }
        if case .error(_, let error) = message, error.code == .compensatingWrite {
            return identSent && !unbind && !self.error && !isRefusing ? .allowed : .ignored
        }
        if case .log = message { return .allowed }
        guard bind, !error else { return .violation }
        switch message {
        case .error: return .allowed
        case .unbound: return unbind ? .allowed : .violation
        case _ where unbind: return .ignored
        case .ident: return ident ? .violation : .allowed
        case .download, .mark, .queryError: return !identSent ? .violation : isRefusing ? .ignored : .allowed
        case .pong, .log, .testCommand: return .violation
        }
    }

    mutating func received(_ message: ServerMessage, _ event: ClientSession.Event?) {
        switch (message, event) {
        case (.ident, .ident): ident = true
        case (_, .downloadRefused): isRefusing = true
        case (.error(_, let message), .failed) where message.code != .schemaVersionChanged: error = true
        case (_, .unbound): isFinished = true
        default: break
        }
    }
}

extension ServerMessage {
    /// Nil if it is one of the connection.
    fileprivate var sessionIdent: SessionID? {
        switch self {
        case .pong, .log(session: 0, _), .error(session: 0, _): nil
        case .ident(let session, _), .download(let session, _), .mark(let session, _), .unbound(let session),
            .log(let session, _), .error(let session, _), .queryError(let session, _), .testCommand(let session, _, _):
            session
        }
    }

    /// True if it can be wrong although its kind may come.
    fileprivate var hasNumbers: Bool {
        switch self {
        case .download, .mark, .queryError, .pong: true
        case .error(_, let error): error.code == .compensatingWrite
        case .ident, .unbound, .log, .testCommand: false
        }
    }
}

// MARK: - The steps

extension ClientWorld.Start {
    func steps(_ mode: SyncMode) -> [ClientWorld.Step] {
        let asked: [ClientWorld.Step] = [.speak(1), .speak(2)]
        let running = asked + [.server("ident 1 2 77\n"), .speak(1), .server("mark 1 1\n"), .write(1)]
        switch self {
        case .nothing: return []
        case .asked: return asked
        case .running: return running
        case .refusing:
            // The server version of the upload cursor goes back.
            let flexible = mode == .flexible ? "0 2 1" : "0"
            let downloads = ["3 0 3 5 2 1", "3 0 3 5 2 0", "4 0 4 5 2 2", "4 0 4 5 2 1"].map {
                ClientWorld.Step.server("download 1 \($0) \(flexible) 0 0 0\n")
            }
            return running + [.write(1), .write(1), .speak(1)] + downloads
        case .suspended: return running + [.server(ClientWorld.Step.error(200, 1)), .speak(1)]
        }
    }
}

extension ClientWorld.Step {
    static func error(_ code: Int, _ session: Int) -> String {
        let json =
            #"{"tryAgain":true,"message":"","logURL":"","shouldClientReset":false,"#
            + #""isRecoveryModeDisabled":false,"action":"Transient""#
            + (code == 231
                ? #","rejectedUpdates":[],"rejectedClientVersion":1,"compensatingWriteServerVersion":2"# : "") + "}"
        return "json_error \(code) \(json.utf8.count) \(session)\n\(json)"
    }

    /// All that happens in sequences: for the second session less, as they do not know of each other.
    static func all(_ mode: SyncMode) -> [ClientWorld.Step] {
        var texts = [
            "ident 1 2 77\n", "mark 1 1\n", "mark 1 2\n", "unbound 1\n", error(200, 1), error(231, 1), error(236, 1),
            error(100, 0), "log_message 1 2\n{}", "test_command 1 1 0\n", "pong 5\n", "mark 3 1\n",
            "ident 2 3 77\n", "unbound 2\n", error(201, 2),
        ]
        switch mode {
        case .partition:
            texts += [
                "download 1 0 0 0 0 0 0 0 0 0 0\n", "download 1 2 0 2 5 0 0 0 0 12 0\n2 0 1 3 0 0 ",
                "download 2 0 0 0 0 0 0 0 0 0 0\n",
            ]
        case .flexible:
            texts += [
                "download 1 1 0 1 5 0 0 0 1 1 0 12 0\n1 0 0 1 0 0 ",
                "download 1 2 0 2 5 0 0 1 0 0 0 12 0\n2 0 0 1 0 0 ",
                "download 1 2 0 2 5 0 0 1 1 1 0 12 0\n2 0 0 1 0 0 ", "download 1 3 0 3 5 0 0 0 2 1 0 0 0\n",
                "query_error 226 2 1 1\nno",
            ]
        }
        return texts.map { .server($0) } + [
            .speak(1), .speak(2), .unbind(1), .mark(1), .resume(1), .write(1), .reconnect(isFast: true),
        ]
    }
}
