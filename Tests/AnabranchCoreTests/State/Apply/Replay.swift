@testable import AnabranchCore

/// Does again, as local actions, what a recorded changeset says that a client did.
struct Replay {
    let transaction: WriteTransaction
    let arena: ChangesetArena
    private let instructions: [Instruction]

    init(_ changeset: [UInt8], in transaction: WriteTransaction) throws {
        self.transaction = transaction
        arena = try Self.decode(changeset)
        instructions = arena.instructions(of: 0)
    }

    static func decode(_ changeset: [UInt8]) throws -> ChangesetArena {
        var arena = ChangesetArena()
        try arena.decode(changeset, version: 1, tag: OriginTag(timestamp: 1, ident: 1))
        return arena
    }

    /// Acts until as many instructions are recorded as the changeset has: one action can record several.
    func run() throws {
        var position = 0
        while position < instructions.count {
            if let object = try deletion(from: position) {
                try transaction.delete(object)
            } else {
                try act(instructions[position])
            }
            let recorded = try Self.decode(transaction.recorder.bytes).instructions(of: 0).count
            precondition(recorded > position, "nothing was recorded for \(instructions[position].kind)")
            position = recorded
        }
    }

    // MARK: Deleting

    /// The object whose deletion the instructions from here on record: removals of links to it, then its EraseObject.
    private func deletion(from position: Int) throws -> DynamicObject? {
        guard let erase = instructions[position...].firstIndex(where: { $0.kind == .eraseObject }) else { return nil }
        let (className, key) = arena.primaryKey(of: instructions[erase].object)
        let link = Payload.link(className: Array(arena.bytes(of: className)), key: key)
        for instruction in instructions[position..<erase] {
            guard try removes(instruction, link) else { return nil }
        }
        return try transaction.object(name(className), key: key)
    }

    private func removes(_ instruction: Instruction, _ link: Payload) throws -> Bool {
        switch instruction.kind {
        case .setErase: return arena.payload(of: instruction) == link
        case .update where arena.payload(of: instruction) == .null, .arrayErase:
            let (container, last) = try container(of: instruction)
            return try container.value(last) == link
        default: return false
        }
    }

    // MARK: Acting

    private func act(_ instruction: Instruction) throws {
        let className = name(instruction.className)
        switch instruction.kind {
        case .addTable: try addClass(className, instruction)
        case .eraseTable: try transaction.eraseClass(className)
        case .addColumn: try addColumn(instruction, to: className)
        case .eraseColumn: try transaction.eraseColumn(name(instruction.field), of: className)
        case .createObject: try create(className, instruction)
        case .eraseObject: break
        default: try edit(instruction)
        }
    }

    private func addClass(_ className: String, _ instruction: Instruction) throws {
        if instruction.tableType == .embedded { return try transaction.addEmbeddedClass(className) }
        if instruction.type == .globalKey { return try transaction.addClass(className) }
        try transaction.addClass(
            className, key: name(instruction.field), instruction.type, isNullable: instruction.isNullable,
            isAsymmetric: instruction.tableType == .topLevelAsymmetric)
    }

    private func addColumn(_ instruction: Instruction, to className: String) throws {
        let field = name(instruction.field)
        if instruction.type == .link {
            let target = name(instruction.target)
            return try transaction.addLink(field, to: target, collection: instruction.collection, of: className)
        }
        try transaction.addColumn(
            field, instruction.type, isNullable: instruction.isNullable, collection: instruction.collection,
            to: className)
    }

    private func create(_ className: String, _ instruction: Instruction) throws {
        let key = arena.primaryKey(of: instruction.object).key
        guard case .globalKey(let globalKey) = key else { return _ = try transaction.create(className, key: key) }
        // The counter belongs to the client's file; the server's state does not know it.
        let number = try transaction.number(of: Array(className.utf8))
        transaction.editor.graph.schema[number].nextGlobalKey = globalKey.low
        try transaction.create(className)
    }

