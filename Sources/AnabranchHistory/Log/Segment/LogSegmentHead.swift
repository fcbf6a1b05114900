package import AnabranchCore

/// The facts about a log segment that need no look at its entries: small enough to be kept for all segments of a log.
package struct LogSegmentHead: Sendable {
    /// The versions that the segment has: one or more.
    package let range: VersionRange
    /// The cumulative size of the log before the first entry, in bytes.
    package let baseCumulativeSize: UInt64
    /// The last entry.
    package let end: LogPlace
    /// The client files that the entries were received from; ascending, each once.
    package let origins: [ClientFileID]
    let filter: ConflictKeyFilter

    /// The number of different conflict keys that the entries write.
    package var conflictKeyCount: Int { filter.count }

    /// The head without the block that it was read from.
    var alone: LogSegmentHead {
        LogSegmentHead(
            range: range, baseCumulativeSize: baseCumulativeSize, end: end, origins: origins, filter: filter.alone)
    }

    /// The approximate memory that the head occupies, in bytes.
    var byteCount: Int { 256 + 8 * origins.count + filter.byteCount }

    /// True if an entry was received from the client file.
    func has(_ origin: ClientFileID) -> Bool {
        let place = origins.firstPlace(of: origin)
        return place < origins.count && origins[place] == origin
    }

    /// True if the entry probably writes the conflict key; false if it certainly does not.
    /// - Parameter version: one that the segment has.
    package func mayWrite(_ key: UInt64, in version: ServerVersion) -> Bool {
        filter.match([key]).parts.contains(SegmentParts.number(of: version, in: range))
    }

    /// Looks for conflict keys that an entry in `range` writes which was not received from `origin`. This is quickest
    /// if the keys are ascending.
    func match(
        _ keys: [UInt64], in range: VersionRange, excludingOrigin origin: ClientFileID
    ) -> ConflictKeyFilter.Match {
        guard max(range.base, self.range.base) < min(range.last, self.range.last), origins != [origin] else {
            return ConflictKeyFilter.Match()
        }
        return filter.match(keys)
    }
}
