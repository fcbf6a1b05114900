import AnabranchCore

/// The room that is left in a commit in the making.
struct CommitRoom {
    /// The size of the changesets that still fit, in bytes.
    var bytes: Int
    let loadedBytesMax: Int

    func isLeft(beside state: PendingState?) -> Bool {
        bytes > 0 && (state?.loadedBytes ?? 0) <= loadedBytesMax
    }
}

/// Computes the result of merging queued uploads into one state of a file (`Spec/History.md`, section 6): a commit, and
/// a message for each client. Works in steps, each of which reads through a view of its own and changes nothing: it can
/// be dropped between two steps. Until it ends, nobody else may write to the log.
struct Integration: ~Copyable {
    /// The client whose changesets are merged now.
    struct Current: ~Copyable {
        let uploads: JoinedUploads
        fileprivate(set) var file: ClientFile
        /// The generation to merge with; nil for the log alone.
        let generation: Generation?
        /// The changesets that are not in the log yet.
        var changesets: ArraySlice<UploadedChangeset>
        /// True if the changesets begin with the withheld part of the client's schema.
        var hasWithheldSchema = false
        /// True if a step has ended before its first run did.
        fileprivate var isLong = false
        fileprivate(set) var stateBefore: PendingState?
        /// The name of the upload for the watch.
        let watched: Checksum?
        var merge: ClientMerge
    }

    private let head: FileHead
    private var added = AddedEntries()
    /// The state at the end of the log; nil for a relay.
    private var state: PendingState?
    /// Client files that are more recent than their stored rows.
    private let unwritten: [ClientFileID: ClientFile]
    /// In a shared store, the sessions that have uploaded, by client file; otherwise nil.
    private let sessions: [ClientFileID: UInt64]?
    private var choosesLineage = false
    private let versionSalt: Salt
    /// Seconds since 1970.
    let time: UInt64
    private let options: MergeOptions
    private var waiting: ArraySlice<JoinedUploads>
    private var current: Current?
    /// The merge of the only client, as an earlier integration has left it.
    private var kept: Current?
    /// The client whose merge has taken longer than a step, and goes on in another integration.
    private var unfinished: Current?
    /// The client that has used its share of time, and is to go on apart from others.
    private(set) var overdue: ClientFileID?
    private var pauseCount = 0
    private var room: CommitRoom
    /// The uploads that were merged: the commit can still end the process.
    private(set) var watched: [Checksum] = []
    private var reciprocals: [ReciprocalChange] = []
    private var clientFiles: [ClientFile] = []
    private var withheldSchemas: [ClientFileID: [UInt8]] = [:]
    private(set) var report = IntegrationReport()
    /// Entries of this log, including those that the commit adds.
    var decodedEntries = DecodedEntryCache()

    /// - Parameters:
    ///   - queue: the uploads to integrate.
    ///   - kept: the merge of their only client, as far as an earlier integration has taken it; nil if there is none.
    ///   - head: the head of the log.
    ///   - state: the state there; nil for a relay.
    ///   - unwritten: client files that are more recent than their stored rows.
    ///   - sessions: in a shared store, the newest sessions of this node.
    ///   - time: seconds since 1970, at least 1.
    init(
        of queue: UploadQueue, continuing kept: consuming Current?, at head: FileHead, state: ObjectGraph?,
        unwritten: [ClientFileID: ClientFile], sessions: [ClientFileID: UInt64]?, versionSalt: Salt, time: UInt64,
        options: MergeOptions
    ) {
        waiting = queue.joined(bytesMax: options.commitBytesMax)[...]
        self.kept = kept
        self.head = head
        let limits = ApplyLimits(
            objectBytesMax: options.objectBytesMax, loadedBytesMax: options.appliedBytesMax)
        self.state = state.map { PendingState($0, within: limits) }
        room = CommitRoom(bytes: options.commitBytesMax, loadedBytesMax: options.loadedBytesMax)
        self.unwritten = unwritten
        self.sessions = sessions
        self.versionSalt = versionSalt
        self.time = time
        self.options = options
    }

    /// The entries that were merged.
    var entries: [LogEntry] { added.entries }

    /// The memory that the integration occupies in addition to the uploads, in bytes.
    var memoryBytes: Int {
        let shared = decodedEntries.arena.memoryBytes + (state?.loadedBytes ?? 0)
        switch current {
        case .some(let client): return client.merge.memoryBytes + shared
        case nil: return shared
        }
    }

