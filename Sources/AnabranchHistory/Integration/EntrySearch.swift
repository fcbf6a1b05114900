import AnabranchCore

/// Finds the log entries that can conflict with the changesets of a run, piece by piece (`Spec/History.md`, section
/// 15).
struct EntrySearch {
    /// The largest numbers of conflict keys and of versions that are looked at before the limit of the step is asked.
    private static let keysOfPieceMax = 64, versionsOfPiece: UInt64 = 1024
    /// The costs of a key and of a version, in pairs of instructions.
    private static let pairsOfKey = 256, pairsOfVersion = 64

    /// The keys that were not looked for yet.
    private var keys: ArraySlice<UInt64>
    /// The range in which entries are looked for; for a run that reads everything, the versions that were not looked at
    /// yet.
    private var range: VersionRange
    private let readsEverything: Bool
    /// The entries found so far, unordered, perhaps several times.
    private(set) var found: [ServerVersion] = []
    /// The number of found entries above which duplicates are removed.
    private var crowdedCount = 65_536
    private var keysOfPiece = keysOfPieceMax

    init(for run: [ConflictKeys], in range: VersionRange) {
        self.range = range
        readsEverything = run.contains(where: \.readsEverything)
        let reads = run.count == 1 ? run[0].reads : run.flatMap(\.reads).sortedUnique()
        keys = readsEverything ? [] : reads[...]
    }

    /// - Parameter origin: the client file whose entries are left out.
    /// - Returns: whether all are found.
    mutating func advance(
        past log: PendingLog, excludingOrigin origin: ClientFileID, until limit: inout StepLimit
    ) throws(HistoryError) -> Bool {
        while !keys.isEmpty {
            let piece = Array(keys.prefix(keysOfPiece))
            let versions = try log.versions(writing: piece, after: range.base, excludingOrigin: origin)
            keys = keys.dropFirst(piece.count)
            append(versions, ofKeys: piece.count)
            if limit.isOver(after: Self.pairsOfKey * piece.count + Self.pairsOfVersion * versions.count) {
                return false
            }
        }
        while readsEverything, !range.isEmpty {
            let count = min(Self.versionsOfPiece, range.last.rawValue - range.base.rawValue)
            let piece = VersionRange(after: range.base, through: range.base + count)
            found += try log.versions(in: piece, excludingOrigin: origin)
            range.base = piece.last
            if limit.isOver(after: Self.pairsOfVersion * Int(count)) { return false }
        }
        return true
    }

    private mutating func append(_ versions: [ServerVersion], ofKeys count: Int) {
        found += versions
        if found.count > crowdedCount {
            found = found.sortedUnique()
            crowdedCount = 2 * found.count + 65_536
        }
        // The next piece probably finds as many for each of its keys.
        keysOfPiece = max(1, min(Self.keysOfPieceMax, Int(Self.versionsOfPiece) * count / max(1, versions.count)))
    }
}
