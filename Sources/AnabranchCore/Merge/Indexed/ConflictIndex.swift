// Which pairs have to meet (`Spec/Transform.md`, section 9). All rules need the same object, but for those of erased
// classes and columns and those between two schema instructions. Links join nothing.
//
// At each level some instructions are *wide*: they meet everything of the level (erasures of classes and columns among
// all instructions, the erasure of an object among those on the object). A wide instruction is a row or a column of its
// own; the stretches between wide ones split into groups that cannot meet: by object, then by field.

extension ChangesetArena {
    /// Merges rows with columns, visiting only pairs that can have an effect.
    mutating func mergeIndexed(rows: [Int], columns: [Int]) throws(TransformError) {
        guard holdsErasure else {
            let left = try mergeFront(rows, columns)
            return try mergeAtOnce { (arena) throws(TransformError) in try arena.mergeObjects(left.rows, left.columns) }
        }
        guard !linksToErasedClass(rows, columns), !linksToErasedClass(columns, rows) else {
            return try mergeGrid(rows, columns)
        }
        let left = try mergeFront(rows, columns)
        let isWide = { (instruction: Instruction) in
            instruction.kind == .eraseTable || instruction.kind == .eraseColumn
        }
        // The arena can hold erasures while neither side has one: then the sides are one block.
        try mergeAtOnce { (arena) throws(TransformError) in
            try arena.mergeBlocks(left.rows, left.columns, isWide: isWide) {
                (arena, rows, columns) throws(TransformError) in try arena.mergeObjects(rows, columns)
            }
        }
    }

    /// Merges the first rows with all columns, for no longer than an index of a short merge would take.
    ///
    /// What a peer got wrong mostly shows there, and where most is discarded there is not much more to do.
    ///
    /// - Returns: What is left.
    private mutating func mergeFront(
        _ rows: [Int], _ columns: [Int]
    ) throws(TransformError) -> (rows: [Int], columns: [Int]) {
        var met = LiveColumns(columns)
        let pairs = min(tuning.groupingPairs &* (rows.count &+ columns.count), tuning.frontPairs)
        let end = pairsLeft &- pairs
        var next = 0
        while next < rows.count, pairsLeft > end {
            try mergeRow(rows[next], &met)
            next += 1
        }
        return (Array(rows[next...]), met.live(in: self))
    }

    /// Whether rule R8 can prepend an instruction: one side links to a class that the other erases.
    private func linksToErasedClass(_ linking: [Int], _ erasing: [Int]) -> Bool {
        let erased = Set(erasing.lazy.map { instructions[$0] }.filter { $0.kind == .eraseTable }.map(\.className))
        return !erased.isEmpty
            && linking.contains {
                let instruction = instructions[$0]
                return instruction.kind == .addColumn && instruction.type == .link
                    && erased.contains(instruction.target)
            }
    }

    // MARK: Stretches between wide instructions

    /// The blocks of the grid between wide rows and columns, in an order that respects that of rows and of columns.
    ///
    /// `mergeNarrow` merges a block in which nothing is wide. Where the blocks are too small, all pairs are visited.
    mutating func mergeBlocks(
        _ rows: [Int], _ columns: [Int], isWide: (Instruction) -> Bool,
        mergeNarrow: (inout ChangesetArena, [Int], [Int]) throws(TransformError) -> Void
    ) throws(TransformError) {
        if !rows.contains(where: { isWide(instructions[$0]) }), !columns.contains(where: { isWide(instructions[$0]) }) {
            return try mergeNarrow(&self, rows, columns)
        }
        let rowStretches = stretches(rows, isWide)
        var columnStretches = stretches(columns, isWide)
        guard costsLess(rowStretches.count, columnStretches.count, than: rows.count, columns.count) else {
            return try mergePairs(rows, columns)
        }
        for var rows in rowStretches {
            rows.indices.removeAll { instructions[$0].isDiscarded }
            for number in columnStretches.indices {
                if rows.indices.isEmpty { break }
                columnStretches[number].indices.removeAll { instructions[$0].isDiscarded }
                let columns = columnStretches[number]
                try countLooks(rows.indices.count + columns.indices.count)
                if columns.indices.isEmpty { continue }
                if rows.isWide || columns.isWide || isSmall(rows.indices, columns.indices) {
                    try mergePairs(rows.indices, columns.indices)
                } else {
                    try mergeAtOnce { (arena) throws(TransformError) in
                        try mergeNarrow(&arena, rows.indices, columns.indices)
                    }
                }
                rows.indices.removeAll { instructions[$0].isDiscarded }
            }
        }
    }

