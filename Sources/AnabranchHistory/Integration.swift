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
    public var ident: ClientFileID
    /// How many log entries its changesets became.
    public var newVersions: Int
    /// `badChangeset`, `badOriginFileIdent` or `clientFileExpired`: nothing of what was queued has left a trace.
    public var refusal: HistoryError?
    /// What was left out of the log because somebody has erased its class or column meanwhile.
    public var mootInstructions = MootInstructions()
}

/// Instructions that were left out of the log (`Spec/History.md`, section 16.1).
public struct MootInstructions: Equatable, Sendable {
    public private(set) var count = 0
    /// Why the first of them cannot be applied, with its place.
    public private(set) var firstReason: ApplyError?

    mutating func append(_ reason: ApplyError) {
        firstReason = firstReason ?? reason
        count += 1
    }

    mutating func append(_ others: MootInstructions) {
        firstReason = firstReason ?? others.firstReason
        count += others.count
    }
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
    var mergeStrategy = MergeStrategy.indexed
    private let oursBytesMax: Int
    /// Entries of this log, those included that the commit adds.
    var decoded = DecodedEntries()

    /// - Parameters:
    ///   - state: the state at the head of the log; nil for a relay.
    ///   - time: seconds since 1970, at least 1.
    ///   - oursBytesMax: what the log entries that an upload is merged with may occupy, in bytes.
    init(into log: PendingLog, state: ObjectGraph?, versionSalt: Salt, time: UInt64, oursBytesMax: Int) {
        self.log = log
        self.state = state.map(PendingState.init)
        self.versionSalt = versionSalt
        self.time = time
        self.oursBytesMax = oursBytesMax
    }

    /// Takes in one client's changesets, or refuses them and goes on as if they had not been there.
    /// - Throws: trouble of the store only; a refusal goes into the report.
    mutating func add(_ upload: Upload, from ident: ClientFileID) throws(HistoryError) {
        let stateBefore = state
        do {
            report.outcomes.append(try integrate(upload, from: ident))
        } catch {
            if error.isTransient { throw error }
            state = stateBefore
            report.outcomes.append(ClientOutcome(ident: ident, newVersions: 0, refusal: error))
        }
    }

    func fill(_ commit: inout Commit) {
        commit.entries = log.entries
        commit.postings = log.postings
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
        // A changeset can be in the log already, when the store made a commit durable but could not say so any more.
        let changesets = upload.changesets.drop { $0.cursor.clientVersion <= file.uploadCursor.clientVersion }
        try check(changesets, of: upload, after: file.uploadCursor)
        log.index()
        var merge = ClientMerge(ident: ident, strategy: mergeStrategy, oursBytesMax: oursBytesMax)
        defer { report.entriesVisited += merge.entriesVisited }
        try merge.merge(changesets, past: log, sharing: &decoded, into: &state)

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
        return ClientOutcome(
            ident: ident, newVersions: merge.merged.count, refusal: nil, mootInstructions: merge.mootInstructions)
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
