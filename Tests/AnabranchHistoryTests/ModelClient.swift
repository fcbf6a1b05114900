import AnabranchCore

@testable import AnabranchHistory

/// A client as `Spec/History.md`, section 12, describes it, with all its storage in memory.
final class ModelClient {
    /// One version of the client's own log.
    struct Local {
        var version: ClientVersion
        /// The last server version integrated before.
        var base: ServerVersion
        var timestamp: ChangesetTime
        /// As uploaded; empty for versions that an integration or an empty commit made.
        var changeset: [UInt8]
        /// As merged past what came from the server.
        var reciprocal: [UInt8]
    }

    let ident: SaltedFileID
    private(set) var log: [Local] = []
    private(set) var version: ClientVersion = 1
    private(set) var download = DownloadCursor()
    private(set) var latest = SaltedVersion()
    private(set) var acknowledged = UploadCursor()
    private var scanned = UploadCursor()
    private(set) var state = ModelState()
    /// What each server version had become when it was applied here.
    private(set) var received: [ServerVersion: [UInt8]] = [:]

    init(_ ident: SaltedFileID) { self.ident = ident }

    var request: IdentRequest { IdentRequest(file: ident, download: download, latest: latest) }

    /// The newest version that has to be uploaded; 0 if there is none in the log.
    var newestChange: ClientVersion { log.last { !$0.changeset.isEmpty }?.version ?? 0 }

    /// Whether the server has said that it has everything.
    var isAcknowledged: Bool { newestChange <= acknowledged.clientVersion }

    func startSession() { scanned = acknowledged }

    /// A local transaction, perhaps an empty one.
    func commit(_ changeset: [UInt8], timestamp: ChangesetTime, applying: Bool = true) throws {
        if applying { try state.apply(changeset) }
        append(changeset, base: download.serverVersion, timestamp: timestamp)
    }

    private func append(_ changeset: [UInt8], base: ServerVersion, timestamp: ChangesetTime) {
        version += 1
        log.append(
            Local(version: version, base: base, timestamp: timestamp, changeset: changeset, reciprocal: changeset))
    }

    /// The next UPLOAD; nil if there is nothing to say.
    func nextUpload(changesetsMax: Int) -> Upload? {
        var upload = Upload(progress: scanned, lockedVersion: download.serverVersion)
        for entry in log where entry.version > scanned.clientVersion && upload.changesets.count < changesetsMax {
            upload.progress = UploadCursor(clientVersion: entry.version, serverVersion: entry.base)
            guard !entry.changeset.isEmpty else { continue }
            upload.changesets.append(
                UploadedChangeset(
                    cursor: upload.progress, timestamp: entry.timestamp, changeset: entry.changeset))
        }
        guard upload.progress != scanned else { return nil }
        scanned = upload.progress
        return upload
    }

    /// Takes a DOWNLOAD in: merges each entry with the local changes that it does not know, and applies it.
    func integrate(_ batch: Download, applying: Bool = true) throws {
        for entry in batch.changesets {
            var arena = ChangesetArena()
            let cursor = entry.cursor
            let incoming = try arena.decode(entry.changeset, version: cursor.serverVersion.rawValue, tag: entry.tag)
            let unknown = log.indices.filter { log[$0].version > cursor.clientVersion && !log[$0].changeset.isEmpty }
            let local = try unknown.map { index in
                let tag = OriginTag(timestamp: log[index].timestamp, ident: ident.ident)
                return try arena.decode(log[index].reciprocal, version: log[index].version.rawValue, tag: tag)
            }
            if !local.isEmpty { try arena.merge(local: local, incoming: [incoming]) }
            for (index, place) in zip(unknown, local) { log[index].reciprocal = arena.encoded(place) }
            let transformed = arena.encoded(incoming)
            if applying { try state.apply(transformed) }
            received[cursor.serverVersion] = transformed
        }
        let progress = batch.progress
        download = progress.cursor
        latest = progress.latest
        acknowledged.clientVersion = progress.upload.clientVersion
        if progress.upload.serverVersion > 0 { acknowledged.serverVersion = progress.upload.serverVersion }
        append(
            [], base: batch.changesets.last?.cursor.serverVersion ?? progress.cursor.serverVersion, timestamp: 0)
        log.removeAll { $0.version <= min(download.clientVersion, acknowledged.clientVersion) }
    }
}
