#if canImport(CLibPQ)
import AnabranchCore
import AnabranchHistory
import AnabranchPostgresWire

/// The entries of the log that have rows.
extension PostgresFile {
    static let entryColumns = """
        version, salt, origin, client_version, time, cumulative_size, changeset, base, release, protocol, section,
        checksum
        """
    /// The most rows that are requested at a time.
    private static let pieceCount = 1_000

    /// - Parameter row: a row with `entryColumns`, followed by the checksum of the entry before, if that has a row.
    private func entry(_ rows: PostgresRows, _ row: Int) throws(HistoryError) -> LogEntry {
        let entry = LogEntry(
            version: try rows.number(row, 0), salt: try rows.number(row, 1), origin: try rows.number(row, 2),
            clientVersion: try rows.number(row, 3), timestamp: try rows.number(row, 4),
            cumulativeSize: try rows.number(row, 5), changeset: try rows.requiredBytes(row, 6),
            base: try rows.optionalNumber(row, 7).map(ServerVersion.init(rawValue:)),
            uploader: Uploader(
                release: try rows.optionalNumber(row, 8) ?? 0,
                protocolVersion: try rows.optionalNumber(row, 9) ?? 0),
            section: rows.bytes(row, 10) ?? [])
        var before = rows.checksum(row, 12)
        if before == nil { before = try rowsBase().chain }
        guard let checksum = rows.checksum(row, 11), checksum == before?.following(entry) else {
            throw damaged("log entry \(entry.version), or the one before it,")
        }
        return entry
    }

    func entry(_ version: ServerVersion) throws(HistoryError) -> LogEntry? {
        guard version > record.head.baseVersion, version <= record.head.version else { return nil }
        let rows = try query(
            """
            SELECT \(Self.entryColumns), (SELECT checksum FROM log_entry WHERE file = $1 AND version = $2::bigint - 1)
            FROM log_entry WHERE file = $1 AND version = $2
            """, .sought(version))
        guard rows.count > 0 else { throw damaged("log entry \(version)") }
        return try entry(rows, 0)
    }

    /// The checksum with which that of an entry is keyed that has a row.
    func chain(before version: ServerVersion) throws(HistoryError) -> Checksum {
        let rows = try query("SELECT checksum FROM log_entry WHERE file = $1 AND version = $2", .sought(version - 1))
        if let chain = rows.checksum(0, 0) { return chain }
        return try rowsBase().chain
    }

    func salt(of version: ServerVersion) throws(HistoryError) -> Salt? {
        let rows = try query("SELECT salt FROM log_entry WHERE file = $1 AND version = $2", .sought(version))
        return rows.count > 0 ? try rows.number(0, 0) : nil
    }

    func received(_ version: ServerVersion) throws(HistoryError) -> ReceivedChangeset? {
        guard version > 0 else { return nil }
        return try received(in: VersionRange(after: version - 1, through: version), countMax: 1).first
    }

    func received(in range: VersionRange, countMax: Int) throws(HistoryError) -> [ReceivedChangeset] {
        let rows = try query(
            """
            SELECT version, time, changeset, checksum FROM received
            WHERE file = $1 AND version > $2 AND version <= $3 ORDER BY version LIMIT $4
            """, .sought(range.base), .sought(range.last), .number(Int64(countMax)))
        return try rows.map { row throws(HistoryError) in
            let received = ReceivedChangeset(
                version: try rows.number(row, 0), time: try rows.number(row, 1),
                changeset: try rows.requiredBytes(row, 2))
            guard rows.checksum(row, 3) == start.covering(received) else {
                throw damaged("what was received as log entry \(received.version)")
            }
            return received
        }
    }

    /// Reads all changesets that are kept as they were received.
    /// - Throws: `storeDamaged` for the first one that is not what was written.
    func checkReceived() throws(HistoryError) {
        var range = VersionRange(after: 0, through: .largest)
        while let last = try received(in: range, countMax: Self.receivedPageCount).last { range.base = last.version }
    }

    private static let receivedPageCount = 100

