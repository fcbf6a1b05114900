package import AnabranchCore

/// Brings all that a synced file holds into another one, which then is the only one of the two (`Spec/Protocol.md`,
/// section 4.2), as a device would that has written it offline and uploads it. So the merge decides where both hold
/// something, and nothing that only one of them holds is lost.
package struct FileJoin {
    /// The result of a join.
    package struct Report: Equatable, Sendable {
        /// The number of objects that the removed file held.
        package var objectCount: Int
        /// The number of those that the other file had erased; they are there again.
        package var restoredCount: Int
    }

    private let source: SyncedFile
    private let target: SyncedFile
    private let store: any HistoryStore & HistoryCatalog
    private let content: JoinedContent

    /// - Throws: a failure of the store.
    package init(
        of path: VirtualPath, into other: VirtualPath, in store: any HistoryStore & HistoryCatalog
    ) throws {
        self.store = store
        source = try SyncedFile(path: path, store: store)
        target = try SyncedFile(path: other, store: store, objectBytesMax: .max, backlogBytesMax: .max)
        content = try JoinedContent(of: source, for: target)
    }

    /// Joins the files. A join can be interrupted: the next one continues it, and nothing is written twice unless one
    /// of the files was changed in between.
    /// - Parameter time: seconds since 1970.
    /// - Throws: the reason why the other file cannot take the content, if classes do not fit for instance; then the
    ///   file stays. Or a failure of the store.
    package func run(at time: UInt64) throws -> Report {
        let ident = try upload(at: time)
        try source.commit(source.deletion())
        // It would keep the log from being trimmed; until here it says how far the join is.
        try target.expire(ident)
        return Report(objectCount: content.objectCount, restoredCount: content.restoredCount)
    }

    /// Uploads the content to the other file.
    /// - Returns: the client file that has uploaded it.
    @discardableResult
    package func upload(at time: UInt64) throws -> ClientFileID {
        let file = try clientFile(at: time)
        let changesets = try content.changesets(as: file.ident)
            .filter { $0.cursor.clientVersion > file.uploadCursor.clientVersion }
        guard let last = changesets.last else { return file.ident }
        try target.enqueue(Upload(progress: last.cursor, changesets: changesets), from: file.ident)
        for outcome in try target.integrate(at: time).outcomes {
            if let refusal = outcome.refusal { throw refusal }
        }
        return file.ident
    }

    /// The client file of the other file that stands for this content; a new one unless a join was interrupted.
    private func clientFile(at time: UInt64) throws -> ClientFile {
        let user = "merge-files \(Hex.encode(content.digest.bytes)) \(source.path)"
        var last: ClientFileID = 0
        while true {
            let files = try store.clientFiles(of: target.path, after: last, countMax: Self.pageCount)
            if let found = files.first(where: { $0.user.hasBytes(of: user) && !$0.isExpired }) { return found }
            guard files.count == Self.pageCount, let end = files.last else { break }
            last = end.ident
        }
        let ident = try target.allocateIdents(for: [user], at: time)[0].ident
        guard let made = try target.clientFile(ident) else {
            throw HistoryError(.storeDamaged, "there is no client file \(ident)")
        }
        return made
    }

    private static let pageCount = 1_000
}
