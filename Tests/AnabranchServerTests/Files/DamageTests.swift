import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import AnabranchSQLite
import Foundation
import GRDB
import Testing

@testable import AnabranchServer

/// Damage of the store stops those who need what is damaged, for as long as it is, and nobody else
/// (`Spec/Durability.md`, section 4).
@Suite final class DamageTests {
    /// A client of one file without a socket.
    private final class Client {
        let rig: WireRig
        let partition: String
        private var connection: RigConnection?
        private var ident: [String] = []
        private(set) var latest = SaltedVersion()
        private(set) var received: [[UInt8]] = []

        init(_ rig: WireRig, _ partition: String) {
            self.rig = rig
            self.partition = partition
        }

        func start() throws {
            connection = rig.connect(try Negotiation(offer: WebSocketClient.offer))
            say("bind 1 \(partition.utf8.count) 0 \(ident.isEmpty ? 1 : 0) 0\n\(partition)")
            if ident.isEmpty { ident = try #require(hear().first).words }
            say("ident 1 \(ident[2]) \(ident[3]) \(latest.version) 0 \(latest.version) \(latest.salt)\n")
        }

        private func say(_ message: [UInt8]) {
            connection?.wire.receive(message)
            rig.run()
        }

        func say(_ text: String) { say(Array(text.utf8)) }

        func upload(_ changesets: [[UInt8]], on base: ServerVersion = 0) {
            var body: [UInt8] = []
            for (index, changeset) in changesets.enumerated() {
                body += Array("\(index + 2) \(base) 7 0 \(changeset.count) ".utf8) + changeset
            }
            say(Array("upload 1 0 \(body.count) 0 \(changesets.count + 1) \(base) 0\n".utf8) + body)
        }

        /// What was said to it; downloads are taken in.
        @discardableResult
        func hear() -> [SyncMessage] {
            defer { connection?.sent = [] }
            let messages = connection?.sent.map { SyncMessage($0) } ?? []
            for download in messages.compactMap({ ReceivedDownload($0) }) {
                latest = download.progress.latest
                received += download.entries.map(\.changeset)
            }
            return messages
        }

        /// The error that was heard, if that was all.
        func error() throws -> SyncMessage {
            let messages = hear()
            try #require(messages.map(\.kind) == ["json_error"], "\(messages)")
            return messages[0]
        }
    }

    private let directory = FileManager.default.temporaryDirectory.appending(path: "anabranch-\(UUID())").path()
    private let counters = CountingMetrics()

    deinit { try? FileManager.default.removeItem(atPath: directory) }

    /// Client 2 uploads to two files, and two further ones of the first download it. Then the server is stopped, a
    /// letter of the first file's first entry becomes another one, and the server is started.
    private func damagedRig() throws -> (rig: WireRig, readers: [Client]) {
        var store = try SQLiteStore(directory: directory, options: .init(shards: 1))
        let rig = WireRig(store: store, metrics: counters)
        for (number, partition) in [(2, "/bad"), (7, "/good")] {
            let writer = Client(rig, partition)
            try writer.start()
            writer.upload(try Changesets.independent(of: number, count: 2))
            #expect(writer.hear().last?.words[2] == "2")
        }
        let readers = [Client(rig, "/bad"), Client(rig, "/bad")]
        for reader in readers {
            try reader.start()
            reader.hear()
            #expect(reader.received.count == 2)
        }
        try store.close()
        try damageFirstEntry(of: "//bad")
        store = try SQLiteStore(directory: directory)
        rig.restart(over: store)
        return (rig, readers)
    }

    private func damageFirstEntry(of path: String) throws {
        let queue = try DatabaseQueue(path: directory + "/shard-00.sqlite")
        try queue.write { db in
            let found = "version = 1 AND file = (SELECT id FROM synced_file WHERE path = CAST('\(path)' AS BLOB))"
            let changeset = try Data.fetchOne(db, sql: "SELECT changeset FROM log_entry WHERE \(found)")
            var bytes = try #require(changeset)
            let place = try #require(bytes.range(of: Data("by 2, 0".utf8)))
            bytes[place.lowerBound] ^= 1
            try db.execute(sql: "UPDATE log_entry SET changeset = ? WHERE \(found)", arguments: [bytes])
        }
        try queue.close()
    }

    @Test("a damaged entry is not sent, the client comes again late, and other files are served")
    func damagedEntry() throws {
        let (rig, readers) = try damagedRig()
        let reader = Client(rig, "/bad"), other = Client(rig, "/good")
        for _ in 0..<2 {
            try reader.start()
            let error = try reader.error()
            #expect(error.words[1] == "201")
            let text = String(decoding: error.body, as: UTF8.self)
            #expect(text.contains(#""tryAgain":true"#) && text.contains(#""backoffIntervalSec":300"#))
        }
        #expect(reader.received.isEmpty)
        #expect(counters.value("anabranch_store_damages_total") == 2)
        // Who has the entry does not need it.
        try readers[0].start()
        #expect(readers[0].hear().map(\.kind) == ["download"])
        try other.start()
        other.hear()
        #expect(other.received.count == 2)
    }

    @Test("an upload that meets damage is refused, and the file's other clients go on")
    func damageThatOneClientMeets() throws {
        let (rig, readers) = try damagedRig()
        let stale = readers[0], innocent = readers[1]
        try innocent.start()
        innocent.hear()
        for round in 1...3 {
            try stale.start()
            stale.hear()
            stale.upload(try Changesets.independent(of: 4, count: 1))
            let error = try stale.error()
            #expect(error.words[1] == "201")
            let text = String(decoding: error.body, as: UTF8.self)
            #expect(text.contains(#""tryAgain":true"#) && text.contains(#""backoffIntervalSec":300"#))
            #expect(innocent.hear().isEmpty)
            #expect(counters.value("anabranch_store_damages_total") == round)
        }
        let writer = Client(rig, "/bad")
        try writer.start()
        #expect(try writer.error().words[1] == "201")
        // An upload on the newest version meets nothing of it.
        innocent.upload(try Changesets.independent(of: 5, count: 1), on: 2)
        #expect(innocent.hear().map { $0.words[2] + " " + $0.words[6] } == ["3 2"])
    }
}
