import AnabranchCore

/// The subscription sets of a session that the client has, and those that it waits for (`Spec/FlexibleSync.md`,
/// sections 1.7 and 2.11): a message that must not be sent would end the client's process.
struct SubscriptionProgress: Sendable {
    /// The client's set once it has everything that was made for it.
    private(set) var active: QueryVersion
    /// The last one that the client has named.
    private var newest: QueryVersion
    /// The sets of QUERYs that were neither bootstrapped nor refused, ascending.
    private var waiting: [QueryVersion] = []
    /// The bootstrap that has been made in part, but not to its end.
    private(set) var open: OpenBootstrap?

    struct OpenBootstrap {
        let version: QueryVersion
        var partCount = 0
        var hasChangesets = false
    }

    /// - Parameter active: the set of IDENT.
    init(active: QueryVersion) { (self.active, newest) = (active, active) }

    /// The newest set that has a QUERY; that of IDENT if there was none.
    var newestQuery: QueryVersion { newest }

    /// A QUERY has come.
    /// - Returns: whether it may have this version.
    mutating func query(_ version: QueryVersion) -> Bool {
        guard version > newest else { return false }
        newest = version
        waiting.append(version)
        return true
    }

    /// True if all QUERYs up to this one were bootstrapped or refused.
    func isSettled(_ version: QueryVersion) -> Bool { waiting.first.map { $0 > version } ?? true }

    /// A QUERY is refused.
    /// - Returns: whether the client still waits for it, and must get the refusal.
    mutating func refuse(_ version: QueryVersion) -> Bool {
        guard version > max(active, open?.version ?? 0), let index = waiting.firstIndex(of: version) else {
            return false
        }
        waiting.remove(at: index)
        return true
    }

    /// The reason why a client of this version would not survive the bootstrap; nil if it would.
    func problem(
        of bootstrap: QueryVersion, isLast: Bool, isEmpty: Bool, in version: ProtocolVersion
    ) -> String? {
        if bootstrap != active, !waiting.contains(bootstrap) { return "nobody asked for subscription set \(bootstrap)" }
        if bootstrap < max(active, open?.version ?? 0) { return "subscription set \(bootstrap) is older than another" }
        if !isLast, bootstrap == active, bootstrap > 0, !version.hasBatchStates {
            return "a second bootstrap of subscription set \(bootstrap) in parts"
        }
        let hasChangesets = !isEmpty || open?.version == bootstrap && open?.hasChangesets == true
        return isLast && !hasChangesets ? "a bootstrap without a changeset" : nil
    }

    /// A part of a bootstrap is on its way.
    mutating func advance(_ bootstrap: QueryVersion, isLast: Bool, isEmpty: Bool) {
        if isLast {
            open = nil
            active = bootstrap
            waiting.removeAll { $0 <= bootstrap }
        } else {
            if open?.version != bootstrap { open = OpenBootstrap(version: bootstrap) }
            open?.partCount += 1
            if !isEmpty { open?.hasChangesets = true }
        }
    }
}
