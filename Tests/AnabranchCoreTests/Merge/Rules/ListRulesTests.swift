import AnabranchTesting
import Testing

@testable import AnabranchCore

/// `Spec/Transform.md`, section 7.5: R13–R21, and the examples of section 8.
@Suite struct ListRulesTests {
    private func insert(_ index: UInt32, size: UInt32 = 5) -> Step { .insert(.item(index), size: size) }
    private func move(_ index: UInt32, to destination: UInt32, size: UInt32 = 5) -> Step {
        .move(.item(index), to: destination, size: size)
    }
    private func erase(_ index: UInt32, size: UInt32 = 5) -> Step { .erase(.item(index), size: size) }
    private func update(_ index: UInt32, size: UInt32 = 5) -> Step { .update(.item(index), .int(9), size: size) }

    // MARK: R13

    @Test func arrayInsertVersusUpdate() throws {
        try expectMergeBothWays([insert(2)], [update(1)], becomes: [insert(2)], [update(1, size: 6)])
        try expectMergeBothWays([insert(2)], [update(2)], becomes: [insert(2)], [update(3, size: 6)])
        try expectMergeBothWays([insert(5)], [update(4)], becomes: [insert(5)], [update(4, size: 6)])
        try expectRefusal(.sizesDiffer, [insert(2)], [update(1, size: 6)])
        try expectRefusal(.indexOutOfRange, [insert(6)], [update(1)])
        try expectRefusal(.indexOutOfRange, [insert(5)], [update(5)])
        try expectRefusal(.inconsistentPaths, [insert(2)], [.update(.at("l", "x"), .int(1))])
    }

    // MARK: R14

    @Test func arrayInsertVersusArrayInsert() throws {
        try expectMerge([insert(2)], [insert(1)], becomes: [insert(3, size: 6)], [insert(1, size: 6)])
        try expectMerge([insert(1)], [insert(2)], becomes: [insert(1, size: 6)], [insert(3, size: 6)])
        try expectMerge([insert(2)], [insert(2)], .majorOlder, becomes: [insert(2, size: 6)], [insert(3, size: 6)])
        try expectMerge([insert(2)], [insert(2)], .minorOlder, becomes: [insert(3, size: 6)], [insert(2, size: 6)])
        try expectMerge([insert(2)], [insert(2)], .equal, becomes: [insert(3, size: 6)], [insert(2, size: 6)])
        try expectRefusal(.sizesDiffer, [insert(2)], [insert(2, size: 4)])
        // No index is checked.
        try expectMerge([insert(9)], [insert(8)], becomes: [insert(10, size: 6)], [insert(8, size: 6)])
    }

    @Test func indicesAndSizesWrapAround() throws {
        try expectMerge(
            [insert(.max, size: .max)], [insert(0, size: .max)], becomes: [insert(0, size: 0)], [insert(0, size: 0)])
    }

    // MARK: R15

    @Test func arrayMoveVersusUpdate() throws {
        try expectMergeBothWays([move(1, to: 3)], [update(1)], becomes: [move(1, to: 3)], [update(3)])
        try expectMergeBothWays([move(1, to: 3)], [update(0)], becomes: [move(1, to: 3)], [update(0)])
        try expectMergeBothWays([move(1, to: 3)], [update(2)], becomes: [move(1, to: 3)], [update(1)])
        try expectMergeBothWays([move(1, to: 3)], [update(3)], becomes: [move(1, to: 3)], [update(2)])
        try expectMergeBothWays([move(1, to: 3)], [update(4)], becomes: [move(1, to: 3)], [update(4)])
        try expectMergeBothWays([move(3, to: 1)], [update(1)], becomes: [move(3, to: 1)], [update(2)])
        // The two prior sizes are not compared.
        try expectMergeBothWays([move(1, to: 3)], [update(1, size: 9)], becomes: [move(1, to: 3)], [update(3, size: 9)])
        try expectRefusal(.indexOutOfRange, [move(5, to: 3)], [update(1)])
        try expectRefusal(.indexOutOfRange, [move(1, to: 3)], [update(5)])
        try expectRefusal(.inconsistentPaths, [move(1, to: 3)], [.update(.at("l", "x"), .int(1))])
    }

    // MARK: R16

