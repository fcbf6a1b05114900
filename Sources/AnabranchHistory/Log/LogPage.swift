package import AnabranchCore

/// A piece of the log for readers that follow it.
package struct LogPage: Sendable {
    /// The entries of the piece that are not empty.
    package let entries: [LogEntry]
    /// The users of the client files that the entries came from, as far as the server knows them.
    package let users: [ClientFileID: String]
    /// The version after which the next piece begins.
    package let end: SaltedVersion
}

extension LogPage {
    /// The page after `cursor` where there is no synced file.
    /// - Throws: `divergingHistories` unless the version is 0.
    package init(ofNoFile cursor: SaltedVersion) throws(HistoryError) {
        try require(cursor == SaltedVersion(), .divergingHistories, "there is no log")
        self.init(entries: [], users: [:], end: cursor)
    }
}

extension SyncedFile {
    /// Reads the entries that follow a version in the log, until they have `byteBudget` bytes.
    /// - Throws: `badServerVersion` if the log begins after the version, `divergingHistories` if the log never had it;
    ///   a failure of the store.
    package func page(after cursor: SaltedVersion, byteBudget: Int) throws(HistoryError) -> LogPage {
        try read { view throws(HistoryError) in
            let head = try view.head()
            try require(cursor.version <= head.version, .divergingHistories, "the log has not come so far")
            try require(cursor.version >= head.baseVersion, .badServerVersion, "the log begins at a later version")
            try require(
                try Self.isSalt(cursor.salt, of: cursor.version, head: head, view: view), .divergingHistories,
                "the version had another salt")
            let range = VersionRange(after: cursor.version, through: head.version)
            let entries = try view.entries(in: range, excludingOrigin: nil, byteBudget: byteBudget)
            var users: [ClientFileID: String] = [:]
            for origin in Set(entries.map(\.origin)) where origin != 0 {
                users[origin] = try view.clientFile(origin)?.user
            }
            var end = SaltedVersion(version: head.version, salt: head.versionSalt)
            if let last = entries.last, entries.reduce(0, { $0 + $1.byteCount }) > byteBudget {
                end = SaltedVersion(version: last.version, salt: last.salt)
            }
            return LogPage(entries: entries, users: users, end: end)
        }
    }
}
