import AnabranchCore
import AnabranchRules
import AnabranchTesting
import Testing

@testable import AnabranchHistory

/// Clients of flexible sync that come with a copy of another client's file (`Spec/FlexibleSync.md`, section 3.4).
@Suite struct FlexibleCopyTests {
    private static let some = SubscriptionSet(version: 4, query: Array(#"{"Note":"text BEGINSWITH \"a\""}"#.utf8))

    /// A copy of the fixture's client.
    private static func copy(_ fixture: FlexibleFixture) throws -> MemoryClient {
        var copy = try fixture.client.copy(as: fixture.synced.allocateIdents(for: [nil], at: 1)[0])
        copy.startSession()
        return copy
    }

    /// Has the copy synchronized.
    private static func synchronize(
        _ client: inout MemoryClient, with fixture: FlexibleFixture, _ set: SubscriptionSet,
        rules: UserRules = .everything
    ) throws {
        client.startSession()
        var request = client.identRequest
        request.subscriptions = set
        var session = try fixture.file.identify(request, rules: rules)
        while let upload = client.nextUpload(), let rest = try session.progress.accept(upload) {
            if try !fixture.file.recordProgress(rest, from: client.ident, at: 1) {
                try fixture.file.integrate(rest, from: client.ident, at: 1)
            }
        }
        while let message = try fixture.file.download(for: &session) {
            // Its set is there already.
            #expect(message.kind == .steady)
            try client.integrate(message.download)
        }
    }

    /// The texts of the notes with small keys.
    private static func notes(_ client: MemoryClient) throws -> [Int64: String] {
        try client.state.read { state in
            var found: [Int64: String] = [:]
            for key in Int64(0)..<10 {
                guard case .string(let text)? = try state.object("Note", key: .int(key))?.value("text") else {
                    continue
                }
                found[key] = String(decoding: text, as: UTF8.self)
            }
            return found
        }
    }

    /// The server writes notes, or takes those away whose text is nil.
    private static func write(_ fixture: FlexibleFixture, _ time: UInt64, _ texts: [Int64: String?]) throws {
        try fixture.file.write(at: ChangesetTime(rawValue: time)) { transaction in
            for (key, text) in texts.sorted(by: { $0.key < $1.key }) {
                let note = try transaction.object("Note", key: .int(key))
                let value = Payload.string(Array((text ?? "").utf8))
                switch (note, text) {
                case (let note?, nil): try transaction.delete(note)
                case (let note?, _?): try note.set("text", to: value)
                case (nil, _): try transaction.create("Note", key: .int(key), ["text": value])
                }
            }
        }
    }

    /// A fixture whose client asks for the notes that begin with "a".
    private static func fixture(_ kind: StoreKind) throws -> FlexibleFixture {
        var fixture = try FlexibleFixture(kind)
        try write(fixture, 2, [1: "a", 2: "b", 3: "a", 4: "b", 5: "a"])
        try fixture.integrate()
        #expect(try fixture.file.query(some, in: &fixture.session) == nil)
        try fixture.integrate()
        try fixture.upload()
        #expect(try notes(fixture.client) == [1: "a", 3: "a", 5: "a"])
        return fixture
    }

    /// It has its set already: only what has happened since is sent, also to a copy of a copy, and after a restart.
    @Test(arguments: StoreKind.allCases) func aCopyGoesOnWithItsSet(kind: StoreKind) throws {
        var fixture = try Self.fixture(kind)
        var copies = try [Self.copy(fixture), Self.copy(fixture)]
        try Self.write(fixture, 3, [1: "away", 2: "a new one", 3: "b", 4: "b2", 5: nil, 6: "a6"])
        try copies[0].write(at: 4) { try $0.create("Note", key: 7, ["text": .string(Array("a7".utf8))]) }
        try fixture.restart()
        for index in copies.indices { try Self.synchronize(&copies[index], with: fixture, Self.some) }
        let expected = [1: "away", 2: "a new one", 6: "a6", 7: "a7"] as [Int64: String]
        for index in copies.indices {
            try Self.synchronize(&copies[index], with: fixture, Self.some)
            #expect(try Self.notes(copies[index]) == expected)
        }
        var second = try copies[1].copy(as: fixture.synced.allocateIdents(for: [nil], at: 1)[0])
        try Self.write(fixture, 5, [2: "c", 8: "a8"])
        try Self.synchronize(&second, with: fixture, Self.some)
        #expect(try Self.notes(second) == [1: "away", 6: "a6", 7: "a7", 8: "a8"])
        try fixture.test.verify()
    }

    /// Both write to the same object before the copy connects: as with any other client, the later one wins.
    @Test func whatACopyWritesBeforeIsMerged() throws {
        let fixture = try Self.fixture(.memory)
        var copy = try Self.copy(fixture)
        try copy.write(at: 900) { try $0.object("Note", key: 1)?.set("text", to: .string(Array("a of copy".utf8))) }
        try copy.write(at: 900) { try $0.object("Note", key: 3)?.set("text", to: .string(Array("a of copy".utf8))) }
        try Self.write(fixture, 901, [1: "a of server", 2: "b"])
        try Self.synchronize(&copy, with: fixture, Self.some)
        try Self.synchronize(&copy, with: fixture, Self.some)
        #expect(try Self.notes(copy) == [1: "a of server", 3: "a of copy", 5: "a"])
    }

    /// Whoever made the copy could perhaps not read what its user can, so that comes anew.
    @Test(arguments: StoreKind.allCases) func whatARoleLimitsComesAnew(kind: StoreKind) throws {
        let fixture = try Self.fixture(kind), rules = try Self.rules(reads: #"{"text": {"$ne": "a"}}"#)
        let other = try Self.rules(reads: #"{"text": {"$in": ["a", "ab"]}}"#)
        var limited = try fixture.client.copy(as: fixture.synced.allocateIdents(for: [nil], at: 1)[0])
        try Self.write(fixture, 3, [1: "ab", 2: "ac"])
        try Self.synchronize(&limited, with: fixture, Self.some, rules: other)
        #expect(try Self.notes(limited) == [1: "ab", 3: "a", 5: "a"])
        var copy = try limited.copy(as: fixture.synced.allocateIdents(for: [nil], at: 1)[0])
        try Self.synchronize(&copy, with: fixture, Self.some, rules: rules)
        let readable = try Self.notes(copy)
        #expect(readable[1] == "ab" && readable[2] == "ac")
    }

    /// A copy gets all that has happened since, and then what its role adds, however short the steps of others are.
    @Test(arguments: StoreKind.allCases) func aCopyMissesNothing(kind: StoreKind) throws {
        var fixture = try FlexibleFixture(kind)
        func create(_ key: Int64) throws {
            try fixture.file.write(at: 10) { transaction in
                for name in ["Book", "Note"] {
                    try transaction.create(name, key: .int(key), ["text": .string(Array("a".utf8))])
                }
            }
        }
        try fixture.file.write(at: 2) { transaction in
            try transaction.addClass("Book", key: "_id", .int)
            try transaction.addColumn("text", .string, to: "Book")
        }
        try create(1)
        let set = SubscriptionSet(
            version: 4, query: Array(#"{"Note":"text == \"a\"","Book":"text == \"a\""}"#.utf8))
        #expect(try fixture.file.query(set, in: &fixture.session) == nil)
        try fixture.integrate()
        try fixture.upload()
        var copy = try Self.copy(fixture)
        try create(2)
        fixture.file.quota = ViewQuota(isUsedUp: { _ in false }, charge: { _, _ in }, step: { .smallest })
        let rules = try Self.rules(reads: #"{"text": {"$ne": "b"}}"#, ofOthers: "true")
        try Self.synchronize(&copy, with: fixture, set, rules: rules)
        for name in ["Book", "Note"] {
            #expect(try copy.state.read { try $0.objects(name).count } == 2)
        }
        try fixture.test.verify()
    }

    /// No view had the set that the copy names, so the log does not say what was in it.
    @Test func whatTheLogDoesNotSayIsReset() throws {
        var fixture = try FlexibleFixture(.memory)
        try Self.write(fixture, 2, [1: "a"])
        try fixture.integrate()
        let copy = try Self.copy(fixture)
        var request = copy.identRequest
        request.subscriptions = Self.some
        #expect(try code { _ = try fixture.file.identify(request) } == .clientFileExpired)
        request.subscriptions = FlexibleFixture.all
        request.latest.salt.rawValue ^= 1
        #expect(try code { _ = try fixture.file.identify(request) } == .divergingHistories)
        request.latest.salt.rawValue ^= 1
        #expect(try code { _ = try fixture.file.identify(request) } == nil)
    }

    /// What has left its set is sent after what stays in it: a copy made in between has too much. Its original goes on.
    @Test(arguments: StoreKind.allCases) func aCopyFromTheMidstOfADownloadIsReset(kind: StoreKind) throws {
        var fixture = try Self.fixture(kind)
        fixture.file.leave(fixture.client.ident)
        for (time, texts) in [(3, [1: "b"]), (4, [3: "a2"]), (5, [5: "a3"])] as [(UInt64, [Int64: String?])] {
            try Self.write(fixture, time, texts)
        }
        var request = fixture.client.identRequest
        request.subscriptions = Self.some
        var session = try fixture.file.identify(request)
        let part = try #require(try fixture.file.download(for: &session, byteBudget: 0))
        try fixture.client.integrate(part.download)
        #expect(try Self.notes(fixture.client) == [1: "a", 3: "a2", 5: "a"])
        try fixture.restart()
        request = try Self.copy(fixture).identRequest
        request.subscriptions = Self.some
        #expect(try code { _ = try fixture.file.identify(request) } == .clientFileExpired)
        try Self.synchronize(&fixture.client, with: fixture, Self.some)
        #expect(try Self.notes(fixture.client) == [3: "a2", 5: "a3"])
        var copy = try Self.copy(fixture)
        try Self.synchronize(&copy, with: fixture, Self.some)
        #expect(try Self.notes(copy) == [3: "a2", 5: "a3"])
    }

    /// - Parameter ofOthers: of objects of other classes; nil for none.
    private static func rules(reads condition: String, ofOthers: String? = nil) throws -> UserRules {
        func file(_ condition: String) -> AppFile {
            let role = """
                {"name": "r", "apply_when": {}, "document_filters": {"read": \(condition), "write": false}, \
                "read": true, "write": true, "insert": false, "delete": false}
                """
            return AppFile(path: "rules.json", bytes: #"{"roles": [\#(role)]}"#.utf8)
        }
        return try Rules(classes: ["Note": file(condition)], defaultRule: ofOthers.map(file))
            .rules(for: try RuleUser(id: "a"))
    }
}