    /// Whether blocks that many stretches make cost less than all pairs: each instruction is looked at in each of its
    /// blocks.
    private func costsLess(_ rowStretches: Int, _ columnStretches: Int, than rows: Int, _ columns: Int) -> Bool {
        let looks = rows &* columnStretches &+ columns &* rowStretches
        return tuning.blockPairs &* rowStretches &* columnStretches &+ tuning.groupingPairs &* looks <= rows &* columns
    }

    private struct Stretch {
        var indices: [Int]
        var isWide: Bool
    }

    /// Cuts a side into runs of wide and of other instructions.
    private func stretches(_ indices: [Int], _ isWide: (Instruction) -> Bool) -> [Stretch] {
        var result: [Stretch] = []
        for index in indices {
            let wide = isWide(instructions[index])
            if let last = result.indices.last, result[last].isWide == wide {
                result[last].indices.append(index)
            } else {
                result.append(Stretch(indices: [index], isWide: wide))
            }
        }
        return result
    }

    // MARK: By object

    mutating func mergeObjects(_ rows: [Int], _ columns: [Int]) throws(TransformError) {
        makeRoomForLinks()
        var chains = InstructionChains()
        swap(&chains, &objectChains)
        chains.makeRoom(groups: objects.count)
        var schema: (rows: [Int], columns: [Int]) = ([], [])
        for column in columns {
            let object = instructions[column].object
            if object == .none {
                schema.columns.append(column)
            } else {
                chains.add(column: column, to: object.rawValue, &links)
            }
        }
        for row in rows {
            let object = instructions[row].object
            if object == .none { schema.rows.append(row) } else { chains.add(row: row, to: object.rawValue, &links) }
        }
        try mergeSchema(schema.rows, schema.columns)
        try mergeMeetings(of: chains) { (arena, rows, columns) throws(TransformError) in
            try arena.mergeObject(rows, columns)
        }
        chains.removeAll()
        swap(&chains, &objectChains)
    }

    /// Each instruction of the arena has a place to name the next one of its chain.
    private mutating func makeRoomForLinks() {
        links += repeatElement(0, count: max(0, instructions.count - links.count))
    }

    /// Merges the groups in which both sides have instructions.
    private mutating func mergeMeetings(
        of chains: InstructionChains, merge: (inout ChangesetArena, [Int], [Int]) throws(TransformError) -> Void
    ) throws(TransformError) {
        var group: (rows: [Int], columns: [Int]) = ([], [])
        for meeting in chains.meetings {
            if let (row, column) = chains.onlyPair(of: meeting) {
                try mergePair(row, column)
            } else {
                chains.take(meeting, rows: &group.rows, columns: &group.columns, links)
                try merge(&self, group.rows, group.columns)
            }
        }
    }

    /// AddTable meets AddTable of the same class, AddColumn meets AddColumn of the same column.
    private mutating func mergeSchema(_ rows: [Int], _ columns: [Int]) throws(TransformError) {
        try mergeGroups(rows, columns, by: .declaration) {
            (arena, rows, columns) throws(TransformError) in try arena.mergePairs(rows, columns)
        }
    }

    // MARK: By field

    /// Merges the instructions on one object.
    private mutating func mergeObject(_ rows: [Int], _ columns: [Int]) throws(TransformError) {
        if isSmall(rows, columns) { return try mergePairs(rows, columns) }
        try mergeBlocks(rows, columns, isWide: { $0.kind == .eraseObject }) {
            (arena, rows, columns) throws(TransformError) in try arena.mergeFields(rows, columns)
        }
    }

    /// Whether it costs no more to visit all pairs than to find out which of them matter.
    func isSmall(_ rows: [Int], _ columns: [Int]) -> Bool {
        // Both fit: an instruction has two bytes or more, and an arena less than 2^32.
        rows.count &* columns.count <= tuning.groupingPairs &* (rows.count &+ columns.count)
    }

