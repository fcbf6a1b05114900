import AnabranchTesting
import Testing

@testable import AnabranchCore

/// A bootstrap generation makes its state out of nothing (`Spec/BoundedHistory.md`, section 1).
@Suite struct BootstrapChangesetsTests {
    // MARK: Contents

    /// Names in no order; initial values, nulls and links to objects that do not exist; an object of an asymmetric
    /// class.
    private static let state: [Step] = [
        .addTable("X", .topLevelAsymmetric), .addTable("E", .embedded),
        .addTable("B", key: "_id", .string, nullable: true), .addTable("A"), .addColumn("E", "x"),
        .addColumn("A", "z", .null, nullable: true), .addColumn("A", "y", .link, .dictionary, target: "E"),
        .addColumn("A", "s", .null, nullable: true, .set), .addColumn("A", "n", nullable: true),
        .addColumn("A", "le", .link, .list, target: "E"), .addColumn("A", "l", .link, .list, target: "B"),
        .addColumn("A", "i"), .addColumn("A", "f", .link, target: "E"), .addColumn("A", "e", .link, target: "E"),
        .addColumn("A", "b", .link, target: "B"), .createObject(ObjectName(className: "X")), .createObject(),
        .createObject(ObjectName(className: "B", key: "b")),
    ]

    private static let contents: [Step] = [
        .update(.at("b"), .link(className: Array("B".utf8), key: .null)), .update(.at("e"), .objectValue),
        .update(.at("e", "x"), .int(5)), .update(.at("i"), .int(0)),
        .insert(.at("l", 0), .link(className: Array("B".utf8), key: "none"), size: 0),
        .insert(.at("l", 1), .link(className: Array("B".utf8), key: "b"), size: 1),
        .insert(.at("le", 0), .objectValue, size: 0), .update(.at("le", 0, "x"), .int(0)),
        .update(.at("n"), .null), .setInsert(.at("s"), .int(1)), .setInsert(.at("s"), .link("A", 7)),
        .setInsert(.at("s"), .link(className: Array("B".utf8), key: "b")), .update(.at("y", "k"), .objectValue),
        .update(.at("y", "k", "x"), .int(0)), .update(.at("y", "m"), .null), .update(.at("z"), .list),
        .insert(.at("z", 0), .dictionary, size: 0), .update(.at("z", 0, "k"), .int(1)),
    ]

    @Test func everythingIsSaidInTheOrderOfNames() throws {
        var graph = ObjectGraph()
        try graph.apply(changeset(Self.state))
        try graph.apply(changeset(Self.contents))
        let expected: [Step] = [
            .addTable("A"), .addTable("B", key: "_id", .string, nullable: true), .addTable("E", .embedded),
            .addTable("X", .topLevelAsymmetric), .addColumn("A", "b", .link, nullable: true, target: "B"),
            .addColumn("A", "e", .link, nullable: true, target: "E"),
            .addColumn("A", "f", .link, nullable: true, target: "E"), .addColumn("A", "i"),
            .addColumn("A", "l", .link, .list, target: "B"), .addColumn("A", "le", .link, .list, target: "E"),
            .addColumn("A", "n", nullable: true), .addColumn("A", "s", .null, nullable: true, .set),
            .addColumn("A", "y", .link, nullable: true, .dictionary, target: "E"),
            .addColumn("A", "z", .null, nullable: true), .addColumn("E", "x"), .createObject(),
        ]
        let generation = try graph.generation()
        #expect(generation.count == 1)
        let last = Step.createObject(ObjectName(className: "B", key: "b"))
        #expect(try lines(generation[0]) == lines(changeset(expected + Self.contents + [last])))
    }

    @Test func aStateWithoutClassesHasNone() throws {
        #expect(try ObjectGraph().generation().isEmpty)
        #expect(try ObjectGraph(rows: MemoryRows()).generation().isEmpty)
    }

    // MARK: The same state

