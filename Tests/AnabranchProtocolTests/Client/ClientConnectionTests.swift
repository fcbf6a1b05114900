import AnabranchCore
import AnabranchTesting
import Testing

@testable import AnabranchProtocol

@Suite struct ClientConnectionTests {
    private func connection(_ mode: SyncMode = .partition, seed: UInt64 = 1) -> ClientConnection {
        var random = SeededRandom(seed: seed)
        return ClientConnection(ProtocolVersion(14), mode, openedAt: 1000, using: &random)
    }

    // MARK: The handshake

    @Test(arguments: SyncMode.allCases)
    func theOfferIsThatOfTheNewestRelease(mode: SyncMode) throws {
        let handshake = ClientHandshake(mode)
        let name = mode == .flexible ? "com.mongodb.realm-query-sync" : "com.mongodb.realm-sync"
        #expect(handshake.offer.hasPrefix("\(name)#14, \(name)#13, "))
        #expect(handshake.offer.hasSuffix(", \(name)#2"))
        let negotiation = try Negotiation(offer: handshake.offer, accepting: [mode])
        #expect(try handshake.version(chosen: negotiation.element) == ProtocolVersion(14))
        for version in 2...14 {
            #expect(try handshake.version(chosen: "\(name)#\(version)") == ProtocolVersion(version))
        }
        let wrong = [
            nil, "", name, "\(name)#", "\(name)#1", "\(name)#15", "\(name)/7", "\(name)#014", "\(name)#14 ", "#14",
            "\(name)#14, \(name)#13", "\(name == "com.mongodb.realm-sync" ? "com.mongodb.realm-query-sync" : name)",
            String(repeating: "x", count: 100_000),
        ]
        for answer in wrong {
            let error = #expect(throws: ProtocolError.self) { try handshake.version(chosen: answer) }
            #expect(error?.code == .wrongProtocolVersion)
            #expect(error?.reason.utf8.count ?? 0 < 200)
        }
    }

    // MARK: Turns

    @Test func sessionsTakeTurns() {
        var connection = connection()
        for session in [3, 1, 3, 2, 1] as [SessionID] { connection.schedule(session) }
        #expect(connection.next(at: 1000) == .session(3))
        connection.schedule(3)
        let turns = (0..<4).map { _ in connection.next(at: 1000) }
        #expect(turns == [.session(1), .session(2), .session(3), nil])
    }

    @Test func pingComesFirst() {
        var connection = connection()
        connection.schedule(1)
        connection.pingNow(at: 1001)
        guard case .ping(let message) = connection.next(at: 1001) else {
            Issue.record("no PING")
            return
        }
        #expect(text(message.bytes) == "ping 1001 0\n")
        #expect(connection.next(at: 1001) == .session(1))
    }

    // MARK: Messages

