import AnabranchCore
import AnabranchHistory
import AnabranchProtocol

/// Bodies of DOWNLOADs, encoded and deflated once for all readers that want the same.
///
/// An entry carries the reader's own client version, so in general each reader has its own body. But a reader of whom
/// the log holds nothing between two cursors gets every entry in between, all with one client version: cursors and
/// client version name its body. That covers whoever only reads, and every new file.
struct SharedBodies {
    private struct Key: Hashable {
        let path: VirtualPath
        let from: DownloadCursor
        let serverVersion: UInt64
    }

    private var bodies: [Key: DownloadBody] = [:]
    /// The keys from the oldest on.
    private var order: [Key] = []
    private var byteCount = 0
    private let bytesMax: Int

    init(bytesMax: Int) {
        self.bytesMax = bytesMax
    }

    /// The body of `batch`, which follows `cursor` in the file at `path`.
    mutating func body(
        of batch: DownloadBatch, after cursor: DownloadCursor, path: VirtualPath, limits: Limits
    ) -> DownloadBody {
        guard !batch.entries.isEmpty else { return .empty }
        guard batch.cursor.clientVersion == cursor.clientVersion else { return DownloadBody(batch, limits) }
        let key = Key(path: path, from: cursor, serverVersion: batch.cursor.serverVersion)
        if let body = bodies[key] { return body }
        let body = DownloadBody(batch, limits)
        keep(body, as: key)
        return body
    }

    private mutating func keep(_ body: DownloadBody, as key: Key) {
        guard body.count <= bytesMax else { return }
        bodies[key] = body
        order.append(key)
        byteCount += body.count
        while byteCount > bytesMax {
            byteCount -= bodies.removeValue(forKey: order.removeFirst())?.count ?? 0
        }
    }
}

extension DownloadBody {
    fileprivate init(_ batch: DownloadBatch, _ limits: Limits) {
        self.init(
            batch.entries.map { entry in
                AnabranchProtocol.DownloadEntry(
                    serverVersion: entry.serverVersion, clientVersion: entry.clientVersion,
                    tag: OriginTag(timestamp: entry.timestamp, ident: entry.origin), changeset: entry.changeset,
                    originalBytes: entry.originalSize)
            }, limits: limits)
    }
}
