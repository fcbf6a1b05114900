import AnabranchCore
package import AnabranchHistory
package import AnabranchServer
package import Logging
package import Metrics
import Synchronization

/// Simperium's streaming API: a wire of text messages, and its door (`Spec/Simperium.md`).
package final class SimperiumWire: TextWire, RecordDoor {
    private struct State {
        weak var server: SyncServer?
        var files: [VirtualPath: WeakFile] = [:]
        var memories: [VirtualPath: ClientMemories] = [:]
        var connectionCount = 0
    }

    private struct WeakFile {
        weak var file: SyncedBuckets?
    }

    let limits: SimperiumSettings
    let authenticator: any SimperiumAuthenticator
    let authorizer: any Authorizer
    let logger: Logger
    let metrics: DoorCounters
    private let unixSeconds: @Sendable () -> UInt64
    private let preciseSeconds: @Sendable () -> Double
    private let state = Mutex(State())
    /// How often permissions have changed.
    private let changes = Atomic(0)
    /// How often an operator has ended logins.
    private let endings = Atomic(0)

    /// - Parameters:
    ///   - unixSeconds: the clock, in seconds since 1970.
    ///   - preciseSeconds: the same with their fractions, for the times of writes; nil if there are none.
    package init(
        settings: SimperiumSettings, authenticator: any SimperiumAuthenticator, authorizer: any Authorizer,
        logger: Logger, metrics: any MetricsFactory, unixSeconds: @escaping @Sendable () -> UInt64,
        preciseSeconds: (@Sendable () -> Double)? = nil
    ) {
        limits = settings
        self.authenticator = authenticator
        self.authorizer = authorizer
        self.logger = logger
        self.metrics = DoorCounters(door: "simperium", outcomes: ChangeOutcome.names, factory: metrics)
        self.unixSeconds = unixSeconds
        self.preciseSeconds = preciseSeconds ?? { Double(unixSeconds()) }
    }

    /// Serves the files of a server that has this among its wires. To be called before it runs.
    package func attach(to server: SyncServer) {
        state.withLock { $0.server = server }
        server.attach(self)
    }

    // MARK: The door

    package func observer(of path: VirtualPath) -> (any RecordObserver)? {
        let app = path.bytes.prefix { $0 != UInt8(ascii: "/") }
        guard Self.serves(path.partition ?? []),
            let app = limits.apps.first(where: { $0.key.utf8.elementsEqual(app) })?.value
        else { return nil }
        return SimperiumObserver(app: app, settings: limits.door, unixSeconds: unixSeconds)
    }

    package var name: String { "simperium" }
    package var space: UInt16 { Self.recordSpace }

    /// The space of its records, in all files.
    package static let recordSpace = RecordKind.space

    package var kindNames: [UInt8: String] {
        Dictionary(uniqueKeysWithValues: RecordKind.allCases.map { ($0.rawValue, "\($0)") })
    }
    package var connectionCount: Int { state.withLock { $0.connectionCount } }

    package func channels(of path: VirtualPath) -> [DoorChannel] { openFile(path)?.channels ?? [] }

    package func recheckPermissions() {
        changes.wrappingAdd(1, ordering: .releasing)
        for file in state.withLock({ $0.files.values.compactMap(\.file) }) { file.wakeAll() }
    }

    package func recheckLogins(of user: String) {
        endings.wrappingAdd(1, ordering: .releasing)
        for file in state.withLock({ $0.files.values.compactMap(\.file) })
        where file.channels.contains(where: { $0.user == user }) { file.wakeAll() }
    }

    /// How often permissions have changed.
    var permissionsNumber: Int { changes.load(ordering: .acquiring) }

    /// How often an operator has ended logins.
    var endingsNumber: Int { endings.load(ordering: .acquiring) }

    /// The permission of a user on the buckets in a file.
    func permission(for principal: Principal, on path: VirtualPath) -> Permission {
        authorizer.permission(for: principal, on: Array(path.partition ?? []))
    }

    /// Tells the operator why a bucket cannot be opened.
    func report(_ problem: BucketProblem, with bucket: String, of path: VirtualPath) {
        logger.warning(
            "simperium: a bucket of the form typed is refused",
            metadata: ["path": "\(path)", "bucket": "\(bucket)", "reason": "\(problem.reason)"])
    }

    private func count(_ difference: Int) {
        state.withLock { state in
            state.connectionCount += difference
            metrics.connected(state.connectionCount)
        }
    }

    /// A file that channels have open; nil if none has.
    func openFile(_ path: VirtualPath) -> SyncedBuckets? { state.withLock { $0.files[path]?.file } }

    /// The beginnings of the partitions of this wire.
    private static let folder = "simperium/", sharedFolder = "simperium-shared/"

    /// True if a partition is one of this wire.
    static func serves(_ partition: some Sequence<UInt8>) -> Bool {
        [folder, sharedFolder].contains { partition.starts(with: "\"\($0)".utf8) }
    }

    /// The partition with the buckets of a user.
    static func partition(of user: String) -> PartitionValue { .string(folder + user) }

    /// The partition with a bucket that all users share.
    static func partition(ofShared bucket: String) -> PartitionValue { .string(sharedFolder + bucket) }

    /// The path of the file with a bucket of a user, or of all.
    static func path(of bucket: String, _ settings: BucketSettings, for user: String, app: String) -> VirtualPath {
        VirtualPath(app: app, partition: settings.isShared ? partition(ofShared: bucket) : partition(of: user))
    }

    /// The file with the buckets of a user.
    func file(of user: String, app: String) throws -> SyncedBuckets {
        try file(at: VirtualPath(app: app, partition: Self.partition(of: user)))
    }

    func file(at path: VirtualPath) throws -> SyncedBuckets {
        try state.withLock { state in
            if let file = state.files[path]?.file { return file }
            guard let server = state.server else { throw HistoryError(.storeFailed, "there is no server") }
            state.files = state.files.filter { $0.value.file != nil }
            let clients = state.memories[path] ?? ClientMemories()
            if state.memories[path] == nil, state.memories.count >= Self.memoriesMax {
                state.memories = state.memories.filter { $0.value.seenAt + 86_400 > unixSeconds() }
                let oldest = state.memories.min { $0.value.seenAt < $1.value.seenAt }
                if state.memories.count >= Self.memoriesMax, let oldest { state.memories[oldest.key] = nil }
            }
            state.memories[path] = clients
            let file = SyncedBuckets(
                path, of: server, limits.door, clients: clients, metrics: metrics, unixSeconds: unixSeconds,
                preciseSeconds: preciseSeconds)
            state.files[path] = WeakFile(file: file)
            return file
        }
    }

    /// The most files for which it is remembered what was sent to their clients.
    private static let memoriesMax = 1_000

    // MARK: The wire

    package var settings: TextWireSettings { limits.sockets }

    package func admits(_ request: SocketRequest) -> Bool { SocketPath(request.path) != nil }

    package func serve(_ socket: TextSocket) async {
        guard let path = SocketPath(socket.request.path) else { return }
        count(1)
        defer { count(-1) }
        await SimperiumConnection(socket, self, path).run()
    }
}
