import AnabranchCore

@testable import AnabranchHistory

/// A client as `Spec/History.md`, section 12, describes it, with all its storage in memory.
final class ModelClient {
    /// One version of the client's own log.
    struct Local {
        var version: UInt64
        /// The last server version integrated before.
        var base: UInt64
        var timestamp: UInt64
        /// As uploaded; empty for versions that an integration or an empty commit made.
        var changeset: [UInt8]
        /// As merged past what came from the server.
        var reciprocal: [UInt8]
    }

    let ident: ClientFileIdent
    private(set) var log: [Local] = []
    private(set) var version: UInt64 = 1
    private(set) var download = DownloadCursor()
    private(set) var latest: (version: UInt64, salt: UInt64) = (0, 0)
    private(set) var acknowledged = UploadCursor()
    private var scanned = UploadCursor()
    private(set) var state = ModelState()
    /// What each server version had become when it was applied here.
    private(set) var received: [UInt64: [UInt8]] = [:]

    init(_ ident: ClientFileIdent) { self.ident = ident }

    var request: IdentRequest {
        IdentRequest(
            file: ident, download: download, latestVersion: latest.version, latestVersionSalt: latest.salt)
    }

    /// The newest version that has to be uploaded; 0 if there is none in the log.
    var newestChange: UInt64 { log.last { !$0.changeset.isEmpty }?.version ?? 0 }

    /// Whether the server has said that it has everything.
    var isAcknowledged: Bool { newestChange <= acknowledged.clientVersion }

    func startSession() { scanned = acknowledged }

    /// A local transaction, perhaps an empty one.
    func commit(_ changeset: [UInt8], timestamp: UInt64, applying: Bool = true) throws {
        if applying { try state.apply(changeset) }
        append(changeset, base: download.serverVersion, timestamp: timestamp)
    }

    private func append(_ changeset: [UInt8], base: UInt64, timestamp: UInt64) {
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
    func integrate(_ batch: DownloadBatch, applying: Bool = true) throws {
        for entry in batch.entries {
            var arena = ChangesetArena()
            let tag = OriginTag(timestamp: entry.timestamp, ident: entry.origin)
            let incoming = try arena.decode(entry.changeset, version: entry.serverVersion, tag: tag)
            let unknown = log.indices.filter { log[$0].version > entry.clientVersion && !log[$0].changeset.isEmpty }
            let local = try unknown.map { index in
                let tag = OriginTag(timestamp: log[index].timestamp, ident: ident.ident)
                return try arena.decode(log[index].reciprocal, version: log[index].version, tag: tag)
            }
            if !local.isEmpty { try arena.merge(local: local, incoming: [incoming]) }
            for (index, place) in zip(unknown, local) { log[index].reciprocal = arena.encoded(place) }
            let transformed = arena.encoded(incoming)
            if applying { try state.apply(transformed) }
            received[entry.serverVersion] = transformed
        }
        download = batch.cursor
        latest = (batch.latestVersion, batch.latestVersionSalt)
        acknowledged.clientVersion = batch.uploadCursor.clientVersion
        if batch.uploadCursor.serverVersion > 0 { acknowledged.serverVersion = batch.uploadCursor.serverVersion }
        append([], base: batch.entries.last?.serverVersion ?? batch.cursor.serverVersion, timestamp: 0)
        log.removeAll { $0.version <= min(download.clientVersion, acknowledged.clientVersion) }
    }
}
