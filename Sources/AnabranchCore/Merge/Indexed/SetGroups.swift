// SetInsert and SetErase meet those of an equal value; what "equal" means depends on the pair (`Spec/Transform.md`,
// sections 3 and 7.4): R28 compares strings, binaries and links raw, R26 and R27 by value.

/// Changes of a set in which some values are compared raw: each row meets the columns that it can be equal to.
struct RawSetPairs: Sendable {
    /// Columns with one key by their positions, in order; discarded ones are taken out when rows have passed over many.
    private struct Positions: Sendable {
        var all: [Int] = []
        var passed = 0

        mutating func tidy(_ isDiscarded: (Int) -> Bool) {
            guard passed > all.count / 2 else { return }
            all.removeAll(where: isDiscarded)
            passed = 0
        }
    }

    private let rows: [InstructionIndex]
    private let columns: [InstructionIndex]
    private var next = 0
    /// SetInserts by value, all by value, SetErases by raw value.
    private var insertions: [UInt64: Positions] = [:]
    private var changes: [UInt64: Positions] = [:]
    private var rawErasures: [UInt64: Positions] = [:]

    fileprivate init(
        _ rows: [InstructionIndex], _ columns: [InstructionIndex], in arena: borrowing ChangesetArena
    ) {
        self.rows = rows
        self.columns = columns
        for (position, column) in columns.enumerated() {
            let instruction = arena[column]
            changes[arena.valueKey(of: instruction), default: Positions()].all.append(position)
            if instruction.kind == .setInsert {
                insertions[arena.valueKey(of: instruction), default: Positions()].all.append(position)
            } else {
                rawErasures[arena.rawKey(of: instruction), default: Positions()].all.append(position)
            }
        }
    }

    /// Goes on until all rows are through, or, between two rows, until the step is over.
    ///
    /// - Returns: Whether all are.
    fileprivate mutating func advance(
        _ budget: inout PairBudget, in arena: inout ChangesetArena
    ) throws(TransformError) -> Bool {
        while next < rows.count {
            if budget.isStepOver { return false }
            try mergeRow(rows[next], &budget, in: &arena)
            next += 1
        }
        return true
    }

    private mutating func mergeRow(
        _ row: InstructionIndex, _ budget: inout PairBudget, in arena: inout ChangesetArena
    ) throws(TransformError) {
        var major = arena[row]
        let isInsertion = major.kind == .setInsert
        let (value, raw) = (arena.valueKey(of: major), isInsertion ? 0 : arena.rawKey(of: major))
        let first = (isInsertion ? changes[value] : insertions[value])?.all ?? []
        let second = isInsertion ? [] : rawErasures[raw]?.all ?? []
        var (nextFirst, nextSecond, passed) = (0, 0, 0)
        while !major.isDiscarded, nextFirst < first.count || nextSecond < second.count {
            let isFirst =
                nextSecond == second.count || (nextFirst < first.count && first[nextFirst] < second[nextSecond])
            let column = columns[isFirst ? first[nextFirst] : second[nextSecond]]
            if isFirst { nextFirst += 1 } else { nextSecond += 1 }
            if arena[column].isDiscarded {
                passed += 1
            } else {
                try Cell.merge(&major, with: column, &budget, in: &arena)
            }
        }
        budget.count(passed + 1)
        if major.isDiscarded { arena.store(major, at: row) }
        let isDiscarded = { [columns] (position: Int) in arena[columns[position]].isDiscarded }
        if isInsertion {
            changes[value]?.passed += passed
            changes[value]?.tidy(isDiscarded)
        } else {
            insertions[value]?.passed += passed
            insertions[value]?.tidy(isDiscarded)
            rawErasures[raw]?.passed += passed
            rawErasures[raw]?.tidy(isDiscarded)
        }
    }
}

extension Merge {
    mutating func groupSet(
        _ rows: [InstructionIndex], _ columns: [InstructionIndex], into work: inout DeferredWork,
        in arena: inout ChangesetArena
    ) throws(TransformError) {
        if isSmall(rows, columns) { return try mergeSmall(rows, columns, in: &arena) }
        // What is not a number equals nothing.
        let rows = arena.holdsNaN ? rows.filter { !arena[$0].holdsNaN } : rows
        let columns = arena.holdsNaN ? columns.filter { !arena[$0].holdsNaN } : columns
        if arena.contains(rows, columns, { $0.type.isComparedRaw }) {
            work.sets.append(RawSetPairs(rows, columns, in: arena))
        } else {
            try group(rows, columns, by: .setValue, into: &work, in: &arena)
        }
    }

    mutating func run(_ sets: consuming RawSetPairs, in arena: inout ChangesetArena) throws(TransformError) {
        if try !sets.advance(&budget, in: &arena) { waiting.append(.sets(sets)) }
    }
}

extension ChangesetArena {
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
    fileprivate func rawKey(of instruction: Instruction) -> UInt64 {
        switch instruction.type {
        case .string, .binary: key(instruction.type, UInt64(instruction.bytesCount), instruction.bufferOffset)
        case .link: key(.link, instruction.linkedIndices, rawLinkedKey(of: instruction))
        default: valueKey(of: instruction)
        }
    }

    /// The key of a linked object, but for strings, which are compared by their index.
    private func rawLinkedKey(of instruction: Instruction) -> UInt64 {
        let key = objects.keys[Int(instruction.linked.rawValue)]
        return key.type == .string ? 0 : key.word0
    }

    private func key(_ type: PayloadType, _ word0: UInt64, _ word1: UInt64 = 0) -> UInt64 {
        SeededHash.hash(word0, UInt64(UInt8(bitPattern: type.rawValue)), word1)
    }
}

extension PayloadType {
    /// Two erasures from a set can be equal although their values are not (rule R28).
    fileprivate var isComparedRaw: Bool { self == .string || self == .binary || self == .link }
}
