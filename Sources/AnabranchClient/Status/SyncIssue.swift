import AnabranchProtocol
public import Foundation

/// An issue that keeps a store from being synchronized at the moment (`Spec/Objects.md`, section 7).
public struct SyncIssue: Error, Equatable, Sendable, CustomStringConvertible {
    /// The kind of an issue, as far as it matters to a user interface.
    public enum Kind: Sendable {
        /// The server cannot be reached.
        case offline
        /// The user has to log in again.
        case unauthorized
        /// The user may not open the partition, or not make a change.
        case forbidden
        /// A change is larger than the server, or the replica, accepts.
        case tooLarge
        /// The schema of the server differs from that of the program.
        case schemaMismatch
        /// The replica has to be replaced by a fresh one: see `ResetMode`.
        case resetRequired
        /// The server cannot serve a subscription.
        case subscriptionRefused
        /// The disk cannot be written or read.
        case storageFailed
        /// The disk of this device is full, or the replica may not become larger (`ReplicaSpace`).
        case storageFull
        /// Client and server disagree on the protocol.
        case protocolError
        /// The server has failed.
        case serverError
    }

    /// The kind of the issue.
    public let kind: Kind
    /// True if the client tries again by itself.
    public let isRetrying: Bool
    /// The time of the next attempt; nil if there will be none, or if it waits for the network.
    public let nextAttempt: Date?
    /// The error that was reported: its code is more detailed than the kind.
    public let error: SyncError
    /// The place that it keeps from being synchronized: the whole store; in the status of an object, that object.
    public internal(set) var path = ObjectPath.store

    init(_ error: SyncError, isRetrying: Bool, nextAttempt: Date? = nil) {
        kind = Kind(error.code)
        self.isRetrying = isRetrying
        self.nextAttempt = nextAttempt
        self.error = error
    }

    /// The reason.
    public var description: String { error.reason }

    /// True if both say the same, whatever the times of their next attempts are.
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
            case .storageFull: .storageFull
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
            case .limitsExceeded, .badChangesetSize: .tooLarge
            case .invalidSchemaChange, .schemaVersionChanged, .badSchemaVersion: .schemaMismatch
            case .badQuery: .subscriptionRefused
            default:
                [.clientReset, .clientResetNoRecovery].contains(code.action) ? .resetRequired : .serverError
            }
    }
}

/// A change of the current issue.
public enum SyncIssueNews: Equatable, Sendable {
    /// It keeps the store from being synchronized from now on, until it is resolved or another one takes its place.
    case occurred(SyncIssue)
    /// The issue does not exist any more.
    case resolved(SyncIssue)
}
