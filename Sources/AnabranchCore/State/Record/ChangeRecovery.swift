// Local changes that the server has not confirmed are made again on a state that was downloaded afresh
// (`Spec/History.md`, section 12.6).

/// Decides which changes are made again, and receives those that cannot be.
package protocol RecoveryJudge: AnyObject {
    /// True if a change is made again; not called for changes of classes and columns.
    func allows(
        _ instruction: Instruction, in arena: ChangesetArena, on transaction: WriteTransaction
    ) throws(ApplyError) -> Bool
    /// Takes note of a change that cannot be made again.
    func record(dropped instruction: Instruction, in arena: ChangesetArena, _ reason: String)
}

/// Repeats the changes of changesets that were recorded on another state.
///
/// A change of a place that still exists is made, whatever the place holds now. Objects and places that are gone on the
/// server stay gone: changes of them are dropped, as are erasures of classes and columns, and links to objects that do
/// not exist. An element of a list is found again by what it was, or because it was inserted here (`ListTracks`);
/// elements of others stay.
package struct ChangeRecovery {
    /// Instructions that were not made again, because what they change is gone, or may not be changed.
    package private(set) var droppedCount = 0
    private weak var judge: (any RecoveryJudge)?
    /// The state of the client, after all changes.
    private let old: WriteTransaction
    /// The lists as all changes leave them, and as the changes made again so far leave them.
    private var allTracks = ListTracks(), tracks = ListTracks()
    /// The number of each element of a list on the server; nil for the elements of others.
    private var standing: [TrackedPlace: [Int?]] = [:]
    /// The number of times that changes not yet made again create an object.
    private var creations: [ObjectAddress: Int] = [:]

    /// - Parameters:
    ///   - old: the state of the client, after all changes.
    ///   - judge: held weakly.
    package init(from old: ObjectGraph, judge: (any RecoveryJudge)? = nil) {
        self.old = WriteTransaction(on: old, as: 0, isReadOnly: true)
        self.judge = judge
    }

    // MARK: Looking ahead

    /// Takes note of a changeset. All have to be read, in their order, before the first one is made again.
    ///
    /// - Parameter digests: of the elements of lists that it changes and erases; nil if they are not known.
    package mutating func read(_ changeset: ChangesetIndex, in arena: ChangesetArena, changing digests: [UInt64]?) {
        let instructions = arena.instructions(of: changeset)
        let count = instructions.reduce(0) { $0 + arena.changedElementCount(of: $1) }
        var changed = ListTracks.ChangedElements(digests?.count == count ? digests ?? [] : [])
        for instruction in instructions {
            switch instruction.kind {
            case .addTable, .addColumn, .eraseTable, .eraseColumn: break
            case .createObject: creations[name(of: instruction, in: arena), default: 0] += 1
            case .eraseObject:
                let object = name(of: instruction, in: arena)
                allTracks.erase(object.className, object.key)
            default:
                _ = allTracks.record(instruction, in: arena, &changed)
            }
        }
    }

    private func name(of instruction: Instruction, in arena: ChangesetArena) -> ObjectAddress {
        ObjectAddress(of: instruction, in: arena)
    }

    // MARK: Making again

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
                drop(instruction, in: arena, error.reason)
            }
        }
    }

    private mutating func drop(_ instruction: Instruction, in arena: ChangesetArena, _ reason: String) {
        droppedCount += 1
        judge?.record(dropped: instruction, in: arena, reason)
    }

    private func allows(
        _ instruction: Instruction, in arena: ChangesetArena, on transaction: WriteTransaction
    ) throws(ApplyError) -> Bool {
        guard let judge, !instruction.kind.isSchema else { return true }
        return try judge.allows(instruction, in: arena, on: transaction)
    }

    private mutating func repeatChange(
        _ instruction: Instruction, in arena: ChangesetArena, on transaction: WriteTransaction
    ) throws(ApplyError) {
        let className = Array(arena.bytes(of: instruction.className))
        let isAllowed = try allows(instruction, in: arena, on: transaction)
        switch instruction.kind {
        case .addTable: try transaction.addClass(arena.declaredClass(instruction))
        case .addColumn: try transaction.addColumn(arena.declaredColumn(instruction), to: className)
        case .eraseTable, .eraseColumn: drop(instruction, in: arena, "classes and properties stay")
        case .createObject:
            creations[name(of: instruction, in: arena), default: 0] -= 1
            guard isAllowed else { return }
            try transaction.create(
                className, arena.primaryKey(of: instruction.object).key, [:], areDefaults: false)
        case .eraseObject:
            let object = name(of: instruction, in: arena)
            tracks.erase(object.className, object.key)
            guard isAllowed else { return }
            try transaction.delete(try find(object, on: transaction))
        default:
            // The lists are tracked even where the change is dropped.
            var changed = ListTracks.ChangedElements([])
            let (steps, place) = tracks.record(instruction, in: arena, &changed)
            guard isAllowed else { return }
            let field = String(decoding: arena.bytes(of: instruction.field), as: UTF8.self)
            let location = try find(name(of: instruction, in: arena), on: transaction).location(of: field)
            try repeatEdit(Edited(instruction, arena), steps, place, from: location, on: transaction)
        }
    }

    private func find(_ object: ObjectAddress, on transaction: WriteTransaction) throws(ApplyError) -> DynamicObject {
        let reference = ObjectReference(classID: try transaction.number(of: object.className), key: object.key)
        guard let found = try transaction.object(reference) else { throw .invalid("the object is gone") }
        return found
    }

    /// An instruction, and where its values are.
    private struct Edited {
        let instruction: Instruction
        let arena: ChangesetArena

        init(_ instruction: Instruction, _ arena: ChangesetArena) {
            (self.instruction, self.arena) = (instruction, arena)
        }

        var kind: InstructionKind { instruction.kind }
        var payload: Payload { arena.payload(of: instruction) }
    }

    private mutating func repeatEdit(
        _ edit: Edited, _ steps: [ListTracks.Step], _ place: TrackedPlace, from field: Location,
        on transaction: WriteTransaction
    ) throws(ApplyError) {
        var location = field
        for (position, step) in steps.enumerated() {
            switch step {
            case .name(let name): location = try transaction.step(name, from: location)
            case .element(let list, let number):
                try align(list, at: location, on: transaction)
                guard let number else { throw .invalid("the element is gone") }
                if position == steps.count - 1, edit.instruction.isElementEdit {
                    return try repeatElementEdit(edit, of: number, in: list, at: location, on: transaction)
                }
                guard let index = standing[list]?.firstIndex(of: number) else { throw .invalid("the element is gone") }
                location = location.appending(.index(index))
            }
        }
        if edit.kind == .clear, edit.instruction.collection == .list { standing[place] = [] }
        try perform(edit, at: location, on: transaction)
    }

    // MARK: Lists

    /// Finds, in a list on the server, the elements that it held before the changes, when the first change of it is
    /// made again.
    private mutating func align(
        _ list: TrackedPlace, at location: Location, on transaction: WriteTransaction
    ) throws(ApplyError) {
        guard standing[list] == nil else { return }
        guard let present = try transaction.digests(at: location) else { throw .invalid("there is no list") }
        let origins = try allTracks.origins(of: list) { [old] path throws(ApplyError) in
            try old.location(list.className, list.key, path).flatMap { location throws(ApplyError) in
                try old.digests(at: location)
            }
        }
        standing[list] = ListAlignment(of: origins, in: present).numbers
    }

    /// - Parameters:
    ///   - number: of the element.
    ///   - location: of the list.
    private mutating func repeatElementEdit(
        _ edit: Edited, of number: Int, in list: TrackedPlace, at location: Location, on transaction: WriteTransaction
    ) throws(ApplyError) {
        let count = standing[list]?.count ?? 0, index = standing[list]?.firstIndex(of: number)
        let wanted = Int(edit.instruction.last.index)
        switch edit.kind {
        case .arrayInsert:
            // What was added at the end is added at the end again.
            let end = wanted == Int(edit.instruction.priorSize) ? count : min(wanted, count)
            try insert(edit, as: number, in: list, at: location, end, on: transaction)
        case .update:
            // What others have erased, or replaced, comes back as what it was to become.
            guard let index else {
                return try insert(edit, as: number, in: list, at: location, min(wanted, count), on: transaction)
            }
            let place = location.appending(.index(index))
            guard let payload = try payload(edit.payload, on: transaction) else {
                drop(edit.instruction, in: edit.arena, "the object linked to is gone")
                return try erase(index, of: list, at: location, on: transaction)
            }
            try transaction.perform(.update(payload), at: place, priorSize: count)
        case .arrayErase:
            guard let index else { throw .invalid("the element is gone") }
            try erase(index, of: list, at: location, on: transaction)
        default:
            guard let index else { throw .invalid("the element is gone") }
            let destination = Int(edit.instruction.destination)
            let end = destination + 1 == Int(edit.instruction.priorSize) ? count - 1 : min(destination, count - 1)
            try transaction.move(from: index, to: end, in: location)
            if let element = standing[list]?.remove(at: index) { standing[list]?.insert(element, at: end) }
        }
    }

    private mutating func insert(
        _ edit: Edited, as number: Int, in list: TrackedPlace, at location: Location, _ index: Int,
        on transaction: WriteTransaction
    ) throws(ApplyError) {
        guard let payload = try payload(edit.payload, on: transaction) else {
            throw .invalid("the object linked to is gone")
        }
        let count = standing[list]?.count ?? 0
        try transaction.perform(.insert(payload, priorSize: count), at: location.appending(.index(index)))
        standing[list]?.insert(number, at: index)
    }

    private mutating func erase(
        _ index: Int, of list: TrackedPlace, at location: Location, on transaction: WriteTransaction
    ) throws(ApplyError) {
        let count = standing[list]?.count ?? 0
        try transaction.perform(.erase(priorSize: count), at: location.appending(.index(index)))
        standing[list]?.remove(at: index)
    }

    // MARK: Values

    /// A value that can be written; nil for a link to an object that is gone. An object that a later change creates is
    /// created before the link to it: its creation may follow the link in the same transaction.
    private func payload(_ payload: Payload, on transaction: WriteTransaction) throws(ApplyError) -> Payload? {
        guard case .link(let className, let key) = payload else { return payload }
        let target = ObjectReference(classID: try transaction.number(of: className), key: key.normalised)
        if try transaction.editor.exists(target) { return payload }
        guard creations[ObjectAddress(className, key), default: 0] > 0 else { return nil }
        try transaction.create(className, key, [:], areDefaults: false)
        return payload
    }

    private mutating func perform(
        _ edit: Edited, at location: Location, on transaction: WriteTransaction
    ) throws(ApplyError) {
        switch edit.kind {
        case .update:
            if edit.payload == .erased, try transaction.content(at: location) == nil { return }
            let payload = try payload(edit.payload, on: transaction)
            if payload == nil { drop(edit.instruction, in: edit.arena, "the object linked to is gone") }
            try transaction.perform(.update(payload ?? .null), at: location, isDefault: edit.instruction.isDefault)
        case .addInteger:
            guard try transaction.value(at: location) != .null else { throw .invalid("null cannot be added to") }
            try transaction.perform(.addInteger(Int64(bitPattern: edit.instruction.word0)), at: location)
        case .clear: try transaction.clear(location, edit.instruction.collection)
        case .setInsert:
            guard let payload = try payload(edit.payload, on: transaction) else {
                throw .invalid("the object linked to is gone")
            }
            try DynamicSet(transaction, at: location).insert(payload)
        case .setErase: try DynamicSet(transaction, at: location).remove(edit.payload)
        default: break
        }
    }
}

