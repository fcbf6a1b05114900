import AnabranchCore
import AnabranchProtocol
import AnabranchSimulation
import AnabranchTesting
import Testing

/// The model of a client of flexible sync: what `Spec/FlexibleSync.md`, part 2, says of the real one.
@Suite struct FlexibleClientTests {
    private static let newest = CoreVersion(14, 14)

    /// A client that has sent what it can say, and has got the bootstrap of set 0 unless it is told otherwise.
    private func client(
        _ release: CoreVersion = newest, _ version: Int = 14, hasBootstrap: Bool = true, acceptsStaleParts: Bool = false
    ) throws -> FlexibleClient {
        var client = FlexibleClient(release: release, acceptsStaleParts: acceptsStaleParts)
        client.connect(ProtocolVersion(version))
        _ = client.says()
        try client.receive(.ident(session: 1, SaltedFileID(ident: 2, salt: 7)))
        _ = client.says()
        if hasBootstrap {
            try client.receive(Self.download(1, 0, .last, entries: [1]))
            try client.receive(.mark(session: 1, request: 1))
            _ = client.says()
        }
        return client
    }

    /// Changesets of zero bytes with these versions.
    private static func download(
        _ version: ServerVersion, _ query: QueryVersion, _ state: QueryBatch.State, entries: [ServerVersion] = [],
        estimate: Double = 1
    ) -> ServerMessage {
        let changesets = entries.map {
            DownloadedChangeset(
                cursor: DownloadCursor(serverVersion: $0), tag: OriginTag(timestamp: 0, ident: 1), changeset: [])
        }
        let progress = DownloadProgress(
            cursor: DownloadCursor(serverVersion: version), latest: SaltedVersion(version: version, salt: 5),
            upload: UploadCursor(), downloadableBytes: 0)
        return .download(
            session: 1,
            DownloadMessage(
                Download(progress: progress, changesets: changesets),
                batch: QueryBatch(version: query, state: state, estimate: estimate)))
    }

    private func refusal(_ version: QueryVersion) -> ServerMessage {
        .queryError(session: 1, QueryRefusal(version: version, message: "no"))
    }

    private func compensation(_ version: ServerVersion?, key: String = "AQk=") -> ServerMessage {
        var error = ErrorMessage(.compensatingWrite)
        error.rejection = ErrorMessage.Rejection(
            clientVersion: 3, serverVersion: version,
            updates: [ErrorMessage.Rejection.Update(reason: "no", table: "A", primaryKey: key)])
        return .error(session: 1, error)
    }

    /// The row that the client would fail by.
    private func row(_ client: FlexibleClient, _ messages: ServerMessage...) throws -> String? {
        var client = client
        do {
            for message in messages { try client.receive(message) }
            return nil
        } catch let mistake as ProtocolViolation {
            return mistake.row
        }
    }

    // MARK: - What it says

    @Test(arguments: [
        (CoreVersion(12, 0), nil as FlexibleBind?), (CoreVersion(13, 18), nil), (CoreVersion(14, 14), FlexibleBind()),
    ])
    func aNewClientBindsAndIdentifies(release: CoreVersion, json: FlexibleBind?) throws {
        var client = FlexibleClient(release: release)
        client.connect(ProtocolVersion(14))
        #expect(client.says() == [.bind(session: 1, BindRequest(flexible: json, needsFileIdent: true))])
        try client.receive(.ident(session: 1, SaltedFileID(ident: 2, salt: 7)))
        let ident = IdentRequest(file: SaltedFileID(ident: 2, salt: 7), subscriptions: SubscriptionSet.none)
        #expect(client.says() == [.ident(session: 1, ident), .mark(session: 1, request: 1)])
    }

    /// `Spec/FlexibleSync.md`, section 1.4: `upload`, `query 1`, `mark`, `upload`, `query 2`, `mark`, `upload`.
    @Test func uploadsAreCutWhereSubscriptionsWereCommitted() throws {
        var client = try client()
        try client.write(at: 1) { try $0.addClass("A", key: "_id", .int) }
        #expect(try client.subscribe("{\"A\":\"a\"}") == 1)
        try client.write(at: 2) { try $0.create("A", key: 1) }
        #expect(try client.subscribe("{\"A\":\"b\"}") == 2)
        try client.write(at: 3) { try $0.create("A", key: 2) }
        let kinds = client.says().map { message in
            switch message {
            case .upload(_, let upload): "upload \(upload.changesetCount)"
            case .query(_, let set): "query \(set.version)"
            case .mark(_, let request): "mark \(request)"
            default: "?"
            }
        }
        #expect(kinds == ["upload 1", "query 1", "mark 2", "upload 1", "query 2", "mark 3", "upload 1"])
    }