    /// Continues until the step is over. A merge that takes longer leaves the integration (`takeUnfinished`).
    /// - Parameter view: the file; its log ends where it did when the integration began.
    /// - Returns: whether everything that the commit takes is merged.
    mutating func advance(over view: any FileView, until limit: inout StepLimit) -> Bool {
        var log = PendingLog(continuing: view, head: head)
        swap(&log.added, &added)
        defer { swap(&log.added, &added) }
        while var client = nextClient(past: &log) {
            log.view = client.generation.map { LineageView($0, in: view) } ?? view
            let name = client.watched
            options.watch?.begin(name, at: time)
            do throws(HistoryError) {
                switch try client.merge.advance(
                    past: log, sharing: &decodedEntries, into: &state, room: &room, until: &limit)
                {
                case .paused:
                    options.watch?.pause(name)
                    return pause(client)
                case .onlyFirst(let count):
                    restart(&client, with: client.changesets.prefix(count))
                    current = consume client
                case .merged:
                    try keepSchema(of: client, in: view)
                    finish(client, in: &log)
                    if let name { watched.append(name) }
                }
                options.watch?.pause(name)
            } catch {
                report.entriesVisited += client.merge.entriesVisited
                do throws(HistoryError) {
                    guard let changesets = try completed(client, after: error, in: view) else { throw error }
                    client.hasWithheldSchema = true
                    client.changesets = changesets
                    restart(&client, with: changesets)
                    current = consume client
                    options.watch?.pause(name)
                } catch {
                    state = client.stateBefore?.restored()
                    refuse(client.file.ident, because: error)
                    options.watch?.end(name)
                }
            }
        }
        return true
    }

    /// The numbers of steps after which a commit ends with the next run, and after which it does without a run that
    /// takes long.
    private static let steps = (enough: 2, tooMany: 4)

    /// - Returns: whether the integration is over.
    private mutating func pause(_ client: consuming Current) -> Bool {
        if client.merge.mergedCount == 0 {
            // It has left nothing in the state, and can go on past a longer log.
            if client.isLong, !client.merge.isOvertaken {
                unfinished = consume client
                return true
            }
            (client.isLong, room.bytes) = (true, 0)
            current = consume client
            return false
        }
        pauseCount += 1
        if pauseCount >= Self.steps.enough {
            room.bytes = 0
            overdue = client.file.ident
        }
        if pauseCount >= Self.steps.tooMany, client.merge.isWithinRun {
            restart(&client, with: client.changesets.prefix(client.merge.mergedCount))
        }
        current = consume client
        return false
    }

    /// The client whose merge has taken longer than a step. It has left nothing in the commit.
    mutating func takeUnfinished() -> Current? { unfinished.take() }

    /// The client whose merge is under way, if it has left nothing in the commit. To be called when that is given up.
    mutating func takeBegun() -> Current? {
        guard let client = current.take(), client.merge.mergedCount == 0 else { return nil }
        return client
    }

    private mutating func restart(_ client: inout Current, with changesets: ArraySlice<UploadedChangeset>) {
        state = client.stateBefore?.restored()
        client.merge = ClientMerge(
            of: changesets, from: client.file.ident, options: options, isOfLog: client.generation == nil)
    }

    // MARK: Withheld schemas

    /// Puts the withheld part of a client's schema before its changesets, which may need it if the client first
    /// uploaded while its user might only read.
    /// - Returns: the client's changesets, the first one beginning with that part; nil if that does not help.
    private func completed(
        _ client: borrowing Current, after error: HistoryError, in view: any FileView
    ) throws(HistoryError) -> ArraySlice<UploadedChangeset>? {
        guard error.code == .badChangeset, !client.hasWithheldSchema, var first = client.changesets.first else {
            return nil
        }
        let withheld = try withheldSchemas(of: client, in: view)
        guard !withheld.isEmpty else { return nil }
        first.changeset = try ChangesetArena.joined(withheld + [first.changeset])
        return [first] + client.changesets.dropFirst()
    }

