import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import Metrics
import NIOCore

/// The work that waits for one synced file, and the turns that do it. A turn takes one step of time
/// (`FileEnvironment.stepMillisecondsMax`) and the rest of the job, request or merge under way, or ends with a commit:
/// the next turn comes when that is stored. There are two kinds:
/// - short turns, for cheap work: jobs, requests, scans of sessions that ask for the newest entries, new client files,
///   and the first step of a merge;
/// - long turns, while no such work waits: one more step of a merge, scans of sessions that catch up, a step of
///   maintenance. Where there is always cheap work, some short turns also do some of this.
///
/// It opens the file when a session needs it, and closes it when none does. It belongs to one thread at a time.
final class FileTurns {
    let path: VirtualPath
    let environment: FileEnvironment
    private let memory: DownloadMemory
    let notify: (VirtualPath, FileNotice) -> Void
    private let deliver: (TurnReplies) -> Void
    private(set) var sessions: FileSessions?
    private(set) var jobs = CircularBuffer<FileJob>(initialCapacity: 1)
    // Slices of arrays would keep the removed elements.
    private var requests = CircularBuffer<FileRequest>(initialCapacity: 1)
    /// IDENTs with long sets of queries, which take some time to read, and what their sessions ask for after them.
    private var longIdents = CircularBuffer<FileRequest>(initialCapacity: 1)
    private var liveScans = CircularBuffer<FileRequest>(initialCapacity: 1)
    private var catchUps = CircularBuffer<FileRequest>(initialCapacity: 1)
    /// Scans that take more than one step, and are handled again.
    private var unfinished: [FileRequest] = []
    /// The number of short turns, while there is work for a long one, after which a part of that is done.
    static let shortTurnsMax = 8
    /// The short turns since the last long turn.
    private var shortTurns = 0
    /// The kinds of work of long turns, beginning with the one that has not been done for the longest time.
    private var longWork: [LongWork] = [.merge, .searches, .views, .catchUps, .maintenance]
    var maintenance = FileMaintenance()
    /// True if the last commit was a job's: then other work comes first.
    private var hasStoredJob = false
    /// True if another node may have written to the file.
    var isFollowDue = false
    /// True if the next commit is one of uploads, if there are any.
    var areUploadsNext = false
    var gathering = Gathering()
    /// True while `MergeBudget` knows of the merge.
    var isLongMerge = false
    private var cachedByteCount = 0
    /// The commit to store, and its continuation.
    private(set) var pending: (commit: Commit, finish: (FileSessions, HistoryError?) -> Void)?
    /// The callbacks to call once the replies are delivered to the sessions.
    private var completions: [Completion] = []
    /// The newest version announced to followers of the log since the file was opened.
    private var followedVersion: ServerVersion?
    /// The replies to deliver when the turn is over.
    private var pendingReplies = TurnReplies()

    /// - Parameters:
    ///   - memory: the memory for the bodies of DOWNLOADs until they are sent.
    ///   - notify: called with a task for another file, because all of them share something.
    ///   - deliver: called with replies once everything that they report is durable.
    init(
        _ path: VirtualPath, _ environment: FileEnvironment, memory: DownloadMemory,
        notify: @escaping (VirtualPath, FileNotice) -> Void, deliver: @escaping (TurnReplies) -> Void
    ) {
        self.path = path
        self.environment = environment
        self.memory = memory
        self.notify = notify
        self.deliver = deliver
    }

    // MARK: Waiting work

    func take(_ jobs: [FileJob], _ requests: [FileRequest], _ notices: Set<FileNotice> = []) {
        if let file = sessions?.file {
            if notices.contains(.writeProgress), file.hasUnwrittenProgress { file.writeProgressWithNextCommit() }
            if notices.contains(.releaseCaches) { file.releaseCaches() }
            if notices.contains(.updateConnected) { updateConnected() }
            if notices.contains(.follow) { isFollowDue = true }
            if notices.contains(.dropMerge), sessions?.dropMerges() == true {
                environment.metrics.mergesDropped.increment()
            }
        }
        self.jobs.append(contentsOf: jobs)
        for request in requests {
            guard case .scan = request.request else {
                let hasLongSet = sessions?.hasLongSet(request) ?? request.hasLongSet
                let isLong = hasLongSet || longIdents.contains { $0.session == request.session }
                if isLong { longIdents.append(request) } else { self.requests.append(request) }
                continue
            }
            if sessions?.isLive(request.session) ?? false {
                liveScans.append(request)
            } else {
                catchUps.append(request)
            }
        }
    }

    /// The kind of turn that is needed next; nil if nothing waits.
    var nextTurn: TurnKind? {
        let hasRequests = !requests.isEmpty || !longIdents.isEmpty || !liveScans.isEmpty
        if isFollowDue || hasNews || hasRequests || jobs.contains(where: canRun) { return .short }
        if let sessions,
            sessions.hasClientFileRequests || sessions.file.isProgressDue || hasNewUploads || sessions.hasNewSearches
        {
            return .short
        }
        return hasLongWork ? .long : nil
    }

    private enum LongWork { case merge, searches, views, catchUps, maintenance }

