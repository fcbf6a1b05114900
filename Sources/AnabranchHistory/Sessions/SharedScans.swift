import AnabranchCore

/// The results of scans of a log, shared by readers at the same place if the log holds no entries of their own after
/// it: they are the same for all of them. They are valid until the log grows.
struct SharedScans {
    struct Key: Hashable {
        /// The same cursor is another place in another generation.
        let lineage: Lineage
        let cursor: DownloadCursor
        let byteBudget: Int
        let versionsMax: Int
        /// Some releases need another form of some changesets.
        let capabilities: ClientCapabilities
    }

    /// The number of results that are kept: the readers of a file are at few places at a time.
    private static let countMax = 4

    private var downloads: [Key: Download] = [:]

    /// The result of an earlier scan, with the upload cursor of some other reader.
    func find(_ key: Key) -> Download? { downloads[key] }

    mutating func keep(_ download: Download, as key: Key) {
        if downloads.count >= Self.countMax { downloads = [:] }
        downloads[key] = download
    }
}
