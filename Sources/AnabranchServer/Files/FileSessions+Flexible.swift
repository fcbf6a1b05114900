import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import Metrics
import OrderedCollections

/// The requests of flexible sync.
extension FileSessions {
    /// QUERY: the view changes at once, and the bootstrap waits for the session to ask.
    func query(
        _ subscriptions: SubscriptionSet, of key: SessionKey, user: String?
    ) throws(HistoryError) {
        guard let flexible else { return reply(key, .failed(SyncMode.partition.refusalOfOthers)) }
        guard var view = running[key]?.view else { return }
        try environment.space.require()
        if let user, isQueryTimeUsedUp(by: user) { return failForQueryTime(key) }
        let start = ContinuousClock.now
        let refusal = try flexible.query(subscriptions, in: &view)
        if let user { charge(user, ContinuousClock.now - start + .milliseconds(1)) }
        environment.metrics.queriesTaken.increment()
        running[key]?.view = view
        if let refusal {
            reply(key, .queryRefused(QueryRefusal(version: subscriptions.version, message: refusal)))
        }
        if hasNews { announce(until: environment.beginStep()) }
    }

    /// What one client has sent that waits: its uploads, in order, and the queries that come behind one of them.
    struct ViewRequests {
        let user: String?
        private(set) var uploads: [RequestCharge] = []
        fileprivate var queries: [(subscriptions: SubscriptionSet, key: SessionKey, charge: RequestCharge)] = []

        fileprivate init(of user: String?) { self.user = user }

        var charges: [RequestCharge] { uploads + queries.map(\.charge) }

        fileprivate mutating func append(_ charge: RequestCharge) { uploads.append(charge) }

        fileprivate mutating func removeFirst(_ count: Int) -> [RequestCharge] {
            defer { uploads.removeFirst(min(count, uploads.count)) }
            return Array(uploads.prefix(count))
        }
    }

    /// Queues an upload, unless it says only how far its client has come.
    /// - Returns: whether it waits.
    func queue(
        _ upload: Upload, from clientFile: ClientFileID, into flexible: FlexibleFile, of key: SessionKey,
        _ charge: RequestCharge
    ) throws(HistoryError) -> Bool {
        let time = environment.unixSeconds()
        if try flexible.noteProgress(upload, from: clientFile, at: time) { return false }
        flexible.enqueue(upload, from: clientFile, at: time)
        viewRequests[clientFile, default: ViewRequests(of: running[key]?.user.user)].append(charge)
        return true
    }

    /// Queues a QUERY if uploads of its client wait: these are about what the client sees before it.
    /// - Returns: whether it waits.
    func queue(_ subscriptions: SubscriptionSet, of key: SessionKey, _ charge: RequestCharge) -> Bool {
        guard let clientFile = running[key]?.clientFile, viewRequests[clientFile] != nil else { return false }
        viewRequests[clientFile]?.queries.append((subscriptions, key, charge))
        return true
    }

    /// Integrates uploads until the step is over.
    /// - Parameter isLong: whether it goes on with a merge that has not come to its end before.
    /// - Throws: trouble of the store.
    func integrateViews(
        into flexible: FlexibleFile, until limit: StepLimit, isLong: Bool
    ) throws(HistoryError) {
        let evaluationCount = flexible.evaluationCount
        let outcomes =
            isLong
            ? try flexible.integrateLong(until: limit).map { [$0] } ?? [] : try flexible.integrateNew(until: limit)
        environment.metrics.viewEvaluations.increment(by: flexible.evaluationCount - evaluationCount)
        for outcome in outcomes { try didIntegrate(outcome) }
        if hasNews || flexible.isOverQuota { announce(until: environment.beginStep()) }
    }

    private func didIntegrate(_ outcome: FlexibleFile.UploadOutcome) throws(HistoryError) {
        let clientFile = outcome.ident, key = session(of: clientFile)
        done += viewRequests[clientFile]?.removeFirst(outcome.uploadCount) ?? []
        environment.metrics.compensatedObjects.increment(by: outcome.refusals.count)
        if let key { note(outcome.refusals + (outcome.refusal?.refusal?.objects ?? []), of: key) }
        if let refusal = outcome.refusal {
            if refusal.code == .backlogFull { environment.log.note(refusal, path: file.path) }
            if let key { fail(key, ErrorMessage(refusal)) }
        }
        guard let rest = viewRequests[clientFile], rest.uploads.isEmpty else { return }
        viewRequests[clientFile] = nil
        for (subscriptions, key, charge) in rest.queries {
            done.append(charge)
            do throws(HistoryError) {
                try query(subscriptions, of: key, user: running[key]?.user.user)
            } catch {
                fail(key, ErrorMessage(error))
                if error.isStoreTrouble { throw error }
            }
        }
    }

    /// Has views follow roles that have changed, until the step is over.
    /// - Throws: trouble of the store.
    func changeViews(until limit: StepLimit) throws(HistoryError) {
        for (clientFile, error) in try flexible?.changeLong(until: limit) ?? [] {
            if let key = session(of: clientFile) { fail(key, ErrorMessage(error)) }
        }
        if hasNews { announce(until: environment.beginStep()) }
    }

    func scan(
        _ flexible: FlexibleFile, for request: FileRequest, memory: DownloadMemory
    ) throws(HistoryError) {
        let key = request.session
        guard var view = running[key]?.view else { return }
        var room = DownloadMemory.Outcome<Void>.made((), nil)
        let made = try flexible.download(
            for: &view, request.capabilities,
            byteBudget: memory.byteBudget(of: request, environment.options.limits.downloadBytesSoftMax), isAnswer: true
        ) {
            room = memory.room(for: $0, request)
            return room.wait == nil
        }
        running[key]?.view = view
        running[key]?.wait = room.wait
        guard let made, case .made(_, let permit) = room else { return }
        environment.bodies.noteEncoded()
        var body = EncodedBody(made.download.changesets, limits: environment.options.limits)
        permit?.resize(to: body.count)
        body.attachment = permit.map(MessageAttachment.init)
        reply(key, .flexibleDownload(FlexibleDownload(made, body)))
    }
}

// In flexible sync each user has so much time of a processor in a minute for queries: to find what enters and leaves a
// view, and what commits mean for it.
extension FileSessions {
    func isQueryTimeUsedUp(by user: String) -> Bool {
        environment.options.queryTime.isUsedUp(by: user, now: now)
    }

    /// The sessions of a user that has used it up end, and their clients come back later.
    func failForQueryTime(_ key: SessionKey) {
        environment.metrics.refusedSession(because: .queries)
        fail(key, SessionRefusal.queries.message)
    }

    /// What is less than a millisecond is counted when there is more.
    func charge(_ user: String, _ time: Duration) {
        let sum = uncounted[user, default: .zero] + time, milliseconds = Int(sum / .milliseconds(1))
        uncounted[user] = milliseconds > 0 ? nil : sum
        if milliseconds > 0 { environment.options.queryTime.count(user, milliseconds, now: now) }
    }

    private var now: Int64 { Int64(clamping: environment.unixSeconds()) }

    /// Begins the session of a view; nil if the file has none.
    func identifyView(
        _ claim: IdentRequest, of user: Principal, hasRestarted: Bool
    ) throws(HistoryError) -> ViewSession? {
        guard let flexible else { return nil }
        let start = ContinuousClock.now
        defer { if let user = user.user { charge(user, ContinuousClock.now - start) } }
        return try flexible.identify(claim, user: user.user, rules: rules(of: user), hasRestarted: hasRestarted)
    }
}
