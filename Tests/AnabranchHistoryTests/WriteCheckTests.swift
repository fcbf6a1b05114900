import AnabranchCore
import AnabranchRules
import AnabranchTesting
import Testing

@testable import AnabranchHistory

/// What is refused of an upload, and what becomes of the rest, does not depend on how many of its objects are looked at
/// together, in how many steps, and what others do meanwhile (`Spec/FlexibleSync.md`, section 3.3).
@Suite struct WriteCheckTests {
    private static let objectCount: Int64 = 60

    /// Reads keys below 50, and may write to those whose text is not "z": these can be read, too.
    private static var rules: UserRules {
        get throws {
            let role = """
                {"name": "r", "apply_when": {}, "read": true, "write": true, "insert": true, "delete": true, \
                "document_filters": {"read": {"_id": {"$lt": 50}}, "write": {"text": {"$ne": "z"}}}}
                """
            let file = AppFile(path: "rules.json", bytes: #"{"roles": [\#(role)]}"#.utf8)
            let everything = AppFile(path: "rules.json", bytes: #"{"roles": [\#(allowing)]}"#.utf8)
            return try Rules(classes: ["Note": file, "Reading": everything], defaultRule: nil)
                .rules(for: try RuleUser(id: "a"))
        }
    }

    private static let allowing = """
        {"name": "r", "apply_when": {}, "document_filters": {"read": true, "write": true}, \
        "read": true, "write": true, "insert": true, "delete": true}
        """

    /// A client that may not do everything has done everything that can be done, in one transaction.
    private static func fixture(_ kind: StoreKind) throws -> FlexibleFixture {
        var fixture = try FlexibleFixture(kind)
        try fixture.file.write(at: 50) { transaction in
            for key in 0..<objectCount where key % 3 > 0 {
                let text = Payload.string([key % 7 == 0 ? UInt8(ascii: "z") : UInt8(ascii: "a")])
                try transaction.create("Note", key: .int(key), ["text": text])
            }
        }
        try fixture.integrate()
        try fixture.upload()
        try fixture.identify(rules: rules)
        try fixture.client.write(at: 60) { transaction in
            for key in 0..<objectCount {
                let text = Payload.string([key % 5 == 0 ? UInt8(ascii: "z") : UInt8(ascii: "b")])
                if let note = try transaction.object("Note", key: .int(key)) {
                    if key % 4 == 0 { try transaction.delete(note) } else { try note.set("text", to: text) }
                } else {
                    try transaction.create("Note", key: .int(key), ["text": text])
                }
                if key % 10 == 0 { try transaction.create("Reading", key: .int(key), ["value": .double(1)]) }
            }
        }
        while let upload = fixture.client.nextUpload(.max), let rest = try fixture.session.progress.accept(upload) {
            fixture.file.enqueue(rest, from: fixture.client.ident, at: 1)
        }
        return fixture
    }

    private struct Outcome: Equatable {
        var refused: [PrimaryKey] = []
        var log: [[UInt8]]
        var ingested: [PrimaryKey]
        var sent: [[UInt8]] = []
    }

    /// - Parameter meanwhile: done after each step.
    private static func outcome(
        _ fixture: inout FlexibleFixture, lookingAt count: Int, meanwhile: (Int) throws -> Void = { _ in }
    ) throws -> Outcome {
        let file = fixture.file, ident = fixture.client.ident
        file.checkedCount = count
        file.quota = ViewQuota(isUsedUp: { _ in false }, charge: { _, _ in }, step: { .smallest })
        var refused: [PrimaryKey] = [], stepCount = 0
        while file.hasUploads(of: ident) {
            let outcomes =
                file.hasNewUploads
                ? try file.integrateNew(until: .smallest) : try file.integrateLong(until: .smallest).map { [$0] } ?? []
            for outcome in outcomes where outcome.ident == ident {
                #expect(outcome.refusal == nil && outcome.refusals.count == outcome.refusals.objects.count)
                refused += outcome.refusals.objects.map(\.key)
            }
            stepCount += 1
            if file.hasUploads(of: ident) { try meanwhile(stepCount) }
        }
        #expect(stepCount > Int(objectCount) / count)
        var outcome = Outcome(
            refused: refused, log: try fixture.synced.log().map(\.changeset),
            ingested: try file.ingested(after: 0, countMax: 100).map(\.key))
        while let message = try file.download(for: &fixture.session) {
            outcome.sent += message.download.changesets.map(\.changeset)
            try fixture.client.integrate(message.download)
        }
        return outcome
    }

    @Test(arguments: StoreKind.allCases) func partsComeToTheSame(kind: StoreKind) throws {
        var whole = try Self.fixture(kind)
        let expected = try Self.outcome(&whole, lookingAt: 1_000)
        #expect(expected.refused.count > 10)
        #expect(expected.ingested == [0, 10, 20, 30, 40, 50])
        for count in [1, 2, 7, 59] {
            var fixture = try Self.fixture(kind)
            #expect(try Self.outcome(&fixture, lookingAt: count) == expected, "\(count) objects at a time")
            try fixture.test.verify()
        }
    }

    /// Others change, erase and create the objects between the steps.
    @Test(arguments: [1, 3, 1_000]) func whatOthersDoMeanwhileCounts(count: Int) throws {
        var fixture = try Self.fixture(.sqlite)
        var random = SeededRandom(seed: UInt64(count))
        let file = fixture.file
        var busy: Set<Int64> = []
        _ = try Self.outcome(&fixture, lookingAt: count) { step in
            guard step < 200 else { return }
            let key = Int64(random.below(Int(Self.objectCount)))
            busy.insert(key)
            try file.write(at: ChangesetTime(rawValue: UInt64(100 + step))) { transaction in
                guard let note = try transaction.object("Note", key: .int(key)) else {
                    try transaction.create("Note", key: .int(key), ["text": .string([0x61])])
                    return
                }
                guard random.isOne(in: 3) else { return try note.set("text", to: .string([0x7a])) }
                try transaction.delete(note)
            }
        }
        #expect(busy.count > 20)
        // The client has what it may see of the state, and nothing else.
        let state = try #require(try fixture.synced.currentState())
        let expected = try Self.objects(of: state).filter { $0.key < 50 || !$0.value.contains(UInt8(ascii: "z")) }
        #expect(try Self.objects(of: fixture.client.state) == expected)
        try fixture.test.verify()
    }

    private static func objects(of state: ObjectGraph) throws -> [PrimaryKey: [UInt8]] {
        var objects: [PrimaryKey: [UInt8]] = [:]
        let notes = try #require(state.classID(of: Array("Note".utf8)))
        try state.forEachObject(of: notes) { object throws(ApplyError) in
            if let key = object.key { objects[key] = try state.canonicalJSON(of: object) }
        }
        return objects
    }
}
