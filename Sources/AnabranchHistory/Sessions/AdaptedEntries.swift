import AnabranchCore

/// Log entries in the form that a client's release can apply, up to the first that it cannot read
/// (`Spec/Protocol.md`, section 6.1).
struct AdaptedEntries {
    private(set) var entries: [LogEntry] = []

    /// - Parameters:
    ///   - ident: the reader.
    ///   - state: the state at `head`.
    /// - Throws: `clientTooOld` if the release cannot read the first one.
    init(
        _ entries: [LogEntry], for ident: ClientFileID, _ capabilities: ClientCapabilities, _ state: ObjectGraph,
        _ view: any FileView, _ head: FileHead
    ) throws(HistoryError) {
        let adapter = ChangesetAdapter(for: capabilities, with: state)
        guard adapter.isNeeded else {
            self.entries = entries
            return
        }
        for entry in entries {
            var arena = ChangesetArena()
            let changeset = try entry.decode(into: &arena)
            let later = VersionRange(after: entry.version, through: head.version)
            let form = try adapter.form(of: changeset, in: &arena) { className, columns throws(HistoryError) in
                let keys = [ConflictKeys.erasure(ofClass: className)] + columns.map { ConflictKeys.erasure(of: $0) }
                return try !view.versions(writing: keys, in: later, excludingOrigin: ident).isEmpty
            }
            var adapted = entry
            switch form {
            case .unchanged: break
            case .changed(let bytes): adapted.changeset = bytes
            case .unreadable(let reason):
                guard self.entries.isEmpty else { return }
                throw HistoryError(unreadable: reason)
            }
            self.entries.append(adapted)
        }
    }
}

extension HistoryError {
    /// - Parameter reason: what the client cannot read.
    init(unreadable reason: String) {
        self.init(
            .clientTooOld, "the data contain \(reason), which this version of the app cannot read: update the app")
    }
}