    private func withheldSchemas(
        of client: borrowing Current, in view: any FileView
    ) throws(HistoryError) -> [[UInt8]] {
        let ident = client.file.ident
        let kept = if let schema = withheldSchemas[ident] { schema } else { try view.withheldSchema(of: ident) }
        return (kept.isEmpty ? [] : [kept]) + client.uploads.upload.withheldSchemas
    }

    /// Keeps the withheld part of the client's schema with the entry that acknowledges it; or removes it, once the log
    /// has it.
    private mutating func keepSchema(of client: borrowing Current, in view: any FileView) throws(HistoryError) {
        if client.hasWithheldSchema {
            withheldSchemas[client.file.ident] = []
        } else if !client.uploads.upload.withheldSchemas.isEmpty {
            let schema = try ChangesetArena.joined(try withheldSchemas(of: client, in: view))
            if schema.count <= Upload.withheldSchemaBytesMax { withheldSchemas[client.file.ident] = schema }
        }
    }

    /// Refuses a client. It leaves no trace, and the others go on as if it had not been there: also when the store
    /// cannot read the entries that its changesets have to be merged with, for the others need different ones.
    private mutating func refuse(_ ident: ClientFileID, because error: HistoryError) {
        report.outcomes.append(ClientOutcome(ident: ident, newVersions: 0, refusal: error))
    }

    private mutating func nextClient(past log: inout PendingLog) -> Current? {
        if let client = current.take() { return client }
        while room.isLeft(beside: state), let uploads = waiting.popFirst() {
            do {
                return try begin(uploads, past: &log)
            } catch {
                refuse(uploads.ident, because: error)
            }
        }
        return nil
    }

    private mutating func begin(_ uploads: JoinedUploads, past log: inout PendingLog) throws(HistoryError) -> Current {
        let (ident, upload) = (uploads.ident, uploads.upload), view = log.stored
        let found = if let file = unwritten[ident] { file } else { try view.clientFile(ident) }
        guard var file = found, file.salt != 0 else {
            throw HistoryError(.badClientFileIdent, "there is no client file \(ident)")
        }
        try require(!file.isExpired, .clientFileExpired, "the client file has expired")
        try require(
            sessions.map { $0[ident] == file.session } ?? true, .superseded, "the client has come to another node")
        // Its own changes are in no generation yet, but will be in the next one.
        if file.lineage == .none {
            file.lineage = try view.chosenLineage()
            choosesLineage = true
        }
        // A changeset can be in the log already, by an earlier commit for a part of the upload, or if the store made a
        // commit durable and then failed to report it.
        let changesets = upload.changesets.drop { $0.cursor.clientVersion <= file.uploadCursor.clientVersion }
        var generation: Generation?
        if let base = changesets.first?.cursor.serverVersion { generation = try view.generation(of: file, after: base) }
        try check(changesets, of: upload, after: file.uploadCursor, log.version)
        if let generation { try check(changesets, in: generation) }
        log.added.indexEntries()
        if var client = kept.take(), client.canContinue(file, generation) {
            (client.file, client.stateBefore) = (file, state)
            client.merge.resume(sharing: decodedEntries)
            // The commit ends with its run, which is not merged again because of what follows.
            room.bytes = 0
            return client
        }
        return Current(
            uploads: uploads, file: file, generation: generation, changesets: changesets, stateBefore: state,
            watched: try options.watch?.check(changesets, from: ident, at: time),
            merge: ClientMerge(of: changesets, from: ident, options: options, isOfLog: generation == nil))
    }

    private mutating func finish(_ client: consuming Current, in log: inout PendingLog) {
        var file = client.file
        let merged = client.merge.merged
        log.added.append(merged, of: client.uploads, after: head, versionSalt: versionSalt, at: time)
        let newest = log.added.entries.suffix(merged.count).last { $0.origin == file.ident }
        file.record(newest)
        let upload = client.uploads.upload, last = client.changesets.last?.cursor.clientVersion
        let isWhole = client.merge.mergedThrough?.clientVersion == last
        if isWhole {
            file.advance(to: upload.progress, lockedVersion: upload.lockedVersion)
        } else if let cursor = client.merge.mergedThrough {
            file.advance(to: cursor, lockedVersion: 0)
        }
        if file != client.file {
            file.seen(at: time)
            clientFiles.append(file)
        }
        for reciprocal in client.merge.reciprocals(after: file.uploadCursor.serverVersion) {
            reciprocals.append(ReciprocalChange(ident: file.ident, reciprocal: reciprocal))
        }
        report.entriesVisited += client.merge.entriesVisited
        report.outcomes.append(
            ClientOutcome(
                ident: file.ident, newVersions: merged.count - client.merge.restoringCount, refusal: nil,
                skippedInstructions: client.merge.skippedInstructions,
                entriesRestoringNulls: client.merge.restoringCount))
        report.uploadsDone[file.ident] = client.uploads.count(
            upTo: isWhole ? .largest : file.uploadCursor.clientVersion)
    }

