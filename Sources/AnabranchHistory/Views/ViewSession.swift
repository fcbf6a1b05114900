package import AnabranchCore

/// The progress of a running session of a view: a value, which the owner of the session keeps.
package struct ViewSession: Sendable {
    package let ident: ClientFileID
    /// Decides which UPLOAD is acceptable.
    package var progress: SessionProgress
    /// The number of the set that the client has, or will have when it has integrated what was sent; and the set
    /// itself.
    var queryVersion: UInt64
    var predicates: Predicates
    /// The number of the set that IDENT has named.
    private let identifiedVersion: UInt64
    /// The number of the first entry of the view that was made in this session. Older ones are not sent as the
    /// bootstrap that they were made for: the client, which has not got that, asks for it again.
    var firstNumber: UInt64 = 1
    /// The number of the last entry of the view that was sent.
    var sentNumber: UInt64 = 0
    private var acknowledged = UploadCursor()
    private(set) var hasSent = false

    /// The end of the messages to a client: the number of the last entry, the acknowledged upload, and its place.
    package struct Sent: Sendable {
        fileprivate let number: UInt64
        fileprivate let acknowledged: UploadCursor
        package let cursor: DownloadCursor
    }

    /// The end of the messages that were made so far.
    package var sent: Sent { Sent(number: sentNumber, acknowledged: acknowledged, cursor: progress.download) }

    /// Takes back the messages that were made since then and never sent.
    package mutating func goBack(to sent: Sent) {
        (sentNumber, acknowledged, progress.download) = (sent.number, sent.acknowledged, sent.cursor)
    }

    init(ident: ClientFileID, progress: SessionProgress, queryVersion: UInt64, predicates: Predicates) {
        self.ident = ident
        self.progress = progress
        self.queryVersion = queryVersion
        identifiedVersion = queryVersion
        self.predicates = predicates
    }

    /// The query of the client for a class; nil if it has none.
    package func query(ofClass name: String) -> String? { predicates[ExactString(name)]?.text }

    /// The next message; nil if the client knows everything.
    mutating func next(
        of view: ClientView, at head: FileHead, acknowledging upload: UploadCursor, _ ownVersion: ClientVersion,
        _ byteBudget: Int, isAnswer: Bool
    ) -> ViewMessage? {
        let waiting = view.log.entries(after: sentNumber), set = waiting.first.flatMap { bootstrap(of: $0) }
        let entries = set == nil ? steadyPart(of: waiting, byteBudget) : part(of: waiting)
        let rest = waiting[entries.endIndex...]
        let isWhole = set == nil || rest.first.flatMap { bootstrap(of: $0) } != set
        // Whatever follows an entry that is not sent yet comes later.
        var cursor = DownloadCursor(serverVersion: head.version, clientVersion: ownVersion)
        if !rest.isEmpty || set != nil, let last = entries.last {
            cursor = DownloadCursor(serverVersion: last.version, clientVersion: last.clientVersion)
        }
        guard isAnswer || !hasSent || !entries.isEmpty || cursor != progress.download || upload != acknowledged else {
            return nil
        }
        var latest = SaltedVersion(version: head.version, salt: head.versionSalt)
        // Objects that have left or entered up to here may be sent later: this salt marks that in a copy of the
        // client's file.
        if rest.contains(where: { $0.isSynthetic && bootstrap(of: $0) == nil }) {
            latest.salt = latest.salt.within(cursor.serverVersion)
        }
        let header = DownloadProgress(cursor: cursor, latest: latest, upload: upload, downloadableBytes: 0)
        var message = ViewMessage(entries: entries, progress: header)
        if let set {
            message.kind = .bootstrap(QueryVersion(rawValue: set), isLast: isWhole)
            if !isWhole { message.estimate = estimate(of: entries, before: rest, in: view) }
        }
        // The stored parts count when the last one is there.
        if isWhole { progress.download = cursor }
        sentNumber = entries.last?.number ?? sentNumber
        (acknowledged, hasSent) = (upload, true)
        return message
    }

    /// The number of the set whose bootstrap an entry is sent as; nil if it is not sent as one.
    private func bootstrap(of entry: ViewEntry) -> UInt64? {
        guard let set = entry.bootstrap else { return nil }
        // The client has the set of its IDENT already, but for the first one, for which it never asks.
        if set == identifiedVersion { return set == 0 ? 0 : nil }
        return entry.number >= firstNumber ? set : nil
    }

    /// The next entries outside bootstraps. Those of one version stay together: a client that reconnects requests what
    /// follows a version.
    private func steadyPart(of waiting: ArraySlice<ViewEntry>, _ byteBudget: Int) -> ArraySlice<ViewEntry> {
        var bytes = 0
        var end = waiting.startIndex
        while end < waiting.endIndex, bootstrap(of: waiting[end]) == nil {
            let isNewVersion = end == waiting.startIndex || waiting[end].version > waiting[end - 1].version
            if isNewVersion, bytes > byteBudget { break }
            bytes += waiting[end].sentBytes
            end += 1
        }
        return waiting[..<end]
    }

    /// The next part of a bootstrap: its first version.
    private func part(of waiting: ArraySlice<ViewEntry>) -> ArraySlice<ViewEntry> {
        waiting.prefix { $0.version == waiting.first?.version && bootstrap(of: $0) != nil }
    }

    /// The fraction of a bootstrap that the client has when it has these entries, 0 … 1.
    private func estimate(
        of entries: ArraySlice<ViewEntry>, before rest: ArraySlice<ViewEntry>, in view: ClientView
    ) -> Double {
        let set = entries.first?.bootstrap
        func bytes(_ entries: ArraySlice<ViewEntry>) -> Int { entries.reduce(0) { $0 + $1.sentBytes } }
        let first = view.log.entries[..<entries.endIndex].lastIndex { $0.bootstrap != set }.map { $0 + 1 } ?? 0
        let sent = view.log.entries[first..<entries.endIndex]
        let missing = rest.prefix { $0.bootstrap == set }
        return Double(bytes(sent)) / Double(max(1, bytes(sent) + bytes(missing)))
    }
}

