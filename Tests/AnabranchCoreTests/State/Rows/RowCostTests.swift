import AnabranchTesting
import Testing

@testable import AnabranchCore

/// The cost of storing a change, and of applying it to stored rows: counted, not timed.
@Suite struct RowCostTests {
    /// Stores what a changeset changes.
    @discardableResult
    private static func store(_ steps: [Step], in rows: inout MemoryRows) throws -> RowWrites {
        var graph = try ObjectGraph(rows: rows)
        let writes = try graph.rowWrites(of: try graph.apply(changeset(steps)))
        rows.write(writes)
        return writes
    }

    /// A state in rows, and what they have to say after some steps.
    private static func rows(of steps: [Step]) throws -> MemoryRows {
        var rows = MemoryRows()
        try store(steps, in: &rows)
        return rows
    }

    // MARK: Depth

    /// Embedded objects in lists of each other, each with many columns, so that it is large in the row of the next.
    private static func embedded(depth: Int) -> [Step] {
        var steps: [Step] = [.addTable("A"), .addTable("E", .embedded)]
        for name in ["A", "E"] { steps.append(.addColumn(name, "le", .link, .list, target: "E")) }
        for column in 0..<60 { steps.append(.addColumn("E", "c\(column)")) }
        steps.append(.createObject())
        var path: [FieldPath.Element] = [0]
        for _ in 0..<depth {
            steps.append(.insert(FieldPath(field: "le", path: path), .objectValue, size: 0))
            steps.append(.update(FieldPath(field: "le", path: path + ["c59"]), .int(1)))
            path += ["le", 0]
        }
        return steps
    }

    /// Lists within each other, with as many texts each as make them large.
    private static func lists(depth: Int) -> [Step] {
        var steps: [Step] = [.addTable("A"), .addColumn("A", "m", .null, nullable: true), .createObject()]
        steps.append(.update(.at("m"), .list))
        for level in 0..<depth {
            let path = Array(repeating: FieldPath.Element.index(0), count: level)
            steps.append(.insert(FieldPath(field: "m", path: path + [0]), .list, size: 0))
            for index: UInt32 in 1...5 {
                let text = Payload.text(String(repeating: "x", count: 600))
                steps.append(.insert(FieldPath(field: "m", path: path + [.index(index)]), text, size: index))
            }
        }
        return steps
    }

    @Test(arguments: [embedded, lists])
    func whatStoringCostsGrowsWithTheDepthAndNoFaster(steps: @Sendable (Int) -> [Step]) throws {
        var looks: [Int] = []
        for depth in [64, 127, 254] {
            var graph = try ObjectGraph(rows: MemoryRows())
            looks.append(try graph.rowWrites(of: try graph.apply(changeset(steps(depth)))).lookCount)
        }
        #expect(looks[2] - looks[1] <= 3 * (looks[1] - looks[0]), "\(looks)")
    }

    // MARK: Parts

    /// Of 1,000 entries whose keys are too long for the row of the object.
    @Test func theTopOfATreeIsWrittenInItsPlace() throws {
        func key(_ number: Int) -> FieldPath {
            .at("y", .name("\(number)" + String(repeating: "x", count: 200)))
        }
        let entries = (0..<1_000).map { Step.update(key($0), .int(1)) }
        var rows = try Self.rows(of: ApplyTests.schema + [.createObject()] + entries)
        let count = rows.rows.count
        for value: Int64 in 2...3 {
            let writes = try Self.store([.update(key(500), .int(value))], in: &rows)
            #expect(writes.removed.isEmpty && rows.rows.count == count)
            #expect(writes.rows.count > 1)
        }
    }

    /// Values of other kinds tell by their kind where they stand.
    @Test func theValuesOfASetAreReadOnceToBeComparedWith() throws {
        var steps = ApplyTests.schema + [.createObject()]
        for value: UInt8 in 0..<16 {
            steps.append(.setInsert(.at("sm"), .binary([value] + Array(repeating: 1, count: 3_000))))
        }
        let rows = try Self.rows(of: steps)
        let binaries = (0..<1_000).map { Step.setInsert(.at("sm"), .binary([UInt8($0 % 16), UInt8($0 / 16), 2])) }
        let others = (0..<1_000).map { Step.setInsert(.at("sm"), .text("\($0)")) }
        for (steps, limit) in [(binaries, 3 + 16), (others, 3)] {
            var graph = try ObjectGraph(rows: rows)
            rows.readCount = 0
            try graph.apply(changeset(steps))
            #expect(rows.readCount <= limit)
            // They are not in memory any more.
            #expect(graph.readBytes < 3_000)
        }
        #expect(try Self.code(of: binaries, on: rows, loadedBytesMax: 48_000) == .loadsTooMuch)
        #expect(try Self.code(of: binaries, on: rows, loadedBytesMax: 100_000) == nil)
    }

    private static func code(
        of steps: [Step], on rows: MemoryRows, loadedBytesMax: Int
    ) throws -> ApplyError.Code? {
        var (graph, arena) = (try ObjectGraph(rows: rows), ChangesetArena())
        let index = try arena.decode(changeset(steps), version: 1, tag: OriginTag(timestamp: 1, ident: 2))
        do throws(ApplyError) {
            let limits = ApplyLimits(loadedBytesMax: loadedBytesMax)
            _ = try graph.applyTransactions([index], of: &arena, refusing: [], within: limits) { _ in false }
            return nil
        } catch {
            return error.code
        }
    }

    // MARK: Links

    private static let linkCount = 1_000

