import AnabranchCore
import AnabranchProtocol
import AnabranchTesting
import Foundation
import Testing

/// The same random messages, legal and illegal, to our server and to the executable model of the specification
/// (`Models/server_model.py`): the same answers, up to salts, compression and the wording of errors.
@Suite struct DifferentialTests {
    private static let stepCount = 300
    private static let seeds = 0..<40 as Range<UInt64>

    @Test("our server and the model answer random conversations alike", arguments: seeds)
    func answersLikeTheModel(seed: UInt64) throws {
        let conversation = RandomConversation(seed: seed, changesets: try Self.changesets())
        conversation.run(steps: Self.stepCount)
        let theirs = try Self.model(conversation.script)
        try #require(theirs.count == conversation.answers.count)
        for (step, ours) in conversation.answers.enumerated() {
            let our = Self.comparable(ours), their = Self.comparable(theirs[step])
            guard our != their else { continue }
            Issue.record(
                """
                step \(step): \(conversation.script[step])
                ours:  \(our)
                model: \(their)
                repeat: swift test --filter DifferentialTests, seed \(seed)
                """)
            return
        }
    }

    @Test("the random conversations reach what they are about")
    func reach() throws {
        let changesets = try Self.changesets()
        var seen: [String: Int] = [:]
        for seed in Self.seeds {
            let conversation = RandomConversation(seed: seed, changesets: changesets)
            conversation.run(steps: Self.stepCount)
            for answer in conversation.answers.flatMap({ Self.comparable($0).values.joined() }) {
                let words = answer.split(separator: " ")
                seen[words[0] == "error" ? "error \(words[1])" : String(words[0]), default: 0] += 1
            }
        }
        let codes = [
            102, 103, 105, 106, 107, 108, 109, 110, 111, 112, 114, 201, 204, 208, 209, 210, 211, 212, 216, 217,
        ]
        let expected = ["ident", "download", "mark", "unbound", "pong", "dropped"] + codes.map { "error \($0)" }
        #expect(expected.filter { seen[$0, default: 0] == 0 } == [])
    }

    // MARK: Named differences

    /// Where the protocol chapter wants something of a server that the model does not do. One session of one new client
    /// file says the last message; random conversations avoid it.
    @Test(
        "the two differ only where the specification says so",
        arguments: [
            // Section 3: a salt is 0 only together with version 0, and a number out of its range is 103.
            ("ident 1 2 {f:/a:2} 0 0 1 0", "", false, ["1 0": ["error 103"]], ["1 1": ["error 209"]]),
            // Section 3: the code of an error is a 32-bit number.
            ("json_error 4294967296 0 1", "", true, ["1 0": ["error 103"]], ["1 1": ["error 201"]]),
            // Section 7.6, row 3: the size in the head and the length of the body disagree.
            ("json_error 201 1 1", "", true, ["1 0": ["error 103"]], ["1 1": ["error 201"]]),
            // Section 8.3: before a valid IDENT a client's error is only logged.
            ("json_error 201 0 1", "", false, [:], ["1 1": ["error 201"]]),
            // Section 4.5: a command of test builds is ignored.
            ("test_command 1 1 0", "", true, [:], ["1 0": ["error 102"]]),
            // Chapter on changesets, section 11.2: rows S1 to S8 are bad changesets; here S7, a boolean with a sign.
            (
                "upload 1 0 25 0 2 0 0", "2 0 3 0 14 ?\0\u{1}A?\u{1}\u{1}i\u{6}\0\u{1}\0Y\0", true,
                ["1 1": ["error 212"]], ["1 1": ["download to"]]
            ),
        ])
    func namedDifference(
        head: String, body: String, isRunning: Bool, ours: [String: [String]], model: [String: [String]]
    ) throws {
        let conversation = RandomConversation(seed: 0, changesets: [])
        conversation.open(offer: "com.mongodb.realm-sync#14")
        conversation.tell(1, SyncMessage(Array("bind 1 2 0 1 0\n/a".utf8)))
        if isRunning { conversation.tell(1, SyncMessage(Array("ident 1 2 {f:/a:2} 0 0 0 0\n".utf8))) }
        conversation.tell(1, SyncMessage(Array("\(head)\n\(body)".utf8)))
        func codes(_ answers: [(connection: Int, message: [UInt8]?)]) -> [String: [String]] {
            Self.comparable(answers).mapValues { $0.map { $0.split(separator: " ").prefix(2).joined(separator: " ") } }
        }
        #expect(codes(conversation.answers.last ?? []) == ours)
        #expect(codes(try Self.model(conversation.script).last ?? []) == model)
    }

