/// All instructions of two sides that go through one list, taken out of their conflict group as one unit, merged by
/// `ListMerger`, and put back (`Spec/Transform.md`, section 13).
struct ListUnit {
    private var rows: [Int]
    private var columns: [Int]
    /// The number of path elements before the list's index.
    private let depth: UInt32
    private var major: [ListOperation]
    private var minor: [ListOperation]

    /// Nil where an instruction does more than to insert, erase, move or set elements or to go on to something inside
    /// them, where both sides go on and elements are moved, and where the sides do not fit each other: then the pairs
    /// have to be visited. What both sides do inside one element is merged at once.
    init?(
        _ rows: [Int], _ columns: [Int], depth: UInt32, of arena: inout ChangesetArena
    ) throws(TransformError) {
        self.rows = rows
        self.columns = columns
        self.depth = depth
        major = []
        minor = []
        guard let major = Self.operations(rows, depth, of: arena),
            let minor = Self.operations(columns, depth, of: arena)
        else { return nil }
        self.major = major
        self.minor = minor
        guard fits() else { return nil }
        arena.rankTags()
        for number in rows.indices { self.major[number].tag = arena.tagRank(of: rows[number]) }
        for number in columns.indices { self.minor[number].tag = arena.tagRank(of: columns[number]) }
        let contains = { (side: [ListOperation], kind: ListOperation.Kind) in side.contains { $0.kind == kind } }
        guard contains(major, .touch), contains(minor, .touch) else { return }
        if contains(major, .move) || contains(minor, .move) { return nil }
        try mergeInside(&arena)
    }

    private static func operations(
        _ indices: [Int], _ depth: UInt32, of arena: ChangesetArena
    ) -> [ListOperation]? {
        var result: [ListOperation] = []
        result.reserveCapacity(indices.count)
        for index in indices {
            guard let operation = operation(arena.instructions[index], depth, of: arena) else { return nil }
            result.append(operation)
        }
        return result
    }

