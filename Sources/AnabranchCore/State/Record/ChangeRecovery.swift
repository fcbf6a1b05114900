// Local changes that the server has not confirmed are made again on a state that was downloaded afresh
// (`Spec/History.md`, section 12.6).

/// Makes changesets again that were recorded on another state.
///
/// What was said about a place that is there holds, whatever it holds now. What is gone on the server stays gone:
/// changes of it are dropped, as are erasures of classes and columns. Places in a list mean nothing in another state,
/// so of a list only what was added at its end is added again; a list that was changed otherwise becomes as it was on
/// the client.
package struct ChangeRecovery {
    /// A list as paths name it.
    private struct ListPlace: Hashable {
        let object: ObjectReference
        let slot: Int
        let path: [PathStep]

        init(_ location: Location) { (object, slot, path) = (location.object, location.field.slot, location.path) }
    }

    private enum ListPlan {
        /// Elements were added at the end: where they stood, and where they stand.
        case appended([Int: Int])
        /// Nobody else has elements in it.
        case own
        /// It becomes as it was.
        case copied(Location)
    }

    /// Instructions that were not made again, because what they change is gone, or may not be changed.
    package private(set) var droppedCount = 0
    private var ownObjects: Set<ObjectReference> = []
    private var lists: [ListPlace: ListPlan] = [:]

    /// In the order in which it turned out.
    private var copiedLists: [ListPlace] = []

    package init() {}

    /// Makes the changes of a changeset again.
    /// - Throws: `ApplyError` if the state cannot be read.
    package mutating func repeatChanges(
        of changeset: ChangesetIndex, in arena: ChangesetArena, on transaction: WriteTransaction
    ) throws(ApplyError) {
        for instruction in arena.instructions(of: changeset) {
            do throws(ApplyError) {
                try repeatChange(instruction, in: arena, on: transaction)
            } catch {
                if error.code == .unavailable { throw error }
                droppedCount += 1
            }
        }
    }

    /// Makes those lists as they were whose changes could not be made again, behind all changesets.
    ///
    /// - Parameter old: the state of the client.
    /// - Throws: `ApplyError` if a state cannot be read.
    package mutating func copyLists(from old: ObjectGraph, on transaction: WriteTransaction) throws(ApplyError) {
        for name in copiedLists {
            guard case .copied(let location) = lists[name] else { continue }
            do throws(ApplyError) {
                try transaction.copyValue(at: location, from: old)
            } catch {
                if error.code == .unavailable { throw error }
                droppedCount += 1
            }
        }
    }

    private mutating func repeatChange(
        _ instruction: Instruction, in arena: ChangesetArena, on transaction: WriteTransaction
    ) throws(ApplyError) {
        let className = Array(arena.bytes(of: instruction.className))
        switch instruction.kind {
        case .addTable: try transaction.addClass(arena.declaredClass(instruction))
        case .addColumn: try transaction.addColumn(arena.declaredColumn(instruction), to: className)
        case .eraseTable, .eraseColumn: droppedCount += 1
        case .createObject:
            let key = arena.primaryKey(of: instruction.object).key
            let object = ObjectReference(classID: try transaction.number(of: className), key: key.normalised)
            if try !transaction.editor.exists(object) { ownObjects.insert(object) }
            try transaction.create(className, key, [:], areDefaults: false)
        case .eraseObject:
            try transaction.delete(try object(instruction, className, in: arena, on: transaction))
        default: try repeatEdit(instruction, className, in: arena, on: transaction)
        }
    }

    private func object(
        _ instruction: Instruction, _ className: [UInt8], in arena: ChangesetArena, on transaction: WriteTransaction
    ) throws(ApplyError) -> DynamicObject {
        let key = arena.primaryKey(of: instruction.object).key
        let reference = ObjectReference(classID: try transaction.number(of: className), key: key.normalised)
        guard try transaction.editor.exists(reference) else { throw .invalid("the object is gone") }
        return DynamicObject(transaction: transaction, reference: reference)
    }

    // MARK: Places

    private mutating func repeatEdit(
        _ instruction: Instruction, _ className: [UInt8], in arena: ChangesetArena, on transaction: WriteTransaction
    ) throws(ApplyError) {
        let object = try object(instruction, className, in: arena, on: transaction)
        var location = try object.location(of: String(decoding: arena.bytes(of: instruction.field), as: UTF8.self))
        // Nobody else has lists in what was made here.
        var isOwn = ownObjects.contains(object.reference)
        let path = arena.path(of: instruction)
        for (position, element) in path.enumerated() {
            guard element.isIndex else {
                location = try transaction.step(Array(arena.bytes(of: element.name)), from: location)
                continue
            }
            var index = Int(element.index)
            if !isOwn {
                let isLast = position == path.count - 1
                let place = try place(of: index, isLast ? instruction : nil, in: location, on: transaction)
                guard let place else { return }
                index = place
                isOwn = true
            }
            location = location.appending(.index(index))
        }
        try perform(instruction, in: arena, at: location, on: transaction)
    }

    /// Where an element of a list stands now; nil if the list is copied.
    ///
    /// - Parameter instruction: what changes the element itself.
    private mutating func place(
        of index: Int, _ instruction: Instruction?, in list: Location, on transaction: WriteTransaction
    ) throws(ApplyError) -> Int? {
        let name = ListPlace(list)
        switch lists[name] ?? .appended([:]) {
        case .own: return index
        case .copied: return nil
        case .appended(var places):
            if let instruction, instruction.kind == .arrayInsert, index == Int(instruction.priorSize) {
                let end = try transaction.count(at: list)
                places[index] = end
                lists[name] = .appended(places)
                return end
            }
            let changesOthers = instruction.map { [.arrayInsert, .arrayMove, .arrayErase].contains($0.kind) } ?? false
            if let place = places[index], !changesOthers { return place }
            lists[name] = .copied(list)
            copiedLists.append(name)
            return nil
        }
    }

    private mutating func perform(
        _ instruction: Instruction, in arena: ChangesetArena, at location: Location, on transaction: WriteTransaction
    ) throws(ApplyError) {
        switch instruction.kind {
        case .update:
            let payload = arena.payload(of: instruction)
            if payload == .erased, try transaction.content(at: location) == nil { return }
            let isElement = if case .index? = location.path.last { true } else { false }
            let count = isElement ? try transaction.count(at: location.container) : nil
            try transaction.perform(
                .update(payload), at: location, isDefault: instruction.isDefault, priorSize: count)
        case .addInteger:
            guard try transaction.value(at: location) != .null else { throw .invalid("null cannot be added to") }
            try transaction.perform(.addInteger(Int64(bitPattern: instruction.word0)), at: location)
        case .arrayInsert:
            let count = try transaction.count(at: location.container)
            try transaction.perform(.insert(arena.payload(of: instruction), priorSize: count), at: location)
        case .arrayMove:
            let count = try transaction.count(at: location.container)
            try transaction.perform(.move(to: Int(instruction.destination), priorSize: count), at: location)
        case .arrayErase:
            let count = try transaction.count(at: location.container)
            try transaction.perform(.erase(priorSize: count), at: location)
        case .clear:
            if instruction.collection == .list {
                lists[ListPlace(location)] = .own
            }
            try transaction.clear(location, instruction.collection)
        case .setInsert:
            let set = try DynamicSet(transaction, at: location)
            try set.insert(arena.payload(of: instruction))
        case .setErase:
            let set = try DynamicSet(transaction, at: location)
            try set.remove(arena.payload(of: instruction))
        default: break
        }
    }
}

