import AnabranchTesting
import Testing

@testable import AnabranchCore

/// The form of changesets for clients of older releases (`Spec/Protocol.md`, section 6.1).
@Suite struct ChangesetAdapterTests {
    private static let old = ClientCapabilities(erasesAbsentEntries: false)
    private static let noErasures: @Sendable ([UInt8], [ColumnName]) -> Bool = { _, _ in false }

    // MARK: Both forms are the same

    /// A dictionary d of A[1], and what its values can be.
    private struct Kind: CustomTestStringConvertible {
        var column: NamedInstruction
        /// The values that can be written under a key.
        var values: [Payload]
        /// Below a key.
        var inner: [NamedInstruction] = []

        var testDescription: String { "\(column)" }

        static let all: [Kind] =
            [
                1, .bool(true), "a", .binary([1]), .timestamp(Timestamp(seconds: 1, nanoseconds: 1)), .float(1),
                .double(1), .decimal(.zero), .objectID(ObjectID(low: 1, high: 1)), .uuid(UUIDBytes(low: 1, high: 1)),
            ].map { (value: Payload) in
                Kind(column: .addColumn("A", "d", value.type, .dictionary), values: [value])
            }
            + [
                Kind(column: .addColumn("A", "d", .int, nullable: true, .dictionary), values: [1, .null]),
                Kind(
                    column: .addColumn("A", "d", .link, nullable: true, .dictionary, target: "B"),
                    values: [.link("B", 1), .null]),
                Kind(
                    column: .addColumn("A", "d", .link, nullable: true, .dictionary, target: "E"),
                    values: [.objectValue, .null], inner: [.update(.at("d", "a", "x"), 1)]),
                Kind(
                    column: .addColumn("A", "d", .null, nullable: true, .dictionary),
                    values: [1, .list, .dictionary],
                    inner: [
                        .update(.at("d", "a", "k"), 1), .update(.at("d", "a", "k"), .erased),
                        .insert(.at("d", "a", 0), 1, size: 0), .clear(.at("d", "a"), .dictionary),
                    ]),
            ]

        func start(_ entries: [NamedInstruction]) throws -> ObjectGraph {
            var graph = ObjectGraph()
            let schema: [NamedInstruction] = [
                .addTable("A"), .addTable("B"), .addTable("E", .embedded), .addColumn("E", "x"), column,
                .createObject(),
            ]
            try graph.apply(changeset(schema + entries))
            return graph
        }

        var starts: [[NamedInstruction]] {
            let last = values.count - 1
            return [[]] + (0...last).map { [.update(.at("d", "a"), values[$0])] } + [
                [.update(.at("d", "a"), values[0]), .update(.at("d", "b"), values[last])]
            ]
        }

        var options: [NamedInstruction] {
            values.map { .update(.at("d", "a"), $0) } + inner + [
                .update(.at("d", "a"), .erased), .update(.at("d", "b"), .erased), .clear(.at("d"), .dictionary),
                .eraseObject(), .createObject(),
            ]
        }
    }

    /// Of a changeset: its instructions, and the state after them.
    private struct Program {
        var instructions: [NamedInstruction]
        var bytes: [UInt8]
        var after: ObjectGraph

        /// All programs of one or two of the instructions that can be applied.
        static func all(of options: [NamedInstruction], on start: ObjectGraph) -> [Program] {
            let lists = options.map { [$0] } + options.flatMap { first in options.map { [first, $0] } }
            return lists.compactMap { instructions in
                var after = start
                let bytes = ChangesetWriter(instructions).bytes
                guard (try? after.apply(bytes)) != nil else { return nil }
                return Program(instructions: instructions, bytes: bytes, after: after)
            }
        }

        var erasesEntries: Bool {
            instructions.contains { if case .update(_, .erased, _, _) = $0 { true } else { false } }
        }
    }

    /// A reader merges both forms of an entry with its own changes alike, is left with the same state, and with the
    /// form for old releases it never has to erase an entry that is not there.
    @Test(arguments: Kind.all) private func bothFormsMergeAndApplyAlike(_ kind: Kind) throws {
        var pairs = 0, failures = 0
        for start in kind.starts {
            let graph = try kind.start(start)
            let programs = Program.all(of: kind.options, on: graph)
            for entry in programs where entry.erasesEntries {
                for own in programs {
                    for isEntryOlder in [true, false] {
                        // Some pairs cannot be applied at all (`Spec/Transform.md`, section 10).
                        guard let first = try? Self.integrated(entry, own, isEntryOlder, as: .all) else { continue }
                        pairs += 1
                        let second = try? Self.integrated(entry, own, isEntryOlder, as: Self.old)
                        guard first.state != second?.state || first.own != second?.own else { continue }
                        failures += 1
                        guard failures < 4 else { continue }
                        Issue.record("\(start); entry \(entry.instructions), own \(own.instructions)")
                    }
                }
            }
        }
        #expect(failures == 0)
        #expect(pairs > 200)
    }

