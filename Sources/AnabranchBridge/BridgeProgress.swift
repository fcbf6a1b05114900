#if canImport(CLibPQ)
/// The work of a pass.
public struct BridgeProgress: Equatable, Sendable {
    /// The rows that were read because they had changed.
    public internal(set) var collected = 0
    /// The rows that were inserted, updated or deleted because objects were.
    public internal(set) var applied = 0
    /// The objects that wait, since their table does not take them.
    public internal(set) var waiting = 0
    /// The tables whose triggers were missing, and which were compared as a whole.
    public internal(set) var renewedTables: [String] = []
    /// True if triggers of the application have written for ever.
    public internal(set) var isUnstable = false

    /// True if nothing was to be done.
    public var isEmpty: Bool { collected == 0 && applied == 0 }

    mutating func add(_ other: Self) {
        collected += other.collected
        applied += other.applied
        waiting = other.waiting
        renewedTables += other.renewedTables
        isUnstable = isUnstable || other.isUnstable
    }
}
#endif
