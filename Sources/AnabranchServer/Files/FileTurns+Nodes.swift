import AnabranchHistory

/// The turns of one node among several (`Spec/Nodes.md`).
extension FileTurns {
    /// Takes in what other nodes have written, if there may be something.
    func follow() {
        guard isFollowDue, pending == nil, let sessions else { return }
        isFollowDue = false
        do throws(HistoryError) {
            try sessions.file.follow()
            recordLongMerge()
        } catch {
            // Otherwise the next notice does it.
            if error.code == .leaseLost { close(because: error) } else { environment.log.write(error, path: path) }
        }
    }

    /// Takes in what other nodes have written, if that is why something has failed: then it is to be done again.
    /// - Returns: nil if so; the error, or that of the attempt, if it is another one.
    func resolved(_ error: HistoryError) -> HistoryError? {
        guard error.code == .conflict, let file = sessions?.file else { return error }
        do throws(HistoryError) { try file.follow() } catch { return error }
        recordLongMerge()
        return nil
    }

    /// Closes the file because of an error, unless that is resolved and the work still waits.
    func closeUnlessResolved(_ error: HistoryError) { if let error = resolved(error) { close(because: error) } }
}