    /// A[1] and C[1] have links to as many objects that do not exist, and C[1] a list of numbers.
    private static let linking: [Step] = {
        var steps =
            ApplyTests.schema + [
                .addTable("C"), .addColumn("C", "lm", .null, nullable: true, .list), .addColumn("C", "l", .int, .list),
                .createObject(), .createObject(ObjectName(className: "C")), .update(.at("m"), .list),
            ]
        for index: UInt32 in 0..<UInt32(linkCount) {
            let link = Payload.link("A", Int64(index) + 100)
            let ofC = { FieldPath(object: ObjectName(className: "C"), field: $0, path: [.index(index)]) }
            steps += [.insert(.at("m", .index(index)), link, size: index), .insert(ofC("lm"), link, size: index)]
            steps.append(.insert(ofC("l"), .int(7), size: index))
        }
        return steps
    }()

    @Test func aLinkThatComesCountsWithTheKeysOfBothUntilItIsStored() throws {
        let keys = [100, 200].map { PrimaryKey.string(Array(repeating: UInt8(ascii: "k"), count: $0)) }
        let rows = try Self.rows(
            of: ApplyTests.schema + [.addColumn("B", "b", .link, target: "B"), .createObject()])
        var graph = try ObjectGraph(rows: rows)
        let changes = try graph.apply(
            changeset(
                .createObject(ObjectName(className: "B", key: keys[0])),
                .update(
                    FieldPath(object: ObjectName(className: "B", key: keys[0]), field: "b"),
                    .link(className: Array("B".utf8), key: keys[1])),
                .insert(.at("la", 0), .link("A", 5), size: 0)))
        let initial = (1...2).reduce(0) { $0 + graph.schema[ClassID($1)].columns.count * Content.itemBytes }
        #expect(graph.unwrittenBytes == 2 * Backlink.overheadBytes + 300 + initial)
        #expect(graph.loadedBytes >= graph.unwrittenBytes)
        _ = try graph.rowWrites(of: changes)
        #expect(graph.unwrittenBytes == 0)
    }

    /// One by one, with what holds them, with their object or their class, or when their column was erased.
    @Test(arguments: [
        [Step.eraseObject()], [.clear(.at("m"), .list)], [.update(.at("m"), .int(1))],
        [.eraseTable("C")], [.eraseObject(ObjectName(className: "C"))],
        [.eraseColumn("A", "m"), .addInteger(.at("i"), 1)],
        (0..<linkCount).map { .erase(.at("m", 0), size: UInt32(linkCount - $0)) },
    ])
    func aLinkThatGoesCounts(_ steps: [Step]) throws {
        var rows = try Self.rows(of: Self.linking)
        var graph = try ObjectGraph(rows: rows)
        let changes = try graph.apply(changeset(steps))
        let bytes = Self.linkCount * Backlink.overheadBytes
        #expect((bytes...bytes + 30 * Content.itemBytes).contains(graph.unwrittenBytes))
        #expect(try Self.code(of: steps, on: rows, loadedBytesMax: bytes / 2) == .loadsTooMuch)
        let writes = try graph.rowWrites(of: changes)
        #expect(writes.removed.count { $0.classID == Backlink.classID(of: ClassID(1)) } == Self.linkCount)
        rows.write(writes)
        #expect(rows.rows.keys.count { $0.classID == Backlink.classID(of: ClassID(1)) } == Self.linkCount)
        #expect(try !ObjectGraph(rows: rows).hasDamagedLinks())
    }

    /// They stand at the end of a long list, which is not read for each of them.
    @Test func allLinksToAnObjectThatIsDeletedAreFoundAtOnce() throws {
        var steps = ApplyTests.schema + [.createObject(), .createObject(ObjectName(key: 2))]
        for index: UInt32 in 0..<5_000 {
            steps.append(.insert(.at("la", .index(index)), .link("A", index < 4_900 ? 1 : 2), size: index))
        }
        let rows = try Self.rows(of: steps)
        var graph = try ObjectGraph(rows: rows)
        rows.readCount = 0
        let written = try graph.write(as: .server) { tx in try tx.delete(try #require(try tx.object("A", key: 2))) }
        #expect(rows.readCount < 200)
        var expected = (0..<100 as Range<UInt32>).map { Step.erase(.at("la", 4_900), size: 5_000 - $0) }
        expected.append(.eraseObject(ObjectName(key: 2)))
        #expect(try Self.lines(written.changeset) == Self.lines(changeset(expected)))
    }

    @Test func whatComesAfterAllStoredObjectsIsNotLookedUp() throws {
        func create(_ key: Int) -> Step { .createObject(ObjectName(key: PrimaryKey(key))) }
        let rows = try Self.rows(of: ApplyTests.schema + (0..<50).map { create(2 * $0) })
        for (keys, limit) in [(100..<200, 3), (0..<200, 3 + 98)] {
            var graph = try ObjectGraph(rows: rows)
            rows.readCount = 0
            let changes = try graph.apply(changeset(keys.map(create)))
            #expect(rows.readCount <= limit)
            #expect(changes.objects.count == keys.count(where: { $0 > 98 || $0 % 2 == 1 }))
        }
    }

    private static func lines(_ changeset: [UInt8]) throws -> [String] { try Replay.decode(changeset).lines(of: 0) }

    @Test func whatHoldsNoLinksIsNotLookedThroughForThem() throws {
        var steps = ApplyTests.schema + [.createObject()]
        for index: UInt32 in 0..<5_000 { steps.append(.insert(.item(index), .int(1), size: index)) }
        let rows = try Self.rows(of: steps)
        var graph = try ObjectGraph(rows: rows)
        rows.readCount = 0
        try graph.apply(changeset(.eraseObject()))
        #expect(graph.unwrittenBytes == 0)
        #expect(rows.readCount <= 2)
    }
}
