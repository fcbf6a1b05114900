import AnabranchCore

/// What a session sends to its client. The scan of a synced file's log is one source; others may filter the log or make
/// entries up.
public protocol DownloadSource {
    /// The piece that follows `cursor`. It ends with the entry that makes its changesets exceed `byteBudget` bytes, so
    /// it brings at least one entry while there is one.
    func download(after cursor: DownloadCursor, byteBudget: Int) throws(HistoryError) -> Download
}
