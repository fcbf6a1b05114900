import AnabranchHistory
import Metrics

/// The commits of turns.
extension FileTurns {
    /// The wait of deferred commits for uploads that are stored with them.
    struct Gathering {
        fileprivate var start: ContinuousClock.Instant?
        /// True if the commits have uploads of clients that did not have to catch up, and soon look for the answer.
        fileprivate var isShort = false
    }

    /// The least number of clients with uploads that deferred commits wait for, and the longest waits, in milliseconds.
    private static let gatheredClientsMin = 8, gatheringMillisecondsMax = 100, shortGatheringMillisecondsMax = 10

    /// True while deferred commits wait for more: uploads of many clients are stored together, each of which would
    /// otherwise be a commit, since a turn is short. During that time nothing is done with the file that has a commit
    /// of its own.
    var isGathering: Bool {
        guard pending == nil, let sessions, let flexible = sessions.flexible, sessions.file.isAhead,
            flexible.waitingClientCount >= Self.gatheredClientsMin, !flexible.isDraftFull, jobs.isEmpty,
            !sessions.hasClientFileRequests, !sessions.file.isProgressDue, !isMaintenanceWaiting, !environment.isEnding
        else { return false }
        let now = environment.options.instant(), start = gathering.start ?? now
        gathering.start = start
        let longest = gathering.isShort ? Self.shortGatheringMillisecondsMax : Self.gatheringMillisecondsMax
        return now - start < .milliseconds(min(flexible.waitingClientCount / 2, longest))
    }

    /// Delivers the replies, unless they may report a deferred commit: then they wait until it is stored.
    func deliverUnlessAhead() { if sessions?.file.isAhead != true { deliverReplies() } }

    func completed(_ commit: Commit, of file: SyncedFile) -> Commit {
        let completed = file.completed(commit)
        if let failure = file.takeObserverFailure() { environment.log.write(failure, path: path) }
        return completed
    }

    var hasUnwrittenProgress: Bool { sessions?.file.hasUnwrittenProgress ?? false }

    func updateClientFiles() {
        guard pending == nil, let sessions, sessions.hasClientFileRequests else { return }
        let users = sessions.usersWithoutIdent()
        do throws(HistoryError) {
            areUploadsNext = true
            let commit = try sessions.file.changedClientFiles(users, at: environment.clock.seenTime)
            store(commit) { [self] sessions, failure in
                guard let failure else { return sessions.didAllocate(commit.newIdents(users.count)) }
                didNotUpdateClientFiles(of: users, failure)
            }
        } catch {
            didNotUpdateClientFiles(of: users, error)
        }
    }

    private func didNotUpdateClientFiles(of users: [String?], _ error: HistoryError) {
        guard let error = resolved(error) else { return }
        // No session depends on the note of when client files were last seen.
        if users.isEmpty { environment.log.write(error, path: path) } else { close(because: error) }
    }

    /// Stores the progress of clients that came in UPLOADs without changesets.
    func writeDueProgress() {
        guard pending == nil, let file = sessions?.file, file.isProgressDue else { return }
        do throws(HistoryError) {
            guard let commit = try file.progressCommit() else { return }
            store(commit) { [self] _, failure in if let failure { closeUnlessResolved(failure) } }
        } catch {
            closeUnlessResolved(error)
        }
    }

    /// Merges uploads until the step is over, and has them stored once the merge is finished.
    /// - Parameter isLong: whether it continues an unfinished merge.
    func merge(until limit: StepLimit, isLong: Bool = false) {
        guard pending == nil, let sessions else { return }
        if let flexible = sessions.flexible { return merge(into: flexible, of: sessions, until: limit, isLong: isLong) }
        let start = ContinuousClock.now
        do throws(HistoryError) {
            let isMerged = try sessions.merge(until: limit, isLong: isLong)
            let merged = isMerged ? sessions.file.takeMerged() : nil
            recordLongMerge()
            guard let merged else { return environment.metrics.mergeSteps.increment() }
            areUploadsNext = false
            store(merged.commit) { [self] sessions, failure in
                switch sessions.file.finish(merged, failure) {
                case .success(let report): didCommit(report, of: sessions, since: start)
                case .failure(let error): closeUnlessResolved(error)
                }
            }
        } catch {
            closeUnlessResolved(error)
        }
    }

    private func didCommit(
        _ report: IntegrationReport, of sessions: FileSessions, since start: ContinuousClock.Instant
    ) {
        guard !report.outcomes.isEmpty else { return environment.metrics.mergeSteps.increment() }
        maintenance.mergeCount += 1
        environment.metrics.committed(report, in: start.duration(to: .now))
        sessions.didCommit(report, until: environment.beginStep())
        for outcome in report.outcomes { environment.log.write(outcome, path: path) }
    }

    private func merge(into flexible: FlexibleFile, of sessions: FileSessions, until limit: StepLimit, isLong: Bool) {
        environment.metrics.mergeSteps.increment()
        if environment.store.isShared { areUploadsNext = false }
        do throws(HistoryError) {
            let isAwaited = try sessions.integrateViews(into: flexible, until: limit, isLong: isLong)
            recordLongMerge()
            if isAwaited, sessions.file.isAhead { gathering.isShort = true }
        } catch {
            close(because: error)
        }
    }

    /// Searches for the objects that clients of flexible sync see, until the step is over.
    /// - Parameter isLong: whether it continues an unfinished search.
    func search(until limit: StepLimit, isLong: Bool = false) {
        guard pending == nil, let sessions, let flexible = sessions.flexible else { return }
        if isLong, environment.isEnding { return end(because: HistoryError(.storeFailed, "the server ends")) }
        do throws(HistoryError) {
            try sessions.search(in: flexible, until: limit, isLong: isLong)
        } catch {
            close(because: error)
        }
    }

    /// Makes views follow roles that have changed, until the step is over.
    func changeViews(until limit: StepLimit) {
        guard pending == nil, let sessions else { return }
        if environment.isEnding { return end(because: HistoryError(.storeFailed, "the server ends")) }
        do throws(HistoryError) {
            try sessions.changeViews(until: limit)
        } catch {
            close(because: error)
        }
    }

    /// True while merges have begun, and are not committed.
    var isMerging: Bool {
        guard let sessions else { return false }
        return sessions.flexible?.hasLongUploads ?? (sessions.file.isIntegrating || sessions.file.hasLongUploads)
    }

    var hasNewUploads: Bool {
        guard let sessions else { return false }
        return sessions.flexible?.hasNewUploads ?? (sessions.file.hasNewUploads && !sessions.file.isIntegrating)
    }

    func recordLongMerge() {
        let bytes = sessions?.mergeBytes ?? 0
        guard bytes > 0 || isLongMerge else { return }
        isLongMerge = bytes > 0
        for path in environment.longMerges.record(path, bytes) { notify(path, .dropMerge) }
    }
}
