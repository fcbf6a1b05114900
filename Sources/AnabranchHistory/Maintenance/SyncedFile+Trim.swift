package import AnabranchCore

extension SyncedFile {
    /// The largest number of entries that one commit removes.
    package static let trimmedEntriesMax = 4_096
    /// The size of the changesets that one commit removes, in bytes; its last entry may exceed it.
    package static let trimmedBytesMax = 4 << 20

    /// The version up to which the log is no longer needed.
    /// - Parameter limit: the version of the newest generation; 0 if there is none.
    package func floor(upTo limit: ServerVersion) throws(HistoryError) -> ServerVersion {
        var scan = PinScan(upTo: min(limit, head.stateVersion))
        try run(&scan)
        return scan.floor
    }

    /// A commit that removes the oldest entries, or a part of them if they are many. The newest entry stays: what the
    /// server writes next must not be older than it.
    /// - Parameters:
    ///   - floor: the version up to which they may go.
    ///   - keep: the fate of the entries. To the archive go those that are sealed.
    /// - Returns: nil if nothing is left to remove, or a merge has begun, which knows the client files as they were.
    /// - Throws: a failure of the store.
    package func trimCommit(
        upTo floor: ServerVersion, keep: HistoryPolicy.Keep = .drop,
        entriesMax: Int = SyncedFile.trimmedEntriesMax, bytesMax: Int = SyncedFile.trimmedBytesMax
    ) throws(HistoryError) -> Commit? {
        guard !isIntegrating, floor > head.baseVersion else { return nil }
        return try read { view throws(HistoryError) -> Commit? in
            var floor = floor
            for ident in unwrittenChoices {
                guard let file = unwritten[ident], let pin = try view.pin(of: file) else { continue }
                floor = min(floor, pin)
            }
            if keep == .archive { floor = try min(floor, view.sealedEnd()?.version ?? 0) }
            guard let last = try lastTrimmed(upTo: floor, entriesMax, bytesMax, view) else { return nil }
            var commit = Commit(file: id, lease: lease, head: try view.head())
            commit.trim = Trim(through: last, keep: keep)
            let range = VersionRange(after: commit.head.baseVersion, through: last.version)
            for (ident, receipt) in try view.newestReceipts(in: range).sorted(by: { $0.key < $1.key }) {
                guard var file = try current(ident, in: view) else {
                    throw HistoryError(.storeDamaged, "client file \(ident) is missing")
                }
                file.trim(through: last.version, newest: receipt)
                commit.clientFiles.append(file)
            }
            return commit
        }
    }

    /// The entry with which a commit ends; nil if nothing may go.
    private func lastTrimmed(
        upTo floor: ServerVersion, _ entriesMax: Int, _ bytesMax: Int, _ view: any FileView
    ) throws(HistoryError) -> LogEntry? {
        let head = try view.head(), base = head.baseVersion
        guard head.version > base + 1 else { return nil }
        let floor = min(floor, head.version - 1, head.stateVersion)
        var wanted = min(floor, base + UInt64(max(1, entriesMax)))
        guard wanted > base else { return nil }
        let range = VersionRange(after: base, through: wanted)
        let entries = try view.entries(in: range, excludingOrigin: nil, byteBudget: bytesMax)
        if let end = entries.last, entries.reduce(0, { $0 + $1.byteCount }) > bytesMax { wanted = end.version }
        guard let last = try view.trimEnd(near: wanted, upTo: floor), last > base else { return nil }
        return try view.requiredEntry(last)
    }

    /// Removes everything up to `floor`, in as many commits as that needs.
    /// - Throws: a failure of the store.
    package func trim(upTo floor: ServerVersion, keep: HistoryPolicy.Keep = .drop) throws(HistoryError) {
        while keep == .archive, let commit = try sealIfDue(upTo: floor) { try self.commit(commit) }
        while let commit = try trimCommit(upTo: floor, keep: keep) { try self.commit(commit) }
    }
}
