import AnabranchCore
import AnabranchSimulation
import AnabranchTesting
import Testing

@testable import AnabranchProtocol

/// One session with its file, and what is said in bytes.
struct ClientRig {
    var session: ClientSession
    var file: MemoryFile
    private let version: ProtocolVersion
    private let mode: SyncMode

    init(_ mode: SyncMode = .partition, version: Int = 14, isFast: Bool = false, uploads: Bool = true) {
        self.mode = mode
        self.version = ProtocolVersion(version)
        file = MemoryFile(mode, keepsState: false)
        session =
            mode == .flexible
            ? ClientSession(1, uploads: uploads) : ClientSession(1, partition: bytes("\"p\""), uploads: uploads)
        session.connected(self.version, isFast: isFast)
    }

    /// Everything that it has to say.
    mutating func said() throws -> [String] {
        var said: [String] = []
        while let message = try session.next(&file) {
            said.append(text(ClientMessageCodec(mode: mode).encode(message).bytes))
        }
        return said
    }

    @discardableResult
    mutating func receive(_ message: String) throws -> ClientSession.Event? {
        let decoded = try ServerMessageCodec(mode: mode, version: version).decode(bytes(message))
        let event = try session.receive(decoded, file)
        if let event { try file.take(event, of: &session) }
        return event
    }

    mutating func reconnect(isFast: Bool) {
        session.disconnected()
        session.connected(version, isFast: isFast)
    }

    /// Brings it to where it runs, and the first MARK is answered.
    mutating func run() throws {
        _ = try said()
        try receive("ident 1 2 77\n")
        _ = try said()
        if mode == .flexible { try receive("download 1 1 0 1 5 0 0 0 1 1 0 12 0\n1 0 0 1 0 0 ") }
        try receive("mark 1 1\n")
        _ = try said()
    }

    func code(of message: String) -> ErrorCode? {
        var copy = self
        do {
            try copy.receive(message)
            return nil
        } catch {
            return (error as? ProtocolError)?.code
        }
    }
}

@Suite struct ClientSessionTests {
    // MARK: Beginning

    @Test func aNewFileAsksForItsIdent() throws {
        var rig = ClientRig()
        #expect(try rig.said() == ["bind 1 3 0 1 0\n\"p\""])
        #expect(try rig.receive("ident 1 2 77\n") == .ident(SaltedFileID(ident: 2, salt: 77)))
        #expect(try rig.said() == ["ident 1 2 77 0 0 0 0\n", "mark 1 1\n"])
        rig.reconnect(isFast: true)
        #expect(try rig.said() == ["bind 1 3 0 0 0\n\"p\"", "ident 1 2 77 0 0 0 0\n", "mark 1 1\n"])
    }

    @Test func flexibleSyncSaysItsSubscriptions() throws {
        var rig = ClientRig(.flexible)
        #expect(try rig.said() == [#"bind 1 37 0 1 0"# + "\n" + #"{"schemaVersion":0,"sessionReason":0}"#])
        try rig.receive("ident 1 2 77\n")
        #expect(try rig.said() == ["ident 1 2 77 0 0 0 0 0 2\n{}", "mark 1 1\n"])
    }

    // MARK: Uploads and MARK

    /// Of the transaction that `MemoryFile.commit` makes.
    private static let upload = "upload 1 0 14 0 2 0 0\n2 0 1 0 4 ?\0\u{1}A"

    @Test func changesWaitForTheFirstMarkUnlessTheConnectionIsBackSoon() throws {
        var rig = ClientRig()
        try rig.run()
        try rig.file.commit()
        rig.reconnect(isFast: false)
        #expect(try rig.said() == ["bind 1 3 0 0 0\n\"p\"", "ident 1 2 77 0 0 0 0\n", "mark 1 2\n"])
        #expect(try rig.receive("mark 1 2\n") == .marked(2, complete: nil))
        #expect(try rig.said() == [Self.upload])
        rig.reconnect(isFast: true)
        #expect(try rig.said() == ["bind 1 3 0 0 0\n\"p\"", "ident 1 2 77 0 0 0 0\n", Self.upload])
    }

