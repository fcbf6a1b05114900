// Users type in runs, and apps append. Inserts that follow each other, each directly after the element of the one
// before, are merged as one operation that inserts them all, wherever nothing their own side does later falls between
// them or names one of them (`Spec/Transform.md`, section 13.9). The other side never does: it does not see them, and
// what it inserts at their place goes to one end of them, because their tags are equal.

/// The operations of one side, some of which stand for several inserts.
struct TypedRuns {
    private let operations: ScratchBuffer<ListOperation>
    /// True for each operation that begins a run; a run goes on to the next of these.
    private let starts: ScratchBuffer<Bool>
    /// The number of runs before some are cut.
    private let count: Int

    /// Finds runs by the operations alone.
    init(_ operations: ScratchBuffer<ListOperation>, _ memory: inout ScratchMemory) {
        self.operations = operations
        starts = memory.take(operations.count, repeating: true)
        var count = operations.count
        for number in operations.indices.dropFirst() {
            let (previous, next) = (operations[number - 1], operations[number])
            guard previous.kind == .insert, next.kind == .insert, next.index == previous.index + 1 else { continue }
            if next.tag != previous.tag { continue }
            starts[number] = false
            count -= 1
        }
        self.count = count
    }

    /// Cuts runs wherever an operation of their own side inserts into them, or erases or sets an element of theirs.
    private func cut(size: UInt32, _ memory: inout ScratchMemory) {
        // Elements of the side are named by the operation that inserts them, so that those of a run follow each other.
        var list = ReplayList(size: size, operations: count, &memory)
        var number = 0
        while number < operations.count {
            let (first, operation) = (number, operations[number])
            number += 1
            switch operation.kind {
            case .insert:
                while number < operations.count, !starts[number] { number += 1 }
                let right = list.insert(.own + UInt32(first), count: UInt32(number - first), at: operation.index)
                if right != .end, right.isOwn { starts[right.operation] = true }
            case .erase: separate(list.remove(at: operation.index))
            case .update: separate(list.element(at: operation.index))
            case .move, .nested: invariant(false, "a run of inserts among other operations")
            }
        }
    }

    /// Cuts before and after an element, if it is one of the side.
    private func separate(_ element: ElementID) {
        guard element.isOwn else { return }
        starts[element.operation] = true
        if element.operation + 1 < starts.count { starts[element.operation + 1] = true }
    }

    /// Joins the operations of each run in place, if that pays.
    /// - Parameter size: The size of the list before the side.
    /// - Returns: The number of operations that are left, which stand first.
    func join(size: UInt32, _ memory: inout ScratchMemory) -> Int {
        guard 2 * count <= operations.count else { return operations.count }
        cut(size: size, &memory)
        var last = -1
        for number in operations.indices {
            if starts[number] {
                last += 1
                operations[last] = operations[number]
            } else {
                operations[last].count += 1
            }
        }
        return last + 1
    }
}

extension ListMerger {
    /// Joins the inserts of runs in both sides, which fit each other, where that pays.
    /// - Returns: The numbers of operations that are left, which stand first.
    mutating func joinRuns(
        _ major: ScratchBuffer<ListOperation>, _ minor: ScratchBuffer<ListOperation>
    ) -> (major: Int, minor: Int) {
        let isPlain = { (operation: ListOperation) in operation.kind != .move && operation.kind != .nested }
        guard major.allSatisfy(isPlain), minor.allSatisfy(isPlain), let size = RunSummary.startSize(major, minor) else {
            return (major.count, minor.count)
        }
        let mark = memory.mark
        defer { memory.release(mark) }
        return (
            TypedRuns(major, &memory).join(size: size, &memory), TypedRuns(minor, &memory).join(size: size, &memory)
        )
    }
}
