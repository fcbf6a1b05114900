import AnabranchCore
import Testing

@testable import AnabranchProtocol

/// The samples and tables of `Spec/FlexibleSync.md`, sections 1.2 to 1.6.
@Suite struct FlexibleMessageTests {
    private let codec = ClientMessageCodec(mode: .flexible)

    private func decode(_ message: String) throws -> ClientMessage { try codec.decode(bytes(message)) }

    private func code(_ message: String) -> ErrorCode? { violation(bytes(message), mode: .flexible) }

    // MARK: - From clients

    @Test func bind() throws {
        let sample = "bind 1 37 0 1 0\n{\"schemaVersion\":0,\"sessionReason\":0}"
        let request = BindRequest(flexible: FlexibleBind(), needsFileIdent: true)
        #expect(try decode(sample) == .bind(session: 1, request))
        #expect(text(codec.encode(.bind(session: 1, request)).bytes) == sample)
        #expect(
            try decode("bind 1 0 0 0 0\n")
                == .bind(session: 1, BindRequest(flexible: nil, needsFileIdent: false)))
    }

    @Test(arguments: [
        ("{}", FlexibleBind()), (#"{"migratedPartition":"\"p\""}"#, FlexibleBind(migratedPartition: "\"p\"")),
        (#" {"sessionReason" : 1, "later": [{}]} "#, FlexibleBind(sessionReason: 1)),
        (#"{"sessionReason":0,"schemaVersion":7}"#, FlexibleBind(schemaVersion: 7)),
    ])
    func whatABindLeavesOutIsNothing(json: String, expected: FlexibleBind) throws {
        #expect(
            try decode("bind 1 \(json.utf8.count) 3 0 0\n\(json)abc")
                == .bind(session: 1, BindRequest(flexible: expected, needsFileIdent: false)))
    }

    @Test(arguments: [
        "[]", "1", "\"p\"", "{", "x", #"{"schemaVersion":-1}"#, #"{"schemaVersion":"1"}"#, #"{"sessionReason":null}"#,
        #"{"migratedPartition":1}"#, #"{"a":1,"a":1}"#,
    ])
    func anotherBodyOfABindIs103(json: String) {
        #expect(code("bind 1 \(json.utf8.count) 0 0 0\n\(json)") == .badSyntax)
    }

    @Test func ident() throws {
        let sample = "ident 1 2 777 3 0 3 99 1 23\n{\"A\":\"(TRUEPREDICATE)\"}"
        let request = IdentRequest(
            file: SaltedFileID(ident: 2, salt: 777), download: DownloadCursor(serverVersion: 3),
            latest: SaltedVersion(version: 3, salt: 99),
            subscriptions: SubscriptionSet(version: 1, query: bytes("{\"A\":\"(TRUEPREDICATE)\"}")))
        #expect(try decode(sample) == .ident(session: 1, request))
        #expect(text(codec.encode(.ident(session: 1, request)).bytes) == sample)
        guard case .ident(1, let first) = try decode("ident 1 2 777 0 0 0 0 0 2\n{}") else {
            Issue.record("no IDENT")
            return
        }
        #expect(first.subscriptions == SubscriptionSet.none)
    }

    @Test func query() throws {
        let sample = "query 1 1 16\n{\"A\":\"(n == 7)\"}"
        let message = ClientMessage.query(
            session: 1, SubscriptionSet(version: 1, query: bytes("{\"A\":\"(n == 7)\"}")))
        #expect(try decode(sample) == message)
        #expect(text(codec.encode(message).bytes) == sample)
    }

    @Test(arguments: [
        "ident 1 2 3 4 5 6 7\n", "ident 1 2 3 4 5 6 7 0\n{}", "ident 1 2 3 4 5 6 7 0 3\n{}",
        "ident 1 2 3 4 5 6 7 -1 2\n{}", "ident 1 2 3 4 5 6 7 0 1\n{}", "ident 1 2 3 4 5 6 7 0 2 0\n{}",
        "ident 1 2 3 4 5 6 7 0 9223372036854775808\n{}", "query 1 2\n{}", "query 1 -2 2\n{}", "query 0 2 2\n{}",
        "query 1 2 1\n{}", "query 1 2 3\n{}", "query 1 9223372036854775808 2\n{}", "query 1 2 2 \n{}", "query",
        "query\n",
    ])
    func anotherHeadIs103(message: String) {
        #expect(code(message) == .badSyntax)
    }

    @Test(arguments: ["queries 1 1 2\n{}", "query_error 1 0 1 1\n", "download 1 0 0 0 0 0 0 0 0 0 0 0 0\n"])
    func otherTypesAre102(message: String) {
        #expect(code(message) == .unknownMessage)
    }

    @Test func whatTheOtherModeSaysIsRefused() {
        #expect(violation(bytes("query 1 1 2\n{}")) == .unknownMessage)
        #expect(violation(bytes("ident 1 2 777 0 0 0 0 0 2\n{}")) == .badSyntax)
        #expect(code("bind 1 10 0 1 0\n\"testpart\"") == .badSyntax)
    }

    @Test(arguments: ["ident 1 2 777 0 0 0 0 0", "query 1 1"])
    func aQueryHasItsLimit(head: String) {
        func code(_ count: Int) -> ErrorCode? {
            violation(bytes("\(head) \(count)\n") + [UInt8](repeating: 0x20, count: count), mode: .flexible)
        }
        #expect(code(262_144) == nil)
        #expect(code(262_145) == .badSyntax)
    }

    // MARK: - From servers

    private func codec(_ version: Int) -> ServerMessageCodec {
        ServerMessageCodec(mode: .flexible, version: ProtocolVersion(version))
    }

    private func download(
        _ version: ServerVersion, _ batch: QueryBatch, changesets: [DownloadedChangeset] = []
    ) -> ServerMessage {
        let progress = DownloadProgress(
            cursor: DownloadCursor(serverVersion: version), latest: SaltedVersion(version: version, salt: 99),
            upload: UploadCursor(), downloadableBytes: 0)
        return .download(
            session: 1, DownloadMessage(Download(progress: progress, changesets: changesets), batch: batch))
    }

    @Test func theDownloadsOfTheChapter() throws {
        let nothing = DownloadedChangeset(
            cursor: DownloadCursor(serverVersion: 2), tag: OriginTag(timestamp: 0, ident: 1), changeset: [])
        let end = download(2, QueryBatch(version: 1, state: .last), changesets: [nothing])
        #expect(text(codec(14).encode(end).bytes) == "download 1 2 0 2 99 0 0 1 1 1 0 12 0\n2 0 0 1 0 0 ")
        #expect(try codec(14).decode(codec(14).encode(end).bytes) == end)
        let part = download(2, QueryBatch(version: 1, state: .more, estimate: 0.4))
        #expect(text(codec(14).encode(part).bytes) == "download 1 2 0 2 99 0 0 1 0 0.4 0 0 0\n")
        let steady = download(3, QueryBatch(version: 1, state: .steady))
        #expect(text(codec(14).encode(steady).bytes) == "download 1 3 0 3 99 0 0 1 2 1 0 0 0\n")
    }

    /// The table of section 1.5: which batch and which progress go to whom.
    @Test(arguments: ProtocolVersion.supported)
    func batchAndProgressDependOnTheVersion(version: Int) {
        let texts = QueryBatch.State.allCases.map { state in
            let message = download(0, QueryBatch(version: 7, state: state, estimate: 0.25))
            return text(codec(version).encode(message).head).dropFirst("download 1 0 0 0 99 0 0 ".count).dropLast(7)
        }
        switch version {
        case ...11: #expect(texts == ["7 0 0", "7 1 0", "7 1 0"])
        case 12, 13: #expect(texts == ["7 0 0.25", "7 1 0.25", "7 1 0.25"])
        default: #expect(texts == ["7 0 0.25", "7 1 0.25", "7 2 0.25"])
        }
    }

    @Test(arguments: [
        (0.0, "0"), (1.0, "1"), (0.4, "0.4"), (0.0625, "0.0625"), (0.00004, "0"), (0.99996, "1"), (0.1, "0.1"),
        (0.00012, "0.0001"), (-1.0, "0"), (7.0, "1"), (1.0 / 3, "0.3333"), (-.infinity, "0"),
        (.infinity, "1"), (.nan, "0"),
    ])
    func theEstimateIsWrittenInSmallSteps(estimate: Double, text: String) {
        #expect(QueryBatch(version: 1, state: .last, estimate: estimate).estimateText == text)
    }

    private func isRead(_ fields: String, _ version: Int) -> Bool {
        do throws(ProtocolError) {
            _ = try codec(version).decode(bytes("download 1 0 0 0 0 0 0 \(fields) 0 0 0\n"))
            return true
        } catch {
            #expect(error.code == .badSyntax)
            return false
        }
    }

    @Test func whatClientsRefuseOfADownloadIsRefused() {
        for good in ["1 2 1", "1 0 0.5", "1 1 1e-3", "1 1 1.0", "1 2 0.12345678901234567", "0 0 0"] {
            #expect(isRead(good, 14), "\(good)")
        }
        for bad in [
            "-1 2 1", "1 3 1", "1 256 1", "1 -1 1", "1 2 1.1", "1 2 -0.1", "1 2 nan", "1 2 inf", "1 2 x", "1 2 ",
            "1 2 0x1", "1 2 1e", "1 2 0.1234567890123456789012345", "1 2", "9223372036854775808 2 1",
        ] {
            #expect(!isRead(bad, 14), "\(bad)")
        }
        #expect(isRead("1 2 5000", 11) && isRead("1 7 0", 2), "a boolean and a count of bytes")
        #expect(!isRead("1 1 0.5", 11) && isRead("1 1 0.5", 12))
    }

    @Test func queryErrorAndTestCommand() throws {
        let refusal = ServerMessage.queryError(session: 1, QueryRefusal(version: 4, message: "Invalid query: ä"))
        #expect(text(codec(14).encode(refusal).bytes) == "query_error 226 17 1 4\nInvalid query: ä")
        #expect(try codec(14).decode(codec(14).encode(refusal).bytes) == refusal)
        let answer = ServerMessage.testCommand(session: 1, request: 5, body: bytes("{}"))
        #expect(text(codec(14).encode(answer).bytes) == "test_command 1 5 2\n{}")
        for bad in [
            "query_error 226 1 1 4\nab", "query_error 226 0 0 4\n", "query_error 226 0 1 -4\n", "query_error x 0 1 4\n",
            "query_error 2147483648 0 1 4\n", "test_command 1 0 0\n", "test_command 1 1 1\n",
        ] {
            #expect(throws: ProtocolError.self, "\(bad)") { try codec(14).decode(bytes(bad)) }
        }
    }

    // MARK: - The objects of errors 230 and 231

    private static let objectID: [UInt8] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
    private static let uuid = objectID + [13, 14, 15, 255]

    @Test(arguments: [
        (PrimaryKey.int(9), "AQk="), (.null, "AA=="), (.int(-1), "AUA="), (.int(.max), "Af///////////wA="),
        (.string(Array("x".utf8)), "AwF4"), (.string([]), "AwA="),
        (ObjectID(objectID).map { .objectID($0) } ?? .null, "CgECAwQFBgcICQoLDA=="),
        (UUIDBytes(uuid).map { .uuid($0) } ?? .null, "CwECAwQFBgcICQoLDA0OD/8="),
    ])
    func keysTravelAsBase64(key: PrimaryKey, text: String) {
        let update = ErrorMessage.Rejection.Update(reason: "no", table: "A", key: key)
        #expect(update.primaryKey == text)
        #expect(update.key == key)
    }

    @Test(arguments: ["", "AQk", "AQ==", "AQkA", "AgE=", "Av8=", "AwJ4", "CgEC", "A===", "AQk=\n", "%%%%", "P/8BAg=="])
    func otherTextsAreNoKeys(text: String) {
        #expect(ErrorMessage.Rejection.Update(reason: "", table: "", primaryKey: text).key == nil)
    }

    @Test func aCompensatingWriteNamesVersionAndObjects() throws {
        var error = ErrorMessage(.compensatingWrite)
        error.rejection = ErrorMessage.Rejection(
            clientVersion: 5, serverVersion: 12,
            updates: [ErrorMessage.Rejection.Update(reason: "not allowed", table: "Dog", key: .int(9))])
        let said = text(codec(14).encode(.error(session: 3, error)).bytes)
        #expect(
            said.hasSuffix(
                #""rejectedUpdates":[{"reason":"not allowed","table":"Dog","pk":"AQk="}],"rejectedClientVersion":5,"#
                    + #""compensatingWriteServerVersion":12}"#))
        #expect(try codec(14).decode(bytes(said)) == .error(session: 3, error))
        error = ErrorMessage(.writeNotAllowed)
        error.rejection = ErrorMessage.Rejection(clientVersion: 5, updates: [])
        #expect(try codec(14).decode(codec(14).encode(.error(session: 3, error)).bytes) == .error(session: 3, error))
    }
}
