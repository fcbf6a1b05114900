import AnabranchTesting
import Testing

@testable import AnabranchCore

/// `Spec/Transform.md`, section 6: N1–N8.
@Suite struct NestedRulesTests {
    private let inside: [Step] = [
        .update(.at("f", "x"), .int(1)), .update(.at("f", 0), .int(1)), .addInteger(.at("f", 0, "x"), 1),
        .insert(.at("f", 0)), .move(.at("f", 0), to: 1), .erase(.at("f", 0)), .clear(.at("f", "x")),
        .setInsert(.at("f", "x"), .null), .setErase(.at("f", 1, 2), .null),
    ]

    @Test func eraseTableOutsideAnything() throws {
        let onClass: [Step] = [
            .createObject(), .addColumn("A", "f"), .eraseColumn("A", "g"), .eraseObject(), .addInteger(.at("f"), 1),
        ]
        for step in inside + onClass {
            try expectMergeBothWays([.eraseTable("A")], [step], becomes: [.eraseTable("A")], [])
            try expectNothing([.eraseTable("B")], [step])
        }
    }

    @Test func eraseObjectOutsideAnything() throws {
        for step in inside + [.update(.at("f"), .int(1)), .clear(.at("f"))] {
            for age in [Age.majorOlder, .minorOlder, .equal] {
                try expectMergeBothWays([.eraseObject()], [step], age, becomes: [.eraseObject()], [])
            }
            try expectNothing([.eraseObject(ObjectName(key: .int(2)))], [step])
            try expectNothing([.eraseObject(ObjectName(className: "B"))], [step])
        }
    }

    @Test func updateOutsideAnything() throws {
        for step in inside {
            for value: Payload in [.int(1), .null, .set, .erased] {
                try expectMergeBothWays([.update(.at("f"), value)], [step], becomes: [.update(.at("f"), value)], [])
            }
            try expectNothing([.update(.at("g"), .int(1))], [step])
            // An embedded object is there for both sides.
            try expectNothing([.update(.at("f"), .objectValue)], [step])
        }
    }

    @Test func updateToACollectionKeepsWhatGoesThroughItsKind() throws {
        try expectNothing([.update(.at("f"), .list)], [.update(.at("f", 0, "x"), .int(1))])
        try expectMergeBothWays(
            [.update(.at("f"), .list)], [.update(.at("f", "x"), .int(1))], becomes: [.update(.at("f"), .list)], [])
        try expectNothing([.update(.at("f"), .dictionary)], [.update(.at("f", "x"), .int(1))])
        try expectMergeBothWays(
            [.update(.at("f"), .dictionary)], [.addInteger(.at("f", 0), 1)],
            becomes: [.update(.at("f"), .dictionary)], [])
        // The next element decides, not the last one.
        try expectNothing([.update(.at("f", "a"), .list)], [.update(.at("f", "a", 1, "x"), .int(1))])
        try expectNothing([.update(.at("f", "b"), .list)], [.update(.at("f", "a", "x"), .int(1))])
    }

    @Test func addIntegerOutsideAnything() throws {
        for step in inside {
            try expectMergeBothWays([.addInteger(.at("f"), 1)], [step], becomes: [.addInteger(.at("f"), 1)], [])
        }
        try expectNothing([.addInteger(.at("g"), 1)], inside)
    }

    @Test func arrayInsertOutsideAnElement() throws {
        let insert = Step.insert(.at("f", 1))
        try expectMergeBothWays(
            [insert], [.update(.at("f", 1, "x"), .int(1))], becomes: [insert], [.update(.at("f", 2, "x"), .int(1))])
        try expectMergeBothWays(
            [insert], [.erase(.at("f", 4, 0))], becomes: [insert], [.erase(.at("f", 5, 0))])
        try expectNothing([insert], [.erase(.at("f", 0, 0))])
        try expectNothing([.insert(.at("f", "y", 0))], [.update(.at("f", "z", 0, "x"), .int(1))])
        try expectMergeBothWays(
            [.insert(.at("f", "y", 0))], [.update(.at("f", "y", 0, "x"), .int(1))],
            becomes: [.insert(.at("f", "y", 0))], [.update(.at("f", "y", 1, "x"), .int(1))])
        try expectRefusal(.inconsistentPaths, [insert], [.update(.at("f", "a", "x"), .int(1))])
    }

    @Test func arrayMoveOutsideAnElementIsItselfAdjusted() throws {
        let inner = Step.update(.at("f", 1, "x"), .int(1))
        try expectMergeBothWays([.move(.at("f", 1), to: 3)], [inner], becomes: [.move(.at("f", 3), to: 3)], [inner])
        try expectMergeBothWays([.move(.at("f", 4), to: 2)], [inner], becomes: [.move(.at("f", 4), to: 2)], [inner])
        try expectMergeBothWays([.move(.at("f", 4), to: 3)], [inner], becomes: [.move(.at("f", 4), to: 3)], [inner])
        try expectMergeBothWays([.move(.at("f", 2), to: 3)], [inner], becomes: [.move(.at("f", 1), to: 3)], [inner])
        try expectMergeBothWays([.move(.at("f", 0), to: 0)], [inner], becomes: [.move(.at("f", 1), to: 0)], [inner])
        try expectRefusal(.inconsistentPaths, [.move(.at("f", 1), to: 3)], [.update(.at("f", "a", "x"), .int(1))])
    }

    @Test func arrayEraseOutsideAnElement() throws {
        let erase = Step.erase(.at("f", 1))
        try expectMergeBothWays([erase], [.update(.at("f", 1, "x"), .int(1))], becomes: [erase], [])
        try expectMergeBothWays([erase], [.clear(.at("f", 1, "x", 0))], becomes: [erase], [])
        try expectMergeBothWays(
            [erase], [.insert(.at("f", 2, 0))], becomes: [erase], [.insert(.at("f", 1, 0))])
        try expectNothing([erase], [.insert(.at("f", 0, 0))])
        try expectRefusal(.inconsistentPaths, [erase], [.update(.at("f", "a", "x"), .int(1))])
    }

    @Test func clearOutsideAnything() throws {
        for step in inside {
            for age in [Age.majorOlder, .minorOlder, .equal] {
                try expectMergeBothWays(
                    [.clear(.at("f"), .dictionary)], [step], age, becomes: [.clear(.at("f"), .dictionary)], [])
            }
            try expectNothing([.clear(.at("g"))], [step])
        }
    }

    @Test func otherInstructionsHaveNothingInside() throws {
        for outer: Step in [.addTable("A"), .createObject(), .addColumn("A", "f"), .setInsert(.at("f"), .null)] {
            for step in inside { try expectNothing([outer], [step]) }
        }
    }

    @Test func innerPathsOfTheMajorSideAreAdjustedToo() throws {
        // The path element stands outside the instruction; both erasures shift it, in turn.
        try expectMerge(
            [.update(.at("f", 4, "x"), .int(1))], [.erase(.at("f", 0)), .erase(.at("f", 2), size: 4)],
            becomes: [.update(.at("f", 2, "x"), .int(1))], [.erase(.at("f", 0)), .erase(.at("f", 2), size: 4)])
    }
}
