import AnabranchCore
import AnabranchProtocol
import AnabranchReplica
import Foundation
import Logging

// The client's connections, one after another.

extension SyncClient {
    /// Connects, and returns after the connection has ended and the time for the next attempt has come.
    /// - Returns: whether to try again.
    func connectOnce() async -> Bool {
        guard isNeeded() else { return false }
        guard !isPaused, members.values.contains(where: { !$0.isStopped }) else {
            await retry.wait(milliseconds: nil)
            return true
        }
        retry.silence()
        let ending = await runConnection()
        let (end, error) = (ending.end, ending.reason)
        connectionError = error
        let log = configuration.logger
        log.info("the connection has ended", metadata: ["reason": "\(error.reason)"])
        await disconnect()
        guard !Task.isCancelled else { return false }
        switch end.reaction(isRouteVerified: isRouteVerified) {
        case .retry: break
        case .stop: await stopAll(error)
        case .clientReset(let isRecoveryAllowed):
            if await stopTooLarge() { break }
            for (ident, member) in members where !member.isStopped {
                await beginReset(ident, isRecoveryAllowed: isRecoveryAllowed, error)
            }
        case .deleteFile: await stopAll(error)
        case .refreshUser: news = .tokenIsBad
        case .refreshLocation: news = .serverHasMoved
        case .logOutUser:
            await configuration.route.userIsLoggedOut()
            await stopAll(SyncError(.loggedOut, error.reason))
        }
        let milliseconds = delay.next(after: end, error: ending.error, own: configuration.backOff, using: &randomness)
        await tellMembers(error, retryingIn: milliseconds)
        log.debug("waiting before the next connection", metadata: ["milliseconds": "\(milliseconds ?? -1)"])
        await retry.wait(milliseconds: milliseconds)
        return true
    }

    /// Stops the sessions of replicas with a transaction that is too large for a message, after one was too big. A
    /// client reset would bring the transaction back again and again; so the application can show the reason.
    /// - Returns: whether there was such a replica.
    private func stopTooLarge() async -> Bool {
        var isFound = false
        for (ident, member) in members where !member.isStopped {
            guard let bytes = await member.replica.largestUnsentBytes, bytes > ReplicaLimits.uploadBytesMax else {
                continue
            }
            isFound = true
            await stop(
                ident, SyncError(.transactionTooLarge, "a transaction of \(bytes) bytes, more than the server takes"))
        }
        return isFound
    }

    private func tellMembers(_ error: SyncError, retryingIn milliseconds: Int64?) async {
        let next = milliseconds.map { Date().addingTimeInterval(Double($0) / 1000) }
        let issue = isPaused ? nil : SyncIssue(error, isRetrying: true, nextAttempt: next)
        for member in members.values { await member.replica.connectionFailed(issue) }
    }

    private func stopAll(_ error: SyncError) async {
        for (ident, member) in members where member.reset != nil { await leave(ident) }
        for ident in members.keys { await stop(ident, error) }
    }

    private func disconnect() async {
        lastConnected = connection == nil ? lastConnected : now
        connection = nil
        for (ident, member) in members {
            members[ident]?.isConnected = false
            await member.replica.disconnected()
            if member.isLeaving { await leave(ident) }
        }
    }

    // MARK: A connection

    /// The release of realm-core whose client this one resembles (`Spec/Protocol.md`, section 2.1).
    static let newestCore = "14.14.0"

    static func userAgent(of application: String) -> String {
        "RealmSync/\(newestCore) \(ClientRelease.ownPlatform) \(application)"
    }

    private func runConnection() async -> Ending {
        do {
            let url = try await configuration.route.url(news)
            news = .none
            let socket = try await connect(
                WebSocketRequest(
                    url: url, protocols: handshake.offer.split(separator: ", ").map(String.init),
                    userAgent: Self.userAgent(of: configuration.application),
                    headers: configuration.headers))
            let version: ProtocolVersion
            do {
                guard !isPaused else { throw CancellationError() }
                version = try handshake.version(chosen: socket.chosenProtocol)
            } catch {
                await socket.close()
                throw error
            }
            return await run(socket, version)
        } catch {
            return Ending(error)
        }
    }

    /// Opens a connection, within the time for it.
    private func connect(_ request: WebSocketRequest) async throws -> any TransportConnection {
        let milliseconds = configuration.timers.connectMilliseconds
        return try await withThrowingTaskGroup(of: (any TransportConnection).self) { group in
            group.addTask { [transport = configuration.transport] in try await transport.connect(request) }
            group.addTask {
                try await Task.sleep(for: .milliseconds(milliseconds))
                throw TransportError(.timedOut, "no connection within \(milliseconds) ms")
            }
            let first = await group.nextResult()
            group.cancelAll()
            // The connection may have opened at the last moment.
            if case .failure? = first { while let late = await group.nextResult() { try? await late.get().close() } }
            guard let first else { throw CancellationError() }
            return try first.get()
        }
    }

