import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import Synchronization

/// Bodies of DOWNLOADs, encoded and deflated once for all readers of the same. The oldest are dropped first, unless
/// they were used recently.
///
/// An entry carries the reader's own client version, so in general each reader has its own body. But if the log holds
/// nothing of a reader between two cursors, the reader gets every entry in between, all with one client version: the
/// cursors and the client version determine the body. This is the case for clients that only read, and for new client
/// files. In flexible sync, where each reader gets some of the entries, these determine it.
final class SharedBodies: Sendable {
    struct Key: Hashable {
        let file: SyncedFileID
        /// `SyncedFile.epoch`.
        var epoch: UInt64 = 0
        /// The lineage of the cursors: the same cursor is another place in another generation.
        let lineage: Lineage
        let from: DownloadCursor
        let serverVersion: ServerVersion
        /// In flexible sync, the entries, in a form that distinguishes them from others.
        var entries: [AlikeEntry] = []
        /// The capabilities of the reader: some releases need another form of some changesets.
        let capabilities: ClientCapabilities
    }

    fileprivate struct Kept {
        /// The bodies. `isWanted` is true if a reader has wanted the body since it was kept, or since it was last
        /// passed over when the oldest went.
        var bodies: [Key: (body: EncodedBody, isWanted: Bool)] = [:]
        /// The keys of the bodies in order of age, after `goneCount` keys of bodies that are kept no longer.
        var order: [Key] = []
        var goneCount = 0
        var byteCount = 0
    }

    /// The longest body that is copied into one piece with the head of each message, in bytes: sending two pieces would
    /// cost more.
    static let copiedBytesMax = 4 << 10

    /// The approximate memory of a kept body, in bytes: with its key and its place in the order.
    static func cost(of body: EncodedBody) -> Int { body.count + 512 }

    private let bytesMax: Int
    private let didEncode: @Sendable () -> Void
    private let kept = Mutex(Kept())

    /// - Parameters:
    ///   - bytesMax: the memory of all kept bodies, in bytes.
    ///   - didEncode: called for each body that was not kept yet.
    init(bytesMax: Int, didEncode: @escaping @Sendable () -> Void = {}) {
        self.bytesMax = bytesMax
        self.didEncode = didEncode
    }

    /// The keys of the kept bodies.
    var keys: [Key] { kept.withLock { Array($0.bodies.keys) } }

    /// The body of `download`, which follows `cursor` in the lineage of a file and is for clients with `capabilities`.
    func body(
        of download: Download, after cursor: DownloadCursor, file: SyncedFileID, epoch: UInt64 = 0,
        in lineage: Lineage = .log, _ capabilities: ClientCapabilities, limits: Limits
    ) -> EncodedBody {
        guard !download.changesets.isEmpty else { return .empty }
        let end = download.progress.cursor
        guard end.clientVersion == cursor.clientVersion else {
            return body(of: download, as: nil, limits: limits)
        }
        let key = Key(
            file: file, epoch: epoch, lineage: lineage, from: cursor, serverVersion: end.serverVersion,
            capabilities: capabilities)
        return kept.withLock { $0.take(key) } ?? body(of: download, as: key, limits: limits)
    }

    private func body(of download: Download, as key: Key?, limits: Limits) -> EncodedBody {
        didEncode()
        let body = EncodedBody(download.changesets, limits: limits)
        if let key, Self.cost(of: body) <= bytesMax { kept.withLock { $0.keep(body, as: key, bytesMax: bytesMax) } }
        return body
    }

    // MARK: Flexible sync

    /// The body with some entries of a file; nil if it is not kept.
    func kept(
        of entries: [AlikeEntry], file: SyncedFileID, epoch: UInt64 = 0, _ capabilities: ClientCapabilities
    ) -> EncodedBody? {
        let key = Key(of: entries, file: file, epoch, capabilities)
        return kept.withLock { $0.take(key) }
    }

    /// The body of a reader's DOWNLOAD, which is not kept yet.
    /// - Parameter entries: nil if nobody else gets the same.
    func body(
        of download: Download, entries: [AlikeEntry]?, file: SyncedFileID, epoch: UInt64 = 0,
        _ capabilities: ClientCapabilities, limits: Limits
    ) -> EncodedBody {
        let key = entries.map { Key(of: $0, file: file, epoch, capabilities) }
        return body(of: download, as: key, limits: limits)
    }
}

extension SharedBodies.Key {
    fileprivate init(
        of entries: [AlikeEntry], file: SyncedFileID, _ epoch: UInt64, _ capabilities: ClientCapabilities
    ) {
        self.init(
            file: file, epoch: epoch, lineage: .log, from: DownloadCursor(serverVersion: 0, clientVersion: 0),
            serverVersion: 0, entries: entries, capabilities: capabilities)
    }
}

extension SharedBodies.Kept {
    fileprivate mutating func take(_ key: SharedBodies.Key) -> EncodedBody? {
        guard let body = bodies[key]?.body else { return nil }
        bodies[key]?.isWanted = true
        return body
    }

    fileprivate mutating func keep(_ body: EncodedBody, as key: SharedBodies.Key, bytesMax: Int) {
        guard bodies.updateValue((body, isWanted: false), forKey: key) == nil else { return }
        order.append(key)
        byteCount += SharedBodies.cost(of: body)
        while byteCount > bytesMax {
            let oldest = order[goneCount]
            goneCount += 1
            if bodies[oldest]?.isWanted == true {
                bodies[oldest]?.isWanted = false
                order.append(oldest)
            } else if let gone = bodies.removeValue(forKey: oldest) {
                byteCount -= SharedBodies.cost(of: gone.body)
            }
        }
        // Many at a time, because removing from the front moves all the others.
        if goneCount > order.count / 2 {
            order.removeFirst(goneCount)
            goneCount = 0
        }
    }
}