    /// Makes a commit of everything that was computed.
    /// - Parameter nextIdent: of the head as it is now. Client files may have been made since the integration began.
    func commit(to file: SyncedFileID, _ lease: Lease, nextIdent: ClientFileID) -> Commit {
        var head = head
        head.nextIdent = max(head.nextIdent, nextIdent)
        var commit = Commit(file: file, lease: lease, head: head)
        commit.entries = added.entries
        commit.conflictKeys = added.conflictKeys
        commit.received = added.received
        commit.reciprocals = reciprocals
        commit.clientFiles = clientFiles
        commit.withheldSchemas = withheldSchemas
        commit.choosesLineage = choosesLineage
        if let state, let last = added.entries.last { commit.state = state.update(to: last.version) }
        return commit
    }

    /// Checks what a session guarantees, for callers that have no session; and the origin, which is checked only here.
    private func check(
        _ changesets: ArraySlice<UploadedChangeset>, of upload: Upload, after integrated: UploadCursor,
        _ newest: ServerVersion
    ) throws(HistoryError) {
        try require(
            upload.progress.serverVersion <= newest && upload.lockedVersion <= newest, .badServerVersion,
            "the upload speaks of server versions that do not exist")
        var previous = integrated
        for changeset in changesets {
            try require(changeset.origin == 0, .badOriginFileIdent, "a changeset of client file \(changeset.origin)")
            let cursor = changeset.cursor
            try require(
                cursor.clientVersion > previous.clientVersion && cursor.clientVersion <= upload.progress.clientVersion,
                .badClientVersion, "client version \(cursor.clientVersion) is out of order")
            try require(
                cursor.serverVersion >= previous.serverVersion && cursor.serverVersion <= newest,
                .badServerVersion, "base \(cursor.serverVersion) is out of order")
            previous = cursor
        }
    }
}

extension Integration {
    /// Checks that changesets made in the middle of a generation are made on one of its entries.
    private func check(
        _ changesets: ArraySlice<UploadedChangeset>, in generation: Generation
    ) throws(HistoryError) {
        for base in changesets.lazy.map(\.cursor.serverVersion) {
            try require(
                generation.canEnd(at: base), .badServerVersion, "base \(base) is not a place in the client's generation"
            )
        }
    }
}

extension Integration.Current {
    /// True if nothing has happened to the client since its merge was set aside but that others have written. What it
    /// meets has not been trimmed: its generation has it, or the log, which does not begin after its changesets.
    fileprivate func canContinue(_ file: ClientFile, _ generation: Generation?) -> Bool {
        self.file.uploadCursor == file.uploadCursor && self.generation == generation
    }
}

extension ClientFile {
    /// - Parameter entry: the newest entry that was made of the upload.
    fileprivate mutating func record(_ entry: LogEntry?) {
        guard let entry else { return }
        newestReceipt = Receipt(version: entry.version, clientVersion: entry.clientVersion)
    }

    /// Advances the cursors (section 6, steps 9 and 10): none ever moves back. A client file that no longer needs its
    /// generation switches to the log, which is the same from there on; so does a copy that has come so far that it
    /// needs no other beginning.
    mutating func advance(to progress: UploadCursor, lockedVersion: ServerVersion) {
        if progress.clientVersion > uploadCursor.clientVersion {
            uploadCursor.clientVersion = progress.clientVersion
            uploadCursor.serverVersion = max(uploadCursor.serverVersion, progress.serverVersion)
        }
        self.lockedVersion = max(self.lockedVersion, lockedVersion)
        switch lineage {
        case .generation(let version), .copy(let version):
            if min(uploadCursor.serverVersion, self.lockedVersion) >= version { lineage = .log }
        case .none, .log, .view: break
        }
    }
}
