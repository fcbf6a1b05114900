package import AnabranchCore

/// The part of the past that a synced file keeps, and the client file for which it keeps most.
package struct HistoryStatus: Equatable, Sendable {
    /// The beginning and the end of the log.
    package var head: FileHead
    /// The version up to which the log is in segments; the base of the log if none of it is.
    package var sealedVersion: ServerVersion
    /// The bootstrap generations, the newest one last.
    package var generations: [Generation]
    /// The version of the newest bootstrap generation; 0 if there is none.
    package var generationVersion: ServerVersion { generations.last?.version ?? 0 }
    /// The client file that keeps most of the log; nil if none keeps any of it.
    package var lowestPin: ClientFilePin?
    /// The user of that client file; nil if there is none, or the user was unknown.
    package var user: String?
    /// The size of the changesets that it keeps, in bytes.
    package var pinnedBytes: UInt64
    /// The size of the file's archive, in bytes.
    package var archivedBytes: UInt64
}

extension SyncedFile {
    /// Looks at all client files to find out how much of the past the file keeps.
    package func historyStatus() throws(HistoryError) -> HistoryStatus {
        var scan = PinScan(upTo: head.version)
        try run(&scan)
        let pin = scan.lowest, generations = try generations()
        return try read { view throws(HistoryError) in
            let head = try view.head()
            return HistoryStatus(
                head: head, sealedVersion: try view.sealedEnd()?.version ?? head.baseVersion,
                generations: generations, lowestPin: pin,
                user: try pin.flatMap { pin throws(HistoryError) in try view.clientFile(pin.ident)?.user },
                pinnedBytes: try pin.map { pin throws(HistoryError) in
                    head.cumulativeSize - (try view.cumulativeSize(at: pin.version))
                } ?? 0, archivedBytes: try view.archivedBytes())
        }
    }

    /// The newest entries of the archive up to a version, in order: as many as one segment has; empty if there are
    /// none. To read the whole archive, ask again for the entries before the first one.
    /// - Throws: `storeDamaged` if they are not what was written; a failure of the store.
    package func archivedEntries(upTo version: ServerVersion) throws(HistoryError) -> [LogEntry] {
        try read { view throws(HistoryError) in try view.archivedEntries(upTo: version) }
    }

    /// Computes what could go if a client file expired: entries, and the bytes of their changesets.
    /// - Parameter policy: if it counts the log as long, all of that may go, since there would be a generation.
    /// - Throws: `badClientFileIdent` if there is no such client file; a failure of the store.
    package func freed(
        byExpiring ident: ClientFileID, under policy: HistoryPolicy = HistoryPolicy()
    ) throws(HistoryError) -> (entries: UInt64, bytes: UInt64) {
        let needsNone = !makesGenerations || policy.isLong(head)
        let limit = needsNone ? max(1, head.version) - 1 : try generations().last?.version ?? 0
        return try freed(byExpiring: ident, upTo: limit)
    }

    /// - Parameter limit: the version up to which entries may go if nobody needs them.
    func freed(
        byExpiring ident: ClientFileID, upTo limit: ServerVersion
    ) throws(HistoryError) -> (entries: UInt64, bytes: UInt64) {
        guard let file = try clientFile(ident), file.salt != 0 else {
            throw HistoryError(.badClientFileIdent, "there is no client file \(ident)")
        }
        let limit = min(limit, head.stateVersion)
        var all = PinScan(upTo: limit), others = PinScan(upTo: limit, excluding: ident)
        try run(&all)
        try run(&others)
        let before = max(all.floor, head.baseVersion), after = max(others.floor, before)
        let (start, end) = try read { view throws(HistoryError) in
            (try view.cumulativeSize(at: before), try view.cumulativeSize(at: after))
        }
        return (after.rawValue - before.rawValue, end - start)
    }

    /// The client file that would keep most of the log if another one expired; nil if none would keep any of it.
    /// - Throws: a failure of the store.
    package func lowestPin(afterExpiring ident: ClientFileID) throws(HistoryError) -> ClientFilePin? {
        var others = PinScan(upTo: head.version, excluding: ident)
        try run(&others)
        return others.lowest
    }

    func run(_ scan: inout PinScan) throws(HistoryError) {
        while !scan.isDone {
            scan = try read { [scan] view throws(HistoryError) in
                var scan = scan
                try scan.advance(over: view)
                return scan
            }
        }
    }
}

extension FileView {
    /// The cumulative size at a version, in bytes; below the log that of its beginning.
    func cumulativeSize(at version: ServerVersion) throws(HistoryError) -> UInt64 {
        let head = try head()
        if version >= head.version { return head.cumulativeSize }
        guard version > head.baseVersion else { return head.baseCumulativeSize }
        return try existing(entryWithoutChangeset(version), version).cumulativeSize
    }

    /// An entry of the log.
    /// - Throws: `storeDamaged` if it is missing.
    func requiredEntry(_ version: ServerVersion) throws(HistoryError) -> LogEntry {
        try existing(entry(version), version)
    }

    private func existing(_ entry: LogEntry?, _ version: ServerVersion) throws(HistoryError) -> LogEntry {
        guard let entry else { throw HistoryError(.storeDamaged, "log entry \(version) is missing") }
        return entry
    }
}
