import AnabranchBridge
import AnabranchCapture
import AnabranchClient
import AnabranchCore
import AnabranchFiles
import AnabranchProtocol
import AnabranchReplica
import CommandSupport
import Foundation

/// The replica of a command, open for writing.
struct ClientReplica {
    let replica: SyncedReplica
    let options: ClientOptions

    /// The error that is thrown when the time is up.
    private struct TimeIsUp: Error {}

    /// Uploads what waits, and downloads what there is; does nothing without a server.
    func synchronize() async throws {
        guard options.url != nil else { return }
        let started = StartedClient(), replica = replica
        // A set that was refused before is shown by `status`.
        let waitsForSubscriptions = await replica.record.subscriptions?.latest.isRefused == false
        try await limited(started) {
            try await replica.waitForUpload()
            if waitsForSubscriptions { try await replica.waitForSubscriptions() }
            try await replica.waitForDownload()
        }
        await started.client?.stop()
    }

    /// Has a client synchronize the replica, unless it does so already, and carries out `body`.
    ///
    /// - Parameter progress: numbers that change as long as something is done; it is an error if they stay the same for
    ///   the time that the options give.
    // Swift 6.3.1 crashes where it specializes this for Void.
    @_semantics("optimize.sil.specialize.generic.never")
    func limited<Result: Sendable>(
        _ started: StartedClient, progress: @escaping @Sendable () async -> [UInt64] = { [] },
        _ body: @escaping @Sendable () async throws -> Result
    ) async throws -> Result {
        guard let server = try options.server() else { return try await body() }
        let seconds = options.timeout, options = options, replica = replica
        do {
            return try await withThrowingTaskGroup(of: Result.self) { group in
                group.addTask {
                    if await started.client == nil { await started.set(try await options.connect(replica, to: server)) }
                    return try await body()
                }
                group.addTask {
                    var last = await progress(), isStuck = false
                    while !isStuck {
                        try await Task.sleep(for: .seconds(seconds))
                        let now = await progress()
                        (isStuck, last) = (now == last, now)
                    }
                    throw TimeIsUp()
                }
                defer { group.cancelAll() }
                guard let result = try await group.next() else { throw CancellationError() }
                return result
            }
        } catch let error where !(error is CancellationError) && !Self.isLocal(error) {
            var reason = error is TimeIsUp ? await started.reason(after: seconds) : "\(error)"
            if (error as? SyncError)?.code == .loggedOut, !options.login.isAsked {
                reason += ": give --email, --api-key, --token or --anonymous"
            }
            // An error of the connection says by itself where.
            reason = reason.replacing("\(server): ", with: "")
            throw InputError(description: "\(server): \(reason)\(try await unsynchronized())")
        }
    }

    /// True for an error of the disk, or of the database whose rows are synced, not of the exchange.
    private static func isLocal(_ error: any Error) -> Bool {
        if let error = error as? SpaceError { return error.code != .unavailable && error.code != .damaged }
        #if canImport(CLibPQ)
        return error is CaptureError || error is BridgeError
        #else
        return error is CaptureError
        #endif
    }

    /// The end of a message: the transactions that wait for upload.
    private func unsynchronized() async throws -> String {
        let (count, bytes) = await replica.unacknowledged
        guard count > 0 else { return "" }
        return "\n\(counted(count, "transaction")) of \(bytes) bytes, not uploaded, kept in \(try options.file())"
    }
}

/// The client that was started, which knows why it has not connected.
actor StartedClient {
    private(set) var client: SyncClient?

    func set(_ client: SyncClient) { self.client = client }

    func reason(after seconds: Int) async -> String {
        let reason = await client?.connectionError.map { "; \($0.reason)" } ?? ""
        return "not synchronized within \(seconds) s\(reason)"
    }
}

extension ClientOptions {
    /// Opens the replica. Undone writes and client resets are reported on standard error.
    @discardableResult
    func withReplica<Result: Sendable>(
        _ body: (ClientReplica) async throws -> Result
    ) async throws -> Result {
        try await telling(try SyncedReplica(path: try fileInFolder()), body)
    }

