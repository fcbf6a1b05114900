import AnabranchCore
import Testing

@testable import AnabranchProtocol

/// The table of `Spec/Protocol.md`, section 8.3: every state against every message.
@Suite struct ServerSessionTests {
    enum Stage: CaseIterable {
        case none, allocating, identReady, waiting, checking, running, downloading, errorPending, errorSent, unbinding
    }

    enum Message: String, CaseIterable {
        case bind = "bind 1 1 0 0 0\nx"
        case ident = "ident 1 2 77 0 0 0 0\n"
        case upload = "upload 1 0 0 0 9 0 0\n"
        case mark = "mark 1 3\n"
        case unbind = "unbind 1\n"
        case error = "json_error 212 2 1\n{}"
        case testCommand = "test_command 1 1 0\n"
        case ping = "ping 5 0\n"
    }

    enum Reaction: Equatable {
        case open, check, integrate, detach, logged, answered
        /// Taken note of, or swallowed.
        case quiet
        case violation(Int)
    }

    private func conversation(in stage: Stage) throws -> Conversation {
        let conversation = try Conversation()
        func bind(need: Int) { conversation.receive("bind 1 1 0 \(need) 0\nx") }
        switch stage {
        case .none:
            break
        case .allocating:
            bind(need: 1)
        case .identReady:
            bind(need: 1)
            try conversation.allocate()
        case .waiting:
            bind(need: 1)
            try conversation.allocate()
            #expect(conversation.said() == ["ident 1 2 77\n"])
        case .checking:
            bind(need: 0)
            conversation.receive(Message.ident.rawValue)
        case .running:
            try conversation.run()
        case .downloading:
            try conversation.run()
            try conversation.expose(4)
            #expect(conversation.said() == ["scan 1 0 0"])
        case .errorPending:
            bind(need: 0)
            try conversation.fail(1, ErrorMessage(.illegalRealmPath))
        case .errorSent:
            bind(need: 0)
            try conversation.fail(1, ErrorMessage(.illegalRealmPath))
            #expect(conversation.said().map(errorCode) == [204])
        case .unbinding:
            bind(need: 0)
            conversation.receive(Message.unbind.rawValue)
        }
        return conversation
    }

    private func expected(_ stage: Stage, _ message: Message) -> Reaction {
        switch (stage, message) {
        case (_, .ping): .quiet
        case (.none, .bind): .open
        case (.none, _): .violation(106)
        case (_, .bind): .violation(107)
        case (.unbinding, _): .violation(109)
        case (.errorPending, _), (.errorSent, _): .quiet
        case (_, .unbind): .detach
        case (_, .testCommand): .quiet
        case (.waiting, .ident): .check
        case (_, .ident): .violation(109)
        case (.checking, .upload), (.running, .upload), (.downloading, .upload): .integrate
        case (.checking, .mark), (.running, .mark), (.downloading, .mark): .quiet
        case (.checking, .error), (.running, .error), (.downloading, .error): .answered
        case (_, .error): .logged
        case (_, .upload), (_, .mark): .violation(109)
        }
    }

    private func reaction(_ action: Action?) -> Reaction {
        switch action {
        case nil: .quiet
        case .ask(_, .open): .open
        case .ask(_, .identify): .check
        case .ask(_, .integrate): .integrate
        case .ask(_, .close): .detach
        // Nothing here asks for it.
        case .ask(_, .scan), .ask(_, .scanBootstrap), .ask(_, .query), .ask(_, .clientVersion),
            .ask(_, .newestVersion):
            .violation(0)
        case .clientFailed(_, _, _, let answer): answer == nil ? .logged : .answered
        case .connectionFailed(let violation): .violation(violation.code.rawValue)
        }
    }

    /// The server's messages, apart from those of scans, after the message.
    private func expectedWords(_ stage: Stage, _ message: Message) -> [String] {
        let pong = message == .ping ? ["pong 5\n"] : []
        return switch (stage, message) {
        case (.errorSent, .unbind): []
        case (_, .unbind) where stage != .none && stage != .unbinding: ["unbound 1\n"]
        case (.unbinding, .ping): pong + ["unbound 1\n"]
        case (.identReady, .testCommand), (.identReady, .error), (.identReady, .ping): pong + ["ident 1 2 77\n"]
        case (.running, .mark): ["mark 1 3\n"]
        default: pong
        }
    }

