package import AnabranchCore

/// The entries of a log segment without their changesets: all that needs no changeset is answered from them
/// (`Spec/Durability.md`, section 8.2).
package struct LogSegmentColumns: Sendable {
    /// The versions that the segment has.
    package let range: VersionRange
    /// All of the entries but their changesets, which are empty here.
    let entries: [LogEntry]
    /// Where the changeset of each entry ends in `LogSegmentContent`.
    let ends: [Int]

    // MARK: Answers

    /// The salt of a version; nil if the segment does not have it.
    package func salt(of version: ServerVersion) -> Salt? {
        range.contains(version) ? entries[index(of: version)].salt : nil
    }

    /// The versions in `range`, ascending, of the entries that were not received from `origin` and are not empty.
    package func versions(in range: VersionRange, excludingOrigin origin: ClientFileID) -> [ServerVersion] {
        indices(in: range).filter { entries[$0].origin != origin && !bytes(of: $0).isEmpty }.map { entries[$0].version }
    }

    /// What was received from `ident` in `range`, in order; nothing if it is 0.
    package func receipts(from ident: ClientFileID, in range: VersionRange) -> [Receipt] {
        indices(in: range).compactMap { receipt(at: $0, from: ident) }
    }

    /// The newest entry at or below `version` that was received from `ident`; nil if the segment has none.
    package func lastReceipt(from ident: ClientFileID, upTo version: ServerVersion) -> Receipt? {
        let places = indices(in: VersionRange(after: range.base, through: version))
        return places.reversed().lazy.compactMap { receipt(at: $0, from: ident) }.first
    }

    /// The entries in `range` as `HistoryCatalog` lists them.
    func catalogEntries(in range: VersionRange) -> [CatalogEntry] {
        indices(in: range).map { place in
            let entry = entries[place]
            return CatalogEntry(
                version: entry.version, origin: entry.origin, clientVersion: entry.clientVersion,
                timestamp: entry.timestamp, changesetBytes: bytes(of: place).count)
        }
    }

    /// About what they occupy, in bytes.
    var byteCount: Int {
        entries.count * (MemoryLayout<LogEntry>.stride + MemoryLayout<Int>.stride)
            + entries.reduce(0) { $0 + $1.section.count }
    }

    private func receipt(at place: Int, from ident: ClientFileID) -> Receipt? {
        let entry = entries[place]
        guard ident > 0, entry.origin == ident else { return nil }
        return Receipt(version: entry.version, clientVersion: entry.clientVersion)
    }

    // MARK: Places

    /// The places of the entries that are in a range as well.
    func indices(in other: VersionRange) -> Range<Int> {
        let base = max(range.base, other.base), last = min(range.last, other.last)
        guard base < last else { return 0..<0 }
        return index(of: base + 1)..<index(of: last) + 1
    }

    /// - Parameter version: one that the segment has.
    func index(of version: ServerVersion) -> Int { Int(version.rawValue - range.base.rawValue) - 1 }

    /// Where the changeset of an entry stands.
    func bytes(of place: Int) -> Range<Int> { (place == 0 ? 0 : ends[place - 1])..<ends[place] }
}

// MARK: - Bytes

extension LogSegmentColumns {
    /// The columns of entries, in parts within which bytes are alike.
    static func parts(of entries: [LogEntry], origins: [ClientFileID]) -> [[UInt8]] {
        var writer = SegmentWriter()
        let places = Dictionary(uniqueKeysWithValues: zip(origins, origins.indices))
        let numbers = entries.map { places[$0.origin] ?? 0 }
        for number in numbers { writer.write(count: number) }
        var parts = [writer.take()]

        let byOrigin = order(by: numbers, below: origins.count).map { entries[$0] }
        writer.write(repeats: entries.map(\.salt.rawValue))
        writer.write(repeats: byOrigin.map(\.uploader.release))
        writer.write(repeats: byOrigin.map(\.uploader.protocolVersion))
        writer.write(repeats: byOrigin.map { $0.base == nil ? 0 : 1 })
        writer.write(repeats: entries.map { UInt64($0.section.count) })
        parts.append(writer.take())
        var newest: [ClientFileID: ClientVersion] = [:]
        for entry in entries {
            writer.write(from: newest[entry.origin]?.rawValue ?? 0, to: entry.clientVersion.rawValue)
            newest[entry.origin] = entry.clientVersion
        }
        parts.append(writer.take())
        var time: ChangesetTime = 0
        for entry in entries {
            writer.write(from: time.rawValue, to: entry.timestamp.rawValue)
            time = entry.timestamp
        }
        parts.append(writer.take())
        for entry in entries { writer.write(count: entry.changeset.count) }
        parts.append(writer.take())
        for entry in entries {
            if let base = entry.base { writer.write(from: entry.version.rawValue, to: base.rawValue) }
        }
        parts.append(writer.take())
        for entry in entries { writer.write(entry.section) }
        return parts + [writer.take()]
    }