    /// The replica's file, in a folder that was made if it was missing.
    func fileInFolder() throws -> String {
        try FileManager.default.createDirectory(
            at: try folder(), withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        return try file()
    }

    /// Reports the events of a replica while `body` runs, and closes it.
    /// - Parameter closing: closes what uses the replica, which it closes itself.
    func telling<Result: Sendable>(
        _ replica: SyncedReplica, closing: (() async throws -> Void)? = nil,
        _ body: (ClientReplica) async throws -> Result
    ) async throws -> Result {
        let close = closing ?? { try await replica.close() }
        let events = await replica.events()
        let telling = Task { await Self.tell(events) }
        let result: Result
        do {
            result = try await body(ClientReplica(replica: replica, options: self))
        } catch {
            try? await close()
            _ = await telling.value
            throw error
        }
        try await close()
        let refused = await telling.value
        guard refused.undone == 0 else {
            throw InputError(description: "the server has undone \(counted(refused.undone, "write"))")
        }
        guard refused.discarded == 0 else {
            let transactions = counted(refused.discarded, "transaction")
            throw InputError(
                description: "\(transactions) not uploaded, and kept only in the backup of the client reset")
        }
        return result
    }

    /// The content of the replica, synchronized first if there is a server.
    func snapshot() async throws -> ReplicaSnapshot {
        if url != nil { try await withReplica { try await $0.synchronize() } }
        return try ReplicaReader(path: try file()).snapshot()
    }

    /// Has a client synchronize the replica from now on.
    func connect(_ replica: SyncedReplica, to server: ClientServer) async throws -> SyncClient {
        try await connect(replica, by: try await route(to: server))
    }

    /// Has a client synchronize the replica from now on, by a route that is known already.
    func connect(_ replica: SyncedReplica, by route: any RouteProvider) async throws -> SyncClient {
        let target = try target()
        var configuration = SyncConfiguration(
            route, mode: target.partition == nil ? .flexible : .partition,
            transport: NIOTransport(tls: try tls()))
        configuration.application = "anabranch/\(BuildInfo.version)"
        let client = SyncClient(configuration)
        if let partition = target.partition {
            try await client.add(replica, partition: partition, resetMode: reset.mode)
        } else {
            try await client.add(replica, resetMode: reset.mode)
        }
        return client
    }

    /// - Returns: the number of writes that were undone, and of transactions that a reset has discarded.
    private static func tell(_ events: AsyncStream<ReplicaEvent>) async -> (undone: Int, discarded: Int) {
        var (undone, discarded) = (0, 0)
        for await event in events {
            switch event {
            case .writesUndone(let error):
                for update in error.rejection?.updates ?? [] {
                    say("undone by the server: an object of \(update.table): \(update.reason)")
                }
                undone += max(1, error.rejection?.updates.count ?? 0)
            case .mergedAway(let changes):
                for change in changes {
                    say("merged away (\(change.rule.rawValue)): \(change.change), for \(change.winner)")
                }
            case .resetBegins(let error):
                say("the server asks for a client reset" + (error.map { ": \($0.reason)" } ?? ""))
            case .resetEnded(let report):
                say(text(of: report))
                discarded += report.discardedTransactions
            case .changed, .status: break
            }
        }
        return (undone, discarded)
    }

    private static func text(of report: ResetReport) -> String {
        let recovered = counted(report.recoveredChangesets, "transaction")
        let backup = report.backupPath.map { "; the replica as it was is in \($0)" } ?? ""
        let lost = "\(counted(report.droppedChanges, "change")) dropped, \(report.discardedTransactions) not made again"
        return "client reset: \(recovered) made again, \(lost)\(backup)"
    }

    private static func say(_ text: String) { StandardError.write("\(text)\n") }
}

extension SubscriptionSets.Entry {
    /// True if the server has refused the set.
    var isRefused: Bool { if case .refused = state { true } else { false } }
}
