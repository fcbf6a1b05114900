package import AnabranchCore
import AnabranchRules

/// Views that follow the log, and the commits that keep them.
extension FlexibleFile {
    /// The findings about a view that is behind, where it takes more than a step to catch up.
    struct CatchUp {
        /// The version at which the view ends.
        var base: ServerVersion
        var looks = RangeLooks()
        /// The rules of the role that it is to have; nil if the role stays.
        var rules: UserRules?
    }

    /// The view of a client, up to date, with everything that it was missing committed.
    func projected(_ ident: ClientFileID) throws(HistoryError) -> ClientView {
        while true { if let view = try projected(ident, until: .none) { return view } }
    }

    /// The same, within a step.
    /// - Returns: nil if the step is over before all of it is known; the next call goes on.
    func projected(_ ident: ClientFileID, until limit: StepLimit) throws(HistoryError) -> ClientView? {
        try requireSession(of: ident)
        guard var view = try view(of: ident) else {
            throw HistoryError(.badClientFileIdent, "client file \(ident) has no view")
        }
        if index.contains(ident) { view.projected = version }
        let state = try currentState(), role = newRole(of: view, in: state)
        if role == nil, index.contains(ident) { return view }
        var catchUp = catchUps[ident] ?? CatchUp(base: view.projected)
        // A view that is kept up to date follows the log in between.
        if catchUp.base != view.projected { (catchUp.base, catchUp.looks) = (view.projected, RangeLooks()) }
        let start = ContinuousClock.now
        defer { quota?.charge(ident, ContinuousClock.now - start) }
        let before = view.log.lastNumber, old = view.role
        let isDone =
            if let role {
                try change(&view, to: role, in: state, &catchUp, until: limit)
            } else {
                try extend(&view, in: state, as: view.role, &catchUp.looks, until: limit) != nil
            }
        guard isDone else {
            // What is known of very many views is too much: this one begins anew until there is room.
            let others = catchUps.reduce(0) { $0 + ($1.key == ident ? 0 : $1.value.looks.count) }
            if others > looksMax { catchUp.looks = RangeLooks() }
            catchUps[ident] = catchUp
            return nil
        }
        if catchUps.removeValue(forKey: ident) != nil { forgetTouched() }
        // Where the view ends need not be stored: it can be found out again.
        if view.log.lastNumber > before || view.role.rules != old.rules { try commit(view) } else { keep(view) }
        return view
    }

    /// Extends a view to the end of the log.
    /// - Parameters:
    ///   - role: the one that it is to have there.
    ///   - limit: the step; if it has an end, the quota may end it earlier.
    /// - Returns: the objects that this was about; nil if the step is over before that is known.
    func extend(
        _ view: inout ClientView, in state: ObjectGraph, as role: ViewRole, _ looks: inout RangeLooks,
        until limit: StepLimit
    ) throws(HistoryError) -> Set<ObjectReference>? {
        let clientVersion = try ownVersion(of: view.ident), touched: Set<ObjectReference>?
        do {
            (view, looks, touched) = try file.read { [view, looks] stored throws(HistoryError) in
                var view = view, looks = looks
                let touched = try ViewProjection.extend(
                    &view, to: file.head.version, state, as: role, clientVersion: clientVersion,
                    longRangeBytes: longRangeBytes, reading: stored, entryObjects, knowing: &looks, instant: instant
                ) { limit.isEndless ? limit : quota?.step() ?? limit }
                return (view, looks, touched)
            }
        } catch {
            if error.code == .clientFileExpired { try expire(view.ident) }
            throw error
        }
        return touched
    }

    /// Restores the entries of a view that an earlier process sent to its client and never stored: in the view they are
    /// as in the log. Uploads that were made after some of them have to meet the others.
    /// - Parameter position: the version up to which the client has received them.
    func restore(_ view: inout ClientView, to position: ServerVersion) throws(HistoryError) {
        let confirmed = try file.clientFile(view.ident)?.uploadCursor.serverVersion ?? 0
        view.projected = max(view.projected, min(confirmed, position))
        let current = try currentState(), clientVersion = try ownVersion(of: view.ident)
        view = try file.read { [view] stored throws(HistoryError) in
            var view = view, looks = RangeLooks()
            let state = try ViewProjection.state(at: position, before: current, at: file.head.version, reading: stored)
            _ = try ViewProjection.extend(
                &view, to: position, state, as: view.role, clientVersion: clientVersion, longRangeBytes: .max,
                reading: stored, entryObjects, knowing: &looks, isInLog: true, instant: instant
            ) { .none }
            return view
        }
    }

