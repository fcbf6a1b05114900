import AnabranchCore
import Testing

@testable import AnabranchProtocol

@Suite struct ServerConnectionTests {
    /// `Spec/Protocol.md`, section 14, to the byte.
    @Test func theAnnotatedExample() throws {
        let conversation = try Conversation()
        let action = conversation.receive("bind 1 10 0 1 0\n\"testpart\"")
        let handle = try conversation.handle(1)
        #expect(action == .ask(handle, .open(BindRequest(partition: bytes("\"testpart\""), needsFileIdent: true))))
        try conversation.allocate()
        #expect(conversation.said() == ["ident 1 2 77\n"])

        conversation.receive("ident 1 2 77 0 0 0 0\n")
        try conversation.accept()
        conversation.receive("mark 1 1\n")
        #expect(conversation.said() == ["scan 1 0 0"])
        try conversation.download(to: 0)
        #expect(conversation.said() == ["download 1 0 0 0 0 0 0 0 0 0 0\n", "mark 1 1\n"])

        let changeset = [UInt8](repeating: 0x3F, count: 62)
        let body = uploadBody([(3, 0, 374_544_000_000, 0, changeset)])
        guard
            case .ask(handle, .integrate(let upload)) = conversation.receive(
                bytes("upload 1 0 \(body.count) 0 3 0 0\n") + body)
        else {
            Issue.record("no UPLOAD")
            return
        }
        #expect(upload.upload.changesets.map(\.changeset) == [changeset])
        try conversation.expose(1)
        #expect(conversation.said() == ["scan 1 0 0"])
        try conversation.download(to: 1)
        #expect(conversation.said() == ["download 1 1 0 1 5 0 0 0 0 0 0\n"])

        conversation.receive("upload 1 0 0 0 4 1 1\n")
        conversation.receive("ping 81234 0\n")
        #expect(conversation.said() == ["pong 81234\n"])
        #expect(conversation.receive("unbind 1\n") == .ask(handle, .close))
        #expect(conversation.said() == ["unbound 1\n"])
        #expect(conversation.sessionCount == 0)
    }

    // MARK: - The end

    @Test(arguments: [("com.mongodb.realm-query-sync#14", 114), ("com.mongodb.realm-sync#15", 105)])
    func aRefusedClientIsToldAndThenUnheard(offer: String, code: Int) throws {
        let conversation = try Conversation(offer)
        #expect(conversation.hasFailed)
        #expect(conversation.receive("bind 1 1 0 1 0\nx") == nil)
        let said = conversation.said()
        #expect(said.map(errorCode) == [code])
        #expect(said.first?.contains("\"tryAgain\":false") == true)
        #expect(conversation.receive("nonsense") == nil)
        #expect(conversation.said() == [])
    }

    @Test func nothingIsSaidAfterAConnectionError() throws {
        let conversation = try Conversation()
        try conversation.run(1)
        try conversation.run(2)
        conversation.receive("unbind 1\n")
        conversation.receive("ping 4 0\n")
        conversation.log(LogMessage(message: "soon void"))
        #expect(conversation.receive("mark 3 1\n")?.violation == .badSessionIdent)
        try conversation.expose(7, to: 2)
        try conversation.fail(2, ErrorMessage(.badClientFile))
        conversation.failConnection(ErrorMessage(.connectionClosed))
        conversation.log(LogMessage(message: "void"))
        #expect(conversation.receive("mark 2 1\n") == nil)
        #expect(conversation.sessionCount == 0)
        let said = conversation.said()
        #expect(said.map(errorCode) == [106])
        #expect(said.first?.hasPrefix("last: json_error 106 ") == true)
        #expect(said.first?.contains(" 0\n{\"tryAgain\":true,") == true)
    }

    @Test func aSupersededConnectionEndsWithoutAWord() throws {
        let conversation = try Conversation()
        try conversation.run()
        conversation.receive("ping 4 0\n")
        try conversation.supersede()
        #expect(conversation.hasFailed && conversation.sessionCount == 0)
        #expect(conversation.receive("mark 1 1\n") == nil)
        #expect(conversation.said() == [])
    }

    @Test func theCallerCanEndTheConnection() throws {
        let conversation = try Conversation()
        try conversation.run()
        conversation.failConnection(ErrorMessage(.boundInOtherSession))
        #expect(conversation.said().map(errorCode) == [108])
    }

