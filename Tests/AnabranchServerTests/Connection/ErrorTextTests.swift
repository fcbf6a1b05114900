import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import AnabranchTesting
import Testing

@testable import AnabranchServer

/// What peers call things can be megabytes long. What the server says about it, to them and in its log, is not.
@Suite struct ErrorTextTests {
    private static let name = String(repeating: "ä", count: 5_000_000)

    private static let programs: [[NamedInstruction]] = [
        [.addTable(name)],
        [.createObject(ObjectName(className: name))],
        [
            .addTable("A", key: "_id", .string), .createObject(ObjectName(key: .string(Array(name.utf8)))),
            .update(FieldPath(object: ObjectName(key: .string(Array(name.utf8))), field: name), .int(1)),
        ],
        [.eraseTable(name)],
        [.eraseColumn("A", name)],
        [.addTable("A"), .eraseTable("A"), .addTable("A"), .eraseColumn("A", name)],
    ]

    @Test("whatever has a name of 10 MB, what is said about it is short", arguments: programs.indices)
    func names(program: Int) throws {
        let changeset = ChangesetWriter(Self.programs[program]).bytes
        #expect(changeset.count > 10_000_000)
        for rule in DestructiveSchema.allCases {
            let log = LogLines()
            let rig = WireRig(destructiveSchema: rule, logger: log.logger)
            let connection = rig.connect(try Negotiation(offer: WebSocketClient.offer))
            func say(_ bytes: [UInt8]) {
                connection.wire.receive(bytes)
                rig.run()
            }
            say(Array("bind 1 2 0 1 0\n/f".utf8))
            let ident = try #require(connection.sent.first.map { SyncMessage($0) }).words.dropFirst(2)
            say(Array("ident 1 \(ident.joined(separator: " ")) 0 0 0 0\n".utf8))
            let body = Array("2 0 1 0 \(changeset.count) ".utf8) + changeset
            say(Array("upload 1 0 \(body.count) 0 2 0 0\n".utf8) + body)
            let error = try #require(connection.sent.last.map { SyncMessage($0) })
            #expect(error.kind == "json_error")
            #expect(error.body.count < 1_000)
            let text = String(decoding: error.body, as: UTF8.self)
            #expect(text.contains("ä… (") || !text.contains("ä"), "\(text)")
            #expect(log.text.utf8.count < 10_000)
            #expect(log.text.contains("session failed"))
        }
    }
}