    private var hasLongWork: Bool { longWork.contains(where: isWaiting) }

    private func isWaiting(_ work: LongWork) -> Bool {
        switch work {
        case .merge: isMerging
        case .searches: sessions?.hasLongSearches ?? false
        case .views: sessions?.flexible?.hasLongChanges ?? false
        case .catchUps: !catchUps.isEmpty || !unfinished.isEmpty
        case .maintenance: isMaintenanceWaiting
        }
    }

    /// True if the file is closed, and there is nothing left to keep.
    var isOver: Bool { sessions == nil && pending == nil && nextTurn == nil }

    /// Fails the jobs that still wait: they will not be done.
    func failJobs() {
        deliverReplies()
        for job in jobs { job.run(nil) }
        jobs = []
        endMaintenance(HistoryError(.storeFailed, "the server has ended"))
        deliverReplies()
    }

    // MARK: Telling sessions

    /// A callback. It gets the reason why the change in question could not be stored; nil if it is durable.
    typealias Completion = (HistoryError?) -> Void

    /// Calls back once everything that is durable has been announced to the sessions.
    func afterDelivery(_ completion: @escaping Completion) { completions.append(completion) }

    func deliverReplies(_ failure: HistoryError? = nil) {
        takeReplies()
        if !pendingReplies.replies.isEmpty || !pendingReplies.done.isEmpty {
            deliver(pendingReplies)
            environment.budget.release(pendingReplies.done.reduce(0) { $0 + $1.bytes })
            pendingReplies = TurnReplies()
        }
        let completions = completions
        self.completions = []
        for complete in completions { complete(failure) }
        tellFollowers()
    }

    private func takeReplies() {
        guard let sessions else { return }
        pendingReplies.replies += sessions.takeReplies()
        pendingReplies.done += sessions.takeDone()
    }

    private func tellFollowers() {
        guard let version = sessions?.file.version, version != followedVersion else { return }
        followedVersion = version
        environment.followers.record(version, of: path)
    }

    // MARK: A turn

    /// - Returns: the commit to store before the next turn. Call `finishCommit` with its outcome.
    func takeTurn(_ kind: TurnKind) -> Commit? {
        if sessions?.file.isAhead == true, !isGathering {
            storeDeferred()
            return pending?.commit
        }
        follow()
        let hadLongWork = hasLongWork
        shortTurns = hadLongWork ? shortTurns + 1 : 0
        // The long turn comes first, because a short turn may end with a commit each time.
        if kind == .long || shortTurns > Self.shortTurnsMax || isMaintenanceOverdue {
            takeLongTurn(until: environment.beginStep())
        }
        if kind == .short { takeShortTurn(until: environment.beginStep()) }
        sessions?.file.releaseScans()
        if !isGathering { storeDeferred() }
        if environment.store.isShared, pending == nil { tellOfOtherNodes() }
        deliverUnlessAhead()
        closeIfIdle()
        return pending?.commit
    }

    private func takeShortTurn(until limit: StepLimit) {
        let areJobsLast = hasStoredJob
        hasStoredJob = false
        if !areJobsLast { runJobs(until: limit) }
        // In turn, so that none of them waits for ever.
        if sessions?.flexible != nil, !areUploadsNext { updateClientFiles() }
        handle(&requests, until: limit)
        handleLongIdents(until: limit)
        handle(&liveScans, until: limit)
        if sessions?.flexible != nil { deliverUnlessAhead() }
        if sessions?.hasNewSearches ?? false { search(until: limit) }
        // The uploads of a flexible file are stored together with the changes of requests.
        if sessions?.flexible == nil { storeDeferred() }
        if areUploadsNext || sessions?.flexible != nil, hasNewUploads { merge(until: limit) }
        if isGathering { return }
        storeDeferred()
        updateClientFiles()
        writeDueProgress()
        if hasNewUploads { merge(until: limit) }
        if areJobsLast { runJobs(until: limit) }
    }

    private func takeLongTurn(until limit: StepLimit) {
        shortTurns = 0
        // In turn, so that none of them waits for ever.
        for work in longWork where isWaiting(work) {
            longWork.removeAll { $0 == work }
            longWork.append(work)
            switch work {
            case .merge: advanceMerge(until: limit)
            case .searches: search(until: limit, isLong: true)
            case .views: changeViews(until: limit)
            case .catchUps:
                catchUps.append(contentsOf: unfinished)
                unfinished = []
                handle(&catchUps, until: limit)
            case .maintenance: takeMaintenanceStep()
            }
            if !isGathering { storeDeferred() }
            if limit.isOver || pending != nil { return }
        }
    }

    private func advanceMerge(until limit: StepLimit) {
        guard environment.isEnding else { return merge(until: limit, isLong: true) }
        end(because: HistoryError(.storeFailed, "the server ends"))
    }

    private func runJobs(until limit: StepLimit) {
        while pending == nil, let index = jobs.firstIndex(where: canRun) {
            jobs.remove(at: index).run(self)
            storeDeferred()
            hasStoredJob = pending != nil
            if limit.isOver { return }
        }
    }

