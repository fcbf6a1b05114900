import AnabranchTesting
import Testing

@testable import AnabranchCore

/// The effect of each instruction on a state, and the refusals (`Spec/State.md`, part B): the rows of its tables.
@Suite struct ApplyTests {
    /// Classes A (Int key, nullable), E (embedded), G (GlobalKeys), X (asymmetric) and columns of all sorts.
    static let schema: [Step] = [
        .addTable("A", nullable: true), .addTable("B", key: "_id", .string), .addTable("E", .embedded),
        .addTable("G", key: "", .globalKey), .addTable("X", .topLevelAsymmetric),
        .addColumn("A", "i"), .addColumn("A", "n", nullable: true), .addColumn("A", "d", .double),
        .addColumn("A", "c", .decimal), .addColumn("A", "m", .null, nullable: true),
        .addColumn("A", "l", .int, .list), .addColumn("A", "lm", .null, nullable: true, .list),
        .addColumn("A", "la", .link, .list, target: "A"), .addColumn("A", "le", .link, .list, target: "E"),
        .addColumn("A", "s", .int, .set), .addColumn("A", "sn", .int, nullable: true, .set),
        .addColumn("A", "sm", .null, nullable: true, .set), .addColumn("A", "y", .int, .dictionary),
        .addColumn("A", "ym", .null, nullable: true, .dictionary),
        .addColumn("A", "ye", .link, .dictionary, target: "E"), .addColumn("A", "a", .link, target: "A"),
        .addColumn("A", "e", .link, target: "E"), .addColumn("E", "x"), .addColumn("E", "xs", .int, .list),
    ]

    /// A[1] with some contents.
    static let object: [Step] = [
        .createObject(), .update(.at("i"), .int(7)), .insert(.item(0), .int(10), size: 0),
        .insert(.item(1), .int(11), size: 1), .insert(.at("lm", 0), .list, size: 0),
        .insert(.at("lm", 1), .int(1), size: 1), .insert(.at("le", 0), .objectValue, size: 0),
        .setInsert(.at("s"), .int(1)), .update(.at("y", "k"), .int(1)), .update(.at("ym", "k"), .dictionary),
        .update(.at("ye", "k"), .objectValue), .update(.at("ye", "k", "x"), .int(3)), .update(.at("m"), .dictionary),
        .update(.at("m", "k"), .int(1)), .update(.at("e"), .objectValue), .update(.at("e", "x"), .int(5)),
    ]

    static func graph() throws -> ObjectGraph {
        var graph = ObjectGraph()
        try graph.apply(changeset(schema))
        try graph.apply(changeset(object))
        return graph
    }

    // MARK: Nothing happens (B10)

    @Test(arguments: [
        Step.createObject(), .eraseObject(ObjectName(key: 5)), .addTable("A", nullable: true),
        .addTable("E", .embedded),
        .addTable("A", key: "", .globalKey), .addColumn("A", "i", nullable: true), .addInteger(.at("n"), 5),
        .setInsert(.at("s"), .int(1)), .setErase(.at("s"), .int(9)), .update(.at("y", "none"), .erased),
        .update(.at("e"), .objectValue), .update(.at("le", 0), .objectValue), .update(.at("le", 9), .objectValue),
        .update(.at("m"), .dictionary), .update(.at("i"), .objectValue), .clear(.at("la")), .clear(.at("sm"), .set),
        .addColumn("A", "_id"), .addColumn("A", "a", .link, target: "A"), .setErase(.at("sn"), .null),
        .addInteger(.at("a"), 5),
        .eraseObject(ObjectName(className: "E", key: .globalKey(GlobalKey(high: 1, low: 1)))),
    ])
    func nothingHappens(_ step: Step) throws {
        // AddInteger takes a dangling link for null.
        var graph = try Self.graph()
        try graph.apply(changeset(.update(.at("a"), .link("A", 99))))
        let before = try graph.json
        try graph.apply(changeset(step))
        #expect(try graph.json == before)
    }

