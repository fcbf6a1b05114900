import AnabranchCore
import AnabranchHistory
import AnabranchProtocol

/// Bodies of DOWNLOADs, encoded and deflated once for all readers that want the same.
///
/// An entry carries the reader's own client version, so in general each reader has its own body. But if the log holds
/// nothing of a reader between two cursors, the reader gets every entry in between, all with one client version: the
/// cursors and the client version determine the body. So it is for clients that only read, and for new client files.
struct SharedBodies {
    struct Key: Hashable {
        let file: SyncedFileID
        let from: DownloadCursor
        let serverVersion: ServerVersion
        /// Some releases need another form of some changesets.
        let capabilities: ClientCapabilities
    }

    /// What it takes to keep a body.
    static func cost(of body: EncodedBody) -> Int { body.count + 256 }

    private(set) var bodies: [Key: EncodedBody] = [:]
    /// The keys of the bodies from the oldest on, behind those of `goneCount` that are kept no longer.
    private var order: [Key] = []
    private var goneCount = 0
    private var byteCount = 0
    private let bytesMax: Int

    init(bytesMax: Int) {
        self.bytesMax = bytesMax
    }

    /// The body of `download`, which follows `cursor` in a file and is for clients with `capabilities`.
    mutating func body(
        of download: Download, after cursor: DownloadCursor, file: SyncedFileID, _ capabilities: ClientCapabilities,
        limits: Limits
    ) -> EncodedBody {
        guard !download.changesets.isEmpty else { return .empty }
        let end = download.progress.cursor
        guard end.clientVersion == cursor.clientVersion else {
            return EncodedBody(download.changesets, limits: limits)
        }
        let key = Key(file: file, from: cursor, serverVersion: end.serverVersion, capabilities: capabilities)
        if let body = bodies[key] { return body }
        let body = EncodedBody(download.changesets, limits: limits)
        keep(body, as: key)
        return body
    }

    private mutating func keep(_ body: EncodedBody, as key: Key) {
        guard Self.cost(of: body) <= bytesMax else { return }
        bodies[key] = body
        order.append(key)
        byteCount += Self.cost(of: body)
        while byteCount > bytesMax {
            let oldest = order[goneCount]
            goneCount += 1
            byteCount -= bodies.removeValue(forKey: oldest).map(Self.cost) ?? 0
        }
        // Many at a time, because removing from the front moves all the others.
        if goneCount > order.count / 2 {
            order.removeFirst(goneCount)
            goneCount = 0
        }
    }
}
