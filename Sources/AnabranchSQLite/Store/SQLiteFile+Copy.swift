package import AnabranchCore
package import AnabranchHistory
import AnabranchRows
import Foundation
import GRDB

/// The parts of a file that only a copy of its store reads or writes (`CopyableStore`).
extension SQLiteFile {
    /// Writes rows of another store. The caller has a transaction.
    func store(_ copied: CopiedParts, _ record: inout FileRecord) throws {
        if let beginning = copied.beginning {
            (record.baseChain, record.chain) = (beginning.base.chain, beginning.rows.chain)
        }
        for segment in copied.segments { try store(segment) }
        for generation in copied.generations { try store(generation, start: record.start) }
        for write in copied.idempotencyKeys { try store(write) }
        if !copied.stateRows.isEmpty {
            try StateTable(of: id.number).write(RowWrites(copied: copied.stateRows), in: db)
        }
    }

    private func store(_ segment: CopiedSegment) throws {
        let block = Data(segment.block), last = stored(segment.last)
        switch segment.kind {
        case .log:
            try execute("INSERT INTO log_segment (file, last, block) VALUES (?, ?, ?)", [id.number, last, block])
        case .archive:
            try execute(
                "INSERT INTO archived_segment (file, last, bytes, block) VALUES (?, ?, ?, ?)",
                [id.number, last, block.count, block])
        case .generation(let version):
            try store(segment.block, endingAt: segment.last, ofGeneration: version)
        }
    }

    func logBeginning() throws(HistoryError) -> LogPlace {
        try translatingErrors {
            let record = try record(), head = record.head
            guard let chain = record.baseChain else { throw damaged("the beginning of the log") }
            return LogPlace(version: head.baseVersion, cumulativeSize: head.baseCumulativeSize, chain: chain)
        }
    }

    func segment(
        _ kind: CopiedSegment.Kind, after last: ServerVersion
    ) throws(HistoryError) -> CopiedSegment? {
        try translatingErrors {
            let (table, generation): (String, ServerVersion?) =
                switch kind {
                case .log: ("log_segment", nil)
                case .archive: ("archived_segment", nil)
                case .generation(let version): ("generation_segment", version)
                }
            let condition = generation == nil ? "" : "AND generation = ?3"
            let sql = """
                SELECT last, block FROM \(table) WHERE file = ?1 AND last > ?2 \(condition) ORDER BY last LIMIT 1
                """
            let of = generation.map { StatementArguments([sought($0)]) } ?? []
            return try rows(sql, [id.number, sought(last)] + of) { row in
                CopiedSegment(kind: kind, last: try row.number(0), block: try row.bytes(1))
            }.first
        }
    }

    func idempotencyKeys(
        after number: UInt64, countMax: Int
    ) throws(HistoryError) -> [(number: UInt64, key: IdempotencyKey)] {
        try translatingErrors {
            let sql = """
                SELECT number, key, version FROM idempotency_key WHERE file = ? AND number > ? ORDER BY number LIMIT ?
                """
            return try rows(sql, [id.number, Int64(clamping: number), countMax]) { row in
                (try row.number(0), IdempotencyKey(key: try row.bytes(1), version: try row.number(2)))
            }
        }
    }

    func stateRows(
        after address: RowAddress?, countMax: Int, byteBudget: Int
    ) throws(HistoryError) -> [(address: RowAddress, bytes: [UInt8])] {
        try translatingErrors {
            let sql = """
                SELECT class, key, part, content FROM state_row
                WHERE file = ? AND (class, key, part) > (?, ?, ?) ORDER BY class, key, part LIMIT ?
                """
            // No row is before this one.
            let last = address.map { (Int64($0.classID.rawValue), $0.key, stored($0.part)) } ?? (-1, [], 0)
            let cursor = try Row.fetchCursor(
                db.cachedStatement(sql: sql),
                arguments: [id.number, last.0, Data(last.1), last.2, countMax])
            var found: [(address: RowAddress, bytes: [UInt8])] = [], bytes = 0
            while bytes < byteBudget, let row = try cursor.next() {
                let number: UInt64 = try row.number(0)
                let address = RowAddress(
                    classID: ClassID(UInt32(clamping: number)), key: try row.bytes(1), part: try row.number(2))
                found.append((address, try row.content(3)))
                bytes += found[found.count - 1].bytes.count
            }
            return found
        }
    }
}

extension SQLiteStore: CopyableStore {
    package func logBeginning(of file: SyncedFileID) throws(HistoryError) -> LogPlace {
        try shards[file.shard].readFile(file.number) { file throws(HistoryError) in try file.logBeginning() }
    }

    package func segment(
        of file: SyncedFileID, _ kind: CopiedSegment.Kind, after last: ServerVersion
    ) throws(HistoryError) -> CopiedSegment? {
        try shards[file.shard].readFile(file.number) { file throws(HistoryError) in
            try file.segment(kind, after: last)
        }
    }

    package func received(
        of file: SyncedFileID, after version: ServerVersion, countMax: Int
    ) throws(HistoryError) -> [ReceivedChangeset] {
        try shards[file.shard].readFile(file.number) { file throws(HistoryError) in
            try translatingErrors {
                try file.received(
                    "version > ? ORDER BY version LIMIT ?", [file.id.number, file.sought(version), countMax])
            }
        }
    }

    package func idempotencyKeys(
        of file: SyncedFileID, after number: UInt64, countMax: Int
    ) throws(HistoryError) -> [(number: UInt64, key: IdempotencyKey)] {
        try shards[file.shard].readFile(file.number) { file throws(HistoryError) in
            try file.idempotencyKeys(after: number, countMax: countMax)
        }
    }

    package func stateRows(
        of file: SyncedFileID, after address: RowAddress?, countMax: Int, byteBudget: Int
    ) throws(HistoryError) -> [(address: RowAddress, bytes: [UInt8])] {
        try shards[file.shard].readFile(file.number) { file throws(HistoryError) in
            try file.stateRows(after: address, countMax: countMax, byteBudget: byteBudget)
        }
    }
}
