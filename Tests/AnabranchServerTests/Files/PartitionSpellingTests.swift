import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import AnabranchTesting
import Foundation
import Synchronization
import Testing

@testable import AnabranchServer

/// All spellings of a partition's value lead to one file (`Spec/Protocol.md`, section 4.2).
@Suite struct PartitionSpellingTests {
    private static func bind(_ partition: [UInt8], _ rig: WireRig) throws -> [String] {
        let connection = rig.connect(try Negotiation(offer: WebSocketClient.offer), app: "a")
        connection.wire.receive(Array("bind 1 \(partition.count) 0 1 0\n".utf8) + partition)
        rig.run()
        rig.disconnect(connection)
        return try Array(#require(connection.sent.first.map { SyncMessage($0) }).words.prefix(2))
    }

    @Test func randomSpellingsAreBoundToTheFilesOfTheirValues() throws {
        let seed = UInt64.random(in: 0 ... .max)
        var speller = PartitionSpeller(seed: seed), values: Set<PartitionValue> = []
        let store = InMemoryStore(), rig = WireRig(store: store)
        for round in 0..<100 {
            let value = speller.value()
            values.insert(value)
            for _ in 0..<3 {
                let text = speller.spelling(of: value)
                #expect(try Self.bind(text, rig).first == "ident", "seed \(seed), round \(round)")
            }
        }
        let paths = try store.files(after: nil, countMax: 1_000).map(\.path)
        #expect(Set(paths) == Set(values.map { VirtualPath(app: "a", partition: $0) }), "seed \(seed)")
    }

    /// Its bytes are a partition of their own, which no other client will open.
    @Test(arguments: [
        (#"{"$numberLong":42}"#, true), (#"{"$oid":"zz"}"#, true), (#"{"$date":"2024-01-01T00:00:00Z"}"#, true),
        (#"{"$numberLong":"42"}"#, false), ("42", false), ("f", false), (#"{"a":1}"#, false),
        (#"{"$numberLong""#, false),
    ])
    func whatLooksLikeExtendedJSONIsToldOnceAConnection(_ partition: String, _ isTold: Bool) throws {
        let log = LogLines(), rig = WireRig(logger: log.logger)
        let connection = rig.connect(try Negotiation(offer: WebSocketClient.offer), app: "a")
        for session in 1...2 {
            connection.wire.receive(Array("bind \(session) \(partition.utf8.count) 0 1 0\n\(partition)".utf8))
            rig.run()
        }
        #expect(log.text.split(separator: "\n").count { $0.contains("looks like extended JSON") } == (isTold ? 1 : 0))
    }

    @Test func theNameOfANewFileIsAsLongAsItsValue() throws {
        let store = InMemoryStore(), rig = WireRig(store: store)
        let escaped = { (count: Int) in Array(("\"" + String(repeating: "\\u0061", count: count) + "\"").utf8) }
        #expect(try Self.bind(escaped(1_022), rig).first == "ident")
        #expect(try Self.bind(escaped(1_023), rig).contains("204"))
        #expect(try store.files(after: nil, countMax: 9).map(\.path.bytes.count) == [1_026])
    }

    /// An `Authorizer` is asked about the value, whatever the client sends and whatever the file is called.
    @Test func permissionsAreThoseOfTheValue() async throws {
        let asked = Mutex<Set<[UInt8]>>([])
        let authorizer = CallbackAuthorizer { _, partition in
            asked.withLock { _ = $0.insert(partition) }
            return .read
        }
        let store = try Self.store(of: #"/{ "$oid" : "64B7F0AA0000000000000001" }"#)
        try await withServer(store: store, authorizer: authorizer) { server async throws in
            for text in [#"{"$oid":"64b7f0aa0000000000000001"}"#, #"{ "$oid" : "64b7f0aa0000000000000001" }"#] {
                let client = try await WebSocketClient.open(port: server.port, offer: WebSocketClient.offer)
                try await client.send("bind 1 \(text.utf8.count) 0 1 0\n\(text)")
                #expect(try await client.message().words.first == "ident")
            }
        }
        #expect(asked.withLock { $0 } == [Array(#"{"$oid":"64b7f0aa0000000000000001"}"#.utf8)])
        #expect(try store.files(after: nil, countMax: 9).count == 1)
    }

    /// A store in which older versions have named files.
    private static func store(of paths: String...) throws -> InMemoryStore {
        let store = InMemoryStore()
        for path in paths {
            try SyncedFile(path: VirtualPath(path), store: store).write(at: 1) { transaction in
                try transaction.addClass("T", key: "_id", .string)
                try transaction.create("T", key: .string(Array(path.utf8)))
            }
        }
        return store
    }

    private static func key(_ path: VirtualPath, _ server: SyncServer) async throws -> PrimaryKey? {
        try await server.read(path) { try $0.objects("T").first?.key }
    }

    @Test func theOnlyFileOfAValueIsReadAndWrittenByItsValue() async throws {
        let store = try Self.store(of: #"a/{"$numberInt":"42"}"#), path = VirtualPath(app: "a", partition: 42)
        try await withServer(store: store) { running in
            let server = running.server
            #expect(try await Self.key(path, server) == .string(Array(#"a/{"$numberInt":"42"}"#.utf8)))
            #expect(try await Self.key(VirtualPath("a/42"), server) != nil)
            #expect(try await server.write(to: path) { _ = try $0.create("T", key: "new") }.version == 2)
            var changes = server.changes(in: path, after: .beginning).makeAsyncIterator()
            #expect(try await changes.next()?.version == 1)
            #expect(try await changes.next()?.version == 2)
            #expect(try await server.partitions() == [VirtualPath(#"a/{"$numberInt":"42"}"#)])
            #expect(try await server.delete(path))
            #expect(try await server.partitions().isEmpty)
            try await server.write(to: VirtualPath("a/42")) { try $0.addClass("T", key: "_id", .string) }
            #expect(try await server.partitions() == [path])
        }
    }

    @Test func severalFilesOfAValueAreNamedAtTheStart() async throws {
        let store = try Self.store(of: "a/42", #"a/{"$numberLong":"42"}"#, "a/43"), lines = LogLines()
        let server = SyncServer(
            settings: .small, store: store, authenticator: AllowAllAuthenticator(),
            logger: lines.logger)
        let task = Task { try await server.run() }
        try await server.listening()
        let warnings = lines.text.split(separator: "\n").filter { $0.hasPrefix("warning") }
        #expect(warnings.count == 1 && warnings.first?.contains("anabranch merge-files") == true, "\(warnings)")
        #expect(warnings.first?.contains("a/42") == true)
        #expect(warnings.first?.contains(#"a/{"$numberLong":"42"}"#) == true)
        // Until they are joined each has its own.
        for path in ["a/42", #"a/{"$numberLong":"42"}"#] {
            #expect(try await Self.key(VirtualPath(path), server) == .string(Array(path.utf8)))
        }
        #expect(try await Self.key(VirtualPath("a/42.0"), server) == .string(Array(#"a/{"$numberLong":"42"}"#.utf8)))
        #expect(try await server.delete(VirtualPath("a/42")))
        #expect(try await Self.key(VirtualPath("a/42"), server) == .string(Array(#"a/{"$numberLong":"42"}"#.utf8)))
        task.cancel()
        try await task.value
    }
}
