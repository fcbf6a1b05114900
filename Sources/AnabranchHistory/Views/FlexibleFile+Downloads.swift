package import AnabranchCore

/// The messages that clients are sent.
extension FlexibleFile {
    /// The next message of a session; nil if there is nothing to send, or it is not known yet what to send
    /// (`isCatchingUp`).
    ///
    /// - Parameters:
    ///   - capabilities: what the client's release can do with it.
    ///   - byteBudget: the approximate size of the changesets at which a message ends that is not a bootstrap, in
    ///     bytes.
    ///   - isAnswer: whether there is a message in any case.
    ///   - limit: the end of a step in which a client that is behind catches up.
    ///   - hasRoom: whether there is room for a number of bytes of changesets; otherwise nothing happens.
    ///   - isEncoded: whether a message with these entries was encoded for others: then their changesets are left out.
    /// - Throws: a failure of the store, `clientFileExpired`, or `clientTooOld`.
    package func download(
        for session: inout ViewSession, _ capabilities: ClientCapabilities = .all, byteBudget: Int = 128 << 10,
        isAnswer: Bool = false, until limit: StepLimit = .none, hasRoom: (Int) -> Bool = { _ in true },
        isEncoded: ([AlikeEntry]) -> Bool = { _ in false }
    ) throws(HistoryError) -> ViewDownload? {
        try retrying { () throws(HistoryError) in
            try downloadOnce(
                for: &session, capabilities, byteBudget: byteBudget, isAnswer: isAnswer, until: limit, hasRoom: hasRoom,
                isEncoded: isEncoded)
        }
    }

    private func downloadOnce(
        for session: inout ViewSession, _ capabilities: ClientCapabilities, byteBudget: Int, isAnswer: Bool,
        until limit: StepLimit, hasRoom: (Int) -> Bool, isEncoded: ([AlikeEntry]) -> Bool
    ) throws(HistoryError) -> ViewDownload? {
        guard let view = try projected(session.ident, until: limit) else { return nil }
        guard let row = try file.clientFile(session.ident) else {
            throw HistoryError(.badClientFileIdent, "there is no client file \(session.ident)")
        }
        try requireFollowed()
        var next = session
        guard
            let message = next.next(
                of: view, at: file.head, acknowledging: row.uploadCursor, try ownVersion(of: session.ident), byteBudget,
                isAnswer: isAnswer), hasRoom(message.byteCount)
        else { return nil }
        var made = ViewDownload(
            download: Download(progress: message.progress, changesets: []), kind: message.kind,
            estimate: message.estimate, compensations: [], alike: message.alike)
        if made.alike.map(isEncoded) != true {
            let entries = try loaded(message.entries, of: session.ident)
            made.download.changesets = entries.compactMap(\.downloaded)
            made.compensations = entries.compactMap(\.contents?.compensation)
            try made.adapt(to: capabilities, in: try currentState())
        }
        session = next
        return made
    }

    /// The next message of a session that is to get it unasked: all that has happened in its view, which is up to date,
    /// if that is short and nothing has to be reported before it. Nil if the session has to ask: then nothing happens.
    ///
    /// - Parameters:
    ///   - bytesMax: the size of the changesets up to which it is short, in bytes.
    ///   - isEncoded: as in `download`.
    package func news(
        for session: inout ViewSession, _ capabilities: ClientCapabilities, bytesMax: Int,
        isEncoded: ([AlikeEntry]) -> Bool
    ) -> ViewDownload? {
        // If something fails, it fails again when the session asks, and is reported then.
        guard !file.isShared, session.hasSent, index.contains(session.ident), let view = views[session.ident],
            let state = try? currentState(), newRole(of: view, in: state) == nil
        else { return nil }
        var next = session
        let made = try? download(
            for: &next, capabilities, byteBudget: bytesMax, hasRoom: { $0 <= bytesMax }, isEncoded: isEncoded)
        guard let made, made.kind == .steady, made.compensations.isEmpty, next.sent.cursor.serverVersion == version,
            session.sent.cursor.serverVersion < version
        else { return nil }
        session = next
        return made
    }

    /// The largest number of entries that are looked for in the part of the log that is in memory.
    private static let recentEntriesMax = 64

    /// Entries of a view with their contents. Those that are as they are in the log have them only there: the log keeps
    /// them while a client file that sees them has not confirmed them.
    func loaded(_ entries: some Collection<ViewEntry>, of ident: ClientFileID) throws(HistoryError) -> [ViewEntry] {
        var entries = Array(entries), index = 0
        while index < entries.count {
            var end = index
            while end < entries.count, entries[end].isWithStore,
                end == index || entries[end].number == entries[end - 1].number + 1
            {
                end += 1
            }
            if end > index {
                let numbers = entries[index].number...entries[end - 1].number
                entries.replaceSubrange(index..<end, with: try store.viewEntries(of: file.id, ident, numbers))
            }
            index = max(end, index + 1)
        }
        guard entries.contains(where: \.isUnresolved) else { return entries }
        let missesTail = entries.count > Self.recentEntriesMax
        return try file.read(missesTail: missesTail) { [entries] stored throws(HistoryError) in
            try entries.map { entry throws(HistoryError) in
                guard entry.isUnresolved else { return entry }
                guard let logged = try stored.entry(entry.version) else {
                    throw HistoryError(.storeDamaged, "log entry \(entry.version) is missing, which a view names")
                }
                return entry.resolved(by: logged)
            }
        }
    }

    /// True while finding out what to send to a client takes more than a step.
    package func isCatchingUp(_ ident: ClientFileID) -> Bool { catchUps[ident] != nil }

    /// True if a connected client need not catch up.
    package func isUpToDate(_ ident: ClientFileID) -> Bool { index.contains(ident) }

    /// True if a client was sent something.
    package func hasView(of ident: ClientFileID) throws(HistoryError) -> Bool {
        try retrying { () throws(HistoryError) in try view(of: ident) != nil }
    }

    /// The queries of a client, by class; nil if there is no view of the client file.
    package func queries(of ident: ClientFileID) throws(HistoryError) -> Predicates? {
        // Another node may have changed a view since its client has left this one.
        if file.isShared, !connected.contains(ident) { return try store.view(of: file.id, ident)?.record.predicates }
        return try retrying { () throws(HistoryError) in try view(of: ident)?.queries.predicates }
    }
}

extension ViewDownload {
    /// Gives the changesets the form that a client's release can apply (`Spec/Protocol.md`, section 6.1).
    ///
    /// - Throws: `clientTooOld` if it cannot read one.
    mutating func adapt(to capabilities: ClientCapabilities, in state: ObjectGraph) throws(HistoryError) {
        guard capabilities != .all else { return }
        let adapter = ChangesetAdapter(for: capabilities, with: state)
        guard adapter.isNeeded else { return }
        for (index, sent) in download.changesets.enumerated() where !sent.changeset.isEmpty {
            var arena = ChangesetArena()
            let changeset: ChangesetIndex
            do { changeset = try arena.decode(sent.changeset, version: 1, tag: sent.tag) } catch {
                throw HistoryError(.storeDamaged, "an entry of a view cannot be decoded: \(error.reason)")
            }
            // Clients of flexible sync take no classes and columns away.
            switch adapter.form(of: changeset, in: &arena, isErased: { _, _ in false }) {
            case .unchanged: break
            case .changed(let bytes): download.changesets[index].changeset = bytes
            case .unreadable(let reason): throw HistoryError(unreadable: reason)
            }
        }
    }
}
