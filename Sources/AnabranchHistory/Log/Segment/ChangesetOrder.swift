/// The order of the bytes of a log segment's changesets before they are compressed (`Spec/Durability.md`, section 8.1).
/// Sealing takes the order that compresses to fewer bytes: columns if most changesets do the same to different objects,
/// rows if they hold text.
enum ChangesetOrder: UInt8, CaseIterable, Sendable {
    /// One changeset after the other.
    case rows
    /// The changesets of each size together, the smallest first: of these the first byte of each, then the second byte
    /// of each, and so on.
    case columns
}

/// The place of each byte of the changesets in one of the orders.
struct ChangesetLayout: Sendable {
    /// The place of the first byte of each changeset.
    private var starts: [UInt32]
    /// The distance from each byte of a changeset to the next one.
    private var strides: [UInt32]

    /// - Parameter ends: where each changeset ends if they stand one after the other.
    init(_ order: ChangesetOrder, endingAt ends: [Int]) {
        starts = [0] + ends.dropLast().map { UInt32($0) }
        strides = [UInt32](repeating: 1, count: starts.count)
        guard order == .columns else { return }
        let sizes = zip(starts, ends).map { $1 - Int($0) }
        var distinct: [Int] = []
        for size in sizes {
            let place = distinct.firstPlace(of: size)
            if place == distinct.count || distinct[place] != size { distinct.insert(size, at: place) }
        }
        var groups = distinct.map { Group(size: $0) }
        let numbers = sizes.map { distinct.firstPlace(of: $0) }
        for number in numbers { groups[number].count += 1 }
        var next = 0
        for place in groups.indices {
            groups[place].next = next
            next += groups[place].count * groups[place].size
        }
        for (place, number) in numbers.enumerated() {
            (starts[place], strides[place]) = (UInt32(groups[number].next), UInt32(groups[number].count))
            groups[number].next += 1
        }
    }

    /// The changesets of one size.
    private struct Group {
        var size: Int
        var count = 0
        /// The place of the next changeset.
        var next = 0
    }

    /// Arranges consecutive changesets in the order.
    func arrange(_ changesets: [UInt8], endingAt ends: [Int]) -> [UInt8] {
        var arranged = changesets, place = 0
        for (number, end) in ends.enumerated() {
            var target = Int(starts[number])
            while place < end {
                arranged[target] = changesets[place]
                place += 1
                target += Int(strides[number])
            }
        }
        return arranged
    }

    /// Extracts a changeset.
    /// - Parameters:
    ///   - number: the place of its entry.
    ///   - size: of the changeset, in bytes.
    func changeset(_ number: Int, of size: Int, in arranged: [UInt8]) -> [UInt8] {
        let start = Int(starts[number]), stride = Int(strides[number])
        guard stride > 1 else { return Array(arranged[start..<start + size]) }
        return [UInt8](unsafeUninitializedCapacity: size) { bytes, count in
            for place in 0..<size { bytes.initializeElement(at: place, to: arranged[start + place * stride]) }
            count = size
        }
    }
}