    @Test func arrayMoveVersusArrayInsert() throws {
        try expectMergeBothWays([move(1, to: 3)], [insert(3)], becomes: [move(1, to: 4, size: 6)], [insert(2)])
        try expectMergeBothWays([move(1, to: 3)], [insert(0)], becomes: [move(2, to: 4, size: 6)], [insert(0)])
        try expectMergeBothWays([move(1, to: 3)], [insert(1)], becomes: [move(2, to: 4, size: 6)], [insert(1)])
        try expectMergeBothWays([move(1, to: 3)], [insert(5)], becomes: [move(1, to: 3, size: 6)], [insert(5)])
        // Nothing is checked, the sizes not either.
        try expectMergeBothWays(
            [move(9, to: 9)], [insert(0, size: 1)], becomes: [move(10, to: 10, size: 6)], [insert(0, size: 1)])
    }

    @Test func movedElementThatIsNewerComesFirst() throws {
        // The insertion stands at 3 after the element was taken out: a tie with the destination.
        try expectMergeBothWays(
            [move(1, to: 3)], [insert(4)], .majorOlder, becomes: [move(1, to: 4, size: 6)], [insert(3)])
        try expectMergeBothWays(
            [move(1, to: 3)], [insert(4)], .minorOlder, becomes: [move(1, to: 3, size: 6)], [insert(4)])
        try expectMergeBothWays(
            [move(1, to: 3)], [insert(4)], .equal, becomes: [move(1, to: 3, size: 6)], [insert(4)])
    }

    // MARK: R17

    @Test func arrayMoveVersusArrayMoveOfTheSameElement() throws {
        let (a, b) = (move(1, to: 3), move(1, to: 4))
        try expectMerge([a], [b], .majorOlder, becomes: [], [move(3, to: 4)])
        try expectMerge([a], [b], .minorOlder, becomes: [move(4, to: 3)], [])
        try expectMerge([a], [b], .equal, becomes: [move(4, to: 3)], [])
        // Both to one place: neither is needed.
        for age in [Age.majorOlder, .minorOlder, .equal] { try expectMerge([a], [a], age, becomes: [], []) }
    }

    @Test func arrayMoveVersusArrayMoveOfAnotherElement() throws {
        try expectMerge([move(0, to: 4)], [move(4, to: 0)], becomes: [move(1, to: 4)], [move(3, to: 0)])
        try expectMerge([move(0, to: 1)], [move(3, to: 4)], becomes: [move(0, to: 1)], [move(3, to: 4)])
        try expectMerge([move(0, to: 2)], [move(1, to: 2)], .majorOlder, becomes: [move(0, to: 1)], [move(0, to: 2)])
        try expectMerge([move(0, to: 2)], [move(1, to: 2)], .minorOlder, becomes: [move(0, to: 2)], [move(0, to: 1)])
        try expectMerge([move(0, to: 2)], [move(1, to: 2)], .equal, becomes: [move(0, to: 2)], [move(0, to: 1)])
    }

    @Test func moveThatHasBecomeNoneIsDiscarded() throws {
        // After the other move the element stands where it was to go.
        for age in [Age.majorOlder, .minorOlder, .equal] {
            try expectMergeBothWays([move(1, to: 0)], [move(0, to: 4)], age, becomes: [], [move(1, to: 4)])
        }
        // Two that exchange neighbours do not cancel out.
        try expectMerge([move(0, to: 1)], [move(1, to: 0)], becomes: [move(1, to: 0)], [move(0, to: 1)])
    }

    @Test func arrayMoveVersusArrayMoveChecks() throws {
        try expectRefusal(.sizesDiffer, [move(1, to: 2)], [move(1, to: 2, size: 6)])
        try expectRefusal(.indexOutOfRange, [move(5, to: 2)], [move(1, to: 2)])
        try expectRefusal(.indexOutOfRange, [move(1, to: 5)], [move(1, to: 2)])
    }

    // MARK: R18