    /// The state of a reader with its own changes after an entry, and how it then sees its own changes.
    private static func integrated(
        _ entry: Program, _ own: Program, _ isEntryOlder: Bool, as capabilities: ClientCapabilities
    ) throws -> (state: StateDigest, own: [UInt8]) {
        var arena = ChangesetArena()
        var bytes = entry.bytes
        let original = try arena.decode(bytes, version: 1, tag: OriginTag(timestamp: 1, ident: 2))
        if capabilities != .all {
            let form = ChangesetAdapter(for: capabilities, with: entry.after)
                .form(of: original, in: &arena, isErased: noErasures)
            guard case .changed(let changed) = form else { throw Unchanged() }
            bytes = changed
        }
        let local = try arena.decode(own.bytes, version: 2, tag: OriginTag(timestamp: 5, ident: 3))
        let tag = OriginTag(timestamp: isEntryOlder ? 4 : 6, ident: 2)
        let incoming = try arena.decode(bytes, version: 3, tag: tag)
        try arena.merge(local: [local], incoming: [incoming])
        var state = own.after
        _ = try state.applyTransactions(
            [incoming], of: &arena, refusing: capabilities == .all ? [] : .absentErasures, skipping: { _ in false })
        return (try StateDigest(of: state), arena.encodedAnew(local))
    }

    private struct Unchanged: Error {}

    // MARK: What is sent

    private static func form(
        _ instructions: [NamedInstruction], _ capabilities: ClientCapabilities, with state: ObjectGraph,
        isErased: ([UInt8], [ColumnName]) -> Bool = noErasures
    ) throws -> (form: ChangesetAdapter.Form, texts: [String]) {
        var arena = ChangesetArena()
        let index = try arena.decode(
            ChangesetWriter(instructions).bytes, version: 1, tag: OriginTag(timestamp: 1, ident: 2))
        let form = ChangesetAdapter(for: capabilities, with: state).form(of: index, in: &arena, isErased: isErased)
        return (form, arena.instructions(of: index).map { arena.text(of: $0) })
    }

    private static let graph: ObjectGraph = {
        var graph = ObjectGraph()
        let schema: [NamedInstruction] = [
            .addTable("A"), .addTable("E", .embedded), .addColumn("E", "counts", .int, .dictionary),
            .addColumn("A", "list", .link, .list, target: "E"), .addColumn("A", "counts", .int, .dictionary),
            .addColumn("A", "extras", .null, nullable: true, .dictionary),
            .addColumn("A", "mixed", .null, nullable: true), .addColumn("A", "ints", .int, .list),
        ]
        _ = try? graph.apply(changeset(schema))
        return graph
    }()

    @Test func theValueFitsThePlaceWhereverThatIs() throws {
        let erasures: [NamedInstruction] = [
            .update(.at("counts", "a"), .erased), .update(.at("extras", "a"), .erased),
            .update(.at("list", 3, "counts", "b"), .erased), .update(.at("mixed", "a", 1, "c"), .erased),
        ]
        let texts = try Self.form(erasures, Self.old, with: Self.graph).texts
        #expect(
            texts == [
                "Update A[1].counts[\"a\"] = Int 0", "Update A[1].counts[\"a\"] = Erased",
                "Update A[1].extras[\"a\"] = Null", "Update A[1].extras[\"a\"] = Erased",
                "Update A[1].list[3][\"counts\"][\"b\"] = Int 0", "Update A[1].list[3][\"counts\"][\"b\"] = Erased",
                "Update A[1].mixed[\"a\"][1][\"c\"] = Null", "Update A[1].mixed[\"a\"][1][\"c\"] = Erased",
            ])
    }

    @Test func whatNeedsNoOtherFormStaysAsItIs() throws {
        let harmless: [NamedInstruction] = [.update(.at("counts", "a"), 1), .clear(.at("counts"), .dictionary)]
        #expect(try Self.form(harmless, Self.old, with: Self.graph).form == .unchanged)
        let erasure: [NamedInstruction] = [.update(.at("counts", "a"), .erased), .update(.at("mixed"), .list)]
        #expect(try Self.form(erasure, .all, with: Self.graph).form == .unchanged)
    }

    /// The schema says nothing of a column that was erased later, even if there is one of its name.
    @Test func theErasureOfAnEntryGoesWithItsColumn() throws {
        let erasure: [NamedInstruction] = [.update(.at("list", 0, "counts", "a"), .erased), .createObject()]
        var asked: [[String]] = []
        let texts = try Self.form(erasure, Self.old, with: Self.graph) { className, columns in
            asked.append(([className] + columns.map(\.field)).map { String(decoding: $0, as: UTF8.self) })
            return true
        }.texts
        #expect(texts == ["CreateObject A[1]"])
        #expect(asked == [["A", "list", "counts"]])
        let gone: [NamedInstruction] = [.update(.at("gone", "a"), .erased), .createObject()]
        #expect(try Self.form(gone, Self.old, with: Self.graph).texts == ["CreateObject A[1]"])
    }

    @Test func whatAReleaseCannotReadIsNamed() throws {
        let old = ClientCapabilities(readsCollectionsInMixed: false, readsAsymmetricClasses: false)
        let unreadable: [NamedInstruction] = [
            .update(.at("mixed"), .list), .update(.at("mixed"), .dictionary), .update(.at("extras", "a"), .list),
            .insert(.at("mixed", 0), .dictionary, size: 0), .clear(.at("mixed"), .list),
            .clear(.at("extras", "a"), .dictionary), .addTable("X", .topLevelAsymmetric),
        ]
        for instruction in unreadable {
            guard case .unreadable = try Self.form([instruction], old, with: Self.graph).form else {
                Issue.record("\(instruction)")
                continue
            }
            #expect(try Self.form([instruction], .all, with: Self.graph).form == .unchanged)
        }
        let readable: [NamedInstruction] = [
            .update(.at("mixed"), 1), .clear(.at("extras"), .dictionary), .clear(.at("ints")),
            .clear(.at("list", 0, "counts"), .dictionary), .addTable("X"),
        ]
        #expect(try Self.form(readable, old, with: Self.graph).form == .unchanged)
    }
}
