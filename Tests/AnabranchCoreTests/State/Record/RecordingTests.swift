import AnabranchTesting
import Testing

@testable import AnabranchCore

/// Local actions and the instructions that they leave (`Spec/State.md`, part C).
@Suite struct RecordingTests {
    /// A state with the classes of `ApplyTests`, A[1] and A[2].
    func graph() throws -> ObjectGraph {
        var graph = ObjectGraph()
        try graph.apply(changeset(ApplyTests.schema))
        try graph.apply(changeset(.createObject(), .createObject(ObjectName(key: 2))))
        return graph
    }

    /// Expects that the actions record the steps, each string where it is needed first, and that applying what was
    /// recorded gives the same state.
    private func expect(
        _ steps: [Step], beginningWith graph: ObjectGraph? = nil, _ sourceLocation: SourceLocation = #_sourceLocation,
        _ body: (WriteTransaction) throws -> Void
    ) throws {
        let before = try graph ?? self.graph()
        var after = before
        let written = try after.write(as: 2, body)
        #expect(try lines(written.changeset) == lines(changeset(steps)), sourceLocation: sourceLocation)
        var applied = before
        try applied.apply(written.changeset)
        #expect(try applied.json == after.json, sourceLocation: sourceLocation)
    }

    private func lines(_ changeset: [UInt8]) throws -> [String] { try Replay.decode(changeset).lines(of: 0) }

    @Test func theExampleOfEmbeddedObjects() throws {
        var graph = ObjectGraph()
        try graph.apply(
            changeset(
                .addTable("A"), .addTable("E", .embedded), .addColumn("A", "e", .link, target: "E"),
                .addColumn("E", "x"), .addColumn("E", "xs", .int, .list), .addColumn("E", "next", .link, target: "E"),
                .createObject()))
        let written = try graph.write(as: 2) { tx in
            let object = try #require(try tx.object("A", key: 1))
            let first = try object.createObject("e")
            first["x"] = 1
            let second = try object.createObject("e")
            try second.list("xs").append(4)
            try second.createObject("next")["x"] = 2
            try tx.delete(second)
        }
        let expected: [Step] = [
            .update(.at("e"), .objectValue), .update(.at("e", "x"), .int(1)), .update(.at("e"), .null),
            .update(.at("e"), .objectValue), .insert(.at("e", "xs", 0), .int(4), size: 0),
            .update(.at("e", "next"), .objectValue), .update(.at("e", "next", "x"), .int(2)), .update(.at("e"), .null),
        ]
        #expect(try lines(written.changeset) == lines(changeset(expected)))
        #expect(try Replay.decode(written.changeset).strings(of: 0) == ["A", "e", "E", "x", "xs", "next"])
    }

    @Test func theExampleOfLists() throws {
        try expect([
            .insert(.item(0), .int(1), size: 0), .insert(.item(1), .int(2), size: 1),
            .insert(.item(2), .int(3), size: 2),
            .insert(.item(0), .int(0), size: 3), .update(.item(1), .int(1), size: 4), .move(.item(0), to: 3, size: 4),
            .move(.item(3), to: 0, size: 4), .move(.item(1), to: 3, size: 4), .move(.item(2), to: 1, size: 4),
            .erase(.item(2), size: 4), .clear(.at("l")),
        ]) { tx in
            let list = try #require(try tx.object("A", key: 1)).list("l")
            for value: Payload in [1, 2, 3] { try list.append(value) }
            try list.insert(0, at: 0)
            try list.set(1, at: 1)
            try list.move(from: 0, to: 3)
            try list.swapAt(0, 3)
            try list.swapAt(2, 1)
            try list.remove(at: 2)
            try list.removeAll()
            try list.removeAll()
        }
    }

