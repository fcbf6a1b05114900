public import AnabranchCore
import Synchronization

/// The change that a commit makes to the stored state of a file (`Spec/History.md`, section 16).
public struct StateUpdate: Sendable {
    /// The version whose state `after` is.
    public let version: ServerVersion
    private let pending: PendingRows

    /// Creates the update that a commit stores.
    ///
    /// - Parameters:
    ///   - after: The state as it is after the commit, made from the stored one.
    ///   - changes: The changes that turned the one into the other.
    public init(version: ServerVersion, after: ObjectGraph, changes: StateChanges) {
        self.version = version
        pending = PendingRows(PendingRows.Content(state: after, changes: changes))
    }

    /// Joins an update with a later one that was made from its state. Their rows have not been determined yet.
    init(_ first: StateUpdate, followedBy second: StateUpdate) {
        var changes = first.pending.content.withLock { $0.changes }
        let last = second.pending.content.withLock { ($0.state, $0.changes) }
        changes.append(last.1)
        self.init(version: second.version, after: last.0, changes: changes)
    }

    /// The state after the commit; it refers to the stored rows once these are known.
    public var after: ObjectGraph { pending.content.withLock { $0.state } }

    /// True if the rows are those of very few objects, for which the store is seldom asked.
    package var isSmall: Bool {
        pending.content.withLock { $0.changes.objects.count <= 4 && $0.changes.erasedClasses.isEmpty }
    }

    /// The rows to be written, for stores that keep states as rows; the stored ones must be as they were. They are
    /// determined once.
    /// - Throws: `storeFailed` if stored rows cannot be read, `storeDamaged` if they are not what was written.
    public func rowWrites() throws(HistoryError) -> RowWrites {
        try pending.content.withLock { content throws(HistoryError) in
            if let rows = content.rows { return rows }
            do throws(ApplyError) {
                var state = content.state
                let rows = try state.rowWrites(of: content.changes)
                (content.state, content.rows) = (state, rows)
                return rows
            } catch {
                throw HistoryError(readingStateFailed: error)
            }
        }
    }
}

/// A state, and its rows once they were requested.
private final class PendingRows: Sendable {
    struct Content {
        var state: ObjectGraph
        let changes: StateChanges
        var rows: RowWrites?
    }

    let content: Mutex<Content>

    init(_ content: Content) { self.content = Mutex(content) }
}

extension HistoryError {
    /// Reading objects failed, whatever they were needed for.
    package init(readingStateFailed error: ApplyError) {
        let code: Code = error.isOutdated ? .conflict : error.isDamage ? .storeDamaged : .storeFailed
        self.init(code, "the state cannot be read: \(error)")
    }
}
