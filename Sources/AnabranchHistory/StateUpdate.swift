import AnabranchCore

/// What a commit does to the stored state of a file (`Spec/History.md`, section 16).
public struct StateUpdate: Sendable {
    /// The version whose state `after` is.
    public var version: ServerVersion
    /// The state as it is stored.
    public var before: ObjectGraph
    public var after: ObjectGraph
    /// What turned the one into the other.
    public var changes: StateChanges

    public init(version: ServerVersion, before: ObjectGraph, after: ObjectGraph, changes: StateChanges) {
        self.version = version
        self.before = before
        self.after = after
        self.changes = changes
    }

    /// The rows to be written, for stores that keep states as rows; the stored ones must be as they were.
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
        self.init(.storeFailed, "the state cannot be read: \(error.reason)")
    }
}

extension ObjectGraph {
    /// Applies log entries, which follow the version whose state this is.
    ///
    /// Instructions that cannot be applied are left out, so that every log has a state. Only a log that was written
    /// without a state can hold some: integration refuses them.
    ///
    /// - Returns: What was changed, and how many instructions were left out.
    /// - Throws: `storeDamaged` if an entry cannot be decoded, `storeFailed` if objects cannot be read.
    @discardableResult
    public mutating func follow(
        _ entries: [LogEntry]
    ) throws(HistoryError) -> (changes: StateChanges, leftOut: Int) {
        var arena = ChangesetArena()
        var changesets: [ChangesetIndex] = []
        for entry in entries where !entry.changeset.isEmpty { changesets.append(try entry.decode(into: &arena)) }
        var leftOut = 0
        do {
            let changes = try applyTransactions(changesets, of: &arena) { _ in
                leftOut += 1
                return true
            }
            return (changes, leftOut)
        } catch {
            throw HistoryError(readingStateFailed: error)
        }
    }
}
