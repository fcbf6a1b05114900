import AnabranchCore
import AnabranchPostgresWire
import AnabranchRules
import AnabranchTesting
import Testing

@testable import AnabranchHistory
@testable import AnabranchPostgres
@testable import AnabranchSQLite

/// Copies of stores into stores of other kinds (`Spec/Postgres.md`, section 8).
@Suite struct StoreCopyTests {
    /// A store with something of all that there is, and clients that are not done.
    private struct World {
        static let partition = VirtualPath(#"app/"a""#), door = VirtualPath(#"app/"door""#)

        var notes: FlexibleFixture
        var writer: MemoryClient
        var quiet: MemoryClient

        var directory: String { notes.test.path }

        init() throws {
            notes = try FlexibleFixture(.shards)
            let store = notes.test.store, file = try SyncedFile(path: Self.partition, store: store)
            (writer, quiet) = (MemoryClient(try file.allocateIdent()), MemoryClient(try file.allocateIdent()))
            try quiet.commit(ChangesetWriter.schema, at: 1)
            try quiet.write(at: 1) { tx in for key in 0..<3 as Range<Int64> { try tx.create("T", key: .int(key)) } }
            try sync(with: file)
            for number in 1...20 as ClosedRange<Int64> {
                try writer.commit(ChangesetWriter.setting(number % 3, to: number), at: ChangesetTime(number))
                try sync(with: file)
            }
            try file.seal(SealingPolicy(entriesMax: 4, bytesMax: .max, restMin: 5))
            try file.makeGeneration(endingAt: 1)
            try file.trim(upTo: 8, keep: .archive)
            for number in 0..<3 {
                try file.write(idempotencyKey: "key \(number)", at: 1) { tx in
                    try #require(try tx.object("T", key: 1))["n"] = .int(Int64(number))
                }
            }
            // Changes of both that do not know of each other, of which one has not come yet.
            try quiet.commit(ChangesetWriter.setting(1, to: 77), at: 900)
            try writer.commit(ChangesetWriter.setting(1, to: 88), at: 100)
            try quiet.upload(to: file)
            try writer.upload(to: file)
            try quiet.commit(ChangesetWriter.setting(2, to: 99), at: 1000)
            let reader = try file.allocateIdent().ident
            var commit = Commit(file: file.id, lease: file.lease, head: file.head)
            commit.withheldSchemas = [reader: ChangesetWriter.schema]
            try file.commit(commit)
            try file.writeProgress()
            try Self.fillDoor(in: store)
            try writeNotes()
        }

        private static func fillDoor(in store: any HistoryStore) throws {
            let file = try SyncedFile(path: door, store: store)
            try file.write(at: 1) { try $0.addClass("T") }
            var commit = Commit(file: file.id, lease: file.lease, head: file.head)
            commit.records = (0..<250).map { number in
                let place = RecordPlace(space: 1, kind: UInt8(number % 2 + 1), key: [UInt8(number)])
                return RecordChange(place: place, value: [7, UInt8(number)], expiresAt: UInt64(number))
            }.sorted { $0.place < $1.place }
            try file.commit(commit)
        }

        /// Views with entries that were sent and are not confirmed, and with some that were not sent.
        private mutating func writeNotes() throws {
            try notes.client.write(at: 5) { tx in
                try tx.create("Note", key: 99)
                try tx.create("Reading", key: 1, ["value": .double(2.5)])
            }
            try notes.upload()
            for key in 0..<20 as Range<Int64> { try notes.create(key, bytes: 600) }
            try notes.integrate()
            for key in 20..<25 as Range<Int64> { try notes.create(key) }
            try notes.synced.writeProgress()
        }

        /// Both have everything, and have said so.
        private mutating func sync(with file: SyncedFile) throws {
            for _ in 0..<2 {
                try Self.sync(&quiet, file)
                try Self.sync(&writer, file)
            }
        }

        static func sync(_ client: inout MemoryClient, _ file: SyncedFile) throws {
            while let upload = client.nextUpload() { try file.integrateAtOnce(upload, from: client.ident) }
            try client.download(from: file)
            while let upload = client.nextUpload() { try file.integrateAtOnce(upload, from: client.ident) }
        }

        /// The clients come to a copy: none of them resets, and each gets what it lacks.
        mutating func goOn(in store: any HistoryStore) throws {
            let file = try SyncedFile(path: Self.partition, store: store)
            let clients: [WritableKeyPath<World, MemoryClient>] = [\.writer, \.quiet, \.writer]
            for client in clients {
                _ = try file.identify(self[keyPath: client].identRequest)
                self[keyPath: client].startSession()
                try Self.sync(&self[keyPath: client], file)
            }
            let state = try file.withState { try StateDigest(of: $0) }
            #expect(try StateDigest(of: writer.state) == state)
            #expect(try file.write(idempotencyKey: "key 0", at: 1) { _ in }.isRepetition)
            try file.writeProgress()
            try goOn(withNotesIn: store)
        }

        private mutating func goOn(withNotesIn store: any HistoryStore) throws {
            let file = try FlexibleFile(try SyncedFile(path: VirtualPath("notes"), store: store))
            var request = notes.client.identRequest
            request.subscriptions = FlexibleFixture.all
            notes.client.startSession()
            var session = try file.identify(request)
            while let message = try file.download(for: &session) { try notes.client.integrate(message.download) }
            #expect(try notes.objectCount() == 26)
            #expect(try file.ingested(after: 0, countMax: 9).count == 1)
        }
    }

