// Payloads that are not a number. Such a Float or Double differs from itself, so in the reference its changeset becomes
// dirty as soon as the instruction is merged with any other, whether a rule applies or not. Which instructions meet
// there depends on the reference's conflict groups, in which links join objects (`Spec/Transform.md`, sections 2.2 and
// 9). Only the dirty flags need this; what the instructions become does not.

/// The instructions that the reference makes meet.
struct NaNDirtiness: Sendable {
    /// True if an EraseTable or EraseColumn on either side makes everything meet.
    private(set) var everythingMeets = false
    /// The group of each object, as a forest: objects that are linked are in one.
    private var parents: [Int]
    /// The roots of the groups in which some payload is not a number.
    private var affected: Set<Int> = []

    /// Nil if no instruction carries such a payload.
    init?(rows: [InstructionIndex], columns: [InstructionIndex], in arena: borrowing ChangesetArena) {
        parents = Array(0..<arena.objects.count)
        var carriers: [ObjectKeyID] = []
        for index in [rows, columns].joined() {
            let instruction = arena[index]
            if instruction.holdsNaN { carriers.append(instruction.object) }
            if instruction.kind == .eraseTable || instruction.kind == .eraseColumn { everythingMeets = true }
            if instruction.type == .link, instruction.kind == .update || instruction.kind == .arrayInsert {
                let (object, target) = (shortenedRoot(of: instruction.object), shortenedRoot(of: instruction.linked))
                parents[object] = target
            }
        }
        guard !carriers.isEmpty else { return nil }
        // From here on each object is one step from its root, however long a chain the links make.
        for object in parents.indices { parents[object] = shortenedRoot(of: ObjectKeyID(UInt32(object))) }
        affected = Set(carriers.map { parents[Int($0.rawValue)] })
    }

    private mutating func shortenedRoot(of object: ObjectKeyID) -> Int {
        var member = Int(object.rawValue)
        while parents[member] != member {
            parents[member] = parents[parents[member]]
            member = parents[member]
        }
        return member
    }

    private func root(of object: ObjectKeyID) -> Int { parents[Int(object.rawValue)] }

    /// The group of an instruction on an object.
    fileprivate func group(of instruction: Instruction) -> Int { root(of: instruction.object) }

    /// True if the instruction's object is in a group with a payload that is not a number.
    func affects(_ instruction: Instruction) -> Bool {
        instruction.object != .none && affected.contains(root(of: instruction.object))
    }

    /// True if it matters nowhere in the instruction's group that a payload is not a number.
    func leavesAlone(_ instruction: Instruction) -> Bool { !affects(instruction) && !instruction.kind.isSchema }

    /// Marks the changesets of a pair that has just been merged.
    func markDirty(_ major: Instruction, _ minor: Instruction, in arena: inout ChangesetArena) {
        guard major.holdsNaN || minor.holdsNaN, meet(major, minor) else { return }
        // After a nested rule that discarded the inner instruction, the reference does not compare.
        let nestedDiscard =
            major.length < minor.length ? minor.isDiscarded : minor.length < major.length && major.isDiscarded
        guard !nestedDiscard else { return }
        if major.holdsNaN, !major.isDiscarded { arena[major.owner].isDirty = true }
        if minor.holdsNaN, !minor.isDiscarded { arena[minor.owner].isDirty = true }
    }

    private func meet(_ major: Instruction, _ minor: Instruction) -> Bool {
        if everythingMeets || major.kind.isSchema { return true }
        if minor.kind.isSchema { return false }
        return root(of: major.object) == root(of: minor.object)
    }
}

/// The schema instructions of the major side: each meets the columns with the same declaration, and all payloads that
/// are not a number.
struct NaNSchemaRows: Sendable {
    private let rows: [InstructionIndex]
    private var next = 0
    private var current: PairwiseGrid?
    private let nan: NaNDirtiness
    /// Columns with their positions, so that those of two lists can be put in order.
    private let carriers: [(position: Int, index: InstructionIndex)]
    private let declarations: [UInt64: [(position: Int, index: InstructionIndex)]]

