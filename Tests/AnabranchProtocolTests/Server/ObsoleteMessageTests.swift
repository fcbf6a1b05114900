import AnabranchCore
import Testing

@testable import AnabranchProtocol

/// Requests that no client of today sends: they are refused, or end their session, and nobody else notices
/// (`Spec/Protocol.md`, section 4.6).
@Suite struct ObsoleteMessageTests {
    /// Two sessions: 1 stands by, 2 has come as far as it is said.
    private static func conversation(_ steps: Int, mode: SyncMode = .partition) throws -> Conversation {
        let offer = mode == .partition ? "com.mongodb.realm-sync#14" : "com.mongodb.realm-query-sync#14"
        let talk = try Conversation(offer, accepting: [mode])
        let ident = mode == .partition ? "9 77 0 0 0 0\n" : "9 77 0 0 0 0 0 2\n{}"
        for session in 1...2 {
            talk.receive(mode == .partition ? "bind \(session) 1 0 0 0\nx" : "bind \(session) 0 0 0 0\n")
            if session == 1 || steps > 0 { talk.receive("ident \(session) \(ident)") }
            if session == 1 || steps > 1 { try talk.accept(SessionID(UInt64(session))) }
        }
        _ = talk.said()
        return talk
    }

    /// The answers to session 1 when it asks, after the message and whatever was said about it.
    private static func othersGoOn(_ talk: Conversation) throws -> Bool {
        talk.receive("ping 5 0\n")
        return talk.said().contains("pong 5\n") && !talk.hasFailed && talk.sessionCount >= 1
    }

    private static let transact = "transact 2 17 5 3\nabc"
    private static let state = "state_request 2 0 0 0 0 0 24 0 12\n"
    private static let version = "client_version_request 2 7 4611686018427387904\n"

    @Test(arguments: [SyncMode.partition, .flexible])
    func whatIsAnsweredLeavesTheSessionAsItIs(mode: SyncMode) throws {
        let talk = try Self.conversation(2, mode: mode)
        talk.receive(Self.transact)
        talk.receive(Self.state)
        #expect(
            talk.receive(Self.version)
                == .ask(try talk.handle(2), .clientVersion(SaltedFileID(ident: 7, salt: 4_611_686_018_427_387_904))))
        #expect(talk.said() == ["transact 2 3 0 0 0 1 0\n", "state 2 0 0 0 0 0 0\n"])
        try talk.answer(.clientVersion(17), for: 2)
        #expect(talk.said() == ["client_version 2 17\n"])
        // Nobody has asked any more.
        try talk.answer(.clientVersion(18), for: 2)
        #expect(talk.said() == [])
        #expect(try Self.othersGoOn(talk) && talk.sessionCount == 2)
    }

    /// Once, and before there is a session.
    @Test func whatAClientSaysOfItselfIsNotLookedAt() throws {
        let talk = try Conversation("com.mongodb.realm-sync#14", accepting: [.partition])
        #expect(talk.receive("client RealmSync/1.2.3 (Linux) \u{e9}\n") == nil && talk.said() == [])
        talk.receive("bind 1 1 0 0 0\nx")
        #expect(!talk.hasFailed && talk.sessionCount == 1)

        let fresh = try Conversation("com.mongodb.realm-sync#14", accepting: [.partition])
        #expect(fresh.receive("client a\n") == nil)
        for talk in [fresh, try Self.conversation(0)] {
            guard case .connectionFailed(let error) = talk.receive("client b\n") else {
                Issue.record("it is taken again")
                continue
            }
            #expect(error.code == .unknownMessage)
        }
    }

    @Test(arguments: ["refresh 2 3\nabc", "alloc 2\n"])
    func whatCannotBeServedEndsItsSessionAlone(message: String) throws {
        let talk = try Self.conversation(2)
        #expect(talk.receive(message) == .ask(try talk.handle(2), .close))
        let said = talk.said().joined(), type = try #require(message.split(separator: " ").first)
        #expect(said.hasPrefix("json_error 201 ") && said.contains("(\(type): "))
        // What follows is swallowed until the client lets go of the session.
        #expect(talk.receive(Self.transact) == nil && talk.said() == [])
        #expect(try Self.othersGoOn(talk))
    }

    @Test func sessionsThatAreNotReadyOrNotThereAreMistakes() throws {
        for (message, steps, code) in [
            (Self.transact, 0, ErrorCode.badMessageOrder), ("alloc 2\n", 0, .badMessageOrder),
            ("transact 3 1 1 0\n", 2, .badSessionIdent), ("refresh 3 0\n", 2, .badSessionIdent),
        ] {
            let talk = try Self.conversation(steps)
            guard case .connectionFailed(let error) = talk.receive(message) else {
                Issue.record("\(message) is taken")
                continue
            }
            #expect(error.code == code)
        }
        for message in [Self.state, Self.version, "refresh 2 0\n"] {
            let talk = try Self.conversation(0)
            talk.receive(message)
            #expect(try Self.othersGoOn(talk), "\(message)")
        }
        #expect(try Self.conversation(1).receive(Self.transact) == nil, "while the IDENT is checked")
    }

    @Test(arguments: [
        "transact 2 17 5\n", "transact 2 17 5 3 1\nabc", "transact 2 17 5 3\nabcd", "transact 2 17 5 9999999999\n",
        "transact 0 17 5 0\n", "refresh 2\n", "refresh 2 4\nabc", "refresh 2 8193\n", "alloc\n", "alloc 2 1\n",
        "state_request 2 0 0 0 2 0 24 0 12\n", "state_request 2 0 0 0 0 0 4294967296 0 12\n",
        "state_request 2 0 0 0 0 0 24 0\n", "client_version_request 2 7\n", "client_version_request 2 0 7\n",
    ])
    func whatIsNotWellFormedIsBadSyntax(message: String) throws {
        let talk = try Self.conversation(2)
        guard case .connectionFailed(let error) = talk.receive(message) else {
            Issue.record("\(message) is taken")
            return
        }
        #expect(error.code == .badSyntax)
        #expect(error.reason.hasPrefix(message.prefix { $0 != " " && $0 != "\n" }))
    }

    /// More than there is room for.
    @Test func aFloodEndsItsSession() throws {
        let talk = try Self.conversation(2)
        for _ in 0..<100 { talk.receive(Self.version) }
        #expect(talk.said().joined().hasPrefix("json_error 201 "))
        #expect(try Self.othersGoOn(talk))
    }

    @Test func anUnknownTypeIsNamed() throws {
        for (message, words) in [
            ("frobnicate 1 2\n", "unknown type 'frobnicate'"), ("\u{1}\n", "unknown type"), ("", "unknown type"),
            ("query 1 1 2\n{}", "unknown type 'query'"),
        ] {
            guard case .connectionFailed(let error) = try Self.conversation(2).receive(message) else {
                Issue.record("\(message) is taken")
                continue
            }
            #expect(error == ProtocolError(.unknownMessage, words))
        }
    }
}
