public import AnabranchCore

/// UPLOADs without changesets, which only report a client's progress. The server promises nobody to keep it: it stays
/// in memory and is written with another commit of the file, or by `writeProgress` (`Spec/Durability.md`, section 1). A
/// DOWNLOAD reports what is stored.
extension SyncedFile {
    /// True while progress is not written yet.
    public var hasUnwrittenProgress: Bool { !unwritten.isEmpty }

    /// Records what `SessionProgress.accept` has left of an upload without changesets.
    /// - Parameter time: seconds since 1970.
    /// - Returns: false if it has to be queued: it has changesets, follows a queued upload, or must be refused.
    /// - Throws: a failure of the store.
    public func recordProgress(
        _ upload: Upload, from ident: ClientFileID, at time: UInt64
    ) throws(HistoryError) -> Bool {
        guard upload.changesets.isEmpty, queue.progress(of: ident) == nil,
            upload.progress.serverVersion <= version, upload.lockedVersion <= version
        else { return false }
        let found = try retrying { () throws(HistoryError) in
            try read(missesTail: false) { view throws(HistoryError) in try current(ident, in: view) }
        }
        guard var file = found, file.salt != 0, !file.isExpired else { return false }
        guard isOwnSession(of: file) else { return true }
        let before = file
        file.advance(to: upload.progress, lockedVersion: upload.lockedVersion)
        if file != before {
            file.seen(at: max(1, time))
            unwritten[ident] = file
        }
        return true
    }

    /// Writes all unwritten progress.
    /// - Throws: a failure of the store. Then the progress is forgotten, like a message that got lost.
    public func writeProgress() throws(HistoryError) {
        try retrying { () throws(HistoryError) in while let commit = try progressCommit() { try self.commit(commit) } }
    }

    /// A commit of nothing but unwritten progress, or a part of it if it is much; nil if everything is written.
    /// - Throws: a failure of the store.
    package func progressCommit() throws(HistoryError) -> Commit? {
        guard hasUnwrittenProgress else { return nil }
        writeProgressWithNextCommit()
        let head = try read(missesTail: false) { view throws(HistoryError) in try view.head() }
        return Commit(file: id, lease: lease, head: head)
    }

    /// Makes the next commits of the file, even empty ones, write the unwritten progress.
    package func writeProgressWithNextCommit() { allProgressIsDue = true }

    /// A client file as it is, written or not.
    func current(_ ident: ClientFileID, in view: any FileView) throws(HistoryError) -> ClientFile? {
        if let file = unwritten[ident] { return file }
        return try view.clientFile(ident)
    }

    /// The number of client files whose progress every commit takes along: the rows of a few clients cost less than a
    /// commit of their own. Those of many would delay it.
    private static let carriedCountMax = 64
    /// The number of client files whose progress one commit takes along when it is due; the next commit takes more.
    static let writtenCountMax = 512

    /// Adds unwritten progress to a commit that does not have it.
    func withProgress(_ commit: Commit) -> Commit {
        guard isProgressDue || unwritten.count <= Self.carriedCountMax, hasUnwrittenProgress else { return commit }
        var commit = commit
        var files: [ClientFileID: ClientFile] = [:]
        for ident in unwritten.keys.sorted().prefix(Self.writtenCountMax) { files[ident] = unwritten[ident] }
        for file in commit.clientFiles { files[file.ident] = file }
        commit.clientFiles = files.values.sorted { $0.ident < $1.ident }
        return commit
    }

    func progressWritten(by commit: Commit) {
        guard hasUnwrittenProgress else { return allProgressIsDue = false }
        for file in commit.clientFiles {
            unwritten[file.ident] = nil
            unwrittenChoices.remove(file.ident)
        }
        if unwritten.isEmpty { allProgressIsDue = false }
    }
}
