import AnabranchCore

/// What a running session owes its client (`Spec/History.md`, section 7): a first DOWNLOAD even if it is empty, then
/// one whenever there is something beyond the cursor, and, once there is nothing, the answer to the latest MARK.
///
///     none ─ scan asked for ─▶ underWay ─ DOWNLOAD made ─▶ ready ─ sent ─▶ none
///
/// Before `begin` it collects what is said to a session whose IDENT is still being checked.
struct DownloadFeed: Sendable {
    /// The latest MARK that was not answered.
    var mark: UInt64?
    /// They go before the DOWNLOAD that they speak of.
    var warnings: [ErrorMessage] = []
    /// Where the client stands behind all that was made for it.
    private(set) var cursor = DownloadCursor()
    private var exposedVersion: ServerVersion = 0
    private var hasSentDownload = false
    private var download = Download.none

    private enum Download {
        case none, underWay
        case ready(EncodedMessage)
    }

    /// The next step, in the order of their cases.
    enum Step {
        case warning(ErrorMessage)
        case download(EncodedMessage)
        case scan(from: DownloadCursor)
        case mark(UInt64)
    }

    /// A DOWNLOAD was asked for and is not there yet.
    var isMakingDownload: Bool {
        if case .underWay = download { true } else { false }
    }

    /// A DOWNLOAD is being made, or waits to be sent.
    var isDownloading: Bool {
        if case .none = download { false } else { true }
    }

    var turn: ServerSession.Turn {
        if !warnings.isEmpty { return .message }
        switch download {
        case .ready: return .message
        case .underWay: return .nothing
        case .none: break
        }
        if !hasSentDownload || exposedVersion > cursor.serverVersion { return .scan }
        return mark == nil ? .nothing : .message
    }

    mutating func begin(at cursor: DownloadCursor, exposedVersion: ServerVersion) {
        self.cursor = cursor
        expose(exposedVersion)
    }

    /// News of versions may come in any order.
    mutating func expose(_ version: ServerVersion) { exposedVersion = max(exposedVersion, version) }

    /// The DOWNLOAD that was asked for.
    mutating func downloadReady(_ progress: DownloadProgress, _ message: EncodedMessage) {
        cursor = progress.cursor
        expose(progress.latest.version)
        download = .ready(message)
    }

    mutating func next() -> Step? {
        if !warnings.isEmpty { return .warning(warnings.removeFirst()) }
        if case .ready(let message) = download {
            download = .none
            hasSentDownload = true
            return .download(message)
        }
        switch turn {
        case .scan:
            download = .underWay
            return .scan(from: cursor)
        case .message:
            defer { mark = nil }
            return mark.map { .mark($0) }
        case .nothing:
            return nil
        }
    }
}
