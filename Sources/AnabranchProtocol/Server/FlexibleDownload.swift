public import AnabranchCore

/// The DOWNLOAD of flexible sync that a scan has made (`Spec/FlexibleSync.md`, section 1.5).
public struct FlexibleDownload: Equatable, Sendable {
    /// Where the client stands behind the message. The cursor of a bootstrap counts once its last part is there.
    public var progress: DownloadProgress
    /// The changesets.
    public var body: EncodedBody
    /// What they are.
    public var kind: DownloadKind
    /// How much of the current download is done with this message, 0 … 1.
    public var estimate: Double
    /// Errors 231 that go before it, in steady state only: for each compensating write of which the message has the
    /// version, in ascending order of the versions.
    public var compensations: [ErrorMessage]

    /// Puts the parts together.
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

    /// Whether the errors speak of versions behind `cursor` that the message has, as clients expect (section 2.7).
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
