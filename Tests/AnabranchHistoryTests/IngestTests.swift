import AnabranchCore
import AnabranchRules
import AnabranchTesting
import GRDB
import Testing

@testable import AnabranchHistory
@testable import AnabranchSQLite

/// Objects of asymmetric classes are taken in for a consumer, and nobody is sent them.
@Suite struct IngestTests {
    private static func write(_ fixture: inout FlexibleFixture, _ values: [Int64: Double]) throws {
        try fixture.client.write(at: 5) { transaction in
            for (key, value) in values.sorted(by: { $0.key < $1.key }) {
                try transaction.create("Reading", key: .int(key), ["value": .double(value)])
            }
        }
    }

    private static func text(_ key: Int64, _ value: Double) -> String {
        #"[{"int":"\#(key)"},{"value":{"double":"\#(String(value.bitPattern, radix: 16))"}}]"#
    }

    private static func texts(_ file: FlexibleFile, after number: UInt64 = 0) throws -> [String] {
        try file.ingested(after: number, countMax: 100).map { String(decoding: $0.json, as: UTF8.self) }
    }

    @Test(arguments: StoreKind.allCases) func whatIsCreatedWaitsForAConsumer(kind: StoreKind) throws {
        var fixture = try FlexibleFixture(kind)
        var (other, session) = try FlexibleFixture.join(fixture.synced, fixture.file)
        #expect(try fixture.file.query(FlexibleFixture.all, in: &session) == nil)
        try fixture.client.write(at: 5) { transaction in
            try transaction.create("Note", key: 1)
            try transaction.create("Reading", key: 7, ["value": .double(2.5)])
            try transaction.create("Reading", key: 8)
        }
        // The first one counts.
        try Self.write(&fixture, [7: 9, 9: 3])
        try fixture.upload()
        let expected = [Self.text(7, 2.5), Self.text(8, 0), Self.text(9, 3)]
        #expect(try Self.texts(fixture.file) == expected)
        let found = try fixture.file.ingested(after: 0, countMax: 2)
        #expect(found.map(\.key) == [7, 8] && found.allSatisfy { $0.className == Array("Reading".utf8) })
        #expect(found.allSatisfy { $0.time == 1 && $0.user == nil })
        #expect(try Self.texts(fixture.file, after: found[1].number) == [expected[2]])
        #expect(try fixture.file.ingested(after: 0, countMax: 9, byteBudget: 1).count == 1)

        while let message = try fixture.file.download(for: &session) { try other.integrate(message.download) }
        #expect(try other.state.read { try $0.objects("Note").count } == 1)
        for entry in try fixture.synced.log() {
            var arena = ChangesetArena()
            let index = try entry.decode(into: &arena)
            #expect(!arena.touchedObjects(of: index).contains { $0.className == Array("Reading".utf8) })
        }

        try fixture.restart()
        #expect(try Self.texts(fixture.file) == expected)
        try fixture.file.freeIngested(through: found[1].number)
        #expect(try Self.texts(fixture.file) == [expected[2]])
        try fixture.identify()
        // Nobody knows any more that there was one of this key.
        try Self.write(&fixture, [7: 1])
        try fixture.upload()
        #expect(try Self.texts(fixture.file) == [expected[2], Self.text(7, 1)])
        try fixture.test.verify()
    }

    /// Of a `String`, both idents are one.
    @Test(arguments: StoreKind.allCases) func usersWhoseIdentsLookAlikeAreTwo(kind: StoreKind) throws {
        var fixture = try FlexibleFixture(kind), others: [FlexibleFixture] = []
        for (key, user) in ["\u{e9}", "e\u{301}"].enumerated() {
            var other = fixture
            other.client = MemoryClient(try fixture.synced.allocateIdents(for: [user], at: 1)[0])
            other.session = try fixture.file.identify(other.client.identRequest, user: user)
            #expect(try other.file.query(FlexibleFixture.all, in: &other.session) == nil)
            try other.integrate()
            try Self.write(&other, [Int64(key): 1])
            try other.upload()
            others.append(other)
        }
        try fixture.restart()
        let bytes = try fixture.file.store.ingestedBytes(of: fixture.synced.id)
        #expect(Set(bytes.keys.map { $0?.text.utf8.count }) == [2, 3])
        let request = others[1].client.identRequest
        let refusal = #expect(throws: HistoryError.self) { try fixture.file.identify(request, user: "\u{e9}") }
        #expect(refusal?.code == .userMismatch)
        _ = try fixture.file.identify(request, user: "e\u{301}")
    }

