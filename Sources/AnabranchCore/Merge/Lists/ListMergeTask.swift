/// All instructions of two sides that go through one list, taken out of their group to be merged as two runs by
/// `ListMerger`, and put back (`Spec/Transform.md`, section 13.1).
struct ListMergeTask: Sendable {
    /// One side: its instructions, and the operations that stand for them.
    private struct Side: Sendable {
        private(set) var indices: [InstructionIndex]
        private let storage: ListOperationStorage
        /// The number of operations: less than that of instructions once runs are joined.
        var count: Int

        /// Nil if an instruction does more than list operations do.
        init?(_ indices: [InstructionIndex], _ depth: UInt32, in arena: borrowing ChangesetArena) {
            self.indices = indices
            count = indices.count
            storage = ListOperationStorage(count: indices.count)
            for (number, index) in indices.enumerated() {
                guard let operation = ListOperation(arena[index], depth, in: arena) else { return nil }
                storage.operations[number] = operation
            }
        }

        var operations: ScratchBuffer<ListOperation> { storage.operations[0..<count] }

        func contains(_ kind: ListOperation.Kind) -> Bool { operations.contains { $0.kind == kind } }

        func rank(_ ranks: TagRanks, in arena: borrowing ChangesetArena) {
            for number in indices.indices { operations[number].tag = ranks[arena[indices[number]].owner] }
        }

        /// Leaves out what was discarded inside its element.
        mutating func removeDiscarded(in arena: borrowing ChangesetArena) {
            let live = indices.indices.filter { !arena[indices[$0]].isDiscarded }
            for (number, old) in live.enumerated() { operations[number] = operations[old] }
            indices = live.map { indices[$0] }
            count = indices.count
        }
    }

    private var major: Side
    private var minor: Side
    /// The number of path elements before the list's index.
    private let depth: UInt32
    /// True if both sides have nested edits, which may be inside the same elements.
    private let bothAreNested: Bool
    /// The elements inside which both sides change something; nil before they are looked for.
    private var shared: [SharedElement]?
    private var nextShared = 0

    /// Nil where the pairs have to be visited:
    /// - an instruction is not an insert, erase, move or update of an element, nor an edit inside an element;
    /// - both sides have edits inside elements, and one of them moves elements;
    /// - prior sizes or indices do not fit each other.
    init?(
        _ rows: [InstructionIndex], _ columns: [InstructionIndex], depth: UInt32, in arena: borrowing ChangesetArena
    ) {
        guard let major = Side(rows, depth, in: arena), let minor = Side(columns, depth, in: arena) else { return nil }
        (self.major, self.minor, self.depth) = (major, minor, depth)
        bothAreNested = major.contains(.nested) && minor.contains(.nested)
        guard fits() else { return nil }
    }

    private func fits() -> Bool {
        if bothAreNested, major.contains(.move) || minor.contains(.move) { return false }
        return RunSummary.fit(major.operations, minor.operations)
    }

    // MARK: The list

    /// Hands both runs to the merger.
    mutating func begin(_ merger: inout ListMerger, _ ranks: TagRanks, in arena: borrowing ChangesetArena) {
        major.rank(ranks, in: arena)
        minor.rank(ranks, in: arena)
        (major.count, minor.count) = merger.joinRuns(major.operations, minor.operations)
        _ = merger.begin(major: major.operations, minor: minor.operations)
    }

    /// Stores what the merger has made of both runs.
    func store(in arena: inout ChangesetArena) {
        store(major.operations, major.indices, in: &arena)
        store(minor.operations, minor.indices, in: &arena)
    }

    private func store(
        _ operations: ScratchBuffer<ListOperation>, _ indices: [InstructionIndex], in arena: inout ChangesetArena
    ) {
        var next = 0
        for operation in operations {
            let first = next
            next += Int(operation.count)
            guard operation.dirty || operation.discarded else { continue }
            for number in first..<next { store(operation, number - first, at: indices[number], in: &arena) }
        }
    }