    // MARK: Copies

    private static func copy(
        _ source: any CopyableStore, into database: TestDatabase, isShared: Bool = false
    ) throws {
        let target = try PostgresStore(copyIn: database.url, options: options(isShared: isShared))
        try StoreCopy(from: source, to: target).run()
        let reader = try PostgresReader(copyIn: database.url)
        #expect(try reader.checkStore() == [])
        try reader.forEachFile { file in
            let damages = try reader.check(file).damages
            #expect(damages == [], "\(file.path)")
        }
        try target.finishCopy()
        target.close()
    }

    /// The server of the tests is not durable.
    private static func options(isShared: Bool = false) -> PostgresStore.Options {
        var options = PostgresStore.Options()
        (options.requiresDurability, options.isShared, options.seconds) = (false, isShared, 60)
        return options
    }

    private static func copy(_ source: any CopyableStore, into directory: TemporaryDirectory) throws {
        let target = try SQLiteStore(copyIn: directory.path, options: SQLiteStore.Options(shards: 2))
        try StoreCopy(from: source, to: target).run()
        try target.closeCopy()
        try check(target)
        try target.finishCopy()
    }

    private static func check(_ copy: SQLiteStore) throws {
        let verification = try StoreVerification(ofCopy: copy)
        #expect(try verification.checkDatabase() == [])
        try verification.checkFiles { file in #expect(file.damages == [], "\(file.path)") }
    }

    private static func digests(of store: any CopyableStore) throws -> [VirtualPath: FileDigest] {
        var digests: [VirtualPath: FileDigest] = [:]
        for file in try store.files(after: nil, countMax: 100) {
            let id = try #require(try store.id(of: file.path))
            digests[file.path] = try FileDigest(of: file.path, id, in: store)
        }
        return digests
    }

    private static func requireSame(
        _ digests: [VirtualPath: FileDigest], in store: any CopyableStore
    ) throws {
        let copied = try Self.digests(of: store)
        #expect(copied.keys == digests.keys)
        for (path, digest) in copied {
            let difference = try #require(digests[path]).difference(from: digest)
            #expect(difference == nil, "\(path)")
        }
    }

    @Test(arguments: [false, true]) func everythingIsTheSameInPostgresAndBack(isShared: Bool) throws {
        var world = try World()
        try (world.notes.test.store as? SQLiteStore)?.close()
        let original = try SQLiteStore(copiedFrom: world.directory), digests = try Self.digests(of: original)
        #expect(digests.count == 3)
        let database = try TestDatabase(), directory = try TemporaryDirectory()
        try Self.copy(original, into: database, isShared: isShared)
        try original.close()
        try PostgresReader(database.url).copying { store in
            try Self.requireSame(digests, in: store)
            try Self.copy(store, into: directory)
        }
        let copy = try SQLiteStore(directory: directory.path)
        try Self.requireSame(digests, in: copy)
        var other = world
        try other.goOn(in: copy)
        try copy.close()
        #expect(try StoppedStore.allDamages(in: directory.path) == [])
        let store = try PostgresStore(database, isShared: isShared)
        try world.goOn(in: store)
        store.close()
    }

    /// Pieces that hold little of each part, and the whole, are the same file.
    @Test func whatIsNotThereIsNotCopied() throws {
        let source = try TestStore(.sqlite), store = try #require(source.store as? SQLiteStore)
        let file = try SyncedFile(path: VirtualPath("/a"), store: store)
        _ = try file.allocateIdent()
        let directory = try TemporaryDirectory()
        try Self.copy(store, into: directory)
        let copy = try SQLiteStore(directory: directory.path)
        try Self.requireSame(try Self.digests(of: store), in: copy)
        #expect(try copy.file(VirtualPath("/a"))?.head == file.head)
        try copy.close()
    }

    @Test func aStoreOfOneNodeBecomesOneOfManyAndBack() throws {
        let test = try TestStore(.shards), store = try #require(test.store as? SQLiteStore)
        let file = try SyncedFile(path: World.partition, store: store)
        // As in a server: the times of integration are records, but of no door.
        file.clock = { 1 }
        var client = MemoryClient(try file.allocateIdent())
        try client.commit(ChangesetWriter.schema, at: 1)
        try World.sync(&client, file)
        try file.writeProgress()
        #expect(try store.recordTotals(of: nil).map(\.space) == [0])
        try store.requireShareable()
        let database = try TestDatabase(), directory = try TemporaryDirectory()
        try Self.copy(store, into: database, isShared: true)
        #expect(try code { _ = try PostgresStore(database) } == .storeUnusable)
        let nodes = try (0..<2).map { _ in
            try SyncedFile(path: World.partition, store: try PostgresStore(database, isShared: true))
        }
        for node in nodes {
            _ = try node.identify(client.identRequest)
            client.startSession()
            let key = Int64(client.version.rawValue)
            try client.write(at: 1) { try $0.create("T", key: .int(key)) }
            try World.sync(&client, node)
            try node.writeProgress()
            for other in nodes { try other.follow() }
        }
        let state = try nodes[0].withState { try StateDigest(of: $0) }
        #expect(try StateDigest(of: client.state) == state)
        try PostgresReader(database.url).copying { try Self.copy($0, into: directory) }
        let copy = try SQLiteStore(directory: directory.path)
        let back = try SyncedFile(path: World.partition, store: copy)
        _ = try back.identify(client.identRequest)
        #expect(try back.withState { try StateDigest(of: $0) } == state)
        try copy.close()
    }

    @Test func whatNodesCannotShareIsNamed() throws {
        let doors = try TestStore(.sqlite), file = try SyncedFile(path: World.partition, store: doors.store)
        var commit = Commit(file: file.id, lease: file.lease, head: file.head)
        commit.records = [RecordChange(place: RecordPlace(space: 1, kind: 1, key: []), value: [1])]
        try file.commit(commit)
        let store = try #require(doors.store as? SQLiteStore)
        try store.requireShareable(withDoors: [1])
        let refusal = #expect(throws: HistoryError.self) { try store.requireShareable(withDoors: [2]) }
        #expect(refusal?.reason.hasPrefix(World.partition.description) == true)
    }

    // MARK: Refusals

    @Test func aStoreThatIsThereIsNoTarget() throws {
        let directory = try TemporaryDirectory(), database = try TestDatabase()
        try SQLiteStore(directory: directory.path).close()
        try PostgresStore(database).close()
        #expect(
            try code { _ = try SQLiteStore(copyIn: directory.path, options: SQLiteStore.Options()) } == .storeUnusable)
        #expect(
            try code { _ = try PostgresStore(copyIn: database.url, options: Self.options()) } == .storeUnusable)
    }