    @Test func uploadsWaitWhileThereIsNoRoom() throws {
        var fixture = try FlexibleFixture(.sqlite)
        fixture.file.ingestedBytesMax = 270
        try Self.write(&fixture, [1: 1, 2: 2])
        try fixture.upload()
        let first = try fixture.file.ingested(after: 0, countMax: 9), version = fixture.synced.version
        #expect(first.count == 2)
        try Self.write(&fixture, [3: 3])
        #expect(throws: HistoryError(.backlogFull, "")) { try fixture.upload() }
        #expect(fixture.synced.version == version)
        try fixture.file.freeIngested(through: first[1].number)
        try fixture.identify()
        try fixture.upload()
        #expect(try Self.texts(fixture.file) == [Self.text(3, 3)])
    }

    /// However many users fill their parts, there is room for one who has little.
    @Test func aUserFillsAPartOfWhatOthersLeaveFree() throws {
        let fixture = try FlexibleFixture(.sqlite), file = fixture.file
        file.ingestedBytesMax = 8_000
        func object(of user: String, bytes: Int) throws -> IngestedObject {
            let json = [UInt8](repeating: 0, count: bytes)
            return try IngestedObject(0, of: 1, Array("Reading".utf8), .int(1), time: 1, user: user, json: json)
        }
        let greedy = (0..<20).map { "user \($0)" }
        for user in greedy {
            while (try? file.requireRoom(for: [object(of: user, bytes: 36)])) != nil {}
        }
        #expect(throws: HistoryError(.backlogFull, "")) {
            try file.requireRoom(for: [object(of: greedy[0], bytes: 36)])
        }
        try file.requireRoom(for: [object(of: "ann", bytes: 0)])
    }

    @Test func asymmetricClassesCannotBeSubscribedTo() throws {
        var fixture = try FlexibleFixture(.memory)
        let set = SubscriptionSet(version: 2, query: Array(#"{"Reading":"TRUEPREDICATE"}"#.utf8))
        let refusal = try fixture.file.query(set, in: &fixture.session)
        #expect(refusal?.contains("asymmetric classes cannot be subscribed to") == true, "\(refusal ?? "")")
    }

    @Test func whoMayNotCreateThemIsTold() throws {
        var fixture = try FlexibleFixture(.sqlite)
        try Self.write(&fixture, [4: 1])
        try fixture.identify(rules: .nothing)
        let version = fixture.synced.version
        #expect {
            try fixture.upload()
        } throws: { error in
            let refused = (error as? HistoryError)?.refusal?.objects.map(\.reason)
            return (error as? HistoryError)?.code == .writeNotAllowed
                && refused == [#"write to 4 in table "Reading" not allowed"#]
        }
        #expect(try Self.texts(fixture.file).isEmpty && fixture.synced.version == version)
    }

    @Test(arguments: [
        "UPDATE ingested SET object = '{}'", "UPDATE ingested SET number = number + 1",
        "UPDATE ingested SET key = x'32'",
        "UPDATE ingested SET user = 'ann'",
    ])
    func damageIsFound(sql: String) throws {
        var fixture = try FlexibleFixture(.sqlite)
        try Self.write(&fixture, [1: 1])
        try fixture.upload()
        try (fixture.test.store as? SQLiteStore)?.close()
        let queue = try DatabaseQueue(path: fixture.test.path + "/shard-00.sqlite")
        try queue.write { try $0.execute(sql: sql) }
        try queue.close()
        var damages: [StoreDamage] = []
        try StoreVerification(directory: fixture.test.path).checkFiles { damages += $0.damages }
        #expect(damages.count == 1 && damages.first?.place.hasPrefix("ingested object") == true, "\(damages)")
    }
}