    @Test(arguments: Stage.allCases, Message.allCases)
    func table(stage: Stage, message: Message) throws {
        let conversation = try conversation(in: stage)
        let reaction = reaction(conversation.receive(message.rawValue))
        #expect(reaction == expected(stage, message))

        let said = conversation.said()
        switch reaction {
        case .violation(let code):
            #expect(said.map(errorCode) == [code])
            #expect(said.first?.hasPrefix("last: ") == true)
            #expect(conversation.hasFailed)
            return
        case .answered:
            #expect(said.map(errorCode) == [217])
        case .quiet where stage == .errorPending && message != .unbind:
            #expect(said.compactMap(errorCode) == [204])
        default:
            #expect(said == expectedWords(stage, message))
        }
        #expect(!conversation.hasFailed)
    }

    @Test(arguments: Stage.allCases.filter { $0 != .none })
    func anErrorOfTheServerEndsTheSessionOnce(stage: Stage) throws {
        let conversation = try conversation(in: stage)
        try conversation.fail(1, ErrorMessage(.badClientFile))
        try conversation.fail(1, ErrorMessage(.sessionClosed))
        let codes = conversation.said().compactMap(errorCode)
        switch stage {
        case .errorPending: #expect(codes == [204])
        case .errorSent, .unbinding: #expect(codes == [])
        default: #expect(codes == [217])
        }
    }

    // MARK: - Races

    @Test func unbindBeforeThePendingErrorIsSentYieldsUnbound() throws {
        let conversation = try conversation(in: .errorPending)
        conversation.receive("unbind 1\n")
        #expect(conversation.said() == ["unbound 1\n"])
        #expect(conversation.sessionCount == 0)
    }

    @Test func unbindAfterTheErrorIsNotAnswered() throws {
        let conversation = try conversation(in: .errorSent)
        #expect(conversation.receive("unbind 1\n") == nil)
        #expect(conversation.said() == [])
        #expect(conversation.sessionCount == 0)
    }

    @Test func anIdentMayBeBoundAgainAfterUnboundButNotBefore() throws {
        let early = try conversation(in: .unbinding)
        #expect(early.receive("bind 1 1 0 0 0\nx")?.violation == .reuseOfSessionIdent)

        let late = try conversation(in: .unbinding)
        let first = try late.handle(1)
        #expect(late.said() == ["unbound 1\n"])
        late.receive("bind 1 1 0 0 0\nx")
        #expect(try late.handle(1) != first)
    }

    @Test func aSuspendedSessionResumesWithItsOldIdent() throws {
        let conversation = try conversation(in: .errorSent)
        conversation.receive("unbind 1\n")
        try conversation.run()
    }

    @Test func answersToADeadSessionAreNotTakenForItsSuccessor() throws {
        let conversation = try conversation(in: .allocating)
        let dead = try conversation.handle(1)
        conversation.receive("unbind 1\n")
        #expect(conversation.said() == ["unbound 1\n"])
        conversation.receive("bind 1 1 0 1 0\nx")
        conversation.allocate(dead, 2)
        #expect(conversation.said() == [])
        try conversation.allocate(1, 3)
        #expect(conversation.said() == ["ident 1 3 77\n"])
    }

    @Test func eventsForASessionThatEndedMeanwhileAreVoid() throws {
        for end in ["unbind 1\n", "json_error 1 0 1\n"] {
            let conversation = try conversation(in: .downloading)
            conversation.receive(end)
            try conversation.download(to: 4)
            try conversation.expose(9)
            try conversation.accept()
            try conversation.allocate()
            try conversation.fail(1, ErrorMessage(.badClientFile))
            #expect(conversation.said().count == 1)
            #expect(conversation.said() == [])
        }
    }