    /// Without its tag.
    @inline(__always)
    private static func operation(
        _ instruction: Instruction, _ depth: UInt32, of arena: ChangesetArena
    ) -> ListOperation? {
        let element = arena.element(depth, of: instruction)
        guard element.isIndex else { return nil }
        if instruction.pathCount > depth + 1 {
            let next = arena.element(depth + 1, of: instruction)
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

    private mutating func fits() -> Bool {
        major.withUnsafeMutableBufferPointer { major in
            minor.withUnsafeMutableBufferPointer { minor in ListMerger.fit(major: major, minor: minor) }
        }
    }

    /// Merges the two sides and stores what has changed.
    mutating func merge(in arena: inout ChangesetArena, with merger: inout ListMerger) throws(TransformError) {
        let pairsMax = arena.pairsLeft
        major.withUnsafeMutableBufferPointer { major in
            minor.withUnsafeMutableBufferPointer { minor in
                _ = merger.merge(major: major, minor: minor, pairsMax: pairsMax)
            }
        }
        arena.listPairs.visited += merger.visitedPairs
        try arena.countPairs(merger.visitedPairs)
        store(major, rows, in: &arena)
        store(minor, columns, in: &arena)
    }

    // MARK: Inside elements

    /// Merges what both sides do inside the same element, and their updates of it, as if the element stood where it was
    /// at the start. All of it happens before either side erases the element, and nothing else in the list depends on
    /// it.
    private mutating func mergeInside(_ arena: inout ChangesetArena) throws(TransformError) {
        let (majorTouches, minorTouches) = (elementTouches(major, with: minor), elementTouches(minor, with: major))
        var (row, column) = (0, 0)
        while row < majorTouches.count, column < minorTouches.count {
            let (start, other) = (majorTouches[row].start, minorTouches[column].start)
            let rowEnd = majorTouches[row...].firstIndex { $0.start != start } ?? majorTouches.count
            let columnEnd = minorTouches[column...].firstIndex { $0.start != other } ?? minorTouches.count
            if start == other {
                try mergeInside(
                    start, majorTouches[row..<rowEnd].map(\.operation),
                    minorTouches[column..<columnEnd].map(\.operation), &arena)
            }
            if start <= other { row = rowEnd }
            if other <= start { column = columnEnd }
        }
        (rows, major) = Self.live(rows, major, in: arena)
        (columns, minor) = Self.live(columns, minor, in: arena)
    }

    /// A touch or update of an element that stood at an index at the start.
    private struct ElementTouch {
        var start: UInt32
        var operation: Int
    }

    /// Element by element, in order.
    private func elementTouches(_ operations: [ListOperation], with other: [ListOperation]) -> [ElementTouch] {
        var (operations, other) = (operations, other)
        let starts = operations.withUnsafeMutableBufferPointer { operations in
            other.withUnsafeMutableBufferPointer { other in
                var merger = ListMerger()
                return merger.startIndices(of: operations, with: other) ?? []
            }
        }
        return starts.indices.filter {
            starts[$0] != .max && (operations[$0].kind == .touch || operations[$0].kind == .update)
        }.map {
            ElementTouch(start: starts[$0], operation: $0)
        }.sorted { ($0.start, $0.operation) < ($1.start, $1.operation) }
    }

    private func mergeInside(
        _ start: UInt32, _ majorTouches: [Int], _ minorTouches: [Int], _ arena: inout ChangesetArena
    ) throws(TransformError) {
        guard majorTouches.contains(where: { major[$0].kind == .touch }),
            minorTouches.contains(where: { minor[$0].kind == .touch })
        else { return }
        let (metRows, metColumns) = (majorTouches.map { rows[$0] }, minorTouches.map { columns[$0] })
        for index in metRows + metColumns { place(index, at: start, priorSize: 0, in: &arena) }
        try arena.mergeAtOnce { (arena) throws(TransformError) in
            try arena.mergePlace(metRows, metColumns, depth: depth + 1)
        }
        for number in majorTouches {
            place(rows[number], at: major[number].index, priorSize: major[number].priorSize, in: &arena)
        }
        for number in minorTouches {
            place(columns[number], at: minor[number].index, priorSize: minor[number].priorSize, in: &arena)
        }
    }

    private func place(_ index: Int, at element: UInt32, priorSize: UInt32, in arena: inout ChangesetArena) {
        let instruction = arena.instructions[index]
        if instruction.pathCount > depth + 1 {
            arena.elements[Int(instruction.pathStart) + Int(depth)].index = element
        } else {
            arena.instructions[index].index = element
            arena.instructions[index].priorSize = priorSize
        }
    }

    /// Leaves out what was discarded inside its element.
    private static func live(
        _ indices: [Int], _ operations: [ListOperation], in arena: ChangesetArena
    ) -> ([Int], [ListOperation]) {
        let live = indices.indices.filter { !arena.instructions[indices[$0]].isDiscarded }
        return (live.map { indices[$0] }, live.map { operations[$0] })
    }

    private func store(_ operations: [ListOperation], _ indices: [Int], in arena: inout ChangesetArena) {
        for (operation, index) in zip(operations, indices) where operation.dirty || operation.discarded {
            var instruction = arena.instructions[index]
            if operation.discarded {
                instruction.discard()
            } else if operation.kind == .touch {
                arena.elements[Int(instruction.pathStart) + Int(depth)].index = operation.index
            } else {
                instruction.index = operation.index
                instruction.destination = operation.to
                instruction.priorSize = operation.priorSize
            }
            arena.store(instruction, at: index)
        }
    }
}

extension ChangesetArena {
    /// Makes numbers of the changesets' origin tags, in the same order.
    fileprivate mutating func rankTags() {
        guard tagRanks.count < headers.count else { return }
        let changesets = headers.enumerated().map { (number: $0, tag: $1.tag) }.sorted { $0.tag < $1.tag }
        tagRanks = Array(repeating: 0, count: changesets.count)
        var rank: UInt32 = 0
        var previous = changesets.first?.tag
        for changeset in changesets {
            if changeset.tag != previous { rank += 1 }
            previous = changeset.tag
            tagRanks[changeset.number] = rank
        }
    }

    @inline(__always)
    fileprivate func tagRank(of index: Int) -> UInt32 { tagRanks[Int(instructions[index].owner)] }
}