    /// Also after everything was cut apart, and out of rows with small parts.
    @Test func theStatesOfTheReferenceAreMadeAgain() throws {
        let limits = PartLimits(inlineBytesMax: 16, leafBytesMax: 32, objectBytesMax: 256)
        for vector in VectorFiles.convergedScenarios {
            let hint = Comment(rawValue: vector.name)
            var pair = MemoryAndRows(limits)
            for entry in vector.server_log { try pair.change { try $0.apply(Hex.bytes(entry.hex)) } }
            try pair.change { try $0.eraseAsymmetricObjects() }
            let whole = try pair.memory.generation(), pieces = try pair.memory.generation(endingAt: 1)
            try expectSame(ObjectGraph(applying: whole), pair.memory, hint)
            try expectSame(ObjectGraph(applying: pieces), pair.memory, hint)
            #expect(try pair.stored.generation() == whole, hint)
        }
    }

    @Test func randomStatesAreMadeAgain() throws {
        var danglingCount = 0
        for seed in Seeds.upTo(150) {
            let hint = Comment(rawValue: Seeds.repeatCommand("randomStatesAreMadeAgain", seed: seed))
            var random = SeededRandom(seed: seed)
            let pair = try Self.randomPair(&random)
            danglingCount += try pair.memory.danglingCount
            let bytes = random.pick([1, 30, 300, 3_000])
            let generation = try pair.memory.generation(endingAt: bytes)
            #expect(try pair.stored.generation(endingAt: bytes) == generation, hint)
            try expectSame(ObjectGraph(applying: generation), pair.memory, hint)
        }
        #expect(danglingCount > 0)
    }

    /// Classes and columns have other numbers, and links in sets stand in another order.
    @Test func equalStatesHaveEqualBytesWhateverTheirHistory() throws {
        for seed in Seeds.upTo(60) {
            let hint = Comment(rawValue: Seeds.repeatCommand("equalStatesHaveEqualBytes", seed: seed))
            var random = SeededRandom(seed: seed)
            let graph = try Self.randomPair(&random).memory
            let pieces = try graph.generation(endingAt: 1)
            let classEnd = graph.classes.count
            let columnEnd = classEnd + graph.classes.reduce(0) { $0 + $1.properties.count }
            let other: [[UInt8]] =
                pieces[..<classEnd].reversed() + pieces[classEnd..<columnEnd].reversed() + pieces[columnEnd...]
            let first = try ObjectGraph(applying: pieces), second = try ObjectGraph(applying: other)
            #expect(first.classes.map(\.name) == second.classes.map(\.name).reversed())
            #expect(try first.generation() == second.generation(), hint)
        }
    }

    // MARK: Cuts

    /// From one instruction a changeset to all of them in one.
    @Test func aChangesetMayEndAfterEachInstruction() throws {
        var graph = try ApplyTests.graph()
        try graph.apply(changeset([.setInsert(.at("sm"), .link("A", 9)), .update(.at("a"), .link("A", 9))]))
        try graph.apply(changeset(.createObject(ObjectName(className: "B", key: "text"))))
        let whole = try graph.generation(endingAt: .max)
        try #require(whole.count == 1)
        let expected = try lines(whole[0])
        let pieces = try graph.generation(endingAt: 1)
        #expect(pieces.count == expected.count)
        let longest = pieces.map(\.count).max() ?? 0
        for bytes in 1...whole[0].count + 1 {
            let generation = try graph.generation(endingAt: bytes)
            #expect(generation.dropLast().allSatisfy { bytes..<bytes + longest ~= $0.count }, "\(bytes) bytes")
            #expect(try generation.flatMap { try lines($0) } == expected, "\(bytes) bytes")
            try expectSame(ObjectGraph(applying: generation), graph, "\(bytes) bytes")
        }
    }

