import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import Metrics
import NIOCore
import OrderedCollections

/// The requests of flexible sync. Those of one client are done one after the other, those of different clients in turn:
/// IDENTs and QUERYs a step of a search at a time, uploads as `FlexibleFile` merges them.
extension FileSessions {
    /// The waiting requests of one client: its uploads, and the requests that follow one of them or need a search.
    struct ViewRequests {
        fileprivate enum Request {
            /// An IDENT, answered once the objects of its view have been found.
            case identify
            case query(SubscriptionSet)
            case upload(Upload, time: UInt64)
        }

        let user: String?
        /// The charges of the uploads that the file merges.
        private(set) var uploads: [RequestCharge] = []
        fileprivate var waiting: CircularBuffer<(request: Request, key: SessionKey, charge: RequestCharge?)> = []
        /// True once the search for the first waiting request has begun.
        fileprivate var isSearching = false

        fileprivate init(of user: String?) { self.user = user }

        var charges: [RequestCharge] { uploads + waiting.compactMap(\.charge) }
        fileprivate var isEmpty: Bool { uploads.isEmpty && waiting.isEmpty }

        /// True if the file has to be searched for the first waiting request.
        fileprivate var needsSearch: Bool {
            guard uploads.isEmpty, let first = waiting.first else { return false }
            if case .upload = first.request { return false }
            return true
        }

        fileprivate mutating func append(_ charge: RequestCharge) { uploads.append(charge) }

        fileprivate mutating func removeFirst(_ count: Int) -> [RequestCharge] {
            defer { uploads.removeFirst(min(count, uploads.count)) }
            return Array(uploads.prefix(count))
        }
    }

    // MARK: Queues

    /// Queues a QUERY: the client gets the objects once they are found and the session requests them.
    /// - Returns: whether it waits.
    func queue(_ subscriptions: SubscriptionSet, for request: FileRequest) -> Bool {
        guard flexible != nil else {
            reply(request.session, .failed(SyncMode.partition.refusalOfOthers))
            return false
        }
        return queue(.query(subscriptions), of: request.session, request.charge)
    }

    /// Queues an IDENT: the session runs when the objects that its client sees have been found.
    func queueIdentified(_ key: SessionKey) { _ = queue(.identify, of: key, nil) }

    /// True while a session waits for a search that finds the objects its client sees.
    func isIdentifying(_ key: SessionKey) -> Bool {
        guard let clientFile = running[key]?.clientFile else { return false }
        return viewRequests[clientFile]?.waiting.contains { $0.key == key && $0.request.isIdentify } ?? false
    }

    /// Queues an upload, unless it only reports its client's progress.
    /// - Returns: whether it waits.
    func queue(
        _ upload: Upload, from clientFile: ClientFileID, into flexible: FlexibleFile, of key: SessionKey,
        _ charge: RequestCharge
    ) throws(HistoryError) -> Bool {
        let time = environment.clock.seenTime
        if let requests = viewRequests[clientFile], !requests.waiting.isEmpty {
            return queue(.upload(upload, time: time), of: key, charge)
        }
        if try flexible.recordProgress(upload, from: clientFile, at: time) {
            if !isIdentifying(key), flexible.takeClientToNotify(clientFile) {
                reply(key, .versionExposed(file.version))
            }
            return false
        }
        flexible.enqueue(upload, from: clientFile, at: time)
        viewRequests[clientFile, default: ViewRequests(of: running[key]?.user.user)].append(charge)
        return true
    }

    private func queue(_ request: ViewRequests.Request, of key: SessionKey, _ charge: RequestCharge?) -> Bool {
        guard let session = running[key] else { return false }
        let clientFile = session.clientFile
        // Changed in place: a copy would copy all waiting requests.
        viewRequests[clientFile, default: ViewRequests(of: session.user.user)].waiting.append((request, key, charge))
        if let requests = viewRequests[clientFile], requests.needsSearch, requests.waiting.count == 1 {
            newSearches.append(clientFile)
        }
        return true
    }

    /// Passes on the first waiting requests, once the earlier ones are done.
    private func proceed(_ clientFile: ClientFileID) {
        guard viewRequests[clientFile]?.uploads.isEmpty == true else { return }
        while case .upload(let upload, let time)? = viewRequests[clientFile]?.waiting.first?.request {
            let charge = viewRequests[clientFile]?.waiting.removeFirst().charge
            flexible?.enqueue(upload, from: clientFile, at: time)
            if let charge { viewRequests[clientFile]?.append(charge) }
        }
        if viewRequests[clientFile]?.isEmpty == true { viewRequests[clientFile] = nil }
        if viewRequests[clientFile]?.needsSearch == true { newSearches.append(clientFile) }
    }

