import AnabranchTesting
import Foundation
import Testing

@testable import AnabranchCore

/// Released clients end when they write a link into a list of Mixed over one whose target they lack: the form that they
/// get never does, and merges as the entry itself (`Spec/Protocol.md`, section 6.1).
@Suite struct DanglingLinkTests {
    private static let released = ClientCapabilities(overwritesDanglingLinks: false)

    /// Where a list of Mixed is, and what stands around it.
    struct Place: CustomTestStringConvertible, Sendable {
        var path: [FieldPath.Element]
        var field: String
        /// The instructions that make the list.
        var start: [NamedInstruction] = []
        var isEmbedded = false

        var testDescription: String { "\(field) \(path)" }

        func at(_ index: UInt32) -> FieldPath { FieldPath(field: field, path: path + [.index(index)]) }
        var list: FieldPath { FieldPath(field: field, path: path) }

        static let all = [
            Place(path: [], field: "l"),
            Place(
                path: [.name("k")], field: "m",
                start: [
                    .update(.at("m"), .dictionary), .update(.at("m", "k"), .list),
                ]),
            Place(path: [.index(0)], field: "l", start: [.insert(.at("l", 0), .list, size: 0)]),
        ]

        /// A list of two elements, one of which is a link, and two objects to link to.
        func graph() throws -> ObjectGraph {
            var graph = ObjectGraph()
            let schema: [NamedInstruction] = [
                .addTable("A"), .addTable("B"), .addColumn("A", "l", .null, nullable: true, .list),
                .addColumn("A", "m", .null, nullable: true), .createObject(),
                .createObject(ObjectName(className: "B", key: .int(1))),
                .createObject(ObjectName(className: "B", key: .int(2))),
            ]
            let elements: [NamedInstruction] = [
                .insert(at(0), .link("B", 1), size: 0), .insert(at(1), 7, size: 1),
            ]
            try graph.apply(changeset(schema + start + elements))
            return graph
        }

        var options: [NamedInstruction] {
            [
                .update(at(0), .link("B", 1), size: 2), .update(at(0), .link("B", 2), size: 2),
                .update(at(0), .null, size: 2), .update(at(1), .link("B", 2), size: 2), .update(at(0), 5, size: 2),
                .update(at(0), .list, size: 2),
                .insert(at(0), .link("B", 2), size: 2), .insert(at(1), 3, size: 2), .erase(at(0), size: 2),
                .erase(at(1), size: 2), .move(at(0), to: 1, size: 2), .clear(list), .addInteger(at(1), 1),
                .eraseObject(ObjectName(className: "B", key: .int(1))),
                .createObject(ObjectName(className: "B", key: .int(1))), .eraseObject(), .createObject(),
            ]
        }
    }

    /// All programs of one or two of the instructions that can be applied.
    private struct Program {
        var instructions: [NamedInstruction]
        var bytes: [UInt8]
        var after: ObjectGraph

        static func all(of options: [NamedInstruction], on start: ObjectGraph) -> [Program] {
            let lists = options.map { [$0] } + options.flatMap { first in options.map { [first, $0] } }
            return lists.compactMap { instructions in
                var after = start
                let bytes = ChangesetWriter(instructions).bytes
                guard (try? after.apply(bytes)) != nil else { return nil }
                return Program(instructions: instructions, bytes: bytes, after: after)
            }
        }
    }

    /// The state of a reader with changes of its own after an entry, and how it then sees its own changes.
    private struct Merged: Equatable {
        var state: StateDigest
        var own: [UInt8]
    }

    private static func merged(
        _ entry: Program, _ own: Program, _ isEntryOlder: Bool, as capabilities: ClientCapabilities
    ) throws -> Merged? {
        var arena = ChangesetArena(), bytes = entry.bytes
        if capabilities != .all {
            let original = try arena.decode(bytes, version: 1, tag: OriginTag(timestamp: 1, ident: 2))
            let form = ChangesetAdapter(for: capabilities, with: entry.after)
                .form(of: original, in: &arena, isErased: { _, _ in false })
            guard case .changed(let changed) = form else { return nil }
            bytes = changed
        }
        let local = try arena.decode(own.bytes, version: 2, tag: OriginTag(timestamp: 5, ident: 3))
        let tag = OriginTag(timestamp: isEntryOlder ? 4 : 6, ident: 2)
        let incoming = try arena.decode(bytes, version: 3, tag: tag)
        try arena.merge(local: [local], incoming: [incoming])
        if capabilities != .all { try requireFalseBeforeLinks(incoming, in: arena) }
        var state = own.after
        // As a released client does it, which ends where it cannot.
        _ = try state.applyTransactions(
            [incoming], of: &arena, refusing: capabilities == .all ? [] : .danglingOverwrites, skipping: { _ in false })
        return Merged(state: try StateDigest(of: state), own: arena.encodedAnew(local))
    }

