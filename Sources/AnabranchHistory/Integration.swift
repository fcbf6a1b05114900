import AnabranchCore

/// What became of the queued uploads of one file.
public struct IntegrationReport: Equatable, Sendable {
    /// One for each client file that had something queued, in ascending order of ident.
    public var outcomes: [ClientOutcome] = []
    /// Whether the log has grown: then every running session has something to download.
    public var madeVersions = false
    /// Log entries, or reciprocal changesets in their place, that were decoded to merge the uploads with them.
    public var entriesVisited = 0
}

/// What became of the queued uploads of one client file.
public struct ClientOutcome: Equatable, Sendable {
    public var ident: UInt64
    /// How many log entries its changesets became.
    public var newVersions: Int
    /// `badChangeset`, `badOriginFileIdent` or `clientFileExpired`: nothing of what was queued has left a trace.
    public var refusal: HistoryError?
}

/// Computes what queued uploads make of one state of a file (`Spec/History.md`, section 6): a commit, and what each client
/// is told. Reads through a view and changes nothing.
struct Integration {
    private var log: PendingLog
    private let versionSalt: UInt64
    private let time: UInt64
    private var reciprocals: [ReciprocalChange] = []
    private var clientFiles: [ClientFile] = []
    private(set) var report = IntegrationReport()
    var mergeStrategy = MergeStrategy.indexed
    /// Entries of this log, those included that the commit adds.
    var decoded = DecodedEntries()

    /// - Parameter time: seconds since 1970, at least 1.
    init(into log: PendingLog, versionSalt: UInt64, time: UInt64) {
        self.log = log
        self.versionSalt = versionSalt
        self.time = time
    }

    /// Takes in one client's changesets, or refuses them and goes on as if they had not been there.
    /// - Throws: trouble of the store only; a refusal goes into the report.
    mutating func add(_ upload: Upload, from ident: UInt64) throws(HistoryError) {
        do {
            let newVersions = try integrate(upload, from: ident)
            report.outcomes.append(ClientOutcome(ident: ident, newVersions: newVersions, refusal: nil))
        } catch {
            if error.isTransient { throw error }
            report.outcomes.append(ClientOutcome(ident: ident, newVersions: 0, refusal: error))
        }
    }

    func fill(_ commit: inout Commit) {
        commit.entries = log.entries
        commit.postings = log.postings
        commit.reciprocals = reciprocals
        commit.clientFiles = clientFiles
    }

    /// Everything that can fail comes before the first change, so that a refused client leaves no trace.
    private mutating func integrate(_ upload: Upload, from ident: UInt64) throws(HistoryError) -> Int {
        guard var file = try log.view.clientFile(ident), file.salt != 0 else {
            throw HistoryError(.badClientFileIdent, "there is no client file \(ident)")
        }
        try require(!file.isExpired, .clientFileExpired, "the client file has expired")
        // A changeset can be in the log already, when the store made a commit durable but could not say so any more.
        let changesets = upload.changesets.drop { $0.cursor.clientVersion <= file.uploadCursor.clientVersion }
        try check(changesets, of: upload)
        log.index()
        var merge = ClientMerge(ident: ident, strategy: mergeStrategy)
        defer { report.entriesVisited += merge.entriesVisited }
        try merge.merge(changesets, past: log, sharing: &decoded)

        let before = file
        file.advance(to: upload.progress, lockedVersion: upload.lockedVersion)
        if file != before {
            file.lastSeen = time
            clientFiles.append(file)
        }
        for reciprocal in merge.reciprocals(after: file.uploadCursor.serverVersion) {
            reciprocals.append(ReciprocalChange(ident: ident, reciprocal: reciprocal))
        }
        log.append(merge.merged, from: ident, versionSalt: versionSalt)
        return merge.merged.count
    }

    /// What the checks of a session guarantee, for callers that have no session; and the origin, which is checked here.
    private func check(_ changesets: ArraySlice<UploadedChangeset>, of upload: Upload) throws(HistoryError) {
        try require(
            upload.progress.serverVersion <= log.version && upload.lockedVersion <= log.version, .badServerVersion,
            "the upload speaks of server versions that do not exist")
        var previous = UploadCursor()
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
    fileprivate mutating func advance(to progress: UploadCursor, lockedVersion: UInt64) {
        if progress.clientVersion > uploadCursor.clientVersion {
            uploadCursor.clientVersion = progress.clientVersion
            uploadCursor.serverVersion = max(uploadCursor.serverVersion, progress.serverVersion)
        }
        self.lockedVersion = max(self.lockedVersion, lockedVersion)
    }
}