    // MARK: The model

    /// The uploads of real clients.
    private static func changesets() throws -> [[UInt8]] {
        try ["two-clients", "lists-four-clients", "nested-collections", "schema-erasures"]
            .flatMap { try Transcript($0).lines }
            .filter { $0.kind == "binary" && $0.isFromClient && $0.message.kind == "upload" }
            .flatMap { line -> [[UInt8]] in
                guard case .upload(_, let upload) = try ClientMessageCodec().decode(line.message.bytes) else {
                    return []
                }
                return upload.upload.changesets.map(\.changeset)
            }
    }

    private static func model(_ script: [String]) throws -> [[(connection: Int, message: [UInt8]?)]] {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        let tests = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        process.arguments = ["python3", "-B", tests.appending(path: "Models/server_bridge.py").path()]
        let input = Pipe(), output = Pipe()
        process.standardInput = input
        process.standardOutput = output
        try process.run()
        let text = Data(script.joined(separator: "\n").utf8)
        Thread.detachNewThread {
            try? input.fileHandleForWriting.write(contentsOf: text)
            try? input.fileHandleForWriting.close()
        }
        let answers = try #require(try output.fileHandleForReading.readToEnd())
        process.waitUntilExit()
        return try answers.split(separator: UInt8(ascii: "\n")).map { line in
            try JSONDecoder().decode([Answer].self, from: Data(line)).map { ($0.connection, $0.message) }
        }
    }

    private struct Answer: Decodable {
        let connection: Int
        let message: [UInt8]?

        init(from decoder: any Decoder) throws {
            var container = try decoder.unkeyedContainer()
            connection = try container.decode(Int.self)
            message = try container.decodeNil() ? nil : try Hex.bytes(of: try container.decode(String.self))
        }
    }

    /// The answers of one step, a list for each session: what different sessions say has no order.
    private static func comparable(_ answers: [(connection: Int, message: [UInt8]?)]) -> [String: [String]] {
        var result: [String: [String]] = [:]
        for (connection, bytes) in answers {
            guard let bytes else {
                result["\(connection)", default: []].append("dropped")
                continue
            }
            let message = SyncMessage(bytes)
            let session = message.kind == "json_error" ? message.words[3] : message.words[1]
            result["\(connection) \(session)", default: []].append(comparable(message))
        }
        return result
    }

    private static func comparable(_ message: SyncMessage) -> String {
        switch message.kind {
        case "ident":
            return "\(message.words.dropLast().joined(separator: " ")) \(message.numbers[2] == 0 ? "no salt" : "salt")"
        case "download":
            guard let download = ReceivedDownload(message) else { return "unreadable \(message)" }
            let salt = download.progress.latest.salt == 0 ? "no salt" : "salt"
            return "\(download) \(salt) \(download.entries.map(\.changeset))"
        case "json_error":
            let json = (try? JSONSerialization.jsonObject(with: Data(message.body))) as? [String: Any] ?? [:]
            // The wording is free, and only our server asks for a delay of its own choice.
            let rest = json.filter { $0.key != "message" && !$0.key.hasPrefix("backoff") }
            return "error \(message.words[1]) \(rest.map { "\($0.key)=\($0.value)" }.sorted())"
        default:
            return message.words.joined(separator: " ")
        }
    }
}