    private struct Bare: Error {}

    /// Whatever the merge has made of it, no link or null is written over an element that was not made false before.
    private static func requireFalseBeforeLinks(_ changeset: ChangesetIndex, in arena: ChangesetArena) throws {
        var before: Instruction?
        for instruction in arena.instructions(of: changeset) {
            defer { before = instruction }
            guard instruction.kind == .update, instruction.type == .link || instruction.type == .null,
                arena.path(of: instruction).contains(where: { $0.isIndex })
            else { continue }
            guard let before, before.kind == .update, before.type == .bool,
                Array(arena.path(of: before)) == Array(arena.path(of: instruction))
            else { throw Bare() }
        }
    }

    @Test(arguments: Place.all) func bothFormsMergeAndApplyAlike(_ place: Place) throws {
        let graph = try place.graph(), programs = Program.all(of: place.options, on: graph)
        var pairs = 0, failures = 0
        for entry in programs {
            for own in programs {
                for isEntryOlder in [true, false] {
                    // Some pairs cannot be merged or applied at all (`Spec/Transform.md`, section 10).
                    guard let plain = try? Self.merged(entry, own, isEntryOlder, as: .all) else { continue }
                    do {
                        guard let form = try Self.merged(entry, own, isEntryOlder, as: Self.released) else { continue }
                        pairs += 1
                        if form == plain { continue }
                    } catch {}
                    failures += 1
                    if failures < 4 {
                        Issue.record("entry \(entry.instructions), own \(own.instructions), \(isEntryOlder)")
                    }
                }
            }
        }
        #expect(failures == 0 && pairs > 10_000)
    }

    // MARK: The model of a released client

    private typealias Option = (instruction: NamedInstruction, sizeAfter: UInt32)

    /// All that can be done, one after the other, to a list of so many elements and to what it links to.
    private static func options(_ place: Place, size: UInt32) -> [Option] {
        let one = ObjectName(className: "B", key: .int(1)), two = ObjectName(className: "B", key: .int(2))
        var options: [Option] = [
            (.insert(place.at(0), .link("B", 2), size: size), size + 1), (.clear(place.list), 0),
            (.eraseObject(one), size), (.createObject(one), size), (.eraseObject(two), size),
        ]
        for index in 0..<min(size, 2) {
            let values: [Payload] = [.link("B", 1), .link("B", 2), .null, 5]
            options += values.map { (.update(place.at(index), $0, size: size), size) }
            options.append((.erase(place.at(index), size: size), size - 1))
        }
        if size > 1 { options.append((.move(place.at(0), to: size - 1, size: size), size)) }
        return options
    }

    /// The states that entries lead to, as the log has them and as a released client takes them.
    private struct Walk {
        var graph: ObjectGraph
        var released: ObjectGraph
        var size: UInt32
        var steps: [NamedInstruction] = []
    }

    /// - Returns: nil if the instruction cannot be applied at all.
    private static func advance(_ walk: Walk, by option: Option) throws -> Walk? {
        var next = walk, arena = ChangesetArena()
        let bytes = ChangesetWriter([option.instruction]).bytes
        guard (try? next.graph.apply(bytes)) != nil else { return nil }
        next.size = option.sizeAfter
        next.steps.append(option.instruction)
        let tag = OriginTag(timestamp: 1, ident: 2)
        var entry = try arena.decode(bytes, version: 1, tag: tag)
        let form = ChangesetAdapter(for: released, with: next.graph).form(of: entry, in: &arena) { _, _ in false }
        if case .changed(let changed) = form { entry = try arena.decode(changed, version: 2, tag: tag) }
        _ = try next.released.applyTransactions([entry], of: &arena, refusing: .danglingOverwrites) { _ in false }
        return next
    }