    /// Clients with an SDK cannot read a collection in a list that one move has brought to a higher index.
    @Test func aNestedCollectionMovesUpByTheMovesOfTheOthers() throws {
        try expect([
            .insert(.at("lm", 0), .list, size: 0), .insert(.at("lm", 1), .int(1), size: 1),
            .insert(.at("lm", 2), .dictionary, size: 2), .insert(.at("lm", 3), .int(3), size: 3),
            .move(.at("lm", 1), to: 0, size: 4), .move(.at("lm", 2), to: 1, size: 4),
            .move(.at("lm", 3), to: 2, size: 4), .move(.at("lm", 1), to: 0, size: 4),
            .move(.at("lm", 1), to: 3, size: 4),
        ]) { tx in
            let list = try #require(try tx.object("A", key: 1)).list("lm")
            for value: Payload in [.list, 1, .dictionary, 3] { try list.append(value) }
            try list.move(from: 0, to: 3)
            try list.move(from: 1, to: 0)
            try list.move(from: 1, to: 3)
            #expect(try list.values == [.dictionary, 3, .list, 1])
        }
    }

    @Test func stringsAreInternedWhereTheyAreNeededFirst() throws {
        var graph = ObjectGraph()
        let written = try graph.write(as: 2) { tx in
            try tx.addClass("N")
            try tx.addClass("A", key: "_id", .int)
            try tx.addColumn("i", .int, to: "A")
            try tx.addLink("l", to: "N", of: "A")
            try tx.create("A", key: 1, ["i": 5, "l": try tx.create("N").link])
        }
        let arena = try Replay.decode(written.changeset)
        #expect(arena.strings(of: 0) == ["N", "", "A", "_id", "i", "l"])
        let expected: [UInt8] =
            [0x3F, 0, 1, 0x4E, 0x3F, 1, 0, 0, 0, 0, 1, 0x40, 0]
            + [0x3F, 2, 1, 0x41, 0x3F, 3, 3, 0x5F, 0x69, 0x64, 0, 2, 0, 3, 1, 0]
            + [0x3F, 4, 1, 0x69, 6, 2, 4, 1, 0, 0] + [0x3F, 5, 1, 0x6C, 6, 2, 5, 9, 1, 0, 0]
            + [2, 0, 0x40, 2, 0] + [2, 2, 1, 1] + [4, 2, 1, 1, 4, 0, 1, 5, 0] + [4, 2, 1, 1, 5, 0, 9, 0, 0x40, 2, 0, 0]
        #expect(written.changeset == expected)
    }

    @Test func whatChangesNothingIsNotRecorded() throws {
        try expect([.setInsert(.at("s"), .int(1)), .update(.at("y", "k"), .int(1)), .update(.at("i"), .int(0))]) { tx in
            let object = try tx.create("A", key: 1)
            try object.set("s").insert(1)
            try object.set("s").insert(1)
            try object.set("s").remove(2)
            try object.dictionary("y").remove("none")
            try object.dictionary("y").set(1, for: "k")
            try object.list("l").removeAll()
            try object.set("a", to: nil, isDefault: true)
            try object.set("e", to: nil, isDefault: true)
            // The value that is there already is recorded.
            object["i"] = 0
        }
    }

    @Test func fieldsAndMixedCollections() throws {
        try expect([
            .update(.at("i"), .int(5), isDefault: true), .addInteger(.at("i"), -2), .update(.at("n"), .null),
            .update(.at("m"), .dictionary), .update(.at("m", "k"), .list),
            .insert(.at("m", "k", 0), .text("t"), size: 0),
            .update(.at("m"), .dictionary), .clear(.at("m", "k")), .clear(.at("m", "k")),
            .update(.at("m", "k"), .erased),
        ]) { tx in
            let object = try #require(try tx.object("A", key: 1))
            try object.set("i", to: 5, isDefault: true)
            try object.add(-2, to: "i")
            object["n"] = nil
            object["m"] = .dictionary
            let entries = try object.dictionary("m")
            entries["k"] = .list
            try entries.list(for: "k").append("t")
            object["m"] = .dictionary
            try entries.list(for: "k").removeAll()
            try entries.list(for: "k").removeAll()
            entries["k"] = nil
        }
    }