    @Test func nothingIsUploadedOrAskedBeforeTheFirstMark() throws {
        var client = try client(hasBootstrap: false)
        _ = try client.subscribe("{}")
        try client.write(at: 1) { try $0.addClass("A", key: "_id", .int) }
        #expect(client.says() == [])
        client.connect(ProtocolVersion(14), isFast: true)
        #expect(client.says().count == 6, "bind, ident, mark, query, mark, upload")
    }

    @Test func afterAReconnectWhatIsPendingIsSentAgain() throws {
        var client = try client()
        for _ in 1...3 { _ = try client.subscribe("{}") }
        _ = client.says()
        try client.receive(refusal(2))
        try client.receive(Self.download(2, 1, .last, entries: [2]))
        client.connect(ProtocolVersion(14), isFast: true)
        let said = client.says()
        guard case .ident(_, let ident) = said[1] else {
            Issue.record("\(said)")
            return
        }
        #expect(ident.subscriptions?.version == 1)
        #expect(ident.download.serverVersion == 2)
        #expect(said.contains(.query(session: 1, SubscriptionSet(version: 3, query: Array("{}".utf8)))))
        #expect(!said.contains { if case .query(_, let set) = $0 { set.version < 3 } else { false } })
    }

    // MARK: - Subscription sets

    @Test(arguments: [
        (CoreVersion(12, 0), 4, SubscriptionSets.State.complete, SubscriptionSets.State.complete),
        (CoreVersion(14, 10), 13, .complete, .awaitingMark), (CoreVersion(14, 14), 14, .complete, .awaitingMark),
    ])
    func aSetBecomesActiveWithItsBootstrap(
        release: CoreVersion, version: Int, first: SubscriptionSets.State, second: SubscriptionSets.State
    ) throws {
        var client = try client(release, version)
        #expect(client.subscriptions.state(of: 0) == first)
        _ = try client.subscribe("{}")
        #expect(client.subscriptions.state(of: 1) == .pending)
        _ = client.says()
        try client.receive(Self.download(2, 1, .more, entries: [2]))
        #expect(client.subscriptions.state(of: 1) == .bootstrapping)
        #expect(client.subscriptions.active == 0)
        try client.receive(Self.download(2, 1, .last))
        #expect(client.subscriptions.state(of: 1) == second)
        #expect(client.subscriptions.active == 1)
        #expect(client.subscriptions.state(of: 0) == nil, "superseded")
        #expect(client.file?.download.serverVersion == 2)
        try client.receive(.mark(session: 1, request: 2))
        #expect(client.subscriptions.state(of: 1) == .complete)
        try client.checkNothingIsMissing()
    }

    @Test func theAnswerToAnOlderMarkLeavesTheSetWaiting() throws {
        var client = try client()
        _ = try client.subscribe("{}")
        _ = client.says()
        client.requestMark()
        _ = client.says()
        try client.receive(Self.download(2, 1, .last, entries: [2]))
        try client.receive(.mark(session: 1, request: 2))
        #expect(client.subscriptions.state(of: 1) == .awaitingMark)
        #expect(throws: ProtocolViolation.self) { try client.checkNothingIsMissing() }
        try client.receive(.mark(session: 1, request: 3))
        try client.checkNothingIsMissing()
    }

    @Test func partsOfABootstrapStayOverALostConnection() throws {
        for (accepts, expected) in [(true, nil), (false, "9")] {
            var client = try client(acceptsStaleParts: accepts)
            _ = try client.subscribe("{}")
            _ = client.says()
            try client.receive(Self.download(2, 1, .more, entries: [2]))
            client.connect(ProtocolVersion(14), isFast: true)
            _ = client.says()
            #expect(try row(client, Self.download(3, 1, .more, entries: [3])) == expected)
            client.restart()
            #expect(client.subscriptions.state(of: 1) == .pending)
            client.connect(ProtocolVersion(14), isFast: true)
            _ = client.says()
            #expect(try row(client, Self.download(3, 1, .more, entries: [3])) == nil)
        }
    }

    @Test func aTransientErrorDropsThePartsOfABootstrap() throws {
        var client = try client()
        _ = try client.subscribe("{}")
        _ = client.says()
        try client.receive(Self.download(2, 1, .more, entries: [2]))
        client.connect(ProtocolVersion(14), isFast: true)
        _ = client.says()
        try client.receive(.error(session: 1, ErrorMessage(.sessionClosed)))
        #expect(client.says() == [.unbind(session: 1)])
        client.resume()
        #expect(client.says().count > 3)
        try client.receive(Self.download(3, 1, .last, entries: [3]))
        #expect(client.subscriptions.active == 1)
    }

    // MARK: - What kills or resets a client (section 2.11)

