import AnabranchCore
import AnabranchTesting
import Testing

@testable import AnabranchProtocol

@Suite struct MessageEncoderTests {
    private func encoded(_ message: ServerMessage) -> String { text(message.encoded.bytes) }

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
        #expect(encoded(.download(session: 1, first, .empty)) == "download 1 0 0 0 0 0 0 0 0 0 0\n")
        let acknowledgement = DownloadProgress(
            cursor: DownloadCursor(serverVersion: 1, clientVersion: 3),
            latest: SaltedVersion(version: 1, salt: 77001),
            upload: UploadCursor(clientVersion: 3, serverVersion: 0), downloadableBytes: 0)
        #expect(encoded(.download(session: 1, acknowledgement, .empty)) == "download 1 1 3 1 77001 3 0 0 0 0 0\n")
    }

    private let header = DownloadProgress(
        cursor: DownloadCursor(serverVersion: 12, clientVersion: 5), latest: SaltedVersion(version: 13, salt: 99),
        upload: UploadCursor(clientVersion: 6, serverVersion: 4), downloadableBytes: 1000)

    @Test func aDownloadWithEntries() {
        let tag = OriginTag(timestamp: 374_544_000_000, ident: 1)
        let body = DownloadBody([
            DownloadedChangeset(cursor: DownloadCursor(serverVersion: 10), tag: tag, changeset: bytes("abc")),
            DownloadedChangeset(
                cursor: DownloadCursor(serverVersion: 12, clientVersion: 5), tag: tag, changeset: bytes("de"),
                originalBytes: 40),
        ])
        #expect(
            encoded(.download(session: 7, header, body))
                == "download 7 12 5 13 99 6 4 1000 0 54 0\n10 0 374544000000 1 3 3 abc12 5 374544000000 1 40 2 de")
        #expect(DownloadBody([]) == .empty)
    }

    private func body(changesetBytes: Int, _ generator: inout SeededRandom, alphabet: ClosedRange<UInt8>)
        -> DownloadBody
    {
        let changeset = (0..<changesetBytes).map { _ in UInt8.random(in: alphabet, using: &generator) }
        let tag = OriginTag(timestamp: 0, ident: 2)
        let cursor = DownloadCursor(serverVersion: 1)
        return DownloadBody([DownloadedChangeset(cursor: cursor, tag: tag, changeset: changeset)])
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

        let message = ServerMessage.download(session: 7, header, long).encoded
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
}
