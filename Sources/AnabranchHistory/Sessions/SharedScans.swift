import AnabranchCore

/// What scans of a log have found for readers of whom it holds nothing behind the place where they are: it is the same
/// for all of them. Of use until the log grows.
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

    /// Readers of one file are at few places at a time.
    private static let countMax = 4

    private var downloads: [Key: Download] = [:]

    /// What was found, with the upload cursor of some other reader.
    func find(_ key: Key) -> Download? { downloads[key] }

    mutating func keep(_ download: Download, as key: Key) {
        if downloads.count >= Self.countMax { downloads = [:] }
        downloads[key] = download
    }
}
