import AnabranchHistory
import AnabranchProtocol
import Testing

@testable import AnabranchServer

/// How long the names of synced files may be.
@Suite struct PartitionTests {
    private static func answer(_ rig: WireRig, _ partition: String) throws -> [String] {
        let connection = rig.connect(try Negotiation(offer: WebSocketClient.offer))
        connection.wire.receive(Array("bind 1 \(partition.utf8.count) 0 1 0\n\(partition)".utf8))
        rig.run()
        return try Array(#require(connection.sent.first.map { SyncMessage($0) }).words.prefix(2))
    }

    @Test(
        "a new file has a name of at most 1,024 bytes",
        arguments: [(1_023, "ident"), (1_024, "ident"), (1_025, "204")])
    func newFiles(bytes: Int, expected: String) throws {
        let store = InMemoryStore()
        let words = try Self.answer(WireRig(store: store), String(repeating: "p", count: bytes))
        #expect(words.contains(expected), "\(words)")
        #expect(try store.files(after: nil, countMax: 1).isEmpty == (expected == "204"), "it was not made")
    }

    @Test("a file that exists is bound whatever its name, in use or not")
    func oldFiles() throws {
        let store = InMemoryStore()
        let name = String(repeating: "p", count: 65_536)
        _ = try store.open(VirtualPath("/" + name))
        let rig = WireRig(store: store)
        for _ in 0..<2 { #expect(try Self.answer(rig, name).first == "ident") }
    }

    @Test("a store that cannot tell whether there is the file is no reason to refuse its client for good")
    func storeTrouble() throws {
        let store = FragileStore()
        store.fail(.open)
        let words = try Self.answer(WireRig(store: store), String(repeating: "p", count: 2_000))
        #expect(words == ["json_error", "201"])
    }
}
