import AnabranchCore

/// Merges one case in both ways and compares what comes out.
struct CaseCheck {
    /// What a merge makes of both sides: bytes and dirty flags, or that it is an error.
    enum Outcome: Equatable {
        case merged([Changeset])
        case failed

        struct Changeset: Equatable {
            var bytes: [UInt8]
            var isDirty: Bool
        }
    }

    let outcome: (indexed: Outcome, everyPair: Outcome)
    let time: (indexed: Duration, everyPair: Duration)

    var isEqual: Bool { outcome.indexed == outcome.everyPair }

    /// - Throws: `ChangesetError`, if the generator wrote a changeset that cannot be decoded.
    init(_ merge: RandomMerge) throws {
        let written = (
            local: WrittenSide(merge.local, on: merge.shape), incoming: WrittenSide(merge.incoming, on: merge.shape)
        )
        let indexed = try Self.merge(written.local, written.incoming, .indexed)
        let everyPair = try Self.merge(written.local, written.incoming, .everyPair)
        outcome = (indexed.outcome, everyPair.outcome)
        time = (indexed.time, everyPair.time)
    }

    private static func merge(
        _ local: WrittenSide, _ incoming: WrittenSide, _ strategy: MergeStrategy
    ) throws -> (outcome: Outcome, time: Duration) {
        var pool = try prepare(local, incoming)
        let places = Array(0..<pool.count)
        let clock = ContinuousClock()
        let start = clock.now
        do {
            try pool.merge(
                local: Array(places.prefix(local.changesets.count)),
                incoming: Array(places.dropFirst(local.changesets.count)), strategy: strategy)
        } catch {
            return (.failed, clock.now - start)
        }
        let time = clock.now - start
        var encoder = ChangesetEncoder()
        let changesets = places.map {
            Outcome.Changeset(bytes: encoder.encode($0, of: pool), isDirty: pool.isDirty($0))
        }
        return (.merged(changesets), time)
    }

    /// Each merge gets a pool of its own, so that none pays for copying what they would share.
    private static func prepare(_ local: WrittenSide, _ incoming: WrittenSide) throws -> ChangesetPool {
        var pool = ChangesetPool()
        for side in [local, incoming] {
            for (position, changeset) in side.changesets.enumerated() {
                try pool.decode(changeset.bytes, version: UInt64(position + 2), tag: changeset.tag)
            }
        }
        return pool
    }

    // MARK: Cost

    /// Up to so many operations a side a merge is too short to be measured.
    private static let timedOperationsMin = 64

    /// How many times the pairwise grid the index costs, where that is more than twice, best of several repeats.
    func slowdown(of merge: RandomMerge) throws -> Double? {
        guard min(merge.local.count, merge.incoming.count) >= Self.timedOperationsMin, time.indexed > time.everyPair * 2
        else { return nil }
        var best = time
        for _ in 0..<8 {
            let again = try CaseCheck(merge).time
            best = (min(best.indexed, again.indexed), min(best.everyPair, again.everyPair))
        }
        return best.indexed > best.everyPair * 2 ? best.indexed / best.everyPair : nil
    }
}
