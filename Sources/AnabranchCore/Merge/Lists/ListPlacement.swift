/// Writes the indices that one side's operations have after all of the other side's.
struct ListPlacement {
    private let block: ListBlock
    private let parts: ListParts
    private let number: Int
    private let side: ListSide
    /// Of the elements erased by both sides: those that this side has erased so far.
    private let erased: PrefixSums
    /// The same including parts, for the dirty flags of touches.
    private let gone: PrefixSums
    /// Only if there are parts: the regions as this side alone sees them, ...
    private let own: RegionSizes
    /// ... per slot the sizes with the other side's changes, and per region what they add, beyond what the block's scan
    /// counted.
    private let sizes: PrefixSums
    private let surplus: PrefixSums
    private let next: Slab<UInt32>

    static func place(_ block: ListBlock, _ parts: ListParts, _ number: Int, _ scratch: inout ListScratch) {
        let mark = scratch.mark
        defer { scratch.release(mark) }
        ListPlacement(block, parts, number, &scratch).place()
    }

    private init(_ block: ListBlock, _ parts: ListParts, _ number: Int, _ scratch: inout ListScratch) {
        self.block = block
        self.parts = parts
        self.number = number
        side = block.sides[number]
        erased = PrefixSums(block.commonCount, &scratch)
        gone = PrefixSums(side.hasTouches ? block.commonCount : 0, &scratch)
        own = RegionSizes(block, parts, &scratch)
        sizes = PrefixSums(parts.slotCount, &scratch)
        surplus = PrefixSums(parts.isEmpty ? 0 : block.regionCount, &scratch)
        next = scratch.take(parts.count)
        for part in 0..<parts.count { next[part] = parts.sides[number].starts[part] }
        for slot in 0..<parts.slotCount {
            let region = parts.regions[slot]
            let growth = parts.sides[1 - number].growth[slot]
            sizes.add(Int32(block.regions[region].removable) + 1 + growth, at: slot)
            surplus.add(growth - counted(in: region), at: Int(region))
        }
    }

    /// What the other side adds to a region according to the block's scan.
    private func counted(in region: UInt32) -> Int32 { otherGrowth(region + 1) - otherGrowth(region) }

    @inline(__always)
    private func otherGrowth(_ region: UInt32) -> Int32 {
        block.regions[region].before.growth(without: number)
    }

    private func place() {
        for operation in side.operations.indices {
            let region = side.places[operation].region
            if parts.included.contains(region) { placeInPart(operation, region) } else { placeAlone(operation, region) }
        }
    }

    @inline(__always)
    private func placeAlone(_ operation: Int, _ region: UInt32) {
        let anchor = side.anchor(operation)
        var shift = Int(side.places[anchor].shift)
        if block.commonCount > 0 { shift += erased.sum(before: Int(side.places[anchor].common)) }
        if !parts.isEmpty { shift += surplus.sum(before: Int(region & ~ListSide.fixed)) }
        let old = side.operations[operation]
        side.operations[operation].index = UInt32(truncatingIfNeeded: Int(old.index) + shift)
        if old.kind == .erase, old.discarded {
            erased.add(1, at: Int(side.places[operation].common))
            if side.hasTouches { gone.add(1, at: Int(side.places[operation].common)) }
        }
        if old.kind == .touch {
            let stays = Int(side.places[anchor].erasures) > gone.sum(before: Int(side.places[anchor].common))
            if stays || side.places[anchor].hasInsertBefore { side.operations[operation].dirty = true }
        }
        if !parts.isEmpty, old.growth != 0 { own.grow(region, by: old.growth) }
    }

    private func placeInPart(_ operation: Int, _ region: UInt32) {
        let old = side.operations[operation]
        let part = parts.parts[region]
        let merged = parts.sides[number].operations[next[part]]
        next[part] += 1
        side.operations[operation].discarded = merged.discarded
        if old.kind == .touch, merged.dirty || isTouchDirty(region) { side.operations[operation].dirty = true }
        let place = merged.discarded ? nil : find(merged.index, part)
        if let place { side.operations[operation].index = place.index }
        switch old.kind {
        case .update, .touch: break
        case .insert:
            change(region, own: 1)
            if let place { change(place.region, merged: 1) }
        case .erase:
            change(region, own: -1)
            if let place {
                change(place.region, merged: -1)
            } else if side.hasTouches {
                gone.add(1, at: Int(side.places[operation].common))
            }
        case .move:
            change(region, own: -1)
            if let place {
                change(place.region, merged: -1)
                let target = find(merged.to, part)
                side.operations[operation].to = target.index
                change(target.region, merged: 1)
            }
            change(side.places[operation].newRegion, own: 1)
        }
    }

    /// Whether the other side changes the index of a touch by what it does left of the region.
    private func isTouchDirty(_ region: UInt32) -> Bool {
        let before = block.regions[region].before
        let (inserts, erased) = number == 0 ? (before.inserts.1, before.erased.1) : (before.inserts.0, before.erased.0)
        return inserts > 0 || Int(erased) > gone.sum(before: Int(before.common))
    }

    /// An index in the list of a part as a region and an index in the whole list, both with the other side's changes.
    private func find(_ index: UInt32, _ part: UInt32) -> (region: UInt32, index: UInt32) {
        let position = sizes.sum(before: Int(parts.firstSlots[part])) + Int(index)
        let (slot, before) = sizes.find(position)
        let region = parts.regions[slot]
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
        sizes.add(Int32(value), at: Int(parts.slots[region]))
        surplus.add(Int32(value), at: Int(region))
    }
}
