import AnabranchCore

/// The entries of a merge that are shown to the observers of their file, one after the other: each may take long, and
/// there may be thousands.
struct Observation {
    private var entries: ArraySlice<LogEntry>
    /// The state before them.
    private var state: ObjectGraph
    private var records: PendingRecords

    /// - Parameters:
    ///   - state: the state before the first entry.
    ///   - records: the records there.
    init(of entries: [LogEntry], from state: ObjectGraph, _ records: PendingRecords) {
        self.entries = entries[...]
        self.state = state
        self.records = records
    }

    /// The records that the observers have set so far, sorted by place.
    var changes: [RecordChange] { records.sortedChanges }

    /// Shows at least one more entry, until the step is over.
    /// - Returns: whether all are shown.
    mutating func advance(
        in file: SyncedFile, over view: any FileView, until limit: StepLimit
    ) throws(HistoryError) -> Bool {
        records.move(to: view)
        while let entry = entries.popFirst() {
            var after = state
            try after.replay([entry])
            file.observe(RecordStep(entry: entry, author: nil, before: state, after: after, known: nil), &records)
            state = after
            if limit.isOver { break }
        }
        return entries.isEmpty
    }
}
