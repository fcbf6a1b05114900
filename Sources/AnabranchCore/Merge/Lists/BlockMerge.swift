// A block is merged in pieces (`Spec/Transform.md`, sections 13.2 to 13.5): both sides are replayed, regions are found,
// inserts are put in order, sub-blocks are merged, operations on one element are resolved, and indices are rebased. A
// step can end inside each of them; only to sort the places is one pass.

/// The first pieces: both sides of a block are replayed, and regions are found.
struct BlockReplay: BitwiseCopyable {
    private let size: UInt32
    private let sides: ScratchBuffer<ListSide>
    private var number = 0
    private var replay: SideReplay
    private var scan: RegionScan?
    /// The state of the memory before the block, and before the replay of a side.
    let mark: ScratchMemory.Mark
    private let replayMark: ScratchMemory.Mark

    init(_ runs: ListRuns, _ mark: ScratchMemory.Mark, _ memory: inout ScratchMemory) {
        self.mark = mark
        size = runs.size
        sides = memory.take(2)
        sides[0] = ListSide(runs.major, &memory)
        sides[1] = ListSide(runs.minor, &memory)
        replayMark = memory.mark
        replay = SideReplay(sides[0], size: size, &memory)
    }

    /// - Returns: The block with its regions; nil if the step is over.
    mutating func advance(_ budget: inout PairBudget, _ memory: inout ScratchMemory) -> ListBlock? {
        while number < 2 {
            guard replay.advance(&budget) else { return nil }
            memory.release(replayMark)
            number += 1
            if number == 1 { replay = SideReplay(sides[1], size: size, &memory) }
        }
        var scan = scan ?? RegionScan(ListBlock(sides, size: size, &memory))
        let isThrough = scan.advance(&budget)
        self.scan = scan
        return isThrough ? scan.block : nil
    }
}

/// The next piece: the inserts of both sides in one region are put in order.
struct BlockOrder: BitwiseCopyable {
    let block: ListBlock
    private(set) var subBlocks: SubBlockRegions
    private var merge: RegionMerge
    /// The state of the memory before the block, and before this piece.
    let mark: ScratchMemory.Mark
    private let ownMark: ScratchMemory.Mark

    init(_ block: ListBlock, _ mark: ScratchMemory.Mark, _ memory: inout ScratchMemory) {
        self.block = block
        self.mark = mark
        subBlocks = SubBlockRegions(block, &memory)
        ownMark = memory.mark
        merge = RegionMerge(block, &memory)
    }

    /// - Returns: Whether the piece is done.
    mutating func advance(_ budget: inout PairBudget, _ memory: inout ScratchMemory) -> Bool {
        guard merge.advance(&subBlocks, &budget) else { return false }
        memory.release(ownMark)
        return true
    }
}

/// The other pieces.
struct BlockMerge: BitwiseCopyable {
    private let block: ListBlock
    private let subBlocks: SubBlocks
    private var nextSubBlock = 0
    private var elements: ElementResolution
    private var rebased = 0
    private var rebase: IndexRebase?
    /// The state of the memory before the block, and before the rebase of a side.
    let mark: ScratchMemory.Mark
    private let rebaseMark: ScratchMemory.Mark

    init(_ order: BlockOrder, _ memory: inout ScratchMemory) {
        block = order.block
        mark = order.mark
        subBlocks = SubBlocks(block, order.subBlocks, &memory)
        elements = ElementResolution(block, &memory)
        rebaseMark = memory.mark
    }

    /// The next sub-block to merge; nil if all are merged.
    mutating func nextRuns() -> ListRuns? {
        guard nextSubBlock < subBlocks.count else { return nil }
        nextSubBlock += 1
        return subBlocks.runs(nextSubBlock - 1, block)
    }

    /// Does the work that is left when all sub-blocks are merged.
    ///
    /// - Parameter visitedPairs: counts pairs.
    /// - Returns: Whether the block is merged.
    mutating func advance(
        _ budget: inout PairBudget, _ visitedPairs: inout Int, _ memory: inout ScratchMemory
    ) -> Bool {
        guard elements.advance(block, except: subBlocks.included, &budget, &visitedPairs) else { return false }
        while rebased < 2 {
            var rebase = self.rebase ?? IndexRebase(block, subBlocks, rebased, &memory)
            guard rebase.advance(&budget) else {
                self.rebase = rebase
                return false
            }
            memory.release(rebaseMark)
            self.rebase = nil
            rebased += 1
        }
        return true
    }
}

extension ListMerger {
    /// Replays both sides of a block and finds its regions.
    mutating func run(_ replay: ScratchBuffer<BlockReplay>, _ budget: inout PairBudget) {
        guard let block = replay[0].advance(&budget, &memory) else { return wait(for: .replay(replay)) }
        let order = memory.take(1, of: BlockOrder.self)
        order[0] = BlockOrder(block, replay[0].mark, &memory)
        run(order, &budget)
    }

    /// Puts the inserts of a block in order and finds its sub-blocks.
    mutating func run(_ order: ScratchBuffer<BlockOrder>, _ budget: inout PairBudget) {
        guard order[0].advance(&budget, &memory) else { return wait(for: .order(order)) }
        let merge = memory.take(1, of: BlockMerge.self)
        merge[0] = BlockMerge(order[0], &memory)
        run(merge, &budget)
    }

    /// Merges the sub-blocks of a block, then what does not belong to them.
    mutating func run(_ merge: ScratchBuffer<BlockMerge>, _ budget: inout PairBudget) {
        while let runs = merge[0].nextRuns() {
            if isSmall(runs), !budget.isStepOver {
                mergeSmall(runs, &budget)
            } else {
                wait(for: .merge(merge))
                return mergeHalves(runs, &budget)
            }
        }
        guard merge[0].advance(&budget, &visitedPairs, &memory) else { return wait(for: .merge(merge)) }
        memory.release(merge[0].mark)
    }
}
