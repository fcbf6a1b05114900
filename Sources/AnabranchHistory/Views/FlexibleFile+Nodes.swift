package import AnabranchCore

/// One node among several that write the file (`Spec/Nodes.md`, section 8). A view belongs to the node of its client's
/// newest session. What other nodes have written each node takes in for the views of its own clients.
extension FlexibleFile {
    /// The newest version that the views know.
    package var version: ServerVersion { file.isShared ? followed.version : file.head.version }

    /// True if the file has taken in what the views do not know.
    package var isBehind: Bool {
        file.isShared && (file.head.version != followed.version || file.head.bounds != followed.bounds)
    }

    /// Takes in changes by other nodes, as `SyncedFile.follow`.
    package func follow() throws(HistoryError) {
        guard file.isShared else { return }
        try file.follow()
        try file.retrying { () throws(HistoryError) in try takeIn() }
    }

    /// Calls `body`, and once more whenever others have written in between.
    func retrying<Result>(_ body: () throws(HistoryError) -> Result) throws(HistoryError) -> Result {
        guard file.isShared else { return try body() }
        return try file.retrying { () throws(HistoryError) in
            try takeIn()
            return try body()
        }
    }

    /// Refuses to work on a head that the views do not know.
    func requireFollowed() throws(HistoryError) {
        guard !isBehind else { throw .conflict(of: file.id, "the log") }
    }

    // MARK: Taking in

    /// The largest part of the log that is looked at as one step, in bytes and in versions.
    private static let stepBytesMax = 4 << 20, stepVersionsMax: UInt64 = 4_096

    /// Has the views take in what the file has taken in.
    func takeIn() throws(HistoryError) {
        guard isBehind, let state = try file.currentState() else { return }
        isTakingIn = true
        defer { isTakingIn = false }
        let now = file.head
        let hasLearned = now.bounds != followed.bounds
        let learned = hasLearned ? FieldNames(stored: try file.viewFields(in: store) + unstoredFields) : nil
        // Earlier entries need not say what others have begun to ask for since.
        if now.version > followed.version { objects.keep(fields, in: state) }
        if let learned { fields = learned }
        if now.version > followed.version {
            if let step = try step(to: now, state) {
                try commit(nil, in: Commit(file: file.id, lease: file.lease, head: now), step)
            } else {
                beginAnew()
            }
        }
        followed = file.head
    }

    /// The entries that others have written; nil if they are too many, are not all there any more, or do not say how
    /// all objects were before them.
    private func step(to now: FileHead, _ state: ObjectGraph) throws(HistoryError) -> LogStep? {
        let range = VersionRange(after: followed.version, through: now.version)
        guard range.base >= now.baseVersion, now.version.rawValue - range.base.rawValue <= Self.stepVersionsMax,
            now.cumulativeSize - followed.cumulativeSize <= UInt64(Self.stepBytesMax)
        else { return nil }
        let entries = try file.read(missesTail: false) { view throws(HistoryError) in
            var replay = LogReplay(range), entries: [LogEntry] = []
            while !replay.isDone { entries += try replay.next(from: view) }
            return entries
        }
        var before = state, known: Set<ObjectReference> = []
        for entry in entries {
            let unknown = try BeforeImage(of: entry)?.apply(to: &before, passingOver: &known) ?? []
            guard unknown.isEmpty else { return nil }
        }
        return try LogStep(entries, from: before, to: state)
    }

    /// Lets all views catch up, each by itself, and forgets what was found out about the state as it was.
    private func beginAnew() {
        for ident in connected.sorted() {
            leaveBehind(ident)
            if let view = views[ident] { views[ident]?.projected = max(view.projected, file.head.baseVersion) }
        }
        objects = ObjectIndex()
        sharedSearches = SharedSearches()
        catchUps = [:]
        restartUploads()
        forgetTouched()
    }

    // MARK: Commits

    func change(from before: ClientView?, to view: ClientView) -> ViewChange {
        ViewChange(from: before, to: view, session: file.ownSessions[view.ident] ?? 0)
    }

    /// Commits, unless there is nothing to change. If that does not fit, views that belong to other nodes by now go.
    func store(_ commit: Commit) throws(HistoryError) {
        guard !commit.isEmpty else { return }
        if !isTakingIn { try requireFollowed() }
        do throws(HistoryError) { try file.commit(commit) } catch {
            if error.code == .conflict { try forgetOthers(commit.views.map(\.record.ident)) }
            throw error
        }
        if !isTakingIn { followed = file.head }
    }

    private func forgetOthers(_ idents: [ClientFileID]) throws(HistoryError) {
        guard !idents.isEmpty else { return }
        let rows = try store.read(file.id) { view throws(HistoryError) in
            try idents.map { ident throws(HistoryError) in try view.clientFile(ident) }
        }
        for (ident, row) in zip(idents, rows) where row?.session != file.ownSessions[ident] || row?.isExpired != false {
            file.superseded.insert(ident)
            forget(ident)
        }
    }

    // MARK: Clients at other nodes

    /// - Throws: `superseded` if the client has come to another node.
    func requireSession(of ident: ClientFileID) throws(HistoryError) {
        try require(
            !file.isShared || !file.superseded.contains(ident), .superseded, "the client has come to another node")
    }

    /// Forgets all that is here of a client that is at another node, or was.
    package func forget(_ ident: ClientFileID) {
        forgetUploads(of: ident)
        leave(ident)
        markBack(ident)
        views[ident] = nil
        confirmed.remove(ident)
    }

    /// As `SyncedFile.takeDropped`.
    package func takeDropped() -> [ClientFileID: Int] {
        defer { dropped = [:] }
        return dropped
    }
}

extension SyncedFile {
    /// The fields that views use, at the head.
    func viewFields(in store: any ViewStore) throws(HistoryError) -> [ViewField] {
        let found = try store.viewFields(of: id)
        guard isShared else { return found }
        let bounds = try store.read(id) { view throws(HistoryError) in try view.head().bounds }
        guard bounds == head.bounds else { throw .conflict(of: id, "the fields of views") }
        return found
    }

    /// False if a client file has had no session at this node of a shared store.
    func mayHaveSession(_ ident: ClientFileID) -> Bool { !isShared || ownSessions[ident] != nil }
}
