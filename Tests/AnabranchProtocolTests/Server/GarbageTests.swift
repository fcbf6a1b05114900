import AnabranchCore
import AnabranchTesting
import Testing

@testable import AnabranchProtocol

/// Nothing that a peer sends may trap, and everything has a defined answer.
@Suite struct GarbageTests {
    private static let violations: Set<ErrorCode> = [
        .connectionClosed, .unknownMessage, .badSyntax, .badSessionIdent, .reuseOfSessionIdent, .badMessageOrder,
        .badDecompression, .badChangesetHeader, .badChangesetSize,
    ]

    /// 100 conversations of 1000 messages each in each mode, with a server that answers late, out of order, or not at
    /// all. A failure names its seed: `swift test --filter GarbageTests` repeats it.
    @Test(arguments: 0..<100 as Range<UInt64>, SyncMode.allCases)
    func aPeerMaySayAnything(seed: UInt64, mode: SyncMode) throws {
        var generator = SeededRandom(seed: seed)
        var limits = Limits()
        limits.sessionsPerConnectionMax = 5
        limits.echoesErrors = seed % 2 == 0
        let prefix = mode == .flexible ? "com.mongodb.realm-query-sync" : "com.mongodb.realm-sync"
        let negotiation = try Negotiation(offer: "\(prefix)#14", accepting: [mode])
        var connection = ServerConnection(negotiation, limits: limits)
        var peer = Peer(mode)
        var server = Server()
        for _ in 0..<1000 {
            let request = connection.receive(peer.message(&generator))
            if let code = request?.violation {
                #expect(Self.violations.contains(code), "seed \(seed)")
                guard case .lastMessage(let message) = connection.next() else {
                    Issue.record("seed \(seed): no last message")
                    return
                }
                #expect(errorCode(text(message.bytes)) == code.rawValue, "seed \(seed)")
                let rest = connection.next()
                #expect(rest == nil, "seed \(seed)")
                connection = ServerConnection(negotiation, limits: limits)
                peer = Peer(mode)
                server.forget()
            } else if let request {
                server.requests.append(request)
            }
            server.doSome(&connection, &generator)
            while Int.random(in: 0..<4, using: &generator) > 0, let output = connection.next() { server.take(output) }
        }
        #expect(server.downloads > 5, "seed \(seed): hardly a conversation")
    }

    @Test func aHundredThousandStrayMessagesAreAllAnswered() {
        var generator = SeededRandom(seed: 4)
        for mode in SyncMode.allCases {
            var peer = Peer(mode), violations = 0
            for _ in 0..<100_000 {
                guard let code = violation(peer.nonsense(&generator), mode: mode) else { continue }
                violations += 1
                #expect(Self.violations.contains(code))
            }
            #expect(violations > 10_000)
        }
    }
}

/// A client that mostly behaves, with sessions that come and go, so that what it does wrong meets every state.
private struct Peer {
    private static let words =
        ["bind", "ident", "upload", "mark", "unbind", "ping", "json_error", "test_command", "query", "download"]
        + ["0", "1", "2", "3", "77", "-1", "9223372036854775807", "9223372036854775808", "18446744073709551616", ""]

    private let isFlexible: Bool
    private var sessions = 0
    private var queries = 0
    private var asking: [Int] = []
    private var bound: [Int] = []
    private var running: [Int] = []

    init(_ mode: SyncMode) { isFlexible = mode == .flexible }

    mutating func message(_ generator: inout SeededRandom) -> [UInt8] {
        Int.random(in: 0..<50, using: &generator) == 0 ? nonsense(&generator) : bytes(sensible(&generator))
    }

    private mutating func sensible(_ generator: inout SeededRandom) -> String {
        switch Int.random(in: 0..<20, using: &generator) {
        case 0...2 where asking.count + bound.count + running.count < 7:
            sessions += 1
            let needsFileIdent = Int.random(in: 0..<4, using: &generator) == 0
            if needsFileIdent { asking.append(sessions) } else { bound.append(sessions) }
            let data = isFlexible ? "{}" : "x"
            return "bind \(sessions) \(data.utf8.count) 0 \(needsFileIdent ? 1 : 0) 0\n\(data)"
        case 3...8 where !bound.isEmpty:
            running.append(bound.removeFirst())
            return "ident \(running[running.count - 1]) 2 77 0 0 0 0\(isFlexible ? " 0 2\n{}" : "\n")"
        case 9:
            if !asking.isEmpty { return "unbind \(asking.removeFirst())\n" }
            if !running.isEmpty { return "unbind \(running.removeFirst())\n" }
            return "ping -4 0\n"
        default:
            guard let session = running.randomElement(using: &generator) else { return "ping 1 1\n" }
            if isFlexible, Int.random(in: 0..<4, using: &generator) == 0 {
                queries += 1
                return "query \(session) \(queries) 2\n{}"
            }
            let said = [
                "upload \(session) 0 14 0 5 0 0\n5 0 9 0 4 abcd", "upload \(session) 0 0 0 5 0 0\n",
                "mark \(session) 7\n", "mark \(session) 8\n", "json_error 9 2 \(session)\n{}",
                "test_command \(session) 1 2\nab",
                "test_command \(session) 1 73\n"
                    + #"{"command":"ECHO_ERROR","args":{"errorCode":229,"errorBody":"{\"a\":1}"}}"#,
            ]
            return said.randomElement(using: &generator) ?? ""
        }
    }

