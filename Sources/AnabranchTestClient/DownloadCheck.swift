import AnabranchCore

/// What a real client checks of each DOWNLOAD (`Spec/Protocol.md`, section 5.2).
struct DownloadCheck {
    /// The newest version of the client's log.
    let version: ClientVersion
    let ident: ClientFileID

    /// Before the first DOWNLOAD.
    static let nothing = DownloadProgress(
        cursor: DownloadCursor(), latest: SaltedVersion(), upload: UploadCursor(), downloadableBytes: 0)

    /// - Returns: which of the checks fails; nil if none does.
    func violation(of download: Download, after old: DownloadProgress) -> String? {
        let new = download.progress, end = new.cursor
        guard new.latest.version >= old.latest.version else { return "the newest version goes back" }
        guard new.upload.clientVersion >= old.upload.clientVersion else { return "the upload cursor goes back" }
        guard new.upload.clientVersion <= version else { return "a version is acknowledged that never was" }
        guard end.serverVersion >= old.cursor.serverVersion, end.serverVersion <= new.latest.version,
            end.clientVersion >= old.cursor.clientVersion, end.clientVersion <= new.upload.clientVersion
        else { return "the download cursor is out of its bounds" }
        guard end.serverVersion >= new.upload.serverVersion,
            new.upload.serverVersion == 0 || new.upload.serverVersion >= old.upload.serverVersion
        else { return "the server version of the upload cursor is out of its bounds" }
        var last = old.cursor
        for changeset in download.changesets {
            let cursor = changeset.cursor
            guard cursor.serverVersion > last.serverVersion, cursor.serverVersion <= end.serverVersion,
                cursor.clientVersion >= last.clientVersion, cursor.clientVersion <= end.clientVersion
            else { return "the cursor of a changeset is out of its bounds" }
            guard changeset.tag.ident > 0, changeset.tag.ident != ident else {
                return "a changeset of the client itself comes back"
            }
            last = cursor
        }
        return nil
    }
}
