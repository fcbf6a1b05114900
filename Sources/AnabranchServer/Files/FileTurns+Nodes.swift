import AnabranchHistory

/// The turns of one node among several (`Spec/Nodes.md`).
extension FileTurns {
    /// Takes in changes by other nodes, if there may be any.
    func follow() {
        guard isFollowDue, pending == nil, let sessions else { return }
        isFollowDue = false
        do throws(HistoryError) {
            try sessions.follow()
            recordLongMerge()
        } catch {
            // Otherwise the next notice does it.
            if error.code == .leaseLost { close(because: error) } else { environment.log.write(error, path: path) }
        }
    }

    /// The file and its head as they are known here, if other nodes may write it; nil while it is closed.
    var known: (file: SyncedFileID, head: FileHead)? {
        environment.store.isShared ? sessions.map { (file: $0.file.id, head: $0.file.head) } : nil
    }

    /// True if sessions are to be told of other nodes.
    var hasNews: Bool { environment.store.isShared && sessions?.hasUnannouncedVersions ?? false }

    /// Tells sessions what was learnt of other nodes in the turn.
    func tellOfOtherNodes() {
        if sessions?.flexible?.isBehind == true {
            isFollowDue = true
            follow()
        }
        sessions?.didFollow(until: environment.beginStep())
    }

    /// True if somebody follows the file, and hears of other nodes' entries only while it is open.
    var isFollowed: Bool { environment.store.isShared && environment.followers.isFollowed(path) }

    /// Takes in changes by other nodes, if those made an operation fail, which can then be repeated.
    /// - Returns: nil if the operation can be repeated; otherwise the error, or that of taking in.
    func resolved(_ error: HistoryError) -> HistoryError? {
        guard error.code == .conflict, let sessions else { return error }
        do throws(HistoryError) { try sessions.follow() } catch { return error }
        recordLongMerge()
        return nil
    }

    /// Closes the file because of an error, unless that is resolved and the work still waits.
    func closeUnlessResolved(_ error: HistoryError) { if let error = resolved(error) { close(because: error) } }
}