    func entries(
        in range: VersionRange, excludingOrigin origin: ClientFileID?, byteBudget: Int
    ) throws(HistoryError) -> [LogEntry] {
        var entries: [LogEntry] = [], bytes = 0, sectionBytes = 0, count = 0, base = range.base, isMore = true
        var end = range.last
        while isMore, bytes + sectionBytes <= byteBudget {
            // The first window says what each entry follows, the second one where the budget ends.
            let rows = try query(
                """
                SELECT \(Self.entryColumns), before FROM (
                    SELECT *, sum(size) OVER (ORDER BY version) - size AS read
                    FROM (
                        SELECT *, lag(checksum) OVER (ORDER BY version) AS before, CASE octet_length(changeset)
                            WHEN 0 THEN 0 ELSE octet_length(changeset) + coalesce(octet_length(section), 0) END AS size
                        FROM log_entry
                        WHERE file = $1 AND version >= $2 AND version <= $3
                    ) AS piece
                    WHERE version > $2 AND ($4::bigint IS NULL OR origin <> $4) ORDER BY version LIMIT $6
                ) AS piece WHERE read <= $5 ORDER BY version
                """, .sought(base), .sought(range.last), origin.map { .sought($0) } ?? .null,
                .number(Int64(clamping: byteBudget - bytes - sectionBytes)), .number(Int64(Self.pieceCount)))
            for row in 0..<rows.count {
                let entry = try entry(rows, row)
                count += 1
                bytes += entry.changeset.count
                base = entry.version
                guard !entry.changeset.isEmpty else { continue }
                sectionBytes += entry.section.count
                entries.append(entry)
            }
            isMore = rows.count == Self.pieceCount
        }
        if bytes + sectionBytes > byteBudget { end = entries.last?.version ?? end }
        try checkPassedOver(
            in: VersionRange(after: range.base, through: end), byOrigin: origin, read: UInt64(bytes + count))
        return entries
    }

    /// Reads the newest row of the file and the entries after a version, all in one round trip.
    /// - Returns: the salt of the version, nil if its entry has no row; and the entries after it that have rows, as
    ///   long as they are not too many and their sizes fit together.
    func newest(
        after version: ServerVersion, countMax: Int, byteBudget: Int
    ) throws(HistoryError) -> (salt: Salt?, entries: [LogEntry]) {
        let found = try reading.renew(with: [
            step("SELECT salt FROM log_entry WHERE file = $1 AND version = $2", [.sought(version)]),
            step(
                """
                SELECT \(Self.entryColumns), before FROM (
                    SELECT *, lag(checksum) OVER newest AS before, sum(
                        CASE version WHEN $2 THEN 0
                            ELSE octet_length(changeset) + coalesce(octet_length(section), 0) END
                    ) OVER newest AS read
                    FROM (
                        SELECT * FROM log_entry WHERE file = $1 AND version >= $2 ORDER BY version LIMIT $3
                    ) AS piece WINDOW newest AS (ORDER BY version)
                ) AS piece WHERE version > $2 AND read <= $4 ORDER BY version
                """, [.sought(version), .number(Int64(clamping: countMax) + 1), .number(Int64(clamping: byteBudget))]),
        ])
        let salt: Salt? = found[0].count > 0 ? try found[0].number(0, 0) : nil
        return (salt, try found[1].map { row throws(HistoryError) in try entry(found[1], row) })
    }

    func versions(
        in range: VersionRange, excludingOrigin origin: ClientFileID
    ) throws(HistoryError) -> [ServerVersion] {
        let rows = try query(
            """
            SELECT version, octet_length(changeset)::bigint FROM log_entry
            WHERE file = $1 AND version > $2 AND version <= $3 AND origin <> $4 ORDER BY version
            """, .sought(range.base), .sought(range.last), .sought(origin))
        var bytes: UInt64 = 0, versions: [ServerVersion] = []
        for row in 0..<rows.count {
            let size = try rows.number(row, 1)
            bytes &+= size
            if size > 0 { versions.append(try rows.number(row, 0)) }
        }
        try checkPassedOver(in: range, byOrigin: origin, read: bytes &+ UInt64(rows.count))
        return versions
    }

