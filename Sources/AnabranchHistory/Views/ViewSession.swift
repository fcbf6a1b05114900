package import AnabranchCore

/// How far a running session of a view has come. A value, which the owner of the session keeps.
package struct ViewSession: Sendable {
    package let ident: ClientFileID
    /// Decides which UPLOAD is acceptable.
    package var progress: SessionProgress
    /// The set of queries that the client has, or will have when it has integrated what was sent; and what is in it.
    var queryVersion: UInt64
    var predicates: [String: String]
    /// The number of the first entry of the view that was made in this session. What is older is not sent as the
    /// bootstrap that it was made for: the client, which has not got that, asks for it again.
    var firstNumber: UInt64 = 1
    /// But for this one, for which it never asks.
    var lostBootstrap: UInt64?
    /// The number of the last entry of the view that was sent.
    var sentNumber: UInt64 = 0
    /// Up to where the client was told which of its writes were undone.
    var compensated: ServerVersion = 0
    /// What the messages say.
    private var sentQueryVersion: UInt64
    private var acknowledged = UploadCursor()
    private var hasSent = false

    init(ident: ClientFileID, progress: SessionProgress, queryVersion: UInt64, predicates: [String: String]) {
        self.ident = ident
        self.progress = progress
        self.queryVersion = queryVersion
        self.predicates = predicates
        sentQueryVersion = queryVersion
    }

    /// What the client asks for of a class; nil for nothing.
    package func query(ofClass name: String) -> String? { predicates[name] }

    /// The next message; nil if the client knows everything.
    mutating func next(
        of view: ClientView, at head: FileHead, acknowledging upload: UploadCursor, _ ownVersion: ClientVersion,
        _ byteBudget: Int, isAnswer: Bool
    ) throws(HistoryError) -> ViewDownload? {
        let waiting = view.log.drop { $0.number <= sentNumber }
        let bootstrap = waiting.first.flatMap { self.bootstrap(of: $0) }
        let entries = bootstrap == nil ? steadyPart(of: waiting, byteBudget) : wholeBootstrap(of: waiting)
        let isLast = entries.count == waiting.count
        // All that follows what is not sent yet comes later.
        var cursor = DownloadCursor(serverVersion: head.version, clientVersion: ownVersion)
        if !isLast || bootstrap != nil, let last = entries.last {
            cursor = DownloadCursor(serverVersion: last.version, clientVersion: last.clientVersion)
        }
        guard isAnswer || !hasSent || !entries.isEmpty || cursor != progress.download || upload != acknowledged else {
            return nil
        }
        let compensations =
            bootstrap != nil || entries.isEmpty
            ? []
            : view.compensations.filter { $0.version > compensated && $0.version <= cursor.serverVersion }
        if bootstrap == nil, !entries.isEmpty { compensated = max(compensated, cursor.serverVersion) }
        if let bootstrap { sentQueryVersion = bootstrap }
        sentNumber = entries.last?.number ?? sentNumber
        (progress.download, acknowledged, hasSent) = (cursor, upload, true)
        let header = DownloadProgress(
            cursor: cursor, latest: SaltedVersion(version: head.version, salt: head.versionSalt), upload: upload,
            downloadableBytes: 0)
        return ViewDownload(
            download: Download(progress: header, changesets: entries.map(\.downloaded)),
            queryVersion: sentQueryVersion, isBootstrap: bootstrap != nil, compensations: compensations)
    }

    private func bootstrap(of entry: ViewEntry) -> UInt64? {
        entry.number >= firstNumber || entry.bootstrap == lostBootstrap ? entry.bootstrap : nil
    }

    /// Entries of one version stay together: who comes back asks for what follows a version.
    private func steadyPart(of waiting: ArraySlice<ViewEntry>, _ byteBudget: Int) -> ArraySlice<ViewEntry> {
        var bytes = 0
        var end = waiting.startIndex
        while end < waiting.endIndex, bootstrap(of: waiting[end]) == nil {
            let isNewVersion = end == waiting.startIndex || waiting[end].version > waiting[end - 1].version
            if isNewVersion, bytes > byteBudget { break }
            bytes += waiting[end].changeset.count
            end += 1
        }
        return waiting[..<end]
    }

    private func wholeBootstrap(of waiting: ArraySlice<ViewEntry>) -> ArraySlice<ViewEntry> {
        waiting.prefix { bootstrap(of: $0) == waiting.first?.bootstrap }
    }
}

/// What one DOWNLOAD of a view says, and what goes before it.
package struct ViewDownload: Sendable {
    package var download: Download
    /// The set of queries that the client has then.
    package var queryVersion: UInt64
    /// Whether the message is the whole bootstrap of that set.
    package var isBootstrap: Bool
    /// What the client has to be told first.
    package var compensations: [CompensatingWrite]
}