    @Test func aLongValueIsNotDivided() throws {
        // The longest that a field can hold.
        let value = Payload.binary(Array(repeating: 7, count: 16_777_200))
        var pair = MemoryAndRows(PartLimits())
        try pair.change {
            try $0.apply(
                changeset(
                    .addTable("A"), .addColumn("A", "b", .binary), .addColumn("A", "c", .binary, .list),
                    .addColumn("A", "i"), .createObject(), .update(.at("b"), value),
                    .insert(.at("c", 0), value, size: 0)))
        }
        let generation = try pair.stored.generation()
        #expect(generation.map { $0.count > 16_777_200 } == [true, true, false])
        #expect(try StateDigest(of: ObjectGraph(applying: generation)) == StateDigest(of: pair.memory))
    }

    // MARK: Reading

    /// A state with a long text, list, set and dictionary.
    private static func longRows() throws -> MemoryRows {
        var pair = MemoryAndRows(PartLimits())
        try pair.change { graph in
            try graph.write(as: 2) { transaction in
                try transaction.addClass("A", key: "_id", .int)
                try transaction.addColumn("text", .string, to: "A")
                try transaction.addColumn("list", .string, collection: .list, to: "A")
                try transaction.addColumn("set", .int, collection: .set, to: "A")
                try transaction.addColumn("entries", .null, collection: .dictionary, to: "A")
                for key: Int64 in 0..<200 { try transaction.create("A", key: .int(key)) }
                let object = try transaction.create("A", key: 7)
                object["text"] = .string(Array(repeating: 97, count: 100_000))
                for number in 0..<5_000 {
                    try object.list("list").append(.string(Array("element \(number)".utf8)))
                    try object.set("set").insert(.int(Int64(number)))
                    try object.dictionary("entries").set(.int(Int64(number)), for: "key \(number)")
                }
            }.changes
        }
        return pair.rows
    }

    @Test func littleIsReadForAChangesetAndNothingTwice() throws {
        let rows = try Self.longRows()
        let graph = try ObjectGraph(rows: rows)
        var generation = BootstrapChangesets(of: graph, endingAt: 1)
        rows.readCount = 0
        var (before, most) = (0, 0)
        while try generation.next() != nil {
            most = max(most, rows.readCount - before)
            before = rows.readCount
        }
        // Of a tree, the nodes from the root to the first leaf.
        #expect(1...4 ~= most)
        #expect(rows.readCount == rows.rows.keys.count { $0.part > 0 })
        #expect(graph.loadedCount == 0 && graph.readBytes == 0)
    }

    @Test func whatCannotBeReadIsNotLeftOut() throws {
        let whole = try Self.longRows()
        for address in whole.rows.keys where address.part > 0 && address.part.isMultiple(of: 7) {
            var rows = whole
            rows.damage(address, nil)
            var generation = BootstrapChangesets(of: try ObjectGraph(rows: rows), endingAt: 1_000)
            var count = 0
            let error = try #require(throws: ApplyError.self) { while try generation.next() != nil { count += 1 } }
            #expect(error.code == .unavailable && count > 0)
            #expect(throws: error) { try generation.next() }
        }
    }
}

// MARK: Support

extension BootstrapChangesetsTests {
    /// One state in memory and in rows.
    fileprivate struct MemoryAndRows {
        private(set) var memory = ObjectGraph()
        private(set) var rows = MemoryRows()
        private let limits: PartLimits

        init(_ limits: PartLimits) { self.limits = limits }

        /// With nothing in memory.
        var stored: ObjectGraph {
            get throws {
                var graph = try ObjectGraph(rows: rows)
                graph.partLimits = limits
                return graph
            }
        }

        mutating func change(_ body: (inout ObjectGraph) throws -> StateChanges) throws {
            _ = try body(&memory)
            var stored = try stored
            let changes = try body(&stored)
            rows.write(try stored.rowWrites(of: changes))
        }
    }

