#if canImport(CLibPQ)
import AnabranchPostgresWire

/// An error of a bridge: a code, the reason, and the table and column that it is about (`Spec/Bridge.md`).
public struct BridgeError: Error, Equatable, CustomStringConvertible {
    /// The kind of an error.
    public enum Code: Sendable {
        /// The database cannot be reached, or does not answer in time. The next pass may succeed.
        case unreachable
        /// The database has refused a statement of the bridge.
        case refused
        /// A table cannot be bridged as it is.
        case notBridgeable
        /// Nothing is installed in the database, or its installation is not complete.
        case notInstalled
        /// The file of objects has classes or properties that the tables do not fit.
        case schemaMismatch
        /// Another process has the bridge. It is taken over when that one is silent.
        case heldByOther
        /// The database was bridged to another file, or more rows would be deleted than is likely to be meant.
        case fileMismatch
    }

    /// The kind.
    public let code: Code
    /// The reason, in words.
    public let reason: String
    /// The table that it is about; nil if it is about the database.
    public let table: String?
    /// The column that it is about; nil if it is about the table.
    public let column: String?

    init(_ code: Code, _ reason: String, table: String? = nil, column: String? = nil) {
        (self.code, self.reason, self.table, self.column) = (code, reason, table, column)
    }

    init(_ error: PostgresError) {
        self.init(error.code == .refused ? .refused : .unreachable, "PostgreSQL: \(error)")
    }

    /// Place and reason.
    public var description: String {
        let place = table.map { "table \($0)\(column.map { ", column \($0)" } ?? ""): " } ?? ""
        return place + reason
    }
}
#endif