    private func run(_ socket: any TransportConnection, _ version: ProtocolVersion) async -> Ending {
        let machine = ClientConnection(
            version, configuration.mode, timers: configuration.timers, openedAt: now, using: &randomness)
        connection = (machine, socket)
        connectionError = nil
        let opened = now
        defer { delay.connectionHeld(milliseconds: now - opened) }
        isRouteVerified = true
        let isFast = lastConnected.map { now - $0 <= configuration.timers.fastReconnectMilliseconds } ?? false
        for ident in members.keys { await join(ident, version, isFast: isFast) }
        return await withTaskGroup(of: Ending.self) { group in
            group.addTask { await self.read(socket) }
            group.addTask { await self.write(socket) }
            group.addTask { await self.watch() }
            var ending = await group.next() ?? .closedHere
            await socket.close()
            group.cancelAll()
            // A reason that the server has given counts more than the failure to send to it.
            for await other in group where ending.end == .lost && other.end != .closedByClient { ending = other }
            return ending
        }
    }

    func join(_ ident: SessionID, _ version: ProtocolVersion, isFast: Bool) async {
        guard let member = members[ident], !member.isStopped, !member.isConnected else { return }
        members[ident]?.isConnected = true
        do {
            try await member.replica.connected(version, isFast: isFast)
            wake(ident)
        } catch {
            members[ident]?.isConnected = false
            await fileFailed(ident, error)
        }
    }

    private func write(_ socket: any TransportConnection) async -> Ending {
        do {
            while !Task.isCancelled {
                guard connection != nil, !members.isEmpty else { break }
                if isOverdue { return Ending(.pongTimeout, Self.overdue) }
                switch connection?.machine.next(at: now) {
                case .ping(let message)?: try await socket.send(message.bytes)
                case .session(let ident)?: messageIsOver(bytes: try await sendNext(ident, to: socket))
                case nil:
                    guard let deadline = connection?.machine.deadline(after: now) else { break }
                    await work.wait(milliseconds: max(1, isIntegrating ? 1000 : deadline - now))
                }
            }
            return .closedHere
        } catch {
            return Ending(error)
        }
    }

    /// Ends when the server is silent for too long, even while it accepts nothing that is sent to it.
    private func watch() async -> Ending {
        while !Task.isCancelled, let deadline = connection?.machine.deadline(after: now) {
            if isOverdue { return Ending(.pongTimeout, Self.overdue) }
            try? await Task.sleep(for: .milliseconds(max(1, isIntegrating ? 1000 : deadline - now)))
        }
        return .closedHere
    }

    private var isOverdue: Bool { !isIntegrating && connection?.machine.isOverdue(at: now) == true }

    private static let overdue = SyncError(.unreachable, "the server has not answered a PING in time")

    /// - Returns: the number of bytes that were sent.
    private func sendNext(_ ident: SessionID, to socket: any TransportConnection) async throws -> Int {
        guard let member = members[ident] else { return 0 }
        var count = 0
        let message = try await stopping(ident) { try await member.replica.nextMessage() }
        if let message, let bytes = connection?.machine.encode(message).bytes {
            try await socket.send(bytes)
            count = bytes.count
            connection?.machine.schedule(ident)
        }
        if await member.replica.isFinished, member.isLeaving { await leave(ident) }
        return count
    }

    private func read(_ socket: any TransportConnection) async -> Ending {
        do {
            while true {
                let (bytes, end) = try await readMessage(socket)
                if let end { return end }
                messageIsOver(bytes: bytes)
            }
        } catch {
            return Ending(error)
        }
    }

    /// - Returns: the size of the message, and the end of the connection if the message was an error that ends it.
    private func readMessage(_ socket: any TransportConnection) async throws -> (bytes: Int, end: Ending?) {
        let bytes = try await socket.receive()
        switch try connection?.machine.receive(bytes, at: now, using: &randomness) {
        case .session(let ident, let message)?: try await receive(message, of: ident)
        case .failed(let error)?:
            return (bytes.count, Ending(.failed(error), SyncError(.refused(error.code), error.message), error))
        case .log(let message)?: configuration.logger.debug("\(message.message)")
        case nil: break
        }
        return (bytes.count, nil)
    }

