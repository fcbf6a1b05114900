import AnabranchTesting
import Testing

@testable import AnabranchCore

/// States whose objects are stored in rows.
@Suite struct ObjectRowsTests {
    /// Stores what a changeset changes.
    @discardableResult
    private func store(_ changeset: [UInt8], in rows: inout MemoryRows) throws -> RowWrites {
        var graph = try ObjectGraph(rows: rows)
        let writes = try graph.rowWrites(of: try graph.apply(changeset))
        rows.write(writes)
        return writes
    }

    @Test func aStateIsReadBackAsItWas() throws {
        var rows = MemoryRows()
        try store(changeset(ApplyTests.schema + ApplyTests.object), in: &rows)
        let (stored, graph) = (try ObjectGraph(rows: rows), try ApplyTests.graph())
        #expect(try stored.json == graph.json)
        #expect(try StateDigest(of: stored) == StateDigest(of: graph))
        #expect(stored.loadedCount == 0)
    }

    @Test func onlyWhatChangedIsWritten() throws {
        var rows = MemoryRows()
        try store(changeset(ApplyTests.schema + ApplyTests.object), in: &rows)
        try store(changeset(.createObject(ObjectName(key: 2))), in: &rows)
        let writes = try store(changeset(.update(.at("i"), .int(8)), .update(.at("n"), .int(8))), in: &rows)
        #expect(writes.rows.count == 1 && writes.removed.isEmpty)
        let schema = try store(changeset(.addColumn("A", "new")), in: &rows)
        #expect(schema.rows.map(\.address) == [.schema])
    }

    /// However often instructions go from one object to another and back, or link to one.
    @Test func anObjectIsReadOnceForAllInstructionsOfAChangeset() throws {
        var rows = MemoryRows()
        let objects = [ObjectName(key: 1), ObjectName(key: 2), ObjectName(key: 3)]
        try store(changeset(ApplyTests.schema + objects.map { .createObject($0) }), in: &rows)
        let at = { (index: Int, field: String) in FieldPath(object: objects[index], field: field) }
        for steps in [
            [.createObject(objects[0]), .createObject(objects[1])],
            [.addInteger(at(0, "i"), 0), .update(at(1, "i"), .int(1))],
            [.update(at(0, "a"), .link("A", 2)), .update(at(0, "a"), .link("A", 3))],
        ] as [[Step]] {
            var graph = try ObjectGraph(rows: rows)
            rows.readCount = 0
            try graph.apply(changeset((0..<100).flatMap { _ in steps }))
            #expect(rows.readCount <= 4, "\(steps)")
        }
    }

