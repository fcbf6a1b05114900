package import AnabranchCore

/// One log entry that is about to be committed, and the states that it stands between.
package struct RecordStep {
    package let entry: LogEntry
    /// The door's own word on the author, if the entry is a write at the head.
    package let author: [UInt8]?
    package let before: ObjectGraph
    package let after: ObjectGraph

    /// The objects that the entry names, in the order in which it first does, and the classes that it erases.
    package func touched() throws(HistoryError) -> (objects: [TouchedObject], erasedClasses: [[UInt8]]) {
        var arena = ChangesetArena()
        let index = try entry.decode(into: &arena)
        let erased = arena.instructions(of: index).compactMap { instruction in
            instruction.kind == .eraseTable ? Array(arena.bytes(of: instruction.className)) : nil
        }
        return (arena.touchedObjects(of: index), erased)
    }
}

/// A door that keeps records about every entry of a file, whoever makes it (`Spec/Doors.md`, section 3). It is called
/// in the file's turn, in the order of the log, between the merge and the commit.
package protocol RecordObserver: Sendable {
    /// Notes an entry: the records that it sets are stored with it, or neither is.
    /// - Throws: trouble of the store. The commit goes on without the records of this observer, which has to notice by
    ///   its own records that it has missed an entry.
    func observe(_ step: RecordStep, _ records: inout PendingRecords) throws(HistoryError)
}

extension SyncedFile {
    /// A commit with the records of the observers about its new entries.
    func observed(_ commit: Commit) -> Commit {
        let entries = commit.entries.filter { $0.version > commit.observedThrough }
        guard !observers.isEmpty, !entries.isEmpty, let state = try? currentState(), let update = commit.state else {
            return commit
        }
        var commit = commit
        let records = commit.records
        do throws(HistoryError) {
            commit.records = try read { view throws(HistoryError) in
                var pending = PendingRecords(over: view, records), before = state
                for entry in entries {
                    var after = update.after
                    if entries.count > 1 {
                        after = before
                        try after.replay([entry])
                    }
                    try observe(RecordStep(entry: entry, author: nil, before: before, after: after), &pending)
                    before = after
                }
                return pending.sortedChanges
            }
        } catch {
            commit.records = records
        }
        return commit
    }

    func observe(_ step: RecordStep, _ records: inout PendingRecords) throws(HistoryError) {
        for observer in observers { try observer.observe(step, &records) }
    }
}
