package import AnabranchCore
import AnabranchRules
import DequeModule

/// Views are in memory while their clients are connected, and for some time afterwards: neither memory nor the time to
/// start grows with clients that are away (`Spec/FlexibleSync.md`, section 3.4).
extension FlexibleFile {
    /// The space that the views of clients that have left may occupy in memory, in bytes.
    static let awayBytesMax = 4 << 20

    private static let knownQueriesMax = 64
    /// The size of a set that takes some time to read, in bytes.
    private static let longSetBytesMin = 4096
    /// The most client files with such sets that are known.
    private static let longSetsMax = 65_536

    /// True if beginning a session of a client file takes some time: its view has left the memory, and has a long set.
    package func hasLongSet(_ ident: ClientFileID) -> Bool { views[ident] == nil && longSets.contains(ident) }

    /// The view of a client file, which is read if it is not in memory; nil if there is none.
    func view(of ident: ClientFileID) throws(HistoryError) -> ClientView? {
        if let view = views[ident] { return view }
        guard let stored = try store.view(of: file.id, ident) else { return nil }
        var view = try view(stored)
        // Until the view is stored again it has what its client has confirmed since.
        recordConfirmed(view.confirm(try clientFile(ident)?.uploadCursor.serverVersion ?? 0), by: ident)
        views[ident] = view
        markAway(view)
        return views[ident] ?? view
    }

    func view(_ stored: StoredView) throws(HistoryError) -> ClientView {
        let state = try currentState(), predicates = stored.record.predicates
        let queries = knownQueries[predicates] ?? ViewQueries(accepted: predicates, in: state)
        // Many clients ask for the same, which is short then.
        if predicates.byteCount < Self.longSetBytesMin {
            if knownQueries.count >= Self.knownQueriesMax { knownQueries = [:] }
            knownQueries[predicates] = queries
        }
        var view = ClientView(stored, queries, role(of: try UserRules(stored: stored.record.role), in: state))
        // The client has what it has confirmed, and the log begins before that.
        view.projected = max(view.projected, file.head.baseVersion)
        return view
    }

    // MARK: Confirmed entries

    /// The size from which stored entries that a client has confirmed are freed, in bytes, and how many views have some
    /// freed by one commit. Fewer bytes go when their view is stored for another reason.
    private static let freedBytesMin = 4 << 10, freedViewsMax = 64

    /// Records that a client has confirmed entries of this many bytes which the store has.
    func recordConfirmed(_ bytes: Int, by ident: ClientFileID) {
        if bytes >= Self.freedBytesMin { confirmed.insert(ident) }
    }

    /// The changes by which confirmed entries go with a commit. The progress of their clients is stored already: one
    /// that comes back with an older copy of its file is told so, and does not miss them.
    /// - Parameter changed: the views that are stored with the commit in any case.
    func takeConfirmed(butNot changed: [ClientView]) -> [ViewChange] {
        confirmed.subtract(changed.map(\.ident))
        let freed = confirmed.filter { file.unwritten[$0] == nil && file.mayHaveSession($0) }.sorted()
            .prefix(Self.freedViewsMax)
        confirmed.subtract(freed)
        return freed.compactMap { views[$0] }.map { change(from: $0, to: $0) }
    }

    /// Records that a client has left. A view whose log is being merged with an upload is not away: read again, it
    /// could say the same in other entries.
    func markAway(_ view: ClientView) {
        guard awayBytes[view.ident] == nil, !connected.contains(view.ident), uploads[view.ident] == nil else { return }
        awayBytes[view.ident] = view.byteCount
        allAwayBytes += view.byteCount
        away.append(view.ident)
        unloadAway()
    }

    /// Records that a client has come back, or that its view is gone.
    func markBack(_ ident: ClientFileID) {
        if let bytes = awayBytes.removeValue(forKey: ident) { allAwayBytes -= bytes }
    }

    /// Drops views of clients that are away, those that left first, while they occupy too much. Views that the store
    /// does not have yet stay.
    func unloadAway() {
        guard !file.isAhead else { return }
        while allAwayBytes > Self.awayBytesMax, let ident = away.popFirst() {
            guard awayBytes[ident] != nil else { continue }
            markBack(ident)
            let setBytes = views.removeValue(forKey: ident)?.queries.predicates.byteCount ?? 0
            if setBytes < Self.longSetBytesMin {
                longSets.remove(ident)
            } else if longSets.count < Self.longSetsMax {
                longSets.insert(ident)
            }
        }
        // Removes those that have come back.
        if away.count > 2 * awayBytes.count + 16 { away = Deque(away.filter { awayBytes[$0] != nil }) }
    }
}

extension UserRules {
    /// - Parameter text: `ViewRole.text` as it was stored.
    fileprivate init(stored text: String) throws(HistoryError) {
        do { try self.init(text: text) } catch {
            throw HistoryError(.storeDamaged, "the role of a view cannot be read: \(error)")
        }
    }
}

extension ClientView {
    /// The approximate size in memory, in bytes: for a query, many times its text.
    fileprivate var byteCount: Int {
        queries.predicates.reduce(1024 + role.text.utf8.count) { $0 + $1.key.utf8.count + 14 * $1.value.utf8.count }
            + log.entries.count * MemoryLayout<ViewEntry>.stride
    }
}