    // MARK: - Old versions

    @Test(arguments: [2, 3])
    func aClientWithoutErrorMessagesIsDisconnected(version: Int) throws {
        func conversation() throws -> Conversation {
            let conversation = try Conversation("com.mongodb.realm-sync/\(version)")
            try conversation.run()
            return conversation
        }
        let session = try conversation()
        try session.fail(1, ErrorMessage(.badClientFile))
        #expect(session.said() == ["close 1008"])
        #expect(session.hasFailed)

        let transient = try conversation()
        try transient.fail(1, ErrorMessage(.sessionClosed))
        #expect(transient.said() == ["close 1000"])

        let violation = try conversation()
        violation.receive("nonsense")
        #expect(violation.said() == ["close 1008"])

        let raced = try conversation()
        try raced.fail(1, ErrorMessage(.badClientFile))
        raced.receive("unbind 1\n")
        #expect(raced.said() == ["unbound 1\n"], "nothing is left to be told")
    }

    @Test(arguments: [(4, 201), (6, 201), (7, 206), (14, 206)])
    func oldClientsKeepTheirFilesWhenPermissionIsDenied(version: Int, code: Int) throws {
        let conversation = try Conversation("com.mongodb.realm-sync/\(version)")
        try conversation.run()
        try conversation.fail(1, ErrorMessage(.permissionDenied))
        let said = conversation.said()
        #expect(said.map(errorCode) == [code])
        #expect(said.first?.contains("\"action\":\"ApplicationBug\"") == true)
    }