    private func receive(_ message: ServerMessage, of ident: SessionID) async throws {
        guard let member = members[ident] else { return }
        isIntegrating = true
        defer { isIntegrating = false }
        let error = try await stopping(ident) { try await member.replica.receive(message) }
        if let error { await react(to: error, of: ident) }
        wake(ident)
        if await member.replica.isFinished, member.isLeaving { await leave(ident) }
        if case .mark = message, member.reset != nil { await endReset(ident) }
    }

    // MARK: Errors

    private func stopping<Value: Sendable>(
        _ ident: SessionID, _ body: () async throws -> Value
    ) async throws -> Value {
        do {
            return try await body()
        } catch let error as ReplicaError {
            await fileFailed(ident, error)
            throw error
        }
    }

    /// Handles the failure of a replica's file, and closes the connection. If the file is damaged, its session stops,
    /// and the others go on with the next connection. A file that cannot be read or written for the moment is tried
    /// again then.
    private func fileFailed(_ ident: SessionID, _ error: any Error) async {
        if (error as? ReplicaError)?.code != .storeFailed { await stop(ident, SyncError(.storeFailed, "\(error)")) }
        await connection?.socket.close()
    }

    private func react(to error: ErrorMessage, of ident: SessionID) async {
        guard let replica = members[ident]?.replica else { return }
        let reason = SyncError(.refused(error.code), error.message)
        configuration.logger.info("the server has ended a session", metadata: ["reason": "\(error.message)"])
        switch error.reaction {
        case .retry:
            guard let milliseconds = members[ident]?.delay.next(after: error, using: &randomness) else {
                return await stop(ident, reason)
            }
            members[ident]?.rest += 1
            await replica.wait(because: reason)
            resume(ident, in: milliseconds)
        case .stop, .deleteFile: await stop(ident, reason)
        case .clientReset(let isAllowed): await beginReset(ident, isRecoveryAllowed: isAllowed, reason)
        case .refreshUser:
            news = .tokenIsBad
            await connection?.socket.close()
        case .refreshLocation:
            news = .serverHasMoved
            await connection?.socket.close()
        case .logOutUser:
            await configuration.route.userIsLoggedOut()
            await stopAll(SyncError(.loggedOut, error.message))
            await connection?.socket.close()
        }
    }

    private func resume(_ ident: SessionID, in milliseconds: Int64) {
        let rest = members[ident]?.rest
        Task { [weak self] in
            try? await Task.sleep(for: .milliseconds(milliseconds))
            await self?.resume(ident, after: rest)
        }
    }

    /// - Parameter rest: the rest after which to resume, unless something else has ended it already.
    private func resume(_ ident: SessionID, after rest: Int?) async {
        if members[ident]?.rest == rest { await resume(ident) }
    }

    func resume(_ ident: SessionID) async {
        guard let member = members[ident], !member.isStopped else { return }
        do {
            try await member.replica.resume()
            // While it was stopped, it did not join.
            if let version = connection?.machine.version { await join(ident, version, isFast: false) }
            wake(ident)
        } catch {
            await fileFailed(ident, error)
        }
    }
}

/// The end of a connection, for the client's logic and for people.
struct Ending {
    let end: ConnectionEnd
    let reason: SyncError
    /// The server's error, if it has ended the connection.
    let error: ErrorMessage?

    init(_ end: ConnectionEnd, _ reason: SyncError, _ error: ErrorMessage? = nil) {
        (self.end, self.reason, self.error) = (end, reason, error)
    }

    static var closedHere: Ending { Ending(.closedByClient, SyncError(.unreachable, "closed here")) }

    init(_ error: any Error) {
        switch error {
        case let error as TransportError: self.init(error.connectionEnd, SyncError(.unreachable, error.reason))
        case let error as ProtocolError: self.init(.violation(error.code), SyncError(.violation, error.reason))
        case let error as SyncError where error.code == .loggedOut: self.init(.closeCode(4002), error)
        case is CancellationError: self = .closedHere
        case let error as ReplicaError: self.init(.lost, SyncError(.storeFailed, error.reason))
        default: self.init(.unreachable, SyncError(.unreachable, "\(error)"))
        }
    }
}

extension TransportError {
    /// The end of the connection, by which the delay before the next one is chosen.
    var connectionEnd: ConnectionEnd {
        switch code {
        case .closed(let code): .closeCode(UInt16(code))
        case .refused(let status): .status(Int(status))
        case .notTrusted: .tlsFailed
        case .timedOut: .connectTimeout
        case .unreachable: .unreachable
        default: .lost
        }
    }
}
