import AnabranchCore
public import Foundation

// The status of the synchronization (`Spec/Objects.md`, section 7).

extension SyncedStore {
    /// The status of the synchronization.
    public var status: StoreStatus { replica.board.status }

    /// The status of the synchronization, at once and each time that it changes. A slow observer gets only the newest.
    public var statusUpdates: AsyncStream<StoreStatus> { replica.board.updates() }

    /// The issues that keep the store from being synchronized, at once and later: each one that occurs is resolved, or
    /// another one takes its place. A slow observer gets the newest 64.
    public var issues: AsyncStream<SyncIssueNews> { replica.board.issues() }

    /// True once the store has had everything that the server had. This is stored.
    public var completedFirstSync: Bool { status.completedFirstSync }

    /// The time when the store and the server last had the same; nil if they never had. This is stored.
    public var lastSynced: Date? { status.lastSynced }

    /// True while a client synchronizes the store, or tries to.
    public var isRunning: Bool { status.isRunning }

    /// The id of the user for whom a client synchronizes the store; nil if none does, or its route names no user.
    public var account: String? { status.account }

    /// The status of an object.
    /// - Throws: `ObjectError` if the id is not a valid key; `ReplicaError` if the store cannot be read.
    public func status<Object: SyncedObject>(of type: Object.Type, _ id: Object.ID) async throws -> ObjectStatus {
        try await replica.status(of: try ItemName(type, id))
    }

    /// The status of an object, at once and each time that it changes. A slow observer gets only the newest.
    /// - Throws: `ObjectError` if the id is not a valid key.
    public func statusUpdates<Object: SyncedObject>(
        of type: Object.Type, _ id: Object.ID
    ) throws -> AsyncStream<ObjectStatus> {
        replica.statusUpdates(of: try ItemName(type, id))
    }

    /// The objects that were changed here, and whose changes the server has not acknowledged: those that have waited
    /// longest first, erased ones too. This reads all changes that wait.
    /// - Throws: `ReplicaError` if the store cannot be read.
    public func unsynced() async throws -> [UnsyncedObject] { try await replica.unsynced() }

    /// The goals that can be waited for.
    public enum Goal: Sendable {
        /// The server has all changes that were written here before the call.
        case upload
        /// Everything is here that the server had at the time of the call.
        case download
        /// Both, with no unacknowledged write left.
        case idle
        /// The store has had everything that the server had, once in its life.
        case firstSync
        /// The objects of the newest subscriptions are here.
        case subscriptions
    }

    /// Waits until something is synchronized, through as many connections as it takes.
    /// - Throws: `SyncError` if the wait would never end: no client synchronizes the store, or the server has refused
    ///   it; `CancellationError`.
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