    // MARK: Refusals

    @Test(arguments: [
        // Schema (B3)
        Step.addTable(String(repeating: "n", count: 58)), .addTable("E"), .addTable("A", .embedded),
        .addTable("A", key: "other", nullable: true), .eraseTable("Z"), .addColumn("Z", "f"),
        .addColumn("A", "i", .bool),
        .addColumn("A", "i", .int, .list), .addColumn("A", "a", .link, target: "B"),
        .addColumn("A", "f", .link, target: "Z"),
        .addColumn("A", "f", .int, .dictionary, keyType: .int), .addColumn("A", "_id", .string), .eraseColumn("A", "f"),
        .eraseColumn("A", "_id"),
        // Objects and paths (B1, B4)
        .createObject(ObjectName(className: "Z")), .createObject(ObjectName(key: "text")),
        .createObject(ObjectName(className: "B", key: .null)), .createObject(ObjectName(className: "G")),
        .eraseObject(ObjectName(key: "text")), .update(Place(object: ObjectName(key: 5), field: "i"), .int(1)),
        .update(.at("none"), .int(1)), .update(.at("_id"), .int(1)), .update(.at("l", "k"), .int(1)),
        .update(.at("y", 0), .int(1)), .update(.at("s", 0), .int(1)), .update(.at("i", 0), .int(1)),
        .update(.at("m", 0), .int(1)), .update(.at("a", "i"), .int(1)), .update(.at("e", "none"), .int(1)),
        .update(.at("lm", 1, 0), .int(1)), .update(.at("lm", 9, 0), .int(1)), .update(.at("le", 1, "x"), .int(1)),
        .update(.at("ye", "none", "x"), .int(1)), .update(.at("l"), .int(1)), .update(.at("y"), .int(1)),
        .update(.at("s"), .int(1)),
        // Values (B2, B5, B6)
        .update(.at("i"), .text("t")), .update(.at("i"), .null), .update(.at("d"), .float(1)),
        .update(.at("i"), .erased),
        .update(.at("a"), .link("B", 1)), .update(.at("m"), .link("Z", 1)), .update(.at("m"), .link("E", 1)),
        .update(.item(0), .text("t")), .update(.item(0), .null), .update(.item(0), .erased),
        .update(.at("la", 0), .null),
        .addInteger(.at("d"), 1), .addInteger(.at("m"), 1), .addInteger(.item(0), 1), .addInteger(.at("_id"), 1),
        // Lists (B7)
        .insert(.item(3), .int(1), size: 2), .insert(.item(0), .int(1), size: 3),
        .insert(.item(0), .text("t"), size: 2),
        .insert(.item(0), .null, size: 2), .insert(.item(0), .objectValue, size: 2),
        .insert(.item(0), .erased, size: 2),
        .move(.item(0), to: 0, size: 2), .move(.item(2), to: 0, size: 2), .move(.item(0), to: 2, size: 2),
        .move(.item(0), to: 1, size: 3), .erase(.item(2), size: 2), .erase(.item(0), size: 3),
        // Clear, sets (B8, B9)
        .clear(.at("l"), .set), .clear(.at("i")), .clear(.at("lm", 9)), .clear(.at("ym", "none"), .dictionary),
        .setInsert(.at("s"), .text("t")), .setInsert(.at("s"), .null), .setErase(.at("s"), .null),
        .setInsert(.at("s"), .list), .setInsert(.at("sm"), .objectValue), .setInsert(.at("l"), .int(1)),
    ])
    func itIsBad(_ step: Step) throws { try expect(.invalid, step) }

