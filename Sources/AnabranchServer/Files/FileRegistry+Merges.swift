import AnabranchHistory
import Metrics

/// The merges of a turn, their commit, and its end.
extension FileRegistry {
    /// Whether uploads wait for `commit` or `advanceLongMerge`.
    var hasMerges: Bool { !merges.isEmpty }

    /// Whether a merge of the file has begun and is not committed.
    func isMerging(_ path: VirtualPath) -> Bool { openFiles[path]?.file.isIntegrating ?? false }

    /// Merges uploads that have come in, and commits what is merged in one transaction.
    func commit() -> [FileReply] {
        let start = ContinuousClock.now, limit = beginStep()
        var merged: [FileSessions] = []
        while let sessions = merges.nextNew() {
            if merge(sessions) { merged.append(sessions) }
            if limit.isOver { break }
        }
        commit(merged, since: start)
        return endTurn()
    }

    /// Takes one step of the long merge whose turn it is, and commits it if that was the last one.
    func advanceLongMerge() -> [FileReply] {
        guard let sessions = merges.nextLong() else { return [] }
        let start = ContinuousClock.now
        if merge(sessions) { commit([sessions], since: start) }
        return endTurn()
    }

    private func endTurn() -> [FileReply] {
        defer { activePaths.removeAll(keepingCapacity: true) }
        let replies = takeReplies()
        limitTails()
        noteProgress()
        for sessions in activeFiles where sessions.hasNoSessions {
            if sessions.isIdle {
                forget(sessions)
            } else if sessions.file.hasUnwrittenProgress {
                sessions.file.writeProgressWithNextCommit()
                merges.append(sessions)
            }
        }
        return replies
    }

    /// - Returns: whether everything is merged.
    private func merge(_ sessions: FileSessions) -> Bool {
        activePaths.insert(sessions.file.path)
        do {
            if try sessions.merge(at: unixSeconds(), until: beginStep()) { return true }
            metrics.mergeSteps.increment()
            metrics.mergesDropped.increment(by: merges.appendLong(sessions))
        } catch {
            close(sessions, because: error)
        }
        return false
    }

    /// One transaction for all files of a shard; if it fails, one for each of them, so that a file in trouble does not
    /// stop the others.
    private func commit(_ files: [FileSessions], since start: ContinuousClock.Instant) {
        guard !files.isEmpty else { return }
        var committed: [(sessions: FileSessions, report: IntegrationReport)] = []
        var failed: [Int: [(sessions: FileSessions, error: HistoryError)]] = [:]
        for (sessions, result) in zip(files, SyncedFile.commitIntegrations(of: files.map(\.file))) {
            switch result {
            case .success(let report): committed.append((sessions, report))
            case .failure(let error): failed[sessions.file.shard, default: []].append((sessions, error))
            }
        }
        if !committed.isEmpty { didCommit(committed, since: start) }
        for (_, files) in failed.sorted(by: { $0.key < $1.key }) {
            if let only = files.first, files.count == 1 {
                close(only.sessions, because: only.error)
                continue
            }
            // Anew, because the store may have taken them after all.
            for (sessions, _) in files where merge(sessions) { commit([sessions], since: start) }
        }
    }

    private func didCommit(
        _ files: [(sessions: FileSessions, report: IntegrationReport)], since start: ContinuousClock.Instant
    ) {
        metrics.committed(files.map(\.report), in: start.duration(to: .now))
        let limit = beginStep()
        for (sessions, report) in files {
            sessions.didCommit(report, bodies: &bodies, limits: limits, until: limit)
            for outcome in report.outcomes { log.note(outcome, path: sessions.file.path) }
            if sessions.file.hasQueuedUploads || sessions.file.isProgressDue { merges.append(sessions) }
        }
        retainRecent(files.map(\.sessions.file.path))
    }

    /// Gives long merges up: their clients send the changesets again.
    func dropLongMerges() -> [FileReply] {
        for sessions in merges.takeLong() { end(sessions, because: HistoryError(.storeFailed, "the server ends")) }
        return endTurn()
    }
}
