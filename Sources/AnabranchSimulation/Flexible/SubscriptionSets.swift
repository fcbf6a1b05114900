package import AnabranchCore

/// The subscription sets in the file of a client of flexible sync (`Spec/FlexibleSync.md`, section 2.1). Set 0 is there
/// from the start, and QUERY never sends it.
package struct SubscriptionSets {
    /// The state of a set that is still in the file. A set that is no longer there was superseded.
    package enum State: Equatable {
        /// It is stored, and perhaps sent.
        case pending
        /// At least one part of its bootstrap is stored.
        case bootstrapping
        /// Its bootstrap is integrated: it is the active set.
        case awaitingMark
        /// It is active, and the MARK after it was answered.
        case complete
        /// The server has refused it.
        case error(String)
    }

    package struct Entry {
        package let set: SubscriptionSet
        /// The commit of the set: earlier changes are uploaded before the QUERY, later ones after it.
        package let snapshot: ClientVersion
        package fileprivate(set) var state = State.pending
    }

    /// The sets in the file, in ascending order of version.
    package private(set) var entries = [Entry(set: .none, snapshot: 0)]
    private var newest: QueryVersion = 0

    package func state(of version: QueryVersion) -> State? { entries.first { $0.set.version == version }?.state }

    /// The newest set whose bootstrap was integrated; nil in a new file.
    package var active: QueryVersion? {
        entries.last { $0.state == .awaitingMark || $0.state == .complete }?.set.version
    }

    /// The set that IDENT names: the active one, or set 0 if there is none.
    var identified: SubscriptionSet { entries.first { $0.set.version == active ?? 0 }?.set ?? .none }

    /// The oldest set above `version` that QUERY has to name.
    func unsent(above version: QueryVersion) -> Entry? {
        entries.first { $0.set.version > max(version, active ?? 0) && $0.isOpen }
    }

    /// True if a set up to this one, other than set 0, waits for its bootstrap.
    func isWaiting(upTo version: QueryVersion) -> Bool {
        entries.contains { 0 < $0.set.version && $0.set.version <= version && $0.isOpen }
    }

    // MARK: Events

    /// Adds the set with the application's changed subscriptions.
    mutating func commit(_ query: String, at snapshot: ClientVersion) -> QueryVersion {
        newest += 1
        let set = SubscriptionSet(version: newest, query: Array(query.utf8))
        entries.append(Entry(set: set, snapshot: snapshot))
        return newest
    }

    /// Records that a part of a bootstrap has arrived.
    mutating func bootstrapCame(_ version: QueryVersion) throws(ProtocolViolation) {
        guard let index = entries.firstIndex(where: { $0.set.version == version }) else {
            throw ProtocolViolation("2", "bootstrap of unknown set \(version)")
        }
        if case .error = entries[index].state { throw ProtocolViolation("2", "bootstrap of refused set \(version)") }
        if entries.contains(where: { $0.set.version > version && $0.state == .bootstrapping }), entries[index].isOpen {
            throw ProtocolViolation("3a", "bootstrap of set \(version) after that of a newer one")
        }
        if entries[index].state == .pending { entries[index].state = .bootstrapping }
    }

    /// Records that a bootstrap was integrated.
    mutating func bootstrapped(_ version: QueryVersion, isComplete: Bool) {
        guard let index = entries.firstIndex(where: { $0.set.version == version }), entries[index].isOpen else {
            return
        }
        entries[index].state = isComplete ? .complete : .awaitingMark
        entries.removeFirst(index)
    }

    /// Records that the latest MARK was answered.
    mutating func markAnswered() {
        for index in entries.indices where entries[index].state == .awaitingMark { entries[index].state = .complete }
    }

    /// Records that the server has refused a set with QUERY_ERROR.
    mutating func refused(_ version: QueryVersion, _ message: String) throws(ProtocolViolation) {
        guard let index = entries.firstIndex(where: { $0.set.version == version }), entries[index].isOpen else {
            throw ProtocolViolation("3", "QUERY_ERROR for set \(version), which is active, refused or unknown")
        }
        entries[index].state = .error(message)
    }

    /// Records that the file was replaced by one that has the active set.
    mutating func reset(keepsPending: Bool) {
        let active = active ?? 0
        if !keepsPending { entries.removeAll { $0.set.version > active } }
        for index in entries.indices where entries[index].set.version == active { entries[index].state = .complete }
        bootstrapsDropped()
    }

    /// Records that the parts of bootstraps were dropped.
    mutating func bootstrapsDropped() {
        for index in entries.indices where entries[index].state == .bootstrapping { entries[index].state = .pending }
    }
}

extension SubscriptionSets.Entry {
    fileprivate var isOpen: Bool { state == .pending || state == .bootstrapping }
}
