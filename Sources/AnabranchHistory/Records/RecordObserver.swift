package import AnabranchCore

/// One log entry that is about to be committed, and the states that it stands between.
package struct RecordStep {
    package let entry: LogEntry
    /// The door's own word on the author, if the entry is a write at the head.
    package let author: [UInt8]?
    package let before: ObjectGraph
    package let after: ObjectGraph
    /// The result of `touched()`, if whoever made the entry had it decoded.
    let known: Touched?

    /// The objects that an entry names, in the order in which it first does, and the classes that it erases.
    package typealias Touched = (objects: [TouchedObject], erasedClasses: [[UInt8]])

    /// The objects and classes of this one.
    package func touched() throws(HistoryError) -> Touched {
        if let known { return known }
        var arena = ChangesetArena()
        arena.reserve(changesets: 1, byteCount: entry.changeset.count)
        let index = try entry.decode(into: &arena)
        return arena.touched(by: index)
    }
}

extension ChangesetArena {
    func touched(by changeset: ChangesetIndex) -> RecordStep.Touched {
        (touchedObjects(of: changeset), erasedClasses(of: changeset))
    }
}

/// A door that keeps records about every entry of a file, whatever client or door makes it (`Spec/Doors.md`, section
/// 3). It is called in the file's turn, in the order of the log, between the merge and the commit.
package protocol RecordObserver: Sendable {
    /// Records an entry: the records that it sets are stored with it, or neither is.
    /// - Throws: a failure of the store. The commit goes on without the records of this observer, which has to
    ///   notice by them that it has missed an entry.
    func observe(_ step: RecordStep, _ records: inout PendingRecords) throws(HistoryError)
}

extension SyncedFile {
    /// A commit with the records of the observers about its new entries.
    func observed(_ commit: Commit) -> Commit {
        guard !observers.isEmpty, let last = commit.entries.last, last.version > commit.observedThrough else {
            return commit
        }
        assert(!defersCommits, "a record of a deferred commit cannot be read before it is stored")
        var commit = commit
        commit.observedThrough = last.version
        do throws(HistoryError) { commit.records = try records(about: commit) } catch {
            // Another node has written: the commit will not fit, and is made anew.
            if error.code != .conflict { observerFailure = error }
        }
        return commit
    }

    private func records(about commit: Commit) throws(HistoryError) -> [RecordChange] {
        guard let state = try currentState(), let update = commit.state else { throw .withoutState }
        let entries = commit.entries
        return try read { view throws(HistoryError) in
            var records = PendingRecords(over: view, commit.records)
            if entries.count == 1 {
                let step = RecordStep(entry: entries[0], author: nil, before: state, after: update.after, known: nil)
                observe(step, &records)
                return records.sortedChanges
            }
            var observation = Observation(of: entries, from: state, records)
            _ = try observation.advance(in: self, over: view, until: .none)
            return observation.changes
        }
    }

    /// Shows an entry to each observer. Those that fail set no record, and concern nobody else.
    func observe(_ step: RecordStep, _ records: inout PendingRecords) {
        for observer in observers {
            do throws(HistoryError) {
                try records.attempt { records throws(HistoryError) in try observer.observe(step, &records) }
            } catch {
                // Another node has written: what this is for is made anew.
                if error.code != .conflict { observerFailure = error }
            }
        }
    }

    /// The last failure of an observer since this was asked.
    package func takeObserverFailure() -> HistoryError? { observerFailure.take() }
}
