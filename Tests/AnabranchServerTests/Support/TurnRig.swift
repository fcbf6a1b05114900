import AnabranchCore
import AnabranchHistory
@testable import AnabranchProtocol
import AnabranchTesting
import Metrics
import Synchronization
import Testing

@testable import AnabranchServer

/// The turns of synced files, taken by hand. By default every step of time is over as soon as somebody asks, and a
/// merge asks after each pair of instructions, so that nothing depends on clocks.
final class TurnRig {
    /// A client and its session.
    final class Client {
        let path: VirtualPath
        let file: SaltedFileID
        let session: SessionKey
        var events: [SessionEvent] = []
        /// The cost of its requests that are done.
        var doneBytes = 0
        fileprivate(set) var submittedBytes = 0

        fileprivate init(_ path: VirtualPath, _ file: SaltedFileID, number: UInt64) {
            self.path = path
            self.file = file
            session = SessionKey(
                connection: ConnectionID(number: number), session: SessionHandle(ident: 1, serial: number))
        }

        /// The newest version that it was told.
        var version: ServerVersion? {
            events.reduce(nil) { latest, event in
                switch event {
                case .versionExposed(let version), .identAccepted(_, exposedVersion: let version): version
                case .download(let progress, _): progress.latest.version
                default: latest
                }
            }
        }

        var errors: [ErrorMessage] {
            events.compactMap { if case .failed(let error) = $0 { error } else { nil } }
        }

        var downloads: [DownloadProgress] {
            events.compactMap { if case .download(let progress, _) = $0 { progress } else { nil } }
        }
    }

    /// Seconds since 1970, as tests say.
    final class Clock: Sendable {
        private let state = Mutex<UInt64>(1)

        var seconds: UInt64 {
            get { state.withLock { $0 } }
            set { state.withLock { $0 = newValue } }
        }
    }

    let store: any HistoryStore
    let files: FileQueues
    let clock = Clock()
    private let clients: Clients

    /// Those that replies are delivered to. Everything happens on the thread of the test.
    private final class Clients: @unchecked Sendable {
        var of: [ConnectionID: Client] = [:]
    }

    init(
        store: any HistoryStore = InMemoryStore(), keepsState: Bool = false,
        messageMemory: MemoryBudget = MemoryBudget(bytesMax: .max),
        metrics: any MetricsFactory = NOOPMetricsHandler.instance, step: StepLimit = .smallest,
        change: (inout FileOptions) -> Void = { _ in }
    ) {
        let clients = Clients()
        self.clients = clients
        self.store = store
        var options = FileOptions()
        options.keepsState = keepsState
        options.backlogBytesMax = 1 << 20
        options.sharedBodiesBytesMax = 0
        options.destructiveSchema = { _ in .allow }
        change(&options)
        let environment = FileEnvironment(
            store: store, committerThreads: 0, options: options, metrics: SyncMetrics(factory: metrics),
            logger: .quiet, messageMemory: messageMemory, beginStep: { step },
            unixSeconds: { [clock] in clock.seconds })
        files = FileQueues(environment, threads: nil) { turn in
            for reply in turn.replies { clients.of[reply.session.connection]?.events.append(reply.event) }
            for charge in turn.done { clients.of[charge.connection]?.doneBytes += charge.bytes }
        }
    }

    /// Client files of one synced file, each with a session that runs.
    func join(_ path: String, count: Int) throws -> [Client] {
        let path = VirtualPath(path)
        let users = [String?](repeating: nil, count: count)
        // If it is open, whoever opens it once more takes its lease.
        let idents =
            try withFile(path) { try? $0.sessions?.file.allocateIdents(for: users, at: 1) }
            ?? SyncedFile(path: path, store: store, keepsState: false).allocateIdents(for: users, at: 1)
        return idents.map { ident in
            let client = Client(path, ident, number: UInt64(clients.of.count + 1))
            clients.of[client.session.connection] = client
            bind(client)
            return client
        }
    }

    /// A client of another rig comes to this one.
    func adopt(_ client: Client) {
        clients.of[client.session.connection] = client
        bind(client)
    }

    func bind(_ client: Client) {
        submit(.open(BindRequest(partition: client.path.bytes, needsFileIdent: false)), of: client)
        submit(
            .identify(
                IdentRequest(file: client.file, download: DownloadCursor(), latest: SaltedVersion()),
                hasRestarted: false), of: client)
        finish()
    }

    func submit(_ request: SessionRequest, of client: Client) {
        let request = FileRequest(
            path: client.path, session: client.session, principal: Principal(app: ""), capabilities: .all,
            request: request)
        client.submittedBytes += request.cost
        files.submit(request)
    }

    /// Changesets with the client versions `first`, `first + 1` … on one base.
    func upload(_ changesets: [[UInt8]], from first: UInt64 = 1, of client: Client) {
        let uploaded = zip(first..., changesets).map { version, bytes in
            UploadedChangeset(
                cursor: UploadCursor(clientVersion: ClientVersion(version), serverVersion: 0), timestamp: 5,
                changeset: bytes)
        }
        let last = ClientVersion(first + UInt64(changesets.count) - 1)
        let progress = UploadCursor(clientVersion: last, serverVersion: 0)
        submit(.integrate(UploadMessage(Upload(progress: progress, changesets: uploaded))), of: client)
    }

    /// Takes the turn of one file.
    /// - Returns: whether there was one.
    @discardableResult
    func takeTurn() -> Bool { files.takeTurn() }

    /// Takes turns until it is so, at most as many as nothing should need.
    func takeTurns(until isSo: () throws -> Bool) rethrows {
        for _ in 0..<1000 { guard try !isSo(), takeTurn() else { return } }
        Issue.record("it is not so after 1,000 turns")
    }

    /// Takes turns until nothing waits.
    func finish() { while takeTurn() {} }

    /// The client file as the store has it.
    func stored(_ client: Client) throws -> ClientFile? {
        guard let id = withFile(client.path, { $0.sessions?.file.id }) else { return nil }
        return try store.read(id) { view throws(HistoryError) in try view.clientFile(client.file.ident) }
    }

    func isMerging(_ path: String) -> Bool { withFile(VirtualPath(path)) { $0.isMerging } ?? false }

    /// - Returns: nil if the file is not open.
    func withFile<Result: Sendable>(_ path: VirtualPath, _ body: (FileTurns) -> Result?) -> Result? {
        files.queue(of: path)?.turns.withLock { body($0) }
    }

    /// Changesets that each set the same field of one object.
    static func updates(_ count: Int) -> [[UInt8]] {
        let field = FieldPath(object: ObjectName(className: "T", key: .int(1)), field: "n")
        return (0..<count).map { ChangesetWriter([.update(field, .int(Int64($0)))]).bytes }
    }

    /// The class and the object that `updates` are about.
    static let object = ChangesetWriter([
        .addTable("T"), .addColumn("T", "n"), .createObject(ObjectName(className: "T", key: .int(1))),
    ]).bytes
}