    /// Deeper: `ANABRANCH_DEPTH=4 swift test --filter noEntryEndsAReleasedClient`.
    @Test(arguments: Place.all) func noEntryEndsAReleasedClient(_ place: Place) throws {
        let depth = ProcessInfo.processInfo.environment["ANABRANCH_DEPTH"].flatMap { Int($0) } ?? 3
        let start = try place.graph()
        var walks = [Walk(graph: start, released: start, size: 2)], count = 0
        for _ in 0..<depth {
            var next: [Walk] = []
            for walk in walks {
                for option in Self.options(place, size: walk.size) {
                    do {
                        guard let walk = try Self.advance(walk, by: option) else { continue }
                        next.append(walk)
                        count += 1
                        let digests = try (StateDigest(of: walk.graph), StateDigest(of: walk.released))
                        #expect(digests.0 == digests.1, "\(walk.steps)")
                    } catch {
                        Issue.record("\(walk.steps) \(option.instruction): \(error)")
                    }
                }
            }
            walks = next
        }
        #expect(count > 2_000)
    }

    /// What is tried above is what ends released clients: without the form that they get, the model ends, or keeps what
    /// was overwritten.
    @Test(arguments: Place.all) func theModelEndsWithoutTheForm(_ place: Place) throws {
        for (value, ends) in [(Payload.link("B", 2), true), (.null, false)] {
            var graph = try place.graph(), arena = ChangesetArena()
            try graph.apply(changeset([.eraseObject(ObjectName(className: "B", key: .int(1)))]))
            let bytes = ChangesetWriter([.update(place.at(0), value, size: 2)]).bytes
            let entry = try arena.decode(bytes, version: 1, tag: OriginTag(timestamp: 1, ident: 2))
            let before = try StateDigest(of: graph)
            let made = try? graph.applyTransactions([entry], of: &arena, refusing: .danglingOverwrites) { _ in false }
            #expect((made == nil) == ends)
            #expect(try StateDigest(of: graph) == before)
        }
    }

    // MARK: What is sent

    private static func texts(_ instructions: [NamedInstruction], isErased: Bool = false) throws -> [String] {
        var graph = ObjectGraph(), arena = ChangesetArena()
        try graph.apply(
            changeset([
                .addTable("A"), .addTable("B"), .addTable("E", .embedded), .addColumn("E", "x", .null, nullable: true),
                .addColumn("A", "l", .null, nullable: true, .list), .addColumn("A", "m", .null, nullable: true),
                .addColumn("A", "es", .link, .list, target: "E"), .addColumn("A", "links", .link, .list, target: "B"),
                .addColumn("A", "d", .null, nullable: true, .dictionary),
            ]))
        let index = try arena.decode(
            ChangesetWriter(instructions).bytes, version: 1, tag: OriginTag(timestamp: 1, ident: 2))
        let form = ChangesetAdapter(for: released, with: graph).form(of: index, in: &arena) { _, _ in isErased }
        #expect((form == .unchanged) == (arena.instructions(of: index).count == instructions.count))
        return arena.instructions(of: index).map { arena.text(of: $0) }
    }

    @Test func whereverALinkMayDangleInAListItGetsFalseFirst() throws {
        let link = Payload.link("B", 1)
        for path in [FieldPath.at("l", 3), .at("m", "k", 1), .at("es", 2, "x")] {
            for value in [link, .null] {
                let texts = try Self.texts([.update(path, value)])
                try #require(texts.count == 2)
                #expect(texts[0].contains("= Bool false"))
                #expect(texts[0].prefix { $0 != "=" } == texts[1].prefix { $0 != "=" })
            }
            #expect(try Self.texts([.update(path, 5)]).count == 1)
            #expect(try Self.texts([.update(path, link)], isErased: true).isEmpty)
        }
        for path in [FieldPath.at("m"), .at("d", "k"), .at("links", 0)] {
            #expect(try Self.texts([.update(path, link)]).count == 1)
        }
        #expect(try Self.texts([.insert(.at("l", 0), link, size: 0)]).count == 1)
    }

    /// Most schemas have no such lists: their entries are not even looked at.
    @Test func aSchemaWithoutMixedNeedsNothing() throws {
        var graph = ObjectGraph()
        try graph.apply(changeset([.addTable("A"), .addColumn("A", "links", .link, .list, target: "A")]))
        #expect(!ChangesetAdapter(for: Self.released, with: graph).isNeeded)
        try graph.apply(changeset([.addColumn("A", "m", .null, nullable: true)]))
        #expect(ChangesetAdapter(for: Self.released, with: graph).isNeeded)
        #expect(!ChangesetAdapter(for: .all, with: graph).isNeeded)
    }
}
