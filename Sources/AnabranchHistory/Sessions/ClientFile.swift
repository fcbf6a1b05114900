public import AnabranchCore

/// The server's record of one client file (`Spec/History.md`, section 2.3). Rows 0 and 1 are reserved; their salt is 0,
/// so that nobody can bind them.
public struct ClientFile: Equatable, Sendable {
    /// 2, 3, 4 … in the order of allocation; never used again.
    public var ident: ClientFileID
    /// 0 for the reserved rows.
    public var salt: Salt
    /// The newest client version that was integrated, and the last server version that the client had integrated at
    /// that point. The latter is the base of the reciprocal history.
    public var uploadCursor: UploadCursor
    /// The highest value that the client reported.
    public var lockedVersion: ServerVersion
    /// When the client last identified itself, within a day, or something of it was integrated; in seconds since 1970.
    public var lastSeen: UInt64
    /// An expired file is refused from then on, and has no reciprocal history.
    public var isExpired: Bool
    /// The user who requested the ident; nil if unknown.
    public var user: String?
    /// The entries that the client is sent, and with which its uploads are merged.
    public var lineage: Lineage
    /// The newest client version of this file among the entries that were trimmed; 0 if there is none.
    public var baseClientVersion: ClientVersion
    /// The newest log entry that was received from the client; nil if there is none.
    public var newestReceipt: Receipt?
    /// In a shared store, the number of times that the row was written: 1 for a new one. A commit writes the number
    /// after the one that its author has read. Otherwise 0.
    public var revision: UInt64
    /// In a shared store, the number of the client's newest session, at whichever node that is. Otherwise 0.
    public var session: UInt64
    /// In a shared store, when a node has found that the client file is to expire, in seconds since 1970; 0 if none has
    /// since its client was seen. Otherwise 0.
    public var foundAway: UInt64 = 0

    /// Creates a client file; by default a new one, which has uploaded nothing.
    public init(
        ident: ClientFileID, salt: Salt, uploadCursor: UploadCursor = UploadCursor(), lockedVersion: ServerVersion = 0,
        lastSeen: UInt64, isExpired: Bool = false, user: String? = nil, lineage: Lineage = .log,
        baseClientVersion: ClientVersion = 0, newestReceipt: Receipt? = nil, revision: UInt64 = 0, session: UInt64 = 0
    ) {
        self.ident = ident
        self.salt = salt
        self.uploadCursor = uploadCursor
        self.lockedVersion = lockedVersion
        self.lastSeen = lastSeen
        self.isExpired = isExpired
        self.user = user
        self.lineage = lineage
        self.baseClientVersion = baseClientVersion
        self.newestReceipt = newestReceipt
        self.revision = revision
        self.session = session
    }

    /// Records that the client was there.
    /// - Parameter time: seconds since 1970.
    mutating func seen(at time: UInt64) { (lastSeen, foundAway) = (time, 0) }

    /// Rows 0 (nobody) and 1 (the server's own file), with which every table of client files begins.
    public static let reserved = [
        ClientFile(ident: 0, salt: 0, lastSeen: 1), ClientFile(ident: 1, salt: 0, lastSeen: 1),
    ]
}

/// The one sequence of entries that a client file is sent, and that its uploads are merged with
/// (`Spec/BoundedHistory.md`, section 3).
public enum Lineage: Hashable, Sendable, RawRepresentable {
    /// Undecided: nothing was sent or uploaded.
    case none
    /// The log from its beginning.
    case log
    /// The bootstrap generation of a version, which is at least 1, and the log after it.
    case generation(ServerVersion)
    /// The log after a version: the client came with a copy of another client's file, which had everything up to there.
    case copy(ServerVersion)
    /// In flexible sync: a view, whose first bootstrap has the version, and its changes by the log after that.
    case view(ServerVersion)

    /// The number that is added to the version of a copy.
    package static let copyOffset: UInt64 = 1 << 61
    /// The number that is added to the version of a view.
    package static let viewOffset: UInt64 = 1 << 62

    /// The stored form: 0 for none, 1 for the log, n + 1 for the generation of version n, n + 2^61 for a copy, n + 2^62
    /// for a view.
    public var rawValue: UInt64 {
        switch self {
        case .none: 0
        case .log: 1
        case .generation(let version): version.rawValue + 1
        case .copy(let version): version.rawValue + Self.copyOffset
        case .view(let version): version.rawValue + Self.viewOffset
        }
    }

    /// Reads the stored form; every number has a meaning.
    public init(rawValue: UInt64) {
        self =
            switch rawValue {
            case 0: .none
            case 1: .log
            case Self.viewOffset...: .view(ServerVersion(rawValue: rawValue - Self.viewOffset))
            case Self.copyOffset...: .copy(ServerVersion(rawValue: rawValue - Self.copyOffset))
            default: .generation(ServerVersion(rawValue: rawValue - 1))
            }
    }
}
