/// Records in memory, sorted by place.
struct SortedRecords: Sendable {
    private var records: [DoorRecord]

    /// - Parameter records: sorted by place.
    init(_ records: [DoorRecord] = []) { self.records = records }

    subscript(place: RecordPlace) -> DoorRecord? {
        let index = index(of: place)
        return index < records.count && records[index].place == place ? records[index] : nil
    }

    func records(in range: RecordRange, countMax: Int, isReversed: Bool) -> [DoorRecord] {
        let first = index(of: RecordPlace(space: range.space, kind: range.kind, key: range.lower))
        let upper = range.upper.map { index(of: RecordPlace(space: range.space, kind: range.kind, key: $0)) }
        let end = upper ?? index { ($0.space, $0.kind) <= (range.space, range.kind) }
        let found = records[first..<max(first, end)], countMax = max(0, countMax)
        return isReversed ? found.suffix(countMax).reversed() : Array(found.prefix(countMax))
    }

    mutating func apply(_ changes: [RecordChange]) {
        for change in changes {
            let index = index(of: change.place)
            let isThere = index < records.count && records[index].place == change.place
            let new = change.value.map {
                DoorRecord(place: change.place, value: $0, expiresAt: change.expiresAt)
            }
            records.replaceSubrange(index..<index + (isThere ? 1 : 0), with: new.map { [$0] } ?? [])
        }
    }

    /// Their sizes, by kind.
    var totals: [RecordTotal] {
        let each = records.map { record in
            RecordTotal(
                space: record.place.space, kind: record.place.kind, fileCount: 0, recordCount: 1,
                byteCount: UInt64(record.place.key.count + record.value.count))
        }
        return RecordTotal.sum(each).map { total in
            var total = total
            total.fileCount = 1
            return total
        }
    }

    mutating func removeAll(where condition: (DoorRecord) -> Bool) { records.removeAll(where: condition) }

    private func index(of place: RecordPlace) -> Int { index { $0 < place } }

    /// The number of first places that satisfy a condition which no later one satisfies.
    private func index(where condition: (RecordPlace) -> Bool) -> Int {
        var low = 0, high = records.count
        while low < high {
            let middle = low + (high - low) / 2
            if condition(records[middle].place) { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