    private func canRun(_ job: FileJob) -> Bool { !job.comesAfterMerge || sessions?.file.isIntegrating != true }

    /// Handles requests, at least one, until the step is over. Uploads are only queued.
    private func handle(_ queue: inout CircularBuffer<FileRequest>, until limit: StepLimit) {
        while pending == nil, sessions?.flexible?.isDraftFull != true, let request = queue.popFirst() {
            if let error = handle(request, until: limit) {
                pendingReplies.replies.append(FileReply(session: request.session, event: .failed(error)))
            }
            if limit.isOver { break }
        }
        // A file with little to do does not keep the memory for a long queue.
        if queue.isEmpty, queue.capacity > 64 { queue = CircularBuffer(initialCapacity: 1) }
    }

    /// Handles at least one IDENT with a long set, but not all of them if other requests have come in the meantime.
    private func handleLongIdents(until limit: StepLimit) {
        while pending == nil, sessions?.flexible?.isDraftFull != true, let first = longIdents.first {
            // What the session has asked for before comes first.
            if requests.contains(where: { $0.session == first.session }) { return }
            var next: CircularBuffer = [longIdents.removeFirst()]
            handle(&next, until: limit)
            if limit.isOver { return }
        }
    }

    /// - Returns: the reason why the session gets no file.
    private func handle(_ request: FileRequest, until limit: StepLimit) -> ErrorMessage? {
        do {
            if let refusal = try refusal(of: request) {
                environment.metrics.refusedSession(because: refusal)
                pendingReplies.done.append(request.charge)
                return refusal.message
            }
            guard let sessions = try sessions(for: request) else {
                pendingReplies.done.append(request.charge)
                return nil
            }
            let start = ContinuousClock.now
            do {
                if try !sessions.handle(request, memory: memory, until: limit) { unfinished.append(request) }
            } catch {
                // If a commit has failed, it is unknown how much of a view is stored.
                let isLost = sessions.flexible != nil || error.code == .leaseLost
                if isLost { close(because: error) } else { environment.log.write(error, path: path) }
            }
            if case .scan = request.request { environment.metrics.scanned(in: start.duration(to: .now)) }
            return nil
        } catch {
            pendingReplies.done.append(request.charge)
            environment.log.write(error, path: path)
            return ErrorMessage(error)
        }
    }

    // MARK: The file

    func openedSessions() throws(HistoryError) -> FileSessions {
        if let sessions { return sessions }
        let opened = try environment.open(path)
        sessions = opened
        return opened
    }

    /// Fails all sessions because of a failure, and closes the file: it can be opened again.
    func close(because error: HistoryError) {
        environment.log.write(error, path: path)
        end(because: error)
    }

    /// Fails all sessions, and closes the file, without logging it as a failure.
    func end(because error: HistoryError) {
        guard let sessions else { return }
        if sessions.file.isAhead { sessions.forgetReplies() }
        sessions.failAll(error)
        takeReplies()
        endMaintenance(error)
        forget()
    }

    /// Closes the file if nobody needs it. Progress is written first, because no client may rely on progress that was
    /// not written; and maintenance is finished first.
    private func closeIfIdle() {
        guard let sessions else { return }
        if sessions.hasNoSessions, sessions.file.hasUnwrittenProgress { sessions.file.writeProgressWithNextCommit() }
        let isOver = pending == nil && sessions.isIdle && !isMaintenanceWaiting && !isFollowed
        if isOver { forget() } else { reportCaches(sessions.file.cachedByteCount) }
    }

    private func forget() {
        sessions = nil
        followedVersion = nil
        isFollowDue = false
        reportCaches(0)
        recordLongMerge()
    }

    private func reportCaches(_ byteCount: Int) {
        guard byteCount > 0 || cachedByteCount > 0 else { return }
        cachedByteCount = byteCount
        for path in environment.caches.record(path, byteCount) { notify(path, .releaseCaches) }
    }

    // MARK: Commits

    /// Has a commit stored, with unwritten progress, unless there is nothing to store.
    /// - Parameter finish: called with the outcome.
    func store(_ commit: Commit, then finish: @escaping (FileSessions, HistoryError?) -> Void) {
        guard let sessions else { return }
        let commit = completed(commit, of: sessions.file)
        pending = (commit, finish)
        if commit.isEmpty { finishCommit(nil) }
    }

    /// Has the deferred commits stored. Only then are they announced to sessions.
    func storeDeferred() {
        guard pending == nil, let sessions, sessions.file.isAhead else { return }
        if sessions.hasUnannouncedVersions { sessions.announce(until: environment.beginStep()) }
        guard let commit = sessions.file.takeDeferred() else { return }
        areUploadsNext = false
        gathering = Gathering()
        store(commit) { [self] sessions, failure in
            if let failure {
                sessions.forgetReplies()
                close(because: failure)
            } else {
                sessions.flexible?.didStore(commit)
            }
            deliverReplies(failure)
        }
    }

    /// Ends a commit that is stored, or has failed.
    func finishCommit(_ failure: HistoryError?) {
        guard let (commit, finish) = pending.take(), let sessions else { return }
        sessions.file.finish(commit, failure)
        finish(sessions, failure)
    }
}
