import AnabranchCore
import AnabranchRules
import AnabranchTesting
import Testing

@testable import AnabranchHistory

/// Roles in the query language: who sees what as objects change, and what becomes of writes that they do not allow
/// (`Spec/FlexibleRules.md`, section 3.1).
@Suite struct RuleQueryTests {
    private static func rules(read: String, write: String, user: String = "ada") throws -> UserRules {
        let role: JSONValue = [
            "name": "r", "apply_when": [:], "read": true, "write": true, "insert": true, "delete": true,
            "write_implies_read": false,
            "document_filters": ["read": ["%query": .string(read)], "write": ["%query": .string(write)]],
        ]
        let file = AppFile(path: "rules.json", bytes: JSONValue.object(["roles": .array([role])]).encoded.utf8)
        return try Rules(classes: ["Note": file]).rules(for: RuleUser(id: "5f", name: user))
    }

    private static func text(_ word: String) -> Payload { .string(Array(word.utf8)) }

    /// A client of ada, who reads what the query says. Notes have an owner, tags, and a place that is embedded.
    private static func fixture(_ kind: StoreKind, read: String, write: String = "FALSEPREDICATE") throws
        -> FlexibleFixture
    {
        var fixture = try FlexibleFixture(kind)
        try fixture.file.write(at: 2) { transaction in
            try transaction.addEmbeddedClass("Place")
            try transaction.addColumn("city", .string, isNullable: true, to: "Place")
            try transaction.addColumn("owner", .string, isNullable: true, to: "Note")
            try transaction.addColumn("tags", .string, collection: .set, to: "Note")
            try transaction.addLink("place", to: "Place", of: "Note")
            try transaction.addLink("places", to: "Place", collection: .list, of: "Note")
            for key in 1...3 as ClosedRange<Int64> { try transaction.create("Note", key: .int(key)) }
        }
        try fixture.identify(rules: try rules(read: read, write: write))
        try fixture.integrate()
        try fixture.upload()
        return fixture
    }

    private static func keys(_ fixture: FlexibleFixture) throws -> [Int64] {
        try fixture.client.state.read { transaction in
            try transaction.objects("Note").compactMap { if case .int(let key)? = $0.key { key } else { nil } }
        }
    }

    // MARK: Reading

    private struct Step: Sendable {
        let change: @Sendable (DynamicObject) throws -> Void
        /// True if the object is seen then.
        let isSeen: Bool

        init(_ isSeen: Bool, _ change: @escaping @Sendable (DynamicObject) throws -> Void) {
            (self.isSeen, self.change) = (isSeen, change)
        }
    }

    private static let steps: [(String, [Step])] = [
        (
            "owner == $user.id",
            [
                Step(true) { try $0.set("owner", to: "ada") }, Step(true) { try $0.set("text", to: "x") },
                Step(false) { try $0.set("owner", to: "bob") }, Step(false) { try $0.set("owner", to: .null) },
                Step(true) { try $0.set("owner", to: "ada") },
            ]
        ),
        (
            "ANY tags == $user.id and tags.@count < 3",
            [
                Step(false) { try $0.set("tags").insert("bob") }, Step(true) { try $0.set("tags").insert("ada") },
                Step(false) { try $0.set("tags").insert("eve") },
                Step(true) { try $0.set("tags").remove("bob") }, Step(false) { try $0.set("tags").remove("ada") },
            ]
        ),
        (
            "place.city BEGINSWITH[c] 'r'",
            [
                Step(true) { try $0.createObject("place").set("city", to: "Rome") },
                Step(false) { try $0.object("place")?.set("city", to: "Oslo") },
                Step(true) { try $0.object("place")?.set("city", to: "riga") },
                Step(false) { try $0.createObject("place") }, Step(false) { try $0.set("place", to: .null) },
            ]
        ),
        (
            "ALL places.city == owner and places.@count > 0",
            [
                Step(false) { try $0.list("places").appendObject() }, Step(true) { try $0.set("owner", to: .null) },
                Step(false) { try $0.list("places").appendObject().set("city", to: "Rome") },
                Step(true) { try $0.list("places").remove(at: 1) },
                Step(false) { try $0.list("places").object(at: 0).set("city", to: "Rome") },
                Step(true) { try $0.set("owner", to: "Rome") }, Step(false) { try $0.list("places").removeAll() },
            ]
        ),
    ]

