package import AnabranchCore
package import AnabranchRules

/// Roles that change, because rules do or because the schema grows (`Spec/FlexibleSync.md`, section 3.7).
extension FlexibleFile {
    /// Has a view that is in use follow the rules of its user, which have changed.
    package func change(_ ident: ClientFileID, to rules: UserRules) throws(HistoryError) {
        views[ident]?.rules = rules
        _ = try projected(ident)
    }

    /// The role that a view should have; nil if it has that.
    func newRole(of view: ClientView, in state: ObjectGraph) -> ViewRole? {
        guard let rules = view.rules, rules != view.role.source || state.schemaSize > view.role.schemaSize else {
            return nil
        }
        return role(of: rules, in: state)
    }

    func role(of rules: UserRules, in state: ObjectGraph) -> ViewRole {
        if let known = roles[rules], known.schemaSize == state.schemaSize { return known }
        // Nobody asks for those of other schemas again, nor for many that nobody has any more.
        roles = roles.filter { $0.value.schemaSize == state.schemaSize && roles.count <= 2 * views.count }
        let role = ViewRole(rules, in: state)
        roles[rules] = role
        return role
    }

    /// Extends a view to the end of the log, where it has another role. Nobody is told what has happened meanwhile to
    /// objects that the new role does not let him read, whatever the old one did.
    func change(
        _ view: inout ClientView, to role: ViewRole, in state: ObjectGraph
    ) throws(HistoryError) -> ClientView {
        let clientVersion = try ownVersion(of: view.ident), isOther = role.rules != view.role.rules
        let touched = try extend(&view, in: state, as: role)
        let before = view.log.lastNumber, version = file.head.version + 1
        view = try expiring(view.ident) { [view] () throws(HistoryError) in
            var view = view
            try view.change(to: role, at: version, in: state, clientVersion, finding: &objects, passingOver: touched)
            return view
        }
        if view.log.lastNumber > before { view.projected = version }
        if isOther || view.log.lastNumber > views[view.ident]?.log.lastNumber ?? 0 {
            try commit(view)
        } else {
            keep(view)
        }
        return view
    }
}
