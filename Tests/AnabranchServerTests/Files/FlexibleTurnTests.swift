import AnabranchCore
import AnabranchProtocol
import AnabranchTesting
import Testing

@testable import AnabranchHistory
@testable import AnabranchServer

/// A request of a client of flexible sync takes steps, and goes on between the requests of others.
@Suite struct FlexibleTurnTests {
    private static let path = "pets"
    private static let schema = ChangesetWriter([.addTable("T"), .addColumn("T", "n")]).bytes

    private static func object(_ key: Int64) -> [UInt8] {
        ChangesetWriter([.createObject(ObjectName(className: "T", key: .int(key)))]).bytes
    }

    private static func rig(
        step: StepLimit = .smallest, change: (inout FileOptions) -> Void = { _ in }
    ) -> TurnRig {
        TurnRig(keepsState: true, step: step) {
            $0.isFlexible = { _ in true }
            change(&$0)
        }
    }

    private static func set(_ version: UInt64, _ predicate: String) -> SubscriptionSet {
        SubscriptionSet(version: QueryVersion(rawValue: version), query: Array(#"{"T":"\#(predicate)"}"#.utf8))
    }

    private static func state(in rig: TurnRig) throws -> ObjectGraph {
        try #require(rig.withFile(VirtualPath(path)) { try? $0.sessions?.file.currentState() })
    }

    private static func count(in rig: TurnRig) throws -> Int { try state(in: rig).read { try $0.objects("T").count } }

    /// A client with a set of all objects, of which there are so many.
    private static func client(of rig: TurnRig, objects: Int64) throws -> TurnRig.Client {
        let client = try rig.join(path, count: 1)[0]
        rig.upload([schema], of: client)
        rig.submit(.query(set(1, "TRUEPREDICATE")), of: client)
        rig.upload((0..<objects).map(object), from: 2, of: client)
        rig.finish()
        #expect(try client.errors.isEmpty && count(in: rig) == Int(objects))
        return client
    }

    /// Has a client that asks for all objects request DOWNLOADs until it has everything.
    /// - Returns: its place then, and the size of what has come, in bytes.
    private static func download(
        _ client: TurnRig.Client, after start: DownloadCursor, in rig: TurnRig
    ) throws -> (cursor: DownloadCursor, bytes: Int) {
        var cursor = start, bytes = 0
        while true {
            client.events = []
            rig.submit(.scan(from: cursor), of: client)
            rig.finish()
            let made: [FlexibleDownload] = client.events.compactMap { event in
                if case .flexibleDownload(let made) = event { made } else { nil }
            }
            let last = try #require(made.last)
            bytes += last.body.count
            if last.kind == .steady, last.progress.cursor == cursor { return (cursor, bytes) }
            cursor = last.progress.cursor
        }
    }

    private static func reader(of rig: TurnRig) throws -> (client: TurnRig.Client, cursor: DownloadCursor) {
        let client = try rig.join(path, count: 1)[0]
        rig.submit(.query(set(1, "TRUEPREDICATE")), of: client)
        rig.finish()
        let cursor = try download(client, after: DownloadCursor(), in: rig).cursor
        client.events = []
        return (client, cursor)
    }

    /// What a client has not asked for may be dropped on the way to it.
    @Test func newsComeUnaskedAndCanBeAskedFor() throws {
        let rig = Self.rig(step: .none), writer = try Self.client(of: rig, objects: 1)
        let (first, second) = (try Self.reader(of: rig), try Self.reader(of: rig))
        rig.upload([Self.object(100)], from: 3, of: writer)
        rig.finish()
        let news = try #require(first.client.downloads.last)
        #expect(news.cursor.serverVersion == first.client.version)
        #expect(news.cursor.serverVersion > first.cursor.serverVersion)
        #expect(first.client.events.count == 1 && second.client.events.count == 1)
        // Until it is known to have that, it is only told of more.
        rig.upload([Self.object(101)], from: 4, of: writer)
        rig.finish()
        #expect(first.client.downloads == [news] && first.client.events.count == 2)
        let taken = try Self.download(first.client, after: news.cursor, in: rig)
        let dropped = try Self.download(second.client, after: second.cursor, in: rig)
        #expect(taken.cursor.serverVersion == dropped.cursor.serverVersion)
        #expect(taken.bytes > 0 && dropped.bytes > taken.bytes)
        // It has asked, and gets the next ones again.
        for reader in [first, second] { reader.client.events = [] }
        rig.upload([Self.object(102)], from: 5, of: writer)
        rig.finish()
        for reader in [first, second] { #expect(reader.client.downloads.count == 1) }
    }

    /// What could not be stored is not sent, and not taken for what gets its version later.
    @Test func whatIsNotStoredIsNeverSent() throws {
        let rig = Self.rig(step: .none) { $0.sharedBodiesBytesMax = 1 << 20 }
        let path = VirtualPath(Self.path), writer = try Self.client(of: rig, objects: 1)
        let reader = try Self.reader(of: rig)
        let head = try #require(rig.withFile(path) { $0.sessions?.file.head })
        #expect(head.version == reader.cursor.serverVersion)
        // Whoever opens the file takes its lease, so that the commit fails.
        _ = try rig.store.open(path)
        rig.upload([Self.object(100)], from: 3, of: writer)
        rig.finish()
        #expect(reader.client.errors.count == 1 && reader.client.events.count == 1)

        rig.bind(writer)
        let many = (200..<240 as Range<Int64>).map { key in
            NamedInstruction.createObject(ObjectName(className: "T", key: .int(key)))
        }
        rig.upload([ChangesetWriter(many).bytes], from: 3, of: writer)
        rig.submit(.open(BindRequest(partition: path.bytes, needsFileIdent: false)), of: reader.client)
        let request = IdentRequest(
            file: reader.client.file, download: reader.cursor,
            latest: SaltedVersion(version: head.version, salt: head.versionSalt),
            subscriptions: Self.set(1, "TRUEPREDICATE"))
        rig.submit(.identify(request, hasRestarted: false), of: reader.client)
        rig.finish()
        #expect(try Self.count(in: rig) == 41)
        let made = try Self.download(reader.client, after: reader.cursor, in: rig)
        #expect(made.cursor.serverVersion == head.version + 1 && made.bytes > 100)
    }

    /// If the merges of all files need too much memory together, those of the file with the most go on.
    @Test(arguments: [0, Int.max]) func theMemoryOfMergesIsBounded(bytesMax: Int) throws {
        let counters = CountingMetrics()
        let rig = TurnRig(keepsState: true, metrics: counters) {
            $0.isFlexible = { _ in true }
            $0.longMergeBytesMax = bytesMax
        }
        let pairs = try ["pets", "plants"].map { try rig.join($0, count: 2) }, clients = Array(pairs.joined())
        let objects = (0..<40).map(Self.object)
        for pair in pairs { rig.upload([Self.schema], of: pair[0]) }
        for client in clients { rig.submit(.query(Self.set(1, "TRUEPREDICATE")), of: client) }
        rig.finish()
        for pair in pairs { rig.upload(objects, from: 2, of: pair[0]) }
        rig.finish()
        // Each of these meets all of those.
        for pair in pairs { rig.upload(objects, of: pair[1]) }
        rig.finish()
        #expect(clients.flatMap(\.errors).isEmpty)
        for client in clients {
            let state = try #require(rig.withFile(client.path) { try? $0.sessions?.file.currentState() })
            #expect(try state.read { try $0.objects("T").count } == 40)
        }
        let dropped = counters.value("anabranch_long_merges_dropped_total")
        #expect(bytesMax == 0 ? dropped > 0 : dropped == 0)
        #expect(rig.files.environment.longMerges.mergeCount == 0)
    }

    /// What is durable does not wait for the uploads of others.
    @Test func downloadsDoNotWaitForUploads() throws {
        let rig = Self.rig(), writer = try Self.client(of: rig, objects: 1), reader = try Self.reader(of: rig)
        rig.upload([Self.object(50)], from: 3, of: writer)
        rig.submit(.scan(from: reader.cursor), of: reader.client)
        rig.takeTurn()
        #expect(reader.client.events.count == 1)
        rig.finish()
        #expect(try Self.count(in: rig) == 2)
    }

    /// Uploads after a QUERY are judged by the new set, those before it by the old one.
    @Test func requestsOfAClientStayInTheirOrder() throws {
        let rig = Self.rig(), client = try Self.client(of: rig, objects: 20)
        rig.submit(.query(Self.set(2, "n == 1")), of: client)
        // It does not match.
        rig.upload([Self.object(100)], from: 22, of: client)
        rig.submit(.query(Self.set(3, "n == 0")), of: client)
        rig.upload([Self.object(101)], from: 23, of: client)
        rig.finish()
        #expect(try client.errors.isEmpty && Self.count(in: rig) == 21)
        #expect(client.doneBytes == client.submittedBytes)
    }

    /// Reading a long set takes some time, and there may be many.
    @Test func othersGoOnWhileLongSetsAreRead() throws {
        let rig = Self.rig(), quick = try Self.client(of: rig, objects: 1), slow = try rig.join(Self.path, count: 20)
        for client in slow {
            rig.submit(.close, of: client)
            rig.submit(.open(BindRequest(partition: client.path.bytes, needsFileIdent: false)), of: client)
        }
        rig.finish()
        let set = Self.set(1, "n IN {" + (0..<2_000).map { "\($0)" }.joined(separator: ", ") + "}")
        for client in slow {
            client.events = []
            rig.submit(.identify(IdentRequest(file: client.file, subscriptions: set), hasRestarted: false), of: client)
        }
        rig.upload([Self.object(50)], from: 3, of: quick)
        try rig.takeTurns { try Self.count(in: rig) == 2 }
        #expect(try Self.count(in: rig) == 2)
        #expect(slow.count { !$0.events.isEmpty } < 15)
        rig.finish()
        #expect(slow.allSatisfy { $0.errors.isEmpty && !$0.events.isEmpty && $0.doneBytes == $0.submittedBytes })
    }

    /// So does reading one that the file has, whatever set its client comes with.
    @Test func othersGoOnWhileLongStoredSetsAreRead() throws {
        let rig = Self.rig(), quick = try Self.client(of: rig, objects: 1), slow = try rig.join(Self.path, count: 40)
        let set = Self.set(1, "n IN {" + (0..<8_000).map { "\($0)" }.joined(separator: ", ") + "}")
        for client in slow { rig.submit(.query(set), of: client) }
        rig.finish()
        for client in slow {
            rig.submit(.close, of: client)
            rig.submit(.open(BindRequest(partition: client.path.bytes, needsFileIdent: false)), of: client)
        }
        rig.finish()
        for client in slow {
            client.events = []
            rig.submit(.identify(IdentRequest(file: client.file), hasRestarted: false), of: client)
        }
        rig.upload([Self.object(50)], from: 3, of: quick)
        try rig.takeTurns { try Self.count(in: rig) == 2 }
        #expect(try Self.count(in: rig) == 2)
        #expect(slow.count { !$0.events.isEmpty } < 30)
        rig.finish()
        #expect(slow.allSatisfy { !$0.events.isEmpty && $0.doneBytes == $0.submittedBytes })
    }

    /// A letter can have any number of accents.
    @Test func whatIsRefusedIsAShortLineOfTheLog() {
        let lines = LogLines(), query = "n == \"a\(String(repeating: "\u{301}", count: 100_000))\""
        FileLog(metrics: SyncMetrics(), logger: lines.logger)
            .write(refused: [], of: 2, user: "ann", role: nil, query: query, path: VirtualPath(Self.path))
        #expect((1..<1_000).contains(lines.text.utf8.count))
    }

    @Test func othersGoOnWhileAQueryIsSearchedFor() throws {
        let rig = Self.rig(), slow = try Self.client(of: rig, objects: 50), quick = try rig.join(Self.path, count: 1)[0]
        rig.submit(.query(Self.set(2, "n >= 0 AND n != 7")), of: slow)
        for _ in 0..<5 { rig.takeTurn() }
        rig.upload([ChangesetWriter([.addColumn("T", "m")]).bytes], of: quick)
        try rig.takeTurns {
            try Self.state(in: rig).schema(ofClass: Array("T".utf8))?.property(named: Array("m".utf8)) != nil
        }
        func isSearching() -> Bool? {
            rig.withFile(VirtualPath(Self.path)) { $0.sessions?.flexible?.isSearching(for: slow.file.ident) }
        }
        #expect(isSearching() == true)
        rig.finish()
        #expect(isSearching() == false && slow.errors.isEmpty && quick.errors.isEmpty)
    }

    /// A session that ends takes what it waited for with it, and another one of the client goes on from there.
    @Test func aSessionThatEndsTakesItsQueryWithIt() throws {
        let rig = Self.rig(), client = try Self.client(of: rig, objects: 50)
        // The file stays open.
        _ = try rig.join(Self.path, count: 1)
        rig.submit(.query(Self.set(2, "n == 0 AND n != 7")), of: client)
        rig.upload([Self.object(100)], from: 52, of: client)
        for _ in 0..<5 { rig.takeTurn() }
        rig.submit(.close, of: client)
        rig.finish()
        #expect(client.doneBytes == client.submittedBytes)
        #expect(try Self.count(in: rig) == 50, "nothing was acknowledged, so it comes again")
    }

    @Test func timeOfVeryManyUsersIsNotRememberedForEver() throws {
        let rig = Self.rig()
        _ = try rig.join(Self.path, count: 1)
        let count = rig.withFile(VirtualPath(Self.path)) { turns -> Int? in
            guard let sessions = turns.sessions else { return nil }
            for number in 0...RateCounter.namesMax { sessions.charge("\(number)", .nanoseconds(1)) }
            return sessions.uncounted.count
        }
        #expect(try #require(count) <= RateCounter.namesMax)
    }
}