    /// Stores the outcome of an instruction, which is number `offset` of those that an operation stands for.
    @inline(__always)
    private func store(
        _ operation: ListOperation, _ offset: Int, at index: InstructionIndex, in arena: inout ChangesetArena
    ) {
        var instruction = arena[index]
        if operation.discarded {
            instruction.discard()
        } else if operation.kind == .nested {
            arena.elements[Int(instruction.pathStart) + Int(depth)].index = operation.index
        } else {
            instruction.setIndex(operation.index &+ UInt32(offset))
            instruction.destination = operation.to
            instruction.priorSize = operation.priorSize &+ UInt32(offset)
        }
        arena.store(instruction, at: index)
    }
}

// MARK: - Inside elements

extension ListMergeTask {
    /// An element of the start inside which both sides change something.
    private struct SharedElement {
        /// Where it stood at the start.
        let index: UInt32
        /// The numbers of the nested edits and updates of it.
        let majors: [Int]
        let minors: [Int]
    }

    /// The instructions of the next element inside which both sides change something, to be merged now at this depth.
    ///
    /// They are merged as if the element stood where it was at the start: all of them come before either side erases
    /// the element, and nothing else in the list depends on them. Nil when there is no further element: then the list
    /// itself can be merged.
    mutating func nextSharedElement(
        _ merger: inout ListMerger, in arena: inout ChangesetArena
    ) -> (rows: [InstructionIndex], columns: [InstructionIndex], depth: UInt32)? {
        guard bothAreNested else { return nil }
        let elements = shared ?? sharedElements(&merger)
        shared = elements
        if nextShared > 0 { leave(elements[nextShared - 1], in: &arena) }
        guard nextShared < elements.count else {
            major.removeDiscarded(in: arena)
            minor.removeDiscarded(in: arena)
            return nil
        }
        let element = elements[nextShared]
        nextShared += 1
        let (rows, columns) = (element.majors.map { major.indices[$0] }, element.minors.map { minor.indices[$0] })
        for index in rows + columns { place(index, at: element.index, priorSize: 0, in: &arena) }
        return (rows, columns, depth + 1)
    }

    /// Puts the instructions of an element back to where they stand.
    private func leave(_ element: SharedElement, in arena: inout ChangesetArena) {
        for (side, numbers) in [(major, element.majors), (minor, element.minors)] {
            for number in numbers {
                let operation = side.operations[number]
                place(side.indices[number], at: operation.index, priorSize: operation.priorSize, in: &arena)
            }
        }
    }

    private func place(
        _ index: InstructionIndex, at element: UInt32, priorSize: UInt32, in arena: inout ChangesetArena
    ) {
        let instruction = arena[index]
        if instruction.pathCount > depth + 1 {
            arena.elements[Int(instruction.pathStart) + Int(depth)].index = element
        } else {
            arena[index].setIndex(element)
            arena[index].priorSize = priorSize
        }
    }

    private func sharedElements(_ merger: inout ListMerger) -> [SharedElement] {
        let majors = elements(major, with: minor, &merger), minors = elements(minor, with: major, &merger)
        var shared: [SharedElement] = []
        var (next, other) = (majors[...], minors[...])
        while let one = next.first, let two = other.first {
            if one.index == two.index, one.hasNested, two.hasNested {
                shared.append(SharedElement(index: one.index, majors: one.numbers, minors: two.numbers))
            }
            if one.index <= two.index { next.removeFirst() }
            if two.index <= one.index { other.removeFirst() }
        }
        return shared
    }

    /// The elements of the start that a side updates or changes inside, in order, with these operations.
    private func elements(
        _ side: Side, with other: Side, _ merger: inout ListMerger
    ) -> [(index: UInt32, numbers: [Int], hasNested: Bool)] {
        let starts = merger.startIndices(of: side.operations, with: other.operations) ?? []
        var elements: [(index: UInt32, numbers: [Int], hasNested: Bool)] = []
        let named = starts.indices.filter { starts[$0] != .max && side.operations[$0].isOfElement }
        for number in named.sorted(by: { (starts[$0], $0) < (starts[$1], $1) }) {
            if elements.last?.index != starts[number] { elements.append((starts[number], [], false)) }
            elements[elements.count - 1].numbers.append(number)
            if side.operations[number].kind == .nested { elements[elements.count - 1].hasNested = true }
        }
        return elements
    }
}

