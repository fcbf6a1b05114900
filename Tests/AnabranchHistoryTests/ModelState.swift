import AnabranchCore

/// A small state to which the changesets of `ChangesetBuilder` can be applied: enough to see whether replicas agree. It
/// is strict, so that a wrong merge shows as an error as early as possible.
struct ModelState: Equatable {
    struct Object: Equatable {
        var number: Int64 = 0
        var list: [Int64] = []
    }

    struct Failure: Error, CustomStringConvertible {
        var description: String
    }

    var objects: [Int64: Object] = [:]

    mutating func apply(_ changeset: [UInt8]) throws {
        var arena = ChangesetArena()
        let index = try arena.decode(changeset, version: 1, tag: OriginTag(timestamp: 0, ident: 1))
        for instruction in arena.instructions(of: index) { try apply(instruction, of: arena) }
    }

    private mutating func apply(_ instruction: Instruction, of arena: ChangesetArena) throws {
        if instruction.kind == .addTable || instruction.kind == .addColumn { return }
        guard case .int(let key) = arena.primaryKey(of: instruction.object).key else {
            throw Failure(description: "\(instruction.kind) of an object with another key")
        }
        switch instruction.kind {
        case .createObject where objects[key] == nil: objects[key] = Object()
        case .createObject: break
        // Of two concurrent erasures the newer one stays, and finds nothing left to erase where the older one came
        // first.
        case .eraseObject: objects[key] = nil
        default: try change(key, instruction, of: arena)
        }
    }

    private mutating func change(_ key: Int64, _ instruction: Instruction, of arena: ChangesetArena) throws {
        guard var object = objects[key] else {
            throw Failure(description: "\(instruction.kind) of object \(key), which does not exist")
        }
        let path = arena.path(of: instruction)
        if let last = path.last {
            try object.change(instruction, at: Int(last.index), to: Self.number(instruction, of: arena))
        } else if instruction.kind == .addInteger {
            object.number &+= Self.number(instruction, of: arena)
        } else {
            object.number = Self.number(instruction, of: arena)
        }
        objects[key] = object
    }

    private static func number(_ instruction: Instruction, of arena: ChangesetArena) -> Int64 {
        if case .int(let number) = arena.payload(of: instruction) { number } else { 0 }
    }
}

extension ModelState.Object {
    fileprivate mutating func change(_ instruction: Instruction, at index: Int, to value: Int64) throws {
        let isInsert = instruction.kind == .arrayInsert
        guard instruction.priorSize == list.count, index < list.count + (isInsert ? 1 : 0) else {
            throw ModelState.Failure(
                description: "\(instruction.kind) at \(index) of \(instruction.priorSize) in a list of \(list.count)")
        }
        switch instruction.kind {
        case .arrayInsert: list.insert(value, at: index)
        case .arrayErase: list.remove(at: index)
        case .arrayMove: list.insert(list.remove(at: index), at: Int(instruction.destination))
        default: list[index] = value
        }
    }
}