    @Test func messagesGoToTheSessionsThatHaveBeen() throws {
        var connection = connection(), random = SeededRandom(seed: 1)
        _ = connection.encode(.bind(session: 4, BindRequest(partition: [1], needsFileIdent: false)))
        let event = try connection.receive(bytes("unbound 4\n"), at: 0, using: &random)
        #expect(event == .session(4, .unbound(session: 4)))
        #expect(try connection.receive(bytes("log_message 0 2\n{}"), at: 0, using: &random) != nil)
        let error = #expect(throws: ProtocolError.self) {
            try connection.receive(bytes("unbound 5\n"), at: 0, using: &random)
        }
        #expect(error?.code == .badSessionIdent)
        #expect(connection.hasFailed)
        #expect(try connection.receive(bytes("rubbish"), at: 0, using: &random) == nil, "it is not read any more")
        connection.schedule(4)
        #expect(connection.next(at: 1_000_000) == nil)
    }

    @Test func anErrorOfTheConnectionEndsIt() throws {
        var connection = connection(), random = SeededRandom(seed: 1)
        let message = ServerMessageCodec().encode(.error(session: 0, ErrorMessage(.connectionClosed, "full"))).bytes
        guard case .failed(let error) = try connection.receive(message, at: 0, using: &random) else {
            Issue.record("no error")
            return
        }
        #expect(error.code == .connectionClosed)
        #expect(connection.hasFailed)
    }

    /// Bytes that are none, or say too much: an error with a reason of a few words.
    @Test(arguments: SyncMode.allCases)
    func aServerMaySendAnyBytes(mode: SyncMode) {
        var random = SeededRandom(seed: 7)
        let messages = [
            "ident 1 2 77\n", "download 1 2 0 2 5 0 0 0 0 12 0\n2 0 1 3 0 0 ", "mark 1 1\n", "unbound 1\n", "pong 4\n",
            "download 1 2 0 2 5 0 0 1 1 1 0 12 0\n2 0 0 1 0 0 ", "log_message 0 2\n{}", "query_error 226 2 1 1\nno",
            ClientWorld.Step.error(231, 1), ClientWorld.Step.error(100, 0), "error 209 2 0 1\nno", "state 1\n",
        ]
        for _ in 0..<100_000 {
            var connection = connection(mode)
            _ = connection.encode(.bind(session: 1, BindRequest(partition: [1], needsFileIdent: false)))
            var message = bytes(messages.randomElement(using: &random) ?? "")
            for _ in 0..<Int.random(in: 0...3, using: &random) where !message.isEmpty {
                let place = Int.random(in: 0..<message.count, using: &random)
                switch Int.random(in: 0..<3, using: &random) {
                case 0: message[place] = .random(in: 0...255, using: &random)
                case 1: message.remove(at: place)
                default: message.insert(.random(in: 0x20...0x39, using: &random), at: place)
                }
            }
            do throws(ProtocolError) {
                _ = try connection.receive(message, at: 0, using: &random)
            } catch {
                #expect(error.code.isConnectionLevel && !error.reason.isEmpty && error.reason.utf8.count < 500)
            }
        }
    }

    @Test func aDownloadOfTooManyChangesetsIsRefused() {
        var limits = Limits(), random = SeededRandom(seed: 1)
        limits.downloadChangesetsMax = 2
        var connection = ClientConnection(ProtocolVersion(14), .partition, limits: limits, openedAt: 0, using: &random)
        _ = connection.encode(.bind(session: 1, BindRequest(partition: [1], needsFileIdent: false)))
        let error = #expect(throws: ProtocolError.self) {
            try connection.receive(
                bytes("download 1 3 0 3 5 0 0 0 0 36 0\n1 0 1 3 0 0 2 0 1 3 0 0 3 0 1 3 0 0 "), at: 0, using: &random)
        }
        #expect(error?.code == .badSyntax)
    }

    // MARK: PING and PONG

    @Test(arguments: 0..<100 as Range<UInt64>)
    func pingsComeInTime(seed: UInt64) throws {
        var connection = connection(seed: seed), random = SeededRandom(seed: seed)
        var now: Int64 = 1000
        for round in 0..<20 {
            let due = connection.deadline(after: now)
            #expect(due <= now + 60_000 && (round == 0 || due >= now + 54_000 - 1000))
            #expect(connection.next(at: due - 1) == nil)
            guard case .ping(let message) = connection.next(at: due) else {
                Issue.record("no PING")
                return
            }
            #expect(text(message.bytes).hasPrefix("ping \(due) "))
            #expect(connection.next(at: due) == nil, "one at a time")
            #expect(connection.deadline(after: due) == due + 120_000)
            #expect(!connection.isOverdue(at: due + 119_999))
            #expect(connection.isOverdue(at: due + 120_000))
            now = due + Int64.random(in: 0...1000, using: &random)
            _ = try connection.receive(bytes("pong \(due)\n"), at: now, using: &random)
            #expect(!connection.isOverdue(at: now))
        }
    }

    @Test func aSlowPongShortensThePeriod() throws {
        var connection = connection(), random = SeededRandom(seed: 1)
        connection.pingNow(at: 1000)
        _ = connection.next(at: 1000)
        _ = try connection.receive(bytes("pong 1000\n"), at: 101_000, using: &random)
        #expect(
            connection.next(at: 101_000)
                == .ping(ClientMessageCodec().encode(.ping(timestamp: 101_000, roundTripMilliseconds: 100_000))))
    }

    @Test func aSocketThatTakesNoPingIsDeadToo() {
        let connection = connection()
        let due = connection.deadline(after: 1000)
        #expect(connection.isOverdue(at: due + 120_000))
    }

    @Test(arguments: ["pong 999\n", "pong -1\n", "pong 0\n"])
    func aPongHasToAnswerThePing(pong: String) {
        var waiting = connection(), idle = connection(), random = SeededRandom(seed: 1)
        waiting.pingNow(at: 1000)
        _ = waiting.next(at: 1000)
        #expect(throws: ProtocolError.self) { try waiting.receive(bytes(pong), at: 1001, using: &random) }
        #expect(throws: ProtocolError.self) { try idle.receive(bytes(pong), at: 1001, using: &random) }
    }

    @Test func aHurriedPingFollowsTheOneOnItsWay() throws {
        var connection = connection(), random = SeededRandom(seed: 1)
        connection.pingNow(at: 1000)
        _ = connection.next(at: 1000)
        connection.pingNow(at: 1010)
        #expect(connection.next(at: 1010) == nil)
        _ = try connection.receive(bytes("pong 1000\n"), at: 1020, using: &random)
        guard case .ping = connection.next(at: 1020) else {
            Issue.record("no PING")
            return
        }
    }
}