    /// A disk failed when the answer came: nobody else would ask again on a fast reconnect.
    @Test func aMarkWhoseAnswerWasNotStoredIsSentAgain() throws {
        var rig = ClientRig()
        try rig.run()
        rig.file.needsMark = true
        rig.reconnect(isFast: true)
        #expect(try rig.said() == ["bind 1 3 0 0 0\n\"p\"", "ident 1 2 77 0 0 0 0\n", "mark 1 2\n"])
        #expect(try rig.receive("mark 1 2\n") == .marked(2, complete: nil))
        rig.file.needsMark = false
        rig.reconnect(isFast: true)
        #expect(try rig.said() == ["bind 1 3 0 0 0\n\"p\"", "ident 1 2 77 0 0 0 0\n"])
    }

    @Test func aFreshFileOfAResetUploadsNothing() throws {
        var rig = ClientRig(uploads: false)
        try rig.run()
        try rig.file.commit()
        #expect(try rig.said() == [])
    }

    @Test func onlyTheLatestMarkIsSent() throws {
        var rig = ClientRig(isFast: true)
        #expect(rig.session.requestMark() == 1)
        #expect(rig.session.requestMark() == 2)
        _ = try rig.said()
        try rig.receive("ident 1 2 77\n")
        #expect(try rig.said().last == "mark 1 2\n")
        #expect(rig.session.requestMark() == 3)
        #expect(try rig.said() == ["mark 1 3\n"])
        #expect(rig.code(of: "mark 1 4\n") == .badMessageOrder)
        #expect(try rig.receive("mark 1 3\n") == .marked(3, complete: nil))
        #expect(rig.code(of: "mark 1 2\n") == .badMessageOrder, "it was skipped")
        #expect(rig.code(of: "mark 1 3\n") == .badMessageOrder)
    }

    // MARK: Subscription sets

    @Test func queriesStandBetweenTheUploads() throws {
        var rig = ClientRig(.flexible)
        try rig.run()
        try rig.file.commit([0x3f, 0, 1, 0x41])
        _ = try rig.file.subscribe(#"{"A":"x"}"#)
        try rig.file.commit([0x3f, 0, 1, 0x42])
        let said = try rig.said()
        #expect(said.map { $0.prefix(8) } == ["upload 1", "query 1 ", "mark 1 2", "upload 1"])
        #expect(said[1] == "query 1 1 9\n{\"A\":\"x\"}")
    }

    @Test func aSetIsCompleteWhenTheMarkBehindItIsAnswered() throws {
        var rig = ClientRig(.flexible)
        try rig.run()
        _ = try rig.file.subscribe("{}")
        #expect(try rig.said().suffix(2) == ["query 1 1 2\n{}", "mark 1 2\n"])
        #expect(rig.code(of: "mark 1 2\n") == .badMessageOrder, "before the bootstrap")
        try rig.receive("download 1 2 0 2 5 0 0 1 0 0 0 12 0\n2 0 0 1 0 0 ")
        #expect(rig.file.sets?.state(of: 1) == .bootstrapping)
        try rig.receive("download 1 2 0 2 5 0 0 1 1 1 0 0 0\n")
        #expect(rig.file.sets?.state(of: 1) == .awaitingMark)
        #expect(try rig.receive("mark 1 2\n") == .marked(2, complete: 1))
        #expect(rig.file.sets?.state(of: 1) == .complete)
    }

    /// `Spec/FlexibleSync.md`, section 2.11: what kills released clients is a violation here.
    @Test func mistakesOfServersAreViolations() throws {
        var rig = ClientRig(.flexible)
        try rig.run()
        _ = try rig.file.subscribe("{}")
        _ = try rig.said()
        let mistakes = [
            "download 1 2 0 2 5 0 0 1 1 1 0 0 0\n",  // a bootstrap without a changeset
            "download 1 2 0 2 5 0 0 7 1 1 0 12 0\n2 0 0 1 0 0 ",  // of an unknown set
            "query_error 226 2 1 7\nno", "query_error 226 2 1 0\nno",
        ]
        for mistake in mistakes { #expect(rig.code(of: mistake) == .badMessageOrder, "\(mistake)") }
        #expect(try rig.receive("query_error 226 2 1 1\nno") != nil)
        #expect(rig.code(of: "query_error 226 2 1 1\nno") == .badMessageOrder, "twice")
        #expect(
            rig.code(of: "download 1 2 0 2 5 0 0 1 1 1 0 12 0\n2 0 0 1 0 0 ") == .badMessageOrder, "it was refused")
    }

    @Test(arguments: [11, 13])
    func belowVersion14SteadyStateIsTheEndOfTheActiveSet(version: Int) throws {
        var rig = ClientRig(.flexible, version: version)
        _ = try rig.said()
        try rig.receive("ident 1 2 77\n")
        _ = try rig.said()
        #expect(
            kind(try rig.receive("download 1 1 0 1 5 0 0 0 1 0 0 12 0\n1 0 0 1 0 0 ")) == .bootstrap(0, isLast: true))
        #expect(kind(try rig.receive("download 1 2 0 2 5 0 0 0 1 0 0 12 0\n2 0 0 1 0 0 ")) == .steady)
        #expect(kind(try rig.receive("download 1 2 0 2 5 0 0 0 1 0 0 0 0\n")) == .steady)
    }

