package import AnabranchCore
package import AnabranchHistory

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

        func decode(of ident: ClientFileID, into arena: inout ChangesetArena) throws(ChangesetError) -> ChangesetIndex {
            let tag = OriginTag(timestamp: timestamp, ident: ident)
            return try arena.decode(reciprocal, version: number.rawValue, tag: tag)
        }
    }

    package let file: SaltedFileID
    private let strategy: MergeStrategy
    private let pairsPerStep: Int
    private let keepsState: Bool
    private let skipsFailures: Bool
    /// Of its release; it fails where that would.
    private let capabilities: ClientCapabilities
    package private(set) var state = ObjectGraph()
    private var log: [Version] = []
    /// The newest version of its log.
    package private(set) var version: ClientVersion = 1
    /// How far it has integrated the server's log.
    package private(set) var download = DownloadCursor()
    private var latest = SaltedVersion()
    /// How far its log was uploaded in this session, and how far the server has confirmed it.
    private var uploaded = UploadCursor()
    private var acknowledged = UploadCursor()

    /// - Parameters:
    ///   - pairsPerStep: How many pairs of instructions a step of a merge visits.
    ///   - keepsState: Without a state it takes changesets for what they are, and applies none.
    ///   - skipsFailures: An instruction on an object that cannot be applied is skipped, and is no error.
    ///   - capabilities: What its release can do.
    package init(
        _ file: SaltedFileID, strategy: MergeStrategy = .indexed, pairsPerStep: Int = .max, keepsState: Bool = true,
        skipsFailures: Bool = false, capabilities: ClientCapabilities = .all
    ) {
        self.file = file
        self.strategy = strategy
        self.pairsPerStep = pairsPerStep
        self.keepsState = keepsState
        self.skipsFailures = skipsFailures
        self.capabilities = capabilities
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
        try apply([number], of: &arena)
        append(changeset, base: download.serverVersion, timestamp: timestamp)
    }

    private mutating func append(_ changeset: [UInt8], base: ServerVersion, timestamp: ChangesetTime) {
        // Of versions without changes that follow each other the last one says all.
        if log.last?.changeset.isEmpty == true { log.removeLast() }
        version += 1
        log.append(
            Version(number: version, base: base, timestamp: timestamp, changeset: changeset, reciprocal: changeset))
    }

    private mutating func apply(
        _ changesets: [ChangesetIndex], of arena: inout ChangesetArena, refusing refusals: ApplyRefusals = []
    ) throws {
        guard keepsState else { return }
        let skipsFailures = skipsFailures
        _ = try state.applyTransactions(changesets, of: &arena, refusing: refusals) {
            skipsFailures && $0.object != nil
        }
    }

    /// What its release cannot apply of a download.
    private var refusals: ApplyRefusals {
        capabilities.erasesAbsentEntries ? .nullErasures : [.nullErasures, .absentErasures]
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

    /// Whether all changes up to a version have been uploaded in this session.
    package func hasUploaded(through last: ClientVersion) -> Bool {
        !log.contains { uploaded.clientVersion < $0.number && $0.number <= last && !$0.changeset.isEmpty }
    }

    /// The next UPLOAD, of at most `countMax` changesets; nil if there is nothing to say.
    ///
    /// - Parameters:
    ///   - last: It ends behind this version.
    ///   - isProgressTold: Whether it also tells of versions without changes behind the last changeset.
    package mutating func nextUpload(
        _ countMax: Int = .max, through last: ClientVersion = .largest, isProgressTold: Bool = true
    ) -> Upload? {
        var upload = Upload(progress: uploaded, lockedVersion: download.serverVersion)
        for version in log
        where uploaded.clientVersion < version.number && version.number <= last && upload.changesets.count < countMax {
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
    ///
    /// - Returns: What became of them; nil if there was nothing to upload.
    @discardableResult
    package mutating func upload(_ countMax: Int = .max, to file: SyncedFile) throws -> ClientOutcome? {
        guard let upload = nextUpload(countMax, isProgressTold: false) else { return nil }
        return try file.integrateAtOnce(upload, from: ident)
    }

    // MARK: Download

    /// Integrates everything that the server has.
    package mutating func download(from file: SyncedFile) throws {
        guard file.version > download.serverVersion else { return }
        try integrate(try file.downloads(for: ident, capabilities).download(after: download, byteBudget: .max))
    }

    /// Merges each entry with the local changes that it does not know, and applies it.
    ///
    /// - Parameter onMerged: is told the server version of each entry, and the form in which it was applied.
    package mutating func integrate(
        _ download: Download, onMerged: ((ServerVersion, [UInt8]) -> Void)? = nil
    ) throws {
        let positions = Dictionary(uniqueKeysWithValues: zip(log.map(\.number.rawValue), log.indices))
        var merge = LogMerge(download.changesets.map { LogMerge.Incoming($0) }, strategy: strategy)
        while try merge.beginRun() {
            let base = ClientVersion(rawValue: merge.base)
            let versions = log.filter { $0.number > base && !$0.changeset.isEmpty }.map(\.number.rawValue)
            try merge.begin(meeting: versions) { version, arena in
                try log[positions[version, default: log.endIndex]].decode(of: ident, into: &arena)
            }
            while try !merge.advance(pairs: pairsPerStep) {}
            try apply(merge.incoming, of: &merge.arena, refusing: refusals)
            for (entry, index) in zip(merge.run, merge.incoming) {
                onMerged?(ServerVersion(rawValue: entry.version), merge.encoded(index))
            }
        }
        for (version, changeset) in merge.changedEntries() {
            log[positions[version, default: log.endIndex]].reciprocal = changeset
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
}