    @Test func anInterruptedCopyIsNoStoreAndTheNextOneBeginsAnew() throws {
        let source = try TestStore(.sqlite), store = try #require(source.store as? SQLiteStore)
        try SyncedFile(path: World.partition, store: store).write(at: 1) { try $0.addClass("T") }
        let directory = try TemporaryDirectory(), database = try TestDatabase()
        let interrupted = try SQLiteStore(copyIn: directory.path, options: SQLiteStore.Options(shards: 9))
        let inDatabase = try PostgresStore(copyIn: database.url, options: Self.options())
        for target in [interrupted, inDatabase] as [any CopyableStore] {
            try SyncedFile(path: VirtualPath("app"), store: target).write(at: 1) { try $0.addClass("T") }
        }
        try interrupted.close()
        inDatabase.close()
        for attempt in [
            { _ = try SQLiteStore(directory: directory.path) }, { _ = try StoreReader(directory: directory.path) },
            { _ = try StoreRestoration(directory: directory.path) }, { _ = try PostgresStore(database) },
            { _ = try PostgresStore(database, isShared: true) }, { _ = try PostgresReader(database.url) },
        ] as [() throws -> Void] {
            let refusal = #expect(throws: HistoryError.self) { try attempt() }
            #expect(refusal?.code == .storeUnusable && refusal?.reason.contains("`anabranch store copy`") == true)
        }
        try Self.copy(store, into: directory)
        try Self.copy(store, into: database)
        let copy = try SQLiteStore(directory: directory.path)
        for copy in [copy, try PostgresStore(database)] as [any CopyableStore] {
            #expect(try copy.files(after: nil, countMax: 9).map(\.path) == [World.partition])
        }
        try copy.close()
    }

