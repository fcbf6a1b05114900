import AnabranchTesting
import Testing

@testable import AnabranchCore

/// `Spec/Transform.md`, section 7.4: R25–R28, and the comparison of values of section 3.
@Suite struct SetRulesTests {
    private func insert(_ value: Payload, into field: String = "s") -> Step { .setInsert(.at(field), value) }
    private func erase(_ value: Payload, from field: String = "s") -> Step { .setErase(.at(field), value) }

    @Test func setInsertOrSetEraseVersusClear() throws {
        for age in [Age.majorOlder, .minorOlder, .equal] {
            for step in [insert(.int(1)), erase(.int(1))] {
                try expectMergeBothWays([step], [.clear(.at("s"), .set)], age, becomes: [], [.clear(.at("s"), .set)])
            }
        }
        try expectNothing([insert(.int(1), into: "t")], [.clear(.at("s"), .set)])
    }

    @Test func setInsertVersusSetInsert() throws {
        try expectMerge([insert(.int(1))], [insert(.int(1))], .majorOlder, becomes: [], [insert(.int(1))])
        try expectMerge([insert(.int(1))], [insert(.int(1))], .minorOlder, becomes: [insert(.int(1))], [])
        try expectMerge([insert(.int(1))], [insert(.int(1))], .equal, becomes: [insert(.int(1))], [])
        try expectNothing([insert(.int(1))], [insert(.int(2))])
        try expectNothing([insert(.int(1))], [insert(.int(1), into: "t")])
    }

    @Test func setEraseVersusSetInsert() throws {
        try expectMergeBothWays([erase(.int(1))], [insert(.int(1))], .majorOlder, becomes: [], [insert(.int(1))])
        try expectMergeBothWays([erase(.int(1))], [insert(.int(1))], .minorOlder, becomes: [erase(.int(1))], [])
        try expectMergeBothWays([erase(.int(1))], [insert(.int(1))], .equal, becomes: [erase(.int(1))], [])
    }

    @Test func setEraseVersusSetErase() throws {
        try expectMerge([erase(.int(1))], [erase(.int(1))], .majorOlder, becomes: [], [erase(.int(1))])
        try expectMerge([erase(.int(1))], [erase(.int(1))], .minorOlder, becomes: [erase(.int(1))], [])
        try expectMerge([erase(.int(1))], [erase(.int(1))], .equal, becomes: [erase(.int(1))], [])
        try expectNothing([erase(.int(1))], [erase(.int(2))])
    }

    @Test(
        arguments: [
            (.text("x"), .text("x"), true), (.text("x"), .text("y"), false),
            (.text("x"), .binary(Array("x".utf8)), false),
            (.int(1), .double(1), false), (.double(0), .double(-0.0), true), (.float(0), .float(-0.0), true),
            (.null, .erased, false), (.link("B", 1), .link("B", 1), true), (.link("B", 1), .link("C", 1), false),
            (.link("B", 1), .link("B", 2), false), (.bool(true), .bool(false), false),
            (
                .decimal(Decimal128(low: 105, high: 0x303E << 48)), .decimal(Decimal128(low: 1050, high: 0x303C << 48)),
                true
            ),
            (
                .decimal(Decimal128(low: 0, high: 0x7C << 56)), .decimal(Decimal128(low: 0, high: 0x7C << 56)), true
            ),
            (.decimal(Decimal128(low: 0xAA, high: 0x7C << 56)), .null, false),
            (
                .timestamp(Timestamp(seconds: 1, nanoseconds: 0)), .timestamp(Timestamp(seconds: 1, nanoseconds: 1)),
                false
            ),
            (.uuid(UUIDBytes(low: 1, high: 2)), .uuid(UUIDBytes(low: 1, high: 2)), true),
            (.objectID(ObjectID(low: 1, high: 2)), .objectID(ObjectID(low: 1, high: 3)), false),
            (.objectValue, .objectValue, true),
        ] as [(Payload, Payload, Bool)])
    func valuesAreComparedAsNumbersAndBytes(_ first: Payload, _ second: Payload, _ areEqual: Bool) throws {
        try expectMerge(
            [insert(first)], [insert(second)], .majorOlder, becomes: areEqual ? [] : [insert(first)], [insert(second)])
    }

    // MARK: The raw comparison of R28

    @Test func erasedStringsAreComparedByTheirOffsetNotTheirBytes() throws {
        // Equal offsets and lengths, different strings: one of the erasures is lost.
        try expectMerge([erase(.text("x"))], [erase(.text("y"))], .majorOlder, becomes: [], [erase(.text("y"))])
        // Equal strings at different offsets: both stay.
        try expectMerge(
            [insert(.text("x"), into: "t"), erase(.text("x"))], [insert(.text("zzz"), into: "s"), erase(.text("x"))],
            .majorOlder, becomes: [insert(.text("x"), into: "t"), erase(.text("x"))],
            [insert(.text("zzz"), into: "s"), erase(.text("x"))])
        try expectNothing([erase(.text("x"))], [erase(.text("xx"))])
        try expectNothing([erase(.text("x"))], [erase(.binary(Array("x".utf8)))])
    }

    @Test func erasedLinksAreComparedByTheIndicesOfTheirNames() throws {
        // String 2 of both changesets, though different names.
        try expectMerge(
            [erase(.link("B", 1))], [erase(.link("C", 1))], .majorOlder, becomes: [], [erase(.link("C", 1))])
        try expectNothing([erase(.link("B", 1))], [erase(.link("C", 2))])
        try expectNothing([.addTable("X"), erase(.link("B", 1))], [erase(.link("B", 1))])
        let (k, m) = (PrimaryKey.string([107]), PrimaryKey.string([109]))
        try expectMerge(
            [erase(.link(className: [66], key: k))], [erase(.link(className: [66], key: m))], .majorOlder, becomes: [],
            [erase(.link(className: [66], key: m))])
    }

    @Test func offsetsCountStringsInTheOrderOfTheBytes() throws {
        let steps = [insert(.text("ab"), into: "t"), erase(.text("x"))]
        for (order, offset) in [(StringOrder.first, 5), (.inline, 5)] {
            var arena = ChangesetArena()
            let changeset = try arena.decode(
                AnabranchCoreTests.changeset(steps, strings: order), version: 1, tag: Age.equal.tags.major)
            let erasure = try #require(arena.instructions(of: changeset).last)
            // "A", "t", "s" and "ab" stand before it in both orders.
            #expect(erasure.bufferOffset == UInt64(offset))
            #expect(arena.instructions(of: changeset)[0].bufferOffset == (order == .first ? 3 : 2))
        }
    }
}
