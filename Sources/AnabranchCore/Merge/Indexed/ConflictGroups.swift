// Which pairs have to meet (`Spec/Transform.md`, section 9). All rules need the same object, but for those of erased
// classes and columns and those between two schema instructions. Links join nothing.
//
// Instructions are grouped by object, then by field, then by place (`PlaceGroups.swift`). At some levels there are
// barriers, instructions that meet everything of the level (`Barriers.swift`). Groups with few pairs are merged as soon
// as they are found; all others are left as `DeferredWork`.

/// The things that the instructions of a block have in common, which decide how the block is split further.
enum GroupLevel: Sendable {
    /// Nothing. Erasures of classes and columns are barriers.
    case everything
    /// Nothing, and there are no barriers.
    case objects
    /// The object. Its erasures are barriers.
    case object
    /// A place: the field, and the first elements of the path, as many as the number says. An instruction that sets,
    /// changes or clears the place as a whole is a barrier.
    case place(UInt32)
}

extension Merge {
    /// Finds the groups of a block, and merges those with few pairs.
    ///
    /// - Returns: The work that is left to be done, for `wait(for:)`.
    mutating func grouped(
        _ level: GroupLevel, _ rows: [InstructionIndex], _ columns: [InstructionIndex], in arena: inout ChangesetArena
    ) throws(TransformError) -> DeferredWork {
        var work = DeferredWork()
        switch level {
        case .everything: try splitAtBarriers(rows, columns, .everything, into: &work, in: &arena)
        case .objects, .object: try splitBlock(rows, columns, level, into: &work, in: &arena)
        case .place(let depth): try groupPlace(rows, columns, depth: depth, into: &work, in: &arena)
        }
        budget.countTime(rows.count + columns.count)
        return work
    }

    /// Splits a block without barriers.
    mutating func splitBlock(
        _ rows: [InstructionIndex], _ columns: [InstructionIndex], _ level: GroupLevel, into work: inout DeferredWork,
        in arena: inout ChangesetArena
    ) throws(TransformError) {
        switch level {
        case .everything, .objects: try groupByObject(rows, columns, into: &work, in: &arena)
        case .object: try groupByField(rows, columns, into: &work, in: &arena)
        case .place(let depth): try groupContents(rows, columns, depth: depth, into: &work, in: &arena)
        }
    }

    // MARK: Cost

    /// The cost of grouping two sides, in pair visits.
    func cost(ofGrouping rows: [InstructionIndex], _ columns: [InstructionIndex]) -> Int {
        thresholds.groupingPairs &* (rows.count &+ columns.count)
    }

    /// The number of pairs that the first rows may meet.
    func pairsOfFirstRows(_ rows: [InstructionIndex], _ columns: [InstructionIndex]) -> Int {
        min(cost(ofGrouping: rows, columns), thresholds.firstRowPairs)
    }

    /// True if it costs no more to visit all pairs than to find out which of them matter.
    func isSmall(_ rows: [InstructionIndex], _ columns: [InstructionIndex]) -> Bool {
        // Both fit: an instruction has two bytes or more, and an arena less than 2^32.
        rows.count &* columns.count <= cost(ofGrouping: rows, columns)
    }

    /// Merges all pairs of a group, now if there are few of them.
    mutating func mergePairs(
        _ rows: [InstructionIndex], _ columns: [InstructionIndex], into work: inout DeferredWork,
        in arena: inout ChangesetArena
    ) throws(TransformError) {
        if isSmall(rows, columns) {
            try mergeSmall(rows, columns, in: &arena)
        } else {
            work.pairs.append(PairGroup(rows, columns))
        }
    }

    // MARK: By object

    private mutating func groupByObject(
        _ rows: [InstructionIndex], _ columns: [InstructionIndex], into work: inout DeferredWork,
        in arena: inout ChangesetArena
    ) throws(TransformError) {
        makeRoomForLinks(in: arena)
        var groups = GroupLists()
        swap(&groups, &objectGroups)
        groups.makeRoom(groups: arena.objects.count)
        var schema: (rows: [InstructionIndex], columns: [InstructionIndex]) = ([], [])
        for column in columns {
            let object = arena[column].object
            if object == .none {
                schema.columns.append(column)
            } else {
                groups.add(column: column, to: object.rawValue, &links)
            }
        }
        for row in rows {
            let object = arena[row].object
            if object == .none { schema.rows.append(row) } else { groups.add(row: row, to: object.rawValue, &links) }
        }
        try group(schema.rows, schema.columns, by: .declaration, into: &work, in: &arena)
        try merge(groups, of: .object, into: &work, in: &arena)
        groups.removeAll()
        swap(&groups, &objectGroups)
    }