    /// Takes the clients with a session whose views were left behind, since the last call, because the quota of their
    /// users is used up. Their sessions are to end: they catch up when they come back.
    package func takeOverQuota() -> Set<ClientFileID> {
        defer { overQuota = [] }
        return overQuota
    }

    /// True if there are such clients.
    package var isOverQuota: Bool { !overQuota.isEmpty }

    /// How many steps of turns a commit may take to find out what it means for views. Those for which it is not known
    /// then catch up in steps of their own.
    static let commitStepsMax = 8

    /// The views that a step concerns, among those that are up to date: `views` are stored with it; `others` get their
    /// results when it is stored, since the log alone says them.
    private struct Concerned {
        var views: [ClientView] = []
        var others: [(ident: ClientFileID, result: ViewProjection.Result, clientVersion: ClientVersion)] = []
    }

    private func views(
        concernedBy step: LogStep, except author: ClientFileID?
    ) throws(HistoryError) -> Concerned {
        var concerned = Concerned(), steps = Self.commitStepsMax, limit = quota?.step() ?? .none, madeBytes = 0
        for members in try index.members(concernedBy: step) {
            var result: ViewProjection.Result?, isKnown = false
            if limit.isOver, steps > 0 {
                steps -= 1
                limit = quota?.step() ?? .none
            }
            if madeBytes > madeBytesMax { steps = 0 }
            for ident in members where ident != author {
                guard let (isFull, entryCount) = views[ident].map({ ($0.isLogFull, $0.log.entries.count) }) else {
                    continue
                }
                if let quota, quota.isUsedUp(ident) {
                    leaveBehind(ident)
                    overQuota.insert(ident)
                    continue
                }
                if result == nil, steps > 0, let view = views[ident] {
                    let start = ContinuousClock.now
                    result = try ViewProjection.result(of: step, for: view, until: limit)
                    quota?.charge(ident, ContinuousClock.now - start)
                    evaluationCount += 1
                    madeBytes += result?.byteCount ?? 0
                }
                guard let result else {
                    leaveBehind(ident)
                    continue
                }
                if result.isEmpty { break }
                if isFull || entryCount >= entriesOfViewMax {
                    leaveBehind(ident, isTold: isFull)
                    continue
                }
                if result.isInLog {
                    concerned.others.append((ident, result, try ownVersion(of: ident)))
                    continue
                }
                guard var view = views[ident] else { continue }
                view.append(
                    result, endingAt: step.entries.last?.version ?? file.head.version, try ownVersion(of: ident),
                    isKnown: isKnown)
                isKnown = true
                concerned.views.append(view)
            }
        }
        return concerned
    }

    /// Stops keeping a view up to date: it ends at the head of the log.
    /// - Parameter isTold: whether the client is told that there is more before it confirms what it has.
    func leaveBehind(_ ident: ClientFileID, isTold: Bool = true) {
        guard index.contains(ident) else { return }
        views[ident]?.projected = version
        index.remove(ident)
        if isTold { news.insert(ident) } else { held.insert(ident) }
    }

    /// Tells a client of what it was not told of, once it has less than its share to confirm.
    func release(_ ident: ClientFileID) {
        guard held.contains(ident), let view = views[ident], view.log.entries.count < entriesOfViewMax else { return }
        held.remove(ident)
        news.insert(ident)
    }

    func keep(_ view: ClientView) {
        views[view.ident] = view
        unload(view.ident)
        guard connected.contains(view.ident) else { return markAway(view) }
        // A set counts from the time on at which it is looked for.
        sets.record(view.ident, searches[view.ident]?.queries.predicates ?? view.queries.predicates)
        index.insert(view)
        held.remove(view.ident)
    }

