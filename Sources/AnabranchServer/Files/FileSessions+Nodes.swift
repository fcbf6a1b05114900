import AnabranchCore
import AnabranchHistory
import AnabranchProtocol

/// The sessions of one node among several (`Spec/Nodes.md`).
extension FileSessions {
    /// Tells sessions what this node has learnt of other nodes.
    func didFollow(until limit: StepLimit) {
        releaseDropped()
        for clientFile in file.takeSuperseded() { if let key = session(of: clientFile) { supersede(key) } }
        if hasUnannouncedVersions { announce(until: limit) }
    }

    /// The uploads that were dropped are done.
    func releaseDropped() { done += uploads.removeFirst(file.takeDropped()).map(\.charge) }

    /// Ends a session whose client has moved to another node.
    func supersede(_ key: SessionKey) {
        remove(key)
        reply(key, .superseded)
    }
}
