import AnabranchClient
import AnabranchCore
import AnabranchReplica

// A replica that is missing, and the objects that there are already.

extension RowCapture {
    /// Has a new replica take the place of one that is lost: the objects of the file count, but for rows with entries
    /// that the server has not acknowledged.
    func replaceLost(_ record: ReplicaRecord) async throws {
        guard record.hasSynced else {
            let reason = "its replica is missing: a new one takes its place as soon as it is synchronized"
            throw CaptureError(.replicaMismatch, "\(database.path): \(reason)")
        }
        let state = try await replica.snapshot().state
        try database.replaceReplica { table, guid in
            guard let number = state.schema(ofClass: Array(table.name.utf8))?.number else { return false }
            return try state.contains(ObjectReference(classID: number, key: .uuid(guid)))
        }
        changed.add(nil)
    }

    /// True unless there is nothing that could differ.
    func hasObjects() async throws -> Bool {
        if try database.db.value("SELECT 1 FROM sync_row LIMIT 1") != nil { return true }
        let state = try await replica.snapshot().state
        return try database.tables.contains { table in
            guard let number = state.schema(ofClass: Array(table.name.utf8))?.number else { return false }
            var isFound = false
            try state.forEachObject(of: number, after: nil) { _ throws(ApplyError) in
                isFound = true
                return false
            }
            return isFound
        }
    }
}