    @Test func arrayEraseVersusUpdate() throws {
        for age in [Age.majorOlder, .minorOlder, .equal] {
            try expectMergeBothWays([erase(4)], [update(4)], age, becomes: [erase(4)], [])
        }
        try expectMergeBothWays([erase(2)], [update(3)], becomes: [erase(2)], [update(2, size: 4)])
        try expectMergeBothWays([erase(2)], [update(1)], becomes: [erase(2)], [update(1, size: 4)])
        try expectRefusal(.sizesDiffer, [erase(2)], [update(1, size: 4)])
        try expectRefusal(.indexOutOfRange, [erase(5)], [update(1)])
        try expectRefusal(.indexOutOfRange, [erase(1)], [update(5)])
        try expectRefusal(.inconsistentPaths, [erase(1)], [.update(.at("l", "x"), .int(1), isDefault: true)])
    }

    // MARK: R19

    @Test func arrayEraseVersusArrayInsert() throws {
        try expectMergeBothWays([erase(2)], [insert(1)], becomes: [erase(3, size: 6)], [insert(1, size: 4)])
        try expectMergeBothWays([erase(2)], [insert(2)], becomes: [erase(3, size: 6)], [insert(2, size: 4)])
        try expectMergeBothWays([erase(2)], [insert(3)], becomes: [erase(2, size: 6)], [insert(2, size: 4)])
        try expectMergeBothWays([erase(2)], [insert(5)], becomes: [erase(2, size: 6)], [insert(4, size: 4)])
        try expectRefusal(.sizesDiffer, [erase(2)], [insert(1, size: 4)])
        try expectRefusal(.indexOutOfRange, [erase(5)], [insert(1)])
        try expectRefusal(.indexOutOfRange, [erase(1)], [insert(6)])
    }

    // MARK: R20

    @Test func arrayEraseVersusArrayMove() throws {
        // The moved element is erased where it went.
        try expectMergeBothWays([erase(1)], [move(1, to: 3)], becomes: [erase(3)], [])
        try expectMergeBothWays([erase(0)], [move(1, to: 3)], becomes: [erase(0)], [move(0, to: 2, size: 4)])
        try expectMergeBothWays([erase(4)], [move(1, to: 3)], becomes: [erase(4)], [move(1, to: 3, size: 4)])
        try expectMergeBothWays([erase(2)], [move(3, to: 1)], becomes: [erase(3)], [move(2, to: 1, size: 4)])
        // The move has become none.
        try expectMergeBothWays([erase(1)], [move(2, to: 1)], becomes: [erase(2)], [])
        try expectRefusal(.sizesDiffer, [erase(1)], [move(1, to: 3, size: 6)])
        try expectRefusal(.indexOutOfRange, [erase(5)], [move(1, to: 3)])
        try expectRefusal(.indexOutOfRange, [erase(1)], [move(5, to: 3)])
    }

    // MARK: R21

    @Test func arrayEraseVersusArrayErase() throws {
        try expectMerge([erase(1)], [erase(3)], becomes: [erase(1, size: 4)], [erase(2, size: 4)])
        try expectMerge([erase(3)], [erase(1)], becomes: [erase(2, size: 4)], [erase(1, size: 4)])
        try expectMerge([erase(3)], [erase(3)], becomes: [], [])
        try expectRefusal(.sizesDiffer, [erase(1)], [erase(1, size: 4)])
        try expectRefusal(.indexOutOfRange, [erase(5)], [erase(1)])
    }

    // MARK: Places

    @Test func instructionsOnOtherListsIgnoreEachOther() throws {
        for step in [insert(1), move(1, to: 2), erase(1), update(1)] {
            try expectNothing([step], [.insert(.at("m", 1), size: 9)])
            try expectNothing([step], [.erase(Place(object: ObjectName(key: .int(2)), field: "l", path: [1]), size: 9)])
        }
        try expectNothing([.erase(.at("f", 0, 1))], [.erase(.at("f", 1, 1), size: 9)])
        try expectNothing([.erase(.at("f", "x", 1))], [.erase(.at("f", "y", 1), size: 9)])
        try expectMerge([.erase(.at("f", "x", 1))], [.erase(.at("f", "x", 1))], becomes: [], [])
    }

    @Test func addIntegerToAListElementDoesNotFollowIt() throws {
        for step in [insert(0), move(0, to: 2), erase(0)] { try expectNothing([step], [.addInteger(.item(0), 1)]) }
    }

    // MARK: Section 8

    @Test func examplesOfTheChapter() throws {
        try expectMerge(
            [erase(0), erase(0, size: 4)], [insert(1)], becomes: [erase(0, size: 6), erase(1)], [insert(0, size: 3)])
    }
}
