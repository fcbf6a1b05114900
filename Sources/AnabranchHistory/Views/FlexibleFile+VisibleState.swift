package import AnabranchCore
package import AnabranchRules

extension FlexibleFile {
    /// The newest state, without the objects that a client does not see: what the client has when it has everything.
    ///
    /// - Parameter rules: the rules of the client's user.
    package func visibleState(to ident: ClientFileID, by rules: UserRules) throws(HistoryError) -> ObjectGraph {
        guard var view = try view(of: ident) else {
            throw HistoryError(.badClientFileIdent, "client file \(ident) has no view")
        }
        let state = try currentState()
        view.role = ViewRole(rules, in: state)
        var hidden: [ObjectReference] = []
        for schema in state.classes where schema.kind == .topLevel {
            let isWanted = view.decides(in: schema.name)
            try state.visit(schema.number, after: nil, reading: isWanted) { object throws(HistoryError) in
                let isSeen = try view.includes(object, of: schema.name, in: state)
                if !isSeen, let reference = object.reference { hidden.append(reference) }
                return true
            }
        }
        var visible = state
        for changeset in try state.changesets(leaving: hidden, entering: []) {
            var arena = ChangesetArena()
            do {
                let index = try arena.decode(changeset, version: 1, tag: OriginTag(timestamp: 0, ident: .server))
                try visible.apply(index, of: arena)
            } catch {
                throw HistoryError(.storeDamaged, "objects cannot be left out: \(error)")
            }
        }
        return visible
    }
}