    /// A server that answers what was not asked, or twice, does no harm.
    @Test(arguments: Stage.allCases.filter { $0 != .none })
    func everyAnswerMayComeAtAnyTimeAndTwice(stage: Stage) throws {
        let answers: [(Conversation) throws -> Void] = [
            { try $0.allocate(1, 9) }, { try $0.accept(at: 2, exposed: 2) }, { try $0.expose(4) },
            { try $0.download(to: 7) }, { try $0.download(to: 1) },
            { conversation in
                var error = ErrorMessage(.compensatingWrite)
                error.rejection = ErrorMessage.Rejection(clientVersion: 3, serverVersion: 9, updates: [])
                try conversation.warn(1, error)
            },
        ]
        for answer in answers {
            let once = try conversation(in: stage), twice = try conversation(in: stage)
            try answer(once)
            for _ in 0..<2 { try answer(twice) }
            let said = once.said()
            // Each warning is one of its own.
            #expect(Set(twice.said()) == Set(said), "\(stage)")
        }
    }

    @Test func aDownloadThatGoesBackEndsItsSession() throws {
        let conversation = try conversation(in: .running)
        try conversation.expose(9)
        #expect(conversation.said() == ["scan 1 0 0"])
        try conversation.download(to: 4, latest: 9)
        #expect(conversation.said() == ["download 1 4 0 9 5 0 0 0 0 0 0\n", "scan 1 4 0"])
        try conversation.download(to: 3, latest: 9)
        let said = conversation.said()
        #expect(said.first == "ask 1 close", "it lets go of its file, so that the client can come back")
        #expect(said.map(errorCode) == [nil, 201])
        #expect(conversation.receive("unbind 1\n") == nil)

        let raced = try self.conversation(in: .running)
        try raced.expose(9)
        #expect(raced.said() == ["scan 1 0 0"])
        try raced.download(to: 9)
        #expect(raced.said().count == 1)
        try raced.expose(10)
        #expect(raced.said() == ["scan 1 9 0"])
        try raced.download(to: 3)
        #expect(raced.receive("unbind 1\n") == .ask(try raced.handle(1), .close))
        #expect(raced.said() == ["unbound 1\n"])
    }

    @Test func whatFollowsAnIdentIsTakenBeforeItsCheckIsOver() throws {
        let conversation = try conversation(in: .checking)
        #expect(reaction(conversation.receive(Message.upload.rawValue)) == .integrate)
        conversation.receive("mark 1 8\n")
        #expect(conversation.said() == [])
        try conversation.accept(at: 3, exposed: 3)
        #expect(conversation.said() == ["scan 1 3 0"])
        try conversation.download(to: 3)
        #expect(conversation.said() == ["download 1 3 0 3 5 0 0 0 0 0 0\n", "mark 1 8\n"])
    }

    @Test func whatFollowsARefusedIdentIsSwallowed() throws {
        let conversation = try conversation(in: .checking)
        try conversation.fail(1, ErrorMessage(.badServerVersion))
        #expect(conversation.said().map(errorCode) == [209])
        for message in [Message.mark, .upload, .error, .ident, .testCommand] {
            #expect(conversation.receive(message.rawValue) == nil)
        }
        #expect(conversation.receive("mark 1 x\n")?.violation == .badSyntax, "swallowed, but it must be well formed")
    }

    // MARK: - When a running session may send

    @Test func theFirstDownloadIsSentEvenIfItIsEmpty() throws {
        let conversation = try Conversation()
        try conversation.run()
        #expect(conversation.said() == [])
    }

    @Test func aVersionExposedDuringTheCheckIsNotForgotten() throws {
        let conversation = try conversation(in: .checking)
        try conversation.expose(5)
        try conversation.accept(at: 3, exposed: 4)
        #expect(conversation.said() == ["scan 1 3 0"])
        try conversation.download(to: 4)
        #expect(conversation.said() == ["download 1 4 0 4 5 0 0 0 0 0 0\n", "scan 1 4 0"])
    }

    @Test func aNewVersionIsDownloadedOnce() throws {
        let conversation = try conversation(in: .running)
        try conversation.expose(2)
        try conversation.expose(5)
        try conversation.expose(3)
        #expect(conversation.said() == ["scan 1 0 0"])
        try conversation.download(to: 5)
        #expect(conversation.said() == ["download 1 5 0 5 5 0 0 0 0 0 0\n"])
        try conversation.expose(5)
        #expect(conversation.said() == [])
    }