    /// Whichever field, collection or embedded object it is that turns the rule.
    @Test(arguments: StoreKind.allCases, steps.indices)
    func objectsComeAndGoWithWhatTheRuleReads(kind: StoreKind, _ number: Int) throws {
        let (query, steps) = Self.steps[number]
        var fixture = try Self.fixture(kind, read: query)
        if number == 3 {
            try fixture.file.write(at: 9) { try $0.object("Note", key: 2)?.set("owner", to: "Oslo") }
        }
        for (index, step) in steps.enumerated() {
            try fixture.file.write(at: ChangesetTime(rawValue: 10 + UInt64(index))) { transaction in
                try transaction.object("Note", key: 2).map(step.change)
            }
            try fixture.integrate()
            #expect(try Self.keys(fixture) == (step.isSeen ? [2] : []), "step \(index) of \(query)")
            try fixture.upload()
        }
        // Who comes back is told the same.
        try fixture.identify(rules: Self.rules(read: "!(\(query))", write: "FALSEPREDICATE"))
        try fixture.integrate()
        #expect(try Self.keys(fixture).contains(2) != steps.last?.isSeen)
        try fixture.upload()
        try fixture.test.verify()
    }

    // MARK: Writing

    /// - Returns: the keys of the objects that the client is told about.
    private static func told(_ fixture: inout FlexibleFixture) throws -> [PrimaryKey] {
        try fixture.upload()
        var keys: [PrimaryKey] = []
        while let message = try fixture.file.download(for: &fixture.session) {
            keys += message.compensations.flatMap { $0.objects.map(\.key) }
            try fixture.client.integrate(message.download)
        }
        return keys
    }

    private static func owner(_ key: Int64, _ fixture: FlexibleFixture) throws -> Payload? {
        try fixture.client.state.read { try $0.object("Note", key: .int(key))?["owner"] }
    }

    private static func give(_ key: Int64, to owner: String, _ fixture: inout FlexibleFixture) throws {
        try fixture.client.write(at: 60) { transaction in
            let note = try transaction.object("Note", key: .int(key)) ?? transaction.create("Note", key: .int(key))
            try note.set("owner", to: text(owner))
        }
    }

    /// Write is asked of the new object where one is created, of the old one where one is deleted, and of both where
    /// one is changed. What is refused is put back.
    @Test(arguments: StoreKind.allCases) func writeIsAskedBeforeAndAfter(kind: StoreKind) throws {
        var fixture = try Self.fixture(kind, read: "TRUEPREDICATE", write: "owner == $user.id")
        // Created, for herself and for another.
        try Self.give(10, to: "ada", &fixture)
        #expect(try Self.told(&fixture) == [])
        try Self.give(11, to: "bob", &fixture)
        #expect(try Self.told(&fixture) == [11])
        #expect(try Self.keys(fixture) == [1, 2, 3, 10])
        // Changed: her own, one of nobody to hers, and hers to another's.
        try fixture.client.write(at: 61) { try $0.object("Note", key: 10)?.set("text", to: "x") }
        #expect(try Self.told(&fixture) == [])
        try Self.give(1, to: "ada", &fixture)
        #expect(try Self.told(&fixture) == [1])
        #expect(try Self.owner(1, fixture) == .null)
        try Self.give(10, to: "bob", &fixture)
        #expect(try Self.told(&fixture) == [10])
        #expect(try Self.owner(10, fixture) == "ada")
        // Deleted: another's, and her own.
        for (key, refused) in [(2, [2]), (10, [])] as [(Int64, [PrimaryKey])] {
            try fixture.client.write(at: 62) { transaction in
                if let note = try transaction.object("Note", key: .int(key)) { try transaction.delete(note) }
            }
            #expect(try Self.told(&fixture) == refused)
        }
        #expect(try Self.keys(fixture) == [1, 2, 3])
        try fixture.test.verify()
    }

    /// Who may write what cannot be read gives it away: it leaves, and does not come back.
    @Test(arguments: StoreKind.allCases) func whatIsGivenAwayLeaves(kind: StoreKind) throws {
        var fixture = try Self.fixture(kind, read: "owner == $user.id", write: "TRUEPREDICATE")
        try Self.give(10, to: "ada", &fixture)
        try Self.give(11, to: "ada", &fixture)
        #expect(try Self.told(&fixture) == [])
        try Self.give(10, to: "bob", &fixture)
        #expect(try Self.told(&fixture) == [])
        #expect(try Self.keys(fixture) == [11])
        let stored = try fixture.file.currentState()
        #expect(try stored.read { try $0.object("Note", key: 10)?["owner"] } == "bob")
        try fixture.test.verify()
    }
}
