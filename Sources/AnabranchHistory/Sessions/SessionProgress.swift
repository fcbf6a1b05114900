public import AnabranchCore

/// The progress of a running session in both directions; it decides which UPLOAD is acceptable (`Spec/History.md`,
/// section 5). A value, which the owner of the session keeps.
public struct SessionProgress: Equatable, Sendable {
    /// D: the place up to which DOWNLOADs were built for this session. Advances with each of them.
    public var download: DownloadCursor
    /// T: the progress of the uploads of earlier sessions of the file; fixed for the session.
    public let threshold: UploadCursor
    /// Q: the progress of the previous UPLOAD.
    public private(set) var uploaded = UploadCursor()
    /// K: the highest locked version so far.
    public private(set) var lockedVersion: ServerVersion

    /// Creates the progress of a session that has sent and received nothing yet.
    public init(download: DownloadCursor, threshold: UploadCursor, lockedVersion: ServerVersion) {
        self.download = download
        self.threshold = threshold
        self.lockedVersion = lockedVersion
    }

    /// Checks an UPLOAD and advances past it.
    /// - Returns: the rest to be queued for integration; nil if earlier sessions have brought all of it.
    /// - Throws: `badClientVersion` or `badServerVersion` for the first failing check; then nothing has changed.
    public mutating func accept(_ upload: Upload) throws(HistoryError) -> Upload? {
        try checkProgress(of: upload)
        try checkChangesets(of: upload)
        uploaded = upload.progress
        if upload.progress.clientVersion <= threshold.clientVersion, upload.lockedVersion <= lockedVersion {
            return nil
        }
        lockedVersion = upload.lockedVersion
        var rest = upload
        if threshold.clientVersion > 0 {
            rest.changesets.removeAll { $0.cursor.clientVersion <= threshold.clientVersion }
            if upload.progress.clientVersion < threshold.clientVersion { rest.progress = threshold }
        }
        return rest
    }

    private func checkProgress(of upload: Upload) throws(HistoryError) {
        let progress = upload.progress
        try require(progress.clientVersion >= uploaded.clientVersion, .badClientVersion, "the progress goes back")
        try require(
            progress.serverVersion <= download.serverVersion, .badServerVersion, "the progress is beyond the downloads")
        try require(progress.isConsistent, .badServerVersion, "the progress is not consistent")
        try require(
            progress.isMutuallyConsistent(with: threshold), .badServerVersion,
            "the progress contradicts that of earlier sessions")
        try require(
            progress.isMutuallyConsistent(with: uploaded), .badServerVersion,
            "the progress contradicts that of the previous upload")
        try require(upload.lockedVersion >= lockedVersion, .badServerVersion, "the locked version goes back")
        try require(
            upload.lockedVersion <= download.serverVersion, .badServerVersion,
            "the locked version is beyond the downloads")
    }

    private func checkChangesets(of upload: Upload) throws(HistoryError) {
        var previous = uploaded
        for changeset in upload.changesets {
            let cursor = changeset.cursor
            try require(
                cursor.clientVersion > previous.clientVersion, .badClientVersion, "the client versions do not increase")
            try require(
                cursor.isConsistent && cursor.isMutuallyConsistent(with: previous)
                    && cursor.isMutuallyConsistent(with: threshold),
                .badServerVersion, "the base of a changeset contradicts what came before")
            previous = cursor
        }
        guard !upload.changesets.isEmpty else { return }
        try require(
            previous.clientVersion <= upload.progress.clientVersion, .badClientVersion,
            "a changeset lies beyond the progress")
        try require(
            previous.isMutuallyConsistent(with: upload.progress), .badServerVersion,
            "the base of the last changeset contradicts the progress")
    }
}

/// Throws the error for a failed check of a client's message.
func require(
    _ holds: Bool, _ code: HistoryError.Code, _ reason: @autoclosure () -> String
) throws(HistoryError) {
    if !holds { throw HistoryError(code, reason()) }
}