    /// What a commit has changed is noted without reading a long list, unless somebody wants to have it.
    @Test func noColumnIsReadThatNobodyHasAskedFor() throws {
        var rows = MemoryRows()
        var steps = ApplyTests.schema + [.createObject()]
        for index: UInt32 in 0..<5_000 { steps.append(.insert(.item(index), .int(Int64(index)), size: index)) }
        try store(changeset(steps), in: &rows)
        func record(_ depth: (Property) -> RecordingDepth) throws -> (change: NotedChange, reads: Int) {
            var graph = try ObjectGraph(rows: rows)
            let number = try #require(graph.classes.first?.property(named: Array("i".utf8)))
            let changes = try graph.apply(changeset(.update(.at("i"), .int(8))))
            rows.readCount = 0
            let noted = try graph.rowWrites(of: changes, noting: { _ in depth(number) }).noted
            #expect(noted.first?.after?.value(of: number).isSame(as: .int(8)) == true)
            return (try #require(noted.first), rows.readCount)
        }
        #expect(try record { .columns([$0.slot ?? -1]) }.reads == 0)
        let whole = try record { _ in .whole }
        #expect(whole.reads > 10)
        let list = try #require(ObjectGraph(rows: rows).classes.first?.property(named: Array("l".utf8)))
        guard case .list(let elements)? = whole.change.before?.value(of: list) else {
            Issue.record("no list was noted")
            return
        }
        #expect(elements.count == 5_000)
    }

    @Test func aLongListIsWrittenInParts() throws {
        var rows = MemoryRows()
        var steps = ApplyTests.schema + [.createObject()]
        for index: UInt32 in 0..<5_000 { steps.append(.insert(.item(index), .int(Int64(index)), size: index)) }
        try store(changeset(steps), in: &rows)
        let writes = try store(changeset(.insert(.item(2_500), .int(7), size: 5_000)), in: &rows)
        #expect(writes.rows.count <= 5 && writes.removed.isEmpty)
        try store(changeset(.erase(.item(0), size: 5_001)), in: &rows)
        let stored = try ObjectGraph(rows: rows)
        var expected = (0..<5_000).map { $0 }
        expected.insert(7, at: 2_500)
        let values = try stored.read { try #require(try $0.object("A", key: 1)).list("l").values }
        #expect(values == expected.dropFirst().map { .int(Int64($0)) })
        steps = [.clear(.at("l"))]
        for index: UInt32 in 0..<1_000 { steps.append(.insert(.item(index), .int(-Int64(index)), size: index)) }
        try store(changeset(steps), in: &rows)
        let again = try ObjectGraph(rows: rows).read { try #require(try $0.object("A", key: 1)).list("l").values }
        #expect(again == (0..<1_000).map { .int(-$0) })
        let erased = try store(changeset(.eraseObject()), in: &rows)
        #expect(erased.removed.allSatisfy { $0.part > 0 })
        #expect(rows.rows.keys.allSatisfy { $0.part == 0 })
    }

    /// As many leaves as a node of the tree takes, and one more of a single element.
    @Test func aListThatWasReadBackLosesItsLastLeaf() throws {
        var rows = MemoryRows()
        var steps = ApplyTests.schema + [.createObject()]
        for index: UInt32 in 0..<4_097 { steps.append(.insert(.item(index), .int(Int64(index)), size: index)) }
        try store(changeset(steps), in: &rows)
        try store(changeset(.erase(.item(4_096), size: 4_097)), in: &rows)
        let values = try ObjectGraph(rows: rows).read { try #require(try $0.object("A", key: 1)).list("l").values }
        #expect(values == (0..<4_096).map { .int($0) })
    }

    /// Of a class without list columns, whose Mixed can hold a list all the same.
    @Test func aLongListInAMixedIsWrittenInParts() throws {
        var rows = MemoryRows()
        var steps: [Step] = [.addTable("A"), .addColumn("A", "m", .null, nullable: true), .createObject()]
        steps.append(.update(.at("m"), .list))
        for index: UInt32 in 0..<2_000 { steps.append(.insert(.at("m", .index(index)), .int(1), size: index)) }
        try store(changeset(steps), in: &rows)
        let chunkCount = rows.rows.keys.count { $0.part > 0 }
        #expect(chunkCount > 10)
        let writes = try store(changeset(.insert(.at("m", 1_000), .int(7), size: 2_000)), in: &rows)
        #expect(writes.rows.count <= 4)
        try store(changeset(.update(.at("m"), .int(1))), in: &rows)
        #expect(rows.rows.keys.allSatisfy { $0.part == 0 })
    }

    /// As deep as paths may be.
    @Test(arguments: [0, 100, 2_048]) func nestedListsAreStoredAtAnyDepth(inlineBytesMax: Int) throws {
        var rows = MemoryRows()
        var steps: [Step] = [.addTable("A"), .addColumn("A", "m", .null, nullable: true), .createObject()]
        steps.append(.update(.at("m"), .list))
        for depth in 1...GraphEditor.pathCountMax {
            let path = Array(repeating: FieldPath.Element.index(0), count: depth)
            steps.append(.insert(FieldPath(field: "m", path: path), .list, size: 0))
        }
        var graph = try ObjectGraph(rows: rows)
        graph.partLimits.inlineBytesMax = inlineBytesMax
        let changes = try graph.apply(changeset(steps))
        rows.write(try graph.rowWrites(of: changes))
        #expect(try ObjectGraph(rows: rows).json == graph.json)
        #expect(rows.rows.keys.contains { $0.part > 0 })
    }

    /// Also of one with the values of many columns, each of which is short enough to stand in its row, and of entries
    /// that hold such objects.
    @Test func aChangeOfALargeObjectWritesLittle() throws {
        var rows = MemoryRows()
        var steps: [Step] = [
            .addTable("A"), .addTable("E", .embedded), .addColumn("A", "ye", .link, .dictionary, target: "E"),
        ]
        for className in ["A", "E"] {
            for index in 0..<300 { steps.append(.addColumn(className, "b\(index)", .binary)) }
            steps.append(.addColumn(className, "i"))
        }
        steps += [.createObject(), .update(.at("ye", "k"), .objectValue)]
        for index in 0..<300 {
            let value = Payload.binary(Array(repeating: 1, count: 300 + 5 * index))
            steps += [.update(.at("b\(index)"), value), .update(.at("ye", "k", .name("b\(index)")), value)]
        }
        try store(changeset(steps), in: &rows)
        for place in [.at("i"), .at("ye", "k", "i")] as [FieldPath] {
            let writes = try store(changeset(.update(place, .int(1))), in: &rows)
            #expect(writes.rows.reduce(0) { $0 + $1.bytes.count } < 40_000)
        }
        let json = try ObjectGraph(rows: rows).json
        #expect(json.count > 2 * 300 * 1_000 && json.contains(#""i":{"int":"1"}"#))
    }

    /// What instructions need of one object is limited like what they need of many.
    @Test func thePartsThatAChangesetNeedsAreLimited() throws {
        var rows = MemoryRows()
        var steps = ApplyTests.schema + [.createObject()]
        for index: UInt32 in 0..<5_000 { steps.append(.insert(.item(index), .int(Int64(index)), size: index)) }
        try store(changeset(steps), in: &rows)
        let edits = stride(from: UInt32(0), to: 5_000, by: 500).map { Step.update(.item($0), .int(7)) }
        for (count, expected) in [(1, nil), (10, .loadsTooMuch)] as [(Int, ApplyError.Code?)] {
            var arena = ChangesetArena()
            let edits = changeset(Array(edits.prefix(count)))
            let index = try arena.decode(edits, version: 1, tag: OriginTag(timestamp: 1, ident: 2))
            var graph = try ObjectGraph(rows: rows)
            var code: ApplyError.Code?
            do {
                _ = try graph.applyTransactions(
                    [index], of: &arena, refusing: [], within: ApplyLimits(loadedBytesMax: 3_000),
                    skipping: { _ in false })
            } catch {
                code = error.code
            }
            #expect(code == expected)
        }
    }

    /// An object that was changed is looked through for links, but not what is stored of it.
    @Test func whatIsStoredIsNotReadToFindLinks() throws {
        var rows = MemoryRows()
        var steps = ApplyTests.schema + [.createObject(), .createObject(ObjectName(key: 2))]
        steps.append(.update(.at("a"), .link("A", 2)))
        for index: UInt32 in 0..<5_000 { steps.append(.insert(.at("lm", .index(index)), .int(1), size: index)) }
        try store(changeset(steps), in: &rows)
        var graph = try ObjectGraph(rows: rows)
        try graph.apply(changeset(.insert(.at("lm", 9), .int(7), size: 5_000)))
        rows.readCount = 0
        let written = try graph.write(as: 2) { try $0.delete(try #require(try $0.object("A", key: 2))) }
        #expect(try Replay.decode(written.changeset).instructions(of: 0).map(\.kind) == [.update, .eraseObject])
        #expect(rows.readCount < 20, "\(rows.readCount)")
    }

    /// They go with the next change of their object, whether it was in memory when the column was erased or not.
    @Test(arguments: [false, true]) func thePartsOfAnErasedColumnGo(isInMemory: Bool) throws {
        var rows = MemoryRows()
        var steps: [Step] = [.addTable("A"), .addColumn("A", "l", .int, .list), .addColumn("A", "i"), .createObject()]
        for index: UInt32 in 0..<1_000 { steps.append(.insert(.item(index), .int(1), size: index)) }
        try store(changeset(steps), in: &rows)
        var graph = try ObjectGraph(rows: rows)
        for step in [Step.update(.at("i"), .int(1)), .eraseColumn("A", "l"), .update(.at("i"), .int(2))] {
            let changes = try graph.apply(changeset(step))
            rows.write(try graph.rowWrites(of: changes))
            if !isInMemory { graph = try ObjectGraph(rows: rows) }
        }
        #expect(rows.rows.keys.allSatisfy { $0.part == 0 })
        #expect(try ObjectGraph(rows: rows).json == #"{"A":[[{"int":"1"},{"i":{"int":"2"}}]]}"#)
    }

    /// They may have held something in the column: that is looked for once, and not each time the object is changed.
    @Test func embeddedObjectsAreLookedThroughOnceAfterAnErasure() throws {
        var rows = MemoryRows()
        var steps = ApplyTests.schema + [.createObject()]
        for index: UInt32 in 0..<2_000 { steps.append(.insert(.at("le", .index(index)), .objectValue, size: index)) }
        try store(changeset(steps + [.addColumn("E", "gone"), .eraseColumn("E", "gone")]), in: &rows)
        rows.readCount = 0
        try store(changeset(.update(.at("i"), .int(1))), in: &rows)
        #expect(rows.readCount > 16)
        rows.readCount = 0
        try store(changeset(.update(.at("i"), .int(2))), in: &rows)
        #expect(rows.readCount < 4)
    }

    @Test func anErasedClassTakesItsRowsAlong() throws {
        var rows = MemoryRows()
        try store(
            changeset(.addTable("A"), .createObject(), .addTable("B"), .createObject(ObjectName(className: "B"))),
            in: &rows)
        try store(changeset(.eraseTable("A"), .addTable("A"), .createObject(ObjectName(key: 3))), in: &rows)
        #expect(try ObjectGraph(rows: rows).json == #"{"A":[[{"int":"3"},{}]],"B":[[{"int":"1"},{}]]}"#)
        #expect(rows.rows.count == 3)
    }

    @Test func linksReviveThroughRows() throws {
        var rows = MemoryRows()
        try store(changeset(ApplyTests.schema + ApplyTests.object + [.update(.at("a"), .link("A", 9))]), in: &rows)
        var graph = try ObjectGraph(rows: rows)
        let written = try graph.write(as: 2) { try $0.create("A", key: 9) }
        #expect(try Replay.decode(written.changeset).instructions(of: 0).map(\.kind) == [.createObject, .update])
    }

    @Test func unloadedObjectsAreReadAgain() throws {
        var rows = MemoryRows()
        try store(changeset(ApplyTests.schema + ApplyTests.object), in: &rows)
        var graph = try ObjectGraph(rows: rows)
        try graph.apply(changeset(.update(.at("i"), .int(8))))
        #expect(graph.loadedCount == 1)
        let address = RowAddress(classID: ClassID(1), key: PrimaryKey.int(1).rowKey)
        #expect(graph.loadedBytes >= (rows.rows[address]?.count ?? .max) - RowChecksum.byteCount)
        graph.unload()
        #expect(graph.loadedCount == 0 && graph.loadedBytes == 0)
        #expect(try graph.text(of: "i") == #"{"int":"7"}"#)
    }

    @Test func keysSortAsTheirBytes() {
        let keys: [PrimaryKey] = [
            .null, .int(.min), .int(-1), .int(0), .int(256), .int(.max), "", "a", "a\0", "b",
            .globalKey(GlobalKey(high: 1, low: 500)), .globalKey(GlobalKey(high: 2, low: 0)),
            .objectID(ObjectID(low: 1 << 56, high: 0)), .objectID(ObjectID(low: 1, high: 0)),
            .uuid(UUIDBytes(low: 0, high: 1)), .uuid(UUIDBytes(low: 2, high: 0)),
        ]
        #expect(keys == keys.sorted())
        let bytes = keys.map(\.rowKey)
        #expect(bytes == bytes.sorted { $0.lexicographicallyPrecedes($1) })
        #expect(bytes.map { PrimaryKey(rowKey: $0) } == keys)
    }

    // MARK: Trouble

    @Test func aStoreThatFailsIsNotTheChangesetsFault() throws {
        var rows = MemoryRows()
        try store(changeset(ApplyTests.schema + ApplyTests.object), in: &rows)
        var broken = rows
        broken.isBroken = true
        #expect(throws: ApplyError.self) { try ObjectGraph(rows: broken) }
        let schema = try ObjectGraph(rows: rows).schema
        var graph = ObjectGraph(schema: schema, rows: broken)
        let error = #expect(throws: ApplyError.self) { try graph.apply(changeset(.update(.at("i"), .int(1)))) }
        #expect(error?.code == .unavailable)
    }

    /// Every truncation and every third bit flipped, of every row: reading fails or gives something, nothing traps.
    @Test func damagedRowsDoNotTrap() throws {
        var rows = MemoryRows()
        try store(changeset(ApplyTests.schema + ApplyTests.object), in: &rows)
        for (address, bytes) in rows.rows {
            for bit in stride(from: 0, to: 8 * bytes.count, by: 3) {
                var damaged = bytes
                damaged[bit / 8] ^= 1 << UInt8(bit % 8)
                try read(rows, address, damaged)
            }
            for count in bytes.indices { try read(rows, address, Array(bytes[..<count])) }
        }
    }

    /// Also where one property is read of rows as they lie, and the damage is in another one.
    @Test func damagedRowsAreFoundWhereTheyLie() throws {
        var rows = MemoryRows()
        try store(changeset(ApplyTests.schema + ApplyTests.object), in: &rows)
        let classes = try ObjectGraph(rows: rows).classes
        func values(_ rows: MemoryRows) throws -> Int {
            var count = 0
            for schema in classes {
                for property in schema.properties {
                    try ObjectGraph(rows: rows).forEachValue(of: property) { _ in count += 1 }
                }
            }
            return count
        }
        #expect(try values(rows) > 0)
        let numbers = classes.map(\.number)
        for (address, bytes) in rows.rows where address.part == 0 && numbers.contains(address.classID) {
            for bit in 0..<8 * bytes.count {
                var damaged = rows, row = bytes
                row[bit / 8] ^= 1 << UInt8(bit % 8)
                damaged.damage(address, row)
                #expect(throws: ApplyError.self) { try values(damaged) }
            }
        }
        // What the reader throws comes out as it is.
        let schema = try #require(classes.first { !$0.properties.isEmpty })
        #expect(throws: CancellationError.self) {
            try ObjectGraph(rows: rows).forEachValue(of: schema.properties[0]) { _ in
                throw CancellationError()
            }
        }
    }

    private func read(_ rows: MemoryRows, _ address: RowAddress, _ bytes: [UInt8]) throws {
        var rows = rows
        rows.damage(address, bytes)
        do throws(ApplyError) {
            var graph = try ObjectGraph(rows: rows)
            _ = try graph.canonicalJSON()
            _ = try StateDigest(of: graph)
            _ = try? graph.apply(changeset(.update(.at("m", "k"), .int(1)), .insert(.item(0), .int(1), size: 2)))
        } catch {
            #expect(error.code == .unavailable)
        }
    }
}
