public import AnabranchCore

/// The scan of the log for one reader (`Spec/History.md`, section 7): everything but the reader's own changesets and
/// the empty ones, each with the exact client version.
public struct DownloadScan {
    let file: SyncedFile
    let ident: ClientFileID
    let capabilities: ClientCapabilities
    /// The number of versions that one DOWNLOAD passes over; the next one continues after them.
    static let versionsMax = 65_536
    var versionsMax = DownloadScan.versionsMax
}

extension DownloadScan: DownloadSource {
    /// Readers at the same place share the work if the log holds no entries of their own after it.
    public func download(after cursor: DownloadCursor, byteBudget: Int) throws(HistoryError) -> Download {
        try file.retrying { () throws(HistoryError) in
            while true {
                // The choice of what to send to the reader is durable before anything is sent.
                if file.unwrittenChoices.contains(ident) { try file.writeProgress() }
                if let download = try find(after: cursor, byteBudget: byteBudget) { return download }
            }
        }
    }

    /// - Returns: nil if the choice of what to send to the reader has only just been made.
    private func find(after cursor: DownloadCursor, byteBudget: Int) throws(HistoryError) -> Download? {
        let isFollowing = file.tail?.covers(ident, after: cursor.serverVersion) ?? false
        let state = capabilities == .all ? nil : try file.currentState()
        return try file.read(missesTail: !isFollowing) { view throws(HistoryError) -> Download? in
            guard let reader = try view.clientFile(ident) else {
                throw HistoryError(.badClientFileIdent, "there is no client file \(ident)")
            }
            try require(!reader.isExpired, .clientFileExpired, "the client file has expired")
            if reader.lineage == .none, file.head.version > 0 {
                _ = try file.chooseLineage(for: file.unwritten[ident] ?? reader, in: view)
                return nil
            }
            let generation = try view.generation(of: reader, after: cursor.serverVersion)
            let view: any FileView = if let generation { LineageView(generation, in: view) } else { view }
            let newest = try view.lastReceipt(from: ident, upTo: file.head.version)?.version ?? 0
            let key = SharedScans.Key(
                lineage: generation.map { .generation($0.version) } ?? .log, cursor: cursor, byteBudget: byteBudget,
                versionsMax: versionsMax, capabilities: capabilities)
            // A generation ends where its last entry does: it is passed over as a whole, whatever its version.
            let start = max(cursor.serverVersion, generation?.version ?? 0)
            let last = min(file.head.version, start + UInt64(versionsMax))
            var download: Download
            if newest > cursor.serverVersion {
                download = try scan(view, after: cursor, through: last, byteBudget: byteBudget, state)
            } else if let found = file.sharedScans.find(key) {
                download = found
            } else {
                download = try scan(view, after: cursor, through: last, byteBudget: byteBudget, state)
                file.sharedScans.keep(download, as: key)
            }
            download.progress.upload = reader.uploadCursor
            return download
        }
    }

    /// The sequence of entries that follow `cursor` for the reader: equal cursors mean the same only in equal
    /// sequences.
    /// - Throws: as `download`.
    package func lineage(after cursor: DownloadCursor) throws(HistoryError) -> Lineage {
        let reader = try file.clientFile(ident)
        guard case .generation(let version)? = reader?.lineage, cursor.serverVersion < version else { return .log }
        return .generation(version)
    }

    /// The entries that follow `cursor`, without the reader's upload cursor.
    private func scan(
        _ view: any FileView, after cursor: DownloadCursor, through last: ServerVersion, byteBudget: Int,
        _ state: ObjectGraph?
    ) throws(HistoryError) -> Download {
        let head = file.head, generation = (view as? LineageView)?.version ?? 0
        let range = VersionRange(after: cursor.serverVersion, through: last)
        var found = try view.entries(in: range, excludingOrigin: ident, byteBudget: byteBudget)
        var isAtEnd = found.reduce(0) { $0 + $1.byteCount } <= byteBudget
        // A relay knows no types, and passes entries on as they are.
        if let state {
            let count = found.count
            found = try AdaptedEntries(found, for: ident, capabilities, state, view, head).entries
            isAtEnd = isAtEnd && found.count == count
        }
        let end = isAtEnd ? last : found.last?.version ?? last
        let own = try view.receipts(from: ident, in: VersionRange(after: cursor.serverVersion, through: end))
        let sizeAtEnd =
            if end == head.version {
                head.cumulativeSize
            } else if let newest = found.last, newest.version == end {
                newest.cumulativeSize
            } else {
                try view.entry(end)?.cumulativeSize ?? head.cumulativeSize
            }
        let progress = DownloadProgress(
            cursor: DownloadCursor(
                serverVersion: max(end, cursor.serverVersion),
                clientVersion: own.last?.clientVersion ?? cursor.clientVersion),
            latest: SaltedVersion(
                version: head.version, salt: end < generation ? head.versionSalt.within(generation) : head.versionSalt),
            upload: UploadCursor(),
            downloadableBytes: head.cumulativeSize &- sizeAtEnd)
        return Download(
            progress: progress,
            changesets: DownloadScan.interleave(found, with: own, startingAt: cursor.clientVersion))
    }

    /// Gives each entry the client version of the reader's newest receipt before it.
    private static func interleave(
        _ entries: [LogEntry], with own: [Receipt], startingAt clientVersion: ClientVersion
    ) -> [DownloadedChangeset] {
        var next = own.startIndex
        var clientVersion = clientVersion
        return entries.map { entry in
            while next < own.endIndex, own[next].version < entry.version {
                clientVersion = own[next].clientVersion
                next += 1
            }
            return DownloadedChangeset(
                cursor: DownloadCursor(serverVersion: entry.version, clientVersion: clientVersion),
                tag: entry.tag, changeset: entry.changeset)
        }
    }
}

extension SyncedFile {
    /// The downloads for a session of client file `ident`.
    /// - Parameter capabilities: the abilities of the client's release. Its downloads throw `clientTooOld` where the
    ///   log continues with something that it cannot read.
    public func downloads(for ident: ClientFileID, _ capabilities: ClientCapabilities = .all) -> DownloadScan {
        DownloadScan(file: self, ident: ident, capabilities: capabilities)
    }

    /// The log between two places, for tools and tests.
    public func log(after version: ServerVersion = 0) throws(HistoryError) -> [LogEntry] {
        let range = VersionRange(after: max(version, head.baseVersion), through: head.version)
        guard !range.isEmpty else { return [] }
        return try retrying { () throws(HistoryError) in
            try read { view throws(HistoryError) in
                var entries: [LogEntry] = []
                var version = range.base
                while version < range.last {
                    version += 1
                    entries.append(try view.requiredEntry(version))
                }
                return entries
            }
        }
    }
}
