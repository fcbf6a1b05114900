import AnabranchTesting
import Testing

@testable import AnabranchCore

/// Equal states have equal digests, others others.
@Suite struct StateDigestTests {
    private func digest(_ steps: Step...) throws -> StateDigest {
        var graph = try ApplyTests.graph()
        for step in steps { try graph.apply(changeset(step)) }
        return try StateDigest(of: graph)
    }

    @Test func everyEffectChangesTheDigest() throws {
        let digests = try [
            digest(), digest(.createObject(ObjectName(key: 2))), digest(.update(.at("i"), .int(8))),
            digest(.update(.at("n"), .int(0))), digest(.update(.at("n"), .int(7))), digest(.update(.at("m"), .list)),
            digest(.insert(.item(0), .int(11), size: 2)), digest(.insert(.item(1), .int(11), size: 2)),
            digest(.insert(.at("lm", 0, 0), .null, size: 0)), digest(.setInsert(.at("s"), .int(2))),
            digest(.update(.at("y", "j"), .int(1))), digest(.update(.at("e", "x"), .int(6))),
            digest(.update(.at("e"), .null)),
            digest(.update(.at("a"), .link("A", 1))), digest(.update(.at("a"), .link("A", 2))),
            digest(.addColumn("A", "new")), digest(.addColumn("A", "new", .bool)), digest(.addTable("N")),
            digest(.eraseColumn("A", "i")), digest(.eraseObject()), digest(.move(.item(0), to: 1, size: 2)),
        ]
        #expect(Set(digests).count == digests.count)
    }

    @Test func numbersCountByValue() throws {
        #expect(try digest(.update(.at("m"), .double(0))) == digest(.update(.at("m"), .double(-0.0))))
        #expect(try digest(.update(.at("m"), .int(1))) != digest(.update(.at("m"), .double(1))))
        let decimals = [Decimal128(low: 1, high: 0x3040 << 48), Decimal128(low: 10, high: 0x303E << 48)]
        #expect(
            try digest(.update(.at("c"), .decimal(decimals[0]))) == digest(.update(.at("c"), .decimal(decimals[1]))))
        let elements: [Payload] = [.int(1), .float(1), .double(1)] + decimals.map { .decimal($0) }
        #expect(Set(try elements.map { try digest(.setInsert(.at("sm"), $0)) }).count == 1)
        let half = Decimal128(low: 5, high: 0x303E << 48)
        #expect(try digest(.setInsert(.at("sm"), .double(0.5))) == digest(.setInsert(.at("sm"), .decimal(half))))
        #expect(try digest(.setInsert(.at("sm"), .double(0.1))) != digest(.setInsert(.at("sm"), .float(0.1))))
    }

    @Test func theOrderOfObjectsAndColumnsDoesNotCount() throws {
        var (left, right) = (ObjectGraph(), ObjectGraph())
        let (a, b) = (Step.addColumn("A", "a"), Step.addColumn("A", "b"))
        let (one, two) = (Step.createObject(), Step.createObject(ObjectName(key: 2)))
        try left.apply(changeset(.addTable("A"), .addTable("B"), a, b, one, two, .update(.at("a"), .int(3))))
        try right.apply(changeset(.addTable("B"), .addTable("A"), two, b, one, a, .update(.at("a"), .int(3))))
        #expect(try StateDigest(of: left) == StateDigest(of: right))
    }

    /// A fixed function: its values may be stored and compared between machines.
    @Test func theFunctionIsFixed() throws {
        #expect(StateDigest().description == String(repeating: "0", count: 32))
        let text = try digest().description
        #expect(text == "a692223d074d6508da908ee1b85f38ff")
    }
}
