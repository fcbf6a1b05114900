import AnabranchCore
import AnabranchHistory
import Foundation
import GRDB

extension FileVerification {
    func checkWithheldSchemas() throws {
        let sql = "SELECT ident, changeset, checksum FROM withheld_schema WHERE file = ? ORDER BY ident"
        try forEach(sql, named: "withheld schema") { row in
            let ident: ClientFileID = try row.number(0)
            let checksum = start.covering(schema: try row.bytes(1), of: ident)
            expect(
                Checksum(bytes: try row.bytes(2)) == checksum, .checksum, "schema withheld of client file \(ident)",
                "it is not what was written")
        }
    }
}