    /// Checks the entries that a scan has skipped, the origin's own: their number and sizes are the difference between
    /// the versions and cumulative sizes at both ends.
    /// - Parameter read: the number of entries that were not skipped plus the bytes of their changesets, in one sum.
    private func checkPassedOver(
        in range: VersionRange, byOrigin origin: ClientFileID?, read: UInt64
    ) throws(HistoryError) {
        guard !range.isEmpty else { return }
        func end(_ parameter: String) -> String {
            """
            (SELECT version + cumulative_size FROM log_entry WHERE file = $1 AND version <= \(parameter)
            ORDER BY version DESC LIMIT 1)
            """
        }
        let rows = try query(
            """
            SELECT (SELECT COALESCE(sum(octet_length(changeset) + 1), 0) FROM log_entry
            WHERE file = $1 AND version > $2 AND version <= $3 AND origin = $4), \(end("$3")), \(end("$2"))
            """, .sought(range.base), .sought(range.last), origin.map { .sought($0) } ?? .null)
        func sum(_ column: Int) throws(HistoryError) -> UInt64 {
            if let sum = try rows.optionalNumber(0, column) { return sum }
            let place = try rowsBase()
            return place.version.rawValue &+ place.cumulativeSize
        }
        let passedOver = try rows.number(0, 0), end = try sum(1), base = try sum(2)
        guard end &- base == read &+ passedOver else {
            throw damaged("of the log entries \(range.base + 1) to \(range.last) one")
        }
    }

    // MARK: Receipts

    func receipts(from ident: ClientFileID, in range: VersionRange) throws(HistoryError) -> [Receipt] {
        let rows = try query(
            """
            SELECT version, client_version FROM log_entry
            WHERE file = $1 AND origin = $4 AND version > $2 AND version <= $3 ORDER BY version
            """, .sought(range.base), .sought(range.last), .sought(ident))
        return try rows.map { row throws(HistoryError) in try receipt(rows, row) }
    }

    func newestReceipts(in range: VersionRange) throws(HistoryError) -> [ClientFileID: Receipt] {
        let rows = try query(
            """
            SELECT DISTINCT ON (origin) version, client_version, origin FROM log_entry
            WHERE file = $1 AND version > $2 AND version <= $3 AND origin > 0 ORDER BY origin, version DESC
            """, .sought(range.base), .sought(range.last))
        var newest: [ClientFileID: Receipt] = [:]
        for row in 0..<rows.count { newest[try rows.number(row, 2)] = try receipt(rows, row) }
        return newest
    }

    func receipt(_ rows: PostgresRows, _ row: Int) throws(HistoryError) -> Receipt {
        Receipt(version: try rows.number(row, 0), clientVersion: try rows.number(row, 1))
    }

    func versions(
        writing keys: [UInt64], in range: VersionRange, excludingOrigin origin: ClientFileID
    ) throws(HistoryError) -> [ServerVersion] {
        guard !keys.isEmpty, !range.isEmpty else { return [] }
        let rows = try query(
            """
            SELECT DISTINCT version FROM conflict_key
            WHERE file = $1 AND key = ANY ($2::bigint[]) AND version > $3 AND version <= $4 AND origin <> $5
            ORDER BY version
            """, .numbers(keys), .sought(range.base), .sought(range.last), .sought(origin))
        return try rows.map { row throws(HistoryError) in try rows.number(row, 0) }
    }

    // MARK: Segments

    func sealedEnd() throws(HistoryError) -> LogPlace? { try rowsBase() }

    func archivedBytes() throws(HistoryError) -> UInt64 {
        try query("SELECT COALESCE(sum(bytes), 0)::bigint FROM archived_segment WHERE file = $1").number(0, 0)
    }

    func archivedEntries(upTo version: ServerVersion) throws(HistoryError) -> [LogEntry] {
        // The segment that the version may be in, and the one before it.
        for place in ["last >= $2 ORDER BY last", "last < $2 ORDER BY last DESC"] {
            let rows = try query(
                "SELECT last, block FROM archived_segment WHERE file = $1 AND \(place) LIMIT 1", .sought(version))
            guard rows.count > 0 else { continue }
            let entries = try archivedEntries(rows.requiredBytes(0, 1), endingAt: rows.number(0, 0))
                .filter { $0.version <= version }
            if !entries.isEmpty { return entries }
        }
        return []
    }

