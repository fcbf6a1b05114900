import AnabranchCore

// How the synchronization stands (`Spec/Objects.md`, section 7).

extension SyncedStore {
    /// How the synchronization stands.
    public var status: StoreStatus { replica.board.status }

    /// How the synchronization stands, at once and each time that this changes. Whoever is slow gets the newest alone.
    public var statusUpdates: AsyncStream<StoreStatus> { replica.board.updates() }

    /// What keeps the store from being synchronized, at once and later: what occurs is resolved, or something else
    /// takes its place. Whoever is slow gets the newest 64.
    public var issues: AsyncStream<SyncIssueNews> { replica.board.issues() }

    /// Whether the store has once had everything that the server had. This is kept.
    public var completedFirstSync: Bool { status.completedFirstSync }

    /// Whether a client synchronizes the store, or tries to.
    public var isRunning: Bool { status.isRunning }

    /// How an object stands.
    /// - Throws: `ObjectError` if the key is none; `ReplicaError` if the store cannot be read.
    public func status<Object: SyncedObject>(of type: Object.Type, _ id: Object.ID) async throws -> ObjectStatus {
        try await replica.status(of: try ItemName(type, id))
    }

    /// How an object stands, at once and each time that this changes. Whoever is slow gets the newest alone.
    /// - Throws: `ObjectError` if the key is none.
    public func statusUpdates<Object: SyncedObject>(
        of type: Object.Type, _ id: Object.ID
    ) throws -> AsyncStream<ObjectStatus> {
        replica.statusUpdates(of: try ItemName(type, id))
    }

    /// What can be waited for.
    public enum Goal: Sendable {
        /// The server has everything that was written here before the call.
        case upload
        /// Everything is here that the server had at the time of the call.
        case download
        /// Both, with nothing written meanwhile.
        case idle
        /// The store has once had everything that the server had.
        case firstSync
        /// The objects of the newest subscriptions are here.
        case subscriptions
    }

    /// Waits until something is synchronized, through as many connections as it takes.
    /// - Throws: `SyncError` if it cannot come about by itself: nobody synchronizes the store, or the server has
    ///   refused it; `CancellationError`.
    public func wait(for goal: Goal) async throws {
        switch goal {
        case .upload: try await replica.waitForUpload()
        case .download: try await replica.waitForDownload()
        case .subscriptions: try await replica.waitForSubscriptions()
        case .firstSync:
            while !completedFirstSync {
                try await replica.waitForDownload()
                try await replica.waitForSubscriptions()
            }
        case .idle:
            repeat {
                try await replica.waitForUpload()
                try await replica.waitForDownload()
            } while status.pendingTransactions > 0
        }
    }
}

extension ItemName {
    init<Object: SyncedObject>(_ type: Object.Type, _ id: Object.ID) throws {
        try self.init(className: Array(type.className.utf8), key: id.primaryKey)
    }
}
