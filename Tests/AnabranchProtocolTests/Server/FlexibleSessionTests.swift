import AnabranchCore
import Testing

@testable import AnabranchProtocol

/// The table of `Spec/FlexibleSync.md`, section 1.7, and the promises about MARK.
@Suite struct FlexibleSessionTests {
    private static let offer = "com.mongodb.realm-query-sync#"
    private static let ident = "ident 1 2 77 0 0 0 0 0 2\n{}"

    private func open(_ version: Int = 14, limits: Limits = Limits()) throws -> Conversation {
        let conversation = try Conversation("\(Self.offer)\(version)", accepting: [.flexible], limits: limits)
        conversation.receive("bind 1 0 0 0 0\n")
        return conversation
    }

    /// A session that has got the bootstrap of version 0.
    private func run(_ version: Int = 14, limits: Limits = Limits()) throws -> Conversation {
        let conversation = try open(version, limits: limits)
        conversation.receive(Self.ident)
        try conversation.accept(exposed: 1)
        #expect(conversation.said() == ["scan 1 0 0"])
        try conversation.bootstrap(0, at: 1)
        #expect(conversation.said().count == 1)
        return conversation
    }

    private func query(_ version: Int) -> String { "query 1 \(version) 2\n{}" }

    // MARK: - Which mode

    @Test func theModeIsToldWhereItIsKnown() throws {
        #expect(try Conversation("\(Self.offer)14").said().map(errorCode) == [114])
        #expect(try Conversation(accepting: [.flexible]).said().map(errorCode) == [113])
        for (offer, app, code) in [
            ("com.mongodb.realm-query-sync#14", SyncMode.partition, 114), ("com.mongodb.realm-sync#14", .flexible, 113),
        ] {
            let conversation = try Conversation(offer, accepting: Set(SyncMode.allCases))
            #expect(conversation.said() == [])
            conversation.receive("bind 1 2 0 1 0\n{}")
            try conversation.tell(.failed(app.refusalOfOthers))
            let said = conversation.said()
            #expect(said.map(errorCode) == [code])
            #expect(said.first?.contains(#""tryAgain":false"#) == true)
            #expect(said.first?.contains(#""action":"ApplicationBug""#) == true)
        }
    }

    @Test func aFlexibleAppNeedsNoPartition() throws {
        let conversation = try Conversation("\(Self.offer)14", accepting: [.flexible])
        let request = BindRequest(flexible: FlexibleBind(schemaVersion: 3), needsFileIdent: true)
        let action = conversation.receive("bind 1 19 0 1 0\n{\"schemaVersion\":3}")
        #expect(action == .ask(try conversation.handle(1), .open(request)))
    }

    // MARK: - Beginning anew

    /// Once, and on the same connection: only then is it known that the client has dropped parts of a bootstrap.
    @Test func thatASessionBeginsAnewIsKnown() throws {
        let conversation = try open()
        func identify() -> Bool? {
            let action = conversation.receive("ident 1 2 77 0 0 0 0 3 2\n{}")
            guard case .ask(_, .identify(_, let hasRestarted)) = action else { return nil }
            return hasRestarted
        }
        #expect(identify() == false)
        for (code, expected) in [(ErrorCode.sessionClosed, true), (.otherSessionError, false), (.sessionClosed, true)] {
            try conversation.tell(.failed(ErrorMessage(code)))
            #expect(conversation.said().map(errorCode) == [code.rawValue])
            conversation.receive("unbind 1\n")
            conversation.receive("bind 1 0 0 0 0\n")
            #expect(identify() == expected, "after \(code)")
        }
    }

    // MARK: - QUERY

    @Test func aQueryIsPassedOnInItsOrder() throws {
        let conversation = try open()
        let handle = try conversation.handle(1)
        guard
            case .ask(handle, .identify(let request, hasRestarted: false)) =
                conversation.receive("ident 1 2 77 0 0 0 0 3 4\n{ab}")
        else {
            Issue.record("no IDENT")
            return
        }
        #expect(request.subscriptions == SubscriptionSet(version: 3, query: bytes("{ab}")))
        let set = SubscriptionSet(version: 4, query: bytes("{}"))
        #expect(conversation.receive(query(4)) == .ask(handle, .query(set)), "before the check of IDENT is over")
        guard case .ask(handle, .integrate) = conversation.receive("upload 1 0 0 0 5 0 0\n") else {
            Issue.record("no UPLOAD")
            return
        }
    }