    @Test func mistakesInBootstraps() throws {
        var client = try client()
        for _ in 1...3 { _ = try client.subscribe("{}") }
        _ = client.says()
        #expect(try row(client, Self.download(2, 1, .last)) == "1")
        #expect(try row(client, Self.download(2, 0, .last)) == "1", "row 5: meant as steady state")
        #expect(try row(client, Self.download(2, 0, .last, entries: [2])) == nil)
        #expect(try row(client, Self.download(2, 4, .last, entries: [2])) == "2")
        #expect(try row(client, refusal(1), Self.download(2, 1, .last, entries: [2])) == "2")
        #expect(
            try row(client, Self.download(2, 2, .more), Self.download(3, 1, .last, entries: [2])) == "3a")
        #expect(
            try row(client, Self.download(2, 1, .more), Self.download(3, 2, .last, entries: [3])) == nil,
            "a newer one may begin")
        #expect(try row(client, Self.download(2, 1, .more, estimate: 1.5)) == "4")
        let old = try self.client(CoreVersion(14, 10), 13)
        #expect(try row(old, Self.download(2, 0, .last)) == nil, "steady state")
        #expect(try row(old, Self.download(2, 1, .last, entries: [2])) == "2", "row 6")
        #expect(try row(old, Self.download(2, 0, .more, entries: [2])) == "2.2")
        #expect(try row(old, Self.download(2, 0, .steady)) == "1.5")
    }

    @Test func mistakesWithQueryErrorAndMark() throws {
        var client = try client()
        for _ in 1...2 { _ = try client.subscribe("{}") }
        _ = client.says()
        #expect(try row(client, refusal(1)) == nil)
        #expect(try row(client, refusal(1), refusal(1)) == "3")
        #expect(try row(client, refusal(0)) == "3")
        #expect(try row(client, refusal(7)) == "3")
        #expect(try row(client, Self.download(2, 2, .last, entries: [2]), refusal(1)) == "3", "superseded")
        #expect(try row(client, .mark(session: 1, request: 2)) == "7")
        #expect(try row(client, refusal(1), .mark(session: 1, request: 2)) == nil)
        #expect(try row(client, refusal(1), .mark(session: 1, request: 3)) == "7")
        #expect(try row(client, .mark(session: 1, request: 1)) == "Protocol 5.3")
        #expect(try row(client, .mark(session: 1, request: 9)) == "Protocol 5.3")
        let waiting = client
        let mistake = #expect(throws: ProtocolViolation.self) { try waiting.checkNothingIsMissing() }
        #expect(mistake?.row == "8")
    }

    @Test func compensatingWritesWaitForTheirVersion() throws {
        var client = try client()
        try client.receive(compensation(2))
        try client.receive(compensation(4))
        try client.receive(Self.download(2, 0, .steady))
        #expect(client.compensations.isEmpty, "a message without changesets is not looked at")
        try client.receive(Self.download(3, 0, .last, entries: [3]))
        #expect(client.compensations.isEmpty, "nor is a bootstrap")
        #expect(try row(client, Self.download(4, 0, .steady, entries: [3, 4])) == "13", "2 comes too late")
        client = try self.client()
        try client.receive(compensation(2))
        try client.receive(Self.download(3, 0, .steady, entries: [2, 3]))
        #expect(client.compensations.count == 1)
        #expect(try row(client, compensation(5), compensation(4)) == "13")
        #expect(try row(client, compensation(nil)) == "12")
        #expect(try row(client, compensation(5, key: "AgE=")) == "2.7")
        client.disconnect()
        #expect(try row(client, compensation(5)) == nil, "row 14: nobody is there")
        var old = try self.client(CoreVersion(13, 1), 7)
        try old.receive(compensation(5))
        #expect(old.compensations.count == 1, "told at once")
        #expect(try row(try self.client(CoreVersion(12, 0), 4), compensation(5)) == "Protocol 6")
    }

    @Test func otherMistakes() throws {
        let client = try client()
        var code = ErrorMessage(.badClientFile)
        code.code = .tokenExpired
        #expect(try row(client, .error(session: 1, code)) == "18")
        #expect(try row(client, .unbound(session: 1)) == "Protocol 8.2")
        #expect(try row(client, .ident(session: 1, SaltedFileID(ident: 3, salt: 1))) == "Protocol 8.2")
        let line = ServerMessage.log(session: 1, LogMessage(message: "m"))
        #expect(try row(client, line) == nil)
        #expect(try row(try self.client(CoreVersion(13, 18), 9), line) == "Protocol 5.7")
        #expect(try row(client, Self.download(0, 0, .steady)) == "Protocol 5.2.1")
        #expect(try row(client, Self.download(3, 0, .steady, entries: [4])) == "Protocol 5.2.6")
        #expect(try row(client, Self.download(3, 0, .steady, entries: [3, 2])) == "Protocol 5.2.6")
        #expect(try row(client, Self.download(3, 0, .steady, entries: [1, 3, 3])) == nil, "equal versions")
    }
}

extension FlexibleClient {
    /// Everything that it has to say.
    mutating func says() -> [ClientMessage] {
        var messages: [ClientMessage] = []
        while let message = next() { messages.append(message) }
        return messages
    }
}
