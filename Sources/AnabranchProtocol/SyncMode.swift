/// The two kinds of sync. Which one an app uses is fixed; a connection speaks one of them, and so do its messages
/// (`Spec/FlexibleSync.md`, section 1.1).
public enum SyncMode: CaseIterable, Sendable {
    /// A client names a partition, and gets all that is in it.
    case partition
    /// A client names queries, and gets what matches them.
    case flexible

    /// The name of the subprotocol, in front of the version (`Spec/Protocol.md`, section 2.1).
    var subprotocol: String {
        switch self {
        case .partition: "com.mongodb.realm-sync"
        case .flexible: "com.mongodb.realm-query-sync"
        }
    }

    /// What an app of this mode tells a client of the other one: 114 and 113.
    public var refusalOfOthers: ErrorMessage {
        switch self {
        case .partition: ErrorMessage(.switchToPartitionSync)
        case .flexible: ErrorMessage(.switchToFlexibleSync)
        }
    }
}