    /// Drops the waiting requests of a session that have not begun. Another session cannot use them: its client sends
    /// them again.
    func dropWaiting(of key: SessionKey, _ clientFile: ClientFileID) {
        guard var requests = viewRequests[clientFile], requests.waiting.contains(where: { $0.key == key }) else {
            return
        }
        done += requests.waiting.filter { $0.key == key }.compactMap(\.charge)
        requests.waiting.removeAll { $0.key == key }
        requests.isSearching = false
        for queue in [\FileSessions.newSearches, \.longSearches] { self[keyPath: queue].removeAll { $0 == clientFile } }
        viewRequests[clientFile] = requests
        proceed(clientFile)
    }

    // MARK: Searches

    /// True if clients wait for a search that has had no step of its own yet.
    var hasNewSearches: Bool { !newSearches.isEmpty }

    /// True if a search goes on that takes more than one step.
    var hasLongSearches: Bool { !longSearches.isEmpty }

    /// Searches for clients in turn, until the step is over or much waits to be stored.
    /// - Parameter isLong: whether it continues an unfinished search, and not new ones.
    /// - Throws: a failure of the store.
    func search(in flexible: FlexibleFile, until limit: StepLimit, isLong: Bool) throws(HistoryError) {
        while let clientFile = isLong ? longSearches.popFirst() : newSearches.popFirst() {
            if try search(for: clientFile, in: flexible, until: limit) {
                proceed(clientFile)
            } else {
                longSearches.append(clientFile)
            }
            if isLong || limit.isOver || flexible.isDraftFull { break }
        }
        if hasUnannouncedVersions { announce(until: environment.beginStep()) }
    }

    /// - Returns: whether the client's request is done.
    private func search(
        for clientFile: ClientFileID, in flexible: FlexibleFile, until limit: StepLimit
    ) throws(HistoryError) -> Bool {
        guard let (request, key, charge) = viewRequests[clientFile]?.waiting.first else { return true }
        guard var view = running[key]?.view else {
            dropWaiting(of: key, clientFile)
            return true
        }
        let user = running[key]?.user.user
        var outcome: FlexibleFile.SearchOutcome?
        do throws(HistoryError) {
            if let user, isQueryTimeUsedUp(by: user) {
                failForQueryTime(key)
                return true
            }
            let start = ContinuousClock.now
            defer { if let user { self.charge(user, ContinuousClock.now - start) } }
            if case .query(let subscriptions) = request, viewRequests[clientFile]?.isSearching == false {
                if let user { self.charge(user, .milliseconds(1)) }
                try environment.space.require()
                guard try flexible.beginQuery(subscriptions, in: view, until: limit) else { return false }
            }
            viewRequests[clientFile]?.isSearching = true
            outcome = try flexible.advanceSearch(in: &view, until: limit)
        } catch {
            end(key, because: error)
            if error.isStoreFailure { throw error }
            return true
        }
        guard let outcome else { return false }
        running[key]?.view = view
        viewRequests[clientFile]?.waiting.removeFirst()
        viewRequests[clientFile]?.isSearching = false
        if let charge { done.append(charge) }
        switch request {
        case .identify: accept(key)
        case .query(let subscriptions):
            environment.metrics.queriesTaken.increment()
            if let refusal = outcome.refusal {
                reply(key, .queryRefused(QueryRefusal(version: subscriptions.version, message: refusal)))
            }
        case .upload: break
        }
        return true
    }

    // MARK: Uploads

    /// Integrates uploads until the step is over.
    /// - Parameter isLong: whether it continues an unfinished merge, and not new ones.
    /// - Returns: whether an upload is done with of a client that did not have to catch up.
    /// - Throws: a failure of the store.
    func integrateViews(
        into flexible: FlexibleFile, until limit: StepLimit, isLong: Bool
    ) throws(HistoryError) -> Bool {
        let evaluationCount = flexible.evaluationCount
        let outcomes =
            isLong
            ? try flexible.integrateLong(until: limit).map { [$0] } ?? [] : try flexible.integrateNew(until: limit)
        environment.metrics.viewEvaluations.increment(by: flexible.evaluationCount - evaluationCount)
        for outcome in outcomes { didIntegrate(outcome) }
        if flexible.isOverQuota { announce(until: environment.beginStep()) }
        return outcomes.contains { !$0.isOfReturning }
    }

    private func didIntegrate(_ outcome: FlexibleFile.UploadOutcome) {
        let clientFile = outcome.ident, key = session(of: clientFile)
        done += viewRequests[clientFile]?.removeFirst(outcome.uploadCount) ?? []
        environment.metrics.compensatedObjects.increment(by: outcome.refusals.count)
        if let key { record(outcome.refusals.objects + (outcome.refusal?.refusal?.objects ?? []), of: key) }
        if let refusal = outcome.refusal {
            if refusal.code == .backlogFull { environment.log.write(refusal, path: file.path) }
            if let key { end(key, because: refusal) }
        }
        proceed(clientFile)
    }

    /// To be called when uploads of a client that has moved to another node were dropped.
    func didDrop(_ count: Int, of clientFile: ClientFileID) {
        done += viewRequests[clientFile]?.removeFirst(count) ?? []
        proceed(clientFile)
    }

