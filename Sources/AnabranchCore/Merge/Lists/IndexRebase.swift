/// Writes the indices that one side's operations have after all of the other side's (`Spec/Transform.md`, sections 13.2
/// and 13.4).
struct IndexRebase: BitwiseCopyable {
    private let block: ListBlock
    private let subBlocks: SubBlocks
    private let number: Int
    private let side: ListSide
    /// Of the elements erased by both sides: those that this side has erased so far, in no sub-block.
    private let erased: PrefixSums
    /// The same including sub-blocks, for the dirty flags of nested edits.
    private let erasedAnywhere: PrefixSums
    // The rest is needed only if there are sub-blocks.
    /// The regions as this side alone sees them.
    private let own: RegionSizes
    /// Per slot, the size with the other side's changes.
    private let sizes: PrefixSums
    /// Per region, the number of elements that the other side adds beyond those that the block's scan counted.
    private let surplus: PrefixSums
    /// Per sub-block, its next operation.
    private let next: ScratchBuffer<UInt32>

    private var nextOperation = 0

    init(_ block: ListBlock, _ subBlocks: SubBlocks, _ number: Int, _ memory: inout ScratchMemory) {
        self.block = block
        self.subBlocks = subBlocks
        self.number = number
        side = block.sides[number]
        erased = PrefixSums(block.commonCount, &memory)
        erasedAnywhere = PrefixSums(side.hasNested ? block.commonCount : 0, &memory)
        own = RegionSizes(block, subBlocks, &memory)
        sizes = PrefixSums(subBlocks.slotCount, &memory)
        surplus = PrefixSums(subBlocks.isEmpty ? 0 : block.regionCount, &memory)
        next = memory.take(subBlocks.count)
        for subBlock in 0..<subBlocks.count { next[subBlock] = subBlocks.sides[number].starts[subBlock] }
        for slot in 0..<subBlocks.slotCount {
            let region = subBlocks.regions[slot]
            let growth = subBlocks.sides[1 - number].growth[slot]
            sizes.add(Int32(block.regions[region].removable) + 1 + growth, at: slot)
            surplus.add(growth - counted(in: region), at: Int(region))
        }
    }

    /// The number of elements that the other side adds to a region according to the block's scan.
    private func counted(in region: UInt32) -> Int32 { otherGrowth(region + 1) - otherGrowth(region) }

    @inline(__always)
    private func otherGrowth(_ region: UInt32) -> Int32 {
        block.regions[region].before.growth(without: number)
    }

    /// Continues to the end of the side, or until the step is over.
    ///
    /// - Returns: Whether it has reached the end.
    mutating func advance(_ budget: inout PairBudget) -> Bool {
        // A copy, so that it stays in registers.
        let rebase = self
        while nextOperation < side.operations.count {
            if budget.isStepOver { return false }
            let end = min(nextOperation + Self.operationsPerLook, side.operations.count)
            budget.countTime((end - nextOperation) * Self.pairsPerOperation)
            for number in nextOperation..<end { rebase.rebase(number) }
            nextOperation = end
        }
        return true
    }

    /// The time that an operation takes, in pair visits.
    private static let pairsPerOperation = 4
    private static let operationsPerLook = 256

    @inline(__always)
    private func rebase(_ operation: Int) {
        let region = side.positions[operation].region
        if subBlocks.included.contains(region) {
            rebaseInSubBlock(operation, region)
        } else {
            rebaseInPlace(operation, region)
        }
    }

    @inline(__always)
    private func rebaseInPlace(_ operation: Int, _ region: UInt32) {
        let anchor = side.anchor(operation)
        var shift = Int(side.positions[anchor].shift)
        if block.commonCount > 0 { shift += erased.sum(before: Int(side.positions[anchor].common)) }
        if !subBlocks.isEmpty { shift += surplus.sum(before: Int(region & ~ListSide.fixed)) }
        let old = side.operations[operation]
        side.operations[operation].index = UInt32(truncatingIfNeeded: Int(old.index) + shift)
        if old.kind == .erase, old.discarded {
            erased.add(1, at: Int(side.positions[operation].common))
            if side.hasNested { erasedAnywhere.add(1, at: Int(side.positions[operation].common)) }
        }
        if old.kind == .nested {
            let stays =
                Int(side.positions[anchor].erasures) > erasedAnywhere.sum(before: Int(side.positions[anchor].common))
            if stays || side.positions[anchor].hasInsertBefore { side.operations[operation].dirty = true }
        }
        if !subBlocks.isEmpty, old.growth != 0 { own.grow(region, by: old.growth) }
    }

    private func rebaseInSubBlock(_ operation: Int, _ region: UInt32) {
        let old = side.operations[operation]
        let subBlock = subBlocks.numbers[region]
        let merged = subBlocks.sides[number].operations[next[subBlock]]
        next[subBlock] += 1
        side.operations[operation].discarded = merged.discarded
        if old.kind == .nested, merged.dirty || isNestedDirty(region) { side.operations[operation].dirty = true }
        let place = merged.discarded ? nil : find(merged.index, subBlock)
        if let place { side.operations[operation].index = place.index }
        switch old.kind {
        case .update, .nested: break
        case .insert:
            change(region, own: old.growth)
            if let place { change(place.region, merged: old.growth) }
        case .erase:
            change(region, own: -1)
            if let place {
                change(place.region, merged: -1)
            } else if side.hasNested {
                erasedAnywhere.add(1, at: Int(side.positions[operation].common))
            }
        case .move:
            change(region, own: -1)
            if let place {
                change(place.region, merged: -1)
                let target = find(merged.to, subBlock)
                side.operations[operation].to = target.index
                change(target.region, merged: 1)
            }
            change(side.positions[operation].newRegion, own: 1)
        }
    }

    /// True if the other side's operations left of the region change the index of a nested edit.
    private func isNestedDirty(_ region: UInt32) -> Bool {
        let before = block.regions[region].before
        let (inserts, erased) = number == 0 ? (before.inserts.1, before.erased.1) : (before.inserts.0, before.erased.0)
        return inserts > 0 || Int(erased) > erasedAnywhere.sum(before: Int(before.common))
    }

    /// An index in the list of a sub-block as a region and an index in the whole list, both with the other side's
    /// changes.
    private func find(_ index: UInt32, _ subBlock: UInt32) -> (region: UInt32, index: UInt32) {
        let position = sizes.sum(before: Int(subBlocks.firstSlots[subBlock])) + Int(index)
        let (slot, before) = sizes.find(position)
        let region = subBlocks.regions[slot]
        let shift =
            Int(otherGrowth(region)) + erased.sum(before: Int(block.regions[region].before.common))
            + surplus.sum(before: Int(region))
        return (region, UInt32(truncatingIfNeeded: own.start(region) + shift + position - before))
    }

    private func change(_ region: UInt32, own value: Int) {
        own.grow(region, by: value)
        surplus.add(Int32(-value), at: Int(region))
    }

    private func change(_ region: UInt32, merged value: Int) {
        sizes.add(Int32(value), at: Int(subBlocks.slots[region]))
        surplus.add(Int32(value), at: Int(region))
    }
}
