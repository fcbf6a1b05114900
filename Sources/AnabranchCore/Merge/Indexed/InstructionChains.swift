// The groups that `ConflictIndex.swift` splits the sides of a merge into.

/// Finds the groups in which both sides have instructions, and these instructions in order, in time linear in the two
/// sides. Groups have numbers; columns come first.
///
/// The arena keeps those of its objects between merges, so that a merge costs its own instructions and not the objects
/// of the arena.
struct InstructionChains: Sendable {
    private static let none = UInt32.max

    /// The first and the last instruction of each side in a group; those between are joined by links.
    private struct Chain: Sendable {
        var firstRow = none
        var lastRow = none
        var firstColumn = none
        var lastColumn = none
    }

    private var chains: [Chain] = []
    /// The groups that have columns.
    private var used: [UInt32] = []
    /// The groups on which both sides have instructions.
    private(set) var meetings: [UInt32] = []

    mutating func makeRoom(groups count: Int) {
        if chains.count < count { chains += repeatElement(Chain(), count: count - chains.count) }
    }

    @inline(__always)
    mutating func add(column: Int, to group: UInt32, _ links: inout [UInt32]) {
        let entry = UInt32(truncatingIfNeeded: column)
        let last = chains[Int(group)].lastColumn
        if last == Self.none {
            chains[Int(group)].firstColumn = entry
            used.append(group)
        } else {
            links[Int(last)] = entry
        }
        chains[Int(group)].lastColumn = entry
    }

    /// Leaves out a row whose group has no column.
    @inline(__always)
    mutating func add(row: Int, to group: UInt32, _ links: inout [UInt32]) {
        guard chains[Int(group)].lastColumn != Self.none else { return }
        let entry = UInt32(truncatingIfNeeded: row)
        let last = chains[Int(group)].lastRow
        if last == Self.none {
            chains[Int(group)].firstRow = entry
            meetings.append(group)
        } else {
            links[Int(last)] = entry
        }
        chains[Int(group)].lastRow = entry
    }

    /// The row and the column of a meeting where there is one of each.
    @inline(__always)
    func onlyPair(of meeting: UInt32) -> (row: Int, column: Int)? {
        let chain = chains[Int(meeting)]
        guard chain.firstRow == chain.lastRow, chain.firstColumn == chain.lastColumn else { return nil }
        return (Int(chain.firstRow), Int(chain.firstColumn))
    }

    /// Puts the instructions of a meeting into two lists.
    func take(_ meeting: UInt32, rows: inout [Int], columns: inout [Int], _ links: [UInt32]) {
        let chain = chains[Int(meeting)]
        follow(from: chain.firstRow, to: chain.lastRow, into: &rows, links)
        follow(from: chain.firstColumn, to: chain.lastColumn, into: &columns, links)
    }

    @inline(__always)
    private func follow(from first: UInt32, to last: UInt32, into list: inout [Int], _ links: [UInt32]) {
        list.removeAll(keepingCapacity: true)
        var entry = first
        list.append(Int(entry))
        while entry != last {
            entry = links[Int(entry)]
            list.append(Int(entry))
        }
    }

    /// Forgets everything but the storage.
    mutating func removeAll() {
        for group in used { chains[Int(group)] = Chain() }
        used.removeAll(keepingCapacity: true)
        meetings.removeAll(keepingCapacity: true)
    }
}

/// Chains of instructions with equal keys.
struct KeyedChains {
    private(set) var chains = InstructionChains()
    private var keys: [UInt64] = []
    private var slots = HashSlots()
    /// Instructions with one key tend to follow each other.
    private var latest = 0

    @inline(__always)
    mutating func add(column: Int, under key: UInt64, _ links: inout [UInt32]) {
        let group = group(of: key)
        chains.add(column: column, to: group, &links)
    }

    @inline(__always)
    mutating func add(row: Int, under key: UInt64, _ links: inout [UInt32]) {
        let group = group(of: key)
        chains.add(row: row, to: group, &links)
    }

    @inline(__always)
    private mutating func group(of key: UInt64) -> UInt32 {
        if latest < keys.count, keys[latest] == key { return UInt32(truncatingIfNeeded: latest) }
        let hash = SeededHash.hash(key, 0)
        let found = slots.find(hash) { keys[$0] == key }
        if let entry = found.entry {
            latest = entry
        } else {
            keys.append(key)
            latest = slots.insert(hash, at: found.slot)
            chains.makeRoom(groups: keys.count)
        }
        return UInt32(truncatingIfNeeded: latest)
    }
}
