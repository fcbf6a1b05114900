import AnabranchCore
import AnabranchHistory
import Foundation
import GRDB

/// The parts of the schema that are withheld from readers (`Commit.withheldSchemas`).
extension SQLiteFile {
    func withheldSchema(of ident: ClientFileID) throws(HistoryError) -> [UInt8] {
        try translatingErrors {
            let sql = "SELECT changeset, checksum FROM withheld_schema WHERE file = ? AND ident = ?"
            let start = try record().start
            let found = try rows(sql, [id.number, sought(ident)]) { row in
                let schema = try row.bytes(0), checksum = Checksum(bytes: try row.bytes(1))
                guard !isChecked || checksum == start.covering(schema: schema, of: ident) else {
                    throw damaged("the schema withheld of client file \(ident)")
                }
                return schema
            }
            return found.first ?? []
        }
    }

    /// - Parameter schema: if it is empty, nothing is kept any more.
    func store(withheldSchema schema: [UInt8], of ident: ClientFileID, start: Checksum) throws {
        guard !schema.isEmpty else { return try dropWithheldSchema(of: ident) }
        try execute(
            "INSERT OR REPLACE INTO withheld_schema (file, ident, checksum, changeset) VALUES (?, ?, ?, ?)",
            [id.number, stored(ident), Data(start.covering(schema: schema, of: ident).bytes), Data(schema)])
    }

    func dropWithheldSchema(of ident: ClientFileID) throws {
        try execute("DELETE FROM withheld_schema WHERE file = ? AND ident = ?", [id.number, stored(ident)])
    }
}
