import AnabranchCore
import AnabranchSimulation
import AnabranchTesting
import Testing

@testable import AnabranchProtocol

/// The model of a client and the server's side of its connection, with every message in its bytes.
@Suite struct FlexibleConversationTests {
    /// Releases of all versions of the protocol that brought something for flexible sync.
    private static let releases: [(CoreVersion, Int)] = [
        (CoreVersion(12, 0), 4), (CoreVersion(12, 1), 6), (CoreVersion(13, 1), 7), (CoreVersion(13, 8), 8),
        (CoreVersion(13, 19), 10), (CoreVersion(13, 26), 11), (CoreVersion(14, 5), 12), (CoreVersion(14, 10), 13),
        (CoreVersion(14, 14), 14),
    ]

    /// A client, its connection and the file behind it.
    private struct Conversation: ~Copyable {
        var client: FlexibleClient
        var file: ScriptedFile
        private let version: ProtocolVersion
        private var server: ServerConnection
        private var connection = 0
        private var requests: [(SessionHandle, SessionRequest)] = []
        private var handle: SessionHandle?
        /// The file has ended it.
        private var failed: SessionHandle?

        init(_ release: CoreVersion, _ version: Int, splitsBootstraps: Bool = false) throws {
            try self.init(FlexibleClient(release: release), version, splitsBootstraps: splitsBootstraps)
        }

        init(_ client: FlexibleClient, _ version: Int, splitsBootstraps: Bool = false) throws {
            self.client = client
            file = ScriptedFile(splitsBootstraps: splitsBootstraps)
            self.version = ProtocolVersion(version)
            server = try Self.connection(self.version)
            self.client.connect(self.version)
        }

        private static func connection(_ version: ProtocolVersion) throws -> ServerConnection {
            let offer = "com.mongodb.realm-query-sync\(version.number < 8 ? "/" : "#")\(version.number)"
            return ServerConnection(try Negotiation(offer: offer, accepting: [.flexible]))
        }

        mutating func reconnect(isFast: Bool) throws {
            server = try Self.connection(version)
            connection += 1
            requests = []
            failed = nil
            client.connect(version, isFast: isFast)
        }

        /// Everything that has been written or asked for comes to its end.
        mutating func settle() throws {
            while try step() {}
        }

        /// - Returns: whether anything was said or done.
        mutating func step() throws -> Bool {
            if try clientSpeaks() { return true }
            if try fileWorks() { return true }
            return try serverSpeaks()
        }

        /// One of those who have something to say or to do goes on.
        mutating func step(_ random: inout SeededRandom) throws {
            switch Int.random(in: 0..<3, using: &random) {
            case 0: _ = try clientSpeaks()
            case 1: _ = try fileWorks()
            default: _ = try serverSpeaks()
            }
        }

        private mutating func clientSpeaks() throws -> Bool {
            if client.isSuspended { client.resume() }
            guard let message = client.next() else { return false }
            switch server.receive(ClientMessageCodec(mode: .flexible).encode(message).bytes) {
            case .ask(let session, let request): requests.append((session, request))
            case .connectionFailed(let error): throw error
            case .clientFailed, nil: break
            }
            return true
        }

        private mutating func fileWorks() throws -> Bool {
            guard !requests.isEmpty else { return false }
            let (session, request) = requests.removeFirst()
            try answer(request, of: session)
            return true
        }

        private mutating func serverSpeaks() throws -> Bool {
            switch server.next() {
            case .message(let message), .lastMessage(let message):
                try client.receive(ServerMessageCodec(mode: .flexible, version: version).decode(message.bytes))
            case .ask(let session, let request): requests.append((session, request))
            case .close(let code): Issue.record("closed with \(code)")
            case nil: return false
            }
            return true
        }

        private mutating func answer(_ request: SessionRequest, of session: SessionHandle) throws {
            handle = session
            guard session != failed, let event = try file.answer(request, on: connection) else { return }
            if case .failed = event { failed = session }
            server.receive(event, for: session)
        }

        /// The file has something new.
        mutating func expose() {
            if let handle { server.receive(.versionExposed(file.version), for: handle) }
        }

