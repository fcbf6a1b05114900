package import AnabranchCore
package import AnabranchRules
import DequeModule

/// Roles that change, because rules do or because the schema grows (`Spec/FlexibleSync.md`, section 3.7).
extension FlexibleFile {
    /// Makes a view that is in use follow the rules of its user, which have changed: when it is next looked at, or when
    /// `changeLong` reaches it.
    package func change(_ ident: ClientFileID, to rules: UserRules) {
        guard views[ident] != nil, views[ident]?.rules != rules else { return }
        views[ident]?.rules = rules
        if !longChanges.contains(ident) { longChanges.append(ident) }
    }

    /// True while views are to follow rules that have changed.
    package var hasLongChanges: Bool { !longChanges.isEmpty }

    /// Adapts views to changed rules, until the step is over or too much waits to be stored.
    /// - Returns: the clients that cannot follow, and why.
    /// - Throws: a failure of the store, after which the file can no longer be used.
    package func changeLong(until limit: StepLimit) throws(HistoryError) -> [(ClientFileID, HistoryError)] {
        var failures: [(ClientFileID, HistoryError)] = []
        isChangingLong = true
        defer { (isChangingLong, roleVersion) = (false, nil) }
        while let ident = longChanges.popFirst() {
            do throws(HistoryError) {
                guard connected.contains(ident) else { continue }
                let view = try retrying { () throws(HistoryError) in try projected(ident, until: limit) }
                if view == nil { longChanges.append(ident) }
            } catch {
                guard !error.isStoreFailure else { throw error }
                failures.append((ident, error))
            }
            if limit.isOver || isDraftFull { break }
        }
        return failures
    }

    /// The role that a view should have; nil if it has that already.
    func newRole(of view: ClientView, in state: ObjectGraph) -> ViewRole? {
        guard let rules = view.rules, rules != view.role.source || state.schemaSize > view.role.schemaSize else {
            return nil
        }
        return role(of: rules, in: state)
    }

    func role(of rules: UserRules, in state: ObjectGraph) -> ViewRole {
        if let known = roles[rules], known.schemaSize == state.schemaSize { return known }
        // Roles for other schemas are not used again, nor are most that no view has any more.
        roles = roles.filter { $0.value.schemaSize == state.schemaSize && roles.count <= 2 * views.count }
        let role = ViewRole(rules, in: state)
        roles[rules] = role
        return role
    }

    /// Extends a view to the end of the log, where it has another role. The client does not get the changes since then
    /// of objects that the new role does not let it read, even if the old one did.
    /// - Returns: false if the step is over before all of it is known.
    func change(
        _ view: inout ClientView, to role: ViewRole, in state: ObjectGraph, _ catchUp: inout CatchUp,
        until limit: StepLimit
    ) throws(HistoryError) -> Bool {
        var after = view
        after.role = role
        // Objects were looked at with the role that the view was to have then.
        if catchUp.rules != role.rules { (catchUp.rules, catchUp.looks) = (role.rules, RangeLooks()) }
        guard let question = try search(from: view, to: after, until: limit),
            let told = try extend(&view, in: state, as: role, &catchUp.looks, until: limit)
        else { return false }
        var found: SharedChangesets
        if told.isEmpty {
            found = try sharedSearches.changesets(
                for: question, endingAt: ObjectGraph.syntheticBytes, in: state)
        } else {
            let changesets = try sharedSearches[question]?.changesets(in: state, passingOver: told) ?? []
            found = SharedChangesets(changesets)
        }
        // Nobody has heard of that version yet.
        let common = roleVersion.flatMap { $0 == file.head.version && view.projected <= $0 ? $0 : nil }
        let before = view.log.lastNumber, version = common ?? max(view.projected, file.head.version) + 1
        view.change(
            to: role, with: found.bytes, at: version, try ownVersion(of: view.ident), shares: found.shares)
        if view.log.lastNumber > before { view.projected = version }
        if isChangingLong, view.projected == version { roleVersion = version }
        return true
    }
}
