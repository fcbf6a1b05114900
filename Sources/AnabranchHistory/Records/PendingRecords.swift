import AnabranchCore

/// The records of a file as they will be after a commit in the making.
package struct PendingRecords {
    private let view: any FileView
    private var changes: [RecordPlace: RecordChange]

    /// - Parameter changes: those that the commit makes already.
    package init(over view: any FileView, _ changes: [RecordChange] = []) {
        self.view = view
        self.changes = Dictionary(changes.map { ($0.place, $0) }) { $1 }
    }

    /// The changes, sorted by place.
    package var sortedChanges: [RecordChange] { changes.values.sorted { $0.place < $1.place } }

    /// The content of a record; nil if there is none.
    package func value(at place: RecordPlace) throws(HistoryError) -> [UInt8]? {
        if let change = changes[place] { return change.value }
        return try view.record(at: place)?.value
    }

    /// - Parameter expiresAt: in seconds since 1970; 0: never.
    package mutating func set(_ value: [UInt8]?, at place: RecordPlace, expiresAt: UInt64 = 0) {
        changes[place] = RecordChange(place: place, value: value, expiresAt: expiresAt)
    }

    /// The records of a range in the order of their keys, or in the opposite one; `countMax` at most.
    package func records(
        in range: RecordRange, countMax: Int, isReversed: Bool = false
    ) throws(HistoryError) -> [DoorRecord] {
        let changed = changes.values.filter { range.contains($0.place) }
        let stored = try view.records(in: range, countMax: countMax + changed.count, isReversed: isReversed)
        guard !changed.isEmpty else { return stored }
        var found = Dictionary(uniqueKeysWithValues: stored.map { ($0.place, $0) })
        // Beyond the last stored record that was read, others may stand between.
        let end = stored.count == countMax + changed.count ? stored.last?.place : nil
        for change in changed {
            found[change.place] = change.value.map {
                DoorRecord(place: change.place, value: $0, expiresAt: change.expiresAt)
            }
        }
        let sorted = found.values.sorted { isReversed ? $1.place < $0.place : $0.place < $1.place }
        let known = end.map { end in sorted.prefix { isReversed ? end <= $0.place : $0.place <= end } } ?? sorted[...]
        return Array(known.prefix(countMax))
    }
}