/// One DOWNLOAD of a view, without the contents of its entries, and what goes before it.
struct ViewMessage {
    var entries: ArraySlice<ViewEntry>
    var progress: DownloadProgress
    var kind = DownloadKind.steady
    var estimate = 1.0

    /// More small entries than this are faster encoded again than found.
    private static let alikeCountMax = 64

    /// The identities of the entries, if others get the same: entries of the log, or what another client has got
    /// before. Nil if there are none or many.
    var alike: [AlikeEntry]? {
        guard !entries.isEmpty, entries.count <= Self.alikeCountMax,
            entries.allSatisfy({ $0.isInLog || $0.share?.isKnown == true })
        else { return nil }
        return entries.map {
            AlikeEntry(
                cursor: DownloadCursor(serverVersion: $0.version, clientVersion: $0.clientVersion),
                share: $0.isInLog ? nil : $0.share?.id)
        }
    }

    /// The size of the changesets, in bytes.
    var byteCount: Int { entries.reduce(0) { $0 + $1.sentBytes } }
}

/// The content of one DOWNLOAD of a view, and what goes before it.
package struct ViewDownload: Sendable {
    package var download: Download
    package var kind: DownloadKind
    /// The fraction of the bootstrap that the client has then, 0 … 1.
    package var estimate: Double
    /// The undone writes to report to the client first.
    package var compensations: [CompensatingWrite]
    /// The identities of the changesets: the same of the same file make the same message. Nil if no other client gets
    /// it.
    package var alike: [AlikeEntry]?
}

/// A changeset that several clients can get.
package struct AlikeEntry: Sendable, Hashable {
    /// The download cursor of a client that has it.
    package let cursor: DownloadCursor
    /// `ViewShare.id`; nil if it is as it is in the log.
    package let share: UInt64?

    package init(cursor: DownloadCursor, share: UInt64?) {
        self.cursor = cursor
        self.share = share
    }
}
