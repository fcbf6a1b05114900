extension HistoryStore {
    /// Applies commits of different files, in one transaction for each shard, one shard after the other. A commit that
    /// does not fit is left out.
    /// - Returns: the failures by file; the others have succeeded.
    package func commitByShard(_ commits: [Commit]) -> [SyncedFileID: HistoryError] {
        var failures: [SyncedFileID: HistoryError] = [:]
        for var commits in Dictionary(grouping: commits, by: \.file.shard).values {
            while !commits.isEmpty {
                do throws(HistoryError) {
                    try commit(commits)
                    commits = []
                } catch {
                    let isAboutOne = commits.contains { error.concerns($0) }
                    for commit in commits where error.concerns(commit) || !isAboutOne { failures[commit.file] = error }
                    commits.removeAll { failures[$0.file] != nil }
                }
            }
        }
        return failures
    }
}

extension HistoryError {
    /// True if a commit has failed because of the error, with which a store has refused it together with others.
    package func concerns(_ commit: Commit) -> Bool { code != .conflict || file == nil || file == commit.file }
}
