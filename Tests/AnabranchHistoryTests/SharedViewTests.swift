import AnabranchCore
import AnabranchRules
import AnabranchTesting
import GRDB
import Testing

@testable import AnabranchHistory
@testable import AnabranchSQLite

/// Data that views have in common with the log and with each other are stored, looked for and encoded once, and read
/// when their clients come (`Spec/FlexibleSync.md`, sections 3.1 and 3.4).
@Suite struct SharedViewTests {
    private static let none = SubscriptionSet(version: 2, query: Array("{}".utf8))
    private static let all = SubscriptionSet(version: 3, query: Array(#"{"Note":"TRUEPREDICATE"}"#.utf8))

    private static func reader(of condition: String) throws -> UserRules {
        let role = """
            {"name": "r", "apply_when": {}, "document_filters": {"read": \(condition), "write": \(condition)}, \
            "read": true, "write": true, "insert": true, "delete": true}
            """
        let file = AppFile(path: "rules.json", bytes: #"{"roles": [\#(role)]}"#.utf8)
        return try Rules(classes: ["Note": file], defaultRule: nil).rules(for: try RuleUser(id: "a"))
    }

    /// "é" and "e\u{301}" are one `String`, and two texts.
    @Test(arguments: StoreKind.allCases) func queriesThatLookAlikeAreTwo(_ kind: StoreKind) throws {
        let texts = ["\u{e9}", "e\u{301}"]
        var fixture = try FlexibleFixture(kind), time: UInt64 = 4
        func set(_ number: Int, version: QueryVersion) -> SubscriptionSet {
            SubscriptionSet(version: version, query: Array(#"{"Note":"text == \"\#(texts[number])\""}"#.utf8))
        }
        func create(_ key: Int) throws {
            time += 1
            try fixture.file.write(at: ChangesetTime(rawValue: time)) { transaction in
                for number in texts.indices {
                    let text = Payload.string(Array(texts[number].utf8))
                    try transaction.create("Note", key: .int(Int64(key + number)), ["text": text])
                }
            }
        }
        func keys(_ device: FlexibleFixture) throws -> [Int64] {
            try device.client.state.read { transaction in
                try (0..<20).filter { try transaction.object("Note", key: .int($0)) != nil }
            }
        }
        try create(0)
        var devices: [FlexibleFixture] = []
        for number in texts.indices {
            var device = fixture
            (device.client, device.session) = try FlexibleFixture.join(fixture.synced, fixture.file)
            #expect(try device.file.query(set(number, version: 1), in: &device.session) == nil)
            try device.integrate()
            try device.upload()
            #expect(try keys(device) == [Int64(number)])
            devices.append(device)
        }
        try fixture.restart()
        for number in texts.indices {
            var device = fixture, request = devices[number].client.identRequest
            request.subscriptions = set(number, version: 1)
            device.client = devices[number].client
            device.client.startSession()
            device.session = try fixture.file.identify(request)
            devices[number] = device
        }
        try create(10)
        for number in texts.indices {
            try devices[number].integrate()
            #expect(try keys(devices[number]) == [Int64(number), Int64(10 + number)])
        }
        #expect(try fixture.file.query(set(1, version: 2), in: &devices[0].session) == nil)
        try devices[0].integrate()
        #expect(try keys(devices[0]) == [1, 11])
    }

    private static func rowCount(_ sql: String, _ fixture: FlexibleFixture) throws -> Int? {
        guard let store = fixture.test.store as? SQLiteStore else { return nil }
        return try store.shards[fixture.synced.id.shard].pool.read { try Int.fetchOne($0, sql: sql) }
    }

    /// The server loses what it has told the client and not stored, and the client has written before it was told.
    @Test(arguments: StoreKind.allCases) func whatAClientWasToldIsFoundOutAgain(_ kind: StoreKind) throws {
        var fixture = try FlexibleFixture(kind)
        try fixture.create(1)
        try fixture.integrate()
        try fixture.upload()
        try fixture.client.write(at: 100) { try $0.object("Note", key: .int(1))?.set("text", to: .string([0x61])) }
        for time in 200..<203 as Range<UInt64> {
            try fixture.file.write(at: ChangesetTime(rawValue: time)) { transaction in
                let text = Payload.string([UInt8(truncatingIfNeeded: time)])
                try transaction.object("Note", key: .int(1))?.set("text", to: text)
            }
        }
        let stored = try #require(try fixture.file.store.view(of: fixture.synced.id, fixture.client.ident))
        #expect(stored.record.projected < fixture.synced.version)
        try fixture.integrate()
        try fixture.restart()
        #expect(fixture.file.views.isEmpty)
        try fixture.identify()
        let entries = try #require(fixture.file.views[fixture.client.ident]).log.entries
        #expect(entries.compactMap(\.logged).count == 3)
        try fixture.upload()
        try fixture.integrate()
        let state = try #require(try fixture.synced.currentState())
        for text in [
            try fixture.client.state.read { try $0.object("Note", key: .int(1))?["text"] },
            try state.read { try $0.object("Note", key: .int(1))?["text"] },
        ] { #expect(text == .string([202])) }
        try fixture.test.verify()
    }

    /// So is a change of a long text, although the log does not keep how it was.
    @Test(arguments: StoreKind.allCases) func aChangeOfALongTextIsFoundOutAgain(_ kind: StoreKind) throws {
        var fixture = try FlexibleFixture(kind)
        let set = SubscriptionSet(version: 2, query: Array(#"{"Note":"text BEGINSWITH 'a'"}"#.utf8))
        #expect(try fixture.file.query(set, in: &fixture.session) == nil)
        try fixture.file.write(at: 2) { try $0.addColumn("number", .int, to: "Note") }
        try fixture.create(1, bytes: 1 << 20)
        try fixture.integrate()
        try fixture.upload()
        try fixture.client.write(at: 100) { try $0.object("Note", key: .int(1))?.set("number", to: .int(7)) }
        try fixture.file.write(at: 200) { transaction in
            try transaction.object("Note", key: .int(1))?.set("text", to: .string(Array("ab".utf8)))
        }
        let stored = try #require(try fixture.file.store.view(of: fixture.synced.id, fixture.client.ident))
        #expect(stored.record.projected < fixture.synced.version)
        try fixture.integrate()
        try fixture.restart()
        var request = fixture.client.identRequest
        request.subscriptions = set
        fixture.client.startSession()
        fixture.session = try fixture.file.identify(request)
        let entries = try #require(fixture.file.views[fixture.client.ident]).log.entries
        #expect(entries.last?.logged?.version == fixture.synced.version)
        try fixture.upload()
        try fixture.integrate()
        let state = try #require(try fixture.synced.currentState())
        for graph in [fixture.client.state, state] {
            try graph.read { transaction in
                let note = try #require(try transaction.object("Note", key: .int(1)))
                #expect(try note.value("number") == .int(7))
                #expect(try note.value("text") == .string(Array("ab".utf8)))
            }
        }
        try fixture.test.verify()
    }

    @Test func bootstrapsOfEqualSetsAreStoredOnce() throws {
        var first = try FlexibleFixture(.sqlite)
        for key in 0..<10 { try first.create(Int64(key), bytes: 1_000) }
        try first.integrate()
        try first.upload()
        var clients = [first, try first.joined(), try first.joined()]
        for index in clients.indices {
            for set in [Self.none, Self.all] {
                #expect(try clients[index].file.query(set, in: &clients[index].session) == nil)
                try clients[index].integrate()
            }
        }
        #expect(try Self.rowCount("SELECT count(*) FROM view_content", first) == 1)
        #expect(try Self.rowCount("SELECT length(content) FROM view_content", first).map { $0 < 1_000 } == true)
        #expect(try Self.rowCount("SELECT count(*) FROM view_entry WHERE content IS NOT NULL", first) == 3)
        for index in clients.indices {
            #expect(try clients[index].objectCount() == 10)
            try clients[index].upload()
            try clients[index].file.write(at: ChangesetTime(rawValue: 500 + UInt64(index))) { transaction in
                try transaction.object("Note", key: .int(1))?.set("text", to: .string([0x62]))
            }
            try clients[index].client.write(at: 600) { try $0.create("Note", key: .int(100 + Int64(index))) }
            try clients[index].upload()
        }
        #expect(try Self.rowCount("SELECT count(*) FROM view_content", first) == 0)
        try first.test.verify()
    }

    /// What a search has found is made once for all that ask the same, while nobody touches these objects.
    @Test(arguments: StoreKind.allCases) func bootstrapsOfEqualSetsAreMadeOnce(_ kind: StoreKind) throws {
        var first = try FlexibleFixture(kind)
        for key in 0..<10 { try first.create(Int64(key)) }
        let set = SubscriptionSet(version: 1, query: Array(#"{"Note":"_id < 5"}"#.utf8))
        var shares: [UInt64?] = []
        for (number, touched) in ([8, 3, 4] as [Int64]).enumerated() {
            var (client, session) = try FlexibleFixture.join(first.synced, first.file)
            #expect(try first.file.query(set, in: &session) == nil)
            shares.append(first.file.views[client.ident]?.log.entries.last?.share?.id)
            while let message = try first.file.download(for: &session) { try client.integrate(message.download) }
            let texts = try client.state.read { transaction in
                try (0..<10 as Range<Int64>).map { try transaction.object("Note", key: .int($0))?["text"] }
            }
            #expect(texts[3] == .string([number < 2 ? 0x61 : 0x62]) && texts.compactMap { $0 }.count == 5)
            try first.file.write(at: ChangesetTime(rawValue: 100 + UInt64(number))) { transaction in
                try transaction.object("Note", key: .int(touched))?.set("text", to: .string([0x62]))
            }
        }
        #expect(shares[0] != nil && shares[0] == shares[1] && shares[1] != shares[2])
        try first.test.verify()
    }

    /// Also if each of them asks for something else in between.
    @Test(arguments: StoreKind.allCases) func bootstrapsOfSeveralSetsAreMadeOnce(_ kind: StoreKind) throws {
        var first = try FlexibleFixture(kind)
        for key in 0..<10 { try first.create(Int64(key)) }
        let predicates: [(QueryVersion, String)] = [(1, "_id < 5"), (2, "_id < 5 OR _id == 7")]
        var shares: [[UInt64]] = []
        for _ in 0..<3 {
            var (client, session) = try FlexibleFixture.join(first.synced, first.file), ids: [UInt64] = []
            for (version, predicate) in predicates {
                let set = SubscriptionSet(version: version, query: Array(#"{"Note":"\#(predicate)"}"#.utf8))
                #expect(try first.file.query(set, in: &session) == nil)
                ids.append(try #require(first.file.views[client.ident]?.log.entries.last?.share?.id))
                while let message = try first.file.download(for: &session) { try client.integrate(message.download) }
            }
            shares.append(ids)
            let keys = try client.state.read { transaction in
                try (0..<10 as Range<Int64>).filter { try transaction.object("Note", key: .int($0)) != nil }
            }
            #expect(keys == [0, 1, 2, 3, 4, 7])
        }
        #expect(shares[0] == shares[1] && shares[1] == shares[2] && Set(shares[0]).count == 2)
        try first.test.verify()
    }

    /// A query reads of an object what it looks at, and no picture beside that: damage to these does not concern it.
    @Test func aQueryReadsWhatItLooksAt() throws {
        var first = try FlexibleFixture(.sqlite)
        for key in 0..<3 { try first.create(Int64(key), bytes: 100_000) }
        try first.restart()
        let store = try #require(first.test.store as? SQLiteStore)
        try store.shards[first.synced.id.shard].pool.write { db in
            try db.execute(sql: "UPDATE state_row SET content = x'00' WHERE part > 0")
        }
        var (_, session) = try FlexibleFixture.join(first.synced, first.file)
        func set(_ version: QueryVersion, _ predicate: String) -> SubscriptionSet {
            SubscriptionSet(version: version, query: Array(#"{"Note":"\#(predicate)"}"#.utf8))
        }
        for (version, predicate) in [(1, "_id > 5"), (2, "_id < 0")] as [(QueryVersion, String)] {
            #expect(try first.file.query(set(version, predicate), in: &session) == nil)
        }
        #expect(throws: HistoryError.self) {
            try first.file.query(set(3, "text == 'b' OR _id < 0"), in: &session)
        }
    }

    /// Nor for a client that only reads, of which nothing else is stored.
    @Test func whatIsConfirmedIsNotStoredForLong() throws {
        var first = try FlexibleFixture(.sqlite)
        for key in 0..<10 { try first.create(Int64(key), bytes: 1_000) }
        var reader = try first.joined()
        #expect(try Self.rowCount("SELECT count(*) FROM view_content", first) == 1)
        try first.create(10)
        #expect(try Self.rowCount("SELECT count(*) FROM view_content", first) == 0)
        #expect(try Self.rowCount("SELECT count(*) FROM view_entry WHERE content IS NOT NULL", first) == 0)
        try reader.integrate()
        try reader.restart()
        try reader.identify()
        try reader.create(11)
        try reader.integrate()
        #expect(try reader.objectCount() == 12)
        try reader.test.verify()
    }

    /// Who gets another role gets it at one version with the others, so that they get the same message; that of the
    /// first one is not known to be for others.
    @Test(arguments: StoreKind.allCases) func rolesThatChangeTogetherAreOneMessage(_ kind: StoreKind) throws {
        var first = try FlexibleFixture(kind)
        for key in 0..<10 { try first.create(Int64(key)) }
        try first.integrate()
        try first.upload()
        var clients = [first, try first.joined(), try first.joined()]
        first.synced.defersCommits = true
        let version = first.synced.version
        for client in clients {
            client.file.change(client.client.ident, to: try Self.reader(of: #"{"_id": {"$lt": 5}}"#))
        }
        #expect(try first.file.changeLong(until: .none).isEmpty)
        #expect(first.synced.version == version + 1 && !first.file.hasLongChanges)
        let commit = try #require(first.synced.takeDeferred())
        try first.test.store.commit([commit])
        first.synced.finish(commit, nil)
        first.file.didStore(commit)
        first.synced.defersCommits = false
        var messages: [[AlikeEntry]] = []
        for index in clients.indices {
            let message = try #require(try clients[index].file.download(for: &clients[index].session))
            #expect((message.alike == nil) == (index == 0))
            messages += [message.alike].compactMap { $0 }
            try clients[index].client.integrate(message.download)
            #expect(try clients[index].objectCount() == 5)
        }
        #expect(Set(messages).count == 1)
        try first.test.verify()
    }

    /// Long sets of one commit that differ are not taken for each other, though they are as long.
    @Test func setsOfOneLengthStayApart() throws {
        let first = try FlexibleFixture(.sqlite), long = String(repeating: "a", count: 600)
        var others = try (10..<30).map { _ in try first.joined() }
        first.synced.defersCommits = true
        func set(_ index: Int) -> SubscriptionSet {
            SubscriptionSet(version: 2, query: Array(#"{"Note":"text == '\#(long)\#(10 + index)'"}"#.utf8))
        }
        for index in others.indices { #expect(try first.file.query(set(index), in: &others[index].session) == nil) }
        let commit = try #require(first.synced.takeDeferred())
        try first.test.store.commit([commit])
        first.synced.finish(commit, nil)
        for (index, other) in others.enumerated() {
            let stored = try #require(try first.file.store.view(of: first.synced.id, other.client.ident))
            #expect(stored.record.predicates == set(index).predicates)
        }
        #expect(try Self.rowCount("SELECT count(*) FROM view_content", first) == 20)
        try first.test.verify()
    }

    /// Memory does not grow with clients that have left.
    @Test(arguments: StoreKind.allCases) func viewsOfClientsThatHaveLeftGo(_ kind: StoreKind) throws {
        var first = try FlexibleFixture(kind)
        let long = String(repeating: "a", count: 100_000)
        var others = try (0..<4).map { _ in try first.joined() }
        for index in others.indices {
            let query = #"{"Note":"text == '\#(long)\#(index)'"}"#
            let set = SubscriptionSet(version: 2, query: Array(query.utf8))
            #expect(try others[index].file.query(set, in: &others[index].session) == nil)
            try others[index].integrate()
        }
        for other in others { first.file.leave(other.client.ident) }
        #expect(first.file.views.count < 5 && first.file.allAwayBytes <= FlexibleFile.awayBytesMax)
        #expect(first.file.views[first.client.ident] != nil)
        try first.create(1)
        try first.integrate()
        #expect(try first.objectCount() == 1)
        // The first to leave comes back, and has its set.
        #expect(first.file.views[others[0].client.ident] == nil)
        #expect(try first.file.queries(of: others[0].client.ident)?["Note"]?.utf8.count == 100_000 + 11)
    }

    /// Its upload comes after those of clients that are up to date.
    @Test(arguments: StoreKind.allCases) func whoIsBehindWaitsForTheOthers(_ kind: StoreKind) throws {
        var first = try FlexibleFixture(kind)
        try first.create(1)
        try first.integrate()
        try first.upload()
        var second = try first.joined()
        first.file.leave(first.client.ident)
        try second.client.write(at: 100) { try $0.create("Note", key: .int(2)) }
        try second.upload()
        try first.identify()
        for number in 0..<2 as Range<Int64> {
            try first.client.write(at: 200) { try $0.create("Note", key: .int(10 + number)) }
            try second.client.write(at: 200) { try $0.create("Note", key: .int(20 + number)) }
        }
        for fixture in [first, second] {
            var fixture = fixture
            while let upload = fixture.client.nextUpload(.max), let rest = try fixture.session.progress.accept(upload) {
                fixture.file.enqueue(rest, from: fixture.client.ident, at: 1)
            }
        }
        let file = first.file
        #expect(file.hasLongUploads && file.hasNewUploads)
        #expect(try file.integrateNew(until: .none).map(\.ident) == [second.client.ident])
        #expect(try file.integrateLong(until: .none)?.ident == first.client.ident)
        #expect(!file.hasLongUploads && !file.hasNewUploads)
    }
}