    /// A random state, some of whose links lead to objects that were erased.
    fileprivate static func randomPair(_ random: inout SeededRandom) throws -> MemoryAndRows {
        var pair = MemoryAndRows(
            PartLimits(
                inlineBytesMax: random.pick([0, 8, 64, 2_048]), leafBytesMax: random.pick([1, 16, 64]),
                objectBytesMax: random.pick([32, 256, 16_384])))
        let world = RandomWorld(&random)
        try pair.change { graph in try graph.write(as: 2) { try RandomWorld.begin($0) }.changes }
        for _ in 0..<random.below(150) + 10 {
            let seed = random.next()
            try pair.change { graph in
                // Not every random edit is possible; one that is not changes nothing.
                do { return try graph.write(as: 2) { try world.edit($0, seed: seed) }.changes } catch is ApplyError {
                    return StateChanges()
                }
            }
        }
        var erased: [Step] = []
        for schema in pair.memory.classes where schema.kind == .topLevel {
            try pair.memory.forEachObject(of: schema.number) { object in
                guard random.isOne(in: 3), let key = object.key else { return }
                let className = String(decoding: schema.name, as: UTF8.self)
                erased.append(.eraseObject(ObjectName(className: className, key: key)))
            }
        }
        if !erased.isEmpty { try pair.change { try $0.apply(changeset(erased)) } }
        try pair.change { try $0.eraseAsymmetricObjects() }
        return pair
    }

    /// Expects that two states are the same, links to objects that do not exist included, and also classes and columns
    /// that nobody uses. A zero may have the other sign (`Spec/State.md`, B5).
    fileprivate func expectSame(
        _ made: ObjectGraph, _ graph: ObjectGraph, _ hint: Comment? = nil,
        _ sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        #expect(made.declarations == graph.declarations, hint, sourceLocation: sourceLocation)
        #expect(try StateDigest(of: made) == StateDigest(of: graph), hint, sourceLocation: sourceLocation)
        #expect(try made.textOfValues == graph.textOfValues, hint, sourceLocation: sourceLocation)
    }

    fileprivate func lines(_ changeset: [UInt8]) throws -> [String] { try Replay.decode(changeset).lines(of: 0) }
}

extension ObjectGraph {
    /// The changesets of its bootstrap generation.
    fileprivate func generation(endingAt bytes: Int = BootstrapChangesets.usualBytes) throws -> [[UInt8]] {
        var generation = BootstrapChangesets(of: self, endingAt: bytes)
        var changesets: [[UInt8]] = []
        while let changeset = try generation.next() { changesets.append(changeset) }
        #expect(try generation.next() == nil)
        return changesets
    }

    fileprivate init(applying changesets: [[UInt8]]) throws {
        self.init()
        for changeset in changesets { try apply(changeset) }
    }

    /// Every class and column, whatever their order.
    fileprivate var declarations: Set<String> {
        var declarations: Set<String> = []
        for schema in classes {
            let name = String(decoding: schema.name, as: UTF8.self)
            declarations.insert("\(name) \(schema.kind)")
            for property in schema.properties + [schema.key].compactMap({ $0 }) {
                let target = property.target.map { String(decoding: self.schema[$0].name, as: UTF8.self) } ?? ""
                declarations.insert(
                    "\(name).\(String(decoding: property.name, as: UTF8.self)) \(property.isKey) \(property.type) "
                        + "\(property.isNullable) \(property.collection) \(target) \(property.isEmbedded)")
            }
        }
        return declarations
    }

    fileprivate var textOfValues: String {
        get throws {
            try json.replacing(#"{"float":"80000000"}"#, with: #"{"float":"0"}"#)
                .replacing(#"{"double":"8000000000000000"}"#, with: #"{"double":"0"}"#)
        }
    }

    /// How many links to objects that do not exist there are.
    fileprivate var danglingCount: Int {
        get throws {
            var count = 0
            for number in schema.present where schema[number].kind == .topLevel {
                try forEachObject(of: number) { _, fields throws(ApplyError) in
                    for content in fields.contents {
                        try content.forEachLink { if containsInMemory($0) == false { count += 1 } }
                    }
                }
            }
            return count
        }
    }
}
