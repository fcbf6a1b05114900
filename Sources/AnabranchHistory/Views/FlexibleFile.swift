package import AnabranchCore
import AnabranchQuery
package import AnabranchRules

/// A synced file of which each client sees a part: the objects that its queries and its role let it see
/// (`Spec/FlexibleSync.md`). It belongs to one thread, like the `SyncedFile` that it works on.
package final class FlexibleFile {
    let file: SyncedFile
    private var views: [ClientFileID: ClientView]
    /// Which properties queries may name.
    package var queryableFields = QueryableFields()
    /// Whether clients may not add classes and columns.
    package var isSchemaFixed = false
    /// Those that were made for the present schema: views of equal rules share one.
    private var roles: [UserRules: ViewRole] = [:]

    /// - Parameter file: kept with its state, and used by nobody else from now on.
    /// - Throws: a failure of the store; `storeUnusable` if it keeps no views.
    package init(_ file: SyncedFile) throws(HistoryError) {
        self.file = file
        guard let state = try file.currentState() else { throw HistoryError.withoutState }
        guard let store = file.store as? any ViewStore else {
            throw HistoryError(.storeUnusable, "the store keeps no views of flexible files")
        }
        views = [:]
        for stored in try store.views(of: file.id) { views[stored.record.ident] = try ClientView(stored, in: state) }
    }

    // MARK: IDENT

    /// Checks an IDENT and says where the session starts.
    ///
    /// - Parameter rules: what the user may do.
    /// - Throws: as `SyncedFile.identify`; `badChangeset` if the set that the client has cannot be read.
    package func identify(
        _ request: IdentRequest, user: String? = nil, rules: UserRules = .everything
    ) throws(HistoryError) -> ViewSession {
        let active = request.subscriptions ?? .none, queryVersion = active.version.rawValue
        guard let predicates = active.predicates else {
            throw HistoryError(.badChangeset, "the queries are no JSON object of texts")
        }
        let progress = try file.identify(request, user: user)
        let ident = request.file.ident, position = request.download.serverVersion
        var session = ViewSession(ident: ident, progress: progress, queryVersion: queryVersion, predicates: predicates)
        guard var view = views[ident], view.changed > 0 else {
            try begin(&session, rules)
            return session
        }
        if position < view.changed, queryVersion == view.queryVersion {
            // Nobody will ask for the bootstrap that got lost.
            session.lostBootstrap = queryVersion
        } else if position >= view.changed, predicates == view.queries.predicates {
            view.queryVersion = queryVersion
        }
        view.compensations.removeAll { $0.version <= position }
        // A process that has ended may have told the client that up to there nothing concerns it.
        view.projected = max(view.projected, position)
        session.sentNumber = view.number(upTo: position)
        session.firstNumber = view.lastNumber + 1
        session.compensated = position
        view.rules = rules
        views[ident] = view
        return session
    }

    /// The first bootstrap: the schema, and the objects of the set that the client has already, which is empty unless
    /// the client was restored.
    private func begin(_ session: inout ViewSession, _ rules: UserRules) throws(HistoryError) {
        let state = try currentState()
        var view = ClientView(of: session.ident, role: role(of: rules, in: state))
        view.rules = rules
        view.queryVersion = session.queryVersion
        let clientVersion = try ownVersion(of: session.ident)
        let version = file.head.version + 1
        var schema = BootstrapChangesets(of: state, endingAt: .max, hasObjects: false)
        do {
            view.appendSynthetic(
                version, clientVersion: clientVersion, try schema.next() ?? [], bootstrap: session.queryVersion)
        } catch {
            throw HistoryError(readingStateFailed: error)
        }
        let wanted = ViewQueries(accepted: session.predicates, in: state)
        try view.change(to: wanted, at: version, in: state, clientVersion, bootstrap: session.queryVersion)
        try commit(view, addingVersion: true)
    }

    // MARK: QUERY

    /// Changes what the client sees.
    ///
    /// - Returns: why the set is refused, in the words that the client is told; nil if it is not.
    /// - Throws: a failure of the store, or `clientFileExpired`.
    package func query(
        _ subscriptions: SubscriptionSet, in session: inout ViewSession
    ) throws(HistoryError) -> String? {
        let queryVersion = subscriptions.version.rawValue
        let state = try currentState()
        var view = try projected(session.ident)
        let predicates = subscriptions.predicates, wanted: ViewQueries
        do throws(QueryError) {
            guard let predicates else { throw QueryError(.syntax, at: 0, "Invalid query: no JSON object of texts") }
            wanted = try ViewQueries(predicates, in: state, queryableFields: queryableFields)
        } catch {
            if error.kind == .unavailable { throw HistoryError(.storeFailed, error.reason) }
            // The client goes on with the set that it has, which may not be that of the view any more.
            if view.queries.predicates != session.predicates {
                try change(&view, to: ViewQueries(accepted: session.predicates, in: state), bootstrap: nil)
                view.queryVersion = session.queryVersion
                views[session.ident] = view
            }
            return error.reason
        }
        view.queryVersion = queryVersion
        try change(&view, to: wanted, bootstrap: queryVersion)
        (session.queryVersion, session.predicates) = (queryVersion, wanted.predicates)
        return nil
    }

    private func change(
        _ view: inout ClientView, to wanted: ViewQueries, bootstrap: UInt64?
    ) throws(HistoryError) {
        let clientVersion = try ownVersion(of: view.ident)
        try view.change(
            to: wanted, at: file.head.version + 1, in: try currentState(), clientVersion, bootstrap: bootstrap)
        try commit(view, addingVersion: true)
    }

    // MARK: UPLOAD

    /// Integrates what `SessionProgress.accept` has left of an upload.
    ///
    /// - Parameter time: seconds since 1970.
    /// - Returns: the objects that were refused.
    /// - Throws: why all of it is refused, or a failure of the store; then nothing has happened.
    @discardableResult
    package func integrate(
        _ upload: Upload, from ident: ClientFileID, at time: UInt64
    ) throws(HistoryError) -> [CompensatingWrite.Object] {
        let view = try projected(ident), state = try currentState()
        let limits = ApplyLimits(
            objectBytesMax: file.mergeOptions.objectBytesMax, loadedBytesMax: file.mergeOptions.appliedBytesMax)
        let integration = try file.read { stored throws(HistoryError) in
            guard let row = try file.current(ident, in: stored), row.salt != 0 else {
                throw HistoryError(.badClientFileIdent, "there is no client file \(ident)")
            }
            try require(!row.isExpired, .clientFileExpired, "the client file has expired")
            var integration = ViewIntegration(
                into: view, of: row, PendingState(state, within: limits),
                past: PendingLog(continuing: stored, head: file.head), options: file.mergeOptions,
                isSchemaFixed: isSchemaFixed, versionSalt: file.versionSalt, time: max(1, time))
            try integration.integrate(upload)
            return integration.outcome
        }
        var commit = Commit(file: file.id, lease: file.lease, head: file.head)
        commit.entries = integration.entries
        commit.conflictKeys = integration.conflictKeys
        commit.received = integration.received
        commit.clientFiles = [integration.file]
        commit.state = integration.state
        try self.commit(integration.view, in: commit)
        return integration.refusals
    }

    /// As `SyncedFile.noteProgress`.
    package func noteProgress(
        _ upload: Upload, from ident: ClientFileID, at time: UInt64
    ) throws(HistoryError) -> Bool {
        guard try file.noteProgress(upload, from: ident, at: time) else { return false }
        views[ident]?.confirm(upload.progress.serverVersion)
        return true
    }

    // MARK: Writes of the server

    /// As `SyncedFile.write`: a transaction that clients are sent as far as they see what it is about.
    ///
    /// - Parameter isAccepted: whether the changeset that was recorded stays; otherwise nothing has happened.
    @discardableResult
    package func write(
        at timestamp: ChangesetTime, idempotencyKey: String? = nil,
        if isAccepted: ([UInt8]) throws -> Bool = { _ in true }, _ body: (WriteTransaction) throws -> Void
    ) throws -> ServerWrite {
        let before = try currentState(), version = file.head.version
        let (commit, made) = try file.prepareWrite(idempotencyKey: idempotencyKey, at: timestamp, body)
        guard var commit else { return made }
        if let entry = commit.entries.first, let after = commit.state?.after {
            guard try isAccepted(entry.changeset) else { return ServerWrite(version: version, isRepetition: false) }
            var arena = ChangesetArena()
            let index = try entry.decode(into: &arena)
            let touched = try arena.touchedObjects(of: index).map { try after.reference(to: $0) }
            commit.entries[0].section = try BeforeImage(of: touched, in: before).section
        }
        try file.commit(commit)
        return made
    }

    // MARK: DOWNLOAD

    /// The next message of a session; nil if there is nothing to be said.
    ///
    /// - Parameters:
    ///   - byteBudget: at about how many bytes of changesets a message ends that is not a bootstrap.
    /// - Throws: a failure of the store, or `clientFileExpired`.
    ///   - isAnswer: whether there is a message in any case.
    package func download(
        for session: inout ViewSession, byteBudget: Int = 128 << 10, isAnswer: Bool = false
    ) throws(HistoryError) -> ViewDownload? {
        let view = try projected(session.ident)
        guard let row = try file.clientFile(session.ident) else {
            throw HistoryError(.badClientFileIdent, "there is no client file \(session.ident)")
        }
        return try session.next(
            of: view, at: file.head, acknowledging: row.uploadCursor, try ownVersion(of: session.ident), byteBudget,
            isAnswer: isAnswer)
    }

    // MARK: Views

    /// A view that knows of everything; what it had to be told is durable.
    private func projected(_ ident: ClientFileID) throws(HistoryError) -> ClientView {
        guard var view = views[ident] else {
            throw HistoryError(.badClientFileIdent, "client file \(ident) has no view")
        }
        let state = try currentState()
        if let role = newRole(of: view, in: state) { return try change(&view, to: role, in: state) }
        guard view.projected < file.head.version else { return view }
        let before = view.lastNumber
        let clientVersion = try ownVersion(of: ident)
        view = try file.read { [view] stored throws(HistoryError) in
            var view = view
            try ViewProjection.extend(
                &view, to: file.head.version, state, clientVersion: clientVersion, reading: stored)
            return view
        }
        // Where the view ends need not be stored: it can be found out again.
        if view.lastNumber > before { try commit(view, addingVersion: false) } else { views[ident] = view }
        return view
    }

    /// Has a view that is in use follow the rules of its user, which have changed.
    package func change(_ ident: ClientFileID, to rules: UserRules) throws(HistoryError) {
        views[ident]?.rules = rules
        _ = try projected(ident)
    }

    /// The role that a view should have; nil if it has that.
    private func newRole(of view: ClientView, in state: ObjectGraph) -> ViewRole? {
        guard let rules = view.rules, rules != view.role.source || state.schemaSize > view.role.schemaSize else {
            return nil
        }
        return role(of: rules, in: state)
    }

    private func role(of rules: UserRules, in state: ObjectGraph) -> ViewRole {
        if let known = roles[rules], known.schemaSize == state.schemaSize { return known }
        // Nobody asks for those of other schemas again, nor for many that nobody has any more.
        roles = roles.filter { $0.value.schemaSize == state.schemaSize && roles.count <= 2 * views.count }
        let role = ViewRole(rules, in: state)
        roles[rules] = role
        return role
    }

    /// Extends a view with the role that it has, and gives it another one then.
    private func change(
        _ view: inout ClientView, to role: ViewRole, in state: ObjectGraph
    ) throws(HistoryError) -> ClientView {
        let clientVersion = try ownVersion(of: view.ident), isOther = role.rules != view.role.rules
        view = try file.read { [view] stored throws(HistoryError) in
            var view = view
            try ViewProjection.extend(
                &view, to: file.head.version, state, clientVersion: clientVersion, reading: stored)
            return view
        }
        let before = view.lastNumber, version = file.head.version + 1
        try view.change(to: role, at: version, in: state, clientVersion)
        let isLonger = view.lastNumber > before
        if isLonger { view.projected = version }
        if isOther || view.lastNumber > views[view.ident]?.lastNumber ?? 0 {
            try commit(view, addingVersion: isLonger)
        } else {
            views[view.ident] = view
        }
        return view
    }

    private func ownVersion(of ident: ClientFileID) throws(HistoryError) -> ClientVersion {
        let row = try file.read(missesTail: false) { view throws(HistoryError) in try file.current(ident, in: view) }
        return row?.newestReceipt?.clientVersion ?? row?.baseClientVersion ?? 0
    }

    private func currentState() throws(HistoryError) -> ObjectGraph {
        guard let state = try file.currentState() else { throw HistoryError.withoutState }
        return state
    }

    /// - Parameter addsVersion: an entry without a changeset takes a version for what happens to the view alone, so
    ///   that uploads made before and after it differ in their base.
    private func commit(_ view: ClientView, addingVersion addsVersion: Bool) throws(HistoryError) {
        var commit = Commit(file: file.id, lease: file.lease, head: file.head)
        if addsVersion {
            let head = file.head, version = head.version + 1
            commit.entries = [
                LogEntry(
                    version: version, salt: file.versionSalt, origin: 0, clientVersion: 0, timestamp: 0,
                    cumulativeSize: head.cumulativeSize, changeset: [])
            ]
            commit.state = StateUpdate(version: version, after: try currentState(), changes: StateChanges())
        }
        try self.commit(view, in: commit)
    }

    private func commit(_ view: ClientView, in commit: Commit) throws(HistoryError) {
        var commit = commit
        commit.views = [ViewChange(from: views[view.ident], to: view)]
        try file.commit(commit)
        views[view.ident] = view
    }
}

extension FlexibleFile {
    /// The newest state, without the objects that a client does not see: what the client has when it has everything.
    ///
    /// - Parameter rules: of the client's user.
    package func visibleState(to ident: ClientFileID, by rules: UserRules) throws(HistoryError) -> ObjectGraph {
        var view = try projected(ident)
        let state = try currentState()
        view.role = ViewRole(rules, in: state)
        var hidden: [ObjectReference] = []
        for schema in state.classes where schema.kind == .topLevel {
            try state.visit(schema.number) { object throws(HistoryError) in
                guard let reference = object.reference else { return }
                if try !view.includes(object, of: schema.name, in: state) { hidden.append(reference) }
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
