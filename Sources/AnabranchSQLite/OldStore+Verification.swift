import AnabranchHistory
import GRDB

extension OldStore {
    /// Why it has to be kept beside the store that was made from it: what is damaged in it, and what the other one
    /// lacks.
    func reasonsToKeep(beside reader: StoreReader) throws -> [StoreDamage] {
        do {
            return try structureDamages() + orphans() + missingFiles(in: reader)
        } catch let error where error.isOldDamage {
            return [Self.damage(.database, "a part cannot be read: \(error)")]
        }
    }

    private static func damage(_ kind: StoreDamage.Kind, _ finding: String) -> StoreDamage {
        StoreDamage(kind: kind, place: DataDirectory.migratedName, finding: finding)
    }

    private func structureDamages() throws -> [StoreDamage] {
        try queue.read { db in
            try String.fetchAll(db, sql: "PRAGMA integrity_check").filter { $0 != "ok" }
                .map { Self.damage(.database, $0) }
        }
    }

    /// Rows of files whose own record is lost: nothing of these was copied.
    private func orphans() throws -> [StoreDamage] {
        var numbers: Set<Int64> = []
        try queue.read { db in
            for table in ["client_file", "log_entry", "reciprocal"] {
                let sql = "SELECT DISTINCT file FROM \(table) WHERE file NOT IN (SELECT id FROM synced_file)"
                numbers.formUnion(try Int64.fetchAll(db, sql: sql))
            }
        }
        return numbers.sorted().map { Self.damage(.continuity, "the record of file \($0) is missing") }
    }

    /// Files that the new store does not have up to the version and the ident that they had.
    private func missingFiles(in reader: StoreReader) throws -> [StoreDamage] {
        var damages: [StoreDamage] = [], last = Int64.min
        while case let piece = try names(after: last), let end = piece.last?.number, end > last {
            for name in piece {
                let file = try file(name.number, name.path)
                guard let head = try reader.file(file.path)?.head, file.isReadable else {
                    damages.append(Self.damage(.continuity, "\(file.path) was not copied as a whole"))
                    continue
                }
                if head.version < file.head.version || head.nextIdent < file.head.nextIdent {
                    let finding = "\(file.path) has version \(file.head.version) and ends before ident "
                    damages.append(Self.damage(.continuity, finding + "\(file.head.nextIdent): the copy has less"))
                }
            }
            last = end
        }
        return damages
    }
}
