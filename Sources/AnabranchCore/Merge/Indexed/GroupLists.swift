// Groups of instructions as linked lists, so that finding all groups takes time linear in the two sides.

/// Finds the groups in which both sides have instructions, and these instructions in order. Groups have numbers;
/// columns come first.
///
/// A merge keeps those of the objects for the next one, so that it costs its own instructions and not the objects of
/// the arena.
struct GroupLists: Sendable {
    private static let none = InstructionIndex(rawValue: .max)

    /// The first and the last instruction of each side in a group; those between are joined by links.
    private struct Ends: Sendable {
        var firstRow = none
        var lastRow = none
        var firstColumn = none
        var lastColumn = none
    }

    private var ends: [Ends] = []
    /// The groups that have columns.
    private var used: [UInt32] = []
    /// The groups in which both sides have instructions, in the order of their first rows.
    private(set) var shared: [UInt32] = []

    mutating func makeRoom(groups count: Int) {
        if ends.count < count { ends += repeatElement(Ends(), count: count - ends.count) }
    }

    @inline(__always)
    mutating func add(column: InstructionIndex, to group: UInt32, _ links: inout [InstructionIndex]) {
        let last = ends[Int(group)].lastColumn
        if last == Self.none {
            ends[Int(group)].firstColumn = column
            used.append(group)
        } else {
            links[last.position] = column
        }
        ends[Int(group)].lastColumn = column
    }

    /// Leaves out a row whose group has no column.
    @inline(__always)
    mutating func add(row: InstructionIndex, to group: UInt32, _ links: inout [InstructionIndex]) {
        guard ends[Int(group)].lastColumn != Self.none else { return }
        let last = ends[Int(group)].lastRow
        if last == Self.none {
            ends[Int(group)].firstRow = row
            shared.append(group)
        } else {
            links[last.position] = row
        }
        ends[Int(group)].lastRow = row
    }

    /// The row and the column of a shared group that has one of each.
    @inline(__always)
    func onlyPair(of group: UInt32) -> (row: InstructionIndex, column: InstructionIndex)? {
        let ends = ends[Int(group)]
        guard ends.firstRow == ends.lastRow, ends.firstColumn == ends.lastColumn else { return nil }
        return (ends.firstRow, ends.firstColumn)
    }

    /// Puts the instructions of a shared group into two lists.
    func take(
        _ group: UInt32, rows: inout [InstructionIndex], columns: inout [InstructionIndex], _ links: [InstructionIndex]
    ) {
        let ends = ends[Int(group)]
        follow(from: ends.firstRow, to: ends.lastRow, into: &rows, links)
        follow(from: ends.firstColumn, to: ends.lastColumn, into: &columns, links)
    }

    @inline(__always)
    private func follow(
        from first: InstructionIndex, to last: InstructionIndex, into list: inout [InstructionIndex],
        _ links: [InstructionIndex]
    ) {
        list.removeAll(keepingCapacity: true)
        var index = first
        list.append(index)
        while index != last {
            index = links[index.position]
            list.append(index)
        }
    }

    /// Forgets everything but the storage.
    mutating func removeAll() {
        for group in used { ends[Int(group)] = Ends() }
        used.removeAll(keepingCapacity: true)
        shared.removeAll(keepingCapacity: true)
    }
}

/// Groups of instructions with equal keys.
struct KeyedGroups {
    private(set) var lists = GroupLists()
    private var keys: [UInt64] = []
    private var slots = HashSlots()
    /// Instructions with one key tend to follow each other.
    private var latest = 0

    @inline(__always)
    mutating func add(column: InstructionIndex, under key: UInt64, _ links: inout [InstructionIndex]) {
        let group = group(of: key)
        lists.add(column: column, to: group, &links)
    }

    @inline(__always)
    mutating func add(row: InstructionIndex, under key: UInt64, _ links: inout [InstructionIndex]) {
        let group = group(of: key)
        lists.add(row: row, to: group, &links)
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
            lists.makeRoom(groups: keys.count)
        }
        return UInt32(truncatingIfNeeded: latest)
    }
}
