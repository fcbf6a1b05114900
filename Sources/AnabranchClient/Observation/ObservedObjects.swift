public import Observation

/// The objects that fulfil a query, for views: an observable model that follows the store (`Spec/Objects.md`, section
/// 6).
///
///     @State private var chores = ObservedObjects(Chore.where { !$0.isDone }.sorted(by: \.title), in: store)
///     List(chores.results) { chore in Text(chore.title) }
///
/// Reading and comparing happen on other threads; the main thread only gets a new value of `results`, sixty times a
/// second at most, however often the store changes. The model follows the store until nothing refers to it any more or
/// the store is closed.
@MainActor @Observable public final class ObservedObjects<Object: SyncedObject> {
    /// The objects, in the order of the query.
    public private(set) var results = ObjectResults<Object>()
    /// The change that led to the results, with the indices of inserted, removed and modified objects; nil before the
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
    /// The latest status, updated sixty times a second at most.
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

/// The pause after each value that goes to the main thread; changes during the pause are delivered together.
private let followingPause = Duration.milliseconds(16)
