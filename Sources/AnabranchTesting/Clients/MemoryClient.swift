package import AnabranchCore
package import AnabranchHistory
package import AnabranchReplica

/// A client without network or disk: a replica in memory that has its ident already, and talks to a synced file
/// directly (`Spec/Transform.md`, section 11; `Spec/History.md`, section 12).
package struct MemoryClient {
    package private(set) var file: SaltedFileID
    package let capabilities: ClientCapabilities
    package private(set) var replica: Replica<MemoryReplicaStore>

    /// - Parameters:
    ///   - pairsPerStep: How many pairs of instructions a step of a merge visits.
    ///   - keepsState: If false, the client has no state: it integrates changesets and applies none.
    ///   - skipsFailures: If true, an instruction on an object that cannot be applied is skipped, which is not an
    ///     error.
    ///   - capabilities: The capabilities of its release; it refuses what such a release cannot apply.
    package init(
        _ file: SaltedFileID, strategy: MergeStrategy = .indexed, pairsPerStep: Int = .max, keepsState: Bool = true,
        skipsFailures: Bool = false, capabilities: ClientCapabilities = .all
    ) {
        var behaviour = ReplicaBehaviour()
        behaviour.strategy = strategy
        behaviour.pairsPerStep = pairsPerStep
        behaviour.keepsState = keepsState
        behaviour.skipsFailures = skipsFailures
        behaviour.refusals = ApplyRefusals(of: capabilities)
        self.file = file
        self.capabilities = capabilities
        do {
            replica = try Replica(MemoryReplicaStore(), behaviour)
            try replica.identify(as: file)
        } catch {
            preconditionFailure("a new replica in memory fails: \(error)")
        }
    }

    /// Has the replica keep which of its changes each download overrules.
    package mutating func recordOverruled() { replica.recordsOverruled = true }

    /// A copy of the client's file, as another client.
    package func copy(as file: SaltedFileID) throws -> MemoryClient {
        var copy = self
        copy.file = file
        try copy.replica.becomeCopy()
        try copy.replica.identify(as: file)
        return copy
    }

    package var ident: ClientFileID { file.ident }
    package var state: ObjectGraph { replica.state }
    /// The newest version of its log.
    package var version: ClientVersion { replica.version }
    /// The place in the server's log up to which it has integrated.
    package var download: DownloadCursor { replica.progress.cursor }

    // MARK: Local transactions

    /// Writes one local transaction.
    ///
    /// - Parameter isAccepted: Whether the changeset that was recorded stays; otherwise nothing changes.
    package mutating func write(
        at timestamp: ChangesetTime, if isAccepted: ([UInt8]) throws -> Bool = { _ in true },
        _ body: (WriteTransaction) throws -> Void
    ) throws {
        try replica.write(at: timestamp, if: isAccepted, body)
    }

    /// Commits a local transaction that was recorded elsewhere, perhaps an empty one.
    package mutating func commit(_ changeset: [UInt8], at timestamp: ChangesetTime) throws {
        try replica.commit(changeset, at: timestamp)
    }

    // MARK: Session

    /// The IDENT of a client that comes back.
    package var identRequest: IdentRequest {
        IdentRequest(file: file, download: download, latest: replica.progress.latest)
    }

    /// Begins a session: changes that were uploaded but not acknowledged are uploaded again.
    package mutating func startSession() { replica.startUploading() }

    /// The newest version that has to be uploaded; 0 if there is none.
    package var newestChange: ClientVersion { replica.newestChange }

    /// True if the server has acknowledged all local changes.
    package var isAcknowledged: Bool { replica.isAcknowledged }

    // MARK: Upload

    /// True if all changes up to a version have been uploaded in this session.
    package func hasUploaded(through last: ClientVersion) -> Bool { replica.hasUploaded(through: last) }

    /// The next UPLOAD, of at most `countMax` changesets; nil if there is nothing to send.
    ///
    /// - Parameters:
    ///   - last: The last version that it may reach.
    ///   - isProgressTold: Whether it also tells of versions without changes after the last changeset.
    package mutating func nextUpload(
        _ countMax: Int = .max, through last: ClientVersion = .largest, isProgressTold: Bool = true
    ) -> Upload? {
        do {
            return try replica.nextUpload(through: last, countMax: countMax, isProgressTold: isProgressTold)
        } catch {
            preconditionFailure("a log in memory cannot be read: \(error)")
        }
    }

    /// Uploads the next local changesets, at most `countMax` of them, and has them integrated.
    ///
    /// - Returns: The outcome; nil if there was nothing to upload.
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
    /// - Parameter onMerged: Called with the server version of each entry, and the form in which it was applied.
    package mutating func integrate(
        _ download: Download, onMerged: ((ServerVersion, [UInt8]) -> Void)? = nil
    ) throws {
        try replica.integrate(download, onMerged: onMerged)
    }
}

extension ApplyRefusals {
    /// The instructions that a release with these capabilities cannot apply.
    package init(of capabilities: ClientCapabilities) {
        self = .nullErasures
        if !capabilities.erasesAbsentEntries { insert(.absentErasures) }
        if !capabilities.overwritesDanglingLinks { insert(.danglingOverwrites) }
    }
}