    @Test func aScanThatStopsShortIsFollowedByAnother() throws {
        let conversation = try conversation(in: .running)
        try conversation.expose(9)
        #expect(conversation.said() == ["scan 1 0 0"])
        try conversation.download(to: 4, latest: 9)
        #expect(conversation.said() == ["download 1 4 0 9 5 0 0 0 0 0 0\n", "scan 1 4 0"])
        try conversation.download(to: 9)
        #expect(conversation.said() == ["download 1 9 0 9 5 0 0 0 0 0 0\n"])
    }

    @Test func markWaitsForEverythingExposed() throws {
        let conversation = try conversation(in: .downloading)
        conversation.receive("mark 1 1\n")
        #expect(conversation.said() == [])
        try conversation.expose(6)
        try conversation.download(to: 4)
        #expect(conversation.said() == ["download 1 4 0 4 5 0 0 0 0 0 0\n", "scan 1 4 0"])
        try conversation.download(to: 6)
        #expect(conversation.said() == ["download 1 6 0 6 5 0 0 0 0 0 0\n", "mark 1 1\n"])
    }

    @Test func onlyTheLatestMarkIsAnswered() throws {
        let conversation = try conversation(in: .running)
        conversation.receive("mark 1 4\n")
        conversation.receive("mark 1 5\n")
        #expect(conversation.said() == ["mark 1 5\n"])
        conversation.receive("mark 1 5\n")
        #expect(conversation.said() == ["mark 1 5\n"], "asked again after a lost connection")
    }

    @Test func aCompensatingWriteIsToldBeforeItsDownload() throws {
        let conversation = try conversation(in: .running)
        var error = ErrorMessage(.compensatingWrite)
        for version in [5, 6] as [ServerVersion] {
            error.rejection = ErrorMessage.Rejection(clientVersion: 3, serverVersion: version, updates: [])
            try conversation.warn(1, error)
        }
        try conversation.expose(6)
        let said = conversation.said()
        #expect(said.map(errorCode) == [231, 231, nil])
        #expect(said.first?.contains("\"compensatingWriteServerVersion\":5") == true)
        #expect(said.last == "scan 1 0 0", "the session goes on")
    }

    /// A client that goes on to upload in a failed session makes no work.
    @Test func whatAFailedSessionUploadsIsNotLookedAt() throws {
        let garbage = "upload 1 1 1000 7 0 0 0\nno zlib"
        let failed = try conversation(in: .running)
        try failed.fail(1, ErrorMessage(.badClientFile))
        #expect(failed.receive(garbage) == nil)
        #expect(failed.said().map(errorCode) == [217])
        #expect(failed.receive(garbage) == nil)
        #expect(failed.said() == [])
        #expect(try conversation(in: .running).receive(garbage)?.violation == .badDecompression)
    }

    // MARK: - A client's JSON_ERROR

    @Test(arguments: [(112, 217), (212, 217), (233, 217), (201, 201), (0, 201), (-5, 201), (104, 201), (9099, 201)])
    func aClientThatCannotIntegrateIsAnswered(reported: Int, answered: Int) throws {
        let conversation = try conversation(in: .running)
        let request = conversation.receive("json_error \(reported) 5 1\n{\"a\"}")
        guard case .clientFailed(_, let code, let text, let answer) = request else {
            Issue.record("\(String(describing: request))")
            return
        }
        #expect(code == reported)
        #expect(text == "{\"a\"}")
        #expect(answer?.code.rawValue == answered)
        let said = conversation.said()
        #expect(said.map(errorCode) == [answered])
        let isReset = answered == 217
        #expect(said.first?.contains("\"action\":\"\(isReset ? "ClientReset" : "Transient")\"") == true)
        #expect(said.first?.contains("\"tryAgain\":\(!isReset)") == true)
        #expect(said.first?.contains("\"backoffIntervalSec\":300") == !isReset)
    }

    @Test func theTextOfAClientsErrorIsCutAndRepaired() throws {
        let conversation = try conversation(in: .running)
        let noise = [UInt8](repeating: 0xFF, count: 1 << 20)
        let request = conversation.receive(bytes("json_error 1 \(noise.count) 1\n") + noise)
        guard case .clientFailed(_, _, let text, _) = request else {
            Issue.record("\(String(describing: request))")
            return
        }
        #expect(text == String(repeating: "\u{FFFD}", count: 1024))
    }
}