    @Test func aQueryBeforeIdentOrBehindUnbindIs109() throws {
        let asking = try Conversation("\(Self.offer)14", accepting: [.flexible])
        asking.receive("bind 1 0 0 1 0\n")
        #expect(asking.receive(query(1))?.violation == .badMessageOrder)
        #expect(try open().receive(query(1))?.violation == .badMessageOrder)
        let unbinding = try run()
        unbinding.receive("unbind 1\n")
        #expect(unbinding.receive(query(1))?.violation == .badMessageOrder)
        #expect(try run().receive("query 2 1 2\n{}")?.violation == .badSessionIdent)
    }

    @Test(arguments: [(0, [0]), (3, [3]), (3, [2]), (0, [2, 2]), (0, [2, 4, 3])])
    func versionsOfQueriesGrow(identified: Int, versions: [Int]) throws {
        let conversation = try open()
        conversation.receive("ident 1 2 77 0 0 0 0 \(identified) 2\n{}")
        for version in versions.dropLast() { #expect(conversation.receive(query(version))?.violation == nil) }
        #expect(conversation.receive(query(versions[versions.count - 1]))?.violation == .badMessageOrder)
    }

    @Test func aQueryBehindAnErrorIsSwallowed() throws {
        let conversation = try run()
        try conversation.fail(1, ErrorMessage(.badClientFile))
        #expect(conversation.receive(query(1)) == nil)
        #expect(conversation.said().map(errorCode) == [217])
        #expect(conversation.receive(query(1)) == nil)
    }

    // MARK: - DOWNLOAD

    @Test func theFirstDownloadCanBeABootstrap() throws {
        let conversation = try open()
        conversation.receive(Self.ident)
        conversation.receive("mark 1 1\n")
        try conversation.accept(exposed: 1)
        #expect(conversation.said() == ["scan 1 0 0"])
        try conversation.bootstrap(0, at: 1)
        #expect(conversation.said() == ["download 1 1 0 1 5 0 0 0 1 1 0 12 0\n1 0 0 1 0 0 ", "mark 1 1\n"])
    }

    @Test(arguments: [(14, 2), (13, 1), (2, 1)])
    func steadyStateHasTheActiveVersion(version: Int, batch: Int) throws {
        let conversation = try run(version)
        conversation.receive(query(7))
        let estimate = version < 12 ? "0" : "1"
        try conversation.expose(2)
        #expect(conversation.said() == ["scan 1 1 0"])
        try conversation.download(to: 2)
        #expect(conversation.said() == ["download 1 2 0 2 5 0 0 0 \(batch) \(estimate) 0 0 0\n"])
        try conversation.expose(4)
        #expect(conversation.said() == ["scan 1 2 0"])
        try conversation.bootstrap(7, at: 3, latest: 4)
        #expect(
            conversation.said()
                == ["download 1 3 0 4 5 0 0 7 1 \(estimate) 0 12 0\n3 0 0 1 0 0 ", "scan 1 3 0"])
        try conversation.download(to: 4)
        #expect(conversation.said() == ["download 1 4 0 4 5 0 0 7 \(batch) \(estimate) 0 0 0\n"])
    }

