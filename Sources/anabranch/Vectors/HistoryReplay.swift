import AnabranchCore
import AnabranchHistory

/// Integrates recorded uploads into an empty history in memory.
enum HistoryReplay {
    static func log(of uploads: [Scenario.Upload], together: Bool) throws -> [LogEntry] {
        let file = try SyncedFile(path: VirtualPath("replay"), store: InMemoryStore())
        let lastIdent = uploads.map(\.client).max() ?? 0
        if lastIdent > 1 {
            _ = try file.allocateIdents(for: Array(repeating: nil, count: Int(lastIdent - 1)), at: 1)
        }
        var start = uploads.startIndex
        while start < uploads.endIndex {
            var end = start + 1
            while together, end < uploads.endIndex, uploads[end].client == uploads[start].client { end += 1 }
            try integrate(uploads[start..<end], into: file)
            start = end
        }
        return try file.log()
    }

    private static func integrate(_ uploads: ArraySlice<Scenario.Upload>, into file: SyncedFile) throws {
        let changesets = try uploads.map { upload in
            guard let bytes = Hex.decode(upload.hex) else { throw InputError(description: "not hexadecimal digits") }
            return UploadedChangeset(
                cursor: UploadCursor(clientVersion: upload.client_version, serverVersion: upload.base),
                timestamp: upload.timestamp, changeset: bytes)
        }
        guard let last = changesets.last, let client = uploads.first?.client else { return }
        try file.enqueue(Upload(progress: last.cursor, changesets: changesets), from: client)
        for outcome in try file.integrate(at: 1).outcomes {
            if let refusal = outcome.refusal { throw refusal }
        }
    }
}
