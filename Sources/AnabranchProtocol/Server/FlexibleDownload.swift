public import AnabranchCore

/// The DOWNLOAD of flexible sync that a scan has made (`Spec/FlexibleSync.md`, section 1.5).
public struct FlexibleDownload: Equatable, Sendable {
    /// The client's place after the message. The cursor of a bootstrap counts once its last part has arrived.
    public var progress: DownloadProgress
    /// The changesets.
    public var body: EncodedBody
    /// The kind of the changesets: steady state, or a part of a bootstrap.
    public var kind: DownloadKind
    /// How much of the current download is done with this message, 0 … 1.
    public var estimate: Double
    /// Errors 231 to be sent before it, in steady state only: one for each compensating write whose version is in the
    /// message, in ascending order of the versions.
    public var compensations: [ErrorMessage]

    /// A DOWNLOAD of these changesets; by default of steady state, with nothing left to download.
    public init(
        progress: DownloadProgress, body: EncodedBody, kind: DownloadKind = .steady, estimate: Double = 1,
        compensations: [ErrorMessage] = []
    ) {
        self.progress = progress
        self.body = body
        self.kind = kind
        self.estimate = estimate
        self.compensations = compensations
    }

    /// True if the errors are about versions after `cursor` that the message contains, as clients expect (section 2.7).
    func announcesItsCompensations(after cursor: DownloadCursor) -> Bool {
        var last = cursor.serverVersion + 1
        for error in compensations {
            guard let version = error.rejection?.serverVersion, !error.isFinal, kind == .steady, !body.isEmpty,
                last <= version, version <= progress.cursor.serverVersion
            else { return false }
            last = version
        }
        return true
    }
}
