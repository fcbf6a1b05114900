import AnabranchCore
import AnabranchHistory
@testable import AnabranchProtocol
import AnabranchTesting

@testable import AnabranchServer

/// The turns of a store thread, taken by hand. Every step of time is over as soon as somebody asks, and a merge asks
/// after each pair of instructions, so that nothing depends on clocks.
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

    let store: any HistoryStore
    let turns: StoreTurns
    private let clients: Clients

    /// Those that replies are delivered to.
    private final class Clients {
        var of: [ConnectionID: Client] = [:]
    }

    /// - Parameter storedProgressSessionsMax: how many sessions of a file have their progress stored at once.
    init(
        store: any HistoryStore = InMemoryStore(), keepsState: Bool = false,
        storedProgressSessionsMax: Int = FileSessions.storedProgressSessionsMax
    ) {
        let clients = Clients()
        self.clients = clients
        self.store = store
        let registry = FileRegistry(
            store: store, keepsState: keepsState, limits: Limits(), backlogBytesMax: 1 << 20,
            sharedBodiesBytesMax: 0, destructiveSchema: { _ in .allow },
            storedProgressSessionsMax: storedProgressSessionsMax, metrics: SyncMetrics(), logger: .quiet,
            beginStep: { StepLimit(asking: { true }, piece: 1) }, unixSeconds: { 1 })
        turns = StoreTurns(registry, MemoryBudget(bytesMax: .max)) { batches in
            for batch in batches {
                clients.of[batch.connection]?.events += batch.replies.map(\.event)
                clients.of[batch.connection]?.doneBytes += batch.doneBytes
            }
        }
    }

    /// Client files of one synced file, each with a session that runs. Nobody else may have the file open.
    func join(_ path: String, count: Int) throws -> [Client] {
        let path = VirtualPath(path)
        let idents = try SyncedFile(path: path, store: store, keepsState: false)
            .allocateIdents(for: Array(repeating: nil, count: count), at: 1)
        return idents.map { ident in
            let client = Client(path, ident, number: UInt64(clients.of.count + 1))
            clients.of[client.session.connection] = client
            bind(client)
            return client
        }
    }

    func bind(_ client: Client) {
        submit(.open(BindRequest(partition: client.path.bytes, needsFileIdent: false)), of: client)
        submit(
            .identify(IdentRequest(file: client.file, download: DownloadCursor(), latest: SaltedVersion())),
            of: client)
        finish()
    }

    func submit(_ request: SessionRequest, of client: Client) {
        let request = FileRequest(
            path: client.path, session: client.session, user: nil, capabilities: .all, request: request)
        client.submittedBytes += request.cost
        turns.take([], [request])
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

    func takeTurn(isEnding: Bool = false) { turns.takeTurn(isEnding: isEnding) }

    /// Takes turns until nothing waits.
    func finish() {
        while turns.hasWork { takeTurn() }
    }

    /// What the store has of a client file.
    func stored(_ client: Client) throws -> ClientFile? {
        guard let file = turns.registry.openFiles[client.path]?.file else { return nil }
        return try store.read(file.id) { view throws(HistoryError) in try view.clientFile(client.file.ident) }
    }

    func isMerging(_ path: String) -> Bool { turns.registry.isMerging(VirtualPath(path)) }

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