    init(
        rows: [InstructionIndex], columns: [InstructionIndex], nan: NaNDirtiness, in arena: borrowing ChangesetArena
    ) {
        self.nan = nan
        self.rows = rows.filter { arena[$0].kind.isSchema }
        let columns = columns.enumerated().map { (position: $0, index: $1) }
        carriers = columns.filter { arena[$0.index].holdsNaN }
        let schema = columns.filter { arena[$0.index].kind.isSchema }
        declarations = Dictionary(grouping: schema) { arena[$0.index].declaration }
    }

    /// Goes on until all rows have met their columns, or until the step is over.
    ///
    /// - Returns: Whether all have.
    mutating func advance(_ budget: inout PairBudget, in arena: inout ChangesetArena) throws(TransformError) -> Bool {
        while true {
            if current != nil {
                guard try current?.advance(&budget, in: &arena) ?? true else { return false }
                current = nil
            }
            guard next < rows.count else { return true }
            if budget.isStepOver { return false }
            let row = rows[next]
            let same = declarations[arena[row].declaration] ?? []
            budget.count(same.count + carriers.count)
            let met = (same + carriers).sorted { $0.position < $1.position }.map(\.index)
            current = PairwiseGrid(rows: [row], columns: met, nan: nan)
            next += 1
        }
    }
}

/// The rows and columns of one group in which some payload is not a number.
///
/// It matters only as long as a changeset with such a payload is not dirty. A row that meets all columns makes the
/// changesets of columns dirty, and its own. So few such rows are enough: all others are merged as if nothing were
/// special, unless they are so few that meeting all columns costs less.
struct NaNAffectedRows: Sendable {
    private let rows: [InstructionIndex]
    private var columns: LiveColumns
    /// Columns with such a payload, from the first one on whose changeset may not be dirty: none ever becomes clean.
    private var carriers: ArraySlice<InstructionIndex>
    private let nan: NaNDirtiness
    private var next = 0
    private var current: PairwiseGrid?
    /// True once the columns have been grouped with rows.
    fileprivate var isGrouped = false

    init(
        rows: [InstructionIndex], columns: [InstructionIndex], nan: NaNDirtiness, in arena: borrowing ChangesetArena
    ) {
        self.rows = rows
        self.columns = LiveColumns(columns)
        carriers = columns.filter { arena[$0].holdsNaN }[...]
        self.nan = nan
    }

    /// Continues with the rows that were begun last, until they are done or the step is over.
    ///
    /// - Returns: Whether they are.
    fileprivate mutating func finishRows(
        _ budget: inout PairBudget, in arena: inout ChangesetArena
    ) throws(TransformError) -> Bool {
        guard try current?.advance(&budget, in: &arena) ?? true else { return false }
        let passed = current?.passedCount ?? 0
        current = nil
        columns.count(passed: passed, discarded: 0, visited: passed)
        columns.tidy(in: arena)
        return true
    }

    /// The rows up to the next one that has to meet all columns.
    fileprivate mutating func takeOrdinaryRows(in arena: borrowing ChangesetArena) -> [InstructionIndex] {
        let first = next
        while let carrier = carriers.first, !arena.canBecomeDirty(carrier) { carriers.removeFirst() }
        if carriers.isEmpty {
            while next < rows.count, !arena.canBecomeDirty(rows[next]) { next += 1 }
        }
        return Array(rows[first..<next])
    }

    /// Begins the next row, after others that meet all columns because they are few.
    ///
    /// - Returns: Whether there is anything left to be merged.
    fileprivate mutating func beginRow(after others: [InstructionIndex] = []) -> Bool {
        let begun = others + rows[next..<min(next + 1, rows.count)]
        guard !begun.isEmpty, !columns.indices.isEmpty else { return false }
        current = PairwiseGrid(rows: begun, columns: columns.indices, nan: nan)
        next = min(next + 1, rows.count)
        return true
    }

