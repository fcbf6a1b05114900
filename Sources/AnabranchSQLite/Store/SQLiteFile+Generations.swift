import AnabranchCore
import AnabranchHistory
import Foundation
import GRDB

/// Bootstrap generations (`Spec/BoundedHistory.md`, section 2).
extension SQLiteFile {
    // MARK: Reading

    func generations() throws(HistoryError) -> [Generation] {
        try translatingErrors {
            let sql = "SELECT \(SQLiteFile.generationColumns) FROM generation WHERE file = ? ORDER BY version"
            let start = try record().start
            return try rows(sql, [id.number]) { row -> Generation? in
                guard isChecked else { return try? SQLiteFile.generation(row) }
                let generation = try SQLiteFile.generation(row)
                guard try Checksum(bytes: row.bytes(4)) == start.covering(generation) else {
                    throw HistoryError(
                        .storeDamaged, "the generation of version \(generation.version) is not what was written")
                }
                return generation
            }.compactMap { $0 }
        }
    }

    func readGeneration<Result: Sendable>(
        _ version: ServerVersion, _ body: (GenerationEntries) throws(HistoryError) -> Result
    ) throws(HistoryError) -> Result {
        guard let generation = try generations().first(where: { $0.version == version }) else {
            throw HistoryError.noGeneration(version)
        }
        let start = try translatingErrors { try record().start }
        let source = GenerationSegments(file: self, generation: version)
        return try body(GenerationEntries(generation, of: id, start, in: source, keptBy: segments))
    }

    func clientFile(ofGeneration version: ServerVersion) throws(HistoryError) -> ClientFileID? {
        try translatingErrors {
            let sql = "SELECT ident FROM client_file WHERE file = ? AND is_expired = 0 AND lineage = ? LIMIT 1"
            return try rows(sql, [id.number, stored(Lineage.generation(version).rawValue)]) {
                ClientFileID(rawValue: try $0.number(0))
            }.first
        }
    }

    func leftoverGeneration() throws(HistoryError) -> ServerVersion? {
        try translatingErrors {
            // There can be many segments of each generation: the index is looked at once for each generation, not for
            // each segment.
            let sql = """
                SELECT MIN(generation) FROM generation_segment WHERE file = ? AND generation > ?
                """
            var last: ServerVersion = 0
            let known = Set(try generations().map(\.version))
            while true {
                let found = try rows(sql, [id.number, sought(last)]) { try $0.optionalNumber(0) }.first
                guard let next = (found ?? nil).map(ServerVersion.init) else { return nil }
                if !known.contains(next) { return next }
                last = next
            }
        }
    }

    // MARK: Writing

    /// The client files of the commit are stored already. The caller has a transaction.
    func apply(_ change: GenerationChange, start: Checksum) throws {
        try view().check(change) { version throws(HistoryError) in try segmentCount(ofGeneration: version) }
        switch change {
        case .append(let version, let last, let block): try store(block, endingAt: last, ofGeneration: version)
        case .publish(let generation): try store(generation, start: start)
        case .remove(let version):
            try execute("DELETE FROM generation WHERE file = ? AND version = ?", [id.number, stored(version)])
            try execute(
                """
                DELETE FROM generation_segment WHERE rowid IN
                (SELECT rowid FROM generation_segment WHERE file = ? AND generation = ? LIMIT ?)
                """, [id.number, stored(version), GenerationChange.removedSegmentsMax])
        }
    }

    func store(_ block: [UInt8], endingAt last: ServerVersion, ofGeneration version: ServerVersion) throws {
        try execute(
            "INSERT INTO generation_segment (file, generation, last, block) VALUES (?, ?, ?, ?)",
            [id.number, stored(version), stored(last), Data(block)])
    }

    func store(_ generation: Generation, start: Checksum) throws {
        try execute(
            "INSERT INTO generation (file, \(SQLiteFile.generationColumns)) VALUES (?, ?, ?, ?, ?, ?)",
            [
                id.number, stored(generation.version), stored(generation.entryCount), stored(generation.bytes),
                stored(generation.cumulativeSize), Data(start.covering(generation).bytes),
            ])
    }

    private func segmentCount(ofGeneration version: ServerVersion) throws(HistoryError) -> UInt64 {
        try translatingErrors {
            let sql = "SELECT COUNT(*) FROM generation_segment WHERE file = ? AND generation = ?"
            return try rows(sql, [id.number, stored(version)]) { try $0.number(0) as UInt64 }.first ?? 0
        }
    }

    // MARK: Rows

    static let generationColumns = "version, entry_count, bytes, cumulative_size, checksum"

    static func generation(_ row: Row) throws -> Generation {
        Generation(
            version: try row.number(0), entryCount: try row.number(1), bytes: try row.number(2),
            cumulativeSize: try row.number(3))
    }
}

/// The segments of one generation.
struct GenerationSegments: SegmentSource {
    let file: SQLiteFile
    let generation: ServerVersion

    func segmentEnds(in range: VersionRange) throws(HistoryError) -> [ServerVersion] {
        try translatingErrors {
            let sql = """
                SELECT last FROM generation_segment WHERE file = ? AND generation = ? AND last > ? ORDER BY last
                """
            var ends: [ServerVersion] = []
            let cursor = try Row.fetchCursor(
                file.db.cachedStatement(sql: sql),
                arguments: [file.id.number, file.stored(generation), file.sought(range.base)])
            while ends.last.map({ $0 < range.last }) ?? true, let row = try cursor.next() {
                ends.append(try row.number(0))
            }
            return ends
        }
    }

    func segmentBlock(endingAt last: ServerVersion) throws(HistoryError) -> [UInt8] {
        try translatingErrors {
            let sql = "SELECT block FROM generation_segment WHERE file = ? AND generation = ? AND last = ?"
            let found = try file.rows(sql, [file.id.number, file.stored(generation), file.sought(last)]) {
                try $0.bytes(0)
            }
            if let block = found.first { return block }
            throw HistoryError(.storeDamaged, "there is none")
        }
    }
}
