import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import OrderedCollections

/// The announcements of new versions (`Spec/Server.md`, section 4).
extension FileSessions {
    /// Announces the newest versions to every running session. Sessions that were up to date get the DOWNLOAD right
    /// away, which is the same for most of them, until the step is over. The others get the number of the newest
    /// version, and request a DOWNLOAD when they can send one.
    func announce(until limit: StepLimit) {
        if !hasChanges, file.head.cumulativeSize > 0 {
            hasChanges = true
            environment.options.onFirstChange(file.path)
        }
        if let flexible {
            for ident in flexible.takeClientsToNotify().sorted() {
                guard let key = session(of: ident), !isIdentifying(key) else { continue }
                if limit.isOver || !sendNews(to: key, in: flexible) { reply(key, .versionExposed(file.version)) }
            }
            for ident in flexible.takeOverQuota().sorted() {
                if let key = session(of: ident) { failForQueryTime(key) }
            }
            announcedVersion = version
            return
        }
        for index in running.keys.indices {
            let key = running.keys[index], cursor = running.values[index].progress.download
            let news = limit.isOver ? nil : news(for: running.values[index])
            guard let (progress, body) = news else {
                reply(key, .versionExposed(file.version))
                continue
            }
            running.values[index].progress.download = progress.cursor
            running.values[index].unaskedVersion = progress.cursor.serverVersion
            replies.append(FileReply(session: key, event: .download(progress, body), follows: cursor))
        }
        announcedVersion = file.version
        file.releaseScans()
    }

    /// The DOWNLOAD of the entries since the last announcement.
    /// - Returns: nil if the session has to ask: it did not have everything before, or may not have integrated the last
    ///   one yet, or there is much.
    private func news(for session: Running) -> (DownloadProgress, EncodedBody)? {
        let cursor = session.progress.download
        guard session.isLive, session.hasTakenUnasked, cursor.serverVersion >= announcedVersion,
            // If this fails, it fails again when the session requests the DOWNLOAD, and is reported then.
            let download = try? file.downloads(for: session.clientFile, session.capabilities)
                .download(after: cursor, byteBudget: newsBytesMax),
            download.progress.cursor.serverVersion == file.version,
            download.changesets.reduce(0, { $0 + $1.changeset.count }) <= environment.options.shortBodyBytesMax
        else { return nil }
        // A session that had everything at the last commit needs nothing of a generation.
        return (download.progress, body(of: download, after: cursor, in: .log, session.capabilities))
    }

    /// Makes the DOWNLOAD of what has happened in a view, which its session has not requested. It may be dropped on the
    /// way: then the session asks for what it had before.
    /// - Returns: false if the session has to ask, as in `news`.
    private func sendNews(to key: SessionKey, in flexible: FlexibleFile) -> Bool {
        guard let session = running[key], var view = session.view, session.hasTakenUnasked else { return false }
        let before = view.sent, capabilities = session.capabilities
        var known: EncodedBody?
        let news = flexible.news(for: &view, capabilities, bytesMax: newsBytesMax) { entries in
            known = environment.bodies.kept(of: entries, file: file.id, epoch: file.epoch, capabilities)
            return known != nil
        }
        guard let news else { return false }
        let progress = news.download.progress
        let body =
            known
            ?? environment.bodies.body(
                of: news.download, entries: news.alike, file: file.id, epoch: file.epoch, capabilities,
                limits: environment.options.limits)
        running[key]?.view = view
        running[key]?.sentBefore = before
        running[key]?.unaskedVersion = progress.cursor.serverVersion
        replies.append(FileReply(session: key, event: .download(progress, body), follows: before.cursor))
        return true
    }

    private var newsBytesMax: Int {
        min(environment.options.shortBodyBytesMax, environment.options.limits.downloadBytesSoftMax)
    }

    func body(
        of download: Download, after cursor: DownloadCursor, in lineage: Lineage, _ capabilities: ClientCapabilities
    ) -> EncodedBody {
        environment.bodies.body(
            of: download, after: cursor, file: file.id, epoch: file.epoch, in: lineage, capabilities,
            limits: environment.options.limits)
    }
}