extension WriteTransaction {
    /// The entry of a dictionary, or the field of an embedded object.
    fileprivate func step(_ name: [UInt8], from location: Location) throws(ApplyError) -> Location {
        guard location.place.isEmbedded, location.place.collection == .single else {
            return location.appending(.name(name))
        }
        guard let place = editor.schema[location.place.target].place(of: name) else { throw .invalid("no such field") }
        return location.appending(place, named: name)
    }

    /// Makes what stands at a place of another state stand here. There is no list on the way.
    fileprivate func copyValue(at location: Location, from other: ObjectGraph) throws(ApplyError) {
        let reader = WriteTransaction(on: other, as: 0, isReadOnly: true)
        let state = editor.schema[location.object.classID]
        let reference = ObjectReference(classID: try reader.number(of: state.name), key: location.object.key)
        guard let column = state.columns[location.field.slot],
            let field = reader.editor.schema[reference.classID].place(of: column.name)
        else { throw .invalid("no such field") }
        var source = Location(reference, field)
        for case .name(let name) in location.path { source = try reader.step(name, from: source) }
        guard let content = try reader.content(at: source) else { throw .invalid("there is nothing") }
        linksMayDangle = true
        defer { linksMayDangle = false }
        _ = try put(try ExportedValue(content, at: source.place, in: reader.editor.schema), at: location)
    }
}
