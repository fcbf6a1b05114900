import AnabranchCore
import AnabranchHistory

/// A client without network or disk: a state, the log of what the server has not confirmed yet, and its place in the
/// server's log (`Spec/Transform.md`, section 11; `Spec/History.md`, section 12).
package struct MemoryClient {
    /// A version of the client's own log.
    private struct Version {
        var number: ClientVersion
        /// The last server version that was integrated before.
        var base: ServerVersion
        var timestamp: ChangesetTime
        /// As it was made: the form that is uploaded. Empty where an integration or an empty transaction made the
        /// version.
        var changeset: [UInt8]
        /// As the server has to see it, after the entries that were merged with it.
        var reciprocal: [UInt8]
    }

    package let file: SaltedFileID
    private let strategy: MergeStrategy
    private let keepsState: Bool
    package private(set) var state = ObjectGraph()
    private var log: [Version] = []
    private var version: ClientVersion = 1
    /// How far it has integrated the server's log.
    package private(set) var download = DownloadCursor()
    private var latest = SaltedVersion()
    /// How far its log was uploaded in this session, and how far the server has confirmed it.
    private var uploaded = UploadCursor()
    private var acknowledged = UploadCursor()

    /// - Parameter keepsState: Without a state it takes changesets for what they are, and applies none.
    package init(_ file: SaltedFileID, strategy: MergeStrategy = .indexed, keepsState: Bool = true) {
        self.file = file
        self.strategy = strategy
        self.keepsState = keepsState
    }

    package var ident: ClientFileID { file.ident }

    // MARK: Local transactions

    /// One local transaction.
    ///
    /// - Parameter isAccepted: Whether the changeset that was recorded stays; otherwise nothing has happened.
    package mutating func write(
        at timestamp: ChangesetTime, if isAccepted: ([UInt8]) throws -> Bool = { _ in true },
        _ body: (WriteTransaction) throws -> Void
    ) throws {
        var next = state
        let written = try next.write(as: ident, body)
        guard try written.changeset.isEmpty || isAccepted(written.changeset) else { return }
        _ = try next.eraseAsymmetricObjects()
        state = next
        append(written.changeset, base: download.serverVersion, timestamp: timestamp)
    }

    /// One local transaction that was recorded elsewhere, perhaps an empty one.
    package mutating func commit(_ changeset: [UInt8], at timestamp: ChangesetTime) throws {
        var arena = ChangesetArena()
        let number = try arena.decode(changeset, version: 1, tag: OriginTag(timestamp: timestamp, ident: ident))
        try apply([number], of: arena)
        append(changeset, base: download.serverVersion, timestamp: timestamp)
    }

    private mutating func append(_ changeset: [UInt8], base: ServerVersion, timestamp: ChangesetTime) {
        // Of versions without changes that follow each other the last one says all.
        if log.last?.changeset.isEmpty == true { log.removeLast() }
        version += 1
        log.append(
            Version(number: version, base: base, timestamp: timestamp, changeset: changeset, reciprocal: changeset))
    }

    private mutating func apply(_ changesets: [ChangesetIndex], of arena: ChangesetArena) throws {
        guard keepsState else { return }
        for changeset in changesets { try state.apply(changeset, of: arena) }
        _ = try state.eraseAsymmetricObjects()
    }

    // MARK: Session

    /// What it says when it comes back.
    package var identRequest: IdentRequest {
        IdentRequest(file: file, download: download, latest: latest)
    }

    /// Begins a session: what was uploaded but not confirmed is uploaded again.
    package mutating func startSession() { uploaded = acknowledged }

    /// The newest version that has to be uploaded; 0 if there is none in the log.
    package var newestChange: ClientVersion { log.last { !$0.changeset.isEmpty }?.number ?? 0 }

    /// Whether the server has said that it has everything.
    package var isAcknowledged: Bool { newestChange <= acknowledged.clientVersion }

    // MARK: Upload

    /// The next UPLOAD, of at most `countMax` changesets; nil if there is nothing to say.
    ///
    /// - Parameter isProgressTold: Whether it also tells of versions without changes behind the last changeset.
    package mutating func nextUpload(_ countMax: Int = .max, isProgressTold: Bool = true) -> Upload? {
        var upload = Upload(progress: uploaded, lockedVersion: download.serverVersion)
        for version in log where version.number > uploaded.clientVersion && upload.changesets.count < countMax {
            let hasChanges = !version.changeset.isEmpty
            guard hasChanges || isProgressTold else { continue }
            upload.progress = UploadCursor(clientVersion: version.number, serverVersion: version.base)
            guard hasChanges else { continue }
            upload.changesets.append(
                UploadedChangeset(
                    cursor: upload.progress, timestamp: version.timestamp, changeset: version.changeset))
        }
        guard upload.progress != uploaded else { return nil }
        uploaded = upload.progress
        return upload
    }

    /// Uploads the next local changesets, at most `countMax` of them, and has them integrated.
    package mutating func upload(_ countMax: Int = .max, to file: SyncedFile) throws {
        guard let upload = nextUpload(countMax, isProgressTold: false) else { return }
        try file.integrateAtOnce(upload, from: ident)
    }

    // MARK: Download

    /// Integrates everything that the server has.
    package mutating func download(from file: SyncedFile) throws {
        guard file.version > download.serverVersion else { return }
        try integrate(try file.downloads(for: ident).download(after: download, byteBudget: .max))
    }

    /// Merges each entry with the local changes that it does not know, and applies it.
    ///
    /// - Parameter onMerged: is told the server version of each entry, and the form in which it was applied.
    package mutating func integrate(
        _ download: Download, onMerged: ((ServerVersion, [UInt8]) -> Void)? = nil
    ) throws {
        var merge = DownloadMerge()
        var rest = download.changesets[...]
        while let base = rest.first?.cursor.clientVersion {
            let run = rest.prefix { $0.cursor.clientVersion == base }
            let incoming = try integrate(run, base: base, &merge)
            if let onMerged {
                for (entry, changeset) in zip(run, incoming) {
                    onMerged(entry.cursor.serverVersion, merge.arena.encoded(changeset))
                }
            }
            rest = rest[run.endIndex...]
        }
        for (position, changeset) in merge.local where merge.arena.isDirty(changeset) {
            log[position].reciprocal = merge.arena.encoded(changeset)
        }
        if let last = download.changesets.last { append([], base: last.cursor.serverVersion, timestamp: 0) }
        advance(to: download.progress)
    }

    private mutating func advance(to progress: DownloadProgress) {
        download = progress.cursor
        latest = progress.latest
        acknowledged.clientVersion = progress.upload.clientVersion
        if progress.upload.serverVersion > 0 { acknowledged.serverVersion = progress.upload.serverVersion }
        log.removeFirst(log.prefix { $0.number <= min(download.clientVersion, acknowledged.clientVersion) }.count)
    }

    /// What is decoded while one download is integrated. Local changesets stay as a run leaves them until the next.
    private struct DownloadMerge {
        var arena = ChangesetArena()
        /// Where the versions of the log, by their position, are in the arena.
        var local: [Int: ChangesetIndex] = [:]
    }

    /// Integrates what the server made on one base.
    ///
    /// - Returns: where the entries are in the arena.
    private mutating func integrate(
        _ run: ArraySlice<DownloadedChangeset>, base: ClientVersion, _ merge: inout DownloadMerge
    ) throws -> [ChangesetIndex] {
        var incoming: [ChangesetIndex] = []
        for entry in run {
            let version = entry.cursor.serverVersion.rawValue
            incoming.append(try merge.arena.decode(entry.changeset, version: version, tag: entry.tag))
        }
        var local: [ChangesetIndex] = []
        for position in log.indices where log[position].number > base && !log[position].changeset.isEmpty {
            local.append(try changeset(at: position, &merge))
        }
        try merge.arena.merge(local: local, incoming: incoming, strategy: strategy)
        try apply(incoming, of: merge.arena)
        return incoming
    }

    private func changeset(at position: Int, _ merge: inout DownloadMerge) throws -> ChangesetIndex {
        if let changeset = merge.local[position] { return changeset }
        let version = log[position]
        let tag = OriginTag(timestamp: version.timestamp, ident: ident)
        let changeset = try merge.arena.decode(version.reciprocal, version: version.number.rawValue, tag: tag)
        merge.local[position] = changeset
        return changeset
    }
}
