package import AnabranchCore

/// The entries of a log segment without their changesets: they answer everything that needs no changeset
/// (`Spec/Durability.md`, section 8.2).
package struct LogSegmentColumns: Sendable {
    /// The versions that the segment has.
    package let range: VersionRange
    private let baseCumulativeSize: UInt64
    /// The end of each entry's changeset in `LogSegmentContent`, in bytes.
    let ends: [Int]
    private let origins: [ClientFileID]
    private let salts, releases, protocolVersions: [UInt64]
    private let clientVersions: [ClientVersion]
    private let timestamps: [ChangesetTime]
    private let bases: [ServerVersion?]
    /// The sections of the entries; no elements if all sections are empty.
    private let sections: [[UInt8]]

    // MARK: Answers

    /// The salt of a version; nil if the segment does not have it.
    package func salt(of version: ServerVersion) -> Salt? {
        range.contains(version) ? Salt(rawValue: salts[index(of: version)]) : nil
    }

    /// The versions in `range`, ascending, of the entries that were not received from `origin` and are not empty.
    package func versions(in range: VersionRange, excludingOrigin origin: ClientFileID) -> [ServerVersion] {
        indices(in: range).filter { isFrom(others: origin, $0) && !bytes(of: $0).isEmpty }.map(version(at:))
    }

    /// The receipts of changesets from `ident` in `range`, in order; none if it is 0.
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
            CatalogEntry(
                version: version(at: place), origin: origins[place], clientVersion: clientVersions[place],
                timestamp: timestamps[place], changesetBytes: bytes(of: place).count)
        }
    }

    /// True if an entry was not received from the client file.
    func isFrom(others origin: ClientFileID, _ place: Int) -> Bool { origins[place] != origin }

    /// An entry.
    /// - Parameter changeset: that of the entry.
    func entry(at place: Int, _ changeset: [UInt8]) -> LogEntry {
        LogEntry(
            version: version(at: place), salt: Salt(rawValue: salts[place]), origin: origins[place],
            clientVersion: clientVersions[place], timestamp: timestamps[place],
            cumulativeSize: baseCumulativeSize &+ UInt64(ends[place]), changeset: changeset, base: bases[place],
            uploader: Uploader(release: releases[place], protocolVersion: protocolVersions[place]),
            section: sections.isEmpty ? [] : sections[place])
    }

    /// The approximate memory that the columns occupy, in bytes.
    var byteCount: Int { 80 * ends.count + sections.reduce(0) { $0 + $1.count } }

    private func receipt(at place: Int, from ident: ClientFileID) -> Receipt? {
        guard ident > 0, origins[place] == ident else { return nil }
        return Receipt(version: version(at: place), clientVersion: clientVersions[place])
    }

    // MARK: Places

    /// The places of the entries that are in a range as well.
    func indices(in other: VersionRange) -> Range<Int> {
        let base = max(range.base, other.base), last = min(range.last, other.last)
        guard base < last else { return 0..<0 }
        return index(of: base + 1)..<index(of: last) + 1
    }

    /// The number of entries.
    var count: Int { ends.count }

    private func version(at place: Int) -> ServerVersion { range.base + UInt64(place) + 1 }

    /// - Parameter version: one that the segment has.
    func index(of version: ServerVersion) -> Int { Int(version.rawValue - range.base.rawValue) - 1 }

    /// The range of an entry's changeset, in bytes.
    func bytes(of place: Int) -> Range<Int> { (place == 0 ? 0 : ends[place - 1])..<ends[place] }
}

// MARK: - Bytes

extension LogSegmentColumns {
    /// The columns of entries, in parts of similar bytes.
    static func parts(of entries: [LogEntry], origins: [ClientFileID]) -> [[UInt8]] {
        var writer = SegmentWriter()
        let places = Dictionary(uniqueKeysWithValues: zip(origins, origins.indices))
        let numbers = entries.map { places[$0.origin] ?? 0 }
        for number in numbers { writer.write(count: number) }
        var parts = [writer.take()]

        var byOrigin = entries
        for (rank, entry) in zip(ranks(by: numbers, below: origins.count), entries) { byOrigin[rank] = entry }
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

    /// Where each entry stands if those of the first origin come first, then those of the second, and so on: most
    /// entries of one client have the same release.
    /// - Parameters:
    ///   - numbers: of the origins of the entries.
    ///   - limit: how many origins there are.
    private static func ranks(by numbers: [Int], below limit: Int) -> [Int] {
        var next = [Int](repeating: 0, count: limit + 1)
        for number in numbers { next[number + 1] += 1 }
        for number in 0..<limit { next[number + 1] += next[number] }
        return numbers.map { number in
            defer { next[number] += 1 }
            return next[number]
        }
    }

    /// Decodes columns.
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
        (self.range, self.baseCumulativeSize) = (range, baseCumulativeSize)
        let numbers = try reader.numbers(count).map { Int(clamping: $0) }
        guard numbers.allSatisfy({ $0 < origins.count }) else { throw reader.damaged("an origin is not in the list") }
        self.origins = numbers.map { origins[$0] }
        let ranks = Self.ranks(by: numbers, below: origins.count)
        salts = try reader.repeats(of: count)
        let releases = try reader.repeats(of: count), protocolVersions = try reader.repeats(of: count)
        self.releases = ranks.map { releases[$0] }
        self.protocolVersions = ranks.map { protocolVersions[$0] }
        let hasBases = try reader.repeats(of: count), hasBase = ranks.map { hasBases[$0] != 0 }
        let sectionSizes = try reader.repeats(of: count)
        var newest = [UInt64](repeating: 0, count: origins.count)
        clientVersions = zip(numbers, try reader.numbers(count)).map { number, difference in
            newest[number] = SegmentReader.number(from: newest[number], difference)
            return ClientVersion(rawValue: newest[number])
        }
        var time: UInt64 = 0
        timestamps = try reader.numbers(count).map { difference in
            time = SegmentReader.number(from: time, difference)
            return ChangesetTime(rawValue: time)
        }
        ends = try Self.ends(of: try reader.numbers(count), addingUpTo: changesetBytes, reader)
        var differences = try reader.numbers(hasBase.count { $0 }).makeIterator()
        bases = hasBase.enumerated().map { place, hasBase in
            guard hasBase, let difference = differences.next() else { return nil }
            return ServerVersion(
                rawValue: SegmentReader.number(from: range.base.rawValue &+ UInt64(place) &+ 1, difference))
        }
        var sections: [[UInt8]] = []
        if sectionSizes.contains(where: { $0 > 0 }) {
            for size in sectionSizes { sections.append(Array(try reader.bytes(Int(clamping: size)))) }
        }
        self.sections = sections
        try reader.requireEnd()
    }

    private static func ends(
        of sizes: [UInt64], addingUpTo total: Int, _ reader: SegmentReader
    ) throws(HistoryError) -> [Int] {
        var end = 0
        let ends = sizes.map { size in
            end = min(end + Int(clamping: min(size, UInt64(total) + 1)), total + 1)
            return end
        }
        guard end == total else { throw reader.damaged("the changesets do not have \(total) bytes") }
        return ends
    }
}

extension SegmentReader {
    fileprivate mutating func numbers(_ count: Int) throws(HistoryError) -> [UInt64] {
        var failure: HistoryError?
        let numbers = [UInt64](unsafeUninitializedCapacity: count) { numbers, read in
            do throws(HistoryError) {
                while read < count {
                    numbers.initializeElement(at: read, to: try number())
                    read += 1
                }
            } catch {
                failure = error
            }
        }
        if let failure { throw failure }
        return numbers
    }
}
