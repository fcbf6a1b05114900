// Null that a client has taken out of a set of a nullable type. No client can download that (`Spec/State.md`, B9), so
// it does not enter a log: other clients keep their null, and the author has to insert it again (`Spec/History.md`,
// section 16.3).

extension ObjectGraph {
    /// Applies a changeset as `applyTransactions` does, and discards the SetErases from it that clients cannot
    /// download.
    ///
    /// - Returns: What was changed, and a changeset that inserts null wherever the author has taken it out and this
    ///   state still holds it; nil if there is no such place.
    /// - Throws: also `nullErasure` if a place can no longer be determined, because the changeset goes on to move
    ///   elements of a list that the place is in.
    package mutating func applyTransactionRestoringNulls(
        _ changeset: ChangesetIndex, of arena: inout ChangesetArena, within limits: ApplyLimits,
        skipping isSkipped: (ApplyError) throws(ApplyError) -> Bool
    ) throws(ApplyError) -> (changes: StateChanges, insertions: [UInt8]?) {
        let instructions = arena.instructionIndices(of: changeset)
        let places = arena.lastingPlaces(of: instructions)
        var erasures: [InstructionIndex] = []
        let before = self
        let changes = try applyTransactions(
            [changeset], of: &arena, refusing: .nullErasures, within: limits
        ) { error throws(ApplyError) in
            guard error.code == .nullErasure, let number = error.instruction else { return try isSkipped(error) }
            guard places.contains(instructions[number]) else { return false }
            erasures.append(instructions[number])
            return true
        }
        do {
            return (changes, try nullInsertions(at: erasures, in: arena))
        } catch {
            self = before
            throw error
        }
    }

    /// A changeset with a SetInsert of null for each of the erasures whose set still holds null.
    private func nullInsertions(
        at erasures: [InstructionIndex], in arena: ChangesetArena
    ) throws(ApplyError) -> [UInt8]? {
        var recorder = ChangesetRecorder()
        var hasPlace = false
        // An insertion in one place does not affect any other place.
        var probe = ChangesetApplier(of: arena, to: self)
        var places: Set<SetPlace> = []
        for index in erasures where places.insert(arena.place(of: arena[index])).inserted {
            var insertion = arena[index]
            insertion.kind = .setInsert
            do {
                guard try probe.apply(insertion) == .ignored else { continue }
            } catch  where error.code != .unavailable {
                // The place is gone.
                continue
            }
            recorder.edit(.setInsert(.null), at: arena.target(of: insertion))
            hasPlace = true
        }
        return hasPlace ? recorder.bytes : nil
    }
}

extension ChangesetArena {
    /// True if a changeset takes null out of a set, of whatever type.
    package func erasesNull(in changeset: ChangesetIndex) -> Bool {
        instructions(of: changeset).contains { $0.kind == .setErase && $0.type == .null }
    }

    /// The SetErases of null whose paths lead to the same place at the end of the changeset: no later instruction moves
    /// elements of a list that they may go through.
    fileprivate func lastingPlaces(of instructions: [InstructionIndex]) -> Set<InstructionIndex> {
        var places: Set<InstructionIndex> = []
        // The fields in which a later instruction moves elements.
        var movedFields: Set<SetPlace> = []
        for index in instructions.reversed() {
            let instruction = self[index]
            switch instruction.kind {
            case .arrayInsert, .arrayMove, .arrayErase: movedFields.insert(SetPlace(instruction, path: []))
            case .setErase where instruction.type == .null:
                let goesThroughList = path(of: instruction).contains(where: \.isIndex)
                let isMoved = goesThroughList && movedFields.contains(SetPlace(instruction, path: []))
                if !isMoved { places.insert(index) }
            default: break
            }
        }
        return places
    }

    fileprivate func place(of instruction: Instruction) -> SetPlace {
        SetPlace(instruction, path: path(of: instruction))
    }

    /// The place that a path instruction names, as it is recorded.
    fileprivate func target(of instruction: Instruction) -> ChangesetRecorder.Target {
        ChangesetRecorder.Target(
            className: Array(bytes(of: instruction.className)), key: primaryKey(of: instruction.object).key,
            field: Array(bytes(of: instruction.field)),
            path: path(of: instruction).map { $0.isIndex ? .index(Int($0.index)) : .name(Array(bytes(of: $0.name))) })
    }
}

/// A field of an object, and a path below it.
private struct SetPlace: Hashable {
    let object: ObjectKeyID
    let field: NameID
    let path: [PathElement]

    init(_ instruction: Instruction, path: [PathElement]) {
        (object, field) = (instruction.object, instruction.field)
        self.path = path
    }
}
