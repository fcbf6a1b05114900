#if canImport(CLibPQ)
import AnabranchCore
import AnabranchPostgresWire

extension BridgeDatabase {
    /// The objects whose rows the database has not taken, and may take the next time.
    func waitingObjects(in state: ObjectGraph) throws -> [ObjectReference] {
        let rows = try db.query(
            "SELECT class, key FROM anabranch.pending WHERE reason <> $1", [.text(RowApplication.unfitReason)])
        return (0..<rows.count).compactMap { row in
            guard let name = rows[row, 0], let key = rows[row, 1],
                let schema = state.schema(ofClass: Array(name.utf8)),
                let objectKey = BridgedTable.objectKey(key, schema.key?.type ?? .null)
            else { return nil }
            return ObjectReference(classID: schema.number, key: objectKey)
        }
    }
}
#endif
