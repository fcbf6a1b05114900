// The objects that a changeset is about, and changesets without the instructions about some of them: for views of a
// state (`Spec/FlexibleSync.md`). An instruction is about one top-level object, whatever path it has, or about the
// schema.

/// A top-level object as the instructions of a changeset name it.
package struct TouchedObject: Sendable {
    /// Its number in the arena.
    package let id: ObjectKeyID
    /// The name of its class.
    package let className: [UInt8]
    package let key: PrimaryKey
    /// The kind of the first live instruction on it.
    package let firstKind: InstructionKind
    /// True if a live instruction creates it.
    package let isCreated: Bool
}

/// The live instructions of a changeset, grouped by their subject: the schema, or one of its objects. The objects have
/// positions, in the order of their first instruction. Holds only numbers of the arena, no names or keys.
package struct ChangesetObjects: Sendable {
    private struct Entry {
        let id: ObjectKeyID
        let firstKind: InstructionKind
        var isCreated: Bool
        /// First the number of its instructions, then where they end in `order`.
        var end = 0
    }

    let changeset: ChangesetIndex
    private let instructions: [InstructionIndex]
    /// The numbers of the instructions about the schema, followed by those of the instructions about each object.
    private var order: [UInt32]
    private var schemaCount = 0
    private var entries: [Entry] = []
    private var positions: [ObjectKeyID: Int] = [:]

    package init(of changeset: ChangesetIndex, in arena: ChangesetArena) {
        self.changeset = changeset
        instructions = arena.instructionIndices(of: changeset)
        order = Array(repeating: 0, count: instructions.count)
        for index in instructions {
            let kind = arena[index].kind, id = arena[index].object
            guard !kind.isSchema else {
                schemaCount += 1
                continue
            }
            let position = positions[id] ?? entries.count
            if position == entries.count {
                positions[id] = position
                entries.append(Entry(id: id, firstKind: kind, isCreated: false))
            }
            entries[position].isCreated = entries[position].isCreated || kind == .createObject
            entries[position].end += 1
        }
        var start = schemaCount
        for position in entries.indices { (entries[position].end, start) = (start, start + entries[position].end) }
        var schemaEnd = 0
        for (number, index) in instructions.enumerated() {
            if arena[index].kind.isSchema {
                order[schemaEnd] = UInt32(truncatingIfNeeded: number)
                schemaEnd += 1
            } else if let position = positions[arena[index].object] {
                order[entries[position].end] = UInt32(truncatingIfNeeded: number)
                entries[position].end += 1
            }
        }
    }

    /// The number of objects.
    package var count: Int { entries.count }

    /// True if an instruction is about the schema.
    package var changesSchema: Bool { schemaCount > 0 }

    package func id(at position: Int) -> ObjectKeyID { entries[position].id }

    package func position(of id: ObjectKeyID) -> Int? { positions[id] }

    package func object(at position: Int, in arena: ChangesetArena) -> TouchedObject {
        let entry = entries[position], (className, key) = arena.primaryKey(of: entry.id)
        return TouchedObject(
            id: entry.id, className: Array(arena.bytes(of: className)), key: key.normalised,
            firstKind: entry.firstKind, isCreated: entry.isCreated)
    }

    /// The number of instructions about an object.
    package func instructionCount(at position: Int) -> Int { range(at: position).count }

    private func range(at position: Int) -> Range<Int> {
        (position == 0 ? schemaCount : entries[position - 1].end)..<entries[position].end
    }

    /// The instructions about the schema, followed by those about each of some objects: the number among the live
    /// instructions of the changeset, and the index in the arena.
    func instructions(on part: some Sequence<Int>) -> [(number: Int, index: InstructionIndex)] {
        let chosen = order[..<schemaCount] + part.flatMap { order[range(at: $0)] }
        return chosen.map { (Int($0), instructions[Int($0)]) }
    }
}

extension ChangesetArena {
    /// The objects that live instructions of a changeset are about, in the order in which they come first.
    package func touchedObjects(of changeset: ChangesetIndex) -> [TouchedObject] {
        let objects = ChangesetObjects(of: changeset, in: self)
        return (0..<objects.count).map { objects.object(at: $0, in: self) }
    }

    /// The classes that live instructions of a changeset erase, in their order.
    package func erasedClasses(of changeset: ChangesetIndex) -> [[UInt8]] {
        guard holdsErasure else { return [] }
        return instructions(of: changeset).filter { $0.kind == .eraseTable }.map { Array(bytes(of: $0.className)) }
    }

    /// The number of an object; nil if no changeset of the arena names it.
    package func object(ofClass className: [UInt8], key: PrimaryKey) -> ObjectKeyID? {
        guard let className = names.find(className, in: bytes) else { return nil }
        let found: ObjectKey
        switch key {
        case .null: found = ObjectKey(className: className, type: .null)
        case .int(let value): found = ObjectKey(className: className, type: .int, word0: UInt64(bitPattern: value))
        case .string(let text):
            guard let name = names.find(text, in: bytes) else { return nil }
            found = ObjectKey(className: className, type: .string, word0: UInt64(name.rawValue))
        case .globalKey(let key):
            found = ObjectKey(className: className, type: .globalKey, word0: key.high, word1: key.low)
        case .objectID(let id): found = ObjectKey(className: className, type: .objectID, word0: id.low, word1: id.high)
        case .uuid(let id): found = ObjectKey(className: className, type: .uuid, word0: id.low, word1: id.high)
        }
        return objects.find(found)
    }

    /// Discards the instructions of a changeset that are about some objects; if there is one, the changeset becomes
    /// dirty.
    package mutating func discardInstructions(on objects: Set<ObjectKeyID>, of changeset: ChangesetIndex) {
        guard !objects.isEmpty else { return }
        for index in instructionIndices(of: changeset)
        where !self[index].kind.isSchema && objects.contains(self[index].object) {
            discard(index)
        }
    }
}
