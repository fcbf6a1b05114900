public import AnabranchCore

/// A change of this replica that the merge with a download has discarded (`Spec/Replica.md`, section 3).
public struct OverruledChange: Equatable, Sendable {
    /// The class of the object.
    public let className: String
    /// The primary key of the object.
    public let key: PrimaryKey
    /// The property; nil for the creation of an object.
    public let property: String?
    /// The change in words, as `ChangesetArena.text(of:)` has them; only the first 1,000 characters.
    public let change: String
    /// The rule by which it was discarded.
    public let rule: MergeRule
    /// The change that it was discarded for, in words; cut like `change`.
    public let winner: String
    /// The time of the winning change, and the client file that made it.
    public let tag: OriginTag
    /// The server version that contains the winning change.
    public let version: ServerVersion
}

/// The changes of a replica that a merge discards, found by merging a copy: the merge itself does not depend on it.
struct OverruledChanges {
    /// The most pairs of instructions that are compared for the report: a millisecond. A larger merge is not reported.
    private static let pairsMax = 1 << 16
    /// The largest download that is merged twice, in bytes.
    private static let downloadBytesMax = 4 << 20

    private static let textCount = 1_000

    private(set) var found: [OverruledChange] = []

    /// - Parameters:
    ///   - local: The changesets of the replica that the download meets.
    ///   - incoming: Those of the download, which have not met anything yet.
    ///   - bytes: Their size.
    mutating func find(
        _ local: [ChangesetIndex], _ incoming: [ChangesetIndex], ofBytes bytes: Int, in arena: ChangesetArena
    ) {
        guard !local.isEmpty, bytes <= Self.downloadBytesMax else { return }
        var copy = arena
        var merge = Merge(strategy: .recorded, pairsMax: Self.pairsMax)
        do { try merge.run(local: local, incoming: incoming, in: &copy) } catch { return }
        // One large value may win over many changes.
        var winners: [ChangesetIndex: [Int?: String]] = [:]
        for outcome in merge.outcomes where outcome.major.after == nil && Self.isLoss(outcome, in: copy) {
            let own = outcome.major.before, (className, key) = copy.primaryKey(of: own.object)
            let (changeset, position) = (outcome.minor.changeset, outcome.minor.position)
            let winner =
                winners[changeset]?[position] ?? String(copy.text(of: outcome.minor.before).prefix(Self.textCount))
            winners[changeset, default: [:]][position] = winner
            found.append(
                OverruledChange(
                    className: String(decoding: copy.bytes(of: className), as: UTF8.self), key: key.normalised,
                    property: own.kind.hasPath ? String(decoding: copy.bytes(of: own.field), as: UTF8.self) : nil,
                    change: String(copy.text(of: own).prefix(Self.textCount)), rule: outcome.rule, winner: winner,
                    tag: copy.tag(of: outcome.minor.changeset),
                    version: ServerVersion(rawValue: copy.version(of: outcome.minor.changeset))))
        }
    }

    /// False for changes that both sides made, and for those of the schema: nothing is lost then.
    private static func isLoss(_ outcome: RuleOutcome, in arena: ChangesetArena) -> Bool {
        let own = outcome.major.before, other = outcome.minor.before
        switch outcome.rule {
        case .R5, .R21, .R24, .R26, .R28: return false
        case .R6: return !own.isDefault && arena.payload(of: own) != arena.payload(of: other)
        default: return !own.kind.isSchema
        }
    }
}
