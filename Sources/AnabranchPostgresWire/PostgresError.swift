#if canImport(CLibPQ)
/// An error of a connection to PostgreSQL, or of a statement (`Spec/Bridge.md`, section 8).
public struct PostgresError: Error, Equatable, CustomStringConvertible {
    /// The kind of an error.
    public enum Code: Equatable, Sendable {
        /// No connection could be made, or it has broken. The connection cannot be used any more.
        case unreachable
        /// The time for a connection or a statement was up. The statement was cancelled.
        case timedOut
        /// The server has refused a statement; `state` says why.
        case refused
    }

    /// The kind.
    public let code: Code
    /// The five characters of SQLSTATE, such as `23505`; nil if the server has not answered.
    public let state: String?
    /// The message, with the detail if there is one.
    public let reason: String
    /// The message alone: a detail can contain values of rows.
    public let message: String
    /// The constraint that was violated, if the server names it.
    public let constraint: String?

    /// Creates an error that no server has sent, or one that has.
    public init(
        _ code: Code, _ reason: String, message: String? = nil, state: String? = nil, constraint: String? = nil
    ) {
        (self.code, self.reason, self.state, self.constraint) = (code, reason, state, constraint)
        self.message = message ?? reason
    }

    /// The message, with SQLSTATE if there is one.
    public var description: String { state.map { "\(reason) (SQLSTATE \($0))" } ?? reason }

    /// True if the same transaction may succeed when it is made again: a deadlock, or a conflict of snapshots.
    public var isTransient: Bool { state == "40001" || state == "40P01" }

    /// True if the data is what the statement fails for: a constraint, or a value that a column cannot hold.
    public var isOfData: Bool { state.map { $0.hasPrefix("22") || $0.hasPrefix("23") || $0 == "0A000" } ?? false }
}
#endif
