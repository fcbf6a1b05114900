package import AnabranchCore

/// The events of one round: replicas write, upload and download, until all are online at the end.
package struct RoundPlan {
    package enum Event {
        /// A transaction of some modifications; each follows from its seed and the state that it finds.
        case write(replica: Int, timestamp: ChangesetTime, modifications: [UInt64])
        /// An upload of at most `countMax` changesets.
        case upload(replica: Int, countMax: Int)
        case download(replica: Int)
    }

    package let seed: UInt64
    let replicas: Int
    let hotSpot: HotSpot
    package var events: [Event] = []

    /// - Parameters:
    ///   - seed: everything follows from it and the other two.
    ///   - modifications: the number of modifications of all replicas together.
    package init(seed: UInt64, replicas: Int, modifications: Int) {
        self.seed = seed
        self.replicas = replicas
        var random = SeededRandom(scrambling: seed)
        hotSpot = HotSpot(&random)
        let clock = Clock(replicas: replicas, &random)
        let modificationsPerWrite = random.pick([1, 2, 4, 8, 16])
        let contact = random.pick([1, 2, 4, 12])
        var offline = Array(repeating: 0, count: replicas)
        var left = modifications
        while left > 0 {
            let replica = random.below(replicas)
            let count = min(left, 1 + random.below(modificationsPerWrite))
            left -= count
            events.append(
                .write(
                    replica: replica, timestamp: clock.timestamp(of: replica, at: events.count, &random),
                    modifications: (0..<count).map { _ in random.next() }))
            guard offline[replica] == 0 else {
                offline[replica] -= 1
                continue
            }
            if random.isOne(in: contact) {
                events.append(.upload(replica: replica, countMax: random.pick([1, 2, .max])))
            }
            if random.isOne(in: contact) { events.append(.download(replica: replica)) }
            if random.isOne(in: 16) { offline[replica] = 1 + random.below(30) }
        }
    }

    /// The timestamps of the replicas.
    private struct Clock {
        private enum Kind: CaseIterable {
            case equal, exact, skewed, arbitrary
        }

        private let kind: Kind
        private let skews: [Int]

        init(replicas: Int, _ random: inout SeededRandom) {
            kind = random.pick(Kind.allCases)
            skews = (0..<replicas).map { _ in random.below(200) }
        }

        func timestamp(of replica: Int, at time: Int, _ random: inout SeededRandom) -> ChangesetTime {
            let offset =
                switch kind {
                case .equal: 0
                case .exact: time
                case .skewed: time + skews[replica]
                case .arbitrary: random.below(50)
                }
            return ChangesetTime(rawValue: 1000 + UInt64(offset))
        }
    }

    // MARK: Shrinking

    /// A part of the plan that still fails, from which no single event and no single modification can be taken away.
    package func shrunk(while fails: (RoundPlan) -> Bool) -> RoundPlan {
        var smallest = self
        var previousSize = Int.max
        while smallest.size < previousSize {
            previousSize = smallest.size
            smallest.events = smallest.events.shrunk { events in
                var candidate = smallest
                candidate.events = events
                return fails(candidate)
            }
            for position in smallest.events.indices {
                guard case .write(let replica, let timestamp, let modifications) = smallest.events[position] else {
                    continue
                }
                func event(_ modifications: [UInt64]) -> Event {
                    .write(replica: replica, timestamp: timestamp, modifications: modifications)
                }
                let kept = modifications.shrunk { modifications in
                    var candidate = smallest
                    candidate.events[position] = event(modifications)
                    return fails(candidate)
                }
                smallest.events[position] = event(kept)
            }
        }
        return smallest
    }

    private var size: Int {
        events.reduce(events.count) { size, event in
            if case .write(_, _, let modifications) = event { size + modifications.count } else { size }
        }
    }
}
