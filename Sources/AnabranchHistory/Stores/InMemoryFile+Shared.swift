package import AnabranchCore

/// A file of a shared store (`Spec/Nodes.md`, section 1).
extension InMemoryFile {
    /// Compares what the commit depends on.
    func checkShared(_ commit: Commit) throws(HistoryError) {
        try commit.check(against: newestHead, lease)
        try commit.checkRows { clientFile($0)?.revision }
        try commit.checkViews { clientFile($0)?.sessionOfView }
        // What its author has seen may have changed: a client file needs entries or a generation by now.
        do throws(HistoryError) { try checkBounds(commit) } catch {
            throw error.code == .storeFailed ? .conflict(of: commit.file, error.reason) : error
        }
    }
}

extension Commit {
    /// Compares what the commit depends on with the head of a file in a shared store.
    /// - Throws: `leaseLost`, or a `conflict` that names the file.
    package func check(against stored: FileHead, _ storedLease: Lease) throws(HistoryError) {
        guard lease == storedLease else {
            throw HistoryError(.leaseLost, "the file was deleted, or the store restored")
        }
        let dependencies = dependencies
        if dependencies.contains(.log) { try checkLog(stored) }
        if dependencies.contains(.bounds) { try checkBounds(stored) }
        if dependencies.contains(.idents) { try checkIdents(stored) }
    }

    private func checkLog(_ stored: FileHead) throws(HistoryError) {
        guard head.version == stored.version, head.versionSalt == stored.versionSalt,
            head.stateVersion == stored.stateVersion
        else { throw .conflict(of: file, "the log") }
    }

    private func checkBounds(_ stored: FileHead) throws(HistoryError) {
        guard head.bounds == stored.bounds else { throw .conflict(of: file, "the bounds of the log") }
    }

    private func checkIdents(_ stored: FileHead) throws(HistoryError) {
        guard clientFiles.first(where: { $0.revision == 1 })?.ident ?? head.nextIdent == stored.nextIdent else {
            throw .conflict(of: file, "new client files")
        }
    }

    /// Compares the client files that it writes with those that are stored.
    /// - Parameter revision: the stored `ClientFile.revision`; nil if there is no such row.
    /// - Throws: a `conflict` that names the file.
    package func checkRows(_ revision: (ClientFileID) -> UInt64?) throws(HistoryError) {
        for row in clientFiles where row.revision > 1 {
            guard revision(row.ident) == row.revision - 1 else {
                throw .conflict(of: file, "client file \(row.ident)")
            }
        }
    }

    /// The changes of views whose client files the store has already.
    package var viewsOfKnownClients: [ViewChange] {
        let new = Set(clientFiles.lazy.filter { $0.revision == 1 }.map(\.ident))
        return new.isEmpty ? views : views.filter { !new.contains($0.record.ident) }
    }

    /// Compares the sessions that have written its views with the newest ones.
    /// - Parameter session: the stored `ClientFile.session`; nil if there is no such row, or it has expired.
    /// - Throws: a `conflict` that names the file.
    package func checkViews(_ session: (ClientFileID) -> UInt64?) throws(HistoryError) {
        for view in viewsOfKnownClients {
            guard session(view.record.ident) == view.session else {
                throw .conflict(of: file, "the view of client file \(view.record.ident)")
            }
        }
    }
}

extension ClientFile {
    /// The session whose node writes the view; nil if there is none any more.
    fileprivate var sessionOfView: UInt64? { isExpired ? nil : session }
}