    /// Forgets the contents of entries that the store has.
    func unload(_ ident: ClientFileID) {
        guard !file.isAhead else { return }
        views[ident]?.log.unload(until: connected.contains(ident) ? ViewLog.loadedBytesMax : 0)
    }

    /// To be called when a deferred commit has been stored.
    package func didStore(_ commit: Commit) {
        for change in commit.views { unload(change.record.ident) }
        unloadAway()
    }

    func ownVersion(of ident: ClientFileID) throws(HistoryError) -> ClientVersion {
        if let known = ownVersions[ident] { return known }
        let row = try clientFile(ident)
        let version = row?.newestReceipt?.clientVersion ?? row?.baseClientVersion ?? 0
        if connected.contains(ident) { ownVersions[ident] = version }
        return version
    }

    /// A client file as it is, written or not; nil if there is none.
    func clientFile(_ ident: ClientFileID) throws(HistoryError) -> ClientFile? {
        try file.read(missesTail: false) { view throws(HistoryError) in try file.current(ident, in: view) }
    }

    /// The state at the version that the views know.
    func currentState() throws(HistoryError) -> ObjectGraph {
        guard let state = try file.currentState() else { throw HistoryError.withoutState }
        try requireFollowed()
        return state
    }

    /// Stores a view. Changes to the view alone have versions beyond the log: entries without a changeset take them, so
    /// that uploads made before and after such a change differ in their base.
    ///
    /// - Parameter begun: the client file, if the view is its first.
    func commit(_ view: ClientView, of begun: ClientFile? = nil) throws(HistoryError) {
        try requireFollowed()
        var commit = Commit(file: file.id, lease: file.lease, head: file.head)
        if var begun {
            begun.lineage = .view(view.projected)
            commit.clientFiles = [begun]
        }
        let head = file.head
        if view.projected > head.version {
            // The server's own writes never go back to before the time of the newest entry.
            let newest = try file.read(missesTail: false) { view throws(HistoryError) in
                try view.entryWithoutChangeset(head.version)?.timestamp ?? 0
            }
            commit.entries = (head.version.rawValue + 1...view.projected.rawValue).map { version in
                LogEntry(
                    version: ServerVersion(rawValue: version), salt: file.versionSalt, origin: 0, clientVersion: 0,
                    timestamp: newest, cumulativeSize: head.cumulativeSize, changeset: [])
            }
            commit.state = StateUpdate(version: view.projected, after: try currentState(), changes: StateChanges())
        }
        try self.commit(view, in: commit)
    }

    /// - Parameters:
    ///   - view: the view of the client that has caused the commit, at its end.
    ///   - step: the addition to the log that others may see.
    func commit(_ view: ClientView?, in commit: Commit, _ step: LogStep? = nil) throws(HistoryError) {
        var commit = commit
        let concerned = try step.map { step throws(HistoryError) in
            try views(concernedBy: step, except: view?.ident)
        }
        let changed = (view.map { [$0] } ?? []) + (concerned?.views ?? [])
        commit.views = changed.map { change(from: views[$0.ident], to: $0) } + takeConfirmed(butNot: changed)
        var fields = fields
        commit.viewFields = unstoredFields + changed.flatMap { fields.add($0) }
        let changes = try step.map { step throws(HistoryError) in try objects.changes(by: step) } ?? []
        try store(commit)
        (self.fields, unstoredFields) = (fields, [])
        objects.apply(changes)
        if let step, isTouchedNoted {
            touched.record(step)
            forgetTouched()
        }
        for view in changed {
            keep(view)
            if connected.contains(view.ident) { news.insert(view.ident) }
        }
        for (ident, result, clientVersion) in concerned?.others ?? [] {
            // In place: a copy would copy everything that the client has not confirmed.
            views[ident]?.append(result, endingAt: file.head.version, clientVersion, isKnown: false)
            news.insert(ident)
        }
        // Clients that no version concerns still have to learn the newest one, so that the log can forget older ones.
        if file.head.version.rawValue >= announcedVersion.rawValue + Self.unannouncedVersionsMax {
            news = connected.subtracting(held)
            announcedVersion = file.head.version
        }
    }
}
