/// How the changesets of a log segment stand behind one another before they are compressed (`Spec/Durability.md`,
/// section 8.1). Sealing takes the order from which fewer bytes come: columns if most changesets do the same to
/// different objects, rows if they hold text.
enum ChangesetOrder: UInt8, CaseIterable, Sendable {
    /// One changeset after the other.
    case rows
    /// The changesets of each size together, the smallest first: of these the first byte of each, then the second byte
    /// of each, and so on.
    case columns
}

/// Where each byte of the changesets stands in one of the orders.
struct ChangesetLayout: Sendable {
    /// Where the first byte of each changeset stands.
    private var starts: [Int]
    /// How far each of its bytes is from the one before.
    private var strides: [Int]

    /// - Parameter ends: where each changeset ends if they stand one after the other.
    init(_ order: ChangesetOrder, endingAt ends: [Int]) {
        starts = [0] + ends.dropLast()
        strides = [Int](repeating: 1, count: starts.count)
        guard order == .columns else { return }
        var groups: [Group] = []
        for (start, end) in zip(starts, ends) {
            let place = groups.firstPlace(of: end - start)
            if place == groups.count || groups[place].size != end - start {
                groups.insert(Group(size: end - start), at: place)
            }
            groups[place].count += 1
        }
        var next = 0
        for place in groups.indices {
            groups[place].next = next
            next += groups[place].count * groups[place].size
        }
        for (place, end) in ends.enumerated() {
            let group = groups.firstPlace(of: end - starts[place])
            (starts[place], strides[place]) = (groups[group].next, groups[group].count)
            groups[group].next += 1
        }
    }

    /// The changesets of one size.
    fileprivate struct Group {
        var size: Int
        var count = 0
        /// Where the next changeset begins.
        var next = 0
    }

    /// Puts changesets that stand one after the other into the order.
    func arrange(_ changesets: [UInt8], endingAt ends: [Int]) -> [UInt8] {
        var arranged = changesets, place = 0
        for (number, end) in ends.enumerated() {
            var target = starts[number]
            while place < end {
                arranged[target] = changesets[place]
                place += 1
                target += strides[number]
            }
        }
        return arranged
    }

    /// Takes a changeset out.
    /// - Parameters:
    ///   - number: the place of its entry.
    ///   - size: of the changeset, in bytes.
    func changeset(_ number: Int, of size: Int, in arranged: [UInt8]) -> [UInt8] {
        let start = starts[number], stride = strides[number]
        guard stride > 1 else { return Array(arranged[start..<start + size]) }
        return [UInt8](unsafeUninitializedCapacity: size) { bytes, count in
            for place in 0..<size { bytes.initializeElement(at: place, to: arranged[start + place * stride]) }
            count = size
        }
    }
}

extension [ChangesetLayout.Group] {
    /// The place of the first group, of those in ascending order, whose changesets have the size, or more.
    fileprivate func firstPlace(of size: Int) -> Int {
        var low = 0, high = count
        while low < high {
            let middle = low + (high - low) / 2
            if self[middle].size < size { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
