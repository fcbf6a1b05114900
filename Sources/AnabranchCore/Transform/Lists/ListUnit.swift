/// All instructions of two sides that go through one list, taken out of their conflict group as one unit, merged by
/// `ListMerger`, and put back (`Spec/Transform.md`, section 13).
struct ListUnit {
    private let rows: [Int]
    private let columns: [Int]
    /// The number of path elements before the list's index.
    private let depth: UInt32
    private var major: [ListOperation]
    private var minor: [ListOperation]

    /// Nil where an instruction does more than to insert, erase, move or set elements or to go on to something inside them,
    /// and where both sides go on: then the pairs have to be visited.
    init?(_ rows: [Int], _ columns: [Int], depth: UInt32, of pool: ChangesetPool) {
        self.rows = rows
        self.columns = columns
        self.depth = depth
        let ranks = TagRanks(rows, columns, of: pool)
        major = []
        minor = []
        guard let major = Self.operations(rows, depth, ranks, of: pool),
            let minor = Self.operations(columns, depth, ranks, of: pool),
            !major.contains(where: { $0.kind == .touch }) || !minor.contains(where: { $0.kind == .touch })
        else { return nil }
        self.major = major
        self.minor = minor
    }

    private static func operations(
        _ indices: [Int], _ depth: UInt32, _ ranks: TagRanks, of pool: ChangesetPool
    ) -> [ListOperation]? {
        var result: [ListOperation] = []
        result.reserveCapacity(indices.count)
        for index in indices {
            let instruction = pool.instructions[index]
            guard var operation = operation(instruction, depth, of: pool) else { return nil }
            operation.tag = ranks.rank(of: instruction)
            result.append(operation)
        }
        return result
    }

    private static func operation(
        _ instruction: Instruction, _ depth: UInt32, of pool: ChangesetPool
    ) -> ListOperation? {
        let element = pool.element(depth, of: instruction)
        guard element.isIndex else { return nil }
        if instruction.pathCount > depth + 1 {
            let next = pool.element(depth + 1, of: instruction)
            return ListOperation(
                index: element.index, priorSize: 0, tag: 0, kind: .touch, value: next.isIndex ? .list : .dictionary)
        }
        let kind: ListOperation.Kind
        switch instruction.kind {
        case .arrayInsert: kind = .insert
        case .arrayErase: kind = .erase
        case .arrayMove: kind = .move
        case .update: kind = .update
        default: return nil
        }
        let value: ListOperation.Value =
            switch instruction.type {
            case .objectValue: .object
            case .list: .list
            case .dictionary: .dictionary
            default: .plain
            }
        return ListOperation(
            index: element.index, to: instruction.destination, priorSize: instruction.priorSize, tag: 0, kind: kind,
            value: value)
    }

    /// Merges the two sides and stores what has changed.
    ///
    /// - Returns: False, and nothing has changed, if the sides do not fit each other: then the pairs have to be visited,
    ///   which finds the error.
    consuming func merge(in pool: inout ChangesetPool) -> Bool {
        var (major, minor) = (major, minor)
        let fits = major.withUnsafeMutableBufferPointer { major in
            minor.withUnsafeMutableBufferPointer { minor in
                var merger = ListMerger()
                return merger.merge(major: major, minor: minor)
            }
        }
        guard fits else { return false }
        store(major, rows, in: &pool)
        store(minor, columns, in: &pool)
        return true
    }

    private func store(_ operations: [ListOperation], _ indices: [Int], in pool: inout ChangesetPool) {
        for (operation, index) in zip(operations, indices) where operation.dirty || operation.discarded {
            var instruction = pool.instructions[index]
            if operation.discarded {
                instruction.discard()
            } else if operation.kind == .touch {
                pool.elements[Int(instruction.pathStart) + Int(depth)].index = operation.index
            } else {
                instruction.index = operation.index
                instruction.destination = operation.to
                instruction.priorSize = operation.priorSize
            }
            pool.store(instruction, at: index)
        }
    }
}

/// The origin tags of a unit's changesets as small numbers in the same order.
private struct TagRanks {
    /// By changeset of the pool, from the first one that takes part.
    private var ranks: [UInt32]
    private let first: Int

    init(_ rows: [Int], _ columns: [Int], of pool: ChangesetPool) {
        let owners = [rows, columns].joined().lazy.map { Int(pool.instructions[$0].owner) }
        let (lowest, highest) = owners.reduce((Int.max, 0)) { (min($0.0, $1), max($0.1, $1)) }
        first = lowest
        ranks = Array(repeating: .max, count: highest - lowest + 1)
        for owner in owners { ranks[owner - lowest] = 0 }
        let present = ranks.indices.filter { ranks[$0] == 0 }.map { (tag: pool.headers[$0 + lowest].tag, owner: $0) }
        var rank: UInt32 = 0
        var previous: OriginTag?
        for (tag, owner) in present.sorted(by: { $0.tag < $1.tag }) {
            if let previous, previous != tag { rank += 1 }
            previous = tag
            ranks[owner] = rank
        }
    }

    @inline(__always)
    func rank(of instruction: Instruction) -> UInt32 { ranks[Int(instruction.owner) - first] }
}
