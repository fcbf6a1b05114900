public import AnabranchCore

/// A query for the objects of a class that an application wants to download (`Spec/FlexibleSync.md`, section 2.1).
public struct Subscription: Hashable, Codable, Sendable {
    /// The name by which it can be found again; nil for one without a name.
    public var name: String?
    /// The class whose objects it wants.
    public var className: String
    /// The query that selects them, in the language of `Spec/Query.md`.
    public var query: String

    /// A subscription.
    /// - Parameter query: `TRUEPREDICATE` takes all objects.
    public init(_ className: String, _ query: String = "TRUEPREDICATE", name: String? = nil) {
        self.name = name
        self.className = className
        self.query = query
    }

    /// True if both ask for the same: texts are compared byte by byte.
    public static func == (left: Subscription, right: Subscription) -> Bool {
        left.name.hasBytes(of: right.name) && left.className.hasBytes(of: right.className)
            && left.query.hasBytes(of: right.query)
    }
}

/// The subscription sets of a replica (`Spec/FlexibleSync.md`, section 2.1). Set 0, which is empty, exists from the
/// start and is never sent by QUERY.
public struct SubscriptionSets: Equatable, Codable, Sendable {
    /// The state of a set. A set that does not exist any more was superseded.
    public enum State: Equatable, Codable, Sendable {
        /// It is stored, and perhaps sent.
        case pending
        /// At least one part of its bootstrap is stored.
        case bootstrapping
        /// Its bootstrap is integrated: it is the active set.
        case awaitingMark
        /// It is active, and everything there was has been downloaded.
        case complete
        /// The server has refused it, for this reason. The set before it stays active.
        case refused(String)
    }

    /// A set.
    public struct Entry: Equatable, Codable, Sendable {
        /// Its number: each set of a replica has a higher one than those before.
        public let version: QueryVersion
        /// The subscriptions of the set.
        public let subscriptions: [Subscription]
        /// The version of the replica up to which changes are uploaded before the QUERY; later ones follow it.
        public internal(set) var snapshot: ClientVersion
        /// The progress of the set on the way to the server and back.
        public internal(set) var state = State.pending

        /// The set as QUERY and IDENT carry it (`Spec/Protocol.md`, section 9.2).
        public var set: SubscriptionSet {
            SubscriptionSet(version: version, query: SubscriptionSets.query(of: subscriptions))
        }

        /// True if its objects are here, or if it wants none.
        var isSettled: Bool { state == .complete || version == 0 }

        var isOpen: Bool { state == .pending || state == .bootstrapping }
    }

    /// Ascending; the first is the active one, or set 0 as long as none is.
    public private(set) var entries = [Entry(version: 0, subscriptions: [], snapshot: 0)]
    private var newest: QueryVersion = 0

    /// The sets of a new replica.
    public init() {}

    /// The newest set.
    public var latest: Entry { entries[entries.count - 1] }

    /// A set by its number; nil if it was superseded, or never was.
    public func entry(_ version: QueryVersion) -> Entry? { entries.first { $0.version == version } }

    /// The newest set whose bootstrap was integrated; nil in a new replica.
    public var active: Entry? { entries.last { $0.state == .awaitingMark || $0.state == .complete } }

    /// The set that IDENT names.
    var identified: SubscriptionSet { active?.set ?? .none }

    /// The oldest set after `version` that QUERY has to name.
    func unsent(after version: QueryVersion) -> UnsentSubscriptions? {
        let last = max(version, active?.version ?? 0)
        return entries.first { $0.version > last && $0.isOpen }.map {
            UnsentSubscriptions(set: $0.set, snapshot: $0.snapshot)
        }
    }

    /// The queries of a set as JSON: several subscriptions to one class are sorted and joined, and equal ones count
    /// once.
    static func query(of subscriptions: [Subscription]) -> [UInt8] {
        let queries = Dictionary(grouping: subscriptions) { ExactString($0.className) }
        var text = [UInt8(ascii: "{")]
        for className in queries.keys.sorted() {
            if text.count > 1 { text.append(UInt8(ascii: ",")) }
            let joined = Set(queries[className, default: []].map { ExactString($0.query) }).sorted().map { "(\($0))" }
                .joined(separator: " OR ")
            JSONText.append(string: Array(className.utf8), to: &text)
            text.append(UInt8(ascii: ":"))
            JSONText.append(string: Array(joined.utf8), to: &text)
        }
        text.append(UInt8(ascii: "}"))
        return text
    }

    // MARK: Events

    /// Adds the set that the application has committed.
    mutating func commit(_ subscriptions: [Subscription], at snapshot: ClientVersion) -> QueryVersion {
        newest += 1
        entries.append(Entry(version: newest, subscriptions: subscriptions, snapshot: snapshot))
        return newest
    }

    /// Records that a part of a bootstrap has arrived.
    mutating func bootstrapCame(_ version: QueryVersion) throws(ReplicaError) {
        guard let index = entries.firstIndex(where: { $0.version == version }) else {
            throw ReplicaError(.badDownload, "a bootstrap of subscription set \(version), which is not there")
        }
        if case .refused = entries[index].state {
            throw ReplicaError(.badDownload, "a bootstrap of subscription set \(version), which the server has refused")
        }
        bootstrapsDropped()
        if entries[index].state == .pending { entries[index].state = .bootstrapping }
    }

    /// Makes a set the active one, since its bootstrap was integrated.
    mutating func bootstrapped(_ version: QueryVersion) {
        guard let index = entries.firstIndex(where: { $0.version == version }), entries[index].isOpen else { return }
        entries[index].state = .awaitingMark
        entries.removeFirst(index)
    }

    /// Completes the active set, since the MARK that follows it was answered.
    mutating func marked() {
        for index in entries.indices where entries[index].state == .awaitingMark { entries[index].state = .complete }
    }

    /// Records that the server has refused a set (QUERY_ERROR).
    mutating func refused(_ version: QueryVersion, _ message: String) throws(ReplicaError) {
        guard let index = entries.firstIndex(where: { $0.version == version }), entries[index].isOpen else {
            throw ReplicaError(.badDownload, "a refusal of subscription set \(version), which is not waiting for one")
        }
        entries[index].state = .refused(message)
    }

    /// Records that the parts of bootstraps were dropped.
    mutating func bootstrapsDropped() {
        for index in entries.indices where entries[index].state == .bootstrapping { entries[index].state = .pending }
    }

    /// Adapts the sets to a replica that was rebuilt with the active set of this value.
    ///
    /// - Parameters:
    ///   - keepsPending: whether the sets stay that the server has not answered yet.
    ///   - newVersion: the version that an old one has become, up to which changes were made before a set.
    mutating func reset(keepsPending: Bool, _ newVersion: (ClientVersion) -> ClientVersion) {
        let active = active?.version ?? 0
        entries = entries.filter { $0.version == active || keepsPending && $0.version > active }.map { old in
            var entry = old
            entry.snapshot = newVersion(old.snapshot)
            entry.state = old.version == active ? .complete : old.isOpen ? .pending : old.state
            return entry
        }
    }
}