        /// The file ends the session.
        mutating func fail(_ error: ErrorMessage) throws { server.fail(try #require(handle), error) }

        func count(of name: String) throws -> Int {
            try client.file?.state.read { try $0.objects(name).count } ?? 0
        }
    }

    @Test(arguments: releases, [false, true])
    func aWholeLife(release: (CoreVersion, Int), splitsBootstraps: Bool) throws {
        var all = try Conversation(release.0, release.1, splitsBootstraps: splitsBootstraps)
        try all.settle()
        try all.client.checkNothingIsMissing()
        #expect(try all.count(of: "A") == 0, "the schema is there")

        #expect(try all.client.subscribe("{\"A\":\"x\",\"B\":\"x\"}") == 1)
        try all.client.write(at: 1) { try $0.create("A", key: 1) }
        try all.settle()
        try all.client.checkNothingIsMissing()
        #expect(all.client.subscriptions.state(of: 1) == .complete)
        #expect(try all.count(of: "A") == 2)
        #expect(try all.count(of: "B") == 1)
        #expect(all.client.file?.isAcknowledged == true)

        try all.file.write(5)
        all.expose()
        try all.settle()
        #expect(try all.count(of: "A") == 3, "steady state")

        _ = try all.client.subscribe("{\"A\":\"refuse\"}")
        _ = try all.client.subscribe("{\"B\":\"x\"}")
        try all.settle()
        try all.client.checkNothingIsMissing()
        #expect(all.file.queries.map(\.version) == [1, 2, 3])
        #expect(all.client.subscriptions.active == 3)
        #expect(all.client.subscriptions.entries.count == 1)
    }

    @Test(arguments: releases)
    func compensatingWritesComeBeforeTheirVersion(release: (CoreVersion, Int)) throws {
        var all = try Conversation(release.0, release.1)
        try all.settle()
        try all.file.compensate()
        all.expose()
        try all.settle()
        #expect(all.client.compensations.count == (release.1 < 5 ? 0 : 1))
    }

    @Test(arguments: releases)
    func aRefusedSetLeavesTheActiveOne(release: (CoreVersion, Int)) throws {
        var all = try Conversation(release.0, release.1)
        _ = try all.client.subscribe("{\"A\":\"refuse\"}")
        try all.settle()
        try all.client.checkNothingIsMissing()
        #expect(all.client.subscriptions.state(of: 1) == .error("Invalid query: {\"A\":\"refuse\"}"))
        #expect(all.client.subscriptions.active == 0)
    }

    @Test(arguments: 0..<60, [false, true])
    func connectionsMayBeLostAtAnyTime(steps: Int, isFast: Bool) throws {
        var all = try Conversation(CoreVersion(14, 14), 14)
        try all.settle()
        try all.client.write(at: 1) { try $0.create("A", key: 1) }
        _ = try all.client.subscribe("{\"A\":\"x\"}")
        try all.client.write(at: 2) { try $0.create("A", key: 2) }
        _ = try all.client.subscribe("{\"A\":\"x\",\"B\":\"x\"}")
        for _ in 0..<steps { _ = try all.step() }
        try all.reconnect(isFast: isFast)
        try all.settle()
        try all.client.checkNothingIsMissing()
        #expect(all.client.subscriptions.active == 2)
        #expect(try all.count(of: "A") == 4)
        #expect(try all.count(of: "B") == 1)
        #expect(all.client.file?.isAcknowledged == true)
    }

    /// Everything happens at once, in any order, and the client's checks find nothing.
    @Test(arguments: 0..<150 as Range<UInt64>)
    func randomConversations(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let release = Self.releases[Int(seed) % Self.releases.count]
        var all = try Conversation(release.0, release.1, splitsBootstraps: seed % 2 == 0)
        var wanted: QueryVersion = 0
        for step in 0..<400 as Range<Int64> {
            switch Int.random(in: 0..<40, using: &random) {
            case 0:
                let query = ["{\"A\":\"x\"}", "{\"A\":\"x\",\"B\":\"x\"}", "{}"].randomElement(using: &random) ?? "{}"
                wanted = try all.client.subscribe(query)
            case 1: _ = try all.client.subscribe("{\"A\":\"refuse\"}")
            case 2 where all.client.subscriptions.active != nil:
                try all.client.write(at: 1) { try $0.create("A", key: .int(step)) }
            case 3 where all.file.version > 0:
                try all.file.write(1000 + step)
                all.expose()
            case 4 where all.file.version > 0:
                try all.file.compensate()
                all.expose()
            case 5: all.client.requestMark()
            case 6: try all.reconnect(isFast: Bool.random(using: &random))
            default: try all.step(&random)
            }
        }
        try all.settle()
        try all.client.checkNothingIsMissing()
        #expect(all.client.subscriptions.active == wanted)
        #expect(all.client.file?.isAcknowledged == true)
    }

    /// After a client reset the same set has another number, and what is pending is asked for again.
    @Test(arguments: [false, true])
    func aClientResetKeepsTheNumbersOfTheSets(keepsPending: Bool) throws {
        var all = try Conversation(CoreVersion(14, 14), 14)
        try all.settle()
        for query in ["{\"A\":\"refuse\"}", "{\"A\":\"x\"}"] { _ = try all.client.subscribe(query) }
        try all.settle()
        #expect(all.client.subscriptions.active == 2)
        _ = try all.client.subscribe("{\"B\":\"x\"}")
        try all.fail(ErrorMessage(.badServerVersion))
        try all.settle()
        #expect(all.client.needsReset)

        var fresh = try Conversation(try all.client.freshDownload(), 14)
        try fresh.settle()
        #expect(fresh.file.binds.map { $0?.sessionReason } == [1])
        #expect(fresh.file.queries.map(\.version) == [1])
        try all.client.reset(to: fresh.client, keepsPending: keepsPending)
        fresh.client = all.client
        try fresh.reconnect(isFast: true)
        try fresh.settle()
        try fresh.client.checkNothingIsMissing()
        #expect(fresh.file.binds.last??.sessionReason == 1)
        #expect(fresh.file.idents.last?.subscriptions == SubscriptionSet(version: 2, query: bytes("{\"A\":\"x\"}")))
        #expect(fresh.client.subscriptions.active == (keepsPending ? 3 : 2))
        #expect(try fresh.count(of: "B") == (keepsPending ? 1 : 0))
    }
}
