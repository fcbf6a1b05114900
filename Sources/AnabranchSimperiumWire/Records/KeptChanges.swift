import AnabranchCore
import AnabranchHistory

/// The changes of a bucket that are kept.
struct KeptChanges {
    /// The newest change.
    var last = ChangePlace.start
    /// The newest one of those that were erased.
    var erased = ChangePlace.start
    var count: UInt32 = 0
}

extension PendingRecords {
    /// The bytes by which a change counts more than its own and those of its step: for their keys, and the store's
    /// rows.
    private static let overhead = 256
    /// How many changes of a bucket are erased together.
    private static let trimCount = 64

    /// The bytes that a change counts for, with the step between versions that it makes.
    static func counted(_ change: String, step: [UInt8]) -> UInt32 {
        UInt32(clamping: change.utf8.count + step.count + overhead)
    }

    /// - Returns: nil if the bucket has had no change.
    func keptChanges(of bucket: Bucket) throws(HistoryError) -> KeptChanges? {
        try value(at: RecordKind.last.place(Self.prefix(bucket).bytes)).map { bytes throws(HistoryError) in
            var reader = RecordReader(bytes)
            return KeptChanges(last: try reader.place(), erased: try reader.place(), count: try reader.number())
        }
    }

    mutating func set(_ kept: KeptChanges, of bucket: Bucket) {
        var writer = RecordWriter()
        writer.append(kept.last)
        writer.append(kept.erased)
        writer.append(kept.count)
        set(writer.bytes, at: RecordKind.last.place(Self.prefix(bucket).bytes))
    }

    /// True if all changes of a bucket after a point are kept.
    func keepsChanges(of bucket: Bucket?, after place: ChangePlace) throws(HistoryError) -> Bool {
        guard let bucket, let kept = try keptChanges(of: bucket) else { return true }
        return place >= kept.erased
    }

    /// Erases changes of a bucket that are old and more than need to be kept: now and then, so that it costs a change
    /// little. The steps that they made stay.
    /// - Parameter added: how many changes have come at most.
    /// - Returns: the bytes that they counted for.
    mutating func eraseOld(
        of bucket: Bucket, added: Int, now: UInt64, _ settings: DoorSettings, _ door: DoorRow
    ) throws(HistoryError) -> UInt64 {
        let interval = max(1, settings.changesMin / 128)
        guard let kept = try keptChanges(of: bucket), Int(kept.count) > settings.changesMin,
            Int(kept.count) % interval < added
        else { return 0 }
        let old = try changes(
            of: bucket, after: .start, through: try endOfOld(now: now, settings, door),
            countMax: min(Int(kept.count) - settings.changesMin, 2 * (interval + added)))
        return try erase(old, of: bucket)
    }

    /// Erases the oldest changes of a file, with the steps that they made, until the others have no more bytes.
    mutating func trim(_ bytes: inout UInt64, to bytesMax: UInt64) throws(HistoryError) {
        while bytes > bytesMax, let freed = try trimOldest(by: bytes - bytesMax) { bytes -= min(bytes, freed) }
        // Whatever is left has less than was counted.
        if bytes > bytesMax { bytes = 0 }
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
        guard let bucket = found?.bucket else { return nil }
        var bytes: UInt64 = 0
        let oldest = try changes(of: bucket, after: .start, through: .end(of: .largest), countMax: Self.trimCount + 1)
        let erased = oldest.dropLast().prefix { change in
            defer { bytes += UInt64(change.counted) }
            return bytes < bytesMin
        }
        for change in erased { eraseVersion(change.version, change.key, of: bucket) }
        return try erase(Array(erased), of: bucket)
    }

    /// Erases the oldest changes of a bucket.
    /// - Returns: the bytes that they counted for.
    private mutating func erase(_ oldest: [Change], of bucket: Bucket) throws(HistoryError) -> UInt64 {
        guard let last = oldest.last, var kept = try keptChanges(of: bucket) else { return 0 }
        for change in oldest { eraseChange(at: change.place, of: bucket) }
        kept.erased = last.place
        kept.count -= min(kept.count, UInt32(oldest.count))
        set(kept, of: bucket)
        return oldest.reduce(0) { $0 + UInt64($1.counted) }
    }
}
