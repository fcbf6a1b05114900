import AnabranchProtocol
public import Foundation

/// What keeps a store from being synchronized at the moment (`Spec/Objects.md`, section 7).
public struct SyncIssue: Error, Equatable, Sendable, CustomStringConvertible {
    /// What the matter is, for user interfaces.
    public enum Kind: Sendable {
        /// There is no way to the server.
        case offline
        /// The user has to log in again.
        case unauthorized
        /// The user may not do this.
        case forbidden
        /// Something is larger than the server, or the replica, takes.
        case tooLarge
        /// The schema of the server is not that of the program.
        case schemaMismatch
        /// The replica has to be replaced by a fresh one: see `ResetMode`.
        case resetRequired
        /// The server cannot serve a subscription.
        case subscriptionRefused
        /// The disk does not take, or give, what it should.
        case storageFailed
        /// Client and server do not understand each other.
        case protocolError
        /// Something is wrong with the server.
        case serverError
    }

    /// What the matter is, for programs.
    public let kind: Kind
    /// What happens next by itself: nothing if it is false.
    public let isRetrying: Bool
    /// When it is tried again; nil if it is not, or when the network is back.
    public let nextAttempt: Date?
    /// What was reported: its code is more detailed than the kind.
    public let error: SyncError

    init(_ error: SyncError, isRetrying: Bool, nextAttempt: Date? = nil) {
        kind = Kind(error.code)
        self.isRetrying = isRetrying
        self.nextAttempt = nextAttempt
        self.error = error
    }

    /// The reason.
    public var description: String { error.reason }

    /// Whether both say the same, whenever it is tried again.
    func isSame(as other: SyncIssue?) -> Bool { error == other?.error && isRetrying == other?.isRetrying }
}

extension SyncIssue.Kind {
    init(_ code: SyncError.Code) {
        self =
            switch code {
            case .refused(let code): Self(code)
            case .clientResetRequired: .resetRequired
            case .loggedOut: .unauthorized
            case .violation: .protocolError
            case .storeFailed: .storageFailed
            case .subscriptionsRefused: .subscriptionRefused
            case .transactionTooLarge: .tooLarge
            case .unreachable, .notSynchronized: .offline
            }
    }

    private init(_ code: ErrorCode) {
        self =
            switch code {
            case .badAuthentication: .unauthorized
            case .permissionDenied, .userMismatch, .writeNotAllowed: .forbidden
            case .limitsExceeded, .badChangesetSize, .initialSyncNotCompleted: .tooLarge
            case .invalidSchemaChange, .schemaVersionChanged, .badSchemaVersion: .schemaMismatch
            case .badQuery: .subscriptionRefused
            default:
                [.clientReset, .clientResetNoRecovery].contains(code.action) ? .resetRequired : .serverError
            }
    }
}

/// What becomes of issues.
public enum SyncIssueNews: Equatable, Sendable {
    /// It keeps the store from being synchronized from now on, until it is resolved or another one takes its place.
    case occurred(SyncIssue)
    /// It does no more.
    case resolved(SyncIssue)
}
