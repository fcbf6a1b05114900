import AnabranchCore

/// Copies a store into an empty one, which may be of another kind, so that clients go on there as if nothing had
/// happened (`Spec/Postgres.md`, section 8). Nobody serves either of them meanwhile.
package struct StoreCopy {
    private let source: any CopyableStore
    private let target: any CopyableStore

    /// The part that is done.
    package struct Progress: Equatable, Sendable {
        package var fileCount = 0
        /// The approximate size of what was written, in bytes.
        package var byteCount = 0

        package init() {}
    }

    /// - Parameter target: a store without files, for one node or for several, whatever the source is for.
    package init(from source: any CopyableStore, to target: any CopyableStore) {
        (self.source, self.target) = (source, target)
    }

    /// Copies all synced files, and compares each copy with what was copied.
    /// - Parameter report: called with the progress.
    /// - Returns: the whole.
    /// - Throws: `storeDamaged`, with the name of the file, if one is damaged, or its copy is another one.
    @discardableResult
    package func run(_ report: (Progress) -> Void = { _ in }) throws(HistoryError) -> Progress {
        if let time = try source.recordedTime() { try target.recordTime(time) }
        var progress = Progress(), last: VirtualPath?
        while case let files = try source.files(after: last, countMax: Self.pageCount), let newest = files.last {
            for file in files {
                do throws(HistoryError) {
                    try copy(file.path) { bytes in
                        progress.byteCount += bytes
                        report(progress)
                    }
                } catch {
                    throw HistoryError(error.code, "\(file.path): \(error.reason)")
                }
                progress.fileCount += 1
                report(progress)
            }
            last = newest.path
        }
        return progress
    }

    private static let pageCount = 1_000

    /// - Parameter report: called with the bytes that were written since the last call.
    private func copy(_ path: VirtualPath, _ report: (Int) -> Void) throws(HistoryError) {
        guard let id = try source.id(of: path) else { throw HistoryError(.storeFailed, "it is gone") }
        let opened = try target.open(path)
        var head = opened.head
        let digest = try FileDigest(of: path, id, in: source) { piece throws(HistoryError) in
            var commit = piece
            (commit.file, commit.lease, commit.head) = (opened.id, opened.lease, head)
            if target.isShared { for index in commit.clientFiles.indices { commit.clientFiles[index].revision = 1 } }
            try target.commit([commit])
            head = commit.newHead
            report(commit.byteCount)
        }
        target.close(opened.id, opened.lease)
        if let part = digest.difference(from: try FileDigest(of: path, opened.id, in: target)) {
            throw HistoryError(.storeDamaged, "the copy is another one: \(part)")
        }
    }

    /// Copies all users, with their log-ins and keys, and compares them.
    /// - Returns: the number of users.
    /// - Throws: `storeFailed`, also if the copy is another one.
    package static func copyAccounts(
        from source: any CopyableAccountStore, to target: any CopyableAccountStore
    ) throws(AccountError) -> Int {
        var count = 0, last = ""
        while case let accounts = try source.accounts(after: last, countMax: pageCount), let newest = accounts.last {
            try target.insert(accounts)
            guard try target.accounts(after: last, countMax: pageCount) == accounts else {
                throw AccountError(.storeFailed, "the copy of the accounts is another one")
            }
            count += accounts.count
            last = newest.user.ident
        }
        return count
    }
}
