/// Why the history refused something (`Spec/History.md`, sections 4 to 6). Two errors are equal if their codes are.
public struct HistoryError: Error, Equatable, Sendable, CustomStringConvertible {
    /// What went wrong. Refusals of a client's message carry the number that goes on the wire; errors of the server's
    /// own never do, because a wrong number there would make clients throw their data away.
    public enum Code: Equatable, Sendable {
        /// The backlog of a synced file is full: wire code 100, the client tries again.
        case backlogFull
        /// There is no such client file.
        case badClientFileIdent
        /// A server version is one that the client cannot refer to.
        case badServerVersion
        /// A client version is one that the client cannot refer to.
        case badClientVersion
        /// The client means another history than this one: a salt, or what it claims to have uploaded, is another.
        case divergingHistories
        /// A changeset cannot be decoded, merged or applied.
        case badChangeset
        /// A changeset says that it comes from another client file than the one that uploads it.
        case badOriginFileIdent
        /// The client file has expired.
        case clientFileExpired
        /// The client file belongs to another user.
        case userMismatch
        /// The store could not do its work now: disk full, input/output error, connection lost. Nothing was changed.
        case storeFailed
        /// Somebody else has taken over the file, or its log is not where the commit expected it.
        case leaseLost
        /// What is stored contradicts itself.
        case storeDamaged
        /// The data directory cannot be used: it belongs to a running process, or another format is in it.
        case storeUnusable
    }

    /// What went wrong.
    public var code: Code
    /// What was found, in words for a log; no secrets, no user data.
    public var reason: String

    /// Puts the parts together.
    public init(_ code: Code, _ reason: String) {
        self.code = code
        self.reason = reason
    }

    /// Whether the codes are the same; the reasons may differ.
    public static func == (left: HistoryError, right: HistoryError) -> Bool { left.code == right.code }

    /// The number of the error on the wire (`Spec/Protocol.md`, section 7.1): below 200 it ends the connection, from
    /// 200 on the session. All errors of the server's own are 201, transient.
    public var wireCode: Int {
        switch code {
        case .backlogFull: 100
        case .badClientFileIdent: 208
        case .badServerVersion: 209
        case .badClientVersion: 210
        case .divergingHistories: 211
        case .badChangeset: 212
        case .badOriginFileIdent: 216
        case .clientFileExpired: 222
        case .userMismatch: 223
        case .storeFailed, .leaseLost, .storeDamaged, .storeUnusable: 201
        }
    }

    /// Whether the same request can succeed later without the client changing anything.
    public var isTransient: Bool { wireCode == 100 || wireCode == 201 }

    /// The wire code, the code and the reason in one line.
    public var description: String { "\(wireCode) \(code): \(reason)" }
}