    @Test(arguments: [
        Step.eraseTable("E"), .addTable("N", key: String(repeating: "n", count: 64)),
        .addColumn("A", String(repeating: "n", count: 64)),
        .addColumn("A", "f", .link, target: ""),
        .addColumn("A", "f", .link, .set, target: "E"), .addColumn("A", "f", .link, target: "X"),
        .createObject(ObjectName(className: "E", key: .globalKey(GlobalKey(high: 1, low: 1)))),
        .update(.at("m"), .link("X", 1)), .update(.at("n"), .objectValue), .update(.at("i"), .list),
        .update(.at("m"), .set), .update(.item(5), .int(1)), .update(.item(0), .list), .update(.at("lm", 0), .set),
        .update(.at("y", "k"), .text("t")), .update(.at("y", "k"), .null), .update(.at("y", "$k"), .int(1)),
        .update(.at("y", "a.b"), .erased), .update(.at("y", "k"), .objectValue), .update(.at("y", "k"), .list),
        .insert(.at("lm", 0), .set, size: 2), .clear(.at("m"), .set), .clear(.at("y", "k"), .dictionary),
        .setInsert(.at("m"), .int(1)),
    ])
    func itIsAnError(_ step: Step) throws { try expect(.rejected, step) }

    @Test(arguments: [
        Step.insert(.item(0), .list, size: 2), .clear(.item(0)), .clear(.at("m"), .single),
        .setInsert(.at("i"), .int(1)),
        .setErase(.at("_id"), .int(1)),
    ])
    func itWouldStopTheReference(_ step: Step) throws { try expect(.undefined, step) }

    /// The step fails with the code, the place it names, and no trace in the state, although one before it worked.
    private func expect(_ code: ApplyError.Code, _ step: Step) throws {
        var graph = try Self.graph()
        let before = try graph.json
        let error = #expect(throws: ApplyError.self) { try graph.apply(changeset(.update(.at("i"), .int(8)), step)) }
        #expect(error?.code == code, "\(error.map(String.init(describing:)) ?? "")")
        #expect(error?.instruction == 1)
        #expect(try graph.json == before)
    }

    @Test func anErrorNamesThePlace() throws {
        var graph = try Self.graph()
        let error = #expect(throws: ApplyError.self) { try graph.apply(changeset(.update(.at("i"), .text("t")))) }
        #expect(error?.description == "A[1].i: String does not fit the field")
    }

    // MARK: Effects

    private func text(after steps: Step..., of field: String) throws -> String {
        var graph = try Self.graph()
        for step in steps { try graph.apply(changeset(step)) }
        return try graph.text(of: field)
    }

    @Test func newObjectsHaveInitialValues() throws {
        var graph = try Self.graph()
        try graph.apply(changeset(.createObject(ObjectName(key: 2))))
        #expect(try graph.text(of: "i", key: 2) == #"{"int":"0"}"#)
        #expect(try graph.text(of: "n", key: 2) == "null")
        #expect(try graph.text(of: "y", key: 2) == #"{"dict":{}}"#)
    }

    @Test func aNewColumnGivesEveryObjectItsInitialValue() throws {
        var graph = try Self.graph()
        try graph.apply(changeset(.addColumn("A", "new", .string), .addColumn("E", "deep", .bool)))
        #expect(try graph.text(of: "new") == #""""#)
        #expect(try graph.text(of: "e") == #"{"deep":false,"x":{"int":"5"},"xs":{"list":[]}}"#)
    }

    @Test func anErasedColumnThatIsAddedAnewIsEmpty() throws {
        var graph = try Self.graph()
        try graph.apply(changeset(.eraseColumn("A", "i"), .addColumn("A", "i"), .addColumn("A", "j")))
        #expect(try graph.text(of: "i") == #"{"int":"0"}"#)
    }

