/// A file of a shared store (`Spec/Nodes.md`, section 1).
extension InMemoryFile {
    /// Compares what the commit depends on.
    func checkShared(_ commit: Commit) throws(HistoryError) {
        try checkLease(commit)
        let dependencies = commit.dependencies
        if dependencies.contains(.log) { try checkLog(commit) }
        if dependencies.contains(.bounds) { try checkBoundsNumber(commit) }
        if dependencies.contains(.idents) { try checkIdents(commit) }
        try checkRows(commit)
        // What its author has seen may have changed: a client file needs entries or a generation by now.
        do throws(HistoryError) { try checkBounds(commit) } catch {
            throw error.code == .storeFailed ? .conflict(of: commit.file, error.reason) : error
        }
    }

    private func checkLease(_ commit: Commit) throws(HistoryError) {
        guard commit.lease == lease else {
            throw HistoryError(.leaseLost, "the file was deleted, or the store restored")
        }
    }

    private func checkLog(_ commit: Commit) throws(HistoryError) {
        let head = newestHead, known = commit.head
        guard known.version == head.version, known.versionSalt == head.versionSalt,
            known.stateVersion == head.stateVersion
        else { throw .conflict(of: commit.file, "the log") }
    }

    private func checkBoundsNumber(_ commit: Commit) throws(HistoryError) {
        guard commit.head.bounds == newestHead.bounds else { throw .conflict(of: commit.file, "the bounds of the log") }
    }

    private func checkIdents(_ commit: Commit) throws(HistoryError) {
        guard commit.clientFiles.first(where: { $0.revision == 1 })?.ident == newestHead.nextIdent else {
            throw .conflict(of: commit.file, "new client files")
        }
    }

    private func checkRows(_ commit: Commit) throws(HistoryError) {
        for file in commit.clientFiles where file.revision > 1 {
            guard clientFile(file.ident)?.revision == file.revision - 1 else {
                throw .conflict(of: commit.file, "client file \(file.ident)")
            }
        }
    }
}
