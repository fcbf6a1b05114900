package import AnabranchCore

/// The records of a file as they will be after a commit in the making.
package struct PendingRecords {
    /// The records of one kind.
    fileprivate struct Kind: Hashable, Comparable {
        var space: UInt16
        var number: UInt8

        static func < (left: Kind, right: Kind) -> Bool { (left.space, left.number) < (right.space, right.number) }
    }

    /// The key of a record, hashed as it lies in memory.
    private struct Key: Hashable {
        var bytes: [UInt8]

        func hash(into hasher: inout Hasher) { bytes.withUnsafeBytes { hasher.combine(bytes: $0) } }
    }

    private struct Change {
        var value: [UInt8]?
        var expiresAt: UInt64
    }

    private var view: any FileView
    /// By kinds, since ranges are looked for within one. There may be very many.
    private var changes: [Kind: [Key: Change]] = [:]
    /// The changes that an attempt has replaced, in their order; nil if there is no attempt.
    private var replaced: [(place: RecordPlace, change: Change?)]?
    /// Ranges that were read as a whole, with their records.
    private var known: [(range: RecordRange, records: SortedRecords)] = []

    /// - Parameter changes: those that the commit makes already.
    package init(over view: any FileView, _ changes: [RecordChange] = []) {
        self.view = view
        for change in changes { set(change.value, at: change.place, expiresAt: change.expiresAt) }
    }

    /// Reads the same records through another view from now on.
    mutating func move(to view: any FileView) { self.view = view }

    /// Has `body` change records, or none if it throws. They are not copied for it: there may be very many.
    mutating func attempt(
        _ body: (inout PendingRecords) throws(HistoryError) -> Void
    ) throws(HistoryError) {
        replaced = []
        defer { replaced = nil }
        do throws(HistoryError) { try body(&self) } catch {
            for (place, change) in (replaced ?? []).reversed() { changes[Kind(place)]?[Key(bytes: place.key)] = change }
            throw error
        }
    }

    /// The version at the head, below what the commit writes.
    package func headVersion() throws(HistoryError) -> ServerVersion { try view.head().version }

    /// The changes, sorted by place.
    package var sortedChanges: [RecordChange] {
        changes.sorted { $0.key < $1.key }.flatMap { kind, changes in
            changes.sorted { $0.key.bytes.precedes($1.key.bytes) }.map { key, change in
                RecordChange(place: kind.place(of: key.bytes), value: change.value, expiresAt: change.expiresAt)
            }
        }
    }

    /// The newest version of the log that the records go with.
    package func head() throws(HistoryError) -> SaltedVersion {
        let head = try view.head()
        return SaltedVersion(version: head.version, salt: head.versionSalt)
    }

    /// The content of a record; nil if there is none.
    package func value(at place: RecordPlace) throws(HistoryError) -> [UInt8]? {
        if let change = changes[Kind(place)]?[Key(bytes: place.key)] { return change.value }
        for (range, records) in known where range.contains(place) { return records[place]?.value }
        return try view.record(at: place)?.value
    }

    /// The most records of a range that is read as a whole.
    private static let readAheadMax = 200_000

    /// Reads a range as a whole, before many of its records are read one by one, or parts of it. Does nothing if there
    /// are too many, or it was read already.
    package mutating func readAhead(_ range: RecordRange) throws(HistoryError) {
        guard !known.contains(where: { $0.range.covers(range) }) else { return }
        var records: [DoorRecord] = [], rest = range
        while records.count <= Self.readAheadMax {
            let page = try view.records(in: rest, countMax: 1_000, isReversed: false)
            records += page
            guard page.count == 1_000, let last = page.last else {
                return known.append((range, SortedRecords(records)))
            }
            rest.lower = last.place.key + [0]
        }
    }

    /// - Parameter expiresAt: in seconds since 1970; 0: never.
    package mutating func set(_ value: [UInt8]?, at place: RecordPlace, expiresAt: UInt64 = 0) {
        let former = changes[Kind(place), default: [:]].updateValue(
            Change(value: value, expiresAt: expiresAt), forKey: Key(bytes: place.key))
        replaced?.append((place, former))
    }

    /// The records of a range in the order of their keys, or in the opposite one; `countMax` at most.
    package func records(
        in range: RecordRange, countMax: Int, isReversed: Bool = false
    ) throws(HistoryError) -> [DoorRecord] {
        let kind = Kind(range), changed = changed(in: range)
        let stored = try stored(in: range, countMax: countMax + changed.count, isReversed: isReversed)
        guard !changed.isEmpty else { return stored }
        var found = Dictionary(uniqueKeysWithValues: stored.map { ($0.place, $0) })
        // Beyond the last stored record that was read, others may stand between.
        let end = stored.count == countMax + changed.count ? stored.last?.place : nil
        for (key, change) in changed {
            let place = kind.place(of: key.bytes)
            found[place] = change.value.map { DoorRecord(place: place, value: $0, expiresAt: change.expiresAt) }
        }
        let sorted = found.values.sorted { isReversed ? $1.place < $0.place : $0.place < $1.place }
        let known = end.map { end in sorted.prefix { isReversed ? end <= $0.place : $0.place <= end } } ?? sorted[...]
        return Array(known.prefix(countMax))
    }

    private func changed(in range: RecordRange) -> [(key: Key, value: Change)] {
        let kind = Kind(range)
        return Array((changes[kind] ?? [:]).lazy.filter { range.contains(kind.place(of: $0.key.bytes)) })
    }

    private func stored(in range: RecordRange, countMax: Int, isReversed: Bool) throws(HistoryError) -> [DoorRecord] {
        for (known, records) in known where known.covers(range) {
            return records.records(in: range, countMax: countMax, isReversed: isReversed)
        }
        return try view.records(in: range, countMax: countMax, isReversed: isReversed)
    }
}

extension PendingRecords.Kind {
    fileprivate init(_ place: RecordPlace) { self.init(space: place.space, number: place.kind) }

    fileprivate init(_ range: RecordRange) { self.init(space: range.space, number: range.kind) }

    /// The name of the record of a key.
    func place(of key: [UInt8]) -> RecordPlace { RecordPlace(space: space, kind: number, key: key) }
}
