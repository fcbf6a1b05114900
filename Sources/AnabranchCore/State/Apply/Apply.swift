// Applying a decoded changeset to a state (`Spec/State.md`, part B).

extension ObjectGraph {
    /// Applies the live instructions of a changeset in order, all or nothing.
    ///
    /// - Returns: What was changed.
    /// - Throws: `ApplyError` that names the place; the state is then as it was before. With the code `unavailable`
    ///   the objects could not be read: nothing is wrong with the changeset.
    @discardableResult
    public mutating func apply(_ changeset: ChangesetIndex, of arena: ChangesetArena) throws(ApplyError) -> StateChanges
    {
        var applier = ChangesetApplier(of: arena, to: self)
        try applier.apply(changeset) { _ in false }
        let result = applier.editor.finish()
        self = result.graph
        return result.changes
    }

    /// Applies changesets in order, each as a transaction of a replica that keeps no objects of asymmetric classes
    /// (A1); all of them or nothing.
    ///
    /// An instruction that cannot be applied may be skipped: it is discarded from its changeset, which is then dirty. A
    /// merge leaves list and set operations alive along with the EraseColumn of their column, and nobody could read a
    /// log that kept them.
    ///
    /// - Parameter isSkipped: Whether an instruction that failed with this error is skipped; not asked about errors
    ///   that are `unavailable`. All other errors are thrown, and state and changesets are then as they were before.
    /// - Returns: What was changed.
    public mutating func applyTransactions(
        _ changesets: [ChangesetIndex], of arena: inout ChangesetArena,
        skipping isSkipped: (ApplyError) throws(ApplyError) -> Bool
    ) throws(ApplyError) -> StateChanges {
        try applyTransactions(changesets, of: &arena, refusing: [], skipping: isSkipped)
    }

    /// The same, except that some instructions that a state can apply fail as they do in released clients.
    ///
    /// - Parameter inPlace: True if nobody needs the state as it was when this fails; it is empty then. Nothing is
    ///   copied before it is changed.
    package mutating func applyTransactions(
        _ changesets: [ChangesetIndex], of arena: inout ChangesetArena, refusing refusals: ApplyRefusals,
        within limits: ApplyLimits = ApplyLimits(), inPlace: Bool = false,
        skipping isSkipped: (ApplyError) throws(ApplyError) -> Bool
    ) throws(ApplyError) -> StateChanges {
        let graph = self
        if inPlace { self = ObjectGraph() }
        var applier = ChangesetApplier(of: arena, to: consume graph, refusing: refusals)
        applier.editor.objectBytesMax = limits.objectBytesMax
        applier.editor.loadedBytesMax = limits.loadedBytesMax
        let readBytes = readBytes
        do throws(ApplyError) {
            for changeset in changesets {
                try applier.apply(changeset, skipping: isSkipped)
                try applier.editor.eraseNewAsymmetricObjects()
            }
        } catch {
            forgetReads(beyond: readBytes)
            throw error
        }
        let result = applier.editor.finish()
        self = result.graph
        for index in applier.discarded { arena.discard(index) }
        return result.changes
    }

    /// Applies the instructions of a changeset on the schema and on some of its objects, to see the resulting objects.
    /// Unlike a transaction, this keeps objects of asymmetric classes.
    ///
    /// - Parameters:
    ///   - part: the positions of the objects.
    ///   - isSkipped: as for `applyTransactions`; what is skipped stays in the changeset.
    package mutating func preview(
        _ part: some Sequence<Int>, of objects: ChangesetObjects, in arena: ChangesetArena,
        refusing refusals: ApplyRefusals, within limits: ApplyLimits,
        skipping isSkipped: (ApplyError) throws(ApplyError) -> Bool
    ) throws(ApplyError) {
        var applier = ChangesetApplier(of: arena, to: self, refusing: refusals)
        applier.editor.objectBytesMax = limits.objectBytesMax
        applier.editor.loadedBytesMax = limits.loadedBytesMax
        let readBytes = readBytes
        do throws(ApplyError) {
            for (number, index) in objects.instructions(on: part) {
                try applier.apply(index, number, of: objects.changeset, skipping: isSkipped)
            }
        } catch {
            forgetReads(beyond: readBytes)
            throw error
        }
        self = applier.editor.finish().graph
    }

