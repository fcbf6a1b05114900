#if canImport(CLibPQ)
import AnabranchCore
import AnabranchHistory
import AnabranchPostgresWire

/// Rows that are written in their final form: all that copies of other stores have, and those of generations.
extension CommitWriter {
    mutating func add(_ copied: CopiedParts, to record: inout FileRecord) throws(HistoryError) {
        if let beginning = copied.beginning {
            (record.baseChain, record.chain) = (beginning.base.chain, beginning.rows.chain)
            record.sealedVersion = beginning.rows.version
        }
        for segment in copied.segments { try add(segment, of: record.number) }
        for generation in copied.generations { try add(generation, to: record) }
        try add(copied.idempotencyKeys, of: record.number)
        add(RowWrites(copied: copied.stateRows), of: .number(record.number))
    }

    mutating func add(_ segment: CopiedSegment, of file: Int64) throws(HistoryError) {
        let number = PostgresValue.number(file), last = PostgresValue.number(segment.last)
        let block = PostgresValue.bytes(segment.block)
        switch segment.kind {
        case .log:
            _ = try execute("INSERT INTO log_segment (file, last, block) VALUES ($1, $2, $3)", number, last, block)
        case .archive:
            _ = try execute(
                "INSERT INTO archived_segment (file, last, bytes, block) VALUES ($1, $2, $3, $4)", number, last,
                .number(Int64(segment.block.count)), block)
        case .generation(let version):
            _ = try execute(
                "INSERT INTO generation_segment (file, generation, last, block) VALUES ($1, $4, $2, $3)", number, last,
                block, .number(version))
        }
    }

    mutating func add(_ generation: Generation, to record: FileRecord) throws(HistoryError) {
        _ = try execute(
            """
            INSERT INTO generation (file, version, entry_count, bytes, cumulative_size, checksum)
            VALUES ($1, $2, $3, $4, $5, $6)
            """, .number(record.number), .number(generation.version), .number(generation.entryCount),
            .number(generation.bytes), .number(generation.cumulativeSize),
            .bytes(record.start.covering(generation).bytes))
    }

    /// Adds keys after those that the file has.
    private mutating func add(_ writes: [IdempotencyKey], of file: Int64) throws(HistoryError) {
        guard !writes.isEmpty else { return }
        _ = try execute(
            """
            INSERT INTO idempotency_key (file, key, version, number) SELECT $1::bigint, key, version, place
            + (SELECT COALESCE(max(number), 0) FROM idempotency_key WHERE file = $1)
            FROM unnest($2::bytea[], $3::bigint[]) WITH ORDINALITY AS n (key, version, place)
            """, .number(file), .cells(writes.map { .bytes($0.key) }, .bytes),
            .numbers(writes.map(\.version.rawValue)))
    }
}
#endif
