/// An error of capture: a code, the reason, and the table and column that it is about (`Spec/Capture.md`).
public struct CaptureError: Error, Equatable, CustomStringConvertible {
    /// The kind of an error.
    public enum Code: Sendable {
        /// The database cannot be opened, read or written.
        case unreadable
        /// Others have kept the database locked for ten seconds.
        case locked
        /// A table cannot be captured as it is.
        case notCapturable
        /// Nothing is installed in the database, or its installation is not complete.
        case notInstalled
        /// A rule makes no sense for its table.
        case badRule
        /// Capture is paused.
        case paused
        /// The file of objects has classes or properties that the tables do not fit.
        case schemaMismatch
        /// The replica is not the one that the database was synchronized with, or an older copy of it.
        case replicaMismatch
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

    /// An error of SQLite, in the database at a path.
    init(_ error: SQLError, in path: String) {
        if error.isBusy {
            self.init(.locked, "\(path): others keep the database locked")
        } else {
            self.init(.unreadable, "\(path): \(error)")
        }
    }

    /// Place and reason.
    public var description: String {
        let place = table.map { "table \($0)\(column.map { ", column \($0)" } ?? ""): " } ?? ""
        return place + reason
    }
}
