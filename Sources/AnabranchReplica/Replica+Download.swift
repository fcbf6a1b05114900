public import AnabranchCore

// The downloads of a session (`Spec/History.md`, section 12.3). `ClientSession` has checked the cursors.

extension Replica {
    /// Takes the ident that the server has given the file. Earlier changes are rewritten with it, as far as objects
    /// have GlobalKeys (`Spec/State.md`, A2).
    public mutating func identify(as file: SaltedFileID) throws {
        guard record.file == nil else { throw ReplicaError(.notAllowed, "the file has its ident already") }
        var change = Change(self)
        change.commit.record.file = file
        try adoptGlobalKeys(as: file.ident, &change)
        try carryOut(change)
    }

    /// Records that a MARK was answered: everything is here that the server had when it was sent.
    public mutating func downloaded() throws {
        guard !record.hasSynced, record.subscriptions?.latest.isSettled ?? true else { return }
        var change = Change(self)
        change.commit.record.hasSynced = true
        try carryOut(change)
    }

    private func adoptGlobalKeys(as ident: ClientFileID, _ change: inout Change) throws {
        var adopted: [(version: LocalVersion, changeset: [UInt8])] = []
        var entries: [(version: LocalVersion, changeset: [UInt8])] = []
        for version in log.versions where version.bytes > 0 {
            let changeset = try ReplicaError.catching { try store.changeset(of: version.number) }
            entries.append((version, changeset))
            var arena = ChangesetArena()
            let index = try arena.decode(changeset, version: 1, tag: OriginTag(timestamp: 0, ident: 0))
            guard arena.adoptGlobalKeys(as: ident, in: index) else { continue }
            var rewritten = entries[entries.count - 1]
            rewritten.changeset = arena.encoded(index)
            rewritten.version.bytes = rewritten.changeset.count
            entries[entries.count - 1] = rewritten
            adopted.append(rewritten)
        }
        guard !adopted.isEmpty else { return }
        change.commit.written += adopted
        for (version, _) in adopted { change.log.replace(version) }
        try rebuildState(of: entries.map(\.changeset), &change)
    }

    /// Rebuilds the state from the changesets of the log: everything in it was written here.
    private func rebuildState(of changesets: [[UInt8]], _ change: inout Change) throws {
        guard behaviour.keepsState else { return }
        (change.state, change.emptiedRows) = try state.emptied()
        change.commit.erasesState = true
        var changes = StateChanges()
        for changeset in changesets {
            var arena = ChangesetArena()
            let index = try arena.decode(changeset, version: 1, tag: OriginTag(timestamp: 0, ident: 0))
            changes.append(try apply([index], of: &arena, to: &change.state))
        }
        change.commit.state = try change.state.rowWrites(of: changes, noting: recordingDepth)
    }

    /// A DOWNLOAD as several ones, each with the progress of its last changeset: a commit has the objects that it
    /// changes in memory, and an object takes much more there than the instruction that erases it takes in a message.
    ///
    /// Only by partition, once everything was here that the server had: before, a place between two changesets may be
    /// within a generation, of which the progress has to tell (`Spec/BoundedHistory.md`, section 4).
    package func parts(of download: Download, as kind: DownloadKind) -> [Download] {
        guard kind == .steady, record.hasSynced, record.subscriptions == nil else { return [download] }
        var parts: [Download] = [], changesets: [DownloadedChangeset] = [], bytes = 0
        for changeset in download.changesets.dropLast() {
            changesets.append(changeset)
            bytes += changeset.changeset.count
            guard bytes >= behaviour.commitBytes else { continue }
            var progress = download.progress
            progress.cursor = changeset.cursor
            progress.downloadableBytes = max(1, progress.downloadableBytes)
            parts.append(Download(progress: progress, changesets: changesets))
            (changesets, bytes) = ([], 0)
        }
        changesets += download.changesets.suffix(1)
        return parts + [Download(progress: download.progress, changesets: changesets)]
    }

