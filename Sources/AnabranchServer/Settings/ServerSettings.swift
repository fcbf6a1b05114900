import AnabranchCore
public import AnabranchHistory
public import AnabranchProtocol

/// How a server listens, and its limits (`Spec/Limits.md`, section 2).
public struct ServerSettings: Sendable {
    /// The name or address to listen on.
    public var host = "127.0.0.1"
    /// The TCP port; 0 lets the system choose one.
    public var port = 0

    /// The limits of one message, one session and one connection.
    public var limits: Limits = {
        var limits = Limits()
        // Much smaller than clients are used to: making one takes milliseconds, during which the worker's other files
        // wait, and an unread one of a slow reader stays in memory.
        limits.downloadBytesSoftMax = 256 << 10
        return limits
    }()

    /// Connections at one time. Further ones are closed as soon as they are accepted.
    public var connectionsMax = 10_000
    /// Connections of one IP address at one time. Further ones are closed as soon as they are accepted.
    public var connectionsPerAddressMax = 1_000
    /// The proxies in front of the server. Connections through them count as those of the clients that they name.
    public var trustedProxies = TrustedProxies.none
    /// True if they name clients by a header of the PROXY protocol at the start of each connection, which is then
    /// required, and not by X-Forwarded-For in each request.
    public var usesProxyProtocol = false
    /// The path under which clients reach the server, such as `/sync`; empty if there is none. Requests may come with
    /// it or, if a proxy has removed it, without it. `AppServicesSettings.publicURL` has to end with it.
    public var basePath = ""
    /// WebSockets of one user at one time. Further ones are refused with status 503, and their clients try again.
    public var connectionsPerUserMax = 500
    /// How long a connection may outlive the login that it depends on, in seconds.
    public var loginCheckSecondsMax: Int64 = 30
    /// How long a client may take to open its WebSocket, in seconds.
    public var handshakeSecondsMax: Int64 = 20
    /// Longest body of an HTTP request whose route sets no limit, in bytes.
    public var bodyBytesMax = 64 << 10
    /// The memory for long bodies of HTTP requests that are collected, in bytes. A body of more than 64 KiB waits until
    /// there is room for it; shorter ones do not.
    public var bodyMemoryBytesMax = 64 << 20
    /// How long a closed WebSocket, or a socket after its last answer, waits for the client to close its side, in
    /// seconds.
    public var lingerSecondsMax: Int64 = 10
    /// How long a shutdown waits until clients have heard what was committed, in seconds.
    public var shutdownSecondsMax: Int64 = 10
    /// The memory for the requests of one connection to synced files, in bytes. While they occupy more, the connection
    /// is not read.
    public var waitingBytesMax = 4 << 20
    /// The uploads that may wait for integration into one synced file, in bytes. A client that uploads more loses its
    /// connection with code 100 and tries again.
    public var backlogBytesMax = 256 << 20
    /// The memory for the requests of all connections to synced files, in bytes. While they occupy more, no further
    /// UPLOAD of any connection is handled.
    public var allWaitingBytesMax = 512 << 20
    /// The memory for the long messages of all connections, in bytes: those that clients are sending, and DOWNLOADs
    /// that they have not read. A message that does not fit waits; short ones do not.
    public var messageMemoryBytesMax = 256 << 20
    /// New synced files of one user within a minute. Opening an unknown path creates a file, even if only to read it. A
    /// user beyond the limit can only open files that are in use, for the rest of the minute.
    public var newFilesPerMinuteMax = 1_000
    /// Idents of one user for new client files within a minute: a client requests one when it opens a synced file for
    /// the first time, or after a reset. The sessions of a user beyond the limit wait for the rest of the minute.
    public var newClientFilesPerMinuteMax = 1_000
    /// In flexible sync, how many milliseconds of a processor the queries of one user may take within a minute, to find
    /// the objects that enter and leave. For the rest of the minute further ones end their sessions, and wait.
    public var queryMillisecondsPerMinuteMax = 10_000
    /// A client whose changes show that its clock is wrong by more, in seconds, is named in the log.
    public var clientClockSecondsMax = 300
    /// The rule on whether clients may remove classes and columns (`Spec/History.md`, section 16.2), by app id.
    public var destructiveSchemaByApp: [String: DestructiveSchema] = [:]
    /// The same for all other apps.
    public var destructiveSchema = DestructiveSchema.refuse
    /// The apps whose clients subscribe to queries, by their ids (`Spec/FlexibleSync.md`); all others have partitions.
    public var flexibleApps: Set<String> = []
    /// The forks of Realm's SDKs whose clients are served as well as Realm's own (`Spec/Forks.md`).
    public var forks: [WireDialect] = []
    /// For development: the first change of any other app decides whether it has partitions or its clients subscribe to
    /// queries, for as long as the store has files of the app with changes.
    public var takesModeOfFirstClient = false
    /// How large an object can grow, in bytes: each change of an object writes all of it. A value has 16 MiB at most,
    /// so an object with such a value and some more fields is accepted.
    public var objectBytesMax = 17 << 20
    /// True if a client file without a known user is given to the first user who opens it: for a server that had no
    /// log-ins and gets them. If false, its users are refused with code 223.
    public var adoptsUnownedClientFiles = false
    /// The memory for shared bodies of DOWNLOADs, in bytes: several readers may need the same one.
    public var sharedBodiesBytesMax = 16 << 20
    /// The space to leave free on the disk of the store, in bytes. While less is, changes of clients and new synced
    /// files are refused with code 201, which clients repeat later, and the server is not ready; everything can be
    /// read.
    public var freeBytesMin = 256 << 20
    /// The most that the store may hold, in bytes of its databases that are in use. While it holds more, the server
    /// behaves as if the disk had too little free space.
    public var storeBytesMax = Int.max
    /// The rules for how much history synced files keep.
    public var history = HistoryPolicy()
    /// The memory of the caches of all synced files together, in bytes: the newest log entries, client files, and
    /// objects of states.
    public var cachesBytesMax = 256 << 20

    /// Threads that serve sockets.
    public var eventLoopThreads: Int
    /// Threads that merge, and make DOWNLOADs; at most one works on a synced file at a time.
    public var workerThreads: Int
    /// Threads that commit; at most one writes to a shard of the store at a time. With more of them, flushes are more
    /// frequent and smaller.
    public var committerThreads: Int

    /// Defaults for a machine, with one thread of each kind for each processor.
    /// - Parameter cores: the number of processors to use, at least 1.
    public init(cores: Int) {
        eventLoopThreads = max(1, cores)
        workerThreads = max(1, cores)
        committerThreads = max(2, cores)
    }

    /// The rule for a synced file, whose path begins with the id of its app.
    func destructiveSchema(of path: VirtualPath) -> DestructiveSchema {
        let app = path.app
        return destructiveSchemaByApp[exactly: app] ?? destructiveSchema
    }
}