    /// Makes views follow roles that have changed, until the step is over.
    /// - Throws: a failure of the store.
    func changeViews(until limit: StepLimit) throws(HistoryError) {
        for (clientFile, error) in try flexible?.changeLong(until: limit) ?? [] {
            if let key = session(of: clientFile) { end(key, because: error) }
        }
        if hasUnannouncedVersions { announce(until: environment.beginStep()) }
    }

    /// - Parameter cursor: the place that the DOWNLOAD is to follow.
    /// - Returns: false if the step is over before the answer is known.
    func scan(
        _ flexible: FlexibleFile, for request: FileRequest, from cursor: DownloadCursor, memory: DownloadMemory,
        until limit: StepLimit
    ) throws(HistoryError) -> Bool {
        let key = request.session
        guard var view = running[key]?.view else { return true }
        if let before = running[key]?.sentBefore, cursor.serverVersion < view.sent.cursor.serverVersion {
            view.goBack(to: before)
        }
        running[key]?.sentBefore = nil
        running[key]?.unaskedVersion = 0
        var room = DownloadMemory.Outcome<Void>.made((), nil), known: EncodedBody?
        let made = try flexible.download(
            for: &view, request.capabilities,
            byteBudget: memory.byteBudget(of: request, environment.options.limits.downloadBytesSoftMax), isAnswer: true,
            until: limit
        ) {
            room = memory.room(for: $0, request)
            return room.wait == nil
        } isEncoded: {
            known = environment.bodies.kept(of: $0, file: file.id, epoch: file.epoch, request.capabilities)
            return known != nil
        }
        running[key]?.view = view
        running[key]?.wait = room.wait
        guard let made, case .made(_, let permit) = room else {
            guard flexible.isCatchingUp(view.ident), running[key] != nil else { return true }
            guard let user = running[key]?.user.user, isQueryTimeUsedUp(by: user) else { return false }
            failForQueryTime(key)
            return true
        }
        var body =
            known
            ?? environment.bodies.body(
                of: made.download, entries: made.alike, file: file.id, epoch: file.epoch, request.capabilities,
                limits: environment.options.limits)
        permit?.resize(to: body.count)
        body.attachment = permit.map(MessageAttachment.init)
        reply(key, .flexibleDownload(FlexibleDownload(made, body)))
        return true
    }
}

// In flexible sync each user has a limited time of a processor in a minute for queries: to find the objects that enter
// and leave a view, and to decide what commits mean for it.
extension FileSessions {
    func isQueryTimeUsedUp(by user: String) -> Bool {
        environment.options.queryTime.isUsedUp(by: user, now: now)
    }

    /// Ends a session of a user who has used up that time; its client reconnects later.
    func failForQueryTime(_ key: SessionKey) {
        environment.metrics.refusedSession(because: .queries)
        fail(key, SessionRefusal.queries.message)
    }

    /// Charges a user with time for queries. Less than a millisecond is counted when more has come together.
    func charge(_ user: String, _ time: Duration) {
        let sum = uncounted[ExactString(user), default: .zero] + time, milliseconds = Int(sum / .milliseconds(1))
        // Most users come once.
        if uncounted.count == RateCounter.namesMax { uncounted = [:] }
        uncounted[ExactString(user)] = milliseconds > 0 ? nil : sum
        if milliseconds > 0 { environment.options.queryTime.count(user, milliseconds, now: now) }
    }

    private var now: Int64 { Int64(clamping: environment.unixSeconds()) }

    /// True if the failure concerns one client only: its view is damaged.
    func isOfOneView(_ error: HistoryError, _ request: FileRequest) -> Bool {
        guard case .identify = request.request, flexible != nil, error.code == .storeDamaged else { return false }
        environment.log.write(error, path: file.path)
        return true
    }

    /// True if a request is an IDENT that brings a long set, or whose client has one that has to be read.
    func hasLongSet(_ request: FileRequest) -> Bool {
        guard case .identify(let claim, _) = request.request else { return false }
        return request.hasLongSet || flexible?.hasLongSet(claim.file.ident) ?? false
    }

    /// Begins the session of a view, for which the file may have to be searched; nil if the file has no views.
    func identifyView(
        _ claim: IdentRequest, of user: Principal, hasRestarted: Bool
    ) throws(HistoryError) -> ViewSession? {
        guard let flexible else { return nil }
        if try !flexible.hasView(of: claim.file.ident) { try environment.space.require() }
        let start = ContinuousClock.now
        defer { if let user = user.user { charge(user, ContinuousClock.now - start) } }
        return try flexible.beginSession(claim, user: user.user, rules: rules(of: user), hasRestarted: hasRestarted)
    }
}

extension FileSessions.ViewRequests.Request {
    fileprivate var isIdentify: Bool { if case .identify = self { true } else { false } }
}
