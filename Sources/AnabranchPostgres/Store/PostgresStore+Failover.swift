#if canImport(CLibPQ)
import AnabranchCore
import AnabranchHistory
import AnabranchPostgresWire

extension PostgresStore {
    /// Makes a file ready for an epoch, before anybody uses it in that: gives its newest version another salt, or lets
    /// all client files expire where there is no version. Clients that may have seen what is lost do not take the file
    /// for what they know then (`Spec/Durability.md`, section 6). Does nothing if another node has done it.
    func renewSalt(of record: FileRecord, in epoch: UInt64) throws(HistoryError) {
        do throws(HistoryError) {
            try StoreTransaction.write(in: writers, locking: CommitBatch.locking([record])) {
                transaction throws(HistoryError) in
                let id = id(record.number), segments = segments
                let file = PostgresFile(reading: FileReading(id, locked: record, in: transaction), segments: segments)
                var renewed = record
                var steps = [
                    PostgresStep(
                        "UPDATE synced_file SET lease = $2 WHERE id = $1",
                        [.number(record.number), .number(Lease(epoch: epoch).number)])
                ]
                if record.head.version > 0 { steps += try file.renewSalt(of: &renewed) }
                var commit = Commit(file: id, lease: record.lease, head: renewed.head)
                if record.head.version == 0 { commit.clientFiles = try file.expiredClientFiles() }
                var writer = CommitWriter(transaction, keptBy: segments, isShared: isShared)
                _ = try writer.apply(commit, to: renewed, nil)
                _ = try transaction.run(steps)
                try writer.finish()
            }
        } catch {
            guard error.code == .leaseLost else { throw error }
        }
    }
}

extension PostgresFile {
    /// - Returns: the change to the newest entry; none if the log begins and ends there.
    fileprivate func renewSalt(of record: inout FileRecord) throws(HistoryError) -> [PostgresStep] {
        var random = SystemRandomNumberGenerator()
        let salt = Salt.random(using: &random), version = record.head.version
        record.head.versionSalt = salt
        guard var entry = try entry(version) else {
            record.head.baseSalt = salt
            return []
        }
        entry.salt = salt
        record.chain = try chain(before: version).following(entry)
        return [
            PostgresStep(
                "UPDATE log_entry SET salt = $3, checksum = $4 WHERE file = $1 AND version = $2",
                [.number(id.number), .number(version), .number(salt), .bytes(record.chain.bytes)])
        ]
    }

    /// The client files that have not expired, as they are when they have.
    fileprivate func expiredClientFiles() throws(HistoryError) -> [ClientFile] {
        let reserved = ClientFileID(rawValue: UInt64(ClientFile.reserved.count) - 1)
        return try clientFiles(after: reserved, countMax: .max).filter { !$0.isExpired }.map { file in
            var file = file
            file.isExpired = true
            if record.head.bounds > 0 { file.revision += 1 }
            return file
        }
    }
}
#endif
