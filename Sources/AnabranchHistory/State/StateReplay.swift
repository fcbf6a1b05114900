public import AnabranchCore

/// A piece of a log that is applied to a state step by step, so that memory is bounded however long it is.
package struct LogReplay {
    /// The bytes of changesets that a step reads, exceeded by at most one entry.
    private static let stepBytes = 1 << 20

    /// The versions that were not applied yet.
    package private(set) var rest: VersionRange

    package init(_ range: VersionRange) { rest = range }

    package var isDone: Bool { rest.isEmpty }

    /// The next entries that are not empty, perhaps none; they are removed from the rest.
    package mutating func next(from view: any FileView) throws(HistoryError) -> [LogEntry] {
        let entries = try view.entries(in: rest, excludingOrigin: nil, byteBudget: Self.stepBytes)
        let isLast = entries.reduce(0) { $0 + $1.changeset.count } <= Self.stepBytes
        rest.base = isLast ? rest.last : entries.last?.version ?? rest.last
        return entries
    }
}

extension SyncedFile {
    /// Brings a state that is behind its log up to date, as after a time as a relay. Each step is a commit, so that an
    /// interruption loses little.
    func replayLog() throws(HistoryError) {
        guard head.stateVersion <= head.version, head.stateVersion >= head.baseVersion else {
            throw HistoryError(
                .storeDamaged, "the state is of version \(head.stateVersion), the log ends at \(head.version)")
        }
        var replay = LogReplay(VersionRange(after: head.stateVersion, through: head.version))
        while !replay.isDone, let before = try currentState() {
            let entries = try read { view throws(HistoryError) in try replay.next(from: view) }
            var after = before
            let changes = try after.replay(entries).changes
            var commit = Commit(file: id, lease: lease, head: head)
            commit.state = StateUpdate(version: replay.rest.base, after: after, changes: changes)
            try self.commit(commit)
        }
    }
}

extension ObjectGraph {
    /// Applies log entries, which follow the version whose state this is.
    ///
    /// Instructions that cannot be applied are skipped, so that every log has a state. Only a log that was written
    /// without a state can hold some: integration refuses them.
    ///
    /// - Returns: What was changed, and how many instructions were skipped.
    /// - Throws: `storeDamaged` if an entry cannot be decoded, `storeFailed` if objects cannot be read.
    @discardableResult
    public mutating func replay(
        _ entries: [LogEntry]
    ) throws(HistoryError) -> (changes: StateChanges, skippedCount: Int) {
        var arena = ChangesetArena()
        var changesets: [ChangesetIndex] = []
        for entry in entries where !entry.changeset.isEmpty { changesets.append(try entry.decode(into: &arena)) }
        var skippedCount = 0
        do {
            let changes = try applyTransactions(changesets, of: &arena) { _ in
                skippedCount += 1
                return true
            }
            return (changes, skippedCount)
        } catch {
            throw HistoryError(readingStateFailed: error)
        }
    }
}
