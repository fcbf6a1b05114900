package import AnabranchCore

/// Merges one case in several ways and compares the results.
package struct MergeComparison {
    /// The result of a merge: the bytes and dirty flags of both sides, or an error.
    package enum Outcome: Equatable {
        case merged([Changeset])
        case failed

        package struct Changeset: Equatable {
            package var bytes: [UInt8]
            package var isDirty: Bool
        }
    }

    /// The duration of a merge, without and with decoding and encoding.
    package struct Time {
        package var merge = Duration.zero
        package var total = Duration.zero

        package init() {}

        fileprivate init(merge: Duration, total: Duration) {
            self.merge = merge
            self.total = total
        }

        package static func += (left: inout Time, right: Time) {
            left.merge += right.merge
            left.total += right.total
        }

        package mutating func keepShorter(_ other: Time) {
            merge = min(merge, other.merge)
            total = min(total, other.total)
        }
    }

    /// A way to merge that is compared with visiting every pair.
    package enum Way: CaseIterable {
        /// With the default thresholds.
        case indexed
        /// Everything is grouped, and blocks of lists are cut until single pairs are left.
        case finest
        /// Lists are merged by the grid in one block.
        case oneGrid
        /// As `indexed` or as `finest`, in steps of few pairs.
        case steps

        fileprivate func thresholds(_ seed: UInt64) -> MergeThresholds {
            switch self {
            case .indexed: MergeThresholds()
            case .finest: .finest
            case .oneGrid: .oneGrid
            case .steps: seed % 2 == 0 ? MergeThresholds() : .finest
            }
        }

        fileprivate func pairsOfStep(_ seed: UInt64) -> Int {
            self == .steps ? [1, 2, 3, 20, 500][Int(seed % 5)] : .max
        }
    }

    package private(set) var everyPair = Outcome.failed
    package private(set) var everyPairTime = Time()
    package private(set) var indexedTime = Time()
    /// The number of pairs of list operations, and of those left to the grid; below, the same with the smallest blocks.
    package private(set) var listPairs = ListPairs()
    package private(set) var smallBlockPairs = ListPairs()
    /// The ways that differ from the merge of every pair, with their outcomes.
    package private(set) var differences: [(way: Way, outcome: Outcome)] = []

    package var isEqual: Bool { differences.isEmpty }

    /// - Throws: `ChangesetError`, if the generator wrote a changeset that cannot be decoded.
    package init(_ merge: RandomMerge, ways: [Way] = Way.allCases) throws {
        let sides = Sides(merge)
        (everyPair, everyPairTime, _) = try sides.merged(.everyPair)
        for way in ways {
            let (outcome, time, pairs) = try sides.merged(
                .indexed, way.thresholds(merge.seed), pairs: way.pairsOfStep(merge.seed))
            if outcome != everyPair { differences.append((way, outcome)) }
            switch way {
            case .indexed: (indexedTime, listPairs) = (time, pairs)
            case .finest: smallBlockPairs = pairs
            case .oneGrid, .steps: break
            }
        }
    }

    // MARK: Cost

    /// The cost of the indexed merge, as a multiple of the cost of visiting every pair.
    package struct Ratio {
        /// The ratio with decoding and encoding.
        package var total: Double
        package var merge: Double
    }

    /// The ratio where it may be above the limit, from the shortest of several repeats; nil where the index costs less
    /// than that, or only `excess` more than every pair.
    package func ratio(of merge: RandomMerge, above limit: Double, and excess: Duration) throws -> Ratio? {
        var (indexed, everyPair) = (indexedTime, everyPairTime)
        var isCostly: Bool { indexed.total > max(everyPair.total * limit, everyPair.total + excess) }
        guard isCostly else { return nil }
        let sides = Sides(merge)
        for _ in 0..<8 {
            everyPair.keepShorter(try sides.merged(.everyPair).time)
            indexed.keepShorter(try sides.merged(.indexed).time)
        }
        guard isCostly else { return nil }
        return Ratio(total: indexed.total / everyPair.total, merge: indexed.merge / everyPair.merge)
    }
}

/// The changesets of both sides of a merge, as bytes.
private struct Sides {
    let local: [TaggedChangeset]
    let incoming: [TaggedChangeset]

    init(_ merge: RandomMerge) {
        local = WrittenSide(merge.local, on: merge.shape).changesets
        incoming = WrittenSide(merge.incoming, on: merge.shape).changesets
    }

    /// Merges the sides in an arena of their own, so that no merge pays for copying what it would share with others.
    ///
    /// - Parameter pairs: How many pairs each step of the merge visits.
    func merged(
        _ strategy: MergeStrategy, _ thresholds: MergeThresholds = MergeThresholds(), pairs: Int = .max
    ) throws -> (outcome: MergeComparison.Outcome, time: MergeComparison.Time, listPairs: ListPairs) {
        let clock = ContinuousClock()
        let start = clock.now
        var arena = ChangesetArena()
        for side in [local, incoming] {
            for (position, changeset) in side.enumerated() {
                try arena.decode(changeset.bytes, version: UInt64(position + 2), tag: changeset.tag)
            }
        }
        let (local, incoming) = (arena.changesets.prefix(local.count), arena.changesets.dropFirst(local.count))
        var merge = Merge(strategy: strategy, thresholds: thresholds)
        let decoded = clock.now
        do {
            merge.begin(local: Array(local), incoming: Array(incoming), in: arena)
            while try !merge.advance(in: &arena, pairs: pairs) {}
        } catch {
            let end = clock.now
            return (.failed, MergeComparison.Time(merge: end - decoded, total: end - start), merge.listPairs)
        }
        let merged = clock.now
        let encoded = arena.encoded(arena.changesets)
        let time = MergeComparison.Time(merge: merged - decoded, total: clock.now - start)
        let changesets = zip(arena.changesets, encoded).map {
            MergeComparison.Outcome.Changeset(bytes: $1, isDirty: arena.isDirty($0))
        }
        return (.merged(changesets), time, merge.listPairs)
    }
}

extension MergeComparison.Outcome: CustomStringConvertible {
    package var description: String {
        switch self {
        case .failed: "error"
        case .merged(let changesets):
            changesets.map { ($0.isDirty ? "dirty " : "clean ") + Hex.encode($0.bytes) }.joined(separator: ", ")
        }
    }
}
