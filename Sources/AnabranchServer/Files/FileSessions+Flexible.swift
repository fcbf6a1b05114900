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

    func integrate(
        _ upload: Upload, from clientFile: ClientFileID, into flexible: FlexibleFile, of key: SessionKey
    ) throws(HistoryError) {
        let time = environment.unixSeconds()
        if try flexible.noteProgress(upload, from: clientFile, at: time) { return }
        let evaluationCount = flexible.evaluationCount, refusals: [CompensatingWrite.Object]
        do throws(HistoryError) { refusals = try flexible.integrate(upload, from: clientFile, at: time) } catch {
            if error.code == .backlogFull { environment.log.note(error, path: file.path) }
            if let refusal = error.refusal { note(refusal.objects, of: key) }
            throw error
        }
        environment.metrics.viewEvaluations.increment(by: flexible.evaluationCount - evaluationCount)
        environment.metrics.compensatedObjects.increment(by: refusals.count)
        note(refusals, of: key)
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