    @Test(arguments: [(9, 0), (10, 1), (14, 1)])
    func logMessagesGoToThoseWhoKnowThem(version: Int, count: Int) throws {
        let conversation = try Conversation("com.mongodb.realm-sync#\(version)")
        conversation.log(LogMessage(connectionIdent: "c1"))
        #expect(
            conversation.said()
                == [String](repeating: "log_message 0 29\n{\"level\":\"info\",\"co_id\":\"c1\"}", count: count))
    }

    @Test(arguments: [(4, 0), (5, 1)])
    func compensatingWritesAreToldToThoseWhoKnowThem(version: Int, count: Int) throws {
        let conversation = try Conversation("com.mongodb.realm-sync/\(version)")
        try conversation.run()
        var error = ErrorMessage(.compensatingWrite)
        error.rejection = ErrorMessage.Rejection(clientVersion: 3, serverVersion: 9, updates: [])
        try conversation.warn(1, error)
        #expect(conversation.said().map(errorCode) == [Int?](repeating: 231, count: count))
    }

    // MARK: - Turns

    @Test func pongGoesFirstAndOnlyTheLastOne() throws {
        let conversation = try Conversation()
        try conversation.run()
        conversation.receive("mark 1 1\n")
        conversation.receive("ping 7 0\n")
        conversation.receive("ping 8 0\n")
        #expect(conversation.said() == ["pong 8\n", "mark 1 1\n"])
    }

    @Test func sessionsTakeTurns() throws {
        let conversation = try Conversation()
        for session in [1, 2, 3] as [SessionID] {
            conversation.receive("bind \(session) 1 0 0 0\nx")
            conversation.receive("ident \(session) 2 77 0 0 0 0\n")
            try conversation.accept(session)
        }
        #expect(conversation.said() == ["scan 1 0 0", "scan 2 0 0", "scan 3 0 0"])
        for session in [2, 1, 3] as [SessionID] {
            conversation.receive("mark \(session) 1\n")
            try conversation.download(session, to: 0)
        }
        #expect(
            conversation.said().map { $0.prefix(10) }
                == ["download 2", "download 1", "download 3", "mark 2 1\n", "mark 1 1\n", "mark 3 1\n"])
    }

    @Test func aDownloadThatIsThereNeedsNoQuestion() throws {
        let conversation = try Conversation()
        try conversation.run()
        conversation.receive("mark 1 1\n")
        #expect(try conversation.offer(after: 0, to: 3))
        #expect(conversation.said() == ["download 1 3 0 3 5 0 0 0 0 0 0\n", "mark 1 1\n"])
        #expect(try conversation.offer(after: 3, to: 4))
        #expect(try !conversation.offer(after: 4, to: 5), "the last one is not sent yet")
        #expect(conversation.said() == ["download 1 4 0 4 5 0 0 0 0 0 0\n", "scan 1 4 0"])
        #expect(try !conversation.offer(after: 4, to: 6), "one was asked for")
        try conversation.download(to: 5)
        #expect(conversation.said() == ["download 1 5 0 5 5 0 0 0 0 0 0\n", "scan 1 5 0"])
    }

    @Test func aDownloadOfAnotherPlaceIsOnlyNewsOfItsVersion() throws {
        let conversation = try Conversation()
        try conversation.run()
        #expect(try !conversation.offer(after: 1, to: 3))
        #expect(conversation.said() == ["scan 1 0 0"])
        let early = try Conversation()
        early.receive("bind 1 1 0 0 0\nx")
        #expect(try !early.offer(after: 0, to: 3), "no file is named")
        early.receive("ident 1 2 77 0 0 0 0\n")
        #expect(try !early.offer(after: 0, to: 3), "its ident is not accepted")
        try early.accept()
        #expect(early.said() == ["scan 1 0 0"])
        try early.fail(1, ErrorMessage(.badClientFile))
        #expect(try !early.offer(after: 0, to: 4), "the session is over")
    }

    @Test func aDownloadThatIsThereWaitsWhileTooManyAreUnderWay() throws {
        var limits = Limits()
        limits.downloadsUnderWayMax = 2
        let conversation = try Conversation(limits: limits)
        for session in [1, 2, 3] as [SessionID] { try conversation.run(session) }
        #expect(try conversation.offer(1, after: 0, to: 3) && conversation.offer(2, after: 0, to: 3))
        #expect(try !conversation.offer(3, after: 0, to: 3))
        #expect(
            conversation.said() == [
                "download 1 3 0 3 5 0 0 0 0 0 0\n", "download 2 3 0 3 5 0 0 0 0 0 0\n", "scan 3 0 0",
            ])
    }

    @Test func onlyAFewDownloadsAreUnderWayAtATime() throws {
        var limits = Limits()
        limits.downloadsUnderWayMax = 2
        let conversation = try Conversation(limits: limits)
        for session in [1, 2, 3, 4] as [SessionID] {
            conversation.receive("bind \(session) 1 0 0 0\nx")
            conversation.receive("ident \(session) 2 77 0 0 0 0\n")
            try conversation.accept(session)
        }
        #expect(conversation.said() == ["scan 1 0 0", "scan 2 0 0"])
        try conversation.download(2, to: 0)
        #expect(conversation.next()?.hasPrefix("download 2") == true)
        #expect(conversation.next() == "scan 3 0 0")
        #expect(conversation.next() == nil)
        conversation.receive("unbind 1\n")
        conversation.receive("unbind 4\n")
        #expect(conversation.said() == ["unbound 1\n", "unbound 4\n"])
        conversation.receive("bind 5 1 0 0 0\nx")
        conversation.receive("ident 5 2 77 0 0 0 0\n")
        try conversation.accept(5)
        #expect(conversation.said() == ["scan 5 0 0"], "the place of session 1 is free")
    }

    // MARK: - Limits

    @Test func anEmptyPartitionNamesNoFile() throws {
        let conversation = try Conversation()
        #expect(conversation.receive("bind 1 0 0 1 0\n") == nil)
        #expect(conversation.said().map(errorCode) == [204])
        #expect(conversation.receive("unbind 1\n") == nil)
        #expect(conversation.said() == [])
    }

    @Test func tooManySessionsAreRefusedOneByOneAndThenAllTogether() throws {
        var limits = Limits()
        limits.sessionsPerConnectionMax = 2
        let conversation = try Conversation(limits: limits)
        func bind(_ session: Int) -> Action? { conversation.receive("bind \(session) 1 0 0 0\nx") }
        for session in 1...2 { #expect(bind(session) != nil) }
        for session in 3...4 { #expect(bind(session) == nil) }
        let said = conversation.said()
        #expect(said.map(errorCode) == [201, 201])
        #expect(said.first?.contains("\"action\":\"Transient\"") == true)

        conversation.receive("unbind 1\n")
        conversation.receive("unbind 3\n")
        conversation.receive("unbind 4\n")
        #expect(conversation.said() == ["unbound 1\n"])
        #expect(bind(1) != nil, "there is room again")
        #expect(bind(5) == nil)
        #expect(bind(6) == nil)
        #expect(bind(7)?.violation == .connectionClosed)
        #expect(conversation.said().map(errorCode) == [100])
    }
}
