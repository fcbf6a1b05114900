package import AnabranchCore

/// One node among several that write the file (`Spec/Nodes.md`). All work of a node is based on its head: reading
/// anything of another head fails with `conflict`, and so does a commit that is based on one. Then the node takes in
/// the changes, and repeats the work.
extension SyncedFile {
    /// Takes in changes by other nodes. Sessions, queued uploads and the newest entries stay; an integration under way
    /// that is based on an older head is dropped, and its uploads stay queued. Costs one read if nothing is new, and
    /// nothing if the store is not shared.
    /// - Throws: `leaseLost` if the file was deleted or restored: it has to be opened again; a failure of the store.
    package func follow() throws(HistoryError) {
        guard isShared else { return }
        let isUncertain = hasConflict || isStateUncertain
        let wish: NewsRequest.StateWish = keepsState ? (isUncertain ? .always : .ifChanged) : .never
        let news = try store.news(
            of: id, NewsRequest(head: head, bytesMax: tail?.bytesMax ?? 0, stateWish: wish))
        try checkContinuation(news.continues)
        if news.head.isSame(as: head), !isUncertain { return keep(news.head) }
        try takeIn(news.head, news.entries, news.state)
        return try renewProgress()
    }

    /// - Parameter continues: whether the log goes on from the head that the node knows; nil if no entry is left that
    ///   tells. Then the lease does: it is another one after a restoration.
    private func checkContinuation(_ continues: Bool?) throws(HistoryError) {
        var isSame = continues ?? false
        if continues == nil {
            let opened = try store.open(path)
            isSame = opened.id == id && opened.lease == lease
            store.close(opened.id, opened.lease)
        }
        guard isSame else { throw HistoryError(.leaseLost, "the file was deleted or restored") }
    }

    /// Takes over what no reading of the log depends on.
    private func keep(_ now: FileHead) {
        head = now
        tail?.keep(now)
    }

    private func takeIn(_ now: FileHead, _ entries: [LogEntry], _ state: ObjectGraph?) throws(HistoryError) {
        guard state == nil || now.stateVersion == now.version else {
            throw HistoryError(.leaseLost, "another node keeps no state of the file")
        }
        dropIntegration()
        followedCount += now.version.rawValue - head.version.rawValue
        if now.version > head.version, hasQueuedUploads { overtakenCount = min(overtakenCount + 1, Self.overtakenMax) }
        if now.bounds == head.bounds {
            try tail?.takeIn(entries, now)
        } else {
            tail = tail.map { _ in LogTail(at: now, bytesMax: tailBytesMax) }
        }
        (head, knownGenerations, times) = (now, nil, nil)
        releaseScans()
        if let state { self.state = state }
        (isStateUncertain, hasConflict) = (false, false)
    }

    private static let overtakenMax = 6

    /// The size of the uploads that one commit takes. It shrinks while other nodes write before this one is done: the
    /// more had come together meanwhile, the longer each merge of all would take, and none would ever be committed.
    var commitBytesMax: Int { max(1, mergeOptions.commitBytesMax >> (4 * max(0, overtakenCount - 1))) }

    /// The number of times that something is tried while others write.
    static let triesMax = 1_000

    /// Calls `body`, and once more whenever others have written in between.
    func retrying<Result>(_ body: () throws(HistoryError) -> Result) throws(HistoryError) -> Result {
        for _ in 0..<Self.triesMax {
            do throws(HistoryError) { return try body() } catch {
                guard error.code == .conflict else { throw error }
                try follow()
            }
        }
        throw HistoryError.othersWriteAlways
    }

    /// A commit of this node did not fit: nothing was changed, neither in the store nor here.
    func didNotFit() {
        hasConflict = true
        times = nil
        tail?.forgetClients()
        dropIntegration()
    }

    /// The commit with the numbers that rows get with it.
    func revised(_ commit: Commit) -> Commit {
        guard isShared else { return commit }
        var commit = commit
        for index in commit.clientFiles.indices {
            commit.clientFiles[index].revision += 1
            if unwrittenChoices.contains(commit.clientFiles[index].ident) { commit.choosesLineage = true }
        }
        return commit
    }

    // MARK: Sessions

