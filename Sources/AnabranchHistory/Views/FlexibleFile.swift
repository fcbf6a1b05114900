package import AnabranchCore
import AnabranchQuery

/// A synced file of which each client sees a part: the objects that its queries and its role let it see
/// (`Spec/FlexibleSync.md`). It belongs to one thread, like the `SyncedFile` that it works on.
package final class FlexibleFile {
    let file: SyncedFile
    private var views: [ClientFileID: ClientView]
    /// By class, which properties queries may name, beside the primary key; nil for all.
    package var queryableFields: [String: Set<String>]?
    private let roleOf: (ClientFileID) -> ViewRole

    /// - Parameters:
    ///   - file: kept with its state, and used by nobody else from now on.
    ///   - roleOf: what the user of a client file may do.
    /// - Throws: a failure of the store; `storeUnusable` if it keeps no views.
    package init(
        _ file: SyncedFile, roleOf: @escaping (ClientFileID) -> ViewRole = { _ in .full }
    ) throws(HistoryError) {
        self.file = file
        self.roleOf = roleOf
        guard let state = try file.currentState() else { throw HistoryError.withoutState }
        guard let store = file.store as? any ViewStore else {
            throw HistoryError(.storeUnusable, "the store keeps no views of flexible files")
        }
        views = Dictionary(
            uniqueKeysWithValues: try store.views(of: file.id).map {
                ($0.record.ident, ClientView($0, role: roleOf($0.record.ident), in: state))
            })
    }

    // MARK: IDENT

    /// Checks an IDENT and says where the session starts.
    ///
    /// - Throws: as `SyncedFile.identify`; `badChangeset` if the set that the client has cannot be read.
    package func identify(
        _ request: IdentRequest, user: String? = nil
    ) throws(HistoryError) -> ViewSession {
        let active = request.subscriptions ?? .none, queryVersion = active.version.rawValue
        guard let predicates = active.predicates else {
            throw HistoryError(.badChangeset, "the queries are no JSON object of texts")
        }
        let progress = try file.identify(request, user: user)
        let ident = request.file.ident, position = request.download.serverVersion
        var session = ViewSession(ident: ident, progress: progress, queryVersion: queryVersion, predicates: predicates)
        guard var view = views[ident], view.changed > 0 else {
            try begin(&session)
            return session
        }
        // If the client has not got the bootstrap of this set yet, nobody will ask for it.
        session.lostBootstrap = queryVersion
        if position >= view.changed, predicates == view.queries.predicates { view.queryVersion = queryVersion }
        view.compensations.removeAll { $0.version <= position }
        // A process that has ended may have told the client that up to there nothing concerns it.
        view.projected = max(view.projected, position)
        session.sentNumber = view.number(upTo: position)
        session.firstNumber = view.lastNumber + 1
        session.compensated = position
        views[ident] = view
        return session
    }

    /// The first bootstrap: the schema, and the objects of the set that the client has already, which is empty unless
    /// the client was restored.
    private func begin(_ session: inout ViewSession) throws(HistoryError) {
        let state = try currentState()
        var view = ClientView(of: session.ident, role: roleOf(session.ident))
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
                versionSalt: file.versionSalt, time: max(1, time))
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
        guard view.projected < file.head.version else { return view }
        let before = view.lastNumber
        let state = try currentState(), clientVersion = try ownVersion(of: ident)
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

extension ClientView {
    /// Changes what is in the view, at a version of its own.
    ///
    /// - Parameter bootstrap: the number of the set that the client waits for; nil if it waits for none.
    mutating func change(
        to wanted: ViewQueries, at version: ServerVersion, in state: ObjectGraph, _ clientVersion: ClientVersion,
        bootstrap: UInt64?
    ) throws(HistoryError) {
        var leaving: [ObjectReference] = [], entering: [ObjectReference] = []
        for name in wanted.classes(differingFrom: queries) {
            guard let number = state.schema(ofClass: Array(name.utf8))?.number else { continue }
            let className = Array(name.utf8), read = role[className].read
            let before = queries[className], after = wanted[className]
            try state.visit(number) { object throws(HistoryError) in
                guard let reference = object.reference, try read.includes(object, in: state) else { return }
                switch (try before.includes(object, in: state), try after.includes(object, in: state)) {
                case (true, false): leaving.append(reference)
                case (false, true): entering.append(reference)
                case (true, true), (false, false): break
                }
            }
        }
        var changesets = try state.changesets(leaving: leaving, entering: entering)
        // A bootstrap without any changeset never ends for the client.
        if changesets.isEmpty, bootstrap != nil, log.last?.version != version { changesets = [[]] }
        for changeset in changesets {
            appendSynthetic(version, clientVersion: clientVersion, changeset, bootstrap: bootstrap)
        }
        queries = wanted
        (changed, projected) = (version, version)
    }
}

extension ObjectGraph {
    fileprivate func visit(
        _ number: ClassID, _ body: (StateObject) throws(HistoryError) -> Void
    ) throws(HistoryError) {
        var failure: HistoryError?
        do throws(ApplyError) {
            try forEachObject(of: number) { object throws(ApplyError) in
                do throws(HistoryError) { try body(object) } catch {
                    failure = error
                    throw ApplyError.unavailable(error.reason)
                }
            }
        } catch {
            throw failure ?? HistoryError(readingStateFailed: error)
        }
    }
}

extension FlexibleFile {
    /// The newest state, without the objects that a client does not see: what the client has when it has everything.
    package func visibleState(to ident: ClientFileID) throws(HistoryError) -> ObjectGraph {
        let view = try projected(ident), state = try currentState()
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
