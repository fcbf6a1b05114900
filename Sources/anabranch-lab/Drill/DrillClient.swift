import AnabranchCore
import AnabranchHistory
import AnabranchTestClient
import AnabranchTesting
import NIOCore

/// A client that does what clients do, at random.
actor DrillClient {
    nonisolated let partition: String
    private let client: TestClient
    private var random: SeededRandom
    /// The number of connections that the server has closed without an error message.
    private var lossCount = 0

    /// The number of attempts before it gives up.
    private static let attemptsMax = 20

    init(of partition: String, seed: UInt64, on eventLoop: any EventLoop) {
        self.partition = partition
        client = TestClient(app: "", partition: .string(partition), on: eventLoop)
        random = SeededRandom(scrambling: seed)
    }

    var isThere: Bool { get async { await client.isConnected } }
    var hasFile: Bool { get async { await client.ident != nil } }

    /// The client's progress, for people.
    var place: String { get async { await client.place } }

    // MARK: Sessions

    /// Reads until it has everything that there is. If the connection is lost, it comes again, as real clients do: a
    /// server that sees the client's former connection later than its new one closes the new one.
    /// - Parameter isFinishing: true if everything of its own has to be acknowledged, too.
    func join(at target: SyncTarget, isFinishing: Bool = false) async throws {
        for attempt in 1... {
            do {
                if await !isThere { try await client.connect(to: target) }
                if isFinishing { try await client.upload() }
                return try await client.download()
            } catch let error as TestClientError where error.told == nil && attempt < Self.attemptsMax {
                await leave()
            }
        }
    }

    /// Drops the connection, as after a loss of the network.
    func leave() async { await client.disconnect() }

    /// Discards its file, like a client after a reset error.
    func reset() async { await client.reset() }

    // MARK: Work

    /// Does one thing that clients do.
    func work(at target: SyncTarget, writes: Bool) async throws {
        do {
            try await step(at: target, writes: writes)
        } catch let error as TestClientError where error.told == nil && lossCount < Self.attemptsMax {
            lossCount += 1
            await leave()
        }
    }

    private func step(at target: SyncTarget, writes: Bool) async throws {
        if await !isThere {
            if random.below(3) > 0 { return try await client.connect(to: target) }
            return writes ? try await write() : ()
        }
        switch random.below(10) {
        case 0: await leave()
        case 1 where writes: try await write()
        case 2...6 where writes:
            for _ in 0...random.below(3) { try await write() }
            try await client.sendChanges()
        default: try await client.download()
        }
    }

    /// Makes a local transaction, on or offline, once it has a file.
    func write() async throws {
        guard await hasFile else { return }
        random = try await client.write { [random] transaction in
            var random = random
            try Self.edit(transaction, &random)
            return random
        }
    }

    private static func edit(_ transaction: WriteTransaction, _ random: inout SeededRandom) throws {
        try transaction.addClass("Note", key: "_id", .int)
        try transaction.addColumn("title", .string, to: "Note")
        try transaction.addColumn("count", .int, to: "Note")
        try transaction.addColumn("tags", .string, collection: .list, to: "Note")
        let key = PrimaryKey.int(Int64(random.below(8))), text = Payload.string(Array("\(random.below(1000))".utf8))
        guard let note = try transaction.object("Note", key: key) else {
            try transaction.create("Note", key: key, ["title": text])
            return
        }
        let tags = try note.list("tags"), count = try tags.count
        switch random.below(10) {
        case 0: try transaction.delete(note)
        case 1...3: try note.set("title", to: text)
        case 4...5: try note.add(1, to: "count")
        case 6 where count > 0: try tags.remove(at: random.below(count))
        default: try tags.insert(text, at: random.below(count + 1))
        }
    }

    func digest() async throws -> StateDigest { try StateDigest(of: await client.state) }
}