    private func edit(_ instruction: Instruction) throws {
        let payload = arena.payload(of: instruction)
        switch instruction.kind {
        case .clear, .setInsert, .setErase:
            let collection = try whole(instruction)
            switch (instruction.kind, collection) {
            case (.setInsert, .set(let set)): try set.insert(payload)
            case (.setErase, .set(let set)): try set.remove(payload)
            case (_, .set(let set)): try set.removeAll()
            case (_, .list(let list)): try list.removeAll()
            case (_, .dictionary(let dictionary)): try dictionary.removeAll()
            case (_, .object): break
            }
        default:
            switch try container(of: instruction) {
            case (.object(let object), .name(let field)):
                let field = String(decoding: field, as: UTF8.self)
                if instruction.kind == .addInteger {
                    try object.add(Int64(bitPattern: instruction.word0), to: field)
                } else {
                    try object.set(field, to: payload, isDefault: instruction.isDefault)
                }
            case (.dictionary(let dictionary), .name(let key)):
                let key = String(decoding: key, as: UTF8.self)
                if payload == .erased { try dictionary.remove(key) } else { try dictionary.set(payload, for: key) }
            case (.list(let list), .index(let index)):
                switch instruction.kind {
                case .arrayInsert: try list.insert(payload, at: index)
                case .arrayMove: try list.move(from: index, to: Int(instruction.destination))
                case .arrayErase: try list.remove(at: index)
                default: try list.set(payload, at: index)
                }
            default: break
            }
        }
    }

    // MARK: Places

    enum Container {
        case object(DynamicObject)
        case list(DynamicList)
        case dictionary(DynamicDictionary)
        case set(DynamicSet)

        func value(_ step: PathStep) throws -> Payload? {
            switch (self, step) {
            case (.object(let object), .name(let field)): try object.value(String(decoding: field, as: UTF8.self))
            case (.dictionary(let entries), .name(let key)):
                try entries.value(for: String(decoding: key, as: UTF8.self))
            case (.list(let list), .index(let index)): try list.value(at: index)
            default: nil
            }
        }

        func inner(_ step: PathStep) throws -> Container {
            switch (self, step, try value(step)) {
            case (.object(let object), .name(let field), let value?):
                let field = String(decoding: field, as: UTF8.self)
                switch value {
                case .list: return .list(try object.list(field))
                case .dictionary: return .dictionary(try object.dictionary(field))
                case .set: return .set(try object.set(field))
                default: if let object = try object.object(field) { return .object(object) }
                }
            case (.dictionary(let entries), .name(let key), let value?):
                let key = String(decoding: key, as: UTF8.self)
                switch value {
                case .list: return .list(try entries.list(for: key))
                case .dictionary: return .dictionary(try entries.dictionary(for: key))
                default: if let object = try entries.object(for: key) { return .object(object) }
                }
            case (.list(let list), .index(let index), let value?):
                switch value {
                case .list: return .list(try list.list(at: index))
                case .dictionary: return .dictionary(try list.dictionary(at: index))
                default: return .object(try list.object(at: index))
                }
            default: break
            }
            throw ApplyError.invalid("nothing below \(step)")
        }
    }

    private func steps(of instruction: Instruction) -> [PathStep] {
        [.name(Array(arena.bytes(of: instruction.field)))]
            + arena.path(of: instruction).map {
                $0.isIndex ? .index(Int($0.index)) : .name(Array(arena.bytes(of: $0.name)))
            }
    }

    private func container(of instruction: Instruction) throws -> (Container, PathStep) {
        let steps = steps(of: instruction)
        return (try walk(instruction, steps.dropLast()), steps[steps.count - 1])
    }

    private func whole(_ instruction: Instruction) throws -> Container {
        try walk(instruction, steps(of: instruction)[...])
    }

    private func walk(_ instruction: Instruction, _ steps: ArraySlice<PathStep>) throws -> Container {
        let (className, key) = arena.primaryKey(of: instruction.object)
        guard let object = try transaction.object(name(className), key: key) else {
            throw ApplyError.invalid("no object")
        }
        return try steps.reduce(.object(object)) { try $0.inner($1) }
    }

    private func name(_ name: NameID) -> String { String(decoding: arena.bytes(of: name), as: UTF8.self) }
}