extension WriteTransaction {
    /// The digests of a list's elements; nil if there is no list.
    fileprivate func digests(at location: Location) throws(ApplyError) -> [UInt64]? {
        guard case .list(let list)? = try content(at: location) else { return nil }
        return try list.map { element throws(ApplyError) in
            try ExportedValue(element.content, at: location.place.element, in: editor.schema).digest
        }
    }

    /// The text, as in an export, of the content at the place where an instruction writes; nil if there is nothing, or
    /// if the place is an element of a list, or in one.
    package func exportedText(
        where instruction: Instruction, in arena: ChangesetArena
    ) throws(ApplyError) -> [UInt8]? {
        let steps = arena.path(of: instruction)
        guard !steps.contains(where: \.isIndex) else { return nil }
        let names = [instruction.field] + steps.map(\.name)
        let path = names.map { PathStep.name(Array(arena.bytes(of: $0))) }
        let key = arena.primaryKey(of: instruction.object).key.normalised
        guard let location = try location(Array(arena.bytes(of: instruction.className)), key, path),
            let content = try content(at: location)
        else { return nil }
        return try ExportedValue(content, at: location.place, in: editor.schema).text
    }

    /// A place of an object; nil if there is none.
    /// - Parameter path: the field, and the way from there.
    fileprivate func location(
        _ className: [UInt8], _ key: PrimaryKey, _ path: [PathStep]
    ) throws(ApplyError) -> Location? {
        guard let number = editor.schema.number(of: className), case .name(let field)? = path.first,
            let place = editor.schema[number].place(of: field)
        else { return nil }
        var location = Location(ObjectReference(classID: number, key: key), place)
        for step in path.dropFirst() {
            switch step {
            case .name(let name): location = try self.step(name, from: location)
            case .index: location = location.appending(step)
            }
        }
        return location
    }
}