    /// Noise, words in any order, or something sensible with a few wrong bytes.
    mutating func nonsense(_ generator: inout SeededRandom) -> [UInt8] {
        switch Int.random(in: 0..<3, using: &generator) {
        case 0:
            return (0..<Int.random(in: 0...60, using: &generator)).map { _ in .random(in: 0...255, using: &generator) }
        case 1:
            let head = (0..<Int.random(in: 0...11, using: &generator)).map { _ in
                Self.words.randomElement(using: &generator) ?? ""
            }
            return bytes(head.joined(separator: " ") + (Bool.random(using: &generator) ? "\n" : ""))
        default:
            var message = bytes(sensible(&generator))
            for _ in 0..<Int.random(in: 1...3, using: &generator) {
                let place = Int.random(in: 0..<message.count, using: &generator)
                switch Int.random(in: 0..<3, using: &generator) {
                case 0: message[place] = .random(in: 0...255, using: &generator)
                case 1: message.remove(at: place)
                default: message.insert(.random(in: 0x20...0x39, using: &generator), at: place)
                }
            }
            return message
        }
    }
}

/// The requests that a server has not answered yet.
private struct Server {
    var requests: [Action] = []
    private(set) var downloads = 0
    private var scans: [(SessionHandle, DownloadCursor)] = []
    private var query: QueryVersion = 0
    private var running: [SessionHandle] = []

    mutating func take(_ output: Output) {
        switch output {
        case .ask(let handle, .scan(let cursor)), .ask(let handle, .scanBootstrap(_, _, let cursor)):
            scans.append((handle, cursor))
        default: break
        }
    }

    mutating func forget() {
        requests = []
        scans = []
        running = []
    }

    mutating func doSome(_ connection: inout ServerConnection, _ generator: inout SeededRandom) {
        if Bool.random(using: &generator), !requests.isEmpty {
            switch requests.removeFirst() {
            case .ask(let handle, .open(let request)) where request.needsFileIdent:
                connection.receive(.fileIdentAllocated(SaltedFileID(ident: 2, salt: 77)), for: handle)
            case .ask(let handle, .identify(let message, _)):
                connection.receive(.identAccepted(message.download, exposedVersion: 3), for: handle)
                running.append(handle)
            case .ask(let handle, .query(let set)) where Bool.random(using: &generator):
                connection.receive(
                    .queryRefused(QueryRefusal(version: set.version, message: "no")), for: handle)
            case .ask(let handle, .query(let set)):
                query = set.version
                connection.receive(.versionExposed(ServerVersion(set.version.rawValue)), for: handle)
            case .ask(let handle, .integrate) where Int.random(in: 0..<50, using: &generator) == 0:
                connection.receive(.failed(ErrorMessage(.badClientVersion)), for: handle)
            default: break
            }
        }
        if Bool.random(using: &generator), !scans.isEmpty {
            let (handle, cursor) = scans.removeFirst()
            let version = cursor.serverVersion + 1
            let header = DownloadProgress(
                cursor: DownloadCursor(serverVersion: version), latest: SaltedVersion(version: version, salt: 1),
                upload: UploadCursor(), downloadableBytes: 0)
            if query > 0, Int.random(in: 0..<4, using: &generator) == 0 {
                let changeset = DownloadedChangeset(
                    cursor: header.cursor, tag: OriginTag(timestamp: 0, ident: 1), changeset: [])
                let isLast = Bool.random(using: &generator)
                connection.receive(
                    .flexibleDownload(
                        FlexibleDownload(
                            progress: header, body: EncodedBody([changeset]), kind: .bootstrap(query, isLast: isLast))),
                    for: handle)
            } else {
                connection.receive(.download(header, .empty), for: handle)
            }
            downloads += 1
        }
        if Int.random(in: 0..<8, using: &generator) == 0, let handle = running.randomElement(using: &generator) {
            let version = ServerVersion(UInt64.random(in: 0...99, using: &generator))
            connection.receive(.versionExposed(version), for: handle)
        }
    }
}
