// Which pairs have to meet (`Spec/Transform.md`, section 9). All rules need the same object, but for those of erased
// classes and columns and those between two schema instructions. Links join nothing.
//
// At each level some instructions are *wide*: they meet everything of the level (erasures of classes and columns among
// all instructions, the erasure of an object among those on the object). A wide instruction is a row or a column of its
// own; the stretches between wide ones split into groups that cannot meet: by object, then by field.

extension ChangesetPool {
    /// Merges rows with columns, visiting only pairs that can have an effect.
    mutating func mergeIndexed(rows: [Int], columns: [Int]) throws(TransformError) {
        guard holdsErasure else {
            let left = try mergeFront(rows, columns)
            return try mergeAtOnce { (pool) throws(TransformError) in try pool.mergeObjects(left.rows, left.columns) }
        }
        guard !linksToErasedClass(rows, columns), !linksToErasedClass(columns, rows) else {
            return try mergeGrid(rows, columns)
        }
        let left = try mergeFront(rows, columns)
        let isWide = { (instruction: Instruction) in
            instruction.kind == .eraseTable || instruction.kind == .eraseColumn
        }
        // The pool can hold erasures while neither side has one: then the sides are one block.
        try mergeAtOnce { (pool) throws(TransformError) in
            try pool.mergeBlocks(left.rows, left.columns, isWide: isWide) {
                (pool, rows, columns) throws(TransformError) in try pool.mergeObjects(rows, columns)
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
        var pairs = min(Self.groupingPairs &* (rows.count &+ columns.count), Self.frontPairsMax)
        let count = try mergeRows(rows, columns, pairs: &pairs)
        let isAnyDiscarded = columns.contains { instructions[$0].isDiscarded }
        return (
            Array(rows[count...]), isAnyDiscarded ? columns.filter { !instructions[$0].isDiscarded } : columns
        )
    }

    /// An index of this cost is short.
    private static let frontPairsMax = 4096

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
        mergeNarrow: (inout ChangesetPool, [Int], [Int]) throws(TransformError) -> Void
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
                if columns.indices.isEmpty { continue }
                if rows.isWide || columns.isWide || isSmall(rows.indices, columns.indices) {
                    try mergePairs(rows.indices, columns.indices)
                } else {
                    try mergeAtOnce { (pool) throws(TransformError) in
                        try mergeNarrow(&pool, rows.indices, columns.indices)
                    }
                }
                rows.indices.removeAll { instructions[$0].isDiscarded }
            }
        }
    }

    /// Whether blocks that many stretches make cost less than all pairs: each instruction is looked at in each of its blocks.
    private func costsLess(_ rowStretches: Int, _ columnStretches: Int, than rows: Int, _ columns: Int) -> Bool {
        let looks = rows &* columnStretches &+ columns &* rowStretches
        return Self.blockPairs &* rowStretches &* columnStretches &+ Self.groupingPairs &* looks <= rows &* columns
    }

    /// For how many pairs a block may stand, whatever is in it.
    private static let blockPairs = 64

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
        try mergeMeetings(of: chains) { (pool, rows, columns) throws(TransformError) in
            try pool.mergeObject(rows, columns)
        }
        chains.removeAll()
        swap(&chains, &objectChains)
    }

    /// Each instruction of the pool has a place to name the next one of its chain.
    private mutating func makeRoomForLinks() {
        links += repeatElement(0, count: max(0, instructions.count - links.count))
    }

    /// Merges the groups in which both sides have instructions.
    private mutating func mergeMeetings(
        of chains: InstructionChains, merge: (inout ChangesetPool, [Int], [Int]) throws(TransformError) -> Void
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
            (pool, rows, columns) throws(TransformError) in try pool.mergePairs(rows, columns)
        }
    }

    // MARK: By field

    /// Merges the instructions on one object.
    private mutating func mergeObject(_ rows: [Int], _ columns: [Int]) throws(TransformError) {
        if isSmall(rows, columns) { return try mergePairs(rows, columns) }
        try mergeBlocks(rows, columns, isWide: { $0.kind == .eraseObject }) {
            (pool, rows, columns) throws(TransformError) in try pool.mergeFields(rows, columns)
        }
    }

    /// Whether it costs no more to visit all pairs than to find out which of them matter.
    func isSmall(_ rows: [Int], _ columns: [Int]) -> Bool {
        // Counts fit: there are fewer than 2^32 instructions on each side.
        rows.count &* columns.count <= Self.groupingPairs &* (rows.count &+ columns.count)
    }

    /// For how many pairs each instruction may stand that has to be grouped.
    private static let groupingPairs = 4

    private mutating func mergeFields(_ rows: [Int], _ columns: [Int]) throws(TransformError) {
        // CreateObject meets only EraseObject.
        var (rows, columns) = (rows, columns)
        rows.removeAll { !instructions[$0].kind.hasPath }
        columns.removeAll { !instructions[$0].kind.hasPath }
        try mergeGroups(rows, columns, by: .field) {
            (pool, rows, columns) throws(TransformError) in try pool.mergePlace(rows, columns, depth: 0)
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
        merge: (inout ChangesetPool, [Int], [Int]) throws(TransformError) -> Void
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
    /// All groups are found before any of these is merged. What a pair can refuse comes first, and in the order of the rows:
    /// so a merge that the grid refuses early is refused early.
    struct Postponed: Sendable {
        var pairs: [(rows: [Int], columns: [Int])] = []
        /// Nothing in them can be refused.
        var lists: [ListUnit] = []
    }

    /// Does something and then what it has postponed.
    mutating func mergeAtOnce(
        _ body: (inout ChangesetPool) throws(TransformError) -> Void
    ) throws(TransformError) {
        var outer = Postponed()
        swap(&outer, &postponed)
        try body(&self)
        swap(&outer, &postponed)
        try mergePairs(of: outer.pairs)
        for index in outer.lists.indices { outer.lists[index].merge(in: &self) }
    }

    mutating func mergePairsLater(_ rows: [Int], _ columns: [Int]) throws(TransformError) {
        if isSmall(rows, columns) { return try mergePairs(rows, columns) }
        postponed.pairs.append((rows, columns))
    }

    /// Merges several groups, each in its order, and altogether about in the order of their rows.
    ///
    /// That order is the one of the instructions in the pool, but for what was decoded or prepended later: then only what
    /// is behind it in its own group has to wait for it.
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
        var columns = groups.map(\.columns)
        for (_, group, position) in turns.sorted(by: <) {
            if try mergeRow(groups[group].rows[position], columns[group]) > 0 {
                columns[group].removeAll { instructions[$0].isDiscarded }
            }
        }
    }

    // MARK: Pairs

    /// Merges each row with each column.
    mutating func mergePairs(_ rows: [Int], _ columns: [Int]) throws(TransformError) {
        var pairs = Int.max
        _ = try mergeRows(rows, columns, pairs: &pairs)
    }

    /// Merges rows with each column, until a number of pairs is used up.
    ///
    /// Rows pass over discarded columns at little cost, so that a run of values for one place costs its length and not
    /// its square.
    ///
    /// - Returns: How many rows it has merged.
    private mutating func mergeRows(
        _ rows: [Int], _ columns: [Int], pairs: inout Int
    ) throws(TransformError) -> Int {
        var columns = columns
        var discarded = 0
        for (number, row) in rows.enumerated() {
            if pairs <= 0 { return number }
            if discarded > columns.count / 2 {
                columns.removeAll { instructions[$0].isDiscarded }
                discarded = 0
            }
            let pairsBefore = pairsLeft
            pairs -= discarded / Self.groupingPairs
            discarded += try mergeRow(row, columns)
            pairs -= pairsBefore - pairsLeft
        }
        return rows.count
    }

    /// - Returns: How many columns were discarded.
    @inline(__always)
    private mutating func mergeRow(_ row: Int, _ columns: [Int]) throws(TransformError) -> Int {
        var major = instructions[row]
        if major.isDiscarded { return 0 }
        let original = major
        var discarded = 0
        for column in columns where !instructions[column].isDiscarded {
            guard major.sharesObject(with: instructions[column]) else {
                try countPairs()
                continue
            }
            try mergeCell(&major, column)
            if instructions[column].isDiscarded { discarded += 1 }
            if major.isDiscarded { break }
        }
        if major.isDiscarded || !major.isUnchanged(from: original) { store(major, at: row) }
        return discarded
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
        try countPairs()
        let majorBefore = major
        let minorBefore = instructions[column]
        var minor = minorBefore
        try mergePair(&major, &minor)
        if minor.isDiscarded || !minor.isUnchanged(from: minorBefore) { store(minor, at: column) }
        if !major.isUnchanged(from: majorBefore) { headers[Int(major.owner)].isDirty = true }
    }
}

extension Instruction {
    /// Whether both are on one object, or one of them is on none.
    @inline(__always)
    fileprivate func sharesObject(with other: Instruction) -> Bool {
        object == other.object || object == .none || other.object == .none
    }

    /// Names what an AddTable or AddColumn declares.
    var declared: UInt64 {
        UInt64(className.rawValue) << 32 | (kind == .addColumn ? UInt64(field.rawValue) + 1 : 0)
    }
}

/// Finds the groups in which both sides have instructions, and these instructions in order, in time linear in the two
/// sides. Groups have numbers; columns come first.
///
/// The pool keeps those of its objects between merges, so that a merge costs its own instructions and not the objects of the pool.
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