    private func kind(_ event: ClientSession.Event?) -> DownloadKind? {
        if case .download(_, let kind) = event { kind } else { nil }
    }

    // MARK: Downloads

    /// Each of the checks of `Spec/Protocol.md`, section 5.2.
    @Test(arguments: [
        "2 0 4 5 1 0 0 0 0 0\n", "3 0 3 5 0 0 0 0 0 0\n", "4 0 4 5 9 0 0 0 0 0\n", "2 0 4 5 1 0 0 0 0 0\n",
        "5 0 4 5 1 0 0 0 0 0\n", "4 2 4 5 1 0 0 0 0 0\n", "4 0 4 5 1 5 0 0 0 0\n",
        "4 0 4 5 1 0 0 0 12 0\n3 0 1 3 0 0 ", "4 0 4 5 1 0 0 0 12 0\n5 0 1 3 0 0 ",
        "5 0 5 5 1 0 0 0 24 0\n4 0 1 3 0 0 4 0 1 3 0 0 ", "4 0 4 5 1 0 0 0 12 0\n4 1 1 3 0 0 ",
        "4 0 4 5 1 0 0 0 12 0\n4 0 1 2 0 0 ", "4 0 4 5 1 0 0 0 12 0\n4 0 1 0 0 0 ",
    ])
    func downloadsAreChecked(rest: String) throws {
        var rig = ClientRig()
        try rig.run()
        try rig.receive("download 1 3 0 4 5 1 0 0 0 0 0\n")
        #expect(rig.code(of: "download 1 4 1 4 5 1 0 0 0 12 0\n4 1 1 3 0 0 ") == nil)
        #expect(rig.code(of: "download 1 " + rest) == .badSyntax)
    }

    @Test func whatCannotBeIntegratedIsTold() throws {
        var rig = ClientRig()
        try rig.run()
        let message = try ServerMessageCodec().decode(bytes("download 1 3 0 4 5 0 0 0 0 0 0\n"))
        _ = try rig.session.receive(message, rig.file)
        rig.session.integrationFailed(.badChangeset, "no \"A\"")
        _ = rig.session.requestMark()
        #expect(try rig.said() == ["json_error 212 22 1\n" + #"{"message":"no \"A\""}"#])
        #expect(try rig.receive("download 1 3 0 4 5 0 0 0 0 0 0\n") == nil)
        #expect(try rig.said() == [])
        rig.session.unbind()
        #expect(try rig.said() == ["unbind 1\n"])
    }

    @Test func oldServersAreNotToldOfFailures() throws {
        var rig = ClientRig(version: 6)
        try rig.run()
        let message = try ServerMessageCodec().decode(bytes("download 1 3 0 4 5 0 0 0 0 0 0\n"))
        _ = try rig.session.receive(message, rig.file)
        rig.session.integrationFailed(.otherSessionError, "")
        #expect(try rig.said() == [])
    }

    // MARK: Errors

