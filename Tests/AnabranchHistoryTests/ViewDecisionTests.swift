import AnabranchCore
import AnabranchExplain
import AnabranchRules
import AnabranchTesting
import Testing

@testable import AnabranchHistory

/// The reasons why objects of a version were refused or left the view of its client are kept with it.
@Suite struct ViewDecisionTests {
    private static let role = """
        {"name": "editor", "apply_when": {}, "write_implies_read": false, "read": true, "write": true, \
        "insert": {"_id": {"$ne": 13}}, "delete": {"text": {"$ne": "k"}}, "document_filters": \
        {"read": {"$and": [{"_id": {"$lt": 50}}, {"text": {"$ne": "h"}}]}, "write": {"text": {"$ne": "z"}}}}
        """

    private static var rules: UserRules {
        get throws {
            let file = AppFile(path: "rules.json", bytes: #"{"roles": [\#(role)]}"#.utf8)
            return try Rules(classes: ["Note": file], defaultRule: nil).rules(for: try RuleUser(id: "a"))
        }
    }

    /// A client uploads one transaction that meets each condition.
    private static func uploaded(_ kind: StoreKind) throws -> FlexibleFixture {
        var fixture = try FlexibleFixture(kind)
        let texts: [Int64: Character] = [1: "a", 2: "z", 3: "k", 4: "a", 5: "a", 6: "a", 60: "a"]
        try fixture.file.write(at: 50) { transaction in
            for (key, text) in texts.sorted(by: { $0.key < $1.key }) {
                try transaction.create("Note", key: .int(key), ["text": .string(Array("\(text)".utf8))])
            }
        }
        try fixture.integrate()
        try fixture.upload()
        var request = fixture.client.identRequest
        request.subscriptions = FlexibleFixture.all
        fixture.client.startSession()
        fixture.session = try fixture.file.identify(request, rules: rules)
        let asked = SubscriptionSet(version: 2, query: Array(#"{"Note":"text != 'q'"}"#.utf8))
        #expect(try fixture.file.query(asked, in: &fixture.session) == nil)
        let changes: [(Int64, Character)] = [(1, "z"), (2, "b"), (4, "q"), (5, "h"), (6, "b"), (60, "b")]
        try fixture.client.write(at: 60) { transaction in
            for (key, text) in changes {
                try #require(try transaction.object("Note", key: .int(key)))
                    .set("text", to: .string(Array("\(text)".utf8)))
            }
            try transaction.delete(try #require(try transaction.object("Note", key: .int(3))))
            try transaction.create("Note", key: .int(13), ["text": .string(Array("a".utf8))])
            try transaction.create("Note", key: .int(14), ["text": .string(Array("q".utf8))])
        }
        try fixture.upload()
        return fixture
    }

    private static func decision(
        _ key: Int64, _ condition: ViewDecision.Condition, _ text: String, isRefused: Bool = true
    ) -> ViewDecision {
        ViewDecision(
            object: ObjectAddress("Note".utf8, .int(key)), isRefused: isRefused, condition: condition,
            role: condition == .query ? nil : "editor", text: text)
    }

    @Test(arguments: StoreKind.allCases) func everyConditionIsKept(kind: StoreKind) throws {
        var fixture = try Self.uploaded(kind)
        let write = #"{"text":{"$not":{"$eq":"z"}}}"#, query = "text != 'q'"
        let read = #"{"$and":[{"_id":{"$lt":50}},{"text":{"$not":{"$eq":"h"}}}]}"#
        let expected = [
            Self.decision(1, .writeAfter, write), Self.decision(2, .writeBefore, write),
            Self.decision(3, .delete, #"{"$and":[{"text":{"$not":{"$eq":"k"}}},\#(write)]}"#),
            Self.decision(4, .query, query, isRefused: false), Self.decision(5, .read, read, isRefused: false),
            Self.decision(13, .insert, #"{"$and":[{"_id":{"$not":{"$eq":13}}},\#(write)]}"#),
            Self.decision(14, .query, query), Self.decision(60, .read, read),
        ]
        for _ in 0..<2 {
            let version = fixture.synced.version, explanation = try Self.explanation(of: version, in: fixture.synced)
            #expect(explanation.decisions == expected)
            let refused = Set(explanation.instructions.filter(\.isRefused).compactMap(\.uploaded.object))
            #expect(refused == Set(expected.filter(\.isRefused).map(\.object)))
            #expect(Set(expected.map(\.sentence)).count == 8, "each says something else")
            #expect(explanation.json.contains(#"a user with the role \"editor\" may not erase the object"#))
            try fixture.test.verify()
            try fixture.restart()
        }
    }

    /// They go with the entry.
    @Test(arguments: StoreKind.allCases) func trimsEraseThem(kind: StoreKind) throws {
        var fixture = try Self.uploaded(kind), policy = HistoryPolicy()
        (policy.sealEntries, policy.generationBytes) = (4, 0)
        let version = fixture.synced.version
        while let message = try fixture.file.download(for: &fixture.session) {
            try fixture.client.integrate(message.download)
        }
        for key in 100..<120 { try fixture.create(Int64(key)) }
        while let message = try fixture.file.download(for: &fixture.session) {
            try fixture.client.integrate(message.download)
        }
        try fixture.upload()
        _ = try fixture.synced.maintain(at: 1, policy)
        try #require(fixture.synced.head.baseVersion >= version)
        #expect(try fixture.synced.read { view throws(HistoryError) in try view.decisions(on: version) }.isEmpty)
        try fixture.test.verify()
    }

    private static func explanation(of version: ServerVersion, in file: SyncedFile) throws -> Explanation {
        try file.read { view throws(HistoryError) in try view.explanation(of: version) }
    }

    /// A record that was damaged is an error, whatever it holds.
    @Test func damagedRecordsAreErrors() throws {
        let fixture = try Self.uploaded(.memory), version = fixture.synced.version
        let range = OwnRecord.decisions.range(from: version)
        let found = try fixture.synced.read { view throws(HistoryError) in
            try view.records(in: range, countMax: 1, isReversed: false)
        }
        let record = try #require(found.first)
        #expect(try ViewDecisions(record, of: version).decisions.count == 8)
        var random = SeededRandom(seed: 7), errorCount = 0
        for length in 0..<record.value.count {
            var cut = record
            cut.value = Array(record.value.prefix(length))
            do { _ = try ViewDecisions(cut, of: version) } catch {
                #expect(error.code == .storeDamaged)
                errorCount += 1
            }
            var changed = record
            changed.value[length] = UInt8.random(in: 0...255, using: &random)
            do { _ = try ViewDecisions(changed, of: version) } catch {
                #expect(error.code == .storeDamaged)
                errorCount += 1
            }
        }
        #expect(errorCount > record.value.count / 2)
    }

    /// To a `String`, "é" is "e\u{301}".
    @Test func textsAreKeptByTheirBytes() throws {
        let names = ["\u{e9}", "e\u{301}"], role = ViewRole(.everything, in: ObjectGraph())
        let writer = ChangesetWriter(names.map { .createObject(ObjectName(className: $0)) })
        var arena = ChangesetArena(), decisions = ViewDecisions()
        let index = try arena.decode(writer.bytes, version: 1, tag: OriginTag(timestamp: 1, ident: 2))
        for object in arena.touchedObjects(of: index) {
            decisions.add(object, isRefused: true, .existence, role, .empty)
        }
        let change = try #require(decisions.change(of: 1))
        let record = DoorRecord(place: change.place, value: try #require(change.value))
        let found = try ViewDecisions(record, of: 1).decisions.map(\.object.className)
        #expect(Set(found) == Set(names.map { Array($0.utf8) }))
    }
}
