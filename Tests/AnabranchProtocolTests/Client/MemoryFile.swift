import AnabranchCore
import AnabranchTesting

@testable import AnabranchProtocol
@testable import AnabranchSimulation

/// The file of a client in memory, and what whoever drives a session does with it.
struct MemoryFile: SessionFile {
    private(set) var client: MemoryClient?
    /// Nil in partition-based sync.
    private(set) var sets: SubscriptionSets?
    private(set) var progress = DownloadCheck.nothing
    private var parts: [DownloadedChangeset] = []
    /// The news for the application.
    private(set) var compensations: [ErrorMessage] = []
    private(set) var answered: UInt64 = 0
    private(set) var errors: [ErrorCode] = []
    private let keepsState: Bool
    /// The answer to a MARK could not be stored.
    var needsMark = false

    init(_ mode: SyncMode, keepsState: Bool = true) {
        sets = mode == .flexible ? SubscriptionSets() : nil
        self.keepsState = keepsState
    }

    // MARK: What the session asks

    var file: SaltedFileID? { client?.file }
    var version: ClientVersion { client?.version ?? 0 }
    var activeSubscriptions: SubscriptionSet? { sets?.identified }

    func unsentSubscriptions(after version: QueryVersion) -> UnsentSubscriptions? {
        sets?.unsent(above: version).map { UnsentSubscriptions(set: $0.set, snapshot: $0.snapshot) }
    }

    mutating func startUploading() {
        client?.startSession()
        parts = []
        sets?.bootstrapsDropped()
    }

    func hasUploaded(through version: ClientVersion) -> Bool { client?.hasUploaded(through: version) ?? true }

    mutating func nextUpload(through version: ClientVersion) -> Upload? { client?.nextUpload(through: version) }

    // MARK: What the application does

    mutating func write(_ body: (WriteTransaction) throws -> Void) throws { try client?.write(at: 1, body) }

    /// A transaction; unless it is told which, one that adds the class A.
    mutating func commit(_ changeset: [UInt8] = [0x3f, 0, 1, 0x41]) throws { try client?.commit(changeset, at: 1) }

    mutating func subscribe(_ query: String) throws -> QueryVersion {
        try client?.commit([], at: 0)
        let snapshot = version
        return sets?.commit(query, at: snapshot) ?? 0
    }

    // MARK: What the server says

    /// Does what an event asks.
    mutating func take(_ event: ClientSession.Event, of session: inout ClientSession) throws {
        switch event {
        case .ident(let file): client = MemoryClient(file, keepsState: keepsState)
        case .download(let download, .steady):
            try integrate(download)
            compensations += session.integrated()
        case .download(let download, .bootstrap(let set, let isLast)):
            try sets?.bootstrapCame(set)
            parts += download.changesets
            if isLast {
                try integrate(Download(progress: download.progress, changesets: parts))
                parts = []
                sets?.bootstrapped(set, isComplete: false)
            }
            compensations += session.integrated()
        case .marked(let request, let complete):
            answered = request
            if let complete, complete == sets?.active { sets?.markAnswered() }
        case .queryRefused(let refusal): try sets?.refused(refusal.version, refusal.message)
        case .failed(let error): errors.append(error.code)
        case .downloadRefused, .log, .unbound: break
        }
    }

    private mutating func integrate(_ download: Download) throws {
        try client?.integrate(download)
        progress = download.progress
    }
}
