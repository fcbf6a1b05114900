import AnabranchCore
import AnabranchTesting
import Testing

@testable import AnabranchProtocol
import AnabranchTesting

@Suite struct ServerMessageCodecTests {
    private let codec = ServerMessageCodec()

    private func encoded(_ message: ServerMessage) -> String { text(codec.encode(message).bytes) }

    private func encoded(_ session: SessionID, _ progress: DownloadProgress, _ body: EncodedBody) -> String {
        text(codec.encodeDownload(session, progress, body).bytes)
    }

    @Test func messagesWithoutBody() {
        let file = SaltedFileID(ident: 2, salt: 4_611_686_018_427_387_904)
        #expect(encoded(.ident(session: 1, file)) == "ident 1 2 4611686018427387904\n")
        #expect(encoded(.mark(session: 1, request: 1)) == "mark 1 1\n")
        #expect(encoded(.unbound(session: SessionID(Int64.max))) == "unbound 9223372036854775807\n")
        #expect(encoded(.pong(timestamp: 81234)) == "pong 81234\n")
        #expect(encoded(.pong(timestamp: 0)) == "pong 0\n")
        #expect(encoded(.pong(timestamp: .min)) == "pong -9223372036854775808\n")
    }

    @Test func messagesWithJSON() {
        #expect(
            encoded(.error(session: 3, ErrorMessage(.badServerVersion))) == """
                json_error 209 140 3
                {"tryAgain":false,"message":"bad server version","logURL":"","shouldClientReset":true,\
                "isRecoveryModeDisabled":false,"action":"ClientReset"}
                """)
        #expect(
            encoded(.log(session: 0, LogMessage(message: "ä")))
                == "log_message 0 27\n{\"msg\":\"ä\",\"level\":\"info\"}")
    }

    @Test func theDownloadsOfSection14() {
        let first = DownloadProgress(
            cursor: DownloadCursor(), latest: SaltedVersion(), upload: UploadCursor(), downloadableBytes: 0)
        #expect(encoded(1, first, .empty) == "download 1 0 0 0 0 0 0 0 0 0 0\n")
        let acknowledgement = DownloadProgress(
            cursor: DownloadCursor(serverVersion: 1, clientVersion: 3),
            latest: SaltedVersion(version: 1, salt: 77001),
            upload: UploadCursor(clientVersion: 3, serverVersion: 0), downloadableBytes: 0)
        #expect(encoded(1, acknowledgement, .empty) == "download 1 1 3 1 77001 3 0 0 0 0 0\n")
    }

    private let header = DownloadProgress(
        cursor: DownloadCursor(serverVersion: 12, clientVersion: 5), latest: SaltedVersion(version: 13, salt: 99),
        upload: UploadCursor(clientVersion: 6, serverVersion: 4), downloadableBytes: 1000)

    @Test func aDownloadWithEntries() {
        let tag = OriginTag(timestamp: 374_544_000_000, ident: 1)
        let body = EncodedBody([
            DownloadedChangeset(cursor: DownloadCursor(serverVersion: 10), tag: tag, changeset: bytes("abc")),
            DownloadedChangeset(
                cursor: DownloadCursor(serverVersion: 12, clientVersion: 5), tag: tag, changeset: bytes("de"),
                originalBytes: 40),
        ])
        #expect(
            encoded(7, header, body)
                == "download 7 12 5 13 99 6 4 1000 0 54 0\n10 0 374544000000 1 3 3 abc12 5 374544000000 1 40 2 de")
        #expect(EncodedBody([]) == .empty)
    }

    private func body(changesetBytes: Int, _ generator: inout SeededRandom, alphabet: ClosedRange<UInt8>)
        -> EncodedBody
    {
        let changeset = (0..<changesetBytes).map { _ in UInt8.random(in: alphabet, using: &generator) }
        let tag = OriginTag(timestamp: 0, ident: 2)
        let cursor = DownloadCursor(serverVersion: 1)
        return EncodedBody([DownloadedChangeset(cursor: cursor, tag: tag, changeset: changeset)])
    }

    @Test func onlyABodyBeyondTheThresholdIsCompressed() throws {
        var generator = SeededRandom(seed: 1)
        let prefix = "1 0 0 2 1000 1000 ".utf8.count
        let short = body(changesetBytes: 1024 - prefix, &generator, alphabet: 0...1)
        #expect(short.uncompressedBytes == 1024)
        #expect(!short.isCompressed)
        let long = body(changesetBytes: 1025 - prefix, &generator, alphabet: 0...1)
        #expect(long.uncompressedBytes == 1025)
        #expect(long.isCompressed)

        let message = codec.encodeDownload(7, header, long)
        #expect(text(message.head) == "download 7 12 5 13 99 6 4 1000 1 1025 \(message.body.count)\n")
        #expect(message.body.count < 1025)
        let inflated = try BodyCompression.inflate(message.body[...], to: 1025, limits: Limits())
        #expect(text(Array(inflated.prefix(prefix))) == "1 0 0 2 1007 1007 ")
    }

    @Test func aBodyThatDoesNotShrinkIsSentAsItIs() {
        var generator = SeededRandom(seed: 2)
        let noise = body(changesetBytes: 5000, &generator, alphabet: 0...255)
        #expect(!noise.isCompressed)
        #expect(noise.bytes.count == noise.uncompressedBytes)
    }

    // MARK: - What is wrong

    private func code(_ message: String) -> ErrorCode? {
        do throws(ProtocolError) {
            _ = try codec.decode(bytes(message))
            return nil
        } catch {
            return error.code
        }
    }

    @Test(arguments: ["", "ident", "bind 1 0 0 0 0\n", "error 100 0 1 0\n", "alloc 1\n", "query_error 1 0 1 1\n"])
    func otherTypesAre102(message: String) {
        #expect(code(message) == (message == "ident" ? .badSyntax : .unknownMessage))
    }

    @Test(arguments: [
        "ident 1 0 5\n", "ident 1 2 0\n", "ident 0 2 5\n", "ident 1 2 5\nx", "mark 1 0\n", "mark 1 1\n ", "unbound 0\n",
        "unbound 1\n\n", "pong 1 \n", "pong 9223372036854775808\n", "download 1 0 0 4 0 0 0 0 0 0 0\n",
        "download 1 0 0 0 0 0 0 0 0 0 1\n", "download 1 0 0 0 0 0 0 0 0 1 0\n", "log_message 0 1\n{}",
        "log_message 0 2\n[]", "log_message 0 1\n{",
    ])
    func badSyntaxIs103(message: String) {
        #expect(code(message) == .badSyntax)
    }

    @Test func aBadEntryOfADownloadHasItsCode() {
        #expect(code("download 1 1 0 1 5 0 0 0 0 12 0\n1 0 0 2 0 x ") == .badChangesetHeader)
        #expect(code("download 1 1 0 1 5 0 0 0 0 13 0\n1 0 0 2 0 2 a") == .badChangesetSize)
        #expect(code("download 1 1 0 1 5 0 0 0 1 100 3\nabc") == .badDecompression)
        #expect(code("download 1 1 0 1 5 0 0 0 0 14 0\n1 0 0 2 0 2 ab") == nil)
    }

    private func jsonError(_ number: Int, session: Int, _ json: String) -> String {
        "json_error \(number) \(json.utf8.count) \(session)\n\(json)"
    }

    private let base =
        #""tryAgain":false,"message":"m","logURL":"","shouldClientReset":true,"isRecoveryModeDisabled":false"#

    @Test func whatIsNotKnownOfAnErrorIsPassedOver() throws {
        let text = jsonError(299, session: 3, #"{\#(base),"action":"DanceADance","more":[{}]}"#)
        guard case .error(3, let error) = try codec.decode(bytes(text)) else {
            Issue.record("no error")
            return
        }
        #expect(error.code == ErrorCode(rawValue: 299) && error.code.name == "error 299" && !error.code.isKnown)
        #expect(error.action == .applicationBug && error.message == "m" && !error.triesAgain)
        #expect(error.backOff == nil && error.rejection == nil)
    }

    /// `Spec/Protocol.md`, section 7.1.
    @Test func anErrorOfTheWrongLevelIsRefused() {
        let json = #"{\#(base),"action":"Transient"}"#
        #expect(code(jsonError(100, session: 0, json)) == nil)
        #expect(code(jsonError(100, session: 3, json)) == .badSyntax)
        #expect(code(jsonError(200, session: 3, json)) == nil)
        #expect(code(jsonError(200, session: 0, json)) == .badSyntax)
        #expect(code(jsonError(299, session: 0, json)) == .badSyntax)
        #expect(code(jsonError(2_147_483_648, session: 3, json)) == .badSyntax)
    }

    /// Section 5.6: a missing required key or a wrong type is a violation of the protocol.
    @Test(arguments: [
        (#""action":"Transient","#, ""), (#""tryAgain":false"#, #""tryAgain":0"#), (#""message":"m","#, ""),
        (#""logURL":"""#, #""logURL":null"#), (#""shouldClientReset":true,"#, ""), (#""backoffMaxDelaySec":2,"#, ""),
        (#""isRecoveryModeDisabled":false,"#, ""), (#""backoffMultiplier":3"#, #""backoffMultiplier":"3""#),
        (#""rejectedClientVersion":4"#, #""rejectedClientVersion":-4"#), (#""pk":"AAE=""#, #""pk":5"#),
        (#"[{"reason""#, #"[1,{"reason""#),
    ])
    func everyKeyOfAnErrorIsWhatItHasToBe(part: String, broken: String) {
        let whole =
            #"{"action":"Transient",\#(base),"backoffIntervalSec":1,"backoffMaxDelaySec":2,"backoffMultiplier":3,"#
            + #""rejectedUpdates":[{"reason":"no","table":"Dog","pk":"AAE="}],"rejectedClientVersion":4}"#
        #expect(code(jsonError(230, session: 1, whole)) == nil)
        let changed = whole.replacing(part, with: broken)
        #expect(changed != whole)
        #expect(code(jsonError(230, session: 1, changed)) == .badSyntax)
    }

    @Test func aLogMessageMayLackAnything() throws {
        #expect(try codec.decode(bytes("log_message 0 2\n{}")) == .log(session: 0, LogMessage(level: .debug)))
        #expect(code("log_message 7 27\n{\"msg\":\"m\",\"level\":\"loud\"}") == .badSyntax)
        #expect(code("log_message 7 16\n{\"level\":\"loud\"}") == nil)
    }
}
