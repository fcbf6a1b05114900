import AnabranchCore
import AnabranchRules

/// Clients that come for the first time with a copy of another client's file, one that is bundled with an application
/// for example (`Spec/FlexibleSync.md`, section 3.4).
extension FlexibleFile {
    /// Begins the view of a copy. It has the objects of its set at its cursor, and gets the changes since. Of a class
    /// that its user may not read as a whole, the client gets everything that the user may read: it is unknown what the
    /// maker of the copy could read.
    ///
    /// - Throws: `clientFileExpired` if the log no longer says what the set showed there.
    func beginCopy(
        _ session: inout ViewSession, at request: IdentRequest, _ rules: UserRules
    ) throws(HistoryError) {
        let position = request.download.serverVersion
        let state = try currentState(), role = role(of: rules, in: state), clientVersion: ClientVersion = 0
        var view = ClientView(of: session.ident, role: ViewRole(rules.ofWholeClasses, in: state))
        view.rules = rules
        view.queries = ViewQueries(accepted: session.predicates, in: state)
        view.queryVersion = session.queryVersion
        (view.changed, view.projected) = (position, position)
        try require(
            fields.decide(view, since: position), .clientFileExpired,
            "the log does not say which objects the set of the copy had at version \(position)")
        var looks = RangeLooks()
        let touched = try extend(&view, in: state, as: role, &looks, until: .none) ?? []
        let before = view.log.lastNumber
        let version = max(view.projected, file.head.version) + 1
        try view.change(to: role, at: version, in: state, clientVersion, finding: &objects, passingOver: touched)
        if view.log.lastNumber > before { view.projected = version }
        session.firstNumber = view.log.lastNumber + 1
        try commit(view, of: try file.clientFile(session.ident))
    }

    /// Removes the mark of `ViewSession.next` from the newest version that a client names.
    /// - Returns: whether it was there: the client had received only a part of the changes of its set.
    func unmark(_ request: inout IdentRequest) throws(HistoryError) -> Bool {
        let latest = request.latest, salt = latest.salt.within(request.download.serverVersion)
        guard latest != SaltedVersion(version: file.head.version, salt: file.head.versionSalt) else { return false }
        let isMarked = try file.read { [head = file.head] view throws(HistoryError) in
            if try SyncedFile.isSalt(latest.salt, of: latest.version, head: head, view: view) { return false }
            return try SyncedFile.isSalt(salt, of: latest.version, head: head, view: view)
        }
        if isMarked { request.latest.salt = salt }
        return isMarked
    }
}
