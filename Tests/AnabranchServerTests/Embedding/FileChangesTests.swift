import AnabranchCore
import AnabranchHistory
import AnabranchSQLite
import AnabranchSimulation
import AnabranchTesting
import Foundation
import Synchronization
import Testing

@testable import AnabranchServer

/// The news of a program about the changes in its server's files.
@Suite(.timeLimit(.minutes(30))) struct FileChangesTests {
    private static let path = VirtualPath("//notes")

    @Test func aTransactionSaysWhatItChangesAndWhoMadeIt() async throws {
        var settings = ServerSettings.small
        settings.flexibleApps = ["pets"]
        try await withServer(settings: settings, authenticator: UserByToken()) { server in
            var device = FlexibleDevice(user: "ann")
            try await device.connect(port: server.port)
            try await device.settle()
            try device.client.write(at: 1) { try $0.addDogs() }
            _ = try device.client.subscribe(#"{"Dog":"(TRUEPREDICATE)"}"#)
            try await device.settle()
            let path = VirtualPath(app: "pets")
            let start = try await server.server.read(path) { $0.cursor }
            try device.client.write(at: 2) { transaction in
                try transaction.addDog(1, "Rex", age: 2)
                try transaction.addDog(2, "Ada", age: 5)
            }
            try await device.settle()
            try device.client.write(at: 1_000) { transaction in
                let rex = try transaction.object("Dog", key: 1)
                rex?["age"] = 3
                rex?["name"] = "Rex II"
                rex?["age"] = 4
                if let ada = try transaction.object("Dog", key: 2) { try transaction.delete(ada) }
            }
            try await device.settle()
            let made = try await server.server.write(to: path, at: Date(timeIntervalSince1970: 1_700_000_000)) {
                try $0.addColumn("color", .string, to: "Dog")
            }

            var found: [SyncedTransaction] = []
            for try await transaction in server.server.changes(in: path, after: start) {
                found.append(transaction)
                if transaction.version == made.version { break }
            }
            try #require(found.count == 3)
            let ann = SyncedTransaction.Author.client(device.client.file?.ident ?? 0, user: "ann")
            #expect(found.map(\.author) == [ann, ann, .server])
            #expect(found.map(\.changesSchema) == [false, false, true])
            #expect(found[0].objects.map(\.key) == [1, 2])
            #expect(found[0].objects.allSatisfy { $0.change == .inserted && $0.className == "Dog" })
            #expect(found[1].objects.map(\.change) == [.modified(fields: ["age", "name"]), .deleted])
            #expect(found[1].date == Date(timeIntervalSince1970: 1_420_070_401))
            #expect(found[2].objects.isEmpty)
            #expect(found[2].date == Date(timeIntervalSince1970: 1_700_000_000))
        }
    }

    /// A program that stores its cursor hears of each transaction once, whoever made it, and whether it ran or not.
    @Test(arguments: 1...12 as ClosedRange<UInt64>)
    func eachTransactionComesOnceAcrossRestarts(seed: UInt64) async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("changes-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: folder) }
        let store: any HistoryStore =
            seed % 3 == 0 ? try SQLiteStore(directory: folder.path, options: .init(shards: 1)) : InMemoryStore()
        var random = SeededRandom(seed: seed), reader = Reader()
        for round in 1...5 {
            try await withServer(store: store) { server in
                let clients = (0...1).map { _ in SyncClient(partition: "/notes") { server.port } }
                for client in clients { try await client.reconnect() }
                var changesets = try clients.indices.map { number in
                    try Changesets.independent(of: round * 2 + number, count: 60)[...]
                }
                let last = PrimaryKey.int(Int64(1_000_000 + round))
                // A literal nil would be the key null.
                let heardKey: PrimaryKey? = round == 5 || random.isOne(in: 2) ? .some(last) : .none
                let countMax = random.isOne(in: 2) ? Int(random.number(1...5)) : .max
                let heard = Task { [reader] in
                    try await reader.reading(server.server, until: heardKey, restartingAfter: countMax)
                }
                for step in 0..<random.number(3...20) {
                    if random.isOne(in: 2) {
                        let key = PrimaryKey.int(Int64(round * 1_000) + Int64(step))
                        try await server.server.write(to: Self.path) { try $0.writeNote(key) }
                    } else {
                        let number = Int(random.number(0...1))
                        for _ in 0..<random.number(1...3) {
                            if let next = changesets[number].popFirst() { clients[number].change(next, at: 1) }
                        }
                        try await clients[number].upload()
                        try await clients[number].waitForAcknowledgement()
                    }
                }
                try await server.server.write(to: Self.path) { try $0.writeNote(last) }
                reader = try await heard.value
            }
        }
        let file = try SyncedFile(path: Self.path, store: store)
        let versions = try file.log().filter { !$0.changeset.isEmpty }.map(\.version)
        #expect(reader.versions == versions, "seed \(seed)")
        let keys = try file.withState { try $0.read { try $0.objects("Note").compactMap(\.key) } }
        #expect(reader.keys == Set(keys), "seed \(seed)")
    }

    /// The changes that a program keeps, its cursor with it.
    private struct Reader {
        var cursor = ChangeCursor.beginning
        var versions: [ServerVersion] = []
        var keys: Set<PrimaryKey> = []

        /// Reads until an object with a key is inserted, and begins a new sequence after so many transactions.
        func reading(
            _ server: SyncServer, until last: PrimaryKey?, restartingAfter countMax: Int
        ) async throws -> Reader {
            guard let last else { return self }
            var reader = self
            while true {
                // As it was stored.
                guard let cursor = ChangeCursor(reader.cursor.description) else { return reader }
                var count = 0
                for try await transaction in server.changes(in: FileChangesTests.path, after: cursor) {
                    reader.take(transaction)
                    if transaction.objects.contains(where: { $0.key == last }) { return reader }
                    count += 1
                    if count == countMax { break }
                }
            }
        }

        private mutating func take(_ transaction: SyncedTransaction) {
            cursor = transaction.cursor
            versions.append(transaction.version)
            for object in transaction.objects {
                switch object.change {
                case .inserted: keys.insert(object.key)
                case .deleted: keys.remove(object.key)
                case .modified: break
                }
            }
        }
    }

    @Test func aLongLogComesInPages() async throws {
        try await withServer { server in
            try await server.server.write(to: Self.path) { try $0.writeNote(0) }
            for number in 1...200 {
                try await server.server.write(to: Self.path) { transaction in
                    try transaction.writeNote(.int(Int64(number)))
                    let title: String? = String(repeating: "a", count: 1_000)
                    try transaction.object("Note", key: .int(Int64(number)))?["title"] = title
                }
            }
            var keys: [PrimaryKey] = []
            for try await transaction in server.server.changes(in: Self.path, after: .beginning) {
                keys += transaction.objects.map(\.key)
                if keys.count == 201 { break }
            }
            #expect(keys == (0...200).map { .int($0) })
        }
    }

    @Test func whatTheLogHasForgottenIsAnErrorAndTheStateGoesOn() async throws {
        var settings = ServerSettings.small
        settings.flexibleApps = ["pets"]
        settings.history.sealEntries = 4
        settings.history.generationBytes = 0
        let path = VirtualPath(app: "pets")
        try await withServer(settings: settings) { server in
            for number in 1...20 {
                try await server.server.write(to: path) { try $0.writeNote(.int(Int64(number))) }
            }
            let files = try server.server.runningFiles()
            _ = try await files.maintain(path)
            let base = try await files.run(on: path) { try $0.openedSessions().file.head.baseVersion }
            #expect(base > 10)
            var changes = server.server.changes(in: path, after: .beginning).makeAsyncIterator()
            await #expect(throws: SyncServerError.changesForgotten(in: path)) { try await changes.next() }
            #expect(try await changes.next() == nil)

            let (count, cursor) = try await server.server.read(path) { (try $0.objects("Note").count, $0.cursor) }
            #expect(count == 20 && cursor.version == 20)
            changes = server.server.changes(in: path, after: cursor).makeAsyncIterator()
            try await server.server.write(to: path) { try $0.writeNote(21) }
            #expect(try await changes.next()?.objects.map(\.key) == [21])
        }
    }

    @Test func whoFollowsAFileHearsThatItWasDeleted() async throws {
        try await withServer { server in
            for round in 0..<20 {
                try await server.server.write(to: Self.path) { try $0.writeNote(1) }
                let cursor = try await server.server.read(Self.path) { $0.cursor }
                let changes = server.server.changes(in: Self.path, after: cursor)
                let next = Task { try await Self.next(of: changes) }
                if round % 2 == 0 { _ = try await server.server.read(Self.path) { _ in } }
                try await server.server.delete(Self.path)
                await #expect(throws: SyncServerError.unknownCursor(in: Self.path)) { try await next.value }
            }
        }
    }

    @Test func aCursorOfAnotherLogIsNotTaken() async throws {
        try await withServer { server in
            try await server.server.write(to: Self.path) { try $0.writeNote(1) }
            for cursor in ["1-7", "2-7", "0-7"].compactMap(ChangeCursor.init) {
                await #expect(throws: SyncServerError.unknownCursor(in: Self.path)) {
                    try await Self.next(of: server.server.changes(in: Self.path, after: cursor))
                }
            }
        }
        for text in ["", "1", "1-", "-1", "1-2-3", "a-b", "1 - 2"] { #expect(ChangeCursor(text) == nil, "\(text)") }
    }

    @Test func theSequenceEndsWithTheServerAndWithTheTask() async throws {
        let (counts, count) = AsyncStream.makeStream(of: Int.self)
        @Sendable func follow(_ server: SyncServer) async throws -> Int {
            var found = 0
            for try await _ in server.changes(in: Self.path, after: .beginning) {
                found += 1
                count.yield(found)
            }
            return found
        }
        let (toEnd, server) = try await withServer { server in
            let toCancel = Task { try await follow(server.server) }, toEnd = Task { try await follow(server.server) }
            try await server.server.write(to: Self.path) { try $0.writeNote(1) }
            var both = counts.prefix(2).makeAsyncIterator()
            while await both.next() != nil {}
            toCancel.cancel()
            #expect(try await toCancel.value == 1)
            return (toEnd, server.server)
        }
        #expect(try await toEnd.value == 1)
        await #expect(throws: SyncServerError.notRunning) { try await follow(server) }
    }

    private static func next(of changes: FileChanges) async throws -> SyncedTransaction? {
        var iterator = changes.makeAsyncIterator()
        return try await iterator.next()
    }
}

extension WriteTransaction {
    /// Creates a note of the class that `Changesets.independent` has.
    fileprivate func writeNote(_ key: PrimaryKey) throws {
        try addClass("Note", key: "_id", .int)
        try addColumn("title", .string, to: "Note")
        try addColumn("count", .int, to: "Note")
        try addColumn("tags", .string, collection: .set, to: "Note")
        try addColumn("lines", .string, collection: .list, to: "Note")
        try create("Note", key: key)
    }
}
