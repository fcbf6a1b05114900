import AnabranchTesting
import Testing

@testable import AnabranchCore

/// `Spec/Transform.md`, section 7.3: R6, R7 and R22–R24.
@Suite struct UpdateRulesTests {
    private func set(_ value: Payload, isDefault: Bool = false) -> Step {
        .update(.at("f"), value, isDefault: isDefault)
    }

    @Test func updateVersusUpdate() throws {
        try expectMerge([set(.int(1))], [set(.int(2))], .majorOlder, becomes: [], [set(.int(2))])
        try expectMerge([set(.int(1))], [set(.int(2))], .minorOlder, becomes: [set(.int(1))], [])
        try expectMerge([set(.int(1))], [set(.int(2))], .equal, becomes: [set(.int(1))], [])
        try expectNothing([set(.int(1))], [.update(.at("g"), .int(2))])
        try expectNothing([.update(.at("f", "x"), .int(1))], [.update(.at("f", "y"), .int(2))])
        try expectNothing([.update(.at("f", 1), .int(1))], [.update(.at("f", "x"), .int(2))])
    }

    @Test func equalFileTimestampsAreBrokenByTheFileIdent() throws {
        var arena = ChangesetArena()
        let major = try arena.decode(changeset(set(.int(1))), version: 1, tag: OriginTag(timestamp: 5, ident: .largest))
        let minor = try arena.decode(changeset(set(.int(2))), version: 1, tag: OriginTag(timestamp: 5, ident: 3))
        try arena.merge(local: [major], incoming: [minor])
        #expect(!arena.isEmpty(major) && arena.isEmpty(minor))
    }

    @Test func embeddedObjectGivesWayToAnyOtherValue() throws {
        for age in [Age.majorOlder, .minorOlder, .equal] {
            try expectMergeBothWays([set(.objectValue)], [set(.null)], age, becomes: [], [set(.null)])
            try expectMergeBothWays(
                [set(.objectValue)], [set(.int(1), isDefault: true)], age, becomes: [], [set(.int(1), isDefault: true)])
        }
        try expectMerge([set(.objectValue)], [set(.objectValue)], .majorOlder, becomes: [], [set(.objectValue)])
    }

    @Test func collectionsOfOneKindStayBoth() throws {
        try expectNothing([set(.list)], [set(.list)])
        try expectNothing([set(.dictionary)], [set(.dictionary, isDefault: true)])
        try expectMerge([set(.list)], [set(.dictionary)], .majorOlder, becomes: [], [set(.dictionary)])
        try expectMerge([set(.set)], [set(.set)], .majorOlder, becomes: [], [set(.set)])
    }

    @Test func defaultGivesWayToAChosenValue() throws {
        for age in [Age.majorOlder, .minorOlder, .equal] {
            try expectMergeBothWays(
                [set(.int(1), isDefault: true)], [set(.int(2))], age, becomes: [], [set(.int(2))])
        }
        try expectMerge(
            [set(.int(1), isDefault: true)], [set(.int(2), isDefault: true)], .minorOlder,
            becomes: [set(.int(1), isDefault: true)], [])
    }

    @Test func arrayUpdateVersusArrayUpdate() throws {
        let (one, two) = (Step.update(.item(1), .int(1)), Step.update(.item(1), .int(2)))
        try expectMerge([one], [two], .majorOlder, becomes: [], [two])
        try expectMerge([one], [two], .equal, becomes: [one], [])
        try expectRefusal(.sizesDiffer, [one], [.update(.item(1), .int(2), size: 6)])
        try expectNothing([one], [.update(.item(2), .int(2), size: 6)])
    }

    @Test func addIntegerVersusUpdate() throws {
        let add = Step.addInteger(.at("f"), 3)
        // On top of an older value, and of any default.
        try expectMergeBothWays([add], [set(.int(4))], .minorOlder, becomes: [add], [set(.int(7))])
        try expectMergeBothWays(
            [add], [set(.int(4), isDefault: true)], .majorOlder, becomes: [add], [set(.int(7), isDefault: true)])
        // Lost with the value that a newer one replaces.
        try expectMergeBothWays([add], [set(.int(4))], .majorOlder, becomes: [], [set(.int(4))])
        try expectMergeBothWays([add], [set(.int(4))], .equal, becomes: [], [set(.int(4))])
    }

    @Test func addIntegerVersusUpdateToSomethingElse() throws {
        let add = Step.addInteger(.at("f"), 3)
        try expectMergeBothWays([add], [set(.null)], .minorOlder, becomes: [add], [set(.null)])
        try expectMergeBothWays([add], [set(.double(4))], .minorOlder, becomes: [], [set(.double(4))])
        try expectMergeBothWays([add], [set(.null)], .majorOlder, becomes: [], [set(.null)])
    }

    @Test func additionWrapsAround() throws {
        try expectMergeBothWays(
            [.addInteger(.at("f"), 1)], [set(.int(.max))], .minorOlder, becomes: [.addInteger(.at("f"), 1)],
            [set(.int(.min))])
        // Nothing has changed: nothing is dirty.
        try expectMergeBothWays(
            [.addInteger(.at("f"), 0)], [set(.int(1))], .minorOlder, becomes: [.addInteger(.at("f"), 0)],
            [set(.int(1))])
    }

    @Test func additionToAListElementCountsByTheTagsAlone() throws {
        let add = Step.addInteger(.item(1), 3)
        try expectMergeBothWays(
            [add], [.update(.item(1), .int(4))], .minorOlder, becomes: [add], [.update(.item(1), .int(7))])
        try expectMergeBothWays(
            [add], [.update(.item(1), .int(4))], .majorOlder, becomes: [], [.update(.item(1), .int(4))])
    }

    @Test func addIntegerVersusAddInteger() throws {
        try expectNothing([.addInteger(.at("f"), 1)], [.addInteger(.at("f"), 1)])
    }

    @Test func clearVersusUpdate() throws {
        let clear = Step.clear(.at("f"), .list)
        try expectMergeBothWays([clear], [set(.int(1))], .majorOlder, becomes: [], [set(.int(1))])
        try expectMergeBothWays([clear], [set(.int(1))], .minorOlder, becomes: [clear], [])
        try expectMergeBothWays([clear], [set(.int(1))], .equal, becomes: [clear], [])
        try expectNothing([clear], [set(.list)])
        try expectNothing([.clear(.at("f"), .dictionary)], [set(.dictionary)])
        try expectMergeBothWays([clear], [set(.dictionary)], .minorOlder, becomes: [clear], [])
        try expectMergeBothWays([.clear(.at("f"), .set)], [set(.set)], .majorOlder, becomes: [], [set(.set)])
        try expectMergeBothWays([.clear(.at("f"), .single)], [set(.list)], .majorOlder, becomes: [], [set(.list)])
    }

    @Test func clearVersusAddInteger() throws {
        for age in [Age.majorOlder, .minorOlder, .equal] {
            try expectMergeBothWays(
                [.clear(.at("f"))], [.addInteger(.at("f"), 1)], age, becomes: [.clear(.at("f"))], [])
        }
    }

    @Test func clearVersusClear() throws {
        let (list, set) = (Step.clear(.at("f"), .list), Step.clear(.at("f"), .set))
        try expectMerge([list], [set], .majorOlder, becomes: [], [set])
        try expectMerge([list], [set], .minorOlder, becomes: [list], [])
        try expectMerge([list], [set], .equal, becomes: [list], [])
        try expectNothing([list], [.clear(.at("g"))])
    }
}
