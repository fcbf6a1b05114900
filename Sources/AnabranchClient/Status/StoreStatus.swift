public import AnabranchCore
public import Foundation

/// The status of a store's synchronization (`Spec/Objects.md`, section 7).
public struct StoreStatus: Equatable, Sendable {
    /// A set of current activities.
    public struct Activity: OptionSet, Hashable, Sendable {
        /// The bits, one for each activity.
        public let rawValue: UInt8

        /// A set of activities by its bits.
        public init(rawValue: UInt8) { self.rawValue = rawValue }

        /// Changes are being downloaded from the server.
        public static let downloading = Activity(rawValue: 1)
        /// Changes are being uploaded to the server, or wait for its acknowledgement.
        public static let uploading = Activity(rawValue: 2)
        /// It is not known yet what the server has, since the connection or the subscriptions are new.
        public static let syncingMetadata = Activity(rawValue: 4)
        /// There is a session with the server, which answers in time.
        public static let online = Activity(rawValue: 8)
    }

    /// The current activities.
    public internal(set) var activity: Activity = []
    /// The progress of the download.
    public internal(set) var download = TransferProgress()
    /// The progress of the upload.
    public internal(set) var upload = TransferProgress()
    /// True once the store has had everything that the server had, so that it can be used. This is stored.
    public internal(set) var completedFirstSync = false
    /// The time when the store and the server last had the same, by the clock of this device and to the second; nil if
    /// they never had. It is stored once a minute, and when a connection ends. While nothing happens on a connection
    /// it stands still: `isOnline` and `isIdle` say that all is well.
    public internal(set) var lastSynced: Date?
    /// True while a client synchronizes the store, or tries to.
    public internal(set) var isRunning = false
    /// The id of the user for whom a client synchronizes the store; nil if none does, or its route names no user.
    public internal(set) var account: String?
    /// True if the server has announced versions that are not here yet.
    public internal(set) var isNewerVersionAvailable = false
    /// The number of local transactions that the server has not acknowledged.
    public internal(set) var pendingTransactions = 0
    /// The issue that keeps the store from being synchronized; nil if there is none.
    public internal(set) var issue: SyncIssue?

    /// True while changes are downloaded.
    public var isDownloading: Bool { activity.contains(.downloading) }
    /// True while changes are uploaded, or wait for the server's acknowledgement.
    public var isUploading: Bool { activity.contains(.uploading) }
    /// True while there is a session with the server.
    public var isOnline: Bool { activity.contains(.online) }
    /// True if nothing is being transferred.
    public var isIdle: Bool { activity.isDisjoint(with: [.downloading, .uploading]) }
}

/// The progress of a transfer. Within one transfer it never decreases, and it ends with a fraction of 1.
public struct TransferProgress: Equatable, Sendable {
    /// The bytes of changesets that were transferred.
    public internal(set) var transferred: Int64 = 0
    /// The bytes of changesets to be transferred in all; nil if the number is not known.
    public internal(set) var total: Int64? = 0
    /// The part of it that is done, from 0 to 1; 1 if there is nothing to do.
    public internal(set) var fraction = 1.0
}

/// The synchronization of one object: whether it is here, and which transfer it waits for.
public struct ObjectStatus: Equatable, Sendable {
    /// The transfer that concerns an object.
    public enum State: Sendable {
        /// No transfer concerns the object.
        case idle
        /// The object is not here, and the store is downloading.
        case downloading
        /// The object was changed here, and the change is being uploaded.
        case uploading
    }

    /// The transfer that concerns the object.
    public internal(set) var state = State.idle
    /// True if it is here, and can be read without a network.
    public internal(set) var isCached = false
    /// True if it was changed here, and the server has not acknowledged the change.
    public internal(set) var isPending = false
    /// True if the server has announced versions that are not here yet, which may change it.
    public internal(set) var isNewerVersionAvailable = false
    /// The progress of the transfer that it is part of; when it is idle, a fraction of 1 if it is cached and 0 if not.
    public internal(set) var progress = TransferProgress()
    /// The issue that prevents a transfer that it needs; nil if there is none.
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

/// An object with a change that the server has not acknowledged.
public struct UnsyncedObject: Equatable, Sendable {
    /// The class of the object.
    public let className: String
    /// The primary key of the object, which may have been erased.
    public let key: PrimaryKey
    /// The time of the first of its changes that wait, by the clock of this device.
    public let since: Date

    /// True if it is about an object.
    public func concerns<Object: SyncedObject>(_ type: Object.Type, _ id: Object.ID) -> Bool {
        className == type.className && (try? id.primaryKey) == key
    }
}
