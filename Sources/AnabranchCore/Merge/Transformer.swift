// The grid (`Spec/Transform.md`, section 2): rows are major instructions, columns are minor ones, and every pair of
// live ones meets once. Any order that respects the order of rows and of columns gives the same result, which is what
// `ConflictIndex.swift` uses to visit only the pairs that can have an effect.

/// How a merge finds the pairs that meet.
public enum MergeStrategy: Sendable {
    /// Visits what can have an effect.
    case indexed
    /// Visits every pair: the reference that the other one is checked against.
    case everyPair
}

extension ChangesetArena {
    /// How many pairs of instructions the merges of one arena may visit, if they use the index: about half a minute.
    ///
    /// Other work that could grow faster than the instructions counts as pairs. Long runs on one list cost few pairs,
    /// so honest clients stay far below.
    public static let mergedPairsMax = 1 << 33

    /// Rewrites two lists of changesets that start from the same state, so that each can come after the other.
    ///
    /// What the changesets become, which of them count as dirty, and what is an error follows `Spec/Transform.md`.
    ///
    /// - Parameters:
    ///   - local: The major side in order. Its changesets are the outer loop of the merge.
    ///   - incoming: The minor side. It is taken in the order of the changesets' versions, and in the order of the list
    ///     where versions are equal.
    /// - Throws: `TransformError`; both sides may then be partly changed, and the arena must be dropped.
    public mutating func merge(
        local: [Int], incoming: [Int], strategy: MergeStrategy = .indexed
    ) throws(TransformError) {
        if strategy == .everyPair { pairsLeft = .max }
        let rows = liveInstructions(of: local)
        let columns = liveInstructions(of: inVersionOrder(incoming))
        try countLooks(rows.count + columns.count)
        guard !rows.isEmpty, !columns.isEmpty else { return }
        let nan = holdsNaN ? NaNMeetings(rows: rows, columns: columns, arena: self) : nil
        if strategy == .everyPair {
            try mergeGrid(rows, columns, nan)
        } else if let nan {
            try mergeIndexed(rows: rows, columns: columns, nan: nan)
        } else {
            try mergeIndexed(rows: rows, columns: columns)
        }
    }

    /// Merges every row with every column.
    mutating func mergeGrid(_ rows: [Int], _ columns: [Int], _ nan: NaNMeetings? = nil) throws(TransformError) {
        var grid = Grid(columns: columns, nan: nan)
        for row in rows { try grid.mergeRow(row, of: &self) }
    }

    private func inVersionOrder(_ changesets: [Int]) -> [Int] {
        let isSorted = zip(changesets, changesets.dropFirst()).allSatisfy { headers[$0].version <= headers[$1].version }
        guard !isSorted else { return changesets }
        return changesets.enumerated().sorted {
            (headers[$0.element].version, $0.offset) < (headers[$1.element].version, $1.offset)
        }.map(\.element)
    }

    private func liveInstructions(of changesets: [Int]) -> [Int] {
        var result: [Int] = []
        result.reserveCapacity(changesets.reduce(0) { $0 + headers[$1].liveCount })
        // Changesets that were decoded one after another and are whole stand together.
        var whole = 0..<0
        for changeset in changesets {
            let header = headers[changeset]
            let own = header.instructions
            let isWhole = header.liveCount == own.count && (additions.isEmpty || additions[changeset] == nil)
            if isWhole, own.lowerBound == whole.upperBound {
                whole = whole.lowerBound..<own.upperBound
                continue
            }
            result += whole
            whole = isWhole ? own : 0..<0
            if !isWhole { result += instructionIndices(of: changeset) }
        }
        result += whole
        return result
    }

    /// Counts pairs against the number that may be visited; also those passed over, where they are not filtered out.
    @inline(__always)
    mutating func countPairs(_ count: Int = 1) throws(TransformError) {
        pairsLeft &-= count
        if pairsLeft < 0 { throw TransformError(.tooManyPairs, "too many instructions conflict") }
    }

    /// Counts looks at single instructions, which may be many where they are looked at again and again.
    mutating func countLooks(_ count: Int) throws(TransformError) { try countPairs(count / Self.looksPerPair) }

    private static let looksPerPair = 4

    /// Discards an instruction, or stores what a rule has made of it.
    @inline(__always)
    mutating func store(_ instruction: Instruction, at index: Int) {
        let owner = Int(instruction.owner)
        if instruction.isDiscarded { headers[owner].liveCount -= 1 }
        headers[owner].isDirty = true
        instructions[index] = instruction
    }
}

/// Rows that meet a list of columns.
struct Grid {
    private(set) var columns: [Int]
    private let nan: NaNMeetings?

    init(columns: [Int], nan: NaNMeetings? = nil) {
        self.columns = columns
        self.nan = nan
    }

    /// Merges one major instruction with the live minor ones from a position on, until it is discarded.
    mutating func mergeRow(_ row: Int, from start: Int = 0, of arena: inout ChangesetArena) throws(TransformError) {
        var major = arena.instructions[row]
        guard !major.isDiscarded else { return }
        let original = major
        var position = start
        while position < columns.count, !major.isDiscarded {
            let column = columns[position]
            position += 1
            if arena.instructions[column].isDiscarded {
                try arena.countPairs()
                continue
            }
            try position += mergeErasedTarget(&major, column, row: row, position: position, of: &arena)
            if !major.isDiscarded, !arena.instructions[column].isDiscarded { try arena.mergeCell(&major, column) }
            if let nan { nan.markDirty(major, arena.instructions[column], of: &arena) }
        }
        if major.isDiscarded || !major.isUnchanged(from: original) { arena.store(major, at: row) }
    }

    /// R8. A column that links to an erased class cannot stay: the side that erases the class erases the column before.
    ///
    /// - Returns: How far the columns behind the pair have moved.
    private mutating func mergeErasedTarget(
        _ major: inout Instruction, _ column: Int, row: Int, position: Int, of arena: inout ChangesetArena
    ) throws(TransformError) -> Int {
        var minor = arena.instructions[column]
        if major.addsLink(toErased: minor) {
            try arena.countPairs(columns.count - position)
            columns.insert(arena.prependEraseColumn(of: major, before: column), at: position - 1)
            major.discard()
            return 1
        }
        if minor.addsLink(toErased: major) {
            // The new row meets what is behind the current column, and only that.
            try mergeRow(arena.prependEraseColumn(of: minor, before: row), from: position, of: &arena)
            minor.discard()
            arena.store(minor, at: column)
        }
        return 0
    }
}

extension Instruction {
    /// An AddColumn of links to the class that the other instruction erases, but not a column of that class: N1
    /// discards it.
    @inline(__always)
    func addsLink(toErased other: Instruction) -> Bool {
        kind == .addColumn && other.kind == .eraseTable && type == .link && target == other.className
            && className != other.className
    }
}

extension ChangesetArena {
    /// Adds to the changeset of an EraseTable the erasure of a column, directly before it.
    fileprivate mutating func prependEraseColumn(of column: Instruction, before index: Int) -> Int {
        let owner = Int(instructions[index].owner)
        var erase = Instruction(kind: .eraseColumn, owner: UInt32(owner), className: column.className)
        erase.field = column.field
        var added = additions.removeValue(forKey: owner) ?? Additions(to: strings[headers[owner].strings])
        for name in [column.className, column.field] where added.known.insert(name).inserted {
            added.strings.append(name)
        }
        added.prepended[index, default: []].append(instructions.count)
        additions[owner] = added
        headers[owner].liveCount += 1
        headers[owner].isDirty = true
        instructions.append(erase)
        return instructions.count - 1
    }
}
