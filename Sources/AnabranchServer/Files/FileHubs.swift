import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import Logging

/// The synced files of one store thread: opens them when a session needs them, lets go of them when none does, and
/// commits what their clients uploaded, all files together.
///
/// To be used in turns: `handle` what has come in, tell the replies, `commit`, tell the replies.
final class FileHubs {
    private let store: any HistoryStore
    private let keepsState: Bool
    private let limits: Limits
    private let backlogBytesMax: Int
    private let unixSeconds: @Sendable () -> UInt64
    private let metrics: WireMetrics
    private let logger: Logger
    private var hubs: [VirtualPath: FileHub] = [:]
    private var bodies: SharedBodies
    /// The files that were integrated last, the last one at the end: they keep what makes the next integration cheaper.
    private var warmFiles: [VirtualPath] = []
    /// More files keep nothing: those that have been quiet for longest let go of it.
    static let warmFilesMax = 32
    /// The files that calls of this turn were about.
    private var touched: Set<VirtualPath> = []
    /// What files that were abandoned still have to say.
    private var farewells: [FileReply] = []
    /// Who has made new files, over all store threads.
    private let newFiles: AttemptCounter
    private let newFilesPerMinuteMax: Int

    /// - Parameters:
    ///   - keepsState: whether uploads are applied to the states of their files; if not, this is a relay.
    ///   - newFiles: counts the files that users make.
    ///   - newFilesPerMinuteMax: who has made so many within the minute opens none that is not open already.
    ///   - unixSeconds: the clock, for when a client file was last seen.
    init(
        store: any HistoryStore, keepsState: Bool = true, limits: Limits, backlogBytesMax: Int,
        sharedBodiesBytesMax: Int, newFiles: AttemptCounter = AttemptCounter(), newFilesPerMinuteMax: Int = .max,
        metrics: WireMetrics, logger: Logger,
        unixSeconds: @escaping @Sendable () -> UInt64
    ) {
        self.store = store
        self.keepsState = keepsState
        self.limits = limits
        self.backlogBytesMax = backlogBytesMax
        self.newFiles = newFiles
        self.newFilesPerMinuteMax = newFilesPerMinuteMax
        self.unixSeconds = unixSeconds
        self.metrics = metrics
        self.logger = logger
        bodies = SharedBodies(bytesMax: sharedBodiesBytesMax)
    }

    /// Everything but the integration of uploads, which waits for `commit`.
    func handle(_ calls: [FileCall]) -> [FileReply] {
        var replies: [FileReply] = []
        for call in calls {
            guard !isTooNew(call) else {
                replies.append(FileReply(session: call.session, news: .failed(Self.tooManyNewFiles)))
                continue
            }
            do {
                guard let hub = try hub(for: call) else { continue }
                touched.insert(call.path)
                handle(call, by: hub)
            } catch {
                log(error, path: call.path)
                replies.append(FileReply(session: call.session, news: .failed(ErrorMessage(error))))
            }
        }
        for hub in touchedHubs {
            do {
                try hub.allocateIdents(at: unixSeconds())
            } catch {
                abandon(hub, error)
            }
            replies += hub.takeReplies()
        }
        return replies + takeFarewells()
    }

    private func handle(_ call: FileCall, by hub: FileHub) {
        let start = ContinuousClock.now
        do {
            try hub.handle(call, bodies: &bodies, limits: limits)
        } catch {
            log(error, path: call.path)
        }
        if case .scan = call.request { metrics.scanned(in: start.duration(to: .now)) }
    }

    /// Integrates all queued uploads in one transaction.
    func commit() -> [FileReply] {
        defer { touched.removeAll(keepingCapacity: true) }
        let hubs = touchedHubs
        integrate(hubs.filter(\.file.hasQueuedUploads))
        for hub in hubs where hub.isIdle { self.hubs[hub.file.path] = nil }
        return hubs.flatMap { $0.takeReplies() } + takeFarewells()
    }

    /// Lets a client file expire; the session that uses it ends. The replies are among those of the next turn.
    /// - Throws: `badClientFileIdent` if there is no such client file; trouble of the store.
    func expire(_ ident: ClientFileID, of path: VirtualPath) throws(HistoryError) {
        let hub = try hub(at: path)
        touched.insert(path)
        do {
            try hub.expire(ident)
        } catch {
            if error.isTransient { abandon(hub, error) }
            throw error
        }
    }

