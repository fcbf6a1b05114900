// Which pairs have to meet (`Spec/Transform.md`, section 9). All rules need the same object, but for those of erased
// classes and columns and those between two schema instructions. Links join nothing.
//
// At each level some instructions are *wide*: they meet everything of the level (erasures of classes and columns among
// all instructions, the erasure of an object among those on the object). A wide instruction is a row or a column of its
// own; the stretches between wide ones split into groups that cannot meet: by object, then by field.

extension ChangesetPool {
    /// Merges rows with columns, visiting only pairs that can have an effect.
    mutating func mergeIndexed(rows: [Int], columns: [Int]) throws(TransformError) {
        guard holdsErasure else { return try mergeObjects(rows[...], columns[...]) }
        guard !linksToErasedClass(rows, columns), !linksToErasedClass(columns, rows) else {
            return try mergeGrid(rows, columns)
        }
        try mergeBlocks(rows[...], columns[...], isWide: { $0.kind == .eraseTable || $0.kind == .eraseColumn }) {
            (pool, rows, columns) throws(TransformError) in try pool.mergeObjects(rows[...], columns[...])
        }
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
    /// `mergeNarrow` merges a block in which nothing is wide. Where most is wide, all pairs are visited.
    mutating func mergeBlocks(
        _ rows: ArraySlice<Int>, _ columns: ArraySlice<Int>, isWide: (Instruction) -> Bool,
        mergeNarrow: (inout ChangesetPool, [Int], [Int]) throws(TransformError) -> Void
    ) throws(TransformError) {
        let (rowStretches, columnStretches) = (stretches(rows, isWide), stretches(columns, isWide))
        guard rowStretches.count &* columnStretches.count <= rows.count &+ columns.count else {
            return try mergePairs(rows, columns)
        }
        for rows in rowStretches {
            for columns in columnStretches {
                let (liveRows, liveColumns) = (live(rows.indices), live(columns.indices))
                if liveRows.isEmpty || liveColumns.isEmpty { continue }
                if rows.isWide || columns.isWide {
                    try mergePairs(liveRows[...], liveColumns[...])
                } else {
                    try mergeNarrow(&self, liveRows, liveColumns)
                }
            }
        }
    }

    /// Without what has been discarded.
    private func live(_ indices: ArraySlice<Int>) -> [Int] { indices.filter { !instructions[$0].isDiscarded } }

    private struct Stretch {
        var indices: ArraySlice<Int>
        var isWide: Bool
    }

    /// Cuts a side into runs of wide and of other instructions.
    private func stretches(_ indices: ArraySlice<Int>, _ isWide: (Instruction) -> Bool) -> [Stretch] {
        var result: [Stretch] = []
        var start = indices.startIndex
        while start < indices.endIndex {
            let wide = isWide(instructions[indices[start]])
            let end = indices[start...].firstIndex { isWide(instructions[$0]) != wide } ?? indices.endIndex
            result.append(Stretch(indices: indices[start..<end], isWide: wide))
            start = end
        }
        return result
    }

    // MARK: By object

    mutating func mergeObjects(_ rows: ArraySlice<Int>, _ columns: ArraySlice<Int>) throws(TransformError) {
        var index = ObjectIndex()
        swap(&index, &objectIndex)
        index.collect(rows: rows, columns: columns, of: self)
        try mergeSchema(index.schemaRows, index.schemaColumns)
        var group: (rows: [Int], columns: [Int]) = ([], [])
        for object in index.meetings {
            index.takeGroup(of: object, rows: &group.rows, columns: &group.columns)
            try mergeObject(group.rows, group.columns)
        }
        index.clear(columns: columns, of: self)
        swap(&index, &objectIndex)
    }

    /// AddTable meets AddTable of the same class, AddColumn meets AddColumn of the same column.
    private mutating func mergeSchema(_ rows: [Int], _ columns: [Int]) throws(TransformError) {
        guard !rows.isEmpty, !columns.isEmpty else { return }
        let declarations = Dictionary(grouping: columns) { Declaration(instructions[$0]) }
        for row in rows {
            if let columns = declarations[Declaration(instructions[row])] { try mergePairs([row], columns[...]) }
        }
    }

    /// What an AddTable or AddColumn declares.
    struct Declaration: Hashable {
        var className: NameID
        var field: NameID?

        init(_ instruction: Instruction) {
            className = instruction.className
            field = instruction.kind == .addColumn ? instruction.field : nil
        }
    }

    // MARK: By field

    /// Up to this many pairs are cheaper to visit than to avoid.
    static let smallGroupPairsMax = 64

    /// Merges the instructions on one object.
    private mutating func mergeObject(_ rows: [Int], _ columns: [Int]) throws(TransformError) {
        if isSmall(rows, columns) { return try mergePairs(rows[...], columns[...]) }
        try mergeBlocks(rows[...], columns[...], isWide: { $0.kind == .eraseObject }) {
            (pool, rows, columns) throws(TransformError) in try pool.mergeFields(rows, columns)
        }
    }

    /// Counts fit: there are fewer than 2^32 instructions on each side.
    func isSmall(_ rows: [Int], _ columns: [Int]) -> Bool { rows.count &* columns.count <= Self.smallGroupPairsMax }

    private mutating func mergeFields(_ rows: [Int], _ columns: [Int]) throws(TransformError) {
        // CreateObject meets only EraseObject.
        let rows = rows.filter { instructions[$0].kind.hasPath }
        let columns = columns.filter { instructions[$0].kind.hasPath }
        try mergeGroups(
            rows, columns, keys: (rows.map { instructions[$0].field }, columns.map { instructions[$0].field })
        ) { (pool, rows, columns) throws(TransformError) in try pool.mergePlace(rows, columns, depth: 0) }
    }

    /// Merges rows and columns with equal keys, group by group in the order of the rows.
    mutating func mergeGroups<Key: Hashable>(
        _ rows: [Int], _ columns: [Int], keys: (rows: [Key], columns: [Key]),
        merge: (inout ChangesetPool, [Int], [Int]) throws(TransformError) -> Void
    ) throws(TransformError) {
        guard let only = keys.rows.first, !columns.isEmpty else { return }
        if keys.rows.allSatisfy({ $0 == only }), keys.columns.allSatisfy({ $0 == only }) {
            return try merge(&self, rows, columns)
        }
        let columnGroups = Dictionary(grouping: columns.indices) { keys.columns[$0] }
        let rowGroups = Dictionary(grouping: rows.indices) { keys.rows[$0] }
        for group in rowGroups.values.sorted(by: { $0[0] < $1[0] }) {
            if let met = columnGroups[keys.rows[group[0]]] {
                try merge(&self, group.map { rows[$0] }, met.map { columns[$0] })
            }
        }
    }

    // MARK: Pairs

    /// Merges each row with each column.
    ///
    /// Rows pass over discarded columns at little cost, so that a run of values for one place costs its length and not
    /// its square.
    mutating func mergePairs(_ rows: ArraySlice<Int>, _ columns: ArraySlice<Int>) throws(TransformError) {
        var columns = columns
        var discarded = 0
        for row in rows {
            if discarded > columns.count / 2 {
                columns = columns.filter { !instructions[$0].isDiscarded }[...]
                discarded = 0
            }
            discarded += try mergeRow(row, columns)
        }
    }

    /// - Returns: How many columns were discarded.
    @inline(__always)
    private mutating func mergeRow(_ row: Int, _ columns: ArraySlice<Int>) throws(TransformError) -> Int {
        var major = instructions[row]
        if major.isDiscarded { return 0 }
        let original = major
        var discarded = 0
        for column in columns where !instructions[column].isDiscarded {
            try mergeCell(&major, column)
            if instructions[column].isDiscarded { discarded += 1 }
            if major.isDiscarded { break }
        }
        if major.isDiscarded || !major.isUnchanged(from: original) { store(major, at: row) }
        return discarded
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

/// Finds the objects that both sides touch, and their instructions in order, in time linear in the two sides.
///
/// The pool keeps it between merges, so that a merge costs its own instructions and not the pool's objects.
struct ObjectIndex: Sendable {
    private static let none = UInt32.max

    /// The first and the last instruction of each side on an object; those between are linked by `next`.
    private struct Chain: Sendable {
        var firstRow = none
        var lastRow = none
        var firstColumn = none
        var lastColumn = none
    }

    private var chains: [Chain] = []
    private var next: [UInt32] = []
    /// The objects on which both sides have instructions.
    private(set) var meetings: [Int] = []
    private(set) var schemaRows: [Int] = []
    private(set) var schemaColumns: [Int] = []

    mutating func collect(rows: ArraySlice<Int>, columns: ArraySlice<Int>, of pool: ChangesetPool) {
        chains += repeatElement(Chain(), count: max(0, pool.objects.count - chains.count))
        next += repeatElement(Self.none, count: max(0, pool.instructions.count - next.count))
        for column in columns where !pool.instructions[column].isDiscarded {
            let object = pool.instructions[column].object
            if object == .none { schemaColumns.append(column) } else { append(column: column, Int(object.rawValue)) }
        }
        for row in rows where !pool.instructions[row].isDiscarded {
            let object = pool.instructions[row].object
            if object == .none { schemaRows.append(row) } else { append(row: row, Int(object.rawValue)) }
        }
    }

    @inline(__always)
    private mutating func append(column: Int, _ object: Int) {
        let entry = UInt32(truncatingIfNeeded: column)
        next[column] = Self.none
        if chains[object].firstColumn == Self.none {
            chains[object].firstColumn = entry
        } else {
            next[Int(chains[object].lastColumn)] = entry
        }
        chains[object].lastColumn = entry
    }

    @inline(__always)
    private mutating func append(row: Int, _ object: Int) {
        guard chains[object].firstColumn != Self.none else { return }
        let entry = UInt32(truncatingIfNeeded: row)
        next[row] = Self.none
        if chains[object].firstRow == Self.none {
            chains[object].firstRow = entry
            meetings.append(object)
        } else {
            next[Int(chains[object].lastRow)] = entry
        }
        chains[object].lastRow = entry
    }

    /// Puts the instructions on an object into two lists.
    func takeGroup(of object: Int, rows: inout [Int], columns: inout [Int]) {
        follow(from: chains[object].firstRow, into: &rows)
        follow(from: chains[object].firstColumn, into: &columns)
    }

    @inline(__always)
    private func follow(from first: UInt32, into list: inout [Int]) {
        list.removeAll(keepingCapacity: true)
        var entry = first
        while entry != Self.none {
            list.append(Int(entry))
            entry = next[Int(entry)]
        }
    }

    /// Forgets everything but the storage.
    mutating func clear(columns: ArraySlice<Int>, of pool: ChangesetPool) {
        for column in columns where pool.instructions[column].object != .none {
            chains[Int(pool.instructions[column].object.rawValue)] = Chain()
        }
        meetings.removeAll(keepingCapacity: true)
        schemaRows.removeAll(keepingCapacity: true)
        schemaColumns.removeAll(keepingCapacity: true)
    }
}
