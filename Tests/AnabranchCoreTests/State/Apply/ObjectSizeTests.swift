import AnabranchTesting
import Testing

@testable import AnabranchCore

/// How large an object can grow (`Spec/State.md`, B11).
@Suite struct ObjectSizeTests {
    /// A[1] with some contents: everything that has a size of its own.
    private static func graph() throws -> ObjectGraph { try ApplyTests.graph() }

    private static func apply(
        _ steps: [Step], to graph: ObjectGraph, objectBytesMax: Int = .max, loadedBytesMax: Int = .max
    ) throws -> Result<ObjectGraph, ApplyError> {
        var (graph, arena) = (graph, ChangesetArena())
        let index = try arena.decode(changeset(steps), version: 1, tag: OriginTag(timestamp: 1, ident: 2))
        return Result { () throws(ApplyError) in
            _ = try graph.applyTransactions(
                [index], of: &arena, refusing: [],
                within: ApplyLimits(objectBytesMax: objectBytesMax, loadedBytesMax: loadedBytesMax),
                skipping: { _ in false })
            return graph
        }
    }

    private static func sizes(of graph: ObjectGraph) -> [(kept: Int, counted: Int)] {
        graph.objects.flatMap { entries in entries.compactMap { entry in entry.fields.map { (entry.size, $0.size) } } }
    }

