import AnabranchCore
import AnabranchHistory

/// How many bytes the changes of a file have that are kept, with the steps between versions that they made.
struct KeptBytes: Equatable {
    /// The day of the newest change: days since 1970.
    var day: UInt64 = 0
    /// Those of that day.
    var ofDay: UInt64 = 0
    /// All of them, and what has expired since they were counted.
    var total: UInt64 = 0
}

extension PendingRecords {
    /// The bytes by which a change counts more than its own and those of its step: for their keys, and the store's
    /// rows.
    private static let overhead = 256
    /// How many changes of a bucket are erased together.
    private static let trimCount = 64

    private static func place(ofDay day: UInt64) -> RecordPlace {
        var writer = RecordWriter()
        writer.append(day)
        return RecordKind.bytes.place(writer.bytes)
    }

    /// Counts a change.
    /// - Parameter expiresAt: when it does, in seconds since 1970.
    mutating func count(
        _ change: String, step: [UInt8], now: UInt64, expiresAt: UInt64, in kept: inout KeptBytes
    ) {
        let day = now / Self.daySeconds
        if kept.day != day {
            if kept.ofDay > 0 { set(kept.ofDay, ofDay: kept.day, expiresAt: expiresAt) }
            (kept.day, kept.ofDay) = (day, 0)
        }
        let bytes = UInt64(change.utf8.count + step.count + Self.overhead)
        kept.ofDay += bytes
        kept.total += bytes
    }

    private mutating func set(_ bytes: UInt64, ofDay day: UInt64, expiresAt: UInt64) {
        var writer = RecordWriter()
        writer.append(bytes)
        set(bytes > 0 ? writer.bytes : nil, at: Self.place(ofDay: day), expiresAt: expiresAt)
    }

    private static let days = RecordRange(space: RecordKind.space, kind: RecordKind.bytes.rawValue)

    /// Forgets what was counted.
    mutating func eraseCounts() throws(HistoryError) {
        for record in try records(in: Self.days, countMax: .max >> 1) { set(nil, at: record.place) }
    }

    /// Erases the oldest changes of a file, with the steps that they made, until the others have no more bytes.
    mutating func trim(_ kept: inout KeptBytes, to bytesMax: UInt64, now: UInt64) throws(HistoryError) {
        var days: [(day: UInt64, bytes: UInt64, expiresAt: UInt64)] = []
        for record in try records(in: Self.days, countMax: .max >> 1) where record.expiresAt > now {
            var key = RecordReader(record.place.key), value = RecordReader(record.value)
            days.append((try key.number(), try value.number(), record.expiresAt))
        }
        kept.total = days.reduce(kept.ofDay) { $0 + $1.bytes }
        while kept.total > bytesMax, var freed = try trimOldest(by: kept.total - bytesMax) {
            kept.total -= min(kept.total, freed)
            while freed > 0, let oldest = days.first {
                let part = min(freed, oldest.bytes)
                days[0].bytes -= part
                freed -= part
                set(days[0].bytes, ofDay: oldest.day, expiresAt: oldest.expiresAt)
                if days[0].bytes == 0 { days.removeFirst() }
            }
            kept.ofDay -= min(kept.ofDay, freed)
        }
        // Whatever is left has less than was counted.
        if kept.total > bytesMax { (kept.total, kept.ofDay) = (0, 0) }
    }

    /// Erases changes of the bucket with the oldest change, but never its newest one, until the given number of bytes
    /// is freed.
    /// - Returns: their bytes; nil if there is nothing to erase.
    private mutating func trimOldest(by bytesMin: UInt64) throws(HistoryError) -> UInt64? {
        var found: (bucket: Bucket, place: ChangePlace)?
        for bucket in try buckets() {
            guard let place = try oldestChangePlace(of: bucket) else { continue }
            if let other = found?.place, other < place { continue }
            found = (bucket, place)
        }
        guard let found else { return nil }
        let bucket = found.bucket
        let changes = try changes(
            of: bucket, after: .start, through: .end(of: .largest), countMax: Self.trimCount + 1)
        var bytes: UInt64 = 0, last = found.place
        for change in changes.dropLast() where bytes < bytesMin {
            bytes += UInt64(change.text.utf8.count + Self.overhead)
            bytes += UInt64(try version(change.version, change.key, of: bucket)?.byteCount ?? 0)
            eraseVersion(change.version, change.key, of: bucket)
            eraseChange(at: change.place, of: bucket)
            last = change.place
        }
        try setErased(last, of: bucket)
        return bytes
    }
}
