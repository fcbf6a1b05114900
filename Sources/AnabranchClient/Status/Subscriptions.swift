import AnabranchCore
public import AnabranchReplica

/// The subscriptions of a store in flexible sync (`Spec/Objects.md`, section 8): queries for the objects to download,
/// each with a name.
///
///     try await store.subscriptions.update { wanted in
///         try wanted.add("mine", Chore.where { $0.owner == me })
///         wanted.remove("demo")
///     }
///     try await store.subscriptions.wait()
public struct Subscriptions: Sendable {
    let store: SyncedStore

    /// The state of the newest subscriptions.
    public enum State: Equatable, Sendable {
        /// The server has not answered yet.
        case pending
        /// Their objects are being downloaded.
        case bootstrapping
        /// Their objects are here.
        case complete
        /// The server cannot serve them, for this reason; those before stay in force.
        case refused(String)
    }

    /// The newest subscriptions by their names, and their state.
    public var current: (subscriptions: WantedObjects, state: State) {
        get async {
            await store.replica.subscriptionsNow
        }
    }

    /// Changes the subscriptions. All changes of a call reach the server together, after all earlier writes; the
    /// objects are here when `wait` returns, and those that no subscription has any more are gone.
    /// - Returns: whether anything has changed.
    /// - Throws: `ObjectError` with the code `badQuery`, and then nothing changes; `ReplicaError` with the code
    ///   `notAllowed` if the store is synchronized by partition.
    @discardableResult
    public func update(_ body: @Sendable (inout WantedObjects) throws -> Void) async throws -> Bool {
        try await store.addClasses()
        return try await store.replica.updateSubscriptions(body)
    }

    /// Waits until the objects of the newest subscriptions are here.
    /// - Throws: `SyncError` with the code `subscriptionsRefused` if the server cannot serve them; another code if
    ///   the wait would never end; `CancellationError`.
    public func wait() async throws { try await store.replica.waitForSubscriptions() }
}

/// The set of queries that names the objects to download.
public struct WantedObjects: Sendable {
    /// The subscriptions by their names.
    public private(set) var byName: [String: Subscription] = [:]
    /// A state with the classes that queries are about.
    private let state: ObjectGraph

    init(_ subscriptions: [Subscription], _ state: ObjectGraph) {
        byName = Dictionary(subscriptions.map { ($0.name ?? $0.query, $0) }) { _, new in new }
        self.state = state
    }

    var list: [Subscription] { byName.sorted { $0.key < $1.key }.map(\.value) }

    /// Adds a subscription to the objects that fulfil a query. One that has the name already is replaced.
    /// - Throws: `ObjectError` with the code `badQuery` if the query makes no sense, if it depends on more than the
    ///   object itself, such as an order, a limit or the contents of linked objects, or if the store was opened without
    ///   the type.
    public mutating func add<Object: SyncedObject>(_ name: String, _ query: ObjectQuery<Object>) throws {
        byName[name] = Subscription(Object.className, try query.subscriptionText(in: state), name: name)
    }

    /// Removes a subscription.
    /// - Returns: whether there was one of that name.
    @discardableResult
    public mutating func remove(_ name: String) -> Bool { byName.removeValue(forKey: name) != nil }

    /// Removes all subscriptions.
    public mutating func removeAll() { byName = [:] }
}

extension Subscriptions.State {
    fileprivate init(_ entry: SubscriptionSets.Entry) {
        switch entry.state {
        case .pending: self = entry.version == 0 ? .complete : .pending
        case .bootstrapping, .awaitingMark: self = .bootstrapping
        case .complete: self = .complete
        case .refused(let reason): self = .refused(reason)
        }
    }
}

extension SyncedReplica {
    fileprivate var subscriptionsNow: (subscriptions: WantedObjects, state: Subscriptions.State) {
        let latest = replica.record.subscriptions?.latest
        return (
            WantedObjects(latest?.subscriptions ?? [], replica.state), latest.map(Subscriptions.State.init) ?? .complete
        )
    }

    fileprivate func updateSubscriptions(_ body: (inout WantedObjects) throws -> Void) throws -> Bool {
        let old = subscriptionsNow.subscriptions
        var new = old
        try body(&new)
        guard new.byName != old.byName else { return false }
        try subscribe(new.list)
        return true
    }
}

extension SyncedStore {
    /// The store's subscriptions: queries for the objects to download.
    public var subscriptions: Subscriptions { Subscriptions(store: self) }
}
