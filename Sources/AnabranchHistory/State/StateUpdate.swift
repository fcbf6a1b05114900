public import AnabranchCore

/// What a commit does to the stored state of a file (`Spec/History.md`, section 16).
public struct StateUpdate: Sendable {
    /// The version whose state `after` is.
    public var version: ServerVersion
    /// The state as it is stored.
    public var before: ObjectGraph
    /// The state as it is after the commit.
    public var after: ObjectGraph
    /// What turned the one into the other.
    public var changes: StateChanges

    /// Puts the parts together.
    public init(version: ServerVersion, before: ObjectGraph, after: ObjectGraph, changes: StateChanges) {
        self.version = version
        self.before = before
        self.after = after
        self.changes = changes
    }

    /// The rows to be written, for stores that keep states as rows; the stored ones must be as they were.
    /// - Throws: `storeFailed` if stored rows cannot be read.
    public func rowWrites() throws(HistoryError) -> RowWrites {
        do {
            return try after.rowWrites(since: before, changes: changes)
        } catch {
            throw HistoryError(readingStateFailed: error)
        }
    }
}

extension HistoryError {
    /// Reading objects failed, whatever they were needed for.
    init(readingStateFailed error: ApplyError) {
        self.init(.storeFailed, "the state cannot be read: \(error)")
    }
}
