/// How the synchronization of a store stands (`Spec/Objects.md`, section 7).
public struct StoreStatus: Equatable, Sendable {
    /// What is going on: all that applies, together.
    public struct Activity: OptionSet, Hashable, Sendable {
        /// The bits, one for each.
        public let rawValue: UInt8

        /// From its bits.
        public init(rawValue: UInt8) { self.rawValue = rawValue }

        /// Changes come from the server.
        public static let downloading = Activity(rawValue: 1)
        /// Changes go to the server, and wait for its word that it has them.
        public static let uploading = Activity(rawValue: 2)
        /// It is not known yet what the server has: the connection is new, or the subscriptions are.
        public static let syncingMetadata = Activity(rawValue: 4)
        /// There is a session with the server, which answers in time.
        public static let online = Activity(rawValue: 8)
    }

    /// What is going on.
    public internal(set) var activity: Activity = []
    /// What comes from the server.
    public internal(set) var download = TransferProgress()
    /// What goes to the server.
    public internal(set) var upload = TransferProgress()
    /// Whether the store has once had everything that the server had: it can be used. This is kept.
    public internal(set) var completedFirstSync = false
    /// Whether a client synchronizes the store, or tries to.
    public internal(set) var isRunning = false
    /// The server has told of versions that are not here yet.
    public internal(set) var isNewerVersionAvailable = false
    /// Local transactions that the server has not acknowledged.
    public internal(set) var pendingTransactions = 0
    /// What keeps the store from being synchronized.
    public internal(set) var issue: SyncIssue?

    /// Whether changes come from the server.
    public var isDownloading: Bool { activity.contains(.downloading) }
    /// Whether changes go to the server.
    public var isUploading: Bool { activity.contains(.uploading) }
    /// Whether there is a session with the server.
    public var isOnline: Bool { activity.contains(.online) }
    /// Whether nothing moves.
    public var isIdle: Bool { activity.isDisjoint(with: [.downloading, .uploading]) }
}

/// How far a transfer has come. Within one transfer it does not go back, and it ends with a fraction of 1.
public struct TransferProgress: Equatable, Sendable {
    /// Bytes of changesets.
    public internal(set) var transferred: Int64 = 0
    /// Bytes of changesets that there are to be transferred; nil if it is not known.
    public internal(set) var total: Int64? = 0
    /// How much of it is done, from 0 to 1; 1 if there is nothing to do.
    public internal(set) var fraction = 1.0
}

/// How an object stands.
public struct ObjectStatus: Equatable, Sendable {
    /// What happens to it.
    public enum State: Sendable {
        /// Nothing.
        case idle
        /// It is not here, and the store is being filled.
        case downloading
        /// It was changed here, and the change is on its way.
        case uploading
    }

    /// What happens to it.
    public internal(set) var state = State.idle
    /// Whether it is here, and can be read without a network.
    public internal(set) var isCached = false
    /// Whether it was changed here, and the server has not acknowledged that.
    public internal(set) var isPending = false
    /// Whether the server has told of versions that are not here yet, which may change it.
    public internal(set) var isNewerVersionAvailable = false
    /// The transfer that it is part of; when it is idle, 1 if it is cached and 0 if not.
    public internal(set) var progress = TransferProgress()
    /// What keeps a transfer that it needs from happening.
    public internal(set) var issue: SyncIssue?

    init(of store: StoreStatus, isCached: Bool, isPending: Bool) {
        self.isCached = isCached
        self.isPending = isPending
        isNewerVersionAvailable = store.isNewerVersionAvailable
        progress.fraction = isCached ? 1 : 0
        if isPending, store.isUploading {
            (state, progress) = (.uploading, store.upload)
        } else if !isCached, store.isDownloading {
            (state, progress) = (.downloading, store.download)
        }
        if isPending || !isCached { issue = store.issue }
    }
}
