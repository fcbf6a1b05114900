import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import Synchronization
import Testing

@testable import AnabranchServer

/// Trouble of the server's own never costs a client its data: sessions are told to come again, and nothing else
/// happens (`Spec/History.md`, section 10).
@Suite struct StoreFailureTests {
    /// One client of one file without a socket.
    private struct Client {
        let rig: WireRig
        let connection: RigConnection
        let partition: String
        var words: [String] = []

        init(_ rig: WireRig, _ partition: String) throws {
            self.rig = rig
            self.partition = partition
            connection = rig.connect(try Negotiation(offer: WebSocketClient.offer))
        }

        mutating func start() {
            say("bind 1 \(partition.utf8.count) 0 \(words.isEmpty ? 1 : 0) 0\n\(partition)")
            if words.isEmpty { words = hear().first?.words ?? [] }
            guard words.first == "ident" else { return }
            say("ident 1 \(words[2]) \(words[3]) 0 0 0 0\n")
        }

        func say(_ text: String) {
            connection.wire.receive(Array(text.utf8))
            rig.run()
        }

        func hear() -> [SyncMessage] {
            defer { connection.sent = [] }
            return connection.sent.map { SyncMessage($0) }
        }

        /// The code and the action of the error that was heard, if that was all.
        func error() -> String {
            let messages = hear()
            guard messages.count == 1, messages[0].kind == "json_error" else { return "\(messages)" }
            let text = String(decoding: messages[0].body, as: UTF8.self)
            return messages[0].words[1]
                + (text.contains(#""tryAgain":true"#) && text.contains("Transient") ? " again" : "")
        }
    }

    @Test("a commit that fails ends the file's sessions until they come again, and then, nothing is lost")
    func commitFails() throws {
        let store = FragileStore()
        let rig = WireRig(store: store)
        var writer = try Client(rig, "/f"), reader = try Client(rig, "/f")
        writer.start()
        reader.start()
        #expect(writer.hear().map(\.kind) == ["download"] && reader.hear().map(\.kind) == ["download"])

        store.fail(.commit)
        upload(writer)
        #expect(writer.error() == "201 again")
        #expect(reader.error() == "201 again")

        store.fail()
        for client in [writer, reader] { client.say("unbind 1\n") }
        #expect(writer.hear().isEmpty && reader.hear().isEmpty)
        writer.start()
        reader.start()
        #expect(writer.hear().map { $0.words[2] } == ["0"] && reader.hear().map { $0.words[2] } == ["0"])
        upload(writer)
        #expect(writer.hear().map(\.words).map { $0[2] + " " + $0[6] } == ["1 2"])
        #expect(reader.hear().map { $0.words[2] } == ["1"])
    }

    @Test("a file whose commits fail does not stop those that are committed with it")
    func oneFileFails() throws {
        let store = FragileStore()
        let rig = WireRig(store: store)
        var good = try Client(rig, "/good"), bad = try Client(rig, "/bad")
        good.start()
        bad.start()
        _ = (good.hear(), bad.hear())
        try store.damage(VirtualPath("//bad"))
        var requests: [FileRequest] = []
        for client in [good, bad] {
            client.connection.wire.receive(Array(Self.uploadMessage.utf8))
            requests += client.connection.wire.takeRequests()
        }
        rig.submit(requests)
        rig.run()
        #expect(good.hear().map { $0.words[2] } == ["1"])
        #expect(bad.error() == "201 again")
    }

    @Test("a file that cannot be made is no trouble of those that are made with it")
    func oneNewFileFails() throws {
        let store = FragileStore()
        let rig = WireRig(store: store)
        let good = try Client(rig, "/good"), bad = try Client(rig, "/bad")
        try store.damage(VirtualPath("//bad"))
        var requests: [FileRequest] = []
        for client in [good, bad] {
            let bind = "bind 1 \(client.partition.utf8.count) 0 1 0\n\(client.partition)"
            client.connection.wire.receive(Array(bind.utf8))
            requests += client.connection.wire.takeRequests()
        }
        rig.submit(requests)
        rig.run()
        #expect(good.hear().map(\.kind) == ["ident"])
        #expect(bad.error() == "201 again")
    }

    @Test("who comes back is let in although it cannot be noted that it was seen, and so are those who are there")
    func noteFails() throws {
        let store = FragileStore(), clock = Clock()
        let rig = WireRig(store: store, unixSeconds: { clock.now.withLock { $0 } })
        var client = try Client(rig, "/f"), other = try Client(rig, "/f")
        client.start()
        other.start()
        #expect(client.hear().map(\.kind) == ["download"] && other.hear().map(\.kind) == ["download"])
        client.say("unbind 1\n")
        _ = client.hear()
        clock.now.withLock { $0 = 100_000 }
        store.fail(.commit)
        client.start()
        #expect(client.hear().map(\.kind) == ["download"])
        #expect(other.hear().isEmpty)
        store.fail()
        upload(client)
        #expect(other.hear().map(\.kind) == ["download"])
    }

    private final class Clock: Sendable {
        let now = Mutex<UInt64>(1)
    }

    @Test("a store that cannot be opened, read or written refuses sessions while it is so", arguments: [0, 1, 2])
    func start(step: Int) throws {
        let store = FragileStore()
        let rig = WireRig(store: store)
        var client = try Client(rig, "/f")
        switch step {
        case 0: store.fail(.open)
        case 1: store.fail(.commit)
        default: store.fail(.read)
        }
        client.start()
        let first = client.words
        #expect(first.prefix(2) == ["json_error", "201"])
        store.fail()
        client.words = []
        client.say("unbind 1\n")
        client.start()
        #expect(client.hear().map(\.kind) == ["download"])
    }

    @Test("an expiry that fails ends the file's sessions until they come again")
    func expiryFails() throws {
        let store = FragileStore()
        let rig = WireRig(store: store)
        var client = try Client(rig, "/f")
        client.start()
        #expect(client.hear().map(\.kind) == ["download"])
        let ident = ClientFileID(try #require(UInt64(client.words[2])))
        store.fail(.commit)
        #expect(throws: HistoryError(.storeFailed, "")) {
            try rig.run(on: "//f") { file, complete in complete(Result { try file.expire(ident) }) }
        }
        rig.run()
        #expect(client.error() == "201 again")
        store.fail()
        client.say("unbind 1\n")
        client.start()
        #expect(client.hear().map(\.kind) == ["download"])
    }

    @Test("a write of the server that fails ends the file's sessions until they come again")
    func writeFails() throws {
        let store = FragileStore()
        let rig = WireRig(store: store)
        var client = try Client(rig, "/f")
        client.start()
        #expect(client.hear().map(\.kind) == ["download"])
        store.fail(.commit)
        #expect(throws: HistoryError(.storeFailed, "")) { try write(rig) }
        rig.run()
        #expect(client.error() == "201 again")
        store.fail()
        client.say("unbind 1\n")
        client.start()
        #expect(client.hear().map(\.kind) == ["download"])
        #expect(try write(rig).version == 1)
        rig.run()
        client.say("mark 1 1\n")
        #expect(client.hear().map(\.kind) == ["download", "mark"])
    }

    @Test("a write of the server to a relay is refused, and its sessions go on")
    func relay() throws {
        let rig = WireRig(keepsState: false)
        var client = try Client(rig, "/f")
        client.start()
        _ = client.hear()
        #expect(throws: HistoryError(.storeUnusable, "")) { try write(rig) }
        upload(client)
        #expect(client.hear().map { $0.words[2] } == ["1"])
    }

    private func write(_ rig: WireRig) throws -> CompletedWrite<Void?> {
        try rig.run(on: "//f") { file, complete in
            file.write(idempotencyKey: nil, at: 1, { try $0.addClass("Note", key: "_id", .int) }, complete)
        }
    }

    @Test("trouble of the store is counted wherever it shows; what clients do wrong is not")
    func counting() throws {
        let store = FragileStore(), counters = CountingMetrics()
        let rig = WireRig(store: store, metrics: counters)
        func failures() -> Int { counters.value("anabranch_store_failures_total") }
        let client = try Client(rig, "/f")
        client.say("bind 1 2 0 1 0\n/f")
        let ident = try #require(client.hear().first).words
        client.say("ident 1 \(ident[2]) 1 0 0 0 0\n")
        #expect(client.error() == "211")
        #expect(failures() == 0)
        client.say("unbind 1\n")
        client.say("bind 1 2 0 0 0\n/f")
        store.fail(.read)
        client.say("ident 1 \(ident[2]) \(ident[3]) 0 0 0 0\n")
        #expect(client.error() == "201 again")
        #expect(failures() == 1)
        #expect(counters.value("anabranch_errors_total") == 2)
    }

    private static let uploadMessage = "upload 1 0 17 0 2 0 0\n2 0 1 0 7 ?\0\u{1}A\0\0\u{1}"

    private func upload(_ client: Client) { client.say(Self.uploadMessage) }
}
