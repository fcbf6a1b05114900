#if canImport(CLibPQ)
package import AnabranchCore
package import AnabranchHistory
import AnabranchPostgresWire

/// The parts of a file that only a copy of its store reads (`CopyableStore`).
extension PostgresFile {
    var logBeginning: LogPlace {
        let head = record.head
        return LogPlace(
            version: head.baseVersion, cumulativeSize: head.baseCumulativeSize, chain: record.baseChain)
    }

    func segment(
        _ kind: CopiedSegment.Kind, after last: ServerVersion
    ) throws(HistoryError) -> CopiedSegment? {
        let rows =
            switch kind {
            case .log: try segments(in: "log_segment", after: last)
            case .archive: try segments(in: "archived_segment", after: last)
            case .generation(let version):
                try query(
                    """
                    SELECT last, block FROM generation_segment WHERE file = $1 AND generation = $2 AND last > $3
                    ORDER BY last LIMIT 1
                    """, .sought(version), .sought(last))
            }
        guard rows.count > 0 else { return nil }
        return CopiedSegment(kind: kind, last: try rows.number(0, 0), block: try rows.requiredBytes(0, 1))
    }

    private func segments(in table: String, after last: ServerVersion) throws(HistoryError) -> PostgresRows {
        try query("SELECT last, block FROM \(table) WHERE file = $1 AND last > $2 ORDER BY last LIMIT 1", .sought(last))
    }

    func idempotencyKeys(
        after number: UInt64, countMax: Int
    ) throws(HistoryError) -> [(number: UInt64, key: IdempotencyKey)] {
        let rows = try query(
            "SELECT number, key, version FROM idempotency_key WHERE file = $1 AND number > $2 ORDER BY number LIMIT $3",
            .number(Int64(clamping: number)), .number(Int64(countMax)))
        return try rows.map { row throws(HistoryError) in
            (
                try rows.number(row, 0),
                IdempotencyKey(key: try rows.requiredBytes(row, 1), version: try rows.number(row, 2))
            )
        }
    }

    func stateRows(
        after address: RowAddress?, countMax: Int, byteBudget: Int
    ) throws(HistoryError) -> [(address: RowAddress, bytes: [UInt8])] {
        // No row is before this one.
        let last = address.map { (Int64($0.classID.rawValue), $0.key, $0.part) } ?? (-1, [], 0)
        let rows = try query(
            """
            SELECT class, key, part, content FROM (
                SELECT *, sum(octet_length(content)) OVER (ORDER BY class, key, part) - octet_length(content) AS read
                FROM (
                    SELECT class, key, part, content FROM state_row
                    WHERE file = $1 AND (class, key, part) > ($2, $3, $4)
                    ORDER BY class, key, part LIMIT $5
                ) AS next
            ) AS page WHERE read < $6 ORDER BY class, key, part
            """, .number(last.0), .bytes(last.1), .number(last.2), .number(Int64(countMax)),
            .number(Int64(clamping: byteBudget)))
        return try rows.map { row throws(HistoryError) in
            let classID = ClassID(UInt32(clamping: try rows.number(row, 0)))
            let key = try rows.requiredBytes(row, 1), part = try rows.number(row, 2)
            return (RowAddress(classID: classID, key: key, part: part), try rows.requiredBytes(row, 3))
        }
    }
}

extension PostgresStore: CopyableStore {
    package func logBeginning(of file: SyncedFileID) throws(HistoryError) -> LogPlace {
        try readFile(file) { file throws(HistoryError) in file.logBeginning }
    }

    package func segment(
        of file: SyncedFileID, _ kind: CopiedSegment.Kind, after last: ServerVersion
    ) throws(HistoryError) -> CopiedSegment? {
        try readFile(file) { file throws(HistoryError) in try file.segment(kind, after: last) }
    }

    package func received(
        of file: SyncedFileID, after version: ServerVersion, countMax: Int
    ) throws(HistoryError) -> [ReceivedChangeset] {
        try readFile(file) { file throws(HistoryError) in
            try file.received(in: VersionRange(after: version, through: .largest), countMax: countMax)
        }
    }

    package func idempotencyKeys(
        of file: SyncedFileID, after number: UInt64, countMax: Int
    ) throws(HistoryError) -> [(number: UInt64, key: IdempotencyKey)] {
        try readFile(file) { file throws(HistoryError) in
            try file.idempotencyKeys(after: number, countMax: countMax)
        }
    }

    package func stateRows(
        of file: SyncedFileID, after address: RowAddress?, countMax: Int, byteBudget: Int
    ) throws(HistoryError) -> [(address: RowAddress, bytes: [UInt8])] {
        try readFile(file) { file throws(HistoryError) in
            try file.stateRows(after: address, countMax: countMax, byteBudget: byteBudget)
        }
    }
}
#endif
