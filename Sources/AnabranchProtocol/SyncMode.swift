/// The two kinds of sync. An app uses one of them for ever, and so does each connection with its messages
/// (`Spec/FlexibleSync.md`, section 1.1).
public enum SyncMode: CaseIterable, Sendable {
    /// A client names a partition, and gets all that is in it.
    case partition
    /// A client names queries, and gets what matches them.
    case flexible

    /// The error with which an app of this mode refuses a client of the other one: 114 or 113.
    public var refusalOfOthers: ErrorMessage {
        switch self {
        case .partition: ErrorMessage(.switchToPartitionSync)
        case .flexible: ErrorMessage(.switchToFlexibleSync)
        }
    }
}
