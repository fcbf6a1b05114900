// Below the field: which instructions on one place of an object have to meet (`Spec/Transform.md`, sections 4, 6 and
// 7).
//
// A *place* is a field, or what a path from it leads to. Instructions that name the place itself set, change or clear
// it (`value` instructions, which also meet everything inside) or put something into it and take it out (set
// instructions). All others go on to a name or an index inside. Names are independent of each other. Indices are so
// only while the list keeps its elements where they are; otherwise all of the list's instructions are one unit, see
// `ListUnit`.

extension ChangesetArena {
    /// Deeper places are not told apart, so that no path can exhaust the stack.
    private static let indexedDepthMax: UInt32 = 16

    /// Merges the instructions on one place: paths whose first `depth` elements are equal.
    mutating func mergePlace(_ rows: [Int], _ columns: [Int], depth: UInt32) throws(TransformError) {
        if isSmall(rows, columns) || depth > Self.indexedDepthMax {
            return try mergePairs(rows, columns)
        }
        let setsPlace = { (instruction: Instruction) in
            instruction.pathCount == depth && !instruction.kind.isSetChange
        }
        if allSatisfy(rows, columns, setsPlace) { return try mergeValues(rows, columns) }
        try mergeBlocks(rows, columns, isWide: setsPlace) { (arena, rows, columns) throws(TransformError) in
            try arena.mergeContents(rows, columns, depth: depth)
        }
    }

    private func allSatisfy(_ rows: [Int], _ columns: [Int], _ predicate: (Instruction) -> Bool) -> Bool {
        rows.allSatisfy { predicate(instructions[$0]) } && columns.allSatisfy { predicate(instructions[$0]) }
    }

    private func contains(_ rows: [Int], _ columns: [Int], _ predicate: (Instruction) -> Bool) -> Bool {
        rows.contains { predicate(instructions[$0]) } || columns.contains { predicate(instructions[$0]) }
    }

    // MARK: Values

    /// Updates, increments and Clears of one place. Increments do not meet each other.
    private mutating func mergeValues(_ rows: [Int], _ columns: [Int]) throws(TransformError) {
        var others = LiveColumns(columns.filter { instructions[$0].kind != .addInteger })
        var columns = LiveColumns(columns)
        for row in rows {
            if instructions[row].kind == .addInteger {
                try mergeRow(row, &others)
            } else {
                try mergeRow(row, &columns)
            }
        }
    }

    // MARK: Contents

    /// Instructions that change the elements of a set, or that go on to something inside the place.
    private mutating func mergeContents(_ rows: [Int], _ columns: [Int], depth: UInt32) throws(TransformError) {
        if isSmall(rows, columns) { return try mergePairs(rows, columns) }
        var (innerRows, innerColumns) = (rows, columns)
        if contains(rows, columns, { $0.pathCount == depth }) {
            innerRows.removeAll { instructions[$0].pathCount == depth }
            innerColumns.removeAll { instructions[$0].pathCount == depth }
            try mergeSet(
                rows.filter { instructions[$0].pathCount == depth },
                columns.filter { instructions[$0].pathCount == depth })
        }
        guard !innerRows.isEmpty, !innerColumns.isEmpty else { return }
        if elementsStay(innerRows, innerColumns, depth) {
            return try mergeElements(innerRows, innerColumns, depth: depth)
        }
        listPairs.all += innerRows.count * innerColumns.count
        if let list = try ListUnit(innerRows, innerColumns, depth: depth, of: &self) {
            postponed.lists.append(list)
        } else {
            listPairs.visited += innerRows.count * innerColumns.count
            try mergePairsLater(innerRows, innerColumns)
        }
    }

    /// Whether all instructions go on by name, or all by the index of an element that nothing shifts.
    private func elementsStay(_ rows: [Int], _ columns: [Int], _ depth: UInt32) -> Bool {
        let byName = allSatisfy(rows, columns) { !element(depth, of: $0).isIndex }
        return byName
            || allSatisfy(rows, columns) {
                element(depth, of: $0).isIndex && !($0.pathCount == depth + 1 && $0.kind.shiftsElements)
            }
    }