    /// The places of the entries of the first origin, then of the second, and so on: a client keeps its release.
    private static func order(by numbers: [Int], below count: Int) -> [Int] {
        var places = [[Int]](repeating: [], count: count)
        for (place, number) in numbers.enumerated() { places[number].append(place) }
        return places.flatMap(\.self)
    }

    /// Takes columns apart.
    /// - Parameters:
    ///   - range: the versions; as many as there are entries.
    ///   - changesetBytes: how many bytes the changesets have together.
    /// - Throws: `storeDamaged`, with the place.
    init(
        _ columns: [UInt8], range: VersionRange, baseCumulativeSize: UInt64, origins: [ClientFileID],
        changesetBytes: Int
    ) throws(HistoryError) {
        let count = Int(range.last.rawValue - range.base.rawValue)
        var reader = SegmentReader(
            columns, name: "the columns of log entries \(range.base + 1) to \(range.last)")
        var entries = (0..<count).map { place in
            LogEntry(
                version: range.base + UInt64(place) + 1, salt: 0, origin: 0, clientVersion: 0, timestamp: 0,
                cumulativeSize: 0, changeset: [])
        }
        var sections = [Int](repeating: 0, count: count)
        let numbers = try Self.readOrigins(origins, from: &reader, into: &entries)
        let byOrigin = Self.order(by: numbers, below: origins.count)
        try Self.readRepeats(from: &reader, into: &entries, byOrigin, &sections)
        try Self.readClientVersionsAndTimes(from: &reader, into: &entries, numbers)
        ends = try Self.readSizes(addingUpTo: changesetBytes, of: count, from: &reader)
        for place in entries.indices {
            entries[place].cumulativeSize = baseCumulativeSize &+ UInt64(ends[place])
        }
        for place in entries.indices where entries[place].base != nil {
            entries[place].base = ServerVersion(rawValue: try reader.number(from: entries[place].version.rawValue))
        }
        for place in entries.indices where sections[place] > 0 {
            entries[place].section = Array(try reader.bytes(sections[place]))
        }
        try reader.requireEnd()
        self.range = range
        self.entries = entries
    }

    private static func readClientVersionsAndTimes(
        from reader: inout SegmentReader, into entries: inout [LogEntry], _ numbers: [Int]
    ) throws(HistoryError) {
        var newest = [UInt64](repeating: 0, count: (numbers.max() ?? 0) + 1)
        for (place, number) in numbers.enumerated() {
            newest[number] = try reader.number(from: newest[number])
            entries[place].clientVersion = ClientVersion(rawValue: newest[number])
        }
        var time: UInt64 = 0
        for place in entries.indices {
            time = try reader.number(from: time)
            entries[place].timestamp = ChangesetTime(rawValue: time)
        }
    }

    private static func readSizes(
        addingUpTo total: Int, of count: Int, from reader: inout SegmentReader
    ) throws(HistoryError) -> [Int] {
        var ends: [Int] = []
        ends.reserveCapacity(count)
        var end = 0
        for _ in 0..<count {
            end += try reader.count(atMost: total - end)
            ends.append(end)
        }
        guard end == total else { throw reader.damaged("the changesets have \(end) bytes, not \(total)") }
        return ends
    }

    private static func readRepeats(
        from reader: inout SegmentReader, into entries: inout [LogEntry], _ byOrigin: [Int],
        _ sections: inout [Int]
    ) throws(HistoryError) {
        let count = entries.count
        try reader.repeats(of: count) { salt, places in
            for place in places { entries[place].salt = Salt(rawValue: salt) }
        }
        try reader.repeats(of: count) { release, places in
            for place in places { entries[byOrigin[place]].uploader.release = release }
        }
        try reader.repeats(of: count) { version, places in
            for place in places { entries[byOrigin[place]].uploader.protocolVersion = version }
        }
        try reader.repeats(of: count) { hasBase, places in
            for place in places where hasBase != 0 { entries[byOrigin[place]].base = 0 }
        }
        try reader.repeats(of: count) { size, places in
            for place in places { sections[place] = Int(clamping: size) }
        }
    }

    private static func readOrigins(
        _ origins: [ClientFileID], from reader: inout SegmentReader, into entries: inout [LogEntry]
    ) throws(HistoryError) -> [Int] {
        var numbers: [Int] = []
        numbers.reserveCapacity(entries.count)
        for place in entries.indices {
            let number = try reader.count(atMost: origins.count - 1)
            entries[place].origin = origins[number]
            numbers.append(number)
        }
        return numbers
    }
}