    @Test func aBootstrapInPartsIsScannedPartByPart() throws {
        let conversation = try run()
        conversation.receive(query(1))
        conversation.receive("mark 1 2\n")
        try conversation.expose(5)
        #expect(conversation.said() == ["scan 1 1 0"])
        try conversation.bootstrap(1, at: 5, isLast: false, estimate: 0.4)
        #expect(
            conversation.said()
                == ["download 1 5 0 5 5 0 0 1 0 0.4 0 12 0\n5 0 0 1 0 0 ", "scan 1 1 0 bootstrap 1.1"])
        try conversation.download(to: 3, latest: 5)
        #expect(
            conversation.said() == ["download 1 3 0 5 5 0 0 0 2 1 0 0 0\n", "scan 1 3 0 bootstrap 1.1"],
            "steady state in between")
        try conversation.bootstrap(1, at: 5, isLast: false, isEmpty: true)
        #expect(conversation.said() == ["download 1 5 0 5 5 0 0 1 0 1 0 0 0\n", "scan 1 3 0 bootstrap 1.2"])
        try conversation.bootstrap(1, at: 5, isEmpty: true)
        #expect(conversation.said() == ["download 1 5 0 5 5 0 0 1 1 1 0 0 0\n", "mark 1 2\n"])
    }

    @Test func aNewerBootstrapTakesThePlaceOfAnOpenOne() throws {
        let conversation = try run()
        for version in 1...2 { conversation.receive(query(version)) }
        conversation.receive("mark 1 2\n")
        try conversation.expose(2)
        _ = conversation.said()
        try conversation.bootstrap(1, at: 2, isLast: false)
        #expect(conversation.said().last == "scan 1 1 0 bootstrap 1.1")
        try conversation.bootstrap(2, at: 3)
        #expect(conversation.said().last == "mark 1 2\n", "it serves for both")
    }

    /// Whatever no client would survive is not sent (`Spec/FlexibleSync.md`, section 2.11).
    @Test func aDownloadThatNoClientSurvivesEndsTheSession() throws {
        let mistakes: [(String, (Conversation) throws -> Void)] = [
            ("a bootstrap that nobody asked for", { try $0.bootstrap(3, at: 9) }),
            (
                "one of a refused query",
                { conversation in
                    try conversation.refuse(1)
                    try conversation.bootstrap(1, at: 9)
                }
            ),
            ("one without a changeset", { try $0.bootstrap(1, at: 9, isEmpty: true) }),
            (
                "an older one",
                { conversation in
                    try conversation.bootstrap(2, at: 9, isLast: false)
                    _ = conversation.said()
                    try conversation.bootstrap(1, at: 9)
                }
            ),
            ("one that goes back", { try $0.bootstrap(1, at: 0) }),
            ("a compensating write in a bootstrap", { try $0.bootstrap(1, at: 9, compensations: [9]) }),
            ("one beyond the message", { try $0.steady(to: 9, compensations: [10]) }),
            ("one that the client has", { try $0.steady(to: 9, compensations: [1]) }),
            ("two in the wrong order", { try $0.steady(to: 9, compensations: [8, 7]) }),
            ("one with an empty message", { try $0.steady(to: 9, compensations: [8], isEmpty: true) }),
        ]
        for (name, mistake) in mistakes {
            let conversation = try run()
            for version in 1...2 { conversation.receive(query(version)) }
            try conversation.expose(9)
            #expect(conversation.said() == ["scan 1 1 0"])
            try mistake(conversation)
            #expect(conversation.said().compactMap(errorCode).last == 201, "\(name)")
        }
    }

    @Test func aBootstrapInPartitionSyncEndsTheSession() throws {
        let conversation = try Conversation()
        conversation.receive("bind 1 2 0 0 0\n\"\"")
        conversation.receive("ident 1 2 77 0 0 0 0\n")
        try conversation.accept()
        _ = conversation.said()
        try conversation.bootstrap(0, at: 1)
        #expect(conversation.said().map(errorCode) == [nil, 201])
    }

    /// Releases that know no batch states would take it for steady state, or end their process.
    @Test(arguments: [(13, 201), (14, nil)])
    func theActiveSetIsBootstrappedAgainInPartsForNewReleasesOnly(version: Int, code: Int?) throws {
        let conversation = try open(version)
        conversation.receive("ident 1 2 77 0 0 0 0 3 2\n{}")
        try conversation.accept(exposed: 1)
        _ = conversation.said()
        try conversation.bootstrap(3, at: 1, isLast: false)
        #expect(conversation.said().compactMap(errorCode).first == code)
    }

    // MARK: - QUERY_ERROR

    @Test func aRefusalIsToldToThoseWhoWaitForTheSet() throws {
        let conversation = try run()
        for version in [1, 2, 4] { conversation.receive(query(version)) }
        try conversation.refuse(3)
        try conversation.refuse(0)
        #expect(conversation.said() == [], "nobody asked")
        try conversation.refuse(1)
        try conversation.refuse(1)
        #expect(conversation.said() == ["query_error 226 2 1 1\nno"])
        try conversation.expose(5)
        #expect(conversation.said() == ["scan 1 1 0"])
        try conversation.bootstrap(4, at: 5, isLast: false)
        try conversation.refuse(2)
        #expect(conversation.said().count == 2, "the client has gone on to set 4")
        try conversation.bootstrap(4, at: 5)
        try conversation.refuse(4)
        #expect(conversation.said().count == 1, "it is active")
    }

    // MARK: - MARK

    @Test func markWaitsForTheQueriesBeforeIt() throws {
        let conversation = try run()
        conversation.receive(query(1))
        conversation.receive("mark 1 2\n")
        conversation.receive(query(2))
        conversation.receive("mark 1 3\n")
        #expect(conversation.said() == [])
        try conversation.refuse(1)
        #expect(conversation.said() == ["query_error 226 2 1 1\nno", "mark 1 2\n"])
        try conversation.expose(2)
        #expect(conversation.said() == ["scan 1 1 0"])
        try conversation.bootstrap(2, at: 2)
        #expect(conversation.said().last == "mark 1 3\n")
    }

    @Test func markIsNotDelayedByAQueryBehindIt() throws {
        let conversation = try run()
        try conversation.expose(4)
        #expect(conversation.said() == ["scan 1 1 0"])
        conversation.receive("mark 1 2\n")
        conversation.receive(query(1))
        conversation.receive("mark 1 3\n")
        try conversation.expose(9)
        try conversation.download(to: 3, latest: 9)
        #expect(conversation.said() == ["download 1 3 0 9 5 0 0 0 2 1 0 0 0\n", "scan 1 3 0"])
        try conversation.download(to: 4, latest: 9)
        #expect(conversation.said() == ["download 1 4 0 9 5 0 0 0 2 1 0 0 0\n", "mark 1 2\n", "scan 1 4 0"])
        try conversation.bootstrap(1, at: 9, isLast: false)
        #expect(conversation.said().count == 2)
        try conversation.bootstrap(1, at: 9)
        #expect(conversation.said().last == "mark 1 3\n")
    }

    /// Everything that was exposed before the IDENT was accepted has to be downloaded before a MARK is answered.
    @Test func markAndQueryMayComeBeforeTheCheckIsOver() throws {
        let conversation = try open()
        conversation.receive(Self.ident)
        conversation.receive("mark 1 1\n")
        conversation.receive(query(1))
        try conversation.accept(exposed: 3)
        #expect(conversation.said() == ["scan 1 0 0"])
        try conversation.bootstrap(0, at: 2, latest: 3)
        #expect(conversation.said().last == "scan 1 2 0")
        try conversation.download(to: 3)
        #expect(conversation.said().last == "mark 1 1\n")
    }

    @Test func ofSeveralMarksTheLatestThatCanBeAnsweredIs() throws {
        let conversation = try run()
        conversation.receive("mark 1 2\n")
        conversation.receive(query(1))
        conversation.receive("mark 1 3\n")
        conversation.receive("mark 1 4\n")
        try conversation.refuse(1)
        #expect(conversation.said() == ["query_error 226 2 1 1\nno", "mark 1 4\n"])
        #expect(conversation.said() == [])
    }

    // MARK: - Other messages

    @Test(arguments: [(4, 0), (5, 2), (14, 2)])
    func compensatingWritesGoBeforeTheirDownload(version: Int, count: Int) throws {
        let conversation = try run(version)
        try conversation.expose(6)
        #expect(conversation.said() == ["scan 1 1 0"])
        try conversation.steady(to: 6, compensations: [5, 6])
        let said = conversation.said()
        #expect(said.map(errorCode) == [Int?](repeating: 231, count: count) + [nil])
        #expect(said.last?.hasPrefix("download 1 6 0 6 5 0 0 0 \(version < 14 ? 1 : 2)") == true)
    }

    @Test(arguments: [(9, 0), (10, 1)])
    func aSessionHasLinesForTheLogOfItsClient(version: Int, count: Int) throws {
        let conversation = try run(version)
        try conversation.tell(.log(LogMessage(level: .warn, message: "m")))
        #expect(
            conversation.said()
                == [String](repeating: "log_message 1 26\n{\"msg\":\"m\",\"level\":\"warn\"}", count: count))
    }

    @Test func testCommandsAreAnsweredAtAnyTime() throws {
        let conversation = try open()
        conversation.receive("test_command 1 5 2\nab")
        #expect(conversation.said() == ["test_command 1 5 2\n{}"])
        conversation.receive(Self.ident)
        for request in 1...20 { conversation.receive("test_command 1 \(request) 2\n{}") }
        #expect(conversation.said().count == 16, "there is a limit to those that wait")
        conversation.receive("test_command 1 1 2\n{}")
        conversation.receive("unbind 1\n")
        #expect(conversation.said() == ["unbound 1\n"])
    }

    private static let echo =
        #"{"command":"ECHO_ERROR","args":{"errorCode":229,"errorBody":"{\"tryAgain\":true,\"message\":\"m\","#
        + #"\"action\":\"Transient\"}"}}"#

    @Test func echoErrorSendsWhatTheClientNames() throws {
        var limits = Limits()
        limits.echoesErrors = true
        let conversation = try run(limits: limits)
        let action = conversation.receive("test_command 1 5 \(Self.echo.utf8.count)\n\(Self.echo)")
        #expect(action == .ask(try conversation.handle(1), .close))
        let said = conversation.said()
        #expect(said.first == "test_command 1 5 2\n{}")
        #expect(said.map(errorCode) == [nil, 229])
        #expect(said.last?.contains(#""tryAgain":true,"message":"m""#) == true)
        #expect(said.last?.contains(#""action":"Transient""#) == true)
        let silent = try run()
        silent.receive("test_command 1 5 \(Self.echo.utf8.count)\n\(Self.echo)")
        #expect(silent.said() == ["test_command 1 5 2\n{}"], "the switch is off")
    }

    @Test(arguments: ["101", "231000", "\"229\"", "null"])
    func echoErrorTakesErrorsOfSessionsOnly(code: String) {
        var limits = Limits()
        limits.echoesErrors = true
        let command = TestCommand(bytes(Self.echo.replacing("229", with: code)), limits)
        #expect(command.error == nil)
        #expect(text(command.answer).contains("error"))
    }
}
