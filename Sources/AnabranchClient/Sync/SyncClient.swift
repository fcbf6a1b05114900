import AnabranchCore
import AnabranchProtocol
import AnabranchReplica
import Foundation
import Synchronization
import Logging

/// Synchronizes replicas with one server, for one user, over one connection (`Spec/Replica.md`, section 3): it connects
/// when there is a replica, reconnects when the connection is lost, and reacts to errors of the server. It runs until
/// `stop`, or until the last replica is removed, even if nothing refers to it any more.
public actor SyncClient {
    let configuration: SyncConfiguration
    let handshake: ClientHandshake
    let start = ContinuousClock.now
    var randomness = SystemRandomNumberGenerator()
    var members: [SessionID: Registration] = [:]
    /// The loop that connects, as long as there is a replica.
    private var running: Task<Void, Never>?
    /// The loop before, which may not have ended yet.
    private var ended: Task<Void, Never>?
    /// The current connection.
    var connection: (machine: ClientConnection, socket: any TransportConnection)?
    /// Wakes the task that waits for work; `retry`, the one that waits for the time to connect again.
    let work = WakeSignal()
    let retry = WakeSignal()
    /// The tasks that wait until a session is over.
    private var unbindWaiters: [SessionID: [CheckedContinuation<Void, Never>]] = [:]
    var delay = RetryDelay<ConnectionEnd>()
    var news = RouteNews.none
    /// True once there has been a connection.
    var isRouteVerified = false
    var lastConnected: Int64?
    /// True while the application wants no connection.
    var isPaused = false
    /// The reason why there is no connection at the moment, if one was tried; nil while there is one.
    public internal(set) var connectionError: SyncError?
    /// True while a message is being integrated, which can take long: no PONG can be read during that time.
    var isIntegrating = false
    var freedMemory = FreedMemory()

    /// A replica, and the state of its session.
    struct Registration {
        let replica: SyncedReplica
        let target: SyncTarget
        let resetMode: ResetMode
        var delay = RetryDelay<ErrorCode>()
        /// Increases whenever something ends a rest of its session before the time is up.
        var rest = 0
        /// True if its session knows of the current connection.
        var isConnected = false
        /// True once the application has removed it.
        var isLeaving = false
        /// True if the session waits for the application to act.
        var isStopped = false
        /// For the fresh file of a client reset: the session that it is for, and the changes that are recovered.
        var reset: (of: SessionID, recovery: RecoveredChanges)?
    }

    /// A client without replicas: it has no connection.
    public init(_ configuration: SyncConfiguration) {
        self.configuration = configuration
        handshake = ClientHandshake(configuration.mode)
    }

    // MARK: Replicas

    /// Synchronizes a replica by partition from now on.
    ///
    /// - Parameters:
    ///   - partition: the value, in any spelling of extended JSON (`Spec/Protocol.md`, section 4.2).
    ///   - resetMode: the reaction if the server requests a client reset.
    /// - Throws: `SyncError` if the client is one of flexible sync, or if the replica is synchronized already or has
    ///   subscriptions.
    public func add(
        _ replica: SyncedReplica, partition: String, resetMode: ResetMode = .recoverOrDiscard
    ) async throws {
        guard configuration.mode == .partition else {
            throw SyncError(.notSynchronized, "this client is one of flexible sync: replicas have no partitions")
        }
        guard await replica.record.subscriptions == nil else {
            throw SyncError(.notSynchronized, "the replica has subscriptions: it cannot be synchronized by partition")
        }
        let value = String(decoding: PartitionValue.canonical(partition.utf8), as: UTF8.self)
        try await add(Registration(replica: replica, target: .partition(value), resetMode: resetMode))
    }

    /// Synchronizes a replica by its subscriptions from now on.
    /// - Throws: `SyncError` if the client is not one of flexible sync, or the replica is synchronized already;
    ///   `ReplicaError` if the replica was synchronized by partition.
    public func add(_ replica: SyncedReplica, resetMode: ResetMode = .recoverOrDiscard) async throws {
        guard configuration.mode == .flexible else {
            throw SyncError(.notSynchronized, "this client is one of partition-based sync: it needs a partition")
        }
        try await replica.useFlexibleSync()
        try await add(Registration(replica: replica, target: .flexible, resetMode: resetMode))
    }

    func add(_ member: Registration) async throws {
        let ident = SessionCounter.shared.next()
        var session: ClientSession
        let isFresh = member.reset != nil
        switch member.target {
        case .partition(let text): session = ClientSession(ident, partition: Array(text.utf8), uploads: !isFresh)
        case .flexible:
            let bind = FlexibleBind(sessionReason: isFresh ? 1 : 0)
            session = ClientSession(ident, flexible: bind, uploads: !isFresh)
        }
        // The answer to the MARK ends the client reset.
        if isFresh { _ = session.requestMark() }
        try await member.replica.claim(configuration.origin(of: member.target))
        let account = (configuration.route as? AppRoute)?.user
        try await member.replica.begin(session, within: configuration.space, for: account) { [weak self] in
            Task { await self?.wake(ident) }
        }
        members[ident] = member
        if let connection { await join(ident, connection.machine.version, isFast: false) }
        if running == nil {
            running = Task { [ended] in
                await ended?.value
                while await connectOnce() {}
            }
        }
        // A connection is wanted now, even if an error has forbidden a retry.
        delay.reset()
        retry.signal()
        wake(ident)
    }

    /// Stops synchronizing a replica. Returns when the server has confirmed it, or there is no connection: then the
    /// replica can be closed, or added again. Changes that were not uploaded stay in it.
    public func remove(_ replica: SyncedReplica) async {
        let own = members.filter { $0.value.replica === replica }.keys
        await unbind(members.filter { own.contains($0.value.reset?.of ?? $0.key) }.keys)
    }

    /// Stops synchronizing all replicas, and closes the connection.
    public func stop() async {
        await unbind(members.keys)
        running?.cancel()
        (running, ended) = (nil, running ?? ended)
        await connection?.socket.close()
        for ident in members.keys { await leave(ident) }
    }

    private func unbind(_ idents: some Collection<SessionID>) async {
        for ident in idents {
            members[ident]?.isLeaving = true
            let isOver = await members[ident]?.replica.unbind() ?? true
            if isOver || connection == nil { await leave(ident) }
            wake(ident)
        }
        for ident in idents where members[ident] != nil {
            // The client does not wait longer for the confirmation than for a PONG.
            let timeout = Task { [weak self, patience = configuration.timers.pongMilliseconds] in
                guard (try? await Task.sleep(for: .milliseconds(patience))) != nil else { return }
                await self?.leave(ident)
            }
            await withCheckedContinuation { unbindWaiters[ident, default: []].append($0) }
            timeout.cancel()
        }
    }

    /// Ends the loop that connects if there are no replicas any more.
    /// - Returns: whether the loop that connects has to continue.
    func isNeeded() -> Bool {
        if !Task.isCancelled, members.isEmpty { running = nil }
        return !Task.isCancelled && !members.isEmpty
    }

    func leave(_ ident: SessionID) async {
        guard let member = members.removeValue(forKey: ident) else { return }
        await member.replica.end(SyncError(.notSynchronized, "the replica is synchronized no more"))
        if member.reset != nil { try? await member.replica.close() }
        for waiter in unbindWaiters.removeValue(forKey: ident) ?? [] { waiter.resume() }
        work.signal()
        if members.isEmpty { retry.signal() }
    }

    /// Stops a session until the application acts.
    func stop(_ ident: SessionID, _ error: SyncError) async {
        if members[ident]?.reset != nil { return await giveUp(ident, error) }
        members[ident]?.isStopped = true
        members[ident]?.rest += 1
        await members[ident]?.replica.stop(error)
    }

    /// Closes the connection, and opens no other one before `resume`: a switch for users who want to be offline.
    /// Changes made in that time wait in the replicas.
    public func pause() async {
        isPaused = true
        await connection?.socket.close()
    }

    /// Connects again after `pause`.
    public func resume() {
        isPaused = false
        connectNow()
    }

    /// Tries to connect immediately: call it when the network is back, or the user does not want to wait.
    public func connectNow() {
        delay.reset()
        retry.signal()
        connection?.machine.pingNow(at: now)
        work.signal()
    }

    // MARK: Time

    /// The time since the client was made, in milliseconds; it never goes back.
    var now: Int64 {
        let (seconds, attoseconds) = start.duration(to: .now).components
        return seconds * 1000 + attoseconds / 1_000_000_000_000_000
    }

    func wake(_ ident: SessionID) {
        connection?.machine.schedule(ident)
        work.signal()
    }
}

/// The subject of a session.
enum SyncTarget: Sendable {
    case partition(String)
    case flexible
}

/// One counter for all sessions of the process (`Spec/Protocol.md`, section 8.1).
final class SessionCounter: Sendable {
    static let shared = SessionCounter()
    private let last = Mutex<UInt64>(0)

    func next() -> SessionID {
        last.withLock { last in
            last += 1
            return SessionID(rawValue: last)
        }
    }
}
