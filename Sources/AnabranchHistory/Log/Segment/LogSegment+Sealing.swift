import AnabranchCore

extension LogSegment {
    /// The effort of zstd: reading costs the same at each level, and entries are sealed once.
    package static let compressionLevel = 9

    /// Puts entries into a block that `init(_:of:)` opens, and reads it back.
    /// - Parameters:
    ///   - entries: one or more, without gaps.
    ///   - link: the checksum of the entry before; `start` if there is none.
    ///   - start: where the chain of the file begins.
    ///   - level: the effort of zstd, 1 … 19.
    /// - Throws: `storeDamaged` if an entry does not follow the one before, or cannot be decoded; `storeFailed` if
    ///   there are none, or more than a segment can have, or the block does not yield the same entries, or memory is
    ///   short.
    package static func seal(
        _ entries: [LogEntry], after link: Checksum, of start: Checksum, level: Int = compressionLevel
    ) throws(HistoryError) -> [UInt8] {
        let (base, baseCumulativeSize) = try checkedBase(of: entries)
        let origins = entries.map(\.origin).sortedUnique()
        let columns = LogSegmentColumns.parts(of: entries, origins: origins)
        let columnBytes = columns.reduce(0) { $0 + $1.count }
        guard columnBytes <= columnBytesMax else { throw tooLarge("\(columnBytes) bytes beside changesets") }

        var writer = SegmentWriter()
        writer.write([format])
        writer.write(base.rawValue)
        writer.write(count: entries.count)
        writer.write(baseCumulativeSize)
        writer.write(entries.reduce(link) { $0.following($1) }.bytes)
        writer.write(count: origins.count)
        var previous: ClientFileID = 0
        for origin in origins {
            writer.write(origin.rawValue - previous.rawValue)
            previous = origin
        }
        let range = VersionRange(after: base, through: base + UInt64(entries.count))
        ConflictKeyFilter.write(try LogEntry.conflictKeys(of: entries), of: range, to: &writer)
        try ZstdFrame.write(columns, level: level, to: &writer)
        writer.write(try changesets(of: entries, level: level))
        let block = start.keyed([], writer.bytes).bytes + writer.bytes
        // The rows of the entries go away: nothing may depend on a faultless compressor, or faultless memory.
        guard try LogSegment(block, of: start).content().entries == entries else {
            throw HistoryError(.storeFailed, "log entries from \(base + 1) on do not come back as they were sealed")
        }
        return block
    }

    /// The compressed changesets, in the order that takes fewer bytes.
    private static func changesets(of entries: [LogEntry], level: Int) throws(HistoryError) -> [UInt8] {
        var changesets: [UInt8] = [], ends: [Int] = []
        for entry in entries {
            changesets += entry.changeset
            ends.append(changesets.count)
        }
        var shortest: [UInt8] = []
        for order in ChangesetOrder.allCases {
            var writer = SegmentWriter()
            writer.write([order.rawValue])
            let arranged = ChangesetLayout(order, endingAt: ends).arrange(changesets, endingAt: ends)
            try ZstdFrame.write([arranged], level: level, to: &writer)
            if shortest.isEmpty || writer.bytes.count < shortest.count { shortest = writer.bytes }
        }
        return shortest
    }

    /// The version and cumulative size before the first entry. Throws unless the entries follow one another and fit a
    /// segment.
    private static func checkedBase(
        of entries: [LogEntry]
    ) throws(HistoryError) -> (version: ServerVersion, cumulativeSize: UInt64) {
        guard let first = entries.first, entries.count <= entryCountMax else {
            throw tooLarge("\(entries.count) entries")
        }
        let bytes = entries.reduce(0) { $0 + $1.changeset.count }
        guard bytes <= changesetBytesMax else { throw tooLarge("\(bytes) bytes of changesets") }
        let base = first.version - 1
        let (baseCumulativeSize, isNegative) = first.cumulativeSize.subtractingReportingOverflow(
            UInt64(first.changeset.count))
        guard base.rawValue <= UInt64(Int64.max) - UInt64(entries.count), !isNegative else {
            throw HistoryError(.storeDamaged, "log entry \(first.version) has \(first.cumulativeSize) bytes before it")
        }
        var (version, cumulativeSize) = (base, baseCumulativeSize)
        for entry in entries {
            version += 1
            cumulativeSize &+= UInt64(entry.changeset.count)
            guard entry.version == version, entry.cumulativeSize == cumulativeSize else {
                throw HistoryError(.storeDamaged, "log entry \(entry.version) does not follow the one before")
            }
        }
        return (base, baseCumulativeSize)
    }

    private static func tooLarge(_ what: String) -> HistoryError {
        HistoryError(.storeFailed, "no log segment can have \(what)")
    }
}
