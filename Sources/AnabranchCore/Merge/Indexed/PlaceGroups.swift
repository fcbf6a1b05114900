// Below the field: which instructions on one place of an object have to meet (`Spec/Transform.md`, sections 4, 6 and
// 7).
//
// A *place* is a field, or what a path from it leads to. An instruction does one of three things there:
// - it sets, changes or clears the place itself: then it meets everything inside, and is a barrier;
// - it puts a value into a set or takes one out (`SetGroups.swift`);
// - it goes on to a name or an index inside. Names are independent of each other. Indices are so only while the list
//   keeps its elements where they are; otherwise all instructions of the list are merged together (`Lists/`).

extension Merge {
    /// Deeper places are not told apart, so that no path can exhaust the stack.
    private static let groupedDepthMax: UInt32 = 16

    /// Merges the instructions on one place: paths whose first `depth` elements are equal.
    mutating func groupPlace(
        _ rows: [InstructionIndex], _ columns: [InstructionIndex], depth: UInt32, into work: inout DeferredWork,
        in arena: inout ChangesetArena
    ) throws(TransformError) {
        if isSmall(rows, columns) || depth > Self.groupedDepthMax {
            return try mergePairs(rows, columns, into: &work, in: &arena)
        }
        if arena.allSatisfy(rows, columns, { $0.setsPlace(depth) }) {
            work.pairs.append(PairGroup(rows, columns, depth: depth))
        } else if !arena.contains(rows, columns, { $0.setsPlace(depth) }) {
            try groupContents(rows, columns, depth: depth, into: &work, in: &arena)
        } else if arena.contentsStay(rows, columns, depth) {
            let (rows, columns) = (arena.parted(rows, depth), arena.parted(columns, depth))
            if !rows.setting.isEmpty, !columns.setting.isEmpty {
                work.pairs.append(PairGroup(rows.setting, columns.setting, depth: depth))
            }
            if !rows.inside.isEmpty, !columns.inside.isEmpty {
                try groupContents(rows.inside, columns.inside, depth: depth, into: &work, in: &arena)
            }
        } else {
            try splitAtBarriers(rows, columns, .place(depth), into: &work, in: &arena)
        }
    }

    /// Merges instructions that change the elements of a set, or that go on to something inside the place.
    mutating func groupContents(
        _ rows: [InstructionIndex], _ columns: [InstructionIndex], depth: UInt32, into work: inout DeferredWork,
        in arena: inout ChangesetArena
    ) throws(TransformError) {
        if isSmall(rows, columns) { return try mergeSmall(rows, columns, in: &arena) }
        var (innerRows, innerColumns) = (rows, columns)
        if arena.contains(rows, columns, { $0.pathCount == depth }) {
            innerRows.removeAll { arena[$0].pathCount == depth }
            innerColumns.removeAll { arena[$0].pathCount == depth }
            try groupSet(
                rows.filter { arena[$0].pathCount == depth }, columns.filter { arena[$0].pathCount == depth },
                into: &work, in: &arena)
        }
        guard !innerRows.isEmpty, !innerColumns.isEmpty else { return }
        if arena.elementsStay(innerRows, innerColumns, depth) {
            return try group(innerRows, innerColumns, by: .element(depth), into: &work, in: &arena)
        }
        listPairs.all += innerRows.count * innerColumns.count
        if let list = ListMergeTask(innerRows, innerColumns, depth: depth, in: arena) {
            work.lists.append(list)
        } else {
            listPairs.visited += innerRows.count * innerColumns.count
            try mergePairs(innerRows, innerColumns, into: &work, in: &arena)
        }
    }
}

extension ChangesetArena {
    /// Parts instructions into those that set a place and all others, which work inside it.
    fileprivate func parted(
        _ indices: [InstructionIndex], _ depth: UInt32
    ) -> (setting: [InstructionIndex], inside: [InstructionIndex]) {
        let setting = indices.filter { self[$0].setsPlace(depth) }
        return (setting, indices.filter { !self[$0].setsPlace(depth) })
    }

    fileprivate func allSatisfy(
        _ rows: [InstructionIndex], _ columns: [InstructionIndex], _ predicate: (Instruction) -> Bool
    ) -> Bool {
        rows.allSatisfy { predicate(self[$0]) } && columns.allSatisfy { predicate(self[$0]) }
    }

    func contains(
        _ rows: [InstructionIndex], _ columns: [InstructionIndex], _ predicate: (Instruction) -> Bool
    ) -> Bool {
        rows.contains { predicate(self[$0]) } || columns.contains { predicate(self[$0]) }
    }

    /// True if all instructions go on by name, or all by the index of an element that nothing shifts.
    fileprivate func elementsStay(
        _ rows: [InstructionIndex], _ columns: [InstructionIndex], _ depth: UInt32
    ) -> Bool {
        allSatisfy(rows, columns) { !element(depth, of: $0).isIndex }
            || allSatisfy(rows, columns) {
                element(depth, of: $0).isIndex && !($0.pathCount == depth + 1 && $0.kind.shiftsElements)
            }
    }
}

extension InstructionKind {
    /// True for SetInsert and SetErase.
    var isSetChange: Bool { self == .setInsert || self == .setErase }

    /// True for the kinds that change the indices of other elements.
    fileprivate var shiftsElements: Bool { self == .arrayInsert || self == .arrayErase || self == .arrayMove }
}
