// The form of changesets for clients of older releases (`Spec/Protocol.md`, section 6.1).

/// Brings log entries into a form that clients with these capabilities can apply.
///
/// What such a client holds in the end, and what it makes of its own changes, is the same as with the entries as they
/// are: an inserted Update has the path and the tag of the erasure behind it, and every rule of the merge treats both
/// alike.
package struct ChangesetAdapter {
    /// What becomes of a changeset.
    package enum Form: Equatable {
        case unchanged
        case changed([UInt8])
        /// The client cannot read it, for this reason.
        case unreadable(String)
    }

    private let capabilities: ClientCapabilities
    private let schema: Schema

    /// - Parameter state: the newest one.
    package init(for capabilities: ClientCapabilities, with state: ObjectGraph) {
        self.capabilities = capabilities
        schema = state.schema
    }

    /// - Parameter isErased: Whether the class, or one of the columns, was erased behind the changeset: what the schema
    ///   says of them is then of no use.
    package func form<Failure>(
        of changeset: ChangesetIndex, in arena: inout ChangesetArena,
        isErased: (_ className: [UInt8], _ columns: [ColumnName]) throws(Failure) -> Bool
    ) throws(Failure) -> Form {
        for index in arena.instructionIndices(of: changeset) {
            let instruction = arena[index]
            if let reason = whyUnreadable(instruction, in: arena) { return .unreadable(reason) }
            guard !capabilities.erasesAbsentEntries, instruction.kind == .update, instruction.type == .erased else {
                continue
            }
            let walk = PathWalk(along: instruction, in: arena, schema)
            if let place = walk.place, try !isErased(walk.className, walk.columns) {
                arena.insert(instruction.setting(valueOf: place), before: index)
            } else {
                // The client loses the entry with its column, a few changesets later.
                arena.discard(index)
            }
        }
        return arena.isDirty(changeset) ? .changed(arena.encoded(changeset)) : .unchanged
    }

    private func whyUnreadable(_ instruction: Instruction, in arena: ChangesetArena) -> String? {
        if !capabilities.readsAsymmetricClasses, instruction.kind == .addTable,
            instruction.tableType == .topLevelAsymmetric
        {
            return "asymmetric classes"
        }
        guard !capabilities.readsCollectionsInMixed else { return nil }
        let reason = "lists or dictionaries inside Mixed"
        switch instruction.kind {
        case .update, .arrayInsert, .setInsert, .setErase:
            if instruction.type == .list || instruction.type == .dictionary { return reason }
        case .clear:
            guard let place = PathWalk(along: instruction, in: arena, schema).place else { return nil }
            if place.collection == .single { return reason }
        default: break
        }
        return nil
    }
}

/// Where a path leads, as far as the schema tells.
private struct PathWalk {
    let className: [UInt8]
    /// The columns that it leads through.
    private(set) var columns: [ColumnName]
    /// What stands at its end; nil if the schema knows no such place.
    private(set) var place: Place?

    init(along instruction: Instruction, in arena: ChangesetArena, _ schema: Schema) {
        className = Array(arena.bytes(of: instruction.className))
        let field = Array(arena.bytes(of: instruction.field))
        columns = [ColumnName(className: className, field: field)]
        place = schema.number(of: className).flatMap { schema[$0].place(of: field) }
        for element in arena.path(of: instruction) {
            guard let current = place else { return }
            if current.collection == .single, current.isEmbedded, !element.isIndex {
                let state = schema[current.target], name = Array(arena.bytes(of: element.name))
                columns.append(ColumnName(className: state.name, field: name))
                place = state.place(of: name)
            } else {
                // Inside a Mixed everything is Mixed.
                place = current.collection != .single || current.isMixed ? current.element : nil
            }
        }
    }
}

extension Instruction {
    /// The Update with a value that the place takes: null, or the initial value of its type.
    fileprivate func setting(valueOf place: Place) -> Instruction {
        var update = self
        (update.type, update.word0, update.word1) = (.null, 0, 0)
        guard !place.isNullable else { return update }
        update.type = place.type
        if place.type == .decimal { (update.word0, update.word1) = (Decimal128.zero.low, Decimal128.zero.high) }
        return update
    }
}
