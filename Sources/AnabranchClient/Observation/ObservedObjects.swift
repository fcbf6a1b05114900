public import Observation

/// The objects that fulfil a query, for views: an observable model that follows the store (`Spec/Objects.md`, section
/// 6).
///
///     @State private var chores = ObservedObjects(Chore.where { !$0.isDone }.sorted(by: \.title), in: store)
///     List(chores.results) { chore in Text(chore.title) }
///
/// The store is read and compared elsewhere; what comes to the main thread is a new value of `results`, sixty times a
/// second at most, however often the store changes. It follows until nobody refers to it any more or the store is
/// closed.
@MainActor @Observable public final class ObservedObjects<Object: SyncedObject> {
    /// The objects, in the order of the query.
    public private(set) var results = ObjectResults<Object>()
    /// The change that has led to the results, with the indices of what has come, gone and changed; nil before the
    /// first reading.
    @ObservationIgnored public private(set) var lastChange: QueryChange<Object>?
    /// True once the results have been read.
    public private(set) var isLoaded = false
    /// The error that has ended the observation; nil while it goes on.
    public private(set) var error: (any Error)?
    @ObservationIgnored private var task: Task<Void, Never>?

    /// The results of a query in a store, from now on.
    public init(_ query: ObjectQuery<Object>, in store: SyncedStore) {
        let changes = store.changes(of: query)
        task = Task.detached { [weak self] in
            do {
                for try await change in changes {
                    guard await self?.take(change) != nil else { return }
                    try await Task.sleep(for: followingPause)
                }
            } catch is CancellationError {
            } catch {
                await self?.fail(error)
            }
        }
    }

    deinit { task?.cancel() }

    private func take(_ change: QueryChange<Object>) {
        lastChange = change
        results = change.results
        if !isLoaded { isLoaded = true }
    }

    private func fail(_ error: any Error) { self.error = error }
}

/// The status of a store's synchronization, for views: an observable model of `SyncedStore.statusUpdates`.
@MainActor @Observable public final class ObservedStatus {
    /// The status as it was last told, sixty times a second at most.
    public private(set) var status: StoreStatus
    @ObservationIgnored private var task: Task<Void, Never>?

    /// The status of a store, from now on.
    public init(of store: SyncedStore) {
        status = store.status
        let updates = store.statusUpdates
        task = Task.detached { [weak self] in
            for await status in updates {
                guard await self?.take(status) != nil else { return }
                try? await Task.sleep(for: followingPause)
            }
        }
    }

    deinit { task?.cancel() }

    private func take(_ status: StoreStatus) {
        if status != self.status { self.status = status }
    }
}

/// The pause after each value that goes to the main thread: what comes meanwhile comes together.
private let followingPause = Duration.milliseconds(16)
