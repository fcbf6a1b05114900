import AnabranchCore
import Testing

@testable import AnabranchTesting

/// The cases in which the reference does not converge (`Spec/Transform.md`, section 10): each really does not, and is
/// recognised.
@Suite struct KnownDivergenceTests {
    typealias Write = @Sendable (WriteTransaction) throws -> Void

    /// The start of both sides, and their steps; the second one's tag is the newer one.
    struct Case: Sendable {
        var divergence: KnownDivergence
        var base: Write = { _ in }
        var older: Write
        var newer: Write
    }

    /// The cases that can be recorded.
    static let cases = [
        Case(
            divergence: .erasedColumn, older: { try $0.eraseColumn("passingList", of: "Task") },
            newer: { try $0.task.list("passingList").append(1) }),
        Case(
            divergence: .erasureWithRawEqual, base: { try $0.task.set("tags").formUnion(["a", "b"]) },
            older: { try $0.task.set("tags").remove("a") }, newer: { try $0.task.set("tags").remove("b") }),
        Case(
            divergence: .moveOutsidePath, base: { for _ in 0..<3 { try $0.task.list("parts").appendObject() } },
            older: { try $0.task.list("parts").move(from: 0, to: 2) },
            newer: { try $0.task.list("parts").object(at: 0).set("x", to: 1) }),
        Case(
            divergence: .clearOfElement, base: { try $0.task.list("values").append(.list) },
            older: { try $0.task.list("values").list(at: 0).removeAll() },
            newer: { try $0.task.list("values").insert(7, at: 0) }),
        Case(
            divergence: .clearOfErasedEntry, base: { try $0.task.dictionary("extras").set(.dictionary, for: "k") },
            older: { try $0.task.dictionary("extras").remove("k") },
            newer: { try $0.task.dictionary("extras").dictionary(for: "k").removeAll() }),
        Case(
            divergence: .collectionMadeTwice,
            base: {
                try $0.task.set("mixed", to: .list)
                try $0.task.list("mixed").append(1)
            },
            older: { try $0.task.set("mixed", to: 5) }, newer: { try $0.task.set("mixed", to: .list) }),
        Case(
            divergence: .collectionMadeTwice,
            older: {
                try $0.task.set("mixed", to: .list)
                try $0.task.list("mixed").append(1)
                try $0.task.set("mixed", to: 5)
            },
            newer: {
                try $0.task.set("mixed", to: .list)
                try $0.task.list("mixed").append(2)
            }),
        Case(
            divergence: .embeddedObjectOfEntry,
            older: { try $0.task.dictionary("partOf").createObject(for: "k").set("x", to: 1) },
            newer: { try $0.task.dictionary("partOf").createObject(for: "k").set("word", to: "a") }),
        Case(
            divergence: .equalNumbersInSet, base: { try $0.task.set("marks").insert(1) },
            older: { try $0.task.set("marks").remove(1.0) },
            newer: {
                try $0.task.set("marks").remove(1)
                try $0.task.set("marks").insert(1)
            }),
        Case(
            divergence: .linkToErasedClass, older: { try $0.eraseClass("Passing") },
            newer: { try $0.task.set("mixed", to: .link(className: Array("Passing".utf8), key: 1)) }),
        Case(
            divergence: .classOnceInMixed,
            older: {
                try $0.task.set("mixed", to: .link(className: Array("Passing".utf8), key: 1))
                try $0.task.set("mixed", to: 5)
            },
            newer: { try $0.eraseClass("Passing") }),
    ]

    @Test(arguments: cases.indices)
    func theSidesDoNotEndInOneState(_ number: Int) throws {
        let example = Self.cases[number]
        let base = try Self.world(example.base)
        let older = try Self.side(base, OriginTag(timestamp: 1, ident: 2), example.older)
        let newer = try Self.side(base, OriginTag(timestamp: 1, ident: 3), example.newer)
        #expect(PairCheck(older, newer).outcome != .converged, "\(example.divergence)")

        var made = AuthoredInstructions()
        #expect(try made.add(older.changeset, by: 0, tag: older.tag, base: 0) == nil)
        var found = try made.add(newer.changeset, by: 1, tag: newer.tag, base: 0)
        // What a place held before, a recorded changeset does not tell.
        if found == nil, example.divergence == .collectionMadeTwice {
            found = KnownDivergence.find(made.list[0], Self.repeated(made.list[made.list.count - 1]), in: made)
        }
        #expect(found == example.divergence)
    }

