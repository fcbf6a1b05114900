package import AnabranchCore

/// What is stored of a `ClientView`.
package struct StoredView: Sendable, Equatable {
    package var ident: ClientFileID
    package var predicates: [String: String]
    package var queryVersion: UInt64
    package var changed: ServerVersion
    package var projected: ServerVersion
    package var lastNumber: UInt64
    package var log: [ViewEntry]
    package var compensations: [CompensatingWrite]
}

/// What a commit does to a view.
package struct ViewChange: Sendable {
    package let view: StoredView

    /// - Parameter before: as it was stored; nil if it is new.
    init(from before: ClientView?, to view: ClientView) {
        self.view = StoredView(
            ident: view.ident, predicates: view.subscriptions.predicates, queryVersion: view.queryVersion,
            changed: view.changed, projected: view.projected, lastNumber: view.lastNumber, log: view.log,
            compensations: view.compensations)
    }
}

extension ClientView {
    init(_ stored: StoredView, role: ViewRole, in state: ObjectGraph) {
        self.init(of: stored.ident, role: role)
        subscriptions = SubscriptionSet(accepted: stored.predicates, in: state)
        queryVersion = stored.queryVersion
        (changed, projected, lastNumber) = (stored.changed, stored.projected, stored.lastNumber)
        (log, compensations) = (stored.log, stored.compensations)
    }
}

/// A store that keeps views of flexible files: a commit can change some (`Commit.views`).
package protocol ViewStore: HistoryStore {
    /// The views of a file, with what they were sent and have not confirmed.
    func views(of file: SyncedFileID) throws(HistoryError) -> [StoredView]
}