    @Test func listsTakeEveryEdit() throws {
        #expect(
            try text(after: .insert(.item(2), .int(12), size: 2), .move(.item(0), to: 2, size: 3), of: "l")
                == #"{"list":[{"int":"11"},{"int":"12"},{"int":"10"}]}"#)
        #expect(try text(after: .erase(.item(0), size: 2), of: "l") == #"{"list":[{"int":"11"}]}"#)
        #expect(
            try text(after: .update(.item(1), .int(5), size: 99), of: "l") == #"{"list":[{"int":"10"},{"int":"5"}]}"#)
        #expect(try text(after: .clear(.at("l"), .single), of: "l") == #"{"list":[]}"#)
    }

    @Test func nestedCollectionsTakeEveryEdit() throws {
        #expect(
            try text(after: .insert(.at("lm", 0, 0), .bool(true), size: 0), of: "lm")
                == #"{"list":[{"list":[true]},{"int":"1"}]}"#)
        #expect(
            try text(after: .clear(.at("lm", 1), .dictionary), .update(.at("lm", 1, "q"), .null), of: "lm")
                == #"{"list":[{"list":[]},{"dict":{"q":null}}]}"#)
        #expect(try text(after: .clear(.at("m"), .list), of: "m") == #"{"list":[]}"#)
        #expect(try text(after: .update(.at("m"), .bool(true)), of: "m") == "true")
        #expect(
            try text(after: .update(.at("ym", "k", "d"), .int(1)), of: "ym")
                == #"{"dict":{"k":{"dict":{"d":{"int":"1"}}}}}"#)
    }

    @Test func embeddedObjectsAreOwned() throws {
        #expect(
            try text(after: .update(.at("e"), .null), .update(.at("e"), .objectValue), of: "e").contains(
                #""x":{"int":"0"}"#))
        #expect(try text(after: .update(.at("ye", "k"), .objectValue), of: "ye").contains(#""x":{"int":"0"}"#))
        #expect(
            try text(after: .update(.at("le", 0, "x"), .int(4)), .insert(.at("le", 0), .objectValue, size: 1), of: "le")
                == #"{"list":[{"x":{"int":"0"},"xs":{"list":[]}},{"x":{"int":"4"},"xs":{"list":[]}}]}"#)
    }

    @Test func integersWrapAround() throws {
        #expect(
            try text(after: .update(.at("i"), .int(.max)), .addInteger(.at("i"), 1), of: "i")
                == #"{"int":"-9223372036854775808"}"#)
    }

    @Test func danglingLinksCountAndRevive() throws {
        var graph = try Self.graph()
        try graph.apply(
            changeset(.insert(.at("la", 0), .link("A", 9), size: 0), .insert(.at("la", 1), .link("A", 1), size: 1)))
        #expect(try graph.text(of: "la") == #"{"list":[{"link":["A",{"int":"1"}]}]}"#)
        try graph.apply(changeset(.move(.at("la", 0), to: 1, size: 2), .createObject(ObjectName(key: 9))))
        let both = #"{"list":[{"link":["A",{"int":"1"}]},{"link":["A",{"int":"9"}]}]}"#
        #expect(try graph.text(of: "la") == both)
        try graph.apply(changeset(.eraseObject(ObjectName(key: 9))))
        #expect(try graph.text(of: "la") == #"{"list":[{"link":["A",{"int":"1"}]}]}"#)
        try graph.apply(changeset(.createObject(ObjectName(key: 9))))
        #expect(try graph.text(of: "la") == both)
    }

    /// The old representation of a number stays, but for a single Decimal.
    @Test func equalNumbersStay() throws {
        let negativeZero = #"{"double":"8000000000000000"}"#
        #expect(try text(after: .update(.at("d"), .double(-0.0)), of: "d") == #"{"double":"0"}"#)
        #expect(
            try text(after: .update(.at("m"), .double(-0.0)), .update(.at("m"), .double(0)), of: "m") == negativeZero)
        let (one, oneAndZero) = (Decimal128(low: 1, high: 0x3040 << 48), Decimal128(low: 10, high: 0x303E << 48))
        #expect(
            try text(after: .update(.at("c"), .decimal(one)), .update(.at("c"), .decimal(oneAndZero)), of: "c")
                == #"{"dec":"1.0"}"#)
        #expect(
            try text(after: .update(.at("m"), .decimal(one)), .update(.at("m"), .decimal(oneAndZero)), of: "m")
                == #"{"dec":"1"}"#)
        #expect(
            try text(after: .update(.at("m"), .int(1)), .update(.at("m"), .double(1)), of: "m")
                == #"{"double":"3ff0000000000000"}"#)
        #expect(
            try text(after: .setInsert(.at("sm"), .int(1)), .setInsert(.at("sm"), .double(1)), of: "sm")
                == #"{"set":[{"int":"1"}]}"#)
        #expect(
            try text(after: .setInsert(.at("sm"), .int(1)), .setErase(.at("sm"), .double(1)), of: "sm")
                == #"{"set":[]}"#)
    }

