/// The findings about an object that an uploaded changeset writes to.
struct WriteVerdict: OptionSet {
    let rawValue: UInt16
    /// It may be written to, as far as that depends on what it was before.
    static let isPassed = WriteVerdict(rawValue: 1)
    /// All is known.
    static let isKnown = WriteVerdict(rawValue: 2)
    static let isRefused = WriteVerdict(rawValue: 4)
    /// It is refused because the client does not see it.
    static let isOutside = WriteVerdict(rawValue: 8)
    /// After the changeset the client does not see it, but may have it.
    static let leaves = WriteVerdict(rawValue: 16)
    /// The object is of an asymmetric class, and is taken out of the changeset.
    static let isAsymmetric = WriteVerdict(rawValue: 32)
    // The condition that it does not meet; the query of the client if none of these.
    static let failsRead = WriteVerdict(rawValue: 64)
    static let failsInsert = WriteVerdict(rawValue: 128)
    static let failsWriteBefore = WriteVerdict(rawValue: 256)
    static let failsWriteAfter = WriteVerdict(rawValue: 512)
    static let failsDelete = WriteVerdict(rawValue: 1024)
    static let isMissing = WriteVerdict(rawValue: 2048)

    private static let conditions: [(verdict: WriteVerdict, condition: ViewDecision.Condition)] = [
        (.failsInsert, .insert), (.failsWriteBefore, .writeBefore), (.failsWriteAfter, .writeAfter),
        (.failsDelete, .delete), (.isMissing, .existence), (.failsRead, .read),
    ]

    var condition: ViewDecision.Condition {
        Self.conditions.first { contains($0.verdict) }?.condition ?? .query
    }
}
