public import AnabranchCore

extension SyncClient {
    /// Synchronizes a store by partition from now on.
    ///
    /// - Parameter resetMode: what is done if the server asks for a client reset.
    /// - Throws: `SyncError` if the client is one of flexible sync, or if the store is synchronized already or has
    ///   subscriptions.
    public func add(
        _ store: SyncedStore, partition: PartitionValue, resetMode: ResetMode = .recoverOrDiscard
    ) async throws {
        try await add(store.replica, partition: String(decoding: partition.bytes, as: UTF8.self), resetMode: resetMode)
    }

    /// Synchronizes a store by its subscriptions from now on.
    /// - Throws: `SyncError` if the client is not one of flexible sync, or the store is synchronized already;
    ///   `ReplicaError` if the store was synchronized by partition.
    public func add(_ store: SyncedStore, resetMode: ResetMode = .recoverOrDiscard) async throws {
        try await add(store.replica, resetMode: resetMode)
    }

    /// Makes a client reset for a store whose synchronization has stopped with `clientResetRequired`.
    /// - Parameter recovers: whether changes that were not uploaded are made again on the server's state.
    public func reset(_ store: SyncedStore, recovers: Bool) async throws {
        try await reset(store.replica, recovers: recovers)
    }

    /// Discards changes that keep a store from being synchronized, because the server does not take them: a fresh file
    /// is downloaded, and all other changes that wait are made again. The store as it was is in a backup, whose path
    /// the end of the reset reports (`SyncedStore.resets`). What the server has taken already is no longer discarded.
    ///
    /// - Parameter changes: some of those that `SyncedStore.unsynced` names.
    /// - Throws: `SyncError` if the client does not synchronize the store, or the synchronization has not stopped: a
    ///   change that only waits for a connection is taken back by writing what was there before.
    public func discard(_ changes: [UnsyncedObject], of store: SyncedStore) async throws {
        try await discard(Set(changes.map { ObjectAddress($0.className.utf8, $0.key) }), of: store.replica)
    }

    /// Stops synchronizing a store. Returns when the server has confirmed it, or there is no connection. Changes that
    /// were not uploaded stay in the store.
    public func remove(_ store: SyncedStore) async { await remove(store.replica) }
}
