/// The work of a pass.
public struct CaptureProgress: Equatable, Sendable {
    /// The objects that were created, changed or erased because rows were.
    public internal(set) var collected = 0
    /// The rows that were inserted, updated or deleted because objects were.
    public internal(set) var applied = 0
    /// The objects that got other values because of what their table allows.
    public internal(set) var writtenBack = 0
    /// The objects that wait, since their table does not take them.
    public internal(set) var waiting = 0
    /// The rows that have got the objects that they are, and those that are alone, by table.
    public internal(set) var matches: [CaptureMatches] = []
    /// The tables whose triggers were missing, and which were compared as a whole.
    public internal(set) var renewedTables: [String] = []
    /// True if triggers of the application have written for ever.
    public internal(set) var isUnstable = false

    /// True if nothing was to be done.
    public var isEmpty: Bool { collected == 0 && applied == 0 && writtenBack == 0 }

    mutating func add(_ other: Self) {
        collected += other.collected
        applied += other.applied
        writtenBack += other.writtenBack
        waiting = other.waiting
        matches += other.matches
        renewedTables += other.renewedTables
        isUnstable = isUnstable || other.isUnstable
    }
}
