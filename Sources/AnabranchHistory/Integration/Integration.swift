package import AnabranchCore

/// How uploads are merged with the log.
package struct MergeOptions: Sendable {
    /// Merging every pair is the definition, for comparison.
    package var strategy = MergeStrategy.indexed
    /// Whether uploads may take classes and columns away.
    package var destructiveSchema = DestructiveSchema.refuse
    /// Whether a class may be used in the changeset that replaces it: for recorded histories that no client loads.
    package var allowsReplacedClasses = false
    /// What the log entries that an upload is merged with may occupy in memory, in bytes.
    package var localBytesMax = 1 << 30
    /// How large uploads can make an object, in bytes (`Spec/State.md`, B11).
    package var objectBytesMax = Int.max
    /// Whose uploads are watched, if the store remembers them.
    var watch: UploadWatch?
}

/// Computes what queued uploads make of one state of a file (`Spec/History.md`, section 6): a commit, and what each
/// client is told. Reads through a view and changes nothing.
struct Integration {
    private var log: PendingLog
    /// The state at the end of `log`; nil for a relay.
    private var state: PendingState?
    private let versionSalt: Salt
    private let time: UInt64
    private var reciprocals: [ReciprocalChange] = []
    private var clientFiles: [ClientFile] = []
    private(set) var report = IntegrationReport()
    private let options: MergeOptions
    /// Entries of this log, those included that the commit adds.
    var decodedEntries = DecodedEntryCache()

    /// - Parameters:
    ///   - state: the state at the head of the log; nil for a relay.
    ///   - time: seconds since 1970, at least 1.
    init(into log: PendingLog, state: ObjectGraph?, versionSalt: Salt, time: UInt64, options: MergeOptions) {
        self.log = log
        self.state = state.map { PendingState($0, objectBytesMax: options.objectBytesMax) }
        self.versionSalt = versionSalt
        self.time = time
        self.options = options
    }

    /// Takes in one client's changesets, or refuses them and goes on as if they had not been there: also when the store
    /// cannot read what they have to be merged with, for the others need something else.
    mutating func add(_ upload: Upload, from ident: ClientFileID) {
        let stateBefore = state
        do {
            let watched = try options.watch?.begin(upload, from: ident, at: time)
            defer { options.watch?.end(watched ?? nil) }
            report.outcomes.append(try integrate(upload, from: ident))
        } catch {
            state = stateBefore
            report.outcomes.append(ClientOutcome(ident: ident, newVersions: 0, refusal: error))
        }
    }

    /// Puts everything that was computed into a commit.
    func fill(_ commit: inout Commit) {
        commit.entries = log.entries
        commit.conflictKeys = log.conflictKeys
        commit.reciprocals = reciprocals
        commit.clientFiles = clientFiles
        if let state, !log.entries.isEmpty { commit.state = state.update(to: log.version) }
    }

    /// Everything that can fail comes before the first change but those of the state, so that a refused client leaves
    /// no trace.
    private mutating func integrate(_ upload: Upload, from ident: ClientFileID) throws(HistoryError) -> ClientOutcome {
        guard var file = try log.view.clientFile(ident), file.salt != 0 else {
            throw HistoryError(.badClientFileIdent, "there is no client file \(ident)")
        }
        try require(!file.isExpired, .clientFileExpired, "the client file has expired")
        // A changeset can be in the log already, if the store made a commit durable and then failed to report it.
        let changesets = upload.changesets.drop { $0.cursor.clientVersion <= file.uploadCursor.clientVersion }
        try check(changesets, of: upload, after: file.uploadCursor)
        log.indexEntries()
        var merge = ClientMerge(of: changesets, from: ident, options: options)
        defer { report.entriesVisited += merge.entriesVisited }
        try merge.run(past: log, sharing: &decodedEntries, into: &state)

        let before = file
        file.advance(to: upload.progress, lockedVersion: upload.lockedVersion)
        if file != before {
            file.lastSeen = time
            clientFiles.append(file)
        }
        for reciprocal in merge.reciprocals(after: file.uploadCursor.serverVersion) {
            reciprocals.append(ReciprocalChange(ident: ident, reciprocal: reciprocal))
        }
        log.append(merge.merged, versionSalt: versionSalt)
        return ClientOutcome(
            ident: ident, newVersions: merge.merged.count - merge.restoringCount, refusal: nil,
            skippedInstructions: merge.skippedInstructions, entriesRestoringNulls: merge.restoringCount)
    }

    /// What the checks of a session guarantee, for callers that have no session; and the origin, which is checked here.
    private func check(
        _ changesets: ArraySlice<UploadedChangeset>, of upload: Upload, after integrated: UploadCursor
    ) throws(HistoryError) {
        try require(
            upload.progress.serverVersion <= log.version && upload.lockedVersion <= log.version, .badServerVersion,
            "the upload speaks of server versions that do not exist")
        var previous = integrated
        for changeset in changesets {
            try require(changeset.origin == 0, .badOriginFileIdent, "a changeset of client file \(changeset.origin)")
            let cursor = changeset.cursor
            try require(
                cursor.clientVersion > previous.clientVersion && cursor.clientVersion <= upload.progress.clientVersion,
                .badClientVersion, "client version \(cursor.clientVersion) is out of order")
            try require(
                cursor.serverVersion >= previous.serverVersion && cursor.serverVersion <= log.version,
                .badServerVersion, "base \(cursor.serverVersion) is out of order")
            previous = cursor
        }
    }
}

extension ClientFile {
    /// Section 6, steps 9 and 10: nothing ever goes back.
    fileprivate mutating func advance(to progress: UploadCursor, lockedVersion: ServerVersion) {
        if progress.clientVersion > uploadCursor.clientVersion {
            uploadCursor.clientVersion = progress.clientVersion
            uploadCursor.serverVersion = max(uploadCursor.serverVersion, progress.serverVersion)
        }
        self.lockedVersion = max(self.lockedVersion, lockedVersion)
    }
}