    private mutating func mergeFields(_ rows: [Int], _ columns: [Int]) throws(TransformError) {
        // CreateObject meets only EraseObject.
        var (rows, columns) = (rows, columns)
        rows.removeAll { !instructions[$0].kind.hasPath }
        columns.removeAll { !instructions[$0].kind.hasPath }
        try mergeGroups(rows, columns, by: .field) {
            (arena, rows, columns) throws(TransformError) in try arena.mergePlace(rows, columns, depth: 0)
        }
    }

    /// What makes instructions belong to one group.
    enum Grouping {
        /// The class or column that an AddTable or AddColumn declares.
        case declaration
        case field
        /// The element of the path at this position.
        case element(UInt32)
        /// The value that a SetInsert or SetErase is about.
        case setValue
    }

    @inline(__always)
    private func key(_ index: Int, _ grouping: Grouping) -> UInt64 {
        switch grouping {
        case .declaration: instructions[index].declared
        case .field: UInt64(instructions[index].field.rawValue)
        case .element(let position): element(position, of: instructions[index]).key
        case .setValue: valueKey(of: instructions[index])
        }
    }

    /// Merges rows and columns with equal keys, group by group.
    mutating func mergeGroups(
        _ rows: [Int], _ columns: [Int], by grouping: Grouping,
        merge: (inout ChangesetArena, [Int], [Int]) throws(TransformError) -> Void
    ) throws(TransformError) {
        guard let first = rows.first, !columns.isEmpty else { return }
        let only = key(first, grouping)
        if rows.allSatisfy({ key($0, grouping) == only }), columns.allSatisfy({ key($0, grouping) == only }) {
            return try merge(&self, rows, columns)
        }
        makeRoomForLinks()
        var groups = KeyedChains()
        for column in columns { groups.add(column: column, under: key(column, grouping), &links) }
        for row in rows { groups.add(row: row, under: key(row, grouping), &links) }
        try mergeMeetings(of: groups.chains, merge: merge)
    }

    // MARK: What can wait

    /// Merges that do not depend on each other and can take long.
    ///
    /// All groups are found before any of these is merged. What a pair can refuse comes first, and in the order of the
    /// rows: so a merge that the grid refuses early is refused early.
    struct Postponed: Sendable {
        var pairs: [(rows: [Int], columns: [Int])] = []
        /// Nothing in them can be refused but that there are too many pairs.
        var lists: [ListUnit] = []
    }

    /// Does something and then what it has postponed.
    mutating func mergeAtOnce(
        _ body: (inout ChangesetArena) throws(TransformError) -> Void
    ) throws(TransformError) {
        var outer = Postponed()
        swap(&outer, &postponed)
        try body(&self)
        swap(&outer, &postponed)
        try mergePairs(of: outer.pairs)
        if outer.lists.isEmpty { return }
        var merger = ListMerger(tuning: tuning)
        for index in outer.lists.indices { try outer.lists[index].merge(in: &self, with: &merger) }
    }

    mutating func mergePairsLater(_ rows: [Int], _ columns: [Int]) throws(TransformError) {
        if isSmall(rows, columns) { return try mergePairs(rows, columns) }
        postponed.pairs.append((rows, columns))
    }

    /// Merges several groups, each in its order, and altogether about in the order of their rows.
    ///
    /// That order is the one of the instructions in the arena, but for what was decoded or prepended later: then only
    /// what is behind it in its own group has to wait for it.
    private mutating func mergePairs(of groups: [(rows: [Int], columns: [Int])]) throws(TransformError) {
        if groups.count < 2 {
            for group in groups { try mergePairs(group.rows, group.columns) }
            return
        }
        var turns: [(turn: Int, group: Int, position: Int)] = []
        for (number, group) in groups.enumerated() {
            var turn = 0
            for (position, row) in group.rows.enumerated() {
                turn = max(turn, row)
                turns.append((turn, number, position))
            }
        }
        var columns = groups.map { LiveColumns($0.columns) }
        for (_, group, position) in turns.sorted(by: <) {
            try mergeRow(groups[group].rows[position], &columns[group])
        }
    }