    /// Merges what goes on to the same name, or to the same index of a list that stays as it is.
    private mutating func mergeElements(_ rows: [Int], _ columns: [Int], depth: UInt32) throws(TransformError) {
        try mergeGroups(rows, columns, by: .element(depth)) {
            (arena, rows, columns) throws(TransformError) in
            try arena.mergePlace(rows, columns, depth: depth + 1)
        }
    }

    // MARK: Sets

    /// SetInsert and SetErase meet those of an equal value; what "equal" means depends on the pair (rules R26 to R28).
    private mutating func mergeSet(_ rows: [Int], _ columns: [Int]) throws(TransformError) {
        if isSmall(rows, columns) { return try mergePairs(rows, columns) }
        guard contains(rows, columns, { $0.type.isComparedRaw }) else {
            return try mergeGroups(rows, columns, by: .setValue) { (arena, rows, columns) throws(TransformError) in
                try arena.mergePairs(rows, columns)
            }
        }
        var insertions: [UInt64: [Int]] = [:]
        var changes: [UInt64: [Int]] = [:]
        var rawErasures: [UInt64: [Int]] = [:]
        for (position, column) in columns.enumerated() {
            let instruction = instructions[column]
            changes[valueKey(of: instruction), default: []].append(position)
            if instruction.kind == .setInsert {
                insertions[valueKey(of: instruction), default: []].append(position)
            } else {
                rawErasures[rawKey(of: instruction), default: []].append(position)
            }
        }
        for row in rows {
            let instruction = instructions[row]
            var met: [Int]
            if instruction.kind == .setInsert {
                met = changes[valueKey(of: instruction)] ?? []
            } else {
                met = insertions[valueKey(of: instruction)] ?? []
                if let erasures = rawErasures[rawKey(of: instruction)] { met = (met + erasures).sorted() }
            }
            try countPairs(met.count)
            try mergePairs([row], met.map { columns[$0] })
        }
    }

    /// A number by which values are found that are equal: equal ones have equal keys, not the other way round.
    func valueKey(of instruction: Instruction) -> UInt64 {
        let (word0, word1) = (instruction.word0, instruction.word1)
        switch instruction.type {
        case .null, .erased, .list, .dictionary, .set, .objectValue, .globalKey: return key(instruction.type, 0)
        case .int, .bool, .link: return key(instruction.type, word0)
        case .timestamp, .objectID, .uuid: return key(instruction.type, word0, word1)
        case .string, .binary:
            let start = instruction.bytesOffset
            let hash = bytes.withUnsafeBytes {
                SeededHash.hash(UnsafeRawBufferPointer(rebasing: $0[start..<start + instruction.bytesCount]))
            }
            return key(instruction.type, hash)
        case .float:
            let number = Float(bitPattern: UInt32(truncatingIfNeeded: word0))
            return key(.float, number == 0 ? 0 : word0)
        case .double: return key(.double, Double(bitPattern: word0) == 0 ? 0 : word0)
        case .decimal:
            let number = Decimal128(low: word0, high: word1)
            if number.isNaN { return key(.decimal, word0, word1) }
            if number.isInfinite { return key(.decimal, 1, .max) }
            let (coefficient, exponent) = number.normalised
            return key(.decimal, UInt64(truncatingIfNeeded: coefficient), UInt64(bitPattern: Int64(exponent)))
        }
    }

    /// As `valueKey`, for values that are equal raw.
    private func rawKey(of instruction: Instruction) -> UInt64 {
        switch instruction.type {
        case .string, .binary: key(instruction.type, UInt64(instruction.bytesCount), instruction.bufferOffset)
        case .link: key(.link, instruction.linkedIndices)
        default: valueKey(of: instruction)
        }
    }

    private func key(_ type: PayloadType, _ word0: UInt64, _ word1: UInt64 = 0) -> UInt64 {
        SeededHash.hash(word0, UInt64(UInt8(bitPattern: type.rawValue)), word1)
    }
}

extension PayloadType {
    /// Two erasures from a set can be equal although their values are not (rule R28).
    fileprivate var isComparedRaw: Bool { self == .string || self == .binary || self == .link }
}

extension InstructionKind {
    var isSetChange: Bool { self == .setInsert || self == .setErase }

    /// Elements of the list change their indices.
    var shiftsElements: Bool { self == .arrayInsert || self == .arrayErase || self == .arrayMove }
}
