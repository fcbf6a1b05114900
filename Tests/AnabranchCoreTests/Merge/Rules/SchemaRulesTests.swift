import AnabranchTesting
import Testing

@testable import AnabranchCore

/// `Spec/Transform.md`, section 7.1: R1–R3 and R8–R12.
@Suite struct SchemaRulesTests {
    @Test func addTableVersusAddTable() throws {
        for age in [Age.majorOlder, .minorOlder, .equal] {
            try expectMerge([.addTable("A")], [.addTable("A")], age, becomes: [], [])
            try expectMerge([.addTable("A", .embedded)], [.addTable("A", .embedded)], age, becomes: [], [])
        }
        try expectNothing([.addTable("A")], [.addTable("B", .embedded)])
    }

    @Test func addTableVersusDifferentAddTable() throws {
        let table = Step.addTable("A")
        for other: Step in [
            .addTable("A", .embedded), .addTable("A", key: "id"), .addTable("A", .topLevel, .string),
            .addTable("A", nullable: true), .addTable("A", .topLevelAsymmetric),
        ] {
            try expectRefusal(.incompatibleSchema, [table], [other])
        }
    }

    @Test func refusalQuotesNotMoreThanTheStartOfALongName() throws {
        let name = String(repeating: "x", count: 1_000_000)
        var meeting = try Meeting([.addTable(name)], [.addTable(name, nullable: true)])
        let error = #expect(throws: TransformError.self) { try meeting.merge() }
        #expect(error.map { $0.reason.utf8.count < 200 } == true)
    }

    @Test func eraseTableVersusAddTable() throws {
        for age in [Age.majorOlder, .minorOlder, .equal] {
            try expectMergeBothWays(
                [.eraseTable("A")], [.addTable("A"), .addTable("B")], age, becomes: [.eraseTable("A")], [.addTable("B")]
            )
        }
    }

    @Test func eraseTableVersusEraseTable() throws {
        try expectMerge([.eraseTable("A")], [.eraseTable("A")], becomes: [], [])
        try expectNothing([.eraseTable("A")], [.eraseTable("B")])
    }

    @Test func addLinkColumnVersusEraseTargetTable() throws {
        let link = Step.addColumn("A", "f", .link, nullable: true, target: "B")
        try expectMergeBothWays(
            [link], [.eraseTable("B")], becomes: [], [.eraseColumn("A", "f"), .eraseTable("B")])
        try expectNothing([.addColumn("A", "f", .link, target: "C")], [.eraseTable("B")])
        try expectNothing([.addColumn("A", "f", .int, target: "B")], [.eraseTable("B")])
    }

    @Test func addLinkColumnOfErasedTableIsJustErased() throws {
        try expectMergeBothWays(
            [.addColumn("B", "f", .link, target: "B")], [.eraseTable("B")], becomes: [], [.eraseTable("B")])
    }

    @Test func addColumnVersusAddColumn() throws {
        let column = Step.addColumn("A", "f", .link, .dictionary, target: "B")
        try expectMerge([column], [column], becomes: [], [])
        // The types of dictionary keys are not compared.
        try expectMerge(
            [column], [.addColumn("A", "f", .link, .dictionary, target: "B", keyType: .int)], becomes: [], [])
        try expectNothing([column], [.addColumn("A", "g", .int)])
        try expectNothing([column], [.addColumn("B", "f", .int)])
    }

    @Test func addColumnVersusDifferentAddColumn() throws {
        let column = Step.addColumn("A", "f", .link, target: "B")
        for other: Step in [
            .addColumn("A", "f", .int), .addColumn("A", "f", .link, nullable: true),
            .addColumn("A", "f", .link, .list), .addColumn("A", "f", .link, target: "C"),
        ] {
            try expectRefusal(.incompatibleSchema, [column], [other])
        }
    }

    @Test func eraseColumnVersusAddColumn() throws {
        try expectMergeBothWays(
            [.eraseColumn("A", "f")], [.addColumn("A", "f"), .addColumn("A", "g")],
            becomes: [.eraseColumn("A", "f")], [.addColumn("A", "g")])
    }

    @Test func eraseColumnVersusUpdate() throws {
        try expectMergeBothWays(
            [.eraseColumn("A", "f")],
            [
                .update(.at("f"), .int(1)), .update(.at("f", 0, "x"), .int(1)), .update(.at("g"), .int(1)),
                .update(Place(object: ObjectName(key: .null), field: "f"), .null),
                .update(Place(object: ObjectName(className: "B"), field: "f"), .null),
            ],
            becomes: [.eraseColumn("A", "f")],
            [.update(.at("g"), .int(1)), .update(Place(object: ObjectName(className: "B"), field: "f"), .null)])
    }

    @Test func eraseColumnVersusEraseColumn() throws {
        try expectMerge([.eraseColumn("A", "f")], [.eraseColumn("A", "f")], becomes: [], [])
        try expectNothing([.eraseColumn("A", "f")], [.eraseColumn("A", "g")])
        try expectNothing([.eraseColumn("A", "f")], [.eraseColumn("B", "f")])
    }

    @Test func eraseColumnIgnoresAllOtherUsesOfTheColumn() throws {
        for use: Step in [
            .addInteger(.at("f"), 1), .insert(.at("f", 0)), .move(.at("f", 0), to: 1), .erase(.at("f", 0)),
            .clear(.at("f")), .setInsert(.at("f"), .null), .setErase(.at("f"), .null), .eraseObject(),
        ] {
            try expectNothing([.eraseColumn("A", "f")], [use])
        }
    }

    @Test func declarationsIgnoreObjects() throws {
        for declaration: Step in [.addTable("A"), .addColumn("A", "f")] {
            for step: Step in [.createObject(), .eraseObject(), .update(.at("f"), .int(1)), .clear(.at("f"))] {
                try expectNothing([declaration], [step])
            }
        }
    }
}