    @Test func embeddedObjectsInCollections() throws {
        try expect([
            .insert(.at("le", 0), .objectValue, size: 0), .update(.at("le", 0, "x"), .int(1)),
            .erase(.at("le", 0), size: 1), .insert(.at("le", 0), .objectValue, size: 0), .erase(.at("le", 0), size: 1),
            .update(.at("ye", "k"), .objectValue), .update(.at("ye", "k"), .objectValue),
            .update(.at("ye", "k"), .null),
        ]) { tx in
            let object = try #require(try tx.object("A", key: 1))
            let list = try object.list("le")
            try list.appendObject()["x"] = 1
            try list.set(.objectValue, at: 0)
            try tx.delete(try list.object(at: 0))
            let entries = try object.dictionary("ye")
            try entries.createObject(for: "k")
            try tx.delete(try entries.createObject(for: "k"))
        }
    }

    @Test func setsCombine() throws {
        try expect([
            .setInsert(.at("s"), .int(1)), .setInsert(.at("s"), .int(2)), .setErase(.at("s"), .int(2)),
            .setInsert(.at("s"), .int(3)), .clear(.at("s"), .set), .setInsert(.at("s"), .int(3)),
            .setErase(.at("s"), .int(3)), .setInsert(.at("s"), .int(4)), .clear(.at("s"), .set),
        ]) { tx in
            let set = try #require(try tx.object("A", key: 1)).set("s")
            try set.formUnion([1, 2, 1])
            try set.subtract([2, 9])
            try set.insert(3)
            try set.formIntersection([3, 7])
            try set.formSymmetricDifference([3, 4])
            try set.removeAll()
            try set.removeAll()
        }
    }

    @Test func listsResize() throws {
        try expect([
            .insert(.at("lm", 0), .null, size: 0), .insert(.at("lm", 1), .null, size: 1), .erase(.at("lm", 1), size: 2),
        ]) { tx in
            let list = try #require(try tx.object("A", key: 1)).list("lm")
            try list.resize(to: 2)
            try list.resize(to: 1)
        }
    }

    // MARK: Links to objects that are deleted or created