    /// Erases all objects of asymmetric classes. A client keeps none, and calls this at the end of every transaction
    /// (A1).
    public mutating func eraseAsymmetricObjects() throws(ApplyError) -> StateChanges {
        var editor = GraphEditor(self)
        for number in schema.present where schema[number].kind == .topLevelAsymmetric {
            try forEachObject(of: number) { key, _ throws(ApplyError) in
                _ = try editor.eraseObject(ObjectReference(classID: number, key: key))
            }
        }
        let result = editor.finish()
        self = result.graph
        return result.changes
    }
}

/// Passes the instructions of an arena to a `GraphEditor`, with the classes, objects and places that they name.
struct ChangesetApplier {
    let arena: ChangesetArena
    var editor: GraphEditor
    private var latestClass: (name: NameID, number: ClassID)?
    private var latestObject: (number: ObjectKeyID, reference: ObjectReference)?
    /// The places of fields by class and name, a few at a time.
    private var places: [PlaceEntry] = Array(repeating: PlaceEntry(), count: 16)
    private var path: [PathStep] = []
    /// The indices of the instructions that were skipped.
    private(set) var discarded: [InstructionIndex] = []

    private struct PlaceEntry {
        var className = NameID(.max)
        var field = NameID(.max)
        var place = Place.none
    }

    init(of arena: ChangesetArena, to graph: ObjectGraph, refusing refusals: ApplyRefusals = []) {
        self.arena = arena
        editor = GraphEditor(graph)
        editor.refusals = refusals
    }

    /// Applies a changeset without those of its instructions that fail and may be skipped.
    mutating func apply(
        _ changeset: ChangesetIndex, skipping isSkipped: (ApplyError) throws(ApplyError) -> Bool
    ) throws(ApplyError) {
        editor.graph.changesetBytes += arena[changeset].bytes.count
        var number = 0
        guard arena.additions[changeset] == nil else {
            for index in arena.instructionIndices(of: changeset) {
                try apply(index, number, of: changeset, skipping: isSkipped)
                number += 1
            }
            return
        }
        var rest = arena[changeset].instructions
        while let index = rest.popFirst() {
            guard !arena[index].isDiscarded else { continue }
            try apply(index, number, of: changeset, skipping: isSkipped)
            number += 1
            try applyStretch(after: index, &rest, &number, of: changeset, skipping: isSkipped)
        }
    }

    @inline(__always)
    fileprivate mutating func apply(
        _ index: InstructionIndex, _ number: Int, of changeset: ChangesetIndex,
        skipping isSkipped: (ApplyError) throws(ApplyError) -> Bool
    ) throws(ApplyError) {
        do {
            try apply(arena[index])
        } catch {
            try skip(index, number, of: changeset, after: error, if: isSkipped)
        }
    }

    /// Skips an instruction that has failed, or throws the error.
    mutating func skip(
        _ index: InstructionIndex, _ number: Int, of changeset: ChangesetIndex, after error: ApplyError,
        if isSkipped: (ApplyError) throws(ApplyError) -> Bool
    ) throws(ApplyError) {
        guard error.code != .unavailable else { throw error }
        let error = describe(error, in: arena[index], number: number, of: changeset)
        guard try isSkipped(error) else { throw error }
        discarded.append(index)
    }

    @discardableResult
    mutating func apply(_ instruction: Instruction) throws(ApplyError) -> GraphEditor.Effect {
        switch instruction.kind {
        case .addTable, .eraseTable, .addColumn, .eraseColumn: return try applySchema(instruction)
        case .createObject: return try editor.createObject(try object(of: instruction))
        case .eraseObject: return try editor.eraseObject(try object(of: instruction))
        case .update: return try edit(instruction, .update(arena.payload(of: instruction)))
        case .addInteger: return try edit(instruction, .addInteger(Int64(bitPattern: instruction.word0)))
        case .arrayInsert:
            let payload = arena.payload(of: instruction)
            return try edit(instruction, .insert(payload, priorSize: Int(instruction.priorSize)))
        case .arrayMove:
            let destination = Int(instruction.destination)
            return try edit(instruction, .move(to: destination, priorSize: Int(instruction.priorSize)))
        case .arrayErase: return try edit(instruction, .erase(priorSize: Int(instruction.priorSize)))
        case .clear: return try edit(instruction, .clear(instruction.collection))
        case .setInsert: return try edit(instruction, .setInsert(arena.payload(of: instruction)))
        case .setErase: return try edit(instruction, .setErase(arena.payload(of: instruction)))
        }
    }

    // MARK: Schema

