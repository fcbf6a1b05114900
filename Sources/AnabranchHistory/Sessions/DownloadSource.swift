package import AnabranchCore

/// The source of the changesets that a session sends to its client. The scan of a synced file's log is one source;
/// others may filter the log or make entries up.
package protocol DownloadSource {
    /// The changesets that follow `cursor`, up to and including the one with which their sizes together exceed
    /// `byteBudget` bytes: at least one while there is one.
    func download(after cursor: DownloadCursor, byteBudget: Int) throws(HistoryError) -> Download
}