    @Test(arguments: [
        Step.update(.at("m", "k"), .text("text")), .update(.at("ym", "key"), .text("text")),
        .insert(.at("lm", 0), .text("x"), size: 2),
        .setInsert(.at("sm"), .binary([1, 2, 3])), .update(.at("lm", 1), .text("text"), size: 2),
        .update(.at("ye", "new"), .objectValue), .insert(.at("la", 0), .link("A", 5), size: 0),
    ])
    func anObjectGrowsUpToTheLimit(_ step: Step) throws {
        let graph = try Self.graph()
        let grown = try Self.apply([step], to: graph, objectBytesMax: .max).get()
        let size = try #require(Self.sizes(of: grown).first).counted
        #expect(try size > #require(Self.sizes(of: graph).first).counted)
        for (limit, isTaken) in [(size - 1, false), (size, true), (size + 1, true)] {
            switch try Self.apply([step], to: graph, objectBytesMax: limit) {
            case .success(let result): #expect(try isTaken && result.json == grown.json)
            case .failure(let error):
                #expect(!isTaken && error.code == .objectTooLarge && error.instruction == 0)
                #expect(error.description.hasPrefix("A[1]."))
                #expect(
                    error.description.hasSuffix(
                        "the object would have \(size) bytes, more than the \(limit) that it may have"))
            }
        }
    }

    /// Columns that were added since the object was written last get their initial values when it is written next, and
    /// not when that fails, or comes to nothing. No path leads through such a value, so that one object gets some.
    @Test func anEditWithoutEffectWritesNoInitialValues() throws {
        var graph = try Self.graph()
        let columns = (0..<100).map { Step.addColumn("E", "c\($0)", .null, nullable: true) }
        try graph.apply(changeset(columns + [.addColumn("A", "new", .int, .set)]))
        let size = try #require(Self.sizes(of: graph).first).counted
        for step in [
            Step.update(.at("e", "c99", "y"), .int(1)), .update(.at("le", 0, "c99", "y"), .int(1)),
            .insert(.at("ye", "k", "c99", 0), .int(1), size: 0), .setErase(.at("new"), .int(1)),
        ] {
            var arena = ChangesetArena(), changed = graph
            let index = try arena.decode(changeset(step), version: 1, tag: OriginTag(timestamp: 1, ident: 2))
            _ = try changed.applyTransactions([index], of: &arena) { _ in true }
            #expect(Self.sizes(of: changed).allSatisfy { $0 == (size, size) })
        }
        let written = try Self.apply([.update(.at("le", 0, "c99"), .int(1))], to: graph).get()
        #expect(try #require(Self.sizes(of: written).first).kept > size + 100 * Content.itemBytes)
    }

    /// One that was made before there was a limit: it can be changed, and made smaller, but not larger.
    @Test func anObjectBeyondTheLimitDoesNotGrow() throws {
        let graph = try Self.graph()
        for step in [
            Step.addInteger(.at("i"), 1_000_000), .update(.at("i"), .int(.max)), .erase(.item(0), size: 2),
            .clear(.at("ym"), .dictionary), .update(.at("y", "k"), .erased), .eraseObject(),
        ] {
            let result = try Self.apply([step], to: graph, objectBytesMax: 10).get()
            #expect(Self.sizes(of: result).allSatisfy { $0.kept == $0.counted })
        }
        let growth = try Self.apply([.update(.at("y", "l"), .int(1))], to: graph, objectBytesMax: 10)
        #expect(throws: ApplyError.self) { try growth.get() }
    }

    /// The size is kept while an object is changed, not counted anew: it is what counting would give.
    @Test func theKeptSizeIsTheCountedOne() throws {
        for seed in Seeds.upTo(300) {
            var random = RandomSteps(seed: seed)
            (random.isCareful, random.isPeaceful) = (true, true)
            var graph = try Self.graph()
            for _ in 0..<200 {
                let step = random.step()
                guard case .success(let next) = try Self.apply([step], to: graph, objectBytesMax: .max) else {
                    continue
                }
                // Where it nearly fits, the way with a copy comes to the same.
                let limit = Self.sizes(of: next).map(\.counted).max() ?? 0
                #expect(try Self.apply([step], to: graph, objectBytesMax: limit).get().json == next.json)
                graph = next
                let isExact = Self.sizes(of: graph).allSatisfy { $0.kept == $0.counted }
                #expect(isExact, "\(Seeds.repeatCommand("theKeptSizeIsTheCountedOne", seed: seed))")
            }
        }
    }

    /// Where it is too much that a link is written, nothing is kept of its target. Others are.
    @Test func aLinkThatIsTooMuchLeavesNoTombstone() throws {
        var graph = try Self.graph(), arena = ChangesetArena()
        let size = try #require(Self.sizes(of: graph).first).counted
        let steps: [Step] = [
            .insert(.at("la", 0), .link("A", 90), size: 0), .insert(.at("la", 1), .link("A", 91), size: 1),
            .insert(.at("la", 2), .link("A", 92), size: 2), .update(.at("la", 0), .link("A", 93), size: 2),
        ]
        let index = try arena.decode(changeset(steps), version: 1, tag: OriginTag(timestamp: 1, ident: 2))
        _ = try graph.applyTransactions(
            [index], of: &arena, refusing: [], within: ApplyLimits(objectBytesMax: size + 2 * Content.itemBytes),
            skipping: { $0.code == .objectTooLarge })
        let tombstones = graph.objects.flatMap { entries in entries.filter { $0.fields == nil }.map(\.key) }
        #expect(tombstones == [.int(90), .int(91), .int(93)])
    }

    @Test func whatAnErasedColumnHeldDoesNotCount() throws {
        let graph = try Self.graph()
        let size = try #require(Self.sizes(of: graph).first).counted
        let long = Step.update(.at("long"), .text(String(repeating: "x", count: 1_000)))
        let grown = try Self.apply([.addColumn("A", "long", .string), long], to: graph, objectBytesMax: .max).get()
        #expect(try #require(Self.sizes(of: grown).first).counted > size + 1_000)
        let erased = try Self.apply([.eraseColumn("A", "long")], to: grown, objectBytesMax: .max).get()
        let growth = Step.update(.at("ym", "new"), .text("some text"))
        #expect(throws: Never.self) { try Self.apply([growth], to: erased, objectBytesMax: size + 100).get() }
        #expect(throws: ApplyError.self) { try Self.apply([growth], to: grown, objectBytesMax: size + 100).get() }
    }

    /// In memory, or in rows, where each content may be a part.
    @Test(arguments: [nil, 2_048, 0])
    func whatEmbeddedObjectsHeldInAnErasedColumnDoesNotCount(inlineBytesMax: Int?) throws {
        let graph = try Self.graph()
        let size = try #require(Self.sizes(of: graph).first).counted
        let places = [FieldPath.at("e", "long"), .at("le", 0, "long"), .at("ye", "k", "long")]
        let text = Payload.text(String(repeating: "x", count: 1_000))
        let growing = [.addColumn("E", "long", .string)] + places.map { Step.update($0, text) }
        let erasing = [Step.eraseColumn("E", "long")]
        let grown = try Self.apply(growing, to: graph).get()
        #expect(try #require(Self.sizes(of: grown).first).counted > size + 3_000)
        var erased = try Self.apply(erasing, to: grown).get()
        if let inlineBytesMax {
            let steps = [ApplyTests.schema + ApplyTests.object, growing, erasing]
            erased = try ObjectGraph(rows: Self.rows(of: steps, inlineBytesMax: inlineBytesMax))
        }
        let growth = Step.update(.at("ym", "new"), .text("some text"))
        let after = try Self.apply([growth], to: erased, objectBytesMax: size + 100).get()
        #expect(Self.sizes(of: after).allSatisfy { $0.kept == $0.counted && $0.kept <= size + 100 })
        #expect(throws: ApplyError.self) { try Self.apply([growth], to: grown, objectBytesMax: size + 100).get() }
    }

    /// Its row says how many columns had been erased when it lost what they held, and the schema's how many have been
    /// since, those of erased classes as well.
    @Test func whatAnErasedColumnHeldGoesAlsoBehindTheErasureOfAClass() throws {
        let size = try #require(Self.sizes(of: try Self.graph()).first).counted
        let long = Step.update(.at("e", "long"), .text(String(repeating: "x", count: 1_000)))
        let rows = try Self.rows(of: [
            ApplyTests.schema + ApplyTests.object + [.addColumn("E", "long", .string), .addColumn("B", "f")],
            [.eraseColumn("B", "f")], [long], [.eraseTable("B")], [.eraseColumn("E", "long")],
        ])
        let growth = Step.update(.at("ym", "new"), .text("some text"))
        #expect(throws: Never.self) {
            try Self.apply([growth], to: try ObjectGraph(rows: rows), objectBytesMax: size + 100).get()
        }
    }

    /// The rows of a state, each of whose changesets was stored, and what it changed read anew.
    private static func rows(of changesets: [[Step]], inlineBytesMax: Int = 2_048) throws -> MemoryRows {
        var rows = MemoryRows()
        for steps in changesets {
            var graph = try ObjectGraph(rows: rows)
            graph.partLimits.inlineBytesMax = inlineBytesMax
            let changes = try graph.apply(changeset(steps))
            rows.write(try graph.rowWrites(of: changes))
        }
        return rows
    }

    /// Taking out what erased columns held takes time in proportion to the embedded objects: it counts as reading them,
    /// once for each object and change of the schema.
    @Test func objectsAreReadAgainAfterAnErasureAndOnlyThen() throws {
        let both = [ObjectName(key: 1), ObjectName(key: 2)]
        func fields(_ name: String, _ path: [FieldPath.Element] = []) -> [FieldPath] {
            both.map { FieldPath(object: $0, field: name, path: path) }
        }
        let text = Payload.text(String(repeating: "x", count: 10_000))
        let start: [Step] = [.createObject(both[1]), .update(fields("e")[1], .objectValue)]
        let long = [.addColumn("E", "long", .string)] + fields("e", ["long"]).map { Step.update($0, text) }
        let graph = try Self.apply(start + long, to: try Self.graph()).get()
        let erasure: [Step] = [.addColumn("A", "erased"), .eraseColumn("A", "erased")]
        let uses = fields("i").map { Step.addInteger($0, 1) }
        func outcome(_ steps: [Step]) throws -> ApplyError.Code? {
            switch try Self.apply(steps, to: graph, loadedBytesMax: 50_000) {
            case .success: nil
            case .failure(let error): error.code
            }
        }
        #expect(try outcome(erasure + (0..<500).flatMap { _ in uses }) == nil)
        #expect(try outcome((0..<2).flatMap { _ in erasure + uses }) == nil)
        #expect(try outcome((0..<3).flatMap { _ in erasure + uses }) == .loadsTooMuch)
    }

    @Test func aTransactionGoesOnBehindAnActionThatWasTooLarge() throws {
        var graph = try Self.graph()
        let size = try #require(Self.sizes(of: graph).first).counted
        let written = try graph.write(as: 1, objectBytesMax: size + 20) { tx in
            let object = try #require(try tx.object("A", key: 1))
            let list = try object.list("lm")
            #expect(throws: ApplyError.self) { try list.append(.text("twenty bytes and more")) }
            try list.append(.text("short"))
            return try list.count
        }
        #expect(written.result == 3)
        #expect(graph.objects[0][0].size == size + 13)
    }
}
