import AnabranchCore
import AnabranchHistory
import AnabranchServer
import AnabranchSimperium
import Logging
import Metrics
import NIOCore
import NIOHTTP1

@testable import AnabranchSimperiumWire

/// A server of a random world: of few threads, and with one user who needs no account. What it does for its clients can
/// be waited for, so that a world is the same each time.
struct WorldServer: Sendable {
    static let user = "ann", bucket = "note"
    static let token = String(repeating: "t", count: 32)
    static let path = VirtualPath(app: WireRig.app, partition: SimperiumWire.partition(of: user))

    let port: Int
    let server: SyncServer
    /// Nil if it serves Realm clients only.
    let file: SyncedBuckets?
    private let salt: UInt64
    private let task: Task<Void, any Error>

    private struct OneUser: SimperiumAuthenticator {
        func admit(token: String, app: String) async -> Admission {
            token == WorldServer.token
                ? .admitted(Principal(app: WireRig.app, user: WorldServer.user)) : .tokenRefused(reason: "unknown")
        }

        func admit(user: String, app: String) async -> Admission { .userRefused(reason: "nobody acts for others") }

        func ended(among logins: Set<String>) async -> Set<String> { [] }
    }

    /// - Parameters:
    ///   - hasDoor: false to serve Realm clients only.
    ///   - trims: true to keep little of the log.
    init(
        on store: any HistoryStore, _ clock: WireRig.Clock, hasDoor: Bool, trims: Bool,
        _ change: (inout SimperiumSettings) -> Void
    ) async throws {
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        var settings = SimperiumSettings()
        settings.apps[WireRig.app] = SimperiumApp()
        change(&settings)
        let wire = SimperiumWire(
            settings: settings, authenticator: OneUser(), authorizer: AllowAllAuthorizer(), logger: logger,
            metrics: NOOPMetricsHandler.instance, unixSeconds: { clock.now })
        var serverSettings = ServerSettings(cores: 1)
        serverSettings.shutdownSecondsMax = 0
        serverSettings.lingerSecondsMax = 0
        if trims {
            serverSettings.history.sealEntries = 8
            serverSettings.history.generationBytes = 1_000
        }
        let server = SyncServer(
            settings: serverSettings, store: store, authenticator: AllowAllAuthenticator(),
            wires: hasDoor ? [wire] : [], logger: logger, metrics: NOOPMetricsHandler.instance,
            unixSeconds: { clock.now })
        if hasDoor { wire.attach(to: server) }
        self.server = server
        task = Task { try await server.run() }
        port = try await server.listening().port ?? 0
        file = hasDoor ? try wire.file(of: Self.user, app: WireRig.app) : nil
        try await file?.openDoor()
        salt = try await file?.read { $0.door.salt } ?? 0
    }

    func stop() async {
        task.cancel()
        _ = await task.result
    }

    // MARK: Waiting

    /// Waits until all changes that the server has been sent are decided on, and read for all channels.
    func finish() async throws {
        guard let file else { return }
        // It is refused, and leaves nothing.
        let probe = ChangeRequest(
            key: "probe", ident: "probe", client: "probe", operation: .modify(ObjectDiff(), full: nil), source: 1,
            isNode: false)
        typealias Answer = CheckedContinuation<ServerVersion, any Error>
        let head = try await withCheckedThrowingContinuation { (answer: Answer) in
            file.submit(probe, to: Self.bucket, BucketSettings()) { result in
                answer.resume(with: result.map { $0.version })
            }
        }
        guard head.rawValue > 0 else { return }
        let before = ChangePlace.end(of: ServerVersion(rawValue: head.rawValue - 1))
        while let news = file.news(of: Self.bucket, after: before, salt: salt), news.through < .end(of: head) {
            await Task.yield()
        }
        file.wakeAll()
    }

    // MARK: HTTP

    /// Answers a request as `Simperium3` makes it.
    /// - Returns: the status.
    func respond(
        _ method: HTTPMethod, _ target: DataPath.Target, query: String = "", body: String = ""
    ) async throws -> UInt {
        guard let file, let query = FormFields(query.utf8) else { return 503 }
        let bucket = HTTPBucket(
            name: Self.bucket, file: file, settings: BucketSettings(),
            principal: Principal(app: WireRig.app, user: Self.user), isWritable: true, newsSeconds: 0,
            changesPerMinuteMax: .max, skipsPerMinuteMax: .max)
        do {
            let request = EndpointRequest(method: method, path: "")
            return try await bucket.respond(request, query, Array(body.utf8), target).status.code
        } catch let refusal as DataRefusal {
            return refusal.status.code
        }
    }
}
