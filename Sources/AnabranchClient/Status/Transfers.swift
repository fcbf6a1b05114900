import AnabranchCore
import AnabranchProtocol
import AnabranchReplica

/// The transfers between a replica and its server.
struct Transfers {
    private(set) var download = TransferMeter()
    private(set) var upload = TransferMeter()
    private var downloadedBytes: Int64 = 0
    /// The number of local transactions that the server has not acknowledged, and their bytes.
    private(set) var pending: (changesets: Int, bytes: Int) = (0, 0)
    private var uploadTotal: Int64 = 0
    /// The reason why there is no connection.
    var connectionIssue: SyncIssue?

    // MARK: Upload

    /// Counts a transaction that was committed here.
    mutating func committed(bytes: Int) { count((pending.changesets + 1, pending.bytes + bytes)) }

    /// Takes the new number of unacknowledged transactions, after an acknowledgement or when the log was replaced.
    mutating func count(_ now: (changesets: Int, bytes: Int)) {
        if !upload.isRunning { uploadTotal = 0 }
        if now.bytes > pending.bytes || !upload.isRunning {
            uploadTotal += Int64(now.bytes) - (upload.isRunning ? Int64(pending.bytes) : 0)
        }
        pending = now
        if now.changesets > 0 {
            upload.begin(total: uploadTotal)
            upload.advance(to: uploadTotal - Int64(now.bytes), of: uploadTotal)
        } else {
            upload.advance(to: uploadTotal, of: uploadTotal)
            upload.end()
        }
    }

    // MARK: Download

    /// Begins a download, unless one is running.
    mutating func expect() {
        if !download.isRunning { downloadedBytes = 0 }
        download.begin()
    }

    /// Counts a message that was integrated, or stored as part of a bootstrap.
    mutating func came(_ message: DownloadMessage) {
        let bytes = Int64(message.changesetBytes)
        if bytes > 0 { expect() }
        guard download.isRunning else { return }
        downloadedBytes += bytes
        if let batch = message.batch {
            download.advance(to: downloadedBytes, of: nil, estimate: batch.estimate)
        } else {
            let rest = Int64(clamping: message.progress.downloadableBytes)
            let (total, isTooLarge) = downloadedBytes.addingReportingOverflow(rest)
            download.advance(to: downloadedBytes, of: isTooLarge ? .max : total)
        }
    }

    /// Ends the download: everything has arrived.
    mutating func downloadIsComplete() { download.end() }

    mutating func disconnected() { download.stop() }
}
