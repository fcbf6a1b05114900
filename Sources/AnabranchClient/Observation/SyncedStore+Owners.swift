/// Callbacks that belong to an object and end with it; an alternative to streams.
extension SyncedStore {
    /// Has `body` called with changes at a path and below it, from now on, for as long as the owner exists or until
    /// `removeObserver`.
    /// - Parameters:
    ///   - owner: held weakly.
    ///   - body: called in order, one call after another.
    public func addObserver(
        _ owner: any AnyObject & Sendable, at path: ObjectPath = .store, _ scope: PathScope = .pathAndDescendants,
        _ body: @escaping @Sendable ([PathChange]) -> Void
    ) {
        var iterator = changes(at: path, scope).makeAsyncIterator()
        owners.add(owner, { try await iterator.next() }) { if !$0.isEmpty { body($0) } }
    }

    /// Has `body` called with the status of the store, at once and each time that it changes, for as long as the owner
    /// exists or until `removeObserver`.
    /// - Parameters:
    ///   - owner: held weakly.
    ///   - body: called in order, one call after another; if it is slow, with the newest status only.
    public func addStatusObserver(
        _ owner: any AnyObject & Sendable, _ body: @escaping @Sendable (StoreStatus) -> Void
    ) {
        var iterator = statusUpdates.makeAsyncIterator()
        owners.add(owner, { await iterator.next() }, body)
    }

    /// Ends all observations of an owner. A call that is under way still completes.
    public func removeObserver(_ owner: AnyObject) { owners.end(of: owner) }
}