    @Test func aClassThatWasLinkedToFromAMixedStays() throws {
        var graph = try Self.graph()
        try graph.apply(changeset(.addTable("Q"), .update(.at("m"), .link("Q", 1)), .update(.at("m"), .null)))
        let error = #expect(throws: ApplyError.self) { try graph.apply(changeset(.eraseTable("Q"))) }
        #expect(error?.code == .rejected)
    }

    @Test func aClassCanBeErasedAndAddedAnewInOneChangeset() throws {
        var graph = ObjectGraph()
        try graph.apply(changeset(.addTable("A"), .addColumn("A", "a", .link, target: "A"), .createObject()))
        try graph.apply(
            changeset(.createObject(ObjectName(key: 2)), .eraseTable("A"), .addTable("A"), .addColumn("A", "i")))
        #expect(try graph.json == #"{"A":[]}"#)
    }

    @Test func globalKeysCountByTheirLowBits() throws {
        var graph = try Self.graph()
        for high: UInt64 in [2, 2 + 1 << 30] {
            try graph.apply(
                changeset(.createObject(ObjectName(className: "G", key: .globalKey(GlobalKey(high: high, low: 1))))))
        }
        #expect(try graph.json.contains(#""G":[[{"gk":"2-1"},{}]]"#))
    }

