import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import AnabranchSQLite
import AnabranchTesting
import Foundation
import Testing

@testable import AnabranchServer

/// Clients talk to a server over real sockets.
@Suite(.timeLimit(.minutes(30))) struct ConversationTests {
    @Test("two clients with interleaved changes offline receive what the log demands", arguments: [false, true])
    func twoClients(onDisk: Bool) async throws {
        let directory = FileManager.default.temporaryDirectory.appending(path: "anabranch-\(UUID())").path()
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let store: any HistoryStore = onDisk ? try SQLiteStore(directory: directory) : InMemoryStore()
        let clients = try await withServer(store: store) { server in
            let clients = [2, 3].map { _ in SyncClient(partition: "\"shared\"") { server.port } }
            for client in clients { try await client.reconnect() }
            let material = try [1, 2].map { try Changesets.independent(of: $0, count: 24) }
            var random = SeededRandom(seed: 11)
            var next = [0, 0], time: UInt64 = 300_000_000_000
            while next[0] < material[0].count || next[1] < material[1].count {
                let index =
                    next[0] == material[0].count ? 1 : next[1] == material[1].count ? 0 : Int(random.number(0...1))
                let client = clients[index]
                if random.isOne(in: 3) { try await client.disconnect() }
                client.change(material[index][next[index]], at: ChangesetTime(time))
                (next[index], time) = (next[index] + 1, time + random.number(0...5))
                guard random.isOne(in: 2) else { continue }
                if !client.isConnected { try await client.reconnect() }
                try await client.upload()
                try await client.waitForAcknowledgement()
            }
            for client in clients {
                try await client.reconnect()
                try await client.upload()
                try await client.waitForAcknowledgement()
            }
            for client in clients { try await client.mark() }
            return clients
        }
        let log = try SyncedFile(path: VirtualPath("/\"shared\""), store: store).log()
        for client in clients { client.checkInvariants(log) }
    }

    @Test("a frame of 16 MiB goes up and comes down")
    func largeFrames() async throws {
        let changeset = Changesets.large(16 << 20, seed: 1)
        let received = try await withServer { server in
            let writer = SyncClient(partition: "/large") { server.port }
            let reader = SyncClient(partition: "/large") { server.port }
            for client in [writer, reader] { try await client.reconnect() }
            writer.change(changeset, at: 1)
            try await writer.upload()
            try await writer.waitForAcknowledgement()
            try await reader.mark()
            return reader.received.map(\.changeset)
        }
        #expect(received == [changeset])
    }

    @Test("a reader that does not read is sent no more than its socket takes, and misses nothing")
    func slowReader() async throws {
        let counters = CountingMetrics()
        var settings = ServerSettings.small
        settings.limits.downloadBytesSoftMax = 1
        let count = 48
        try await withServer(settings: settings, metrics: counters) { server in
            let writer = SyncClient(partition: "/slow") { server.port }
            let reader = SyncClient(partition: "/slow") { server.port }
            for client in [writer, reader] { try await client.reconnect() }
            try await reader.require().setReading(false)
            for index in 0..<count {
                writer.change(Changesets.large(1 << 20, seed: UInt64(index)), at: 1)
                try await writer.upload(after: index)
                try await writer.waitForAcknowledgement()
            }
            // One DOWNLOAD opened each session, and each upload was acknowledged by one.
            let made = counters.value("anabranch_downloads_made_total") - 2 - count
            #expect(made < count / 2, "\(made) MiB are queued for a reader that does not read")

            try await reader.require().setReading(true)
            try await reader.mark()
            #expect(reader.received.map(\.changeset) == writer.changes.map(\.changeset))
        }
    }

    @Test("a connection is not read while its uploads wait, and every upload is integrated")
    func manyUploadsAtOnce() async throws {
        var settings = ServerSettings.small
        settings.waitingBytesMax = 1 << 10
        try await withServer(settings: settings) { server in
            let client = SyncClient(partition: "/many") { server.port }
            try await client.reconnect()
            for index in 0..<300 {
                client.change(Changesets.large(2000, seed: UInt64(index)), at: 1)
                try await client.upload(after: index)
            }
            try await client.waitForAcknowledgement()
            #expect(client.download.serverVersion == 300)
        }
    }

    @Test("many sessions of one connection, on several files, have their turns")
    func manySessions() async throws {
        try await withServer { server in
            let socket = try await WebSocketClient.open(port: server.port)
            for session in 1...40 {
                let partition = "/file-\(session % 7)"
                try await socket.send("bind \(session) \(partition.utf8.count) 0 1 0\n\(partition)")
            }
            var downloads: Set<UInt64> = [], marks: Set<UInt64> = []
            while marks.count < 40 {
                let message = try await socket.message()
                let session = message.numbers[0]
                switch message.kind {
                case "ident":
                    try await socket.send("ident \(session) \(message.words[2]) \(message.words[3]) 0 0 0 0\n")
                    try await socket.send("mark \(session) \(session)\n")
                case "download":
                    #expect(downloads.insert(session).inserted)
                case "mark":
                    #expect(downloads.contains(session) && marks.insert(session).inserted)
                default:
                    Issue.record("\(message)")
                }
            }
        }
    }

    @Test("the connection that binds a client file last has it; the connection that had it ends without a word")
    func boundTwice() async throws {
        try await withServer { server in
            let first = SyncClient(partition: "/twice") { server.port }
            try await first.reconnect()
            let old = try first.require()
            let second = try await WebSocketClient.open(port: server.port)
            try await second.send("bind 1 6 0 0 0\n/twice")
            try await second.send(first.identMessage(session: 1))
            #expect(try await second.message().kind == "download")
            #expect(await old.isAtEnd())
            try await second.send("bind 2 6 0 0 0\n/twice")
            try await second.send(first.identMessage(session: 2))
            #expect(try await second.message().words.prefix(2) == ["json_error", "108"])
            #expect(await second.isAtEnd())
        }
    }

    @Test("a shutdown commits what was uploaded, tells its clients, and says goodbye", arguments: [14, 7])
    func shutdown(version: Int) async throws {
        let store = InMemoryStore()
        let changesets = (0..<20).map { Changesets.large(100_000, seed: $0) }
        try await withServer(store: store) { server in
            let client = SyncClient(partition: "/last") { server.port }
            client.offer = "com.mongodb.realm-sync\(version < 8 ? "/" : "#")\(version)"
            try await client.reconnect()
            for (index, changeset) in changesets.enumerated() {
                client.change(changeset, at: 1)
                try await client.upload(after: index)
            }
            try await client.ping()
            server.stop()
            // Old clients would take any other code for a reason to stay away for an hour.
            #expect(try await client.receiveAll() == (version < 8 ? 1000 : 1001))
            #expect(try await client.require().isAtEnd())
            try await server.end()
            await #expect(throws: (any Error).self) { _ = try await WebSocketClient(port: server.port) }
            let log = try SyncedFile(path: VirtualPath("//last"), store: store).log()
            #expect(log.last?.clientVersion == client.changes.last?.cursor.clientVersion)
            #expect(client.acknowledged.clientVersion == client.changes.last?.cursor.clientVersion)
        }
    }
}