    @Test func deletingRemovesLinksColumnByColumn() throws {
        var graph = try graph()
        try graph.apply(
            changeset(
                .addColumn("A", "sa", .link, .set, target: "A"), .addColumn("A", "ya", .link, .dictionary, target: "A"),
                .addColumn("E", "ea", .link, target: "A"), .update(.at("a"), .link("A", 2)),
                .insert(.at("la", 0), .link("A", 2), size: 0), .insert(.at("la", 1), .link("A", 1), size: 1),
                .insert(.at("la", 2), .link("A", 2), size: 2), .setInsert(.at("sa"), .link("A", 2)),
                .update(.at("ya", "k"), .link("A", 2)), .update(.at("m"), .list),
                .insert(.at("m", 0), .link("A", 2), size: 0), .insert(.at("m", 1), .dictionary, size: 1),
                .update(.at("m", 1, "k"), .link("A", 2)), .update(.at("e"), .objectValue),
                .update(.at("e", "ea"), .link("A", 2))))
        try expect(
            [
                .erase(.at("la", 0), size: 3), .erase(.at("la", 1), size: 2), .update(.at("a"), .null),
                .setErase(.at("sa"), .link("A", 2)), .update(.at("ya", "k"), .null), .update(.at("e", "ea"), .null),
                .erase(.at("m", 0), size: 2), .update(.at("m", 0, "k"), .null), .eraseObject(ObjectName(key: 2)),
            ], beginningWith: graph
        ) { tx in try tx.delete(try #require(try tx.object("A", key: 2))) }
    }

    /// A place is named as the removals before have left it, in each list on the way.
    @Test func deletingRemovesLinksFromListsWithinEachOther() throws {
        var graph = try graph()
        let link = Payload.link("A", 2)
        try graph.apply(
            changeset(
                .insert(.at("lm", 0), link, size: 0), .insert(.at("lm", 1), .list, size: 1),
                .insert(.at("lm", 2), link, size: 2), .insert(.at("lm", 3), .list, size: 3),
                .insert(.at("lm", 4), .dictionary, size: 4), .insert(.at("lm", 1, 0), .int(1), size: 0),
                .insert(.at("lm", 1, 1), link, size: 1), .insert(.at("lm", 1, 2), link, size: 2),
                .insert(.at("lm", 3, 0), link, size: 0), .update(.at("lm", 4, "k"), .list),
                .update(.at("lm", 4, "l"), link), .insert(.at("lm", 4, "k", 0), link, size: 0),
                .insert(.at("lm", 4, "k", 1), link, size: 1)))
        try expect(
            [
                .erase(.at("lm", 0), size: 5), .erase(.at("lm", 0, 1), size: 3), .erase(.at("lm", 0, 1), size: 2),
                .erase(.at("lm", 1), size: 4), .erase(.at("lm", 1, 0), size: 1),
                .erase(.at("lm", 2, "k", 0), size: 2), .erase(.at("lm", 2, "k", 0), size: 1),
                .update(.at("lm", 2, "l"), .null), .eraseObject(ObjectName(key: 2)),
            ], beginningWith: graph
        ) { tx in try tx.delete(try #require(try tx.object("A", key: 2))) }
    }

    @Test func linksMadeInTheTransactionAreRemovedToo() throws {
        try expect([
            .update(.at("a"), .link("A", 2)), .update(.at("a"), .null), .eraseObject(ObjectName(key: 2)),
            .createObject(ObjectName(key: 3)), .insert(.at("la", 0), .link("A", 3), size: 0),
            .erase(.at("la", 0), size: 1), .eraseObject(ObjectName(key: 3)),
        ]) { tx in
            let (first, second) = (try tx.create("A", key: 1), try tx.create("A", key: 2))
            first["a"] = second.link
            try tx.delete(second)
            let third = try tx.create("A", key: 3)
            try first.list("la").append(third.link)
            try tx.delete(third)
        }
    }

    @Test func deletingAllLeavesLinksWithinTheClassAlone() throws {
        var graph = try graph()
        try graph.apply(
            changeset(
                .addTable("C"), .addColumn("C", "a", .link, target: "A"), .createObject(ObjectName(className: "C")),
                .update(Place(object: ObjectName(className: "C"), field: "a"), .link("A", 1)),
                .update(.at("a"), .link("A", 2))))
        try expect(
            [
                .update(Place(object: ObjectName(className: "C"), field: "a"), .null), .eraseObject(),
                .eraseObject(ObjectName(key: 2)),
            ], beginningWith: graph
        ) { try $0.deleteAll("A") }
    }

    @Test func creatingRecordsRevivedLinksAgain() throws {
        var graph = try graph()
        try graph.apply(
            changeset(
                .addColumn("A", "sa", .link, .set, target: "A"), .update(.at("a"), .link("A", 9)),
                .insert(.at("la", 0), .link("A", 9), size: 0), .setInsert(.at("sa"), .link("A", 9))))
        try expect(
            [
                .createObject(ObjectName(key: 9)), .update(.at("la", 0), .link("A", 9), size: 1),
                .update(.at("a"), .link("A", 9)), .setErase(.at("sa"), .link("A", 9)),
                .setInsert(.at("sa"), .link("A", 9)),
            ], beginningWith: graph
        ) { try $0.create("A", key: 9) }
    }

    @Test func asymmetricObjectsAreDeletedWithoutATrace() throws {
        var graph = try graph()
        let written = try graph.write(as: 2) { tx in try tx.delete(try tx.create("X", key: 1)) }
        #expect(try lines(written.changeset) == lines(changeset(.createObject(ObjectName(className: "X")))))
    }

    @Test func globalKeysCountInEachClass() throws {
        var graph = try graph()
        try graph.apply(changeset(.addTable("H", key: "", .globalKey)))
        let first = try graph.write(as: 7) { tx in try ["G", "G", "H"].map { try tx.create($0).key } }
        let second = try graph.write(as: 7) { tx in try tx.create("G").key }
        let counters: [UInt64] = [0, 1, 0, 2]
        #expect(first.result + [second.result] == counters.map { .globalKey(GlobalKey(high: 7, low: $0)) })
    }

    // MARK: Misuse

    @Test func misuseNamesThePlaceAndChangesNothing() throws {
        var graph = try graph()
        let before = try graph.json
        let misuses: [(String, (WriteTransaction) throws -> Void)] = [
            ("Z: no such class", { try $0.create("Z", key: 1) }),
            ("A[\"t\"]: a key of type String does not fit the class", { try $0.create("A", key: "t") }),
            ("A[1].none: no such field", { try $0.create("A", key: 1).set("none", to: 1) }),
            ("A[1].i: String does not fit the field", { try $0.create("A", key: 1).set("i", to: "t") }),
            ("A[1].n: null cannot be added to", { try $0.create("A", key: 1).add(1, to: "n") }),
            ("A[1].l: index 1 is out of range", { try $0.create("A", key: 1).list("l").insert(1, at: 1) }),
            ("A[1].l: index -1 is out of range", { try $0.create("A", key: 1).list("l").remove(at: -1) }),
            ("A[1].i: there is no list", { _ = try $0.create("A", key: 1).list("i") }),
            ("A[1].a: the object linked to does not exist", { try $0.create("A", key: 1).set("a", to: .link("A", 9)) }),
            ("A[1].i: the field holds no embedded object", { try $0.create("A", key: 1).createObject("i") }),
            ("A.i: the column exists and is different", { try $0.addColumn("i", .string, to: "A") }),
            ("E: A.le links to the class", { try $0.eraseClass("E") }),
        ]
        for (expected, misuse) in misuses {
            let error = #expect(throws: ApplyError.self) { try graph.write(as: 2, misuse) }
            #expect(error?.description == expected)
        }
        #expect(try graph.json == before)
    }

    /// What was done before the misuse stays in the transaction, if the caller goes on.
    @Test func misuseCanBeCaught() throws {
        try expect([.update(.at("i"), .int(1)), .update(.at("i"), .int(2))]) { tx in
            let object = try #require(try tx.object("A", key: 1))
            object["i"] = 1
            #expect(throws: ApplyError.self) { try object.set("i", to: "t") }
            #expect(throws: ApplyError.self) { try object.list("l").set(1, at: 0) }
            try object.set("i", to: 2)
        }
    }

    /// Actions of several steps look first.
    @Test func misuseLeavesNothingHalfDone() throws {
        try expect([.insert(.item(0), .int(1), size: 0), .insert(.item(1), .int(2), size: 1)]) { tx in
            let list = try #require(try tx.object("A", key: 1)).list("l")
            for value: Payload in [1, 2] { try list.append(value) }
            #expect(throws: ApplyError.self) { try list.set(.objectValue, at: 0) }
            #expect(throws: ApplyError.self) { try list.removeSubrange(-1..<2) }
            #expect(throws: ApplyError.self) { try list.removeSubrange(1..<3) }
            #expect(throws: ApplyError.self) { try tx.create("A", key: 9, ["i": 1, "none": 1]) }
            #expect(throws: ApplyError.self) { try tx.create("G", ["none": 1]) }
        }
    }

    /// The object stays, and with it its key.
    @Test func anObjectWithARefusedValueKeepsItsGlobalKey() throws {
        var graph = try graph()
        try graph.apply(changeset(.addColumn("G", "i", .int)))
        let key = try graph.write(as: 7) { tx in
            #expect(throws: ApplyError.self) { try tx.create("G", ["i": "t"]) }
            return try tx.create("G").key
        }.result
        #expect(key == .globalKey(GlobalKey(high: 7, low: 1)))
    }

    /// What an element was before it was changed is noted with the first edit that is made.
    @Test func aRefusedEditOfAnElementCountsForNothing() throws {
        var graph = try graph()
        _ = try graph.write(as: 2) { try $0.create("A", key: 1).list("le").appendObject() }
        func digests(_ values: [Payload]) throws -> [UInt64] {
            var copy = graph
            return try copy.write(as: 2) { tx in
                let element = try tx.create("A", key: 1).list("le").object(at: 0)
                for value in values { _ = try? element.set("x", to: value) }
            }.changedElements
        }
        let plain = try digests([1])
        #expect(plain.count == 1 && plain != [0])
        #expect(try digests(["t", 1]) == plain)
        #expect(try digests([1, "t", 2]) == plain + [0])
    }
}