    @Test func damageIsNotCopied() throws {
        let source = try TestStore(.sqlite), store = try #require(source.store as? SQLiteStore)
        let file = try SyncedFile(path: World.partition, store: store)
        _ = try file.allocateIdent()
        try store.close()
        try StoppedStore.change(source.path, "UPDATE client_file SET last_seen = last_seen + 1 WHERE ident = 2")
        let damaged = try SQLiteStore(copiedFrom: source.path), directory = try TemporaryDirectory()
        let target = try SQLiteStore(copyIn: directory.path, options: SQLiteStore.Options())
        let failure = #expect(throws: HistoryError.self) { try StoreCopy(from: damaged, to: target).run() }
        #expect(failure?.code == .storeDamaged && failure?.reason.hasPrefix(World.partition.description) == true)
    }

    @Test func aStoreThatWasCopiedIsServedNoMore() throws {
        let test = try TestStore(.sqlite), store = try #require(test.store as? SQLiteStore)
        try SyncedFile(path: World.partition, store: store).write(at: 1) { try $0.addClass("T") }
        try store.close()
        for _ in 0..<2 {
            let source = try SQLiteStore(copiedFrom: test.path)
            try source.setCopied(to: "the other place")
            try source.close()
        }
        let refusal = #expect(throws: HistoryError.self) { try SQLiteStore(directory: test.path) }
        #expect(refusal?.reason.contains("the other place") == true)
        // It can be read, and a restoration makes it one that is served.
        #expect(try StoreReader(directory: test.path).files().count == 1)
        let restoration = try StoreRestoration(directory: test.path)
        try restoration.run { _ in }
        try restoration.close()
        try SQLiteStore(directory: test.path).close()
    }

    @Test func aDatabaseThatWasCopiedIsServedNoMore() throws {
        let database = try TestDatabase()
        try PostgresStore(database).close()
        let written = try PostgresStore.requireUnused(database.url)
        #expect(try PostgresStore.requireUnused(database.url) == written)
        let server = try PostgresStore(database)
        try server.recordTime(5)
        server.close()
        #expect(try PostgresStore.requireUnused(database.url) != written)
        for place in ["one place", "the other place"] { try PostgresStore.setCopied(database.url, to: place) }
        let refusal = #expect(throws: HistoryError.self) { try PostgresStore(database) }
        #expect(refusal?.reason.contains("the other place") == true)
        _ = try PostgresReader(database.url)
        try PostgresConnection(database.url).execute("DELETE FROM anabranch_store.meta WHERE name = 'copied-to'")
        try PostgresStore(database).close()
    }

    // MARK: Accounts

    @Test func accountsAreTheSameInPostgresAndBack() throws {
        let directories = [try TemporaryDirectory(), try TemporaryDirectory()]
        let stores = try directories.map { try SQLiteAccountStore(directory: $0.path) }
        let database = try TestDatabase(), copy = PostgresAccountStore(try PostgresStore(database))
        var ann = User(
            ident: "1", app: "a",
            identities: [
                Identity(ident: "x", provider: "local-userpass", name: "Ann@x.org", secret: "s", isPending: true),
                Identity(ident: "w", provider: "anon-user", name: ""),
            ], customData: #"{"a":1}"#, createdAt: 5)
        var accounts = [StoredAccount(user: ann, hasVisited: true, sessions: [], keys: [])]
        accounts[0].sessions = ["s1", "s2"].map {
            LoginSession(ident: $0, user: "1", provider: "local-userpass", createdAt: 1, expiresAt: 2)
        }
        accounts[0].keys = [APIKey(ident: "k", user: "1", name: "key", digest: [1, 2], isDisabled: true)]
        (ann.ident, ann.isDisabled) = ("2", true)
        // Names that differ in case alone are in older stores.
        ann.identities[0].name = "ann@x.org"
        ann.identities[1].name = "z"
        accounts.append(StoredAccount(user: ann, hasVisited: false, sessions: [], keys: []))
        try stores[0].insert(accounts)
        #expect(try StoreCopy.copyAccounts(from: stores[0], to: copy) == 2)
        #expect(try StoreCopy.copyAccounts(from: copy, to: stores[1]) == 2)
        #expect(try copy.accounts(after: "", countMax: 9) == accounts)
        #expect(try stores[1].accounts(after: "", countMax: 9) == accounts)
        #expect(try stores[1].accounts(after: "1", countMax: 9).map(\.user.ident) == ["2"])
        let keys = ([5, 3] as [UInt64]).map { time in
            SigningKey(ident: "\(time)", secret: [UInt8](repeating: 1, count: 32), createdAt: time)
        }
        try copy.insert(keys)
        #expect(try copy.signingKeys() == keys)
        copy.close()
        for store in stores { try store.close() }
    }
}