    /// The columns, discarded ones among them.
    fileprivate var allColumns: [InstructionIndex] { columns.indices }
}

extension ChangesetArena {
    /// True if the instruction carries a payload that is not a number, and meeting another one would change its
    /// changeset's flag.
    fileprivate func canBecomeDirty(_ index: InstructionIndex) -> Bool {
        let instruction = self[index]
        return instruction.holdsNaN && !instruction.isDiscarded && !self[instruction.owner].isDirty
    }
}

extension Merge {
    /// Merges as the index does, but visits every pair where it matters that a payload is not a number: inside the
    /// affected groups, as long as some changeset is not dirty yet, and between a major schema instruction and the
    /// payloads themselves.
    mutating func waitForPairs(
        with nan: NaNDirtiness, _ rows: [InstructionIndex], _ columns: [InstructionIndex],
        in arena: borrowing ChangesetArena
    ) {
        guard !nan.everythingMeets else {
            return waiting.append(.everyPair(PairwiseGrid(rows: rows, columns: columns, nan: nan)))
        }
        waiting.append(
            .objects(
                rows: rows.filter { nan.leavesAlone(arena[$0]) }, columns: columns.filter { nan.leavesAlone(arena[$0]) }
            ))
        waiting.append(.schemaRows(NaNSchemaRows(rows: rows, columns: columns, nan: nan, in: arena)))
        let affected = (
            rows: Dictionary(grouping: rows.filter { nan.affects(arena[$0]) }) { nan.group(of: arena[$0]) },
            columns: Dictionary(grouping: columns.filter { nan.affects(arena[$0]) }) { nan.group(of: arena[$0]) }
        )
        for (group, rows) in affected.rows.sorted(by: { $0.key > $1.key }) {
            guard let columns = affected.columns[group] else { continue }
            waiting.append(.affectedRows(NaNAffectedRows(rows: rows, columns: columns, nan: nan, in: arena)))
        }
    }

    mutating func run(_ rows: consuming NaNSchemaRows, in arena: inout ChangesetArena) throws(TransformError) {
        if try !rows.advance(&budget, in: &arena) { waiting.append(.schemaRows(rows)) }
    }

    mutating func run(_ affected: consuming NaNAffectedRows, in arena: inout ChangesetArena) throws(TransformError) {
        guard try affected.finishRows(&budget, in: &arena) else { return waiting.append(.affectedRows(affected)) }
        let ordinary = affected.takeOrdinaryRows(in: arena)
        let columns = affected.allColumns
        if isSmall(ordinary, columns) {
            if affected.beginRow(after: ordinary) { waiting.append(.affectedRows(affected)) }
        } else {
            // Between two rows that meet all columns there may be few others: the same columns are grouped every time.
            if affected.isGrouped { budget.count(cost(ofGrouping: ordinary, columns)) }
            affected.isGrouped = true
            if affected.beginRow() { waiting.append(.affectedRows(affected)) }
            waiting.append(.objects(rows: ordinary, columns: columns.filter { !arena[$0].isDiscarded }))
        }
    }

    mutating func run(_ grid: consuming PairwiseGrid, in arena: inout ChangesetArena) throws(TransformError) {
        if try grid.advance(&budget, in: &arena) {
            if let found = grid.outcomes { outcomes += found }
        } else {
            waiting.append(.everyPair(grid))
        }
    }
}

extension Instruction {
    /// True if the payload is a Float or Double that is not a number, hence not equal to itself.
    @inline(__always)
    var holdsNaN: Bool {
        guard kind.hasPayload else { return false }
        return switch type {
        case .float: Float(bitPattern: UInt32(truncatingIfNeeded: word0)).isNaN
        case .double: Double(bitPattern: word0).isNaN
        default: false
        }
    }
}
