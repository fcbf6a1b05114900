public import AnabranchProtocol

/// The reason why a replica is not synchronized, or cannot be at the moment.
public struct SyncError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The kind of an error.
    public enum Code: Equatable, Sendable {
        /// There is no session: the replica was not added to a client, or was removed.
        case notSynchronized
        /// The server says that this cannot go on before the program changes something: an error of its protocol.
        case refused(ErrorCode)
        /// The server wants the replica to be replaced by a fresh one, and the application has chosen to do that
        /// itself; or it could not be done.
        case clientResetRequired
        /// The user is logged out, or may not sync.
        case loggedOut
        /// The server has broken the rules of the protocol, or has sent something that cannot be integrated.
        case violation
        /// The replica's own file cannot be read or written.
        case storeFailed
        /// There is no room for more on the disk of this device, or the replica has the size that it may have.
        case storageFull
        /// The server has refused a subscription set.
        case subscriptionsRefused
        /// A transaction is larger than the server accepts. It stays in the replica, and so do all later ones.
        case transactionTooLarge
        /// The server cannot be reached at the moment; the client tries again.
        case unreachable
    }

    /// The kind of the error.
    public let code: Code
    /// The reason as text for people.
    public let reason: String

    /// An error with its reason, for route providers and tests.
    public init(_ code: Code, _ reason: String) {
        self.code = code
        self.reason = reason
    }

    /// The reason.
    public var description: String { reason }
}