    private mutating func applySchema(_ instruction: Instruction) throws(ApplyError) -> GraphEditor.Effect {
        let className = Array(arena.bytes(of: instruction.className))
        defer { forgetSchema() }
        switch instruction.kind {
        case .addTable: return try editor.addClass(arena.declaredClass(instruction))
        case .eraseTable: return try editor.eraseClass(className)
        case .addColumn: return try editor.addColumn(arena.declaredColumn(instruction), to: className)
        default: return try editor.eraseColumn(Array(arena.bytes(of: instruction.field)), of: className)
        }
    }

    private mutating func forgetSchema() {
        latestClass = nil
        latestObject = nil
        for index in places.indices { places[index] = PlaceEntry() }
    }

    // MARK: Places

    @inline(__always)
    private mutating func edit(_ instruction: Instruction, _ edit: Edit) throws(ApplyError) -> GraphEditor.Effect {
        let object = try object(of: instruction)
        let place = try place(of: instruction, in: object)
        path.removeAll(keepingCapacity: true)
        if instruction.pathCount > 0 {
            guard instruction.pathCount <= GraphEditor.pathCountMax else { throw .invalid("the path is too long") }
            let start = Int(instruction.pathStart)
            for element in arena.elements[start..<start + Int(instruction.pathCount) - 1] { path.append(step(element)) }
            path.append(step(instruction.last))
        }
        return try editor.edit(object, place, path[...], edit)
    }

    private func step(_ element: PathElement) -> PathStep {
        element.isIndex ? .index(Int(element.index)) : .name(Array(arena.bytes(of: element.name)))
    }

    @inline(__always)
    mutating func object(of instruction: Instruction) throws(ApplyError) -> ObjectReference {
        if let latestObject, latestObject.number == instruction.object { return latestObject.reference }
        let classID = try self.classID(instruction.className)
        let key = arena.primaryKey(of: instruction.object).key.normalised
        try editor.checkKey(key, of: classID)
        let reference = ObjectReference(classID: classID, key: key)
        latestObject = (instruction.object, reference)
        return reference
    }

    @inline(__always)
    private mutating func classID(_ name: NameID) throws(ApplyError) -> ClassID {
        if let latestClass, latestClass.name == name { return latestClass.number }
        let number = try editor.classID(Array(arena.bytes(of: name)))
        latestClass = (name, number)
        return number
    }

    @inline(__always)
    mutating func place(of instruction: Instruction, in object: ObjectReference) throws(ApplyError) -> Place {
        let position = Int(instruction.className.rawValue &* 31 &+ instruction.field.rawValue) & (places.count - 1)
        let entry = places[position]
        if entry.className == instruction.className, entry.field == instruction.field { return entry.place }
        guard let place = try editor.place(of: Array(arena.bytes(of: instruction.field)), in: object) else {
            let isSetEdit = instruction.kind == .setInsert || instruction.kind == .setErase
            throw isSetEdit && instruction.pathCount == 0
                ? .undefined("the primary key is not a set") : .invalid("the primary key cannot be changed")
        }
        places[position] = PlaceEntry(className: instruction.className, field: instruction.field, place: place)
        return place
    }

    /// Adds the place that the instruction names to an error.
    private func describe(
        _ error: ApplyError, in instruction: Instruction, number: Int, of changeset: ChangesetIndex
    ) -> ApplyError {
        var error = error
        error.changeset = changeset
        error.instruction = number
        error.className = Array(arena.bytes(of: instruction.className))
        if !instruction.kind.isSchema { error.object = arena.primaryKey(of: instruction.object).key }
        if instruction.kind.hasPath || instruction.kind == .addColumn || instruction.kind == .eraseColumn {
            error.field = Array(arena.bytes(of: instruction.field))
        }
        if instruction.kind.hasPath { error.columns = columns(on: instruction) }
        return error
    }

    /// The columns that an instruction leads through, up to one that is missing.
    private func columns(on instruction: Instruction) -> [ColumnName] {
        let schema = editor.schema
        let className = Array(arena.bytes(of: instruction.className)), field = Array(arena.bytes(of: instruction.field))
        var columns = [ColumnName(className: className, field: field)]
        guard let number = schema.number(of: className), var place = schema[number].place(of: field) else {
            return columns
        }
        for element in arena.path(of: instruction) {
            guard place.collection == .single else {
                place = place.element
                continue
            }
            guard place.isEmbedded, !element.isIndex else { break }
            let state = schema[place.target]
            columns.append(ColumnName(className: state.name, field: Array(arena.bytes(of: element.name))))
            guard let inner = state.place(of: Array(arena.bytes(of: element.name))) else { break }
            place = inner
        }
        return columns
    }
}
