/// The contents of a run of operations, which fits the list (`Spec/Transform.md`, sections 13.1 and 13.6).
struct RunSummary {
    private let count: Int
    private var counts = (inserts: 0, erases: 0, moves: 0, nested: 0)
    /// True if there is a move to where the element is, which any erase or move of the other side discards.
    private var hasNoOpMove = false
    /// True if there are only inserts and erases.
    let isShifting: Bool

    /// The number of elements that the run adds to the list.
    var growth: Int { counts.inserts - counts.erases }
    /// True if the other side could discard most operations: it cannot discard an insert.
    var isMostlyErasing: Bool { 2 * counts.inserts < count }

    /// Nil unless every operation fits the size that those before it leave.
    init?(_ operations: ScratchBuffer<ListOperation>, _ start: UInt32) {
        guard Int(start) + 2 * operations.count < 1 << 29 else { return nil }
        count = operations.count
        isShifting = operations.allSatisfy(\.isShift)
        var size = start
        for operation in operations {
            if operation.discarded || (operation.kind != .nested && operation.priorSize != size) { return nil }
            if operation.index >= size, operation.kind != .insert || operation.index > size { return nil }
            switch operation.kind {
            case .insert: (counts.inserts, size) = (counts.inserts + Int(operation.count), size + operation.count)
            case .erase: (counts.erases, size) = (counts.erases + 1, size - 1)
            case .move:
                if operation.to >= size { return nil }
                if operation.to == operation.index { hasNoOpMove = true }
                counts.moves += 1
            case .nested: counts.nested += 1
            case .update: break
            }
        }
    }

    /// The size of the list before both sides; nil if no operation states it.
    static func startSize(_ major: ScratchBuffer<ListOperation>, _ minor: ScratchBuffer<ListOperation>) -> UInt32? {
        let sized = major.first { $0.kind != .nested } ?? minor.first { $0.kind != .nested }
        return sized?.priorSize
    }

    /// True if two sides fit each other.
    static func fit(_ major: ScratchBuffer<ListOperation>, _ minor: ScratchBuffer<ListOperation>) -> Bool {
        guard let size = startSize(major, minor) else { return false }
        return RunSummary(major, size) != nil && RunSummary(minor, size) != nil
    }

    /// True if the fast algorithm covers all effects of the other side on this one. It does not if a no-op move is
    /// discarded because of operations far from it, if a move meets a nested edit (N6), or if a dirty flag depends on
    /// whether a move passed by.
    func isDecided(by other: RunSummary) -> Bool {
        if hasNoOpMove { return false }
        if counts.nested > 0 { return counts.moves + other.counts.moves == 0 }
        return other.counts.moves == 0 || other.counts.inserts > 0 || other.counts.erases > counts.erases
    }
}

extension ListMerger {
    /// Marks what the grid would have changed. An insert or an erase changes everything that it meets except nested
    /// edits; only an erase can be discarded before it meets all, by the erase of the same element, and both show it by
    /// being discarded.
    func setDirty(_ operations: ScratchBuffer<ListOperation>, with other: ScratchBuffer<ListOperation>) {
        let meetsAll = other.contains { $0.kind == .insert || ($0.kind == .erase && !$0.discarded) }
        let last = operations.lastIndex { $0.kind == .erase && $0.discarded } ?? -1
        for number in operations.indices
        where operations[number].discarded || (operations[number].kind != .nested && (meetsAll || number <= last)) {
            operations[number].dirty = true
        }
    }

    /// Sets the size before each operation, with all that the other side has changed: an element that both sides erased
    /// counts once.
    func setPriorSizes(_ operations: ScratchBuffer<ListOperation>, _ start: UInt32, _ otherGrowth: Int) {
        var size = Int(start) + otherGrowth
        for number in operations.indices {
            let operation = operations[number]
            if operation.kind != .nested { operations[number].priorSize = UInt32(truncatingIfNeeded: size) }
            size += operation.kind == .erase && operation.discarded ? 0 : operation.growth
        }
    }
}