    /// Finds out whether a session that begins now follows one of this node's. If not, what earlier ones have left here
    /// goes: the client has brought it elsewhere, or brings it again.
    /// - Returns: whether the session has to be noted in the client file.
    func beginSession(of ident: ClientFileID) throws(HistoryError) -> Bool {
        let found = try store.read(id) { [head] view throws(HistoryError) in
            try view.requireHead(head, of: id)
            return try view.clientFile(ident)
        }
        guard let file = found else { return false }
        tail?.forget(ident)
        superseded.remove(ident)
        let isOwn = ownSessions[ident] == file.session
        if !isOwn || unwritten[ident]?.revision != file.revision { forgetProgress(of: ident) }
        if !isOwn { dropUploads(of: ident) }
        return !isOwn
    }

    private func forgetProgress(of ident: ClientFileID) {
        unwritten[ident] = nil
        unwrittenChoices.remove(ident)
    }

    private func dropUploads(of ident: ClientFileID) {
        let counts = queue.counts(from: [ident])
        guard !counts.isEmpty else { return }
        dropIntegration()
        queue.remove(counts)
        dropped.merge(counts, uniquingKeysWith: +)
    }

    /// Puts unwritten progress on top of rows as they are now. Lineages are chosen again.
    private func renewProgress() throws(HistoryError) {
        guard hasUnwrittenProgress else { return }
        let before = unwritten
        (unwritten, unwrittenChoices) = ([:], [])
        let rows = try retrying { () throws(HistoryError) in
            try store.read(id) { [head] view throws(HistoryError) in
                try view.requireHead(head, of: id)
                return try view.clientFiles(before.keys.sorted())
            }
        }
        for var file in rows where !file.isExpired {
            guard let known = before[file.ident], isOwnSession(of: file) else { continue }
            let stored = file
            file.advance(to: known.uploadCursor, lockedVersion: known.lockedVersion)
            guard file != stored else { continue }
            file.seen(at: max(file.lastSeen, known.lastSeen))
            unwritten[file.ident] = file
        }
    }

    /// Forgets the sessions of client files that have none here any more, and have left nothing: when their clients
    /// come back, new ones are noted.
    /// - Parameter idents: the client files that have one, or uploads that wait.
    package func forgetSessions(butOf idents: Set<ClientFileID>) {
        ownSessions = ownSessions.filter { ident, _ in
            idents.contains(ident) || unwritten[ident] != nil || queue.progress(of: ident) != nil
        }
    }

    /// True if the newest session of a client file is one of this node's; otherwise that is noted.
    func isOwnSession(of file: ClientFile) -> Bool {
        guard isShared, ownSessions[file.ident] != file.session else { return true }
        superseded.insert(file.ident)
        return false
    }

    /// The client files whose sessions here have ended, because there are newer ones at other nodes.
    package func takeSuperseded() -> [ClientFileID] {
        defer { superseded = [] }
        return superseded.sorted()
    }

    /// The numbers of uploads that were dropped, by client file.
    package func takeDropped() -> [ClientFileID: Int] {
        defer { dropped = [:] }
        return dropped
    }
}

extension HistoryError {
    static let othersWriteAlways = HistoryError(.storeFailed, "other nodes write all the time")
}

/// A view of a store that is far away: what is asked for together costs one round trip.
package protocol DistantView: FileView {
    /// Has the reading fail with `conflict` if the head is another one: at the latest when it ends, and before any row
    /// is returned.
    func expect(_ head: FileHead) throws(HistoryError)

    /// The rows of those of some client files that there are, in the order of their idents.
    func rows(of idents: [ClientFileID]) throws(HistoryError) -> [ClientFile]
}

extension FileView {
    /// Refuses to answer for another head than the one that the caller knows.
    func requireHead(_ head: FileHead, of file: SyncedFileID) throws(HistoryError) {
        if let view = self as? any DistantView { return try view.expect(head) }
        guard try self.head().isSame(as: head) else { throw .conflict(of: file, "the log") }
    }

    /// - Parameter idents: ascending.
    fileprivate func clientFiles(_ idents: [ClientFileID]) throws(HistoryError) -> [ClientFile] {
        if let view = self as? any DistantView { return try view.rows(of: idents) }
        return try idents.map { ident throws(HistoryError) in try clientFile(ident) }.compactMap { $0 }
    }
}
