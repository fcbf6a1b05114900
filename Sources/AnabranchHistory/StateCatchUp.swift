import AnabranchCore

extension SyncedFile {
    /// How much of a log is applied between two commits while its state catches up, in bytes.
    private static var catchUpBytes: Int { 1 << 20 }

    /// Brings a state that is behind its log up to it: after an older format of the store, or a time as a relay. In
    /// steps of one commit each, so that memory is bounded and an interruption loses little.
    func catchUp() throws(HistoryError) {
        guard head.stateVersion <= head.version, head.stateVersion >= head.baseVersion else {
            throw HistoryError(
                .storeDamaged, "the state is of version \(head.stateVersion), the log ends at \(head.version)")
        }
        while let before = try currentState(), head.stateVersion < head.version {
            let range = VersionRange(after: head.stateVersion, through: head.version)
            let entries = try read { view throws(HistoryError) in
                try view.entries(in: range, excludingOrigin: nil, byteBudget: Self.catchUpBytes)
            }
            let isAtEnd = entries.reduce(0) { $0 + $1.changeset.count } <= Self.catchUpBytes
            var after = before
            let changes = try after.follow(entries).changes
            var commit = Commit(file: id, lease: lease, head: head)
            commit.state = StateUpdate(
                version: isAtEnd ? head.version : entries.last?.version ?? head.version, before: before, after: after,
                changes: changes)
            try SyncedFile.commit([(self, commit)])
        }
    }
}
