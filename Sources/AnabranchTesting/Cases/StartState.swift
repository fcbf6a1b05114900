package import AnabranchCore

/// The state that both sides of a merge case start from, as far as their instructions tell: the classes, columns,
/// objects and list elements that they take for granted.
package struct StartState {
    private let arena: ChangesetArena
    /// The classes, and below the objects and columns, that exist or that a side will make.
    private var classes: Set<NameID> = []
    private var objects: Set<ObjectKeyID> = []
    private var columns: Set<Column> = []

    private struct Column: Hashable {
        var className: NameID
        var field: NameID
    }

    /// - Parameter arena: the changesets of both sides, not merged yet. Keys are integers; there are lists, but nothing
    ///   in their elements.
    package static func graph(of arena: ChangesetArena) throws -> ObjectGraph {
        var graph = ObjectGraph()
        _ = try graph.write(as: 1) { transaction in
            var state = StartState(arena: arena)
            for changeset in arena.changesets {
                for instruction in arena.instructions(of: changeset) {
                    state.record(instruction)
                }
            }
            for changeset in arena.changesets {
                for instruction in arena.instructions(of: changeset) { try state.add(instruction, in: transaction) }
            }
        }
        return graph
    }

    private init(arena: ChangesetArena) { self.arena = arena }

    /// Records the classes and objects that the sides make themselves.
    private mutating func record(_ instruction: Instruction) {
        switch instruction.kind {
        case .addTable: classes.insert(instruction.className)
        case .createObject: objects.insert(instruction.object)
        default: break
        }
    }

    private mutating func add(_ instruction: Instruction, in transaction: WriteTransaction) throws {
        let className = name(instruction.className)
        if classes.insert(instruction.className).inserted { try transaction.addClass(className, key: "_id", .int) }
        let isPath = instruction.kind.hasPath
        guard isPath || instruction.kind == .eraseColumn else { return }
        let isList = !arena.path(of: instruction).isEmpty
        let column = Column(className: instruction.className, field: instruction.field)
        let isNew = columns.insert(column).inserted
        if isNew { try addColumn(instruction, isList: isList, in: transaction) }
        guard isPath, objects.insert(instruction.object).inserted else { return }
        let object = try transaction.create(className, key: arena.primaryKey(of: instruction.object).key)
        guard isList else { return }
        let list = try object.list(name(instruction.field))
        for _ in 0..<instruction.priorSize { try list.append(.int(0)) }
    }

    private mutating func addColumn(
        _ instruction: Instruction, isList: Bool, in transaction: WriteTransaction
    ) throws {
        let (className, field) = (name(instruction.className), name(instruction.field))
        if case .link(let target, let key) = arena.payload(of: instruction), instruction.kind == .update {
            let target = String(decoding: target, as: UTF8.self)
            try transaction.addLink(field, to: target, of: className)
            try transaction.create(target, key: key)
        } else {
            try transaction.addColumn(field, .int, collection: isList ? .list : .single, to: className)
        }
    }

    private func name(_ name: NameID) -> String { String(decoding: arena.bytes(of: name), as: UTF8.self) }
}