    // MARK: Pairs

    /// Merges each row with each column.
    mutating func mergePairs(_ rows: [Int], _ columns: [Int]) throws(TransformError) {
        var columns = LiveColumns(columns)
        for row in rows { try mergeRow(row, &columns) }
    }

    /// Merges a row with each column, until it is discarded.
    mutating func mergeRow(_ row: Int, _ columns: inout LiveColumns) throws(TransformError) {
        var major = instructions[row]
        if major.isDiscarded { return }
        let original = major
        var (passed, discarded) = (0, 0)
        for column in columns.indices {
            if instructions[column].isDiscarded {
                passed += 1
            } else if !major.sharesObject(with: instructions[column]) {
                try countPairs()
            } else {
                try mergeCell(&major, column)
                if instructions[column].isDiscarded { discarded += 1 }
                if major.isDiscarded { break }
            }
        }
        try countPairs(passed)
        columns.note(passed: passed, discarded: discarded, in: self)
        if major.isDiscarded || !major.isUnchanged(from: original) { store(major, at: row) }
    }

    /// Merges a row with a column, both live.
    private mutating func mergePair(_ row: Int, _ column: Int) throws(TransformError) {
        try countPairs()
        var (major, minor) = (instructions[row], instructions[column])
        try mergePair(&major, &minor)
        if major.isDiscarded || !major.isUnchanged(from: instructions[row]) { store(major, at: row) }
        if minor.isDiscarded || !minor.isUnchanged(from: instructions[column]) { store(minor, at: column) }
    }

    /// Merges a row, held by the caller, with one live column.
    @inline(__always)
    mutating func mergeCell(_ major: inout Instruction, _ column: Int) throws(TransformError) {
        let majorBefore = major
        let minorBefore = instructions[column]
        try countPairs(major.comparisons(with: minorBefore))
        var minor = minorBefore
        try mergePair(&major, &minor)
        if minor.isDiscarded || !minor.isUnchanged(from: minorBefore) { store(minor, at: column) }
        if !major.isUnchanged(from: majorBefore) { headers[Int(major.owner)].isDirty = true }
    }
}

/// Columns that rows meet one after the other.
///
/// Rows pass over discarded columns at little cost until they have passed over so many that taking them out pays: so a
/// run of values for one place costs its length and not its square.
struct LiveColumns {
    /// In order, discarded ones among them.
    private(set) var indices: [Int]
    /// How many discarded ones rows have passed over since they were last taken out.
    private var passed = 0
    private var hasDiscarded = false

    init(_ columns: [Int]) { indices = columns }

    @inline(__always)
    fileprivate mutating func note(passed count: Int, discarded: Int, in arena: ChangesetArena) {
        if discarded > 0 { hasDiscarded = true }
        passed += count
        if passed > indices.count / 2 {
            indices.removeAll { arena.instructions[$0].isDiscarded }
            (passed, hasDiscarded) = (0, false)
        }
    }

    /// Those that are not discarded, if no rows but those merged with this value have discarded any.
    fileprivate func live(in arena: ChangesetArena) -> [Int] {
        hasDiscarded ? indices.filter { !arena.instructions[$0].isDiscarded } : indices
    }
}

extension Instruction {
    /// Whether both are on one object, or one of them is on none.
    @inline(__always)
    fileprivate func sharesObject(with other: Instruction) -> Bool {
        object == other.object || object == .none || other.object == .none
    }

    /// For how many pairs a pair counts: comparing long paths takes longer, and so does comparing values of sets.
    @inline(__always)
    fileprivate func comparisons(with other: Instruction) -> Int {
        var count = 1 &+ Int(min(pathCount, other.pathCount) >> 4)
        if kind.isSetChange, other.kind.isSetChange, type == .string || type == .binary, type == other.type {
            count &+= min(bytesCount, other.bytesCount) >> 6
        }
        return count
    }

    /// Names what an AddTable or AddColumn declares.
    var declared: UInt64 {
        UInt64(className.rawValue) << 32 | (kind == .addColumn ? UInt64(field.rawValue) + 1 : 0)
    }
}