    /// A state that is downloaded has a value of each column in each embedded object, also of one that nobody has set:
    /// it does not go together with local changes that erase the column.
    @Test func statesHaveValuesOfAColumnThatAnotherErases() throws {
        let base = try Self.world { try $0.task.createObject("part") }
        let erasing = try Self.side(base, OriginTag(timestamp: 1, ident: 2)) {
            try $0.addColumn("passingX", .int, to: "Part")
            try $0.eraseColumn("passingX", of: "Part")
        }
        let adding = try Self.side(base, OriginTag(timestamp: 1, ident: 3)) {
            try $0.addColumn("passingX", .int, to: "Part")
        }
        var made = AuthoredInstructions()
        #expect(try made.add(erasing.changeset, by: 0, tag: erasing.tag, base: 0) == nil)
        #expect(try made.add(adding.changeset, by: 1, tag: adding.tag, base: 0) == .erasedColumn)

        let state = try Self.side(base, OriginTag(timestamp: 1, ident: 3)) {
            try $0.addColumn("passingX", .int, to: "Part")
            try $0.task.object("part")?.set("passingX", to: 0)
        }
        #expect(PairCheck(erasing, state).outcome != .converged)
    }

    @Test func everyKnownDivergenceHasACase() {
        let shown = Set(Self.cases.map(\.divergence) + [.incrementOfElement, .listBesideDictionary])
        #expect(shown == Set(KnownDivergence.allCases))
    }

    /// No state takes the increment; its index stays while those of the list move.
    @Test func incrementOfElementIsNotShifted() throws {
        let base = try Self.world { try $0.task.list("ints").append(1) }
        let insertion = try Self.side(base, OriginTag(timestamp: 1, ident: 2)) {
            try $0.task.list("ints").insert(2, at: 0)
        }
        let increment = ChangesetWriter([.addInteger(Self.path("ints", 0), 5)])
        var arena = ChangesetArena()
        try arena.decode(insertion.changeset, version: 1, tag: insertion.tag)
        try arena.decode(increment.bytes, version: 1, tag: OriginTag(timestamp: 1, ident: 3))
        try arena.merge(local: [0], incoming: [1])
        #expect(arena.path(of: arena.instructions(of: 1)[0]).last?.index == 0)
        #expect(!arena.isDirty(1))
        var state = base
        #expect(throws: ApplyError.self) { try state.apply(1, of: arena) }
    }

    @Test func listBesideDictionaryCannotBeMerged() throws {
        let insertion = ChangesetWriter([.insert(Self.path("mixed", 0), 1, size: 0)])
        let update = ChangesetWriter([.update(Self.path("mixed", "k"), 1)])
        var arena = ChangesetArena()
        try arena.decode(insertion.bytes, version: 1, tag: OriginTag(timestamp: 1, ident: 2))
        try arena.decode(update.bytes, version: 1, tag: OriginTag(timestamp: 1, ident: 3))
        #expect(throws: TransformError.self) { try arena.merge(local: [0], incoming: [1]) }
    }

    // MARK: Support

    private static func world(_ write: Write) throws -> ObjectGraph {
        var graph = ObjectGraph()
        _ = try graph.write(as: 1) { transaction in
            for shape in RandomSchema.classes { try transaction.add(shape) }
            for shape in RandomSchema.classes {
                for field in shape.fields { try transaction.add(field, to: shape.name) }
            }
            try transaction.addColumn("passingList", .int, collection: .list, to: "Task")
            try transaction.create("Task", key: 1)
            try transaction.create("Passing", key: 1)
            try write(transaction)
        }
        return graph
    }

    private static func side(_ base: ObjectGraph, _ tag: OriginTag, _ write: Write) throws -> PairCheck.Side {
        var graph = base
        let written = try graph.write(as: tag.ident, write)
        return PairCheck.Side(changeset: written.changeset, state: graph, tag: tag)
    }

    private static func repeated(_ made: AuthoredInstruction) -> AuthoredInstruction {
        var made = made
        made.isRepeated = true
        return made
    }

    private static func path(_ field: String, _ element: FieldPath.Element) -> FieldPath {
        FieldPath(object: ObjectName(className: "Task"), field: field, path: [element])
    }
}

extension WriteTransaction {
    fileprivate var task: DynamicObject {
        get throws {
            guard let task = try object("Task", key: 1) else { throw InputError(description: "there is no task") }
            return task
        }
    }
}
