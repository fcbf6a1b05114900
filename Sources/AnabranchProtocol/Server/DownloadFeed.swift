import AnabranchCore

/// The messages that a running session owes its client (`Spec/History.md`, section 7; `Spec/FlexibleSync.md`, section
/// 1.7): a first DOWNLOAD even if it is empty, then one whenever there is something beyond the cursor or a bootstrap is
/// open, and, once there is nothing, the answer to the latest MARK.
///
///     none ─ scan asked for ─▶ underWay ─ DOWNLOAD made ─▶ ready ─ sent ─▶ none
///
/// Before `begin` it collects the events of a session whose IDENT is still being checked.
struct DownloadFeed: Sendable {
    private var marks = PendingMarks()
    /// Notices that are sent before the DOWNLOAD that they are about.
    private var notices: [Notice] = []
    /// The client's place once it has everything that was made for it.
    private(set) var cursor = DownloadCursor()
    private var exposedVersion: ServerVersion = 0
    private var hasSentDownload = false
    private var download = Download.none
    /// Nil in partition-based sync.
    private var subscriptions: SubscriptionProgress?

    private enum Download {
        case none, underWay
        case ready(EncodedMessage)
    }

    /// A message that is sent as soon as its content is known.
    enum Notice {
        case warning(ErrorMessage)
        case refusal(QueryRefusal)
        case log(LogMessage)
    }

    /// The next step.
    enum Step {
        case notice(Notice)
        case download(EncodedMessage)
        case scan(SessionRequest)
        case mark(UInt64)
    }

    /// True if a DOWNLOAD was requested and has not come yet.
    var isMakingDownload: Bool {
        if case .underWay = download { true } else { false }
    }

    /// A DOWNLOAD is being made, or waits to be sent.
    var isDownloading: Bool {
        if case .none = download { false } else { true }
    }

    var turn: ServerSession.Turn {
        if !notices.isEmpty { return .message }
        if case .ready = download { return .message }
        if answerableMark != nil { return .message }
        return !isDownloading && hasMore ? .scan : .nothing
    }

    /// True if there is something to scan.
    private var hasMore: Bool {
        !hasSentDownload || exposedVersion > cursor.serverVersion || subscriptions?.open != nil
    }

    /// The latest MARK that can be answered once no DOWNLOAD is ready.
    private var answerableMark: UInt64? {
        guard hasSentDownload else { return nil }
        let hasAll = !isDownloading && !hasMore
        return marks.answerable { query, version in
            (version.map { $0 <= cursor.serverVersion } ?? hasAll) && subscriptions?.isSettled(query) ?? true
        }
    }

    // MARK: From the client

    /// - Parameter asksFile: whether the answer waits for `fileAnswered`.
    mutating func mark(_ request: UInt64, asksFile: Bool) {
        marks.add(request, after: subscriptions?.newestQuery ?? 0, asksFile: asksFile)
    }

    /// IDENT of flexible sync.
    mutating func identify(_ active: QueryVersion) { subscriptions = SubscriptionProgress(active: active) }

    /// - Returns: whether a QUERY may have this version.
    mutating func query(_ version: QueryVersion) -> Bool {
        marks.queryCame(at: exposedVersion)
        return subscriptions?.query(version) ?? false
    }

    // MARK: From the server

    mutating func begin(at cursor: DownloadCursor, exposedVersion: ServerVersion) {
        self.cursor = cursor
        expose(exposedVersion)
        marks.begin(at: exposedVersion)
    }

    /// Records a version that exists now. Calls may come in any order.
    mutating func expose(_ version: ServerVersion) { exposedVersion = max(exposedVersion, version) }

    /// The file has said what its newest version is, as a MARK has made it do.
    mutating func fileAnswered(_ version: ServerVersion) {
        expose(version)
        marks.fileAnswered(version)
    }

    mutating func notify(_ notice: Notice) { notices.append(notice) }

    /// A QUERY is refused, if the client still waits for it.
    mutating func refuse(_ refusal: QueryRefusal) {
        if subscriptions?.refuse(refusal.version) == true { notices.append(.refusal(refusal)) }
    }

    /// The reason why a DOWNLOAD must not be sent; nil if it may be.
    func problem(of download: FlexibleDownload, in version: ProtocolVersion) -> String? {
        if download.progress.cursor.serverVersion < cursor.serverVersion { return "the log went back" }
        if !download.announcesItsCompensations(after: cursor) { return "a compensating write in the wrong place" }
        guard case .bootstrap(let query, let isLast) = download.kind else { return nil }
        guard let subscriptions else { return "a bootstrap in partition-based sync" }
        return subscriptions.problem(of: query, isLast: isLast, isEmpty: download.body.isEmpty, in: version)
    }

    /// - Parameter cursor: the place that an unrequested DOWNLOAD follows.
    /// - Returns: whether it is the one to request next, and nothing else waits to be sent. Then it counts as
    ///   requested.
    mutating func beginDownload(unaskedAfter cursor: DownloadCursor) -> Bool {
        guard turn == .scan, subscriptions?.open == nil, cursor == self.cursor else { return false }
        download = .underWay
        return true
    }

    /// Takes the DOWNLOAD that was requested.
    mutating func downloadReady(_ made: FlexibleDownload, as ident: SessionID, _ codec: ServerMessageCodec) {
        expose(made.progress.latest.version)
        notices += made.compensations.map { .warning($0) }
        let batch: QueryBatch?
        switch made.kind {
        case .steady:
            cursor = made.progress.cursor
            batch = subscriptions.map { QueryBatch(version: $0.active, state: .steady, estimate: made.estimate) }
        case .bootstrap(let query, let isLast):
            if isLast { cursor = made.progress.cursor }
            subscriptions?.advance(query, isLast: isLast, isEmpty: made.body.isEmpty)
            batch = QueryBatch(version: query, state: isLast ? .last : .more, estimate: made.estimate)
        }
        download = .ready(codec.encodeDownload(ident, made.progress, made.body, batch))
    }

    // MARK: To the client

    mutating func next() -> Step? {
        if !notices.isEmpty { return .notice(notices.removeFirst()) }
        if case .ready(let message) = download {
            download = .none
            hasSentDownload = true
            return .download(message)
        }
        if let request = answerableMark {
            marks.answered(request)
            return .mark(request)
        }
        guard turn == .scan else { return nil }
        download = .underWay
        guard let open = subscriptions?.open else { return .scan(.scan(from: cursor)) }
        return .scan(.scanBootstrap(open.version, part: open.partCount, from: cursor))
    }
}
