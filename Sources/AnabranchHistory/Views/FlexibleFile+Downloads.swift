package import AnabranchCore

/// What clients are sent.
extension FlexibleFile {
    /// The next message of a session; nil if there is nothing to be said.
    ///
    /// - Parameters:
    ///   - capabilities: what the client's release can do with it.
    ///   - byteBudget: at about how many bytes of changesets a message ends that is not a bootstrap.
    ///   - isAnswer: whether there is a message in any case.
    /// - Throws: a failure of the store, `clientFileExpired`, or `clientTooOld`.
    package func download(
        for session: inout ViewSession, _ capabilities: ClientCapabilities = .all, byteBudget: Int = 128 << 10,
        isAnswer: Bool = false
    ) throws(HistoryError) -> ViewDownload? {
        let view = try projected(session.ident)
        guard let row = try file.clientFile(session.ident) else {
            throw HistoryError(.badClientFileIdent, "there is no client file \(session.ident)")
        }
        var made = try session.next(
            of: view, at: file.head, acknowledging: row.uploadCursor, try ownVersion(of: session.ident), byteBudget,
            isAnswer: isAnswer)
        try made?.adapt(to: capabilities, in: try currentState())
        return made
    }

    /// What a client asks for, by class; nil if there is no view of the client file.
    package func queries(of ident: ClientFileID) -> [String: String]? { views[ident]?.queries.predicates }
}

extension ViewDownload {
    /// Gives the changesets the form that a client's release can apply (`Spec/Protocol.md`, section 6.1).
    ///
    /// - Throws: `clientTooOld` if it cannot read one.
    mutating func adapt(to capabilities: ClientCapabilities, in state: ObjectGraph) throws(HistoryError) {
        guard capabilities != .all else { return }
        let adapter = ChangesetAdapter(for: capabilities, with: state)
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
