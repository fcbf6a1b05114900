/// The reaction of a client to an error, or to the end of a connection (`Spec/Protocol.md`, sections 2.3, 5.6 and 7.1).
public enum ClientReaction: Hashable, Sendable {
    /// Nothing is lost: the session goes on, or the connection is opened again, after the `RetryDelay`. The application
    /// hears of it only if `isReported`.
    case retry(isReported: Bool)
    /// The session is inactive until the application opens its file again, and the error is reported to the
    /// application.
    case stop
    /// The file is replaced by a fresh one; `isRecoveryAllowed` is true if changes that were not uploaded may be kept.
    case clientReset(isRecoveryAllowed: Bool)
    /// The session is inactive, and its file is deleted without a backup.
    case deleteFile
    /// Fetch a new access token, then the session goes on. If the login has ended, the user is logged out.
    case refreshUser
    /// The server may have moved: fetch its location and a new access token.
    case refreshLocation
    /// The session is inactive, and the user is logged out.
    case logOutUser
}

extension ErrorMessage {
    /// The client's reaction to the error. A file cannot be moved to the other mode of sync, or to another version of
    /// its schema, upon an error: such an error stops the session.
    public var reaction: ClientReaction {
        switch action {
        case .transient: triesAgain ? .retry(isReported: false) : .stop
        case .warning: triesAgain ? .retry(isReported: true) : .stop
        case .applicationBug, .protocolViolation: .stop
        case .clientReset: .clientReset(isRecoveryAllowed: true)
        case .clientResetNoRecovery: .clientReset(isRecoveryAllowed: false)
        case .deleteRealm: .deleteFile
        case .refreshUser: .refreshUser
        case .refreshLocation: .refreshLocation
        case .logOutUser: .logOutUser
        case .migrateToFlexibleSync, .revertToPartitionSync, .migrateSchema: .stop
        }
    }
}

/// The reason why a connection has ended, or could not be made. The `RetryDelay` grows while the reason stays the same.
public enum ConnectionEnd: Hashable, Sendable {
    /// The client has closed it: it no longer needs it, or wants another one.
    case closedByClient
    /// The server cannot be reached.
    case unreachable
    /// The TLS handshake fails, or the server's certificate is not accepted.
    case tlsFailed
    /// It was not open in time.
    case connectTimeout
    /// The socket has ended, or fails.
    case lost
    /// `ClientConnection.isOverdue`.
    case pongTimeout
    /// The server has closed it with this code; 1005 if without a code.
    case closeCode(UInt16)
    /// The server has answered the request for a WebSocket with this HTTP status, or with something that has no status:
    /// 0.
    case status(Int)
    /// The server has sent something that it may not send.
    case violation(ErrorCode)
    /// The server has ended it by JSON_ERROR.
    case error(ErrorCode, ErrorCode.Action, triesAgain: Bool)

    /// The end of a connection whose `ClientConnection.Event` is `failed`.
    public static func failed(_ error: ErrorMessage) -> ConnectionEnd {
        .error(error.code, error.action, triesAgain: error.triesAgain)
    }

    /// The reaction of all sessions of the connection.
    ///
    /// - Parameter isRouteVerified: whether there has been a connection, or an answer of the server about its
    ///   location: only then a status says something about the client.
    public func reaction(isRouteVerified: Bool) -> ClientReaction {
        switch self {
        case .closedByClient, .unreachable, .connectTimeout, .lost, .pongTimeout: .retry(isReported: false)
        case .tlsFailed: .retry(isReported: true)
        case .closeCode(let code): Self.reaction(toCloseCode: code)
        case .status(let status): Self.reaction(toStatus: status, isRouteVerified)
        case .violation: .stop
        case .error(let code, let action, let triesAgain):
            ErrorMessage(received: code, action: action, triesAgain: triesAgain).reaction
        }
    }

    private static func reaction(toCloseCode code: UInt16) -> ClientReaction {
        switch code {
        case 1000, 1011: .retry(isReported: false)
        case 1006, 4001: .refreshUser
        case 1009: .clientReset(isRecoveryAllowed: true)
        case 4002: .logOutUser
        case 4003: .refreshLocation
        default: .retry(isReported: true)
        }
    }

    private static func reaction(toStatus status: Int, _ isRouteVerified: Bool) -> ClientReaction {
        switch status {
        case 401: .refreshUser
        case 403: .logOutUser
        case 301, 308: .refreshLocation
        case 300..<400, 500..<600: .retry(isReported: false)
        default: isRouteVerified ? .retry(isReported: true) : .refreshLocation
        }
    }
}

extension RetryDelay<ConnectionEnd> {
    /// The delay in milliseconds before the next connection, which there may never be; none after the client's own
    /// decision.
    ///
    /// - Parameters:
    ///   - error: the connection-level error that was the end; its numbers count before all others.
    ///   - own: the numbers of the client.
    public mutating func next(
        after end: ConnectionEnd, error: ErrorMessage?, own: BackOff = .ofClients,
        using randomness: inout some RandomNumberGenerator
    ) -> Int64? {
        if case .error(_, _, triesAgain: false) = end { forbid() }
        let delay = next(after: end, advice: error?.backOff ?? own, using: &randomness)
        return end == .closedByClient ? delay.map { _ in 0 } : delay
    }
}
