import AnabranchCore
package import AnabranchReplica

extension ReplicaRecord {
    /// The replica as the server knows it; nil as long as it does not.
    var name: SQLValue? { file.map { SQLValue("\($0.ident.rawValue)-\($0.salt.rawValue)") } }

    /// True if the objects of the newest subscriptions are here, or if there are none.
    package var hasSubscribed: Bool {
        guard let latest = subscriptions?.latest else { return true }
        return latest.version == 0 || latest.state == .complete
    }
}