    private func archivedEntries(
        _ block: [UInt8], endingAt last: ServerVersion
    ) throws(HistoryError) -> [LogEntry] {
        do throws(HistoryError) {
            let segment = try LogSegment(block, of: start)
            guard segment.range.last == last else {
                throw HistoryError(.storeDamaged, "it ends with entry \(segment.range.last)")
            }
            return try segment.content().entries
        } catch {
            throw HistoryError(error.code, "the archived log segment up to entry \(last): \(error.reason)")
        }
    }

    // MARK: Generations

    func generations() throws(HistoryError) -> [Generation] {
        let rows = try query(
            """
            SELECT version, entry_count, bytes, cumulative_size, checksum FROM generation WHERE file = $1
            ORDER BY version
            """)
        return try rows.map { row throws(HistoryError) in
            let generation = Generation(
                version: try rows.number(row, 0), entryCount: try rows.number(row, 1),
                bytes: try rows.number(row, 2), cumulativeSize: try rows.number(row, 3))
            guard rows.checksum(row, 4) == start.covering(generation) else {
                throw damaged("the generation of version \(generation.version)")
            }
            return generation
        }
    }

    func readGeneration<Result: Sendable>(
        _ version: ServerVersion, _ body: (GenerationEntries) throws(HistoryError) -> Result
    ) throws(HistoryError) -> Result {
        guard let generation = try generations().first(where: { $0.version == version }) else {
            throw HistoryError.noGeneration(version)
        }
        let source = GenerationSegments(file: self, generation: version)
        return try body(GenerationEntries(generation, of: id, start, in: source, keptBy: segments))
    }

    func leftoverGeneration() throws(HistoryError) -> ServerVersion? {
        // One look at the index for each generation, however many segments it has.
        let rows = try query(
            """
            WITH RECURSIVE stored (generation) AS (
                SELECT min(generation) FROM generation_segment WHERE file = $1
                UNION ALL SELECT (SELECT min(s.generation) FROM generation_segment s
                WHERE s.file = $1 AND s.generation > stored.generation) FROM stored WHERE generation IS NOT NULL
            )
            SELECT min(generation) FROM stored WHERE generation IS NOT NULL
            AND NOT EXISTS (SELECT 1 FROM generation g WHERE g.file = $1 AND g.version = stored.generation)
            """)
        return try rows.optionalNumber(0, 0).map(ServerVersion.init(rawValue:))
    }

    func segmentCount(ofGeneration version: ServerVersion) throws(HistoryError) -> UInt64 {
        try query(
            "SELECT count(*) FROM generation_segment WHERE file = $1 AND generation = $2", .sought(version)
        ).number(0, 0)
    }
}

/// The segments of one generation.
private struct GenerationSegments: SegmentSource {
    let file: PostgresFile
    let generation: ServerVersion

    func segmentEnds(in range: VersionRange) throws(HistoryError) -> [ServerVersion] {
        let rows = try file.query(
            """
            SELECT last FROM generation_segment WHERE file = $1 AND generation = $2 AND last > $3 AND last <= COALESCE(
            (SELECT min(last) FROM generation_segment
            WHERE file = $1 AND generation = $2 AND last > $3 AND last >= $4), $4) ORDER BY last
            """, .sought(generation), .sought(range.base), .sought(range.last))
        return try rows.map { row throws(HistoryError) in try rows.number(row, 0) }
    }

    func segmentBlock(endingAt last: ServerVersion) throws(HistoryError) -> [UInt8] {
        let rows = try file.query(
            "SELECT block FROM generation_segment WHERE file = $1 AND generation = $2 AND last = $3",
            .sought(generation), .sought(last))
        guard let block = rows.bytes(0, 0) else { throw HistoryError(.storeDamaged, "there is none") }
        return block
    }
}
#endif
