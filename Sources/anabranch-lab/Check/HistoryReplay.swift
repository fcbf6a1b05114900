import AnabranchCore
import AnabranchHistory
import AnabranchTesting

/// Integrates recorded uploads into an empty history in memory.
enum HistoryReplay {
    static func file(with uploads: [Scenario.Upload], together: Bool, keepsState: Bool) throws -> SyncedFile {
        let file = try SyncedFile(
            path: VirtualPath("replay"), store: InMemoryStore(), keepsState: keepsState, destructiveSchema: .allow)
        file.mergeOptions.allowsReplacedClasses = true
        let lastIdent = uploads.map(\.client).max() ?? 0
        if lastIdent > .server {
            let count = Int(lastIdent.rawValue - ClientFileID.server.rawValue)
            _ = try file.allocateIdents(for: Array(repeating: nil, count: count), at: 1)
        }
        var start = uploads.startIndex
        while start < uploads.endIndex {
            var end = start + 1
            while together, end < uploads.endIndex, uploads[end].client == uploads[start].client { end += 1 }
            try integrate(uploads[start..<end], into: file)
            start = end
        }
        return file
    }

    private static func integrate(_ uploads: ArraySlice<Scenario.Upload>, into file: SyncedFile) throws {
        let changesets = try uploads.map { try $0.changeset }
        guard let last = changesets.last, let client = uploads.first?.client else { return }
        try file.integrateAtOnce(Upload(progress: last.cursor, changesets: changesets), from: client)
    }
}

extension Scenario.Upload {
    var changeset: UploadedChangeset {
        get throws {
            UploadedChangeset(
                cursor: UploadCursor(clientVersion: client_version, serverVersion: base), timestamp: timestamp,
                changeset: try Hex.bytes(of: hex))
        }
    }
}
