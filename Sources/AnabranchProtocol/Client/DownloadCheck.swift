package import AnabranchCore

/// The checks that a client makes of each DOWNLOAD before it looks at the changesets (`Spec/Protocol.md`, section 5.2;
/// `Spec/FlexibleSync.md`, section 1.5).
package struct DownloadCheck {
    private let mode: SyncMode
    private let version: ClientVersion
    private let ident: ClientFileID

    /// - Parameters:
    ///   - version: the newest version of the client's log.
    ///   - ident: the ident of its file.
    package init(_ mode: SyncMode = .partition, version: ClientVersion, ident: ClientFileID) {
        (self.mode, self.version, self.ident) = (mode, version, ident)
    }

    /// The progress before the first DOWNLOAD.
    package static let nothing = DownloadProgress(
        cursor: DownloadCursor(), latest: SaltedVersion(), upload: UploadCursor(), downloadableBytes: 0)

    /// The checks 1 to 8.
    ///
    /// - Parameter old: the progress that is integrated. A part of a bootstrap is compared with that, too.
    /// - Returns: which of the checks fails; nil if none does.
    package func violation(of download: Download, after old: DownloadProgress) -> String? {
        let new = download.progress, end = new.cursor
        guard new.latest.version >= old.latest.version else { return "the newest version goes back" }
        guard new.upload.clientVersion >= old.upload.clientVersion else { return "the upload cursor goes back" }
        guard new.upload.clientVersion <= version else { return "a version is acknowledged that never was" }
        guard end.serverVersion >= old.cursor.serverVersion, end.serverVersion <= new.latest.version,
            end.clientVersion >= old.cursor.clientVersion, end.clientVersion <= new.upload.clientVersion
        else { return "the download cursor is out of its bounds" }
        guard end.serverVersion >= new.upload.serverVersion else {
            return "the server version of the upload cursor is out of its bounds"
        }
        var last = old.cursor
        for changeset in download.changesets {
            let cursor = changeset.cursor
            guard follows(cursor.serverVersion, last.serverVersion), cursor.serverVersion <= end.serverVersion,
                cursor.clientVersion >= last.clientVersion, cursor.clientVersion <= end.clientVersion
            else { return "the cursor of a changeset is out of its bounds" }
            guard changeset.tag.ident > 0, changeset.tag.ident != ident else {
                return "a changeset of the client itself comes back"
            }
            last = cursor
        }
        return nil
    }

    /// In flexible sync several changesets may have one version, and that may be the one that the client has.
    private func follows(_ version: ServerVersion, _ last: ServerVersion) -> Bool {
        mode == .flexible ? version > 0 && version >= last : version > last
    }

    /// Check 9, which can only fail where the progress is stored: the client then sends JSON_ERROR 233.
    package static func goesBack(_ new: DownloadProgress, after old: DownloadProgress) -> Bool {
        new.upload.serverVersion != 0 && new.upload.serverVersion < old.upload.serverVersion
    }
}