    @Test func aSuspendedSessionGoesOnWhenItIsTold() throws {
        var rig = ClientRig()
        try rig.run()
        try rig.receive(ClientWorld.Step.error(200, 1))
        #expect(try rig.said() == ["unbind 1\n"])
        #expect(rig.session.isWaitingToResume)
        rig.reconnect(isFast: true)
        #expect(try rig.said() == [], "also on another connection")
        rig.session.resume()
        #expect(try rig.said() == ["bind 1 3 0 0 0\n\"p\"", "ident 1 2 77 0 0 0 0\n"])
    }

    @Test func aResumedSessionUploadsAtOnce() throws {
        var rig = ClientRig()
        try rig.run()
        try rig.file.commit()
        try rig.receive(ClientWorld.Step.error(201, 1))
        rig.session.resume()
        #expect(
            try rig.said() == [
                "unbind 1\n", "bind 1 3 0 0 0\n\"p\"", "ident 1 2 77 0 0 0 0\n", Self.upload,
            ])
    }

    @Test func aMigrationOfTheSchemaEndsTheSessionInOrder() throws {
        var rig = ClientRig(.flexible)
        try rig.run()
        guard case .failed(let error) = try rig.receive(ClientWorld.Step.error(236, 1)) else {
            Issue.record("no error")
            return
        }
        #expect(error.code == .schemaVersionChanged)
        #expect(try rig.said() == ["unbind 1\n"])
        #expect(try rig.receive("unbound 1\n") == .unbound)
        #expect(rig.session.isFinished)
    }

    @Test func compensatingWritesAreToldWithTheirUndo() throws {
        var rig = ClientRig()
        try rig.run()
        try rig.receive(ClientWorld.Step.error(231, 1))
        try rig.receive("download 1 1 0 2 5 0 0 0 0 0 0\n")
        #expect(rig.file.compensations.isEmpty)
        try rig.receive("download 1 2 0 2 5 0 0 0 0 12 0\n2 0 1 3 0 0 ")
        #expect(rig.file.compensations.map(\.code) == [.compensatingWrite])
        try rig.receive(ClientWorld.Step.error(231, 1))
        rig.reconnect(isFast: true)
        _ = try rig.said()
        try rig.receive("download 1 3 0 3 5 0 0 0 0 0 0\n")
        #expect(rig.file.compensations.count == 1, "forgotten with the connection")
    }

    @Test func compensatingWritesHaveABound() throws {
        var limits = Limits(), writes = CompensatingWrites()
        limits.compensatingWriteBytesMax = 1000
        var error = ErrorMessage(.compensatingWrite)
        error.rejection = ErrorMessage.Rejection(clientVersion: 1, serverVersion: 2, updates: [])
        try writes.hold(error, limits)
        error.message = String(repeating: "x", count: 1000)
        var copy = writes
        #expect(throws: ProtocolError.self) { try copy.hold(error, limits) }
        #expect(writes.release(through: 2).count == 1)
        error.rejection?.updates = [ErrorMessage.Rejection.Update(reason: "", table: "A", primaryKey: "AQ")]
        error.message = ""
        #expect(throws: ProtocolError.self, "no key") { try writes.hold(error, limits) }
        error.rejection = nil
        #expect(throws: ProtocolError.self, "no version") { try writes.hold(error, limits) }
    }

    // MARK: The end

    @Test func anEndIsSaidOnceAndOnlyIfTheServerKnows() throws {
        var new = ClientRig()
        new.session.unbind()
        #expect(new.session.isFinished)
        #expect(try new.said() == [])

        var asked = ClientRig()
        _ = try asked.said()
        asked.session.unbind()
        #expect(try asked.said() == ["unbind 1\n"])
        #expect(try asked.receive("ident 1 2 77\n") == nil, "too late")
        #expect(try asked.receive("unbound 1\n") == .unbound)

        var failed = ClientRig()
        try failed.run()
        try failed.receive(ClientWorld.Step.error(201, 1))
        failed.session.unbind()
        #expect(!failed.session.isFinished)
        #expect(try failed.said() == ["unbind 1\n"])
        #expect(failed.session.isFinished, "no UNBOUND comes")

        var lost = ClientRig()
        try lost.run()
        lost.session.unbind()
        lost.session.disconnected()
        #expect(lost.session.isFinished)
    }
}