    /// The changesets are encoded without them and apply elsewhere.
    @Test func mootInstructionsAreLeftOut() throws {
        var graph = try Self.graph()
        try graph.apply(changeset(.eraseColumn("A", "l")))
        var (copy, arena) = (graph, ChangesetArena())
        let steps: [Step] = [.update(.at("i"), .int(1)), .insert(.item(0), size: 0), .update(.at("n"), .int(2))]
        let tag = OriginTag(timestamp: 1, ident: 2)
        try arena.decode(changeset([steps[0]]), version: 1, tag: tag)
        try arena.decode(changeset(steps), version: 2, tag: tag)
        let before = graph
        let refused = #expect(throws: ApplyError.self) {
            try graph.applyTransactions([0, 1], of: &arena) { $0.field == Array("n".utf8) }
        }
        #expect(refused?.reason == "no such field" && refused?.changeset == 1 && refused?.instruction == 1)
        #expect(try graph.json == before.json && !arena.isDirty(1))
        var discarded: [String] = []
        _ = try graph.applyTransactions([0, 1], of: &arena) { error in
            discarded.append(error.description)
            return error.field == Array("l".utf8)
        }
        #expect(discarded == ["A[1].l: no such field"])
        #expect(try arena.lines(of: 1) == lines([steps[0], steps[2]]))
        #expect(!arena.isDirty(0) && arena.isDirty(1))
        try copy.apply(arena.encoded(1))
        #expect(try copy.json == graph.json)
    }

    /// What an instruction depended on can be told from its error.
    @Test func anErrorNamesTheColumnsOnThePath() throws {
        var graph = try Self.graph()
        let steps: [Step] = [
            .update(.at("e", "x"), .string([])), .insert(.at("le", 0, "xs", 9)),
            .update(.at("ye", "k", "none"), .int(1)), .update(.at("m", "k", "x"), .int(1)),
            .update(.at("i"), .string([])), .createObject(ObjectName(className: "B")),
        ]
        let found = steps.map { step in
            let refused = #expect(throws: ApplyError.self) { try graph.apply(changeset(step)) }
            return (refused?.columns ?? []).map { String(decoding: $0.className + [46] + $0.field, as: UTF8.self) }
        }
        #expect(found == [["A.e", "E.x"], ["A.le", "E.xs"], ["A.ye", "E.none"], ["A.m"], ["A.i"], []])
    }

    /// On a replica that integrates they are gone with the transaction that created them; a link to them stands
    /// nowhere.
    @Test func asymmetricObjectsAreNotKept() throws {
        var (graph, arena) = (try Self.graph(), ChangesetArena())
        let object = ObjectName(className: "X")
        for version in 1...2 as ClosedRange<UInt64> {
            try arena.decode(
                changeset(.createObject(object)), version: version, tag: OriginTag(timestamp: 1, ident: 2))
        }
        let before = try graph.json
        _ = try graph.applyTransactions([0, 1], of: &arena) { _ in false }
        #expect(try graph.json == before)
        #expect(!arena.isDirty(0))
    }

    @Test func asymmetricObjectsCanBeErased() throws {
        var graph = try Self.graph()
        try graph.apply(changeset(.createObject(ObjectName(className: "X"))))
        #expect(try graph.json.contains(#""X":[[{"int":"1"},{}]]"#))
        _ = try graph.eraseAsymmetricObjects()
        #expect(try graph.json.contains(#""X":[]"#))
    }

    /// All of them read as null, which a set has once.
    @Test func linksThatDangleInASetAreOneNull() throws {
        var graph = try Self.graph()
        let links = (0..<1_000 as Range<Int64>).map { Step.setInsert(.at("sm"), .link("A", 100 + $0)) }
        try graph.apply(changeset(links + [.setInsert(.at("sm"), .int(1)), .setInsert(.at("sm"), .null)]))
        #expect(try graph.text(of: "sm") == #"{"set":[null,{"int":"1"}]}"#)
    }

    @Test func aSnapshotNeverChanges() throws {
        var graph = try Self.graph()
        let (snapshot, text) = (graph, try graph.json)
        try graph.apply(
            changeset(.update(.at("i"), .int(8)), .insert(.item(0), .int(1), size: 2), .eraseColumn("A", "m")))
        #expect(try snapshot.json == text)
        #expect(try graph.json != text)
    }

    /// As deep as paths may be, and no deeper.
    @Test func nestingHasALimit() throws {
        var graph = try Self.graph()
        try graph.apply(changeset(.update(.at("m"), .list)))
        var path: [Element] = []
        for _ in 0..<GraphEditor.pathCountMax {
            path.append(0)
            try graph.apply(changeset(.insert(Place(field: "m", path: path), .list, size: 0)))
        }
        path.append(0)
        #expect(throws: ApplyError.self) {
            try graph.apply(changeset(.insert(Place(field: "m", path: path), .list, size: 0)))
        }
        #expect(try graph.json.contains("[]"))
        #expect(try StateDigest(of: graph) != StateDigest())
    }
}

extension ObjectGraph {
    /// The canonical text of a field of an object of class A.
    func text(of field: String, key: PrimaryKey = 1) throws -> String {
        let number = try #require(schema.number(of: Array("A".utf8)))
        let place = try #require(schema[number].place(of: Array(field.utf8)))
        let fields = try #require(try fields(of: ObjectReference(classID: number, key: key)))
        var text: [UInt8] = []
        try append(content(place.slot, of: fields, in: schema[number]), at: place, to: &text)
        return String(decoding: text, as: UTF8.self)
    }
}
