package import AnabranchCore

/// What a synced file keeps of the past, and because of whom.
package struct HistoryStatus: Equatable, Sendable {
    /// The beginning and the end of the log.
    package var head: FileHead
    /// The version up to which the log is in segments; where it begins if none of it is.
    package var sealedVersion: ServerVersion
    /// The bootstrap generations, the newest one last.
    package var generations: [Generation]
    /// The version of the newest bootstrap generation; 0 if there is none.
    package var generationVersion: ServerVersion { generations.last?.version ?? 0 }
    /// Who keeps most of the log; nil if nobody keeps any of it.
    package var lowestPin: ClientFilePin?
    /// The user of that client file; nil if there is none, or the server did not know.
    package var user: String?
    /// How many bytes of changesets it keeps.
    package var pinnedBytes: UInt64
    /// What the archive of the file occupies, in bytes.
    package var archivedBytes: UInt64
}

extension SyncedFile {
    /// What the file keeps of the past. All client files are looked at.
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

    /// The newest entries of the archive up to a version, in order: as many as one segment has of them. None if there
    /// are none. Who wants all of it asks again for those before the first one.
    /// - Throws: `storeDamaged` if they are not what was written; a failure of the store.
    package func archivedEntries(upTo version: ServerVersion) throws(HistoryError) -> [LogEntry] {
        try read { view throws(HistoryError) in try view.archivedEntries(upTo: version) }
    }

    /// What could go if a client file expired: entries, and the bytes of their changesets.
    /// - Parameter policy: of a log that is long by it all may go, since there would be a generation.
    /// - Throws: `badClientFileIdent` if there is no such client file; a failure of the store.
    package func freed(
        byExpiring ident: ClientFileID, under policy: HistoryPolicy = HistoryPolicy()
    ) throws(HistoryError) -> (entries: UInt64, bytes: UInt64) {
        let needsNone = !makesGenerations || policy.isLong(head)
        let limit = needsNone ? max(1, head.version) - 1 : try generations().last?.version ?? 0
        return try freed(byExpiring: ident, upTo: limit)
    }

    /// - Parameter limit: up to where entries may go if nobody needs them.
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

    /// Who would keep most of the log if a client file expired; nil if nobody would keep any of it.
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
        guard let entry = try entry(version) else {
            throw HistoryError(.storeDamaged, "log entry \(version) is missing")
        }
        return entry.cumulativeSize
    }
}
