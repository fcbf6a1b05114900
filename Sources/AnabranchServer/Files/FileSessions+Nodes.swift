import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import Metrics

/// The sessions of one node among several (`Spec/Nodes.md`).
extension FileSessions {
    /// Takes in changes by other nodes.
    func follow() throws(HistoryError) {
        guard let flexible else { return try file.follow() }
        let evaluationCount = flexible.evaluationCount
        try flexible.follow()
        environment.metrics.viewEvaluations.increment(by: flexible.evaluationCount - evaluationCount)
    }

    /// The newest version that sessions can be told of.
    var version: ServerVersion { flexible?.version ?? file.version }

    /// Tells sessions what this node has learnt of other nodes.
    func didFollow(until limit: StepLimit) {
        environment.metrics.followedEntries.increment(by: file.followedCount - followedCount)
        followedCount = file.followedCount
        for clientFile in file.takeSuperseded() {
            flexible?.forget(clientFile)
            if let key = session(of: clientFile) { supersede(key) }
        }
        releaseDropped()
        if hasUnannouncedVersions { announce(until: limit) }
    }

    /// Lets the file forget the sessions of clients that have left.
    func forgetSessions() { file.forgetSessions(butOf: Set(clientFiles).union(viewRequests.keys)) }

    /// The uploads that were dropped are done.
    func releaseDropped() {
        done += uploads.removeFirst(file.takeDropped()).map(\.charge)
        for (clientFile, count) in (flexible?.takeDropped() ?? [:]).sorted(by: { $0.key < $1.key }) {
            didDrop(count, of: clientFile)
        }
    }

    /// Ends a session whose client has moved to another node.
    func supersede(_ key: SessionKey) {
        remove(key)
        reply(key, .superseded)
    }

    /// Ends a session because of an error: without a word if its client has moved to another node.
    func end(_ key: SessionKey, because error: HistoryError) {
        if error.code == .superseded { supersede(key) } else { fail(key, ErrorMessage(error)) }
    }
}
