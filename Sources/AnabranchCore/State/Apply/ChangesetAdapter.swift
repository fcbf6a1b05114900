// The form of changesets for clients of older releases (`Spec/Protocol.md`, section 6.1).

/// Brings log entries into a form that clients with these capabilities can apply.
///
/// Such a client reaches the same state, and merges its own changes in the same way, as with the original entries: an
/// inserted Update has the path and the tag of the erasure that follows it, and every rule of the merge treats both
/// alike.
package struct ChangesetAdapter {
    /// The form in which a client gets a changeset.
    package enum Form: Equatable {
        case unchanged
        case changed([UInt8])
        /// The client cannot read it, for this reason.
        case unreadable(String)
    }

    private let capabilities: ClientCapabilities
    private let schema: Schema

    /// - Parameter state: the newest state.
    package init(for capabilities: ClientCapabilities, with state: ObjectGraph) {
        self.capabilities = capabilities
        schema = state.schema
    }

    /// True if there can be anything to change or to refuse: most schemas have no collections with Mixed.
    package var isNeeded: Bool {
        !capabilities.readsCollectionsInMixed || !capabilities.readsAsymmetricClasses
            || !capabilities.erasesAbsentEntries || !capabilities.overwritesDanglingLinks && schema.hasMixed
    }

    /// - Parameter isErased: Whether the class, or one of the columns, was erased after the changeset: the schema then
    ///   does not describe them.
    package func form<Failure>(
        of changeset: ChangesetIndex, in arena: inout ChangesetArena,
        isErased: (_ className: [UInt8], _ columns: [ColumnName]) throws(Failure) -> Bool
    ) throws(Failure) -> Form {
        for index in arena.instructionIndices(of: changeset) {
            let instruction = arena[index]
            if let reason = whyUnreadable(instruction, in: arena) { return .unreadable(reason) }
            guard instruction.kind == .update, isAdapted(instruction, in: arena) else { continue }
            let walk = PathWalk(along: instruction, in: arena, schema)
            guard let place = walk.place, try !isErased(walk.className, walk.columns) else {
                // The client loses the entry, or the element, with its column, a few changesets later.
                arena.discard(index)
                continue
            }
            if instruction.type == .erased {
                arena.insert(instruction.setting(valueOf: place), before: index)
            } else if place.isMixed {
                // The client can write any value over a Bool, but not null or a link over a dangling link.
                arena.insert(instruction.settingFalse, before: index)
            }
        }
        return arena.isDirty(changeset) ? .changed(arena.encoded(changeset)) : .unchanged
    }

    /// True if the Update may need another one before it.
    private func isAdapted(_ update: Instruction, in arena: ChangesetArena) -> Bool {
        switch update.type {
        case .erased: !capabilities.erasesAbsentEntries
        case .link, .null: !capabilities.overwritesDanglingLinks && arena.path(of: update).contains { $0.isIndex }
        default: false
        }
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

/// The columns and the place that a path leads to, as far as the schema tells.
private struct PathWalk {
    let className: [UInt8]
    /// The columns that the path leads through.
    private(set) var columns: [ColumnName]
    /// The place at the end of the path; nil if the schema has no such place.
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

extension Schema {
    /// True if there is a property that is Mixed or a collection of Mixed.
    fileprivate var hasMixed: Bool {
        classes.contains { $0.columns.contains { $0?.place.isMixed ?? false } }
    }
}

extension Instruction {
    /// The Update with Bool false.
    fileprivate var settingFalse: Instruction {
        var update = self
        (update.type, update.word0, update.word1) = (.bool, 0, 0)
        return update
    }

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