    /// A write of the server itself; running sessions of the file hear of it in the next turn.
    /// - Throws: what `SyncedFile.write` throws.
    func write(
        to path: VirtualPath, idempotencyKey: String?, at timestamp: ChangesetTime,
        _ body: (WriteTransaction) throws -> Void
    ) throws -> ServerWrite {
        do {
            let hub = try hub(at: path)
            touched.insert(path)
            let made = try hub.file.write(idempotencyKey: idempotencyKey, at: timestamp, body)
            hub.announce()
            return made
        } catch let error as HistoryError {
            log(error, path: path)
            throw error
        }
    }

    private var touchedHubs: [FileHub] { touched.compactMap { hubs[$0] } }

    private func takeFarewells() -> [FileReply] {
        defer { farewells = [] }
        return farewells
    }

    // MARK: Files

    /// Only BIND opens a file; a call for a session that a closed file had is late.
    private func hub(for call: FileCall) throws(HistoryError) -> FileHub? {
        if let hub = hubs[call.path] { return hub }
        guard case .open(let user, _) = call.request else { return nil }
        let hub = try hub(at: call.path)
        if let user, hub.file.head == FileHead() { newFiles.count(user, now: Int64(clamping: unixSeconds())) }
        return hub
    }

    /// A file that nobody has written to yet costs the user who opens it nothing, and the server a row for ever.
    /// Whether there is a file can only be found out by making it, so a user who has made too many has to do with those
    /// that are open.
    private func isTooNew(_ call: FileCall) -> Bool {
        guard case .open(let user?, _) = call.request, hubs[call.path] == nil else { return false }
        return newFiles.current(user, now: Int64(clamping: unixSeconds())) >= newFilesPerMinuteMax
    }

    private static let tooManyNewFiles = ErrorMessage(.otherSessionError, "too many new files; wait")

    private func hub(at path: VirtualPath) throws(HistoryError) -> FileHub {
        if let hub = hubs[path] { return hub }
        let hub = FileHub(
            try SyncedFile(path: path, store: store, keepsState: keepsState, backlogBytesMax: backlogBytesMax))
        hubs[path] = hub
        return hub
    }

    /// One transaction for all; if it fails, one for each, so that a file in trouble does not stop the others.
    private func integrate(_ hubs: [FileHub]) {
        guard !hubs.isEmpty else { return }
        do {
            let start = ContinuousClock.now
            let reports = try SyncedFile.integrate(hubs.map(\.file), at: unixSeconds())
            metrics.committed(reports, in: start.duration(to: .now))
            for (hub, report) in zip(hubs, reports) {
                hub.settle(report)
                for outcome in report.outcomes { log(outcome, path: hub.file.path) }
            }
            keepWarm(hubs.map(\.file.path))
        } catch {
            if let only = hubs.first, hubs.count == 1 { return abandon(only, error) }
            for hub in hubs { integrate([hub]) }
        }
    }

    private func keepWarm(_ paths: [VirtualPath]) {
        warmFiles.removeAll { paths.contains($0) }
        warmFiles += paths
        for path in warmFiles.dropLast(Self.warmFilesMax) { hubs[path]?.file.letGo() }
        warmFiles.removeFirst(max(0, warmFiles.count - Self.warmFilesMax))
    }

    private func abandon(_ hub: FileHub, _ error: HistoryError) {
        log(error, path: hub.file.path)
        hub.abandon(error)
        farewells += hub.takeReplies()
        hubs[hub.file.path] = nil
    }

    /// Tells of instructions that did not enter the log; a refusal is told by its session.
    private func log(_ outcome: ClientOutcome, path: VirtualPath) {
        guard let reason = outcome.mootInstructions.firstReason else { return }
        logger.notice(
            "instructions were left out, for their class or column has been erased",
            metadata: [
                "path": "\(path.abbreviated)", "client": "\(outcome.ident)",
                "count": "\(outcome.mootInstructions.count)", "first": "\(reason)",
            ])
    }

    private func log(_ error: HistoryError, path: VirtualPath) {
        metrics.storeFailures.increment()
        logger.error("the store failed", metadata: ["path": "\(path.abbreviated)", "error": "\(error)"])
    }
}
