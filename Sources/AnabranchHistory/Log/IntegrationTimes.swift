public import AnabranchCore

/// The moment at which entries of a log were integrated, by the server's clock.
public struct IntegrationMark: Equatable, Sendable {
    /// The first entry that was integrated then.
    public var version: ServerVersion
    /// When; never before that of an older mark.
    public var time: ChangesetTime

    /// Creates a mark.
    public init(version: ServerVersion, time: ChangesetTime) {
        self.version = version
        self.time = time
    }
}

/// Marks that follow one another, as one record keeps them, which has the first version as its key (`Spec/History.md`,
/// section 18).
package struct IntegrationTimes: Equatable, Sendable {
    private static let markCountMax = 128
    /// The least time between two marks.
    private static let intervalMilliseconds: UInt64 = 1_000

    /// In their order; none in a file that has no record yet.
    package private(set) var marks: [IntegrationMark] = []

    /// Records when entries are integrated. A clock that has gone back stands still until it has come so far again.
    /// - Parameter version: the first of the entries.
    /// - Returns: the change of the record; nil if the newest mark stands for them as well.
    package mutating func record(_ version: ServerVersion, at time: ChangesetTime) -> RecordChange? {
        if let last = marks.last {
            guard version > last.version, time > last.time,
                time.rawValue - last.time.rawValue >= Self.intervalMilliseconds
            else { return nil }
        }
        if marks.count >= Self.markCountMax { marks = [] }
        marks.append(IntegrationMark(version: version, time: time))
        return RecordChange(place: OwnRecord.times.place(of: marks[0].version), value: bytes)
    }

    /// The newest mark at or below a version.
    func mark(of version: ServerVersion) -> IntegrationMark? { marks.last { $0.version <= version } }

    // MARK: Records

    /// The differences of the marks, each from the one before; the first version is in the key.
    private var bytes: [UInt8] {
        var writer = SegmentWriter(), previous = IntegrationMark(version: marks.first?.version ?? 0, time: 0)
        for mark in marks {
            writer.write(mark.version.rawValue - previous.version.rawValue)
            writer.write(mark.time.rawValue - previous.time.rawValue)
            previous = mark
        }
        return writer.bytes
    }

    package init() {}

    /// - Throws: `storeDamaged`.
    init(_ record: DoorRecord) throws(HistoryError) {
        let first = record.place.key.reduce(0 as UInt64) { $0 << 8 | UInt64($1) }
        var reader = SegmentReader(record.value, name: "the times of entries from \(first) on")
        var mark = IntegrationMark(version: ServerVersion(rawValue: first), time: 0)
        while !reader.isAtEnd {
            let version = mark.version.rawValue.addingReportingOverflow(try reader.number())
            let time = mark.time.rawValue.addingReportingOverflow(try reader.number())
            guard !version.overflow, !time.overflow, 1...UInt64(Int64.max) ~= version.partialValue else {
                throw reader.damaged("a version or a time is out of range")
            }
            mark = IntegrationMark(
                version: ServerVersion(rawValue: version.partialValue),
                time: ChangesetTime(rawValue: time.partialValue))
            marks.append(mark)
        }
        guard !marks.isEmpty else { throw reader.damaged("it has no mark") }
    }
}

extension FileView {
    /// When an entry was integrated, by the server's clock; it was less than a second later if other entries were
    /// integrated just before (`Spec/History.md`, section 18). Nil if that is not known.
    public func integrationTime(of version: ServerVersion) throws(HistoryError) -> ChangesetTime? {
        try times(of: version).mark(of: version)?.time
    }

    /// The newest version at a moment: that of the last entry whose `integrationTime` it does not precede. Nil if
    /// nothing is known of that time (`oldestIntegration`).
    public func version(at time: ChangesetTime) throws(HistoryError) -> ServerVersion? {
        guard let oldest = try times(OwnRecord.times.range(from: 0), isReversed: false), oldest.marks[0].time <= time
        else { return nil }
        let newest = try head().version
        // The record that is sought is `found`, or begins between `low` and `high`.
        var found = oldest, low = oldest.marks[0].version, high = newest
        while low < high {
            let middle = low + (high.rawValue - low.rawValue + 1) / 2, times = try times(of: middle)
            guard let first = times.marks.first else { break }
            if first.time > time {
                high = first.version - 1
            } else {
                (found, low) = (times, middle)
            }
        }
        if let next = found.marks.first(where: { $0.time > time }) { return next.version - 1 }
        let last = found.marks[found.marks.count - 1].version
        let following = try times(OwnRecord.times.range(from: last + 1), isReversed: false)
        return following.map { $0.marks[0].version - 1 } ?? newest
    }

    /// The oldest moment that is known, and its first entry; nil if no times are kept.
    public func oldestIntegration() throws(HistoryError) -> IntegrationMark? {
        try times(OwnRecord.times.range(from: 0), isReversed: false)?.marks[0]
    }

    /// The record that has the newest mark at or below a version.
    fileprivate func times(of version: ServerVersion) throws(HistoryError) -> IntegrationTimes {
        let end = version < .largest ? version + 1 : version
        return try times(OwnRecord.times.range(from: 0, upTo: end), isReversed: true) ?? IntegrationTimes()
    }

    /// The first or the last record of a range.
    private func times(_ range: RecordRange, isReversed: Bool) throws(HistoryError) -> IntegrationTimes? {
        guard let record = try records(in: range, countMax: 1, isReversed: isReversed).first else { return nil }
        return try IntegrationTimes(record)
    }
}

extension SyncedFile {
    private func knownTimes() throws(HistoryError) -> IntegrationTimes {
        if let times { return times }
        return try read { view throws(HistoryError) in try view.times(of: .largest) }
    }

    /// A commit with the time of its entries. It goes without if the store cannot be read now: then they count as
    /// integrated when those before them were. Records of entries that are dropped go as well.
    func timed(_ commit: Commit) -> Commit {
        var commit = commit, changes: [RecordChange] = []
        do throws(HistoryError) {
            if let clock, let first = commit.entries.first?.version {
                var times = try knownTimes()
                if let change = times.record(first, at: clock()) { changes.append(change) }
                self.times = times
            }
            if let trim = commit.trim { changes += try recordsErased(by: trim) }
        } catch {}
        if !changes.isEmpty { commit.records = (changes + commit.records).sorted { $0.place < $1.place } }
        return commit
    }
}