    /// Gives each instruction of the arena a place to name the next one of its group.
    private mutating func makeRoomForLinks(in arena: borrowing ChangesetArena) {
        links += repeatElement(InstructionIndex(0), count: max(0, arena.instructions.count - links.count))
    }

    /// Merges the instructions on one object.
    private mutating func groupObject(
        _ rows: [InstructionIndex], _ columns: [InstructionIndex], into work: inout DeferredWork,
        in arena: inout ChangesetArena
    ) throws(TransformError) {
        if isSmall(rows, columns) { return try mergeSmall(rows, columns, in: &arena) }
        try splitAtBarriers(rows, columns, .object, into: &work, in: &arena)
    }

    // MARK: By key

    /// The property that the instructions of one group have in common.
    enum Grouping {
        case object
        /// The class or column that an AddTable or AddColumn declares: only two declarations of the same one meet.
        case declaration
        case field
        /// The element of the path at this position.
        case element(UInt32)
        /// The value that a SetInsert or SetErase is about.
        case setValue
    }

    private mutating func groupByField(
        _ rows: [InstructionIndex], _ columns: [InstructionIndex], into work: inout DeferredWork,
        in arena: inout ChangesetArena
    ) throws(TransformError) {
        // CreateObject meets only EraseObject.
        let rows = rows.filter { arena[$0].kind.hasPath }
        let columns = columns.filter { arena[$0].kind.hasPath }
        try group(rows, columns, by: .field, into: &work, in: &arena)
    }

    /// Splits rows and columns into groups with equal keys.
    mutating func group(
        _ rows: [InstructionIndex], _ columns: [InstructionIndex], by grouping: Grouping,
        into work: inout DeferredWork, in arena: inout ChangesetArena
    ) throws(TransformError) {
        guard let first = rows.first, !columns.isEmpty else { return }
        let only = arena.key(first, grouping)
        if rows.allSatisfy({ arena.key($0, grouping) == only }), columns.allSatisfy({ arena.key($0, grouping) == only })
        {
            return try merge(rows, columns, of: grouping, into: &work, in: &arena)
        }
        makeRoomForLinks(in: arena)
        var groups = KeyedGroups()
        for column in columns { groups.add(column: column, under: arena.key(column, grouping), &links) }
        for row in rows { groups.add(row: row, under: arena.key(row, grouping), &links) }
        try merge(groups.lists, of: grouping, into: &work, in: &arena)
    }

    /// Merges the groups in which both sides have instructions.
    private mutating func merge(
        _ groups: GroupLists, of grouping: Grouping, into work: inout DeferredWork, in arena: inout ChangesetArena
    ) throws(TransformError) {
        var (rows, columns): ([InstructionIndex], [InstructionIndex]) = ([], [])
        for group in groups.shared {
            if let (row, column) = groups.onlyPair(of: group) {
                try Cell.merge(row, with: column, &budget, in: &arena)
            } else {
                groups.take(group, rows: &rows, columns: &columns, links)
                try merge(rows, columns, of: grouping, into: &work, in: &arena)
            }
        }
    }

    /// Merges one group.
    private mutating func merge(
        _ rows: [InstructionIndex], _ columns: [InstructionIndex], of grouping: Grouping,
        into work: inout DeferredWork, in arena: inout ChangesetArena
    ) throws(TransformError) {
        switch grouping {
        case .object: try groupObject(rows, columns, into: &work, in: &arena)
        case .declaration, .setValue: try mergePairs(rows, columns, into: &work, in: &arena)
        case .field: try groupPlace(rows, columns, depth: 0, into: &work, in: &arena)
        case .element(let depth): try groupPlace(rows, columns, depth: depth + 1, into: &work, in: &arena)
        }
    }
}

extension ChangesetArena {
    /// Instructions of different groups have different keys.
    @inline(__always)
    fileprivate func key(_ index: InstructionIndex, _ grouping: Merge.Grouping) -> UInt64 {
        switch grouping {
        case .object: UInt64(self[index].object.rawValue)
        case .declaration: self[index].declaration
        case .field: UInt64(self[index].field.rawValue)
        case .element(let position): element(position, of: self[index]).key
        case .setValue: valueKey(of: self[index])
        }
    }
}

extension Instruction {
    /// A number for the class or column that an AddTable or AddColumn declares.
    var declaration: UInt64 {
        UInt64(className.rawValue) << 32 | (kind == .addColumn ? UInt64(field.rawValue) + 1 : 0)
    }
}
