package import AnabranchCore
import AnabranchQuery
package import AnabranchRules
import DequeModule

/// A synced file of which each client sees a part: the objects that its queries and its role let it see
/// (`Spec/FlexibleSync.md`). It belongs to one thread, like the `SyncedFile` that it works on.
package final class FlexibleFile {
    package let file: SyncedFile
    let store: any ViewStore
    /// The views in memory.
    var views: [ClientFileID: ClientView] = [:]
    /// Among those in memory, the ones whose clients have left, in that order, and the approximate size of each, in
    /// bytes. Some in the order may have come back.
    var away: Deque<ClientFileID> = []
    var awayBytes: [ClientFileID: Int] = [:]
    var allAwayBytes = 0
    /// The clients that have confirmed many bytes which the store still has.
    var confirmed: Set<ClientFileID> = []
    var knownQueries: [Predicates: ViewQueries] = [:]
    /// Among the client files whose views have left the memory, those with sets that take some time to read.
    var longSets: Set<ClientFileID> = []
    /// The clients that have a session.
    var connected: Set<ClientFileID> = []
    /// The views of connected clients that are kept up to date, whatever `ClientView.projected` says.
    var index = ViewIndex()
    var fields = FieldNames()
    var unstoredFields: [ViewField] = []
    var objects = ObjectIndex()
    let entryObjects = EntryObjects()
    /// By client file with a session, the newest version of its own that the log has.
    var ownVersions: [ClientFileID: ClientVersion] = [:]
    var news: Set<ClientFileID> = []
    /// The clients with a session that are told of nothing more until they confirm some of what they have to.
    var held: Set<ClientFileID> = []
    /// About the largest number of entries that connected clients may have to confirm together: each is in memory.
    package var entriesMax = 262_144
    private static let entriesOfViewMin = 256
    /// The newest version of the log that was announced to all connected clients.
    var announcedVersion: ServerVersion
    /// The head of the log that the views know; and the uploads that were dropped, by client file (`Spec/Nodes.md`,
    /// section 8).
    var followed: FileHead
    var isTakingIn = false
    var dropped: [ClientFileID: Int] = [:]
    /// The number of versions after which their newest is announced to clients that none of them concerns.
    static let unannouncedVersionsMax: UInt64 = 1_000
    /// A client that has more unconfirmed bytes of bootstraps than this gets no further one.
    package var unconfirmedBytesMax = 64 << 20
    /// The largest size of the different sets of one user's views together, in bytes.
    package var userSetBytesMax = 4 << 20
    var sets = UserSets()
    /// The limits on evaluating views; nil for no limit.
    package var quota: ViewQuota?
    /// The clients whose views were left behind because the quota of their users is used up.
    var overQuota: Set<ClientFileID> = []
    /// The number of evaluations of commits for views; equal views share one.
    package internal(set) var evaluationCount = 0
    /// The approximate size at which a part of a bootstrap ends, in bytes. A shorter one comes in one message, which a
    /// client gets as a whole or not at all.
    package var partBytes = 4 << 20
    /// The size, in bytes, above which the changes that a client has missed are sent as whole objects, if that is
    /// shorter.
    package var longRangeBytes = 4 << 20
    /// The largest size of what undoes the refused writes of one changeset, in bytes, which is made at once: an upload
    /// that needs more is refused as a whole.
    package var undoingBytesMax = 64 << 20
    /// The approximate size of what a commit makes for the views that it concerns, in bytes; the others catch up.
    package var madeBytesMax = 16 << 20
    /// The memory that merges under way may occupy beside the first, in bytes; the largest of them begin anew.
    var mergeBytesMax = 64 << 20
    /// The number of objects that were looked at for views that catch up, from which those of no further one are kept.
    package var looksMax = 262_144
    /// The number of objects of an uploaded changeset that are looked at together.
    package var checkedCount = 256
    /// The clock that measures windows of uploads, by which the next ones are made shorter or longer, and how long it
    /// takes to read what a view has missed.
    package var instant: @Sendable () -> ContinuousClock.Instant = { .now }
    /// The properties that queries may name.
    package var queryableFields = QueryableFields()
    /// True if clients may not add classes and columns.
    package var isSchemaFixed = false
    /// The roles that were made for the present schema: views of equal rules share one.
    var roles: [UserRules: ViewRole] = [:]
    /// As `ingestedBytesMax` of the type, unless a test says something else.
    package var ingestedBytesMax = FlexibleFile.ingestedBytesMax
    /// By user, the size of the objects that wait for a consumer, in bytes; nil if the store has to be read.
    var ingestedBytes: [ExactString?: UInt64]?
    /// By client, the uploads that are not integrated.
    var uploads: [ClientFileID: ClientUploads] = [:]
    /// The clients with uploads, in the order of their turns: those whose views are up to date, and that were not
    /// tried, or came to the end of a window in one step; and the others.
    var newUploads: Deque<ClientFileID> = []
    var longUploads: Deque<ClientFileID> = []
    /// The client whose merge never begins anew, so that there is always one that ends.
    var firstMerge: ClientFileID?
    /// By client, the search that a QUERY or an IDENT waits for, and the findings about views that catch up; and the
    /// objects that are touched in the meantime.
    var searches: [ClientFileID: QuerySearch] = [:]
    var catchUps: [ClientFileID: CatchUp] = [:]
    var touched = TouchedObjects()
    var sharedSearches = SharedSearches()
    /// The version at which views that are changed together change their roles.
    var roleVersion: ServerVersion?
    var isChangingLong = false
    /// The clients that have a changeset which is tried again.
    var trying: Set<ClientFileID> = []
    /// The clients whose views are to follow rules that have changed.
    var longChanges: Deque<ClientFileID> = []
    /// The approximate size of commits that are stored together, in bytes; the last operation may exceed it.
    static let draftBytesMax = 1 << 20

    /// - Parameter file: kept with its state, and used by nobody else from now on.
    /// - Throws: a failure of the store; `storeUnusable` if it keeps no views.
    package init(_ file: SyncedFile) throws(HistoryError) {
        guard let store = file.store as? any ViewStore else {
            throw HistoryError(.storeUnusable, "the store keeps no views of flexible files")
        }
        guard try file.currentState() != nil else { throw HistoryError.withoutState }
        self.file = file
        self.store = store
        file.makesGenerations = false
        let known = try file.retrying { () throws(HistoryError) in try file.viewFields(in: store) }
        (followed, announcedVersion) = (file.head, file.head.version)
        fields = FieldNames(stored: known)
        guard known.isEmpty else { return }
        // Views that were stored before the fields were: the next one that changes has these stored.
        for stored in try store.views(of: file.id) { unstoredFields += fields.add(try view(stored)) }
    }

    // MARK: IDENT

    /// As `beginSession`, and finds out at once what the client sees: for callers that take no turns.
    package func identify(
        _ request: IdentRequest, user: String? = nil, rules: UserRules = .everything, hasRestarted: Bool = false
    ) throws(HistoryError) -> ViewSession {
        var session = try beginSession(request, user: user, rules: rules, hasRestarted: hasRestarted)
        while isSearching(for: session.ident) { _ = try advanceSearch(in: &session, until: .none) }
        return session
    }

    /// Checks an IDENT and begins its session; what the client sees may have to be found out yet (`advanceSearch`).
    ///
    /// - Parameters:
    ///   - rules: what the user may do.
    ///   - hasRestarted: whether `interruptedBootstrap` has just ended the previous session on the same connection, so
    ///     that the client has dropped the parts of a bootstrap.
    /// - Throws: as `SyncedFile.identify`; `badChangeset` if the set that the client has cannot be read;
    ///   `interruptedBootstrap`.
    package func beginSession(
        _ request: IdentRequest, user: String? = nil, rules: UserRules = .everything, hasRestarted: Bool = false
    ) throws(HistoryError) -> ViewSession {
        let ident = request.file.ident, wasConnected = connected.contains(ident)
        do throws(HistoryError) {
            return try retrying { () throws(HistoryError) in
                try session(of: request, user, rules, hasRestarted: hasRestarted)
            }
        } catch {
            // Its view would stay in memory.
            if !wasConnected, connected.contains(ident) { leave(ident) }
            throw error
        }
    }

    private func session(
        of request: IdentRequest, _ user: String?, _ rules: UserRules, hasRestarted: Bool
    ) throws(HistoryError) -> ViewSession {
        let active = request.subscriptions ?? .none, queryVersion = active.version.rawValue
        guard let predicates = active.predicates else {
            throw HistoryError(.badChangeset, "the queries are no JSON object of texts")
        }
        var request = request
        let ident = request.file.ident, position = request.download.serverVersion, isMarked = try unmark(&request)
        let before = file.ownSessions[ident], progress = try file.identify(request, user: user)
        // Its client has been elsewhere.
        if file.ownSessions[ident] != before { forget(ident) }
        let known = try view(of: ident)
        try require(
            !isMarked || known != nil, .clientFileExpired,
            "the copy was made in the midst of a download, and may lack objects of its set")
        if !hasRestarted, let known, known.hasParts(after: position) {
            throw HistoryError(.interruptedBootstrap, "the client may have parts of a bootstrap")
        }
        leave(ident)
        // It has left, and may have been dropped.
        if let known, views[ident] == nil { views[ident] = known }
        markBack(ident)
        connected.insert(ident)
        sets.insert(ident, of: user)
        // If the session that it had goes on, it has to ask again.
        news.insert(ident)
        var session = ViewSession(ident: ident, progress: progress, queryVersion: queryVersion, predicates: predicates)
        guard var view = views[ident], view.changed > 0 else {
            try requireRoom(for: predicates, of: ident, or: .tooLarge)
            if position > 0 { try beginCopy(&session, at: request, rules) } else { try begin(&session, rules) }
            return session
        }
        if position >= view.changed, predicates == view.queries.predicates { view.queryVersion = queryVersion }
        if position > view.projected { try restore(&view, to: position) }
        session.sentNumber = view.log.number(upTo: position)
        session.firstNumber = view.log.lastNumber + 1
        view.rules = rules
        views[ident] = view
        try requireRoom(for: view.queries.predicates, of: ident, or: .backlogFull)
        sets.record(ident, view.queries.predicates)
        if view.queryVersion == queryVersion, view.queries.predicates != predicates {
            // Its first session has ended before all of it was found.
            try requireRoom(for: predicates, of: ident, or: .tooLarge)
            search(session, in: try currentState())
        }
        return session
    }

    /// - Throws: `code` if the connected clients ask for too much with this set.
    private func requireRoom(
        for predicates: Predicates, of ident: ClientFileID, or code: HistoryError.Code
    ) throws(HistoryError) {
        let hasRoom = sets.hasRoom(for: predicates, of: ident, userBytesMax: userSetBytesMax)
        try require(hasRoom, code, "all sets of this user have more than \(userSetBytesMax) bytes, or than is free")
    }

    /// Ends the session of a client file: nothing is calculated for it any more.
    package func leave(_ ident: ClientFileID) {
        if index.contains(ident) {
            views[ident]?.projected = version
            index.remove(ident)
        }
        connected.remove(ident)
        catchUps[ident] = nil
        endSearch(for: ident)
        unload(ident)
        ownVersions[ident] = nil
        news.remove(ident)
        held.remove(ident)
        sets.remove(ident)
        if let view = views[ident] { markAway(view) }
    }

    /// Takes the clients with a session for which there is something to send since the last call.
    package func takeClientsToNotify() -> Set<ClientFileID> {
        defer { news = [] }
        return news
    }

    /// The same for one client.
    /// - Returns: whether it has to be told something.
    package func takeClientToNotify(_ ident: ClientFileID) -> Bool { news.remove(ident) != nil }

    /// The number of entries with which a connected client has its share of `entriesMax`.
    var entriesOfViewMax: Int { max(Self.entriesOfViewMin, entriesMax / max(1, connected.count)) }

    /// Begins with the first bootstrap: the schema, and the objects of the set that the client has already, which is
    /// empty unless the client was restored.
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
        view.projected = version
        view.changed = version
        try commit(view, of: try file.clientFile(session.ident))
        if !session.predicates.isEmpty { search(session, in: state) }
    }

    /// Begins the search for the objects of the set of an IDENT.
    private func search(_ session: ViewSession, in state: ObjectGraph) {
        searches[session.ident] = QuerySearch(
            queries: ViewQueries(accepted: session.predicates, in: state), queryVersion: session.queryVersion,
            bootstrap: session.queryVersion)
        sets.record(session.ident, session.predicates)
    }

    // MARK: QUERY

    /// Changes the client's set in one go, for callers that take no turns.
    ///
    /// - Returns: the reason why the set is refused, in the words for the client; nil if it is not.
    /// - Throws: as `advanceSearch`.
    package func query(
        _ subscriptions: SubscriptionSet, in session: inout ViewSession
    ) throws(HistoryError) -> String? {
        while try !beginQuery(subscriptions, in: session, until: .none) {}
        while true { if let found = try advanceSearch(in: &session, until: .none) { return found.refusal } }
    }

    /// Begins the search for what another set changes; `advanceSearch` continues it.
    /// - Returns: false if it cannot begin yet, since the view has not caught up within the step.
    /// - Throws: `backlogFull` if the client has not confirmed what it requested before; a failure of the store.
    package func beginQuery(
        _ subscriptions: SubscriptionSet, in session: ViewSession, until limit: StepLimit
    ) throws(HistoryError) -> Bool {
        let known = try retrying { () throws(HistoryError) in
            (view: try projected(session.ident, until: limit), state: try currentState())
        }
        guard let view = known.view else { return false }
        let state = known.state
        try require(
            view.log.bootstrapBytes <= unconfirmedBytesMax, .backlogFull,
            "the client has not confirmed \(view.log.bootstrapBytes) bytes of what it has asked for before")
        let predicates = subscriptions.predicates, version = subscriptions.version.rawValue
        do throws(QueryError) {
            guard let predicates else { throw QueryError(.syntax, at: 0, "Invalid query: no JSON object of texts") }
            let queries = try ViewQueries(predicates, in: state, queryableFields: queryableFields)
            let bytes = "\(userSetBytesMax) bytes"
            guard sets.hasRoom(for: predicates, of: session.ident, userBytesMax: userSetBytesMax) else {
                let reason = "all sets of this user have more than \(bytes), or than is free"
                throw QueryError(.limit, at: 0, "Invalid query: \(reason)")
            }
            searches[view.ident] = QuerySearch(queries: queries, queryVersion: version, bootstrap: version)
            sets.record(view.ident, predicates)
        } catch {
            if error.kind == .unavailable { throw HistoryError(readingStateFailed: error) }
            // The client goes on with the set that it has, which may not be that of the view any more.
            let isSame = view.queries.predicates == session.predicates
            searches[view.ident] = QuerySearch(
                queries: isSame ? view.queries : ViewQueries(accepted: session.predicates, in: state),
                queryVersion: isSame ? view.queryVersion : session.queryVersion, refusal: error.reason)
        }
        return true
    }

    /// The queries of a client under search, and the answer when the search ends.
    struct QuerySearch {
        let queries: ViewQueries
        /// The number that the client has given the set.
        let queryVersion: UInt64
        /// The number of the set that the client waits for; nil if it waits for none.
        var bootstrap: UInt64?
        /// The reason why the requested set is refused, so that `queries` stay; nil if it is not.
        var refusal: String?
    }

    /// True while it is not known yet what a client sees.
    package func isSearching(for ident: ClientFileID) -> Bool { searches[ident] != nil }

    /// The result of a search.
    package struct SearchOutcome: Sendable {
        /// The reason why the set is refused, in the words for the client; nil if it is not.
        package let refusal: String?
    }

    /// Goes on with the search of a client until the step is over; the view changes when the search ends.
    ///
    /// - Returns: nil if the search has not ended.
    /// - Throws: a failure of the store, or `clientFileExpired`.
    package func advanceSearch(
        in session: inout ViewSession, until limit: StepLimit
    ) throws(HistoryError) -> SearchOutcome? {
        try retrying { () throws(HistoryError) in try searchOn(in: &session, until: limit) }
    }

    private func searchOn(
        in session: inout ViewSession, until limit: StepLimit
    ) throws(HistoryError) -> SearchOutcome? {
        let ident = session.ident
        guard let wanted = searches[ident] else { return SearchOutcome(refusal: nil) }
        guard var view = try projected(ident, until: limit) else { return nil }
        var after = view
        after.queries = wanted.queries
        guard let question = try search(from: view, to: after, until: limit) else { return nil }
        if wanted.refusal == nil || wanted.queries.predicates != view.queries.predicates {
            let found = try sharedSearches.changesets(
                for: question, endingAt: partBytes, in: try currentState())
            view.queryVersion = wanted.queryVersion
            view.change(
                to: wanted.queries, with: found.bytes, from: file.head.version + 1, try ownVersion(of: ident),
                bootstrap: wanted.bootstrap, shares: found.shares)
            try commit(view)
        }
        endSearch(for: ident)
        if wanted.refusal == nil {
            (session.queryVersion, session.predicates) = (wanted.queryVersion, wanted.queries.predicates)
        }
        return SearchOutcome(refusal: wanted.refusal)
    }

    private func endSearch(for ident: ClientFileID) {
        searches[ident] = nil
        forgetTouched()
    }
}
