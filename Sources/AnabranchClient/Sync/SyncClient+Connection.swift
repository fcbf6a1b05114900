import AnabranchCore
import AnabranchProtocol
import AnabranchReplica
import Foundation
import Logging

// One connection after another.

extension SyncClient {
    /// Connects, and stays connected as long as it goes well.
    /// - Returns: whether to try again.
    func connectOnce() async -> Bool {
        guard !isPaused, members.values.contains(where: { !$0.isStopped }) else { return await lingered() }
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
            for ident in members.keys { await beginReset(ident, isRecoveryAllowed: isRecoveryAllowed, error) }
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
        return !Task.isCancelled
    }

    private func tellMembers(_ error: SyncError, retryingIn milliseconds: Int64?) async {
        let next = milliseconds.map { Date().addingTimeInterval(Double($0) / 1000) }
        let issue = isPaused ? nil : SyncIssue(error, isRetrying: true, nextAttempt: next)
        for member in members.values { await member.replica.connectionFailed(issue) }
    }

    /// Without sessions there is nothing to connect for.
    private func lingered() async -> Bool {
        await retry.wait(milliseconds: nil)
        return !Task.isCancelled
    }

    private func stopAll(_ error: SyncError) async {
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

    /// The release of realm-core whose client this one is like (`Spec/Protocol.md`, section 2.1).
    static let newestCore = "14.14.0"

    private func runConnection() async -> Ending {
        do {
            let url = try await configuration.route.url(news)
            news = .none
            let socket = try await configuration.transport.connect(
                WebSocketRequest(
                    url: url, protocols: handshake.offer.split(separator: ", ").map(String.init),
                    userAgent: "RealmSync/\(Self.newestCore) (Anabranch) \(configuration.application)",
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
            let first = await group.next() ?? .closedHere
            await socket.close()
            group.cancelAll()
            // What the server has said is worth more than that nothing can be sent to it any more.
            let second = await group.next()
            if let second, case .lost = first.end, second.end != .closedByClient { return second }
            return first
        }
    }

    func join(_ ident: SessionID, _ version: ProtocolVersion, isFast: Bool) async {
        guard let member = members[ident], !member.isStopped, !member.isConnected else { return }
        members[ident]?.isConnected = true
        do {
            try await member.replica.connected(version, isFast: isFast)
            wake(ident)
        } catch {
            await stop(ident, SyncError(.storeFailed, "\(error)"))
        }
    }

    private func write(_ socket: any TransportConnection) async -> Ending {
        do {
            while !Task.isCancelled {
                guard connection != nil, !members.isEmpty else { break }
                if !isIntegrating, connection?.machine.isOverdue(at: now) == true {
                    return Ending(.pongTimeout, SyncError(.unreachable, "the server has not answered a PING in time"))
                }
                switch connection?.machine.next(at: now) {
                case .ping(let message)?: try await socket.send(message.bytes)
                case .session(let ident)?: try await speak(ident, to: socket)
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

    private func speak(_ ident: SessionID, to socket: any TransportConnection) async throws {
        guard let member = members[ident] else { return }
        if let message = try await member.replica.nextMessage(), let bytes = connection?.machine.encode(message).bytes {
            try await socket.send(bytes)
            connection?.machine.enlist(ident)
        }
        if await member.replica.isFinished, member.isLeaving { await leave(ident) }
    }

    private func read(_ socket: any TransportConnection) async -> Ending {
        do {
            while true {
                let bytes = try await socket.receive()
                switch try connection?.machine.receive(bytes, at: now, using: &randomness) {
                case .session(let ident, let message)?: try await hear(message, of: ident)
                case .failed(let error)?:
                    return Ending(.failed(error), SyncError(.refused(error.code), error.message), error)
                case .log(let message)?: configuration.logger.debug("\(message.message)")
                case nil: break
                }
            }
        } catch {
            return Ending(error)
        }
    }

    private func hear(_ message: ServerMessage, of ident: SessionID) async throws {
        guard let member = members[ident] else { return }
        isIntegrating = true
        defer { isIntegrating = false }
        if let error = try await member.replica.receive(message) { await react(to: error, of: ident) }
        wake(ident)
        if await member.replica.isFinished, member.isLeaving { await leave(ident) }
        if case .mark = message, member.reset != nil { await endReset(ident) }
    }

    // MARK: Errors

    private func react(to error: ErrorMessage, of ident: SessionID) async {
        guard let replica = members[ident]?.replica else { return }
        let reason = SyncError(.refused(error.code), error.message)
        configuration.logger.info("the server has ended a session", metadata: ["reason": "\(error.message)"])
        switch error.reaction {
        case .retry:
            guard let milliseconds = members[ident]?.delay.next(after: error, using: &randomness) else {
                return await stop(ident, reason)
            }
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
        }
    }

    private func resume(_ ident: SessionID, in milliseconds: Int64) {
        Task { [weak self] in
            try? await Task.sleep(for: .milliseconds(milliseconds))
            await self?.resume(ident)
        }
    }

    func resume(_ ident: SessionID) async {
        do {
            try await members[ident]?.replica.resume()
            wake(ident)
        } catch {
            await stop(ident, SyncError(.storeFailed, "\(error)"))
        }
    }
}

/// How a connection has ended, for the machine and for people.
struct Ending {
    let end: ConnectionEnd
    let reason: SyncError
    /// What the server has said, if that was the end.
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
        case let error as ReplicaError where error.code != .storeFailed:
            self.init(.violation(.otherError), SyncError(.storeFailed, error.reason))
        case let error as ReplicaError: self.init(.lost, SyncError(.storeFailed, error.reason))
        default: self.init(.unreachable, SyncError(.unreachable, "\(error)"))
        }
    }
}

extension TransportError {
    /// How the connection has ended, for the law of delays.
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
