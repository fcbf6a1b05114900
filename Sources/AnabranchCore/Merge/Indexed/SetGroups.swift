// SetInsert and SetErase meet those of an equal value; what "equal" means depends on the pair (`Spec/Transform.md`,
// sections 3 and 7.4): R28 compares strings, binaries and links raw, R26 and R27 by value.

/// Changes of a set in which some values are compared raw: each row meets the columns that it can be equal to.
struct RawSetPairs: Sendable {
    fileprivate let rows: [InstructionIndex]
    private let columns: [InstructionIndex]
    fileprivate var next = 0
    /// The positions of columns in order: SetInserts by value, all by value, SetErases by raw value.
    private var insertions: [UInt64: [Int]] = [:]
    private var changes: [UInt64: [Int]] = [:]
    private var rawErasures: [UInt64: [Int]] = [:]

    fileprivate init(
        _ rows: [InstructionIndex], _ columns: [InstructionIndex], in arena: borrowing ChangesetArena
    ) {
        self.rows = rows
        self.columns = columns
        for (position, column) in columns.enumerated() {
            let instruction = arena[column]
            changes[arena.valueKey(of: instruction), default: []].append(position)
            if instruction.kind == .setInsert {
                insertions[arena.valueKey(of: instruction), default: []].append(position)
            } else {
                rawErasures[arena.rawKey(of: instruction), default: []].append(position)
            }
        }
    }

    fileprivate func columns(of row: Instruction, in arena: borrowing ChangesetArena) -> [InstructionIndex] {
        var met: [Int]
        if row.kind == .setInsert {
            met = changes[arena.valueKey(of: row)] ?? []
        } else {
            met = insertions[arena.valueKey(of: row)] ?? []
            if let erasures = rawErasures[arena.rawKey(of: row)] { met = (met + erasures).sorted() }
        }
        return met.map { columns[$0] }
    }
}

extension Merge {
    mutating func groupSet(
        _ rows: [InstructionIndex], _ columns: [InstructionIndex], into work: inout DeferredWork,
        in arena: inout ChangesetArena
    ) throws(TransformError) {
        if isSmall(rows, columns) { return try mergeSmall(rows, columns, in: &arena) }
        if arena.contains(rows, columns, { $0.type.isComparedRaw }) {
            work.sets.append(RawSetPairs(rows, columns, in: arena))
        } else {
            try group(rows, columns, by: .setValue, into: &work, in: &arena)
        }
    }

    mutating func run(_ sets: consuming RawSetPairs, in arena: inout ChangesetArena) throws(TransformError) {
        while sets.next < sets.rows.count {
            let row = sets.rows[sets.next]
            let columns = sets.columns(of: arena[row], in: arena)
            sets.next += 1
            budget.count(columns.count)
            if columns.isEmpty { continue }
            waiting.append(.sets(sets))
            return waiting.append(.pairs(PairRuns([PairGroup([row], columns)])))
        }
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
