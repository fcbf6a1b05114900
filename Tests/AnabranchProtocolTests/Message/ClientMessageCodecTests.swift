import AnabranchCore
import Testing

@testable import AnabranchProtocol

@Suite struct ClientMessageCodecTests {
    private let codec = ClientMessageCodec()

    private func decode(_ message: String) throws -> ClientMessage { try codec.decode(bytes(message)) }

    // MARK: - The samples of section 14

    @Test func bind() throws {
        #expect(
            try decode("bind 1 10 0 1 0\n\"testpart\"")
                == .bind(session: 1, BindRequest(partition: bytes("\"testpart\""), needsFileIdent: true)))
        #expect(
            try decode("bind 999123 11 12 0 1\nserver/pathtoken_string")
                == .bind(session: 999123, BindRequest(partition: bytes("server/path"), needsFileIdent: false)))
        #expect(
            try decode("bind 3 0 0 7 0\n")
                == .bind(session: 3, BindRequest(partition: [], needsFileIdent: true)))
    }

    @Test func ident() throws {
        #expect(
            try decode("ident 234888 999123 123999 3 4 1 2\n")
                == .ident(
                    session: 234888,
                    IdentRequest(
                        file: SaltedFileID(ident: 999123, salt: 123999),
                        download: DownloadCursor(serverVersion: 3, clientVersion: 4),
                        latest: SaltedVersion(version: 1, salt: 2))))
    }

    @Test func mark() throws {
        #expect(try decode("mark 234888 888234\n") == .mark(session: 234888, request: 888234))
    }

    @Test func unbind() throws {
        #expect(try decode("unbind 1\n") == .unbind(session: 1))
    }

    @Test func ping() throws {
        #expect(try decode("ping 1234567890 23\n") == .ping(timestamp: 1_234_567_890, roundTripMilliseconds: 23))
        #expect(try decode("ping \(Int64.min) 0\n") == .ping(timestamp: .min, roundTripMilliseconds: 0))
        #expect(try decode("ping \(Int64.max) 0\n") == .ping(timestamp: .max, roundTripMilliseconds: 0))
    }

    @Test func error() throws {
        let body = #"{"valA":123,"valB":"something"}"#
        #expect(
            try decode("json_error 9099 31 234888\n\(body)")
                == .error(session: 234888, code: 9099, text: bytes(body)))
        #expect(try decode("json_error -2147483648 0 1\n") == .error(session: 1, code: -2_147_483_648, text: []))
    }

    @Test func testCommand() throws {
        #expect(try decode("test_command 1 2 3\nabc") == .testCommand(session: 1, request: 2, body: bytes("abc")))
    }

    @Test func upload() throws {
        let first = String(repeating: "A", count: 32)
        let second = String(repeating: "E", count: 32)
        let body = "29 18 259604001718 888123 32 \(first)30 19 259604001850 888234 32 \(second)"
        guard case .upload(let session, let upload) = try decode("upload 999123 0 122 0 30 17 10\n\(body)") else {
            Issue.record("not an UPLOAD")
            return
        }
        #expect(session == 999123)
        #expect(upload.progress == UploadCursor(clientVersion: 30, serverVersion: 17))
        #expect(upload.lockedVersion == 10)
        #expect(upload.changesetCount == 2)
        #expect(upload.changesetBytes == 64)
        let expected = [
            UploadedChangeset(
                cursor: UploadCursor(clientVersion: 29, serverVersion: 18),
                timestamp: 259_604_001_718, origin: 888123, changeset: bytes(first)),
            UploadedChangeset(
                cursor: UploadCursor(clientVersion: 30, serverVersion: 19),
                timestamp: 259_604_001_850, origin: 888234, changeset: bytes(second)),
        ]
        #expect(upload.upload.changesets == expected)

        let deflated = try #require(BodyCompression.deflate(bytes(body), level: 6))
        let compressed = bytes("upload 999123 1 122 \(deflated.count) 30 17 10\n") + deflated
        #expect(try codec.decode(compressed) == .upload(session: session, upload))
    }

    @Test func anEmptyUploadAcknowledgesDownloads() throws {
        guard case .upload(_, let upload) = try decode("upload 1 0 0 0 4 1 1\n") else {
            Issue.record("not an UPLOAD")
            return
        }
        #expect(upload.changesetCount == 0)
        #expect(upload.upload.changesets.isEmpty)
    }

    // MARK: - What is wrong, in the order of section 7.6

    @Test(arguments: [
        "", "\n", " ", "bin", "binde 1 0 0 0 0\n", "BIND 1 0 0 0 0\n", " bind 1 0 0 0 0\n", "query 1 2 3\nabc",
        "refresh 1 0\n", "transact 1\n", "alloc 1\n", "state_request 1\n", "client_version_request 1\n", "client 1\n",
        "download 1 0 0 0 0 0 0 0 0 0 0\n", "unbound 1\n", "pong 1\n", "error 100 0 1 0\n", "\u{0}mark 1 1\n",
        "mark\u{301} 1 1\n", "mark\t1 1\n", "test_commands 1 1 0\n",
    ])
    func unknownTypesAre102(message: String) {
        #expect(violation(bytes(message)) == .unknownMessage)
    }

    private static let wellFormed = [
        "bind 1 2 3 1 0\n//abc", "ident 1 2 3 4 5 6 7\n", "upload 1 0 14 0 5 0 0\n5 0 9 0 4 abcd", "mark 1 1\n",
        "unbind 1\n", "ping 5 0\n", "json_error 212 2 1\n{}", "test_command 1 1 2\nab",
    ]

    @Test(arguments: wellFormed)
    func heads(message: String) throws {
        #expect(violation(bytes(message)) == nil)
        let end = try #require(message.firstIndex(of: "\n"))
        let (head, body) = (message[..<end], message[end...])
        let words = head.split(separator: " ")

        func isBadSyntax(_ head: some StringProtocol, _ body: some StringProtocol) {
            #expect(violation(bytes("\(head)\(body)")) == .badSyntax, "\(head)\(body)")
        }
        isBadSyntax(head, "")
        isBadSyntax(words[0], "")
        isBadSyntax(words[0] + "\n", "")
        isBadSyntax(head + " ", body)
        isBadSyntax(head + " 0", body)
        isBadSyntax(head + "\r", body)
        isBadSyntax(words.joined(separator: "  "), body)
        isBadSyntax(words.dropLast().joined(separator: " "), body)
        if body.count > 1 { isBadSyntax(head, body + "x") }
        for field in 1..<words.count {
            for bad in [
                "", "x", "+1", "1x", "0x1", " 1", "1.0", "--1", "-", "9223372036854775808", "99999999999999999999",
            ] {
                var broken = words
                broken[field] = bad[...]
                isBadSyntax(broken.joined(separator: " "), body)
            }
            for long in ["000000000000000000001", String(repeating: "1", count: 10_000)] {
                var broken = words
                broken[field] = long[...]
                isBadSyntax(broken.joined(separator: " "), body)
            }
        }
    }

    @Test(arguments: wellFormed)
    func truncationAnywhereIsNoticed(message: String) {
        let whole = bytes(message)
        for length in 0..<whole.count {
            let code = violation(Array(whole[..<length]))
            #expect(code == .badSyntax || code == .unknownMessage && length < 13, "\(length) bytes of \(message)")
        }
    }

    @Test(arguments: [
        "bind 0 0 0 0 0\n", "bind -1 0 0 0 0\n", "bind 9223372036854775808 0 0 0 0\n", "bind 1 0 0 -1 0\n",
        "ident 0 2 3 0 0 0 0\n", "ident 1 0 3 0 0 0 0\n", "ident 1 2 0 0 0 0 0\n", "ident 1 2 -3 0 0 0 0\n",
        "ident 1 2 3 4 0 4 0\n", "mark 0 1\n", "mark 1 0\n", "mark 1 9223372036854775808\n", "unbind 0\n",
        "ping 9223372036854775808 0\n", "ping -9223372036854775809 0\n", "ping 1 -1\n",
        "json_error 2147483648 0 1\n", "json_error -2147483649 0 1\n", "json_error 212 0 0\n",
        "upload 0 0 0 0 0 0 0\n", "upload 1 0 -1 0 0 0 0\n",
    ])
    func numbersOutOfRangeAre103(message: String) {
        #expect(violation(bytes(message)) == .badSyntax)
    }

    @Test func theLargestNumbersAreInRange() throws {
        let max = UInt64(Int64.max)
        #expect(try decode("unbind \(max)\n") == .unbind(session: SessionID(max)))
        #expect(try decode("mark 00000000000000000001 \(max)\n") == .mark(session: 1, request: max))
        #expect(violation(bytes("ident \(max) \(max) \(max) \(max) \(max) \(max) \(max)\n")) == nil)
        #expect(violation(bytes("upload 1 0 0 0 \(max) \(max) \(max)\n")) == nil)
    }

    @Test(arguments: [
        "bind 1 3 0 1 0\nab", "bind 1 1 0 1 0\nab", "bind 1 1 2 1 0\nab", "bind 1 9223372036854775807 0 1 0\nab",
        "bind 1 9223372036854775807 9223372036854775807 1 0\nab", "bind 1 0 9223372036854775807 1 0\nab",
        "upload 1 0 1 0 0 0 0\n", "upload 1 0 0 0 0 0 0\n1", "upload 1 0 0 1 0 0 0\n",
        "upload 1 0 9223372036854775807 0 0 0 0\n", "upload 1 1 1 1 0 0 0\n", "upload 1 1 1 1 0 0 0\nab",
        "upload 1 1 0 9223372036854775807 0 0 0\n", "json_error 1 5 1\n{}", "json_error 1 1 1\n{}",
        "test_command 1 1 5\nab",
    ])
    func sizesThatDisagreeWithTheBodyAre103(message: String) {
        #expect(violation(bytes(message)) == .badSyntax)
    }

    @Test(arguments: ["mark 1 1\n\n", "unbind 1\nx", "ping 1 1\n ", "ident 1 2 3 0 0 0 0\n0"])
    func bytesBehindAHeadThatAnnouncesNoBodyArePassedOver(message: String) {
        #expect(violation(bytes(message)) == nil)
    }

    @Test(arguments: [
        "1", "1 ", "1 0 0 0", "1 0 0 0 0", " 1 0 0 0 0 ", "1  0 0 0 0 ", "x 0 0 0 0 ", "1 -1 0 0 0 ", "1 0 +1 0 0 ",
        "1 0 0 9223372036854775808 0 ", "1 0 0 0 18446744073709551616 ", "1 0 0 0 0\n", "1,0,0,0,0,",
        "1 0 0 0 1 a2", "1 0 0 000000000000000000000 0 ",
    ])
    func badNumbersOfAnEntryAre111(body: String) {
        #expect(violation(bytes("upload 1 0 \(body.utf8.count) 0 9 0 0\n\(body)")) == .badChangesetHeader)
    }

    @Test(arguments: ["1 0 0 0 0 ", "1 0 0 0 1 a2 0 0 0 0 "])
    func aChangesetWithoutAByteIs112(body: String) {
        #expect(violation(bytes("upload 1 0 \(body.utf8.count) 0 9 0 0\n\(body)")) == .badChangesetSize)
    }

    @Test(arguments: ["1 0 0 0 1 ", "1 0 0 0 2 a", "1 0 0 0 1 a2 0 0 0 3 bc", "1 0 0 0 9223372036854775807 a"])
    func aChangesetLongerThanItsBodyIs112(body: String) {
        #expect(violation(bytes("upload 1 0 \(body.utf8.count) 0 9 0 0\n\(body)")) == .badChangesetSize)
    }

    @Test func theFirstRowThatFailsDecides() {
        #expect(violation(bytes("nonsense x\r")) == .unknownMessage, "102 before 103")
        #expect(violation(bytes("upload 1 1 5 3 x 0 0\nabc")) == .badSyntax, "103 of the head before 110")
        #expect(violation(bytes("upload 1 1 5 4 0 0 0\nabc")) == .badSyntax, "103 of the sizes before 110")
        #expect(violation(bytes("upload 1 1 5 3 0 0 0\nabc")) == .badDecompression, "110 before 111")
        #expect(violation(bytes("upload 1 0 13 0 0 0 0\n1 0 0 x 99 abc")) == .badSyntax, "103 before 111")
        #expect(violation(bytes("upload 1 0 14 0 0 0 0\n1 0 0 x 99 abc")) == .badChangesetHeader, "111 before 112")
        #expect(violation(bytes("upload 1 0 15 0 0 0 0\n1 0 0 0 9 abcde")) == .badChangesetSize)
    }

    // MARK: - Limits

    @Test func partitionAndTokenHaveTheirLimits() {
        func bind(_ partition: Int, _ token: Int) -> ErrorCode? {
            violation(bytes("bind 1 \(partition) \(token) 0 0\n") + [UInt8](repeating: 0x61, count: partition + token))
        }
        #expect(bind(65_536, 8192) == nil)
        #expect(bind(65_537, 0) == .badSyntax)
        #expect(bind(1, 8193) == .badSyntax)
    }

    @Test("an UPLOAD has at most 65,536 changesets", arguments: [false, true])
    func changesetsHaveTheirLimit(isCompressed: Bool) throws {
        for (count, expected) in [(65_535, nil), (65_536, nil), (65_537, ErrorCode.badSyntax)] {
            let body = uploadBody((0..<UInt64(count)).map { ($0, 0, 1, 0, [1]) })
            let deflated = try #require(BodyCompression.deflate(body, level: 1))
            let message =
                isCompressed
                ? compressedUpload(deflated, inflatingTo: body.count)
                : bytes("upload 1 0 \(body.count) 0 9 0 0\n") + body
            #expect(violation(message) == expected, "\(count) changesets")
        }
    }

    /// The stream is broken off after the entries that are too many: nobody looks there.
    @Test func tooManyChangesetsAreNotInflated() throws {
        var limits = Limits()
        limits.uploadChangesetsMax = 10
        let body = uploadBody((0..<100_000).map { ($0, 0, 1, 0, [1]) })
        let deflated = try #require(BodyCompression.deflate(body, level: 1))
        let begun = compressedUpload(Array(deflated.prefix(deflated.count / 2)), inflatingTo: body.count)
        #expect(violation(begun, limits: limits) == .badSyntax)
        #expect(violation(begun, limits: Self.unlimited) == .badDecompression)
    }

    private static let unlimited: Limits = {
        var limits = Limits()
        limits.uploadChangesetsMax = .max
        return limits
    }()

    @Test func entriesAreCountedWhileTheirBodyGrows() {
        let sizes = [1, 90, 2, 300, 7, 1]
        let body = uploadBody(sizes.map { (UInt64($0), 0, 1, 0, [UInt8](repeating: 9, count: $0)) })
        let ends = sizes.indices.map { last in
            uploadBody(sizes[...last].map { (UInt64($0), 0, 1, 0, [UInt8](repeating: 9, count: $0)) }).count
        }
        for step in 1...40 {
            var counter = EntryCounter<UploadedChangeset>()
            for end in stride(from: 0, through: body.count, by: step) {
                #expect(counter.count(in: Array(body[..<end])) == ends.count { $0 <= end }, "step \(step)")
            }
            #expect(counter.count(in: body) == sizes.count)
        }
    }

    @Test func anUploadOf16MiBComesThroughUnharmed() throws {
        let changeset = [UInt8](repeating: 0xA5, count: 16 << 20)
        let body = uploadBody([(3, 0, 1, 0, changeset), (4, 0, 2, 0, [1, 2, 3])])
        guard case .upload(_, let upload) = try codec.decode(bytes("upload 1 0 \(body.count) 0 4 0 0\n") + body)
        else {
            Issue.record("not an UPLOAD")
            return
        }
        let entries = upload.upload.changesets
        #expect(entries.count == 2)
        #expect(entries.first?.changeset.elementsEqual(changeset) == true)
        #expect(entries.last?.changeset == [1, 2, 3])
    }
}
