import AnabranchCore
import AnabranchHistory
import GRDB

extension FileVerification {
    /// The place by which damage of a view is reported.
    static func viewPlace(_ ident: ClientFileID) -> String { "view of client file \(ident)" }

    /// The views of a flexible file: checks that they are what was written, and that each client file has its own.
    func checkViews() throws {
        var idents: Set<ClientFileID> = []
        let sql = """
            SELECT ident FROM client_view WHERE file = ?1 UNION SELECT ident FROM view_entry WHERE file = ?1 ORDER BY 1
            """
        try forEach(sql, named: "view") { row in
            let ident: ClientFileID = try row.number(0)
            idents.insert(ident)
            do {
                if let view = try file.view(of: ident, start: start, keepsContents: true) {
                    try check(view)
                } else {
                    expect(false, ident, "there is none")
                }
            } catch let error as HistoryError {
                expect(false, ident, error.reason)
            }
        }
        for (ident, clientFile) in clientFiles where !clientFile.isExpired {
            if case .view = clientFile.lineage { expect(idents.contains(ident), ident, "it is missing") }
        }
    }

    /// The objects of asymmetric classes.
    func checkIngested() throws {
        let sql = "SELECT \(SQLiteFile.ingestedColumns) FROM ingested WHERE file = ? ORDER BY number"
        try forEach(sql, named: "ingested object") { row in
            let object = try file.ingested(row, start: start)
            expect(
                object.number / IngestedObject.countMax <= head.version.rawValue, .value,
                "ingested object \(object.number)", "the log has no such version")
        }
    }

    private func check(_ view: StoredView) throws(HistoryError) {
        let record = view.record, ident = record.ident
        if let clientFile = clientFiles[ident] {
            let isView = if case .view = clientFile.lineage { true } else { false }
            expect(isView && !clientFile.isExpired, ident, "the client file has none, or has expired")
        }
        expect(
            record.changed <= head.version && record.projected <= head.version, ident, "it is further than the log")
        // Entries that its client has confirmed are named there until the view is stored again.
        let confirmed = clientFiles[ident]?.uploadCursor.serverVersion ?? 0
        var last: ServerVersion = 0
        for entry in view.log {
            expect(
                last <= entry.version && entry.version <= head.version, ident,
                "entry \(entry.number) of version \(entry.version) follows one of version \(last)")
            last = entry.version
            expect(
                !entry.isInLog || entry.version > head.baseVersion || entry.version <= confirmed, ident,
                "entry \(entry.number) names log entry \(entry.version), which the log has forgotten")
            for changeset in [entry.contents?.changeset, entry.contents?.merged].compactMap({ $0 }) {
                var arena = ChangesetArena()
                do {
                    let tag = OriginTag(timestamp: entry.timestamp, ident: entry.origin)
                    _ = try arena.decode(changeset, version: entry.number, tag: tag)
                } catch {
                    expect(false, ident, "entry \(entry.number): \(error)")
                }
            }
        }
    }

    private func expect(_ holds: Bool, _ ident: ClientFileID, _ finding: @autoclosure () -> String) {
        expect(holds, .view, Self.viewPlace(ident), finding())
    }
}