extension ListOperation {
    /// The operation of an instruction on the list that the first `depth` path elements lead to, without its tag; nil
    /// if it does more than insert, erase, move or set an element or go on to something inside it.
    @inline(__always)
    fileprivate init?(_ instruction: Instruction, _ depth: UInt32, in arena: borrowing ChangesetArena) {
        let element = arena.element(depth, of: instruction)
        guard element.isIndex else { return nil }
        if instruction.pathCount > depth + 1 {
            let next = arena.element(depth + 1, of: instruction)
            self.init(
                index: element.index, priorSize: 0, tag: 0, kind: .nested, value: next.isIndex ? .list : .dictionary)
            return
        }
        let kind: Kind
        switch instruction.kind {
        case .arrayInsert: kind = .insert
        case .arrayErase: kind = .erase
        case .arrayMove: kind = .move
        case .update: kind = .update
        default: return nil
        }
        self.init(
            index: element.index, to: instruction.destination, priorSize: instruction.priorSize, tag: 0, kind: kind,
            value: ValueKind(instruction.type))
    }

    /// True for a nested edit or an update.
    fileprivate var isOfElement: Bool { kind == .nested || kind == .update }
}

// MARK: - All lists of a block

/// Lists to be merged one after the other: first what is inside shared elements, which can be refused, then the lists,
/// which cannot.
struct ListMerges: Sendable {
    fileprivate var tasks: [ListMergeTask]
    fileprivate var nextInside = 0
    fileprivate var next = 0
    fileprivate var isBegun = false

    init(_ tasks: [ListMergeTask]) { self.tasks = tasks }
}

extension Merge {
    /// The merge of two sides that do nothing but edit elements of one list, and fit each other; nil for all others,
    /// and where it costs no more to visit all pairs.
    mutating func onlyList(
        _ rows: [InstructionIndex], _ columns: [InstructionIndex], in arena: borrowing ChangesetArena
    ) -> ListMerges? {
        guard let first = rows.first, !isSmall(rows, columns) else { return nil }
        let head = arena[first]
        guard rows.allSatisfy({ arena[$0].editsElement(ofListOf: head) }),
            columns.allSatisfy({ arena[$0].editsElement(ofListOf: head) }),
            arena.contains(rows, columns, { $0.kind != .update }),
            let list = ListMergeTask(rows, columns, depth: 0, in: arena)
        else { return nil }
        listPairs.all += rows.count * columns.count
        return ListMerges([list])
    }

    mutating func run(_ lists: consuming ListMerges, in arena: inout ChangesetArena) throws(TransformError) {
        while lists.nextInside < lists.tasks.count {
            if let (rows, columns, depth) = lists.tasks[lists.nextInside].nextSharedElement(&listMerger, in: &arena) {
                waiting.append(.lists(lists))
                return wait(for: try grouped(.place(depth), rows, columns, in: &arena))
            }
            lists.nextInside += 1
        }
        while lists.next < lists.tasks.count {
            if !lists.isBegun {
                tagRanks.makeReady(in: arena)
                lists.tasks[lists.next].begin(&listMerger, tagRanks, in: arena)
                lists.isBegun = true
            }
            guard listMerger.advance(&budget) else { return waiting.append(.lists(lists)) }
            if budget.isOverdrawn { return }
            listPairs.visited += listMerger.visitedPairs
            lists.tasks[lists.next].store(in: &arena)
            lists.isBegun = false
            lists.next += 1
            if budget.isStepOver { return waiting.append(.lists(lists)) }
        }
    }
}