    /// Merges each changeset with the local changes that the server had not seen, and applies it.
    ///
    /// - Parameter kind: The kind of download; a bootstrap is stored until its last part has arrived, and then
    ///   integrated as a whole.
    /// - Returns: the changes of the state.
    /// - Throws: `ReplicaError` with the code `badDownload`, `changesetTooLarge` or, for a failure that is not the
    ///   server's, `storeFailed`. The replica stays as it was.
    @discardableResult
    public mutating func integrate(_ download: Download, as kind: DownloadKind = .steady) throws -> StateChanges {
        switch kind {
        case .steady: return try integrate(download, onMerged: nil)
        case .bootstrap(let version, let isLast): return try integrate(download, ofBootstrap: version, isLast: isLast)
        }
    }

    /// - Parameter onMerged: receives the server version of each entry, and the form in which it was applied.
    @discardableResult
    package mutating func integrate(
        _ download: Download, onMerged: ((ServerVersion, [UInt8]) -> Void)?
    ) throws -> StateChanges {
        var change = Change(self)
        let changes = try store.readTogether { try merge(download, into: &change, onMerged) }
        try carryOut(change)
        return changes
    }

    func merge(
        _ download: Download, into change: inout Change, _ onMerged: ((ServerVersion, [UInt8]) -> Void)? = nil
    ) throws -> StateChanges {
        var changes = StateChanges()
        do {
            var merge = LogMerge(download.changesets.map { LogMerge.Incoming($0) }, strategy: behaviour.strategy)
            var indices: [UInt64: ChangesetIndex] = [:]
            while try merge.beginRun() {
                let versions = log.versions(after: ClientVersion(rawValue: merge.base)).filter { $0.bytes > 0 }
                let entries = Dictionary(uniqueKeysWithValues: versions.map { ($0.number.rawValue, $0) })
                try merge.begin(meeting: versions.map(\.number.rawValue)) { number, arena throws in
                    guard let version = entries[number] else { throw ReplicaError(.damaged, "no version \(number)") }
                    let index = try decode(version, into: &arena)
                    indices[number] = index
                    return index
                }
                if recordsOverruled {
                    let met = versions.compactMap { indices[$0.number.rawValue] }
                    let bytes = merge.run.reduce(0) { $0 + $1.changeset.count }
                    change.overruled.find(met, merge.incoming, ofBytes: bytes, in: merge.arena)
                }
                while try !merge.advance(pairs: behaviour.pairsPerStep) {}
                changes.append(try apply(merge.incoming, of: &merge.arena, to: &change.state))
                guard let onMerged else { continue }
                for (entry, index) in zip(merge.run, merge.incoming) {
                    onMerged(ServerVersion(rawValue: entry.version), merge.encoded(index))
                }
            }
            for (version, changeset) in merge.changedEntries() {
                change.commit.reciprocals.append((ClientVersion(rawValue: version), changeset))
            }
            change.commit.state = try change.state.rowWrites(of: changes, noting: recordingDepth)
        } catch {
            throw ReplicaError(downloading: error)
        }
        advance(to: download.progress, &change)
        return changes
    }

    /// An entry of the log in the form that it has for the server.
    func decode(_ version: LocalVersion, into arena: inout ChangesetArena) throws -> ChangesetIndex {
        let bytes = try ReplicaError.catching {
            try store.reciprocal(of: version.number) ?? store.changeset(of: version.number)
        }
        let tag = OriginTag(timestamp: version.timestamp, ident: ident)
        return try arena.decode(bytes, version: version.number.rawValue, tag: tag)
    }

    /// Takes the server's progress. If the server has advanced, it gets a version of its own, so that an UPLOAD tells
    /// of it.
    private func advance(to progress: DownloadProgress, _ change: inout Change) {
        let old = change.commit.record.progress
        change.commit.record.progress = progress
        if progress.upload.serverVersion == 0 {
            change.commit.record.progress.upload.serverVersion = old.upload.serverVersion
        }
        if progress.cursor.serverVersion > old.cursor.serverVersion { change.append([], at: 0) }
        let confirmed = min(progress.cursor.clientVersion, progress.upload.clientVersion)
        change.log.trim(through: confirmed)
        change.commit.trimmedVersion = confirmed
        if change.commit.record.isRecovering, progress.isComplete,
            (change.log.newestChange?.number ?? 0) <= progress.upload.clientVersion
        {
            change.commit.record.isRecovering = false
        }
    }
}
