/// Merges two runs of operations on one list, with the result of the grid of all pairs and at near-linear cost.
///
/// One value serves any number of merges; it keeps its memory between them.
struct ListMerger: ~Copyable {
    typealias Operations = UnsafeMutableBufferPointer<ListOperation>

    private let tuning: MergeThresholds
    private var scratch = ListScratch()
    private var attempts = 0
    private var gridFactor = 0
    /// How many pairs of the last merge were left to the grid, or to visits of all that both sides do to one element.
    private(set) var visitedPairs = 0
    /// A merge that has to visit more pairs leaves off; what it has made is of no use then.
    private var visitedPairsMax = Int.max

    init(tuning: MergeThresholds = MergeThresholds()) { self.tuning = tuning }

    /// Rewrites both sides' operations, all of them live, so that each side can come after the other.
    ///
    /// - Parameter pairsMax: how many pairs it may visit. If `visitedPairs` is more afterwards, it has not finished.
    /// - Returns: Whether it did so. It does nothing if the two sides do not fit each other, which is for the general
    ///   grid to report.
    mutating func merge(major: Operations, minor: Operations, pairsMax: Int = .max) -> Bool {
        guard let size = Self.startSize(major, minor), let one = Summary(major, size), let other = Summary(minor, size)
        else { return false }
        (visitedPairs, visitedPairsMax) = (0, pairsMax)
        gridFactor = one.isShifting && other.isShifting ? tuning.shiftGridFactor : tuning.gridFactor
        attempts = major.count + minor.count + major.count * minor.count * tuning.attemptsPerThousandPairs / 1000
        if isSmall(major.count, minor.count) || !one.isDecided(by: other) || !other.isDecided(by: one) {
            mergeGrid(major, minor)
        } else {
            mergeMortal(major, minor, size, one.isMortal)
            setDirty(major, with: minor)
            setDirty(minor, with: major)
        }
        setPriorSizes(major, size, other.growth)
        setPriorSizes(minor, size, one.growth)
        return true
    }

    /// For each operation of a side, the index at which its element stood at the start, `UInt32.max` if the side
    /// inserted it; nil if the two sides do not fit each other.
    ///
    /// ConflictKeys of both sides concern one element if these are equal, and may then conflict below it.
    mutating func startIndices(of operations: Operations, with other: Operations) -> [UInt32]? {
        guard let size = Self.startSize(operations, other), Summary(operations, size) != nil else { return nil }
        let mark = scratch.mark
        defer { scratch.release(mark) }
        let side = ListSide(operations, size: size, &scratch)
        var indices = [UInt32](repeating: .max, count: operations.count)
        for number in indices.indices where operations[number].kind != .insert {
            let name = side.names[number].target
            indices[number] = name.isOwn ? indices[name.operation] : name
        }
        return indices
    }

    /// Whether two sides fit each other.
    static func fit(major: Operations, minor: Operations) -> Bool {
        guard let size = startSize(major, minor) else { return false }
        return Summary(major, size) != nil && Summary(minor, size) != nil
    }

    private static func startSize(_ major: Operations, _ minor: Operations) -> UInt32? {
        let sized = (major.first { $0.kind != .touch }) ?? (minor.first { $0.kind != .touch })
        return sized?.priorSize
    }

    /// What a run of operations contains.
    private struct Summary {
        let count: Int
        var counts = (inserts: 0, erases: 0, moves: 0, touches: 0)

        /// A move to where the element is, which any erase or move of the other side discards.
        var hasIdleMove = false
        var growth: Int { counts.inserts - counts.erases }
        /// Whether the other side could discard most operations: an insert it cannot.
        var isMortal: Bool { 2 * counts.inserts < count }
        /// Whether there are only inserts and erases.
        let isShifting: Bool

        /// Nil unless every operation fits the size that those before it leave.
        init?(_ operations: Operations, _ start: UInt32) {
            guard Int(start) + 2 * operations.count < 1 << 29 else { return nil }
            count = operations.count
            isShifting = ShiftGrid.accepts(operations)
            var size = start
            for operation in operations {
                if operation.discarded || (operation.kind != .touch && operation.priorSize != size) { return nil }
                if operation.index >= size, operation.kind != .insert || operation.index > size { return nil }
                switch operation.kind {
                case .insert: (counts.inserts, size) = (counts.inserts + 1, size + 1)
                case .erase: (counts.erases, size) = (counts.erases + 1, size - 1)
                case .move:
                    if operation.to >= size { return nil }
                    if operation.to == operation.index { hasIdleMove = true }
                    counts.moves += 1
                case .touch: counts.touches += 1
                case .update: break
                }
            }
        }

        /// Whether the fast way accounts for all that the other side does to this one. It does not if an idle move is
        /// discarded by what happens far from it, if a move meets a touch (N6), or if a dirty flag depends on whether a
        /// move passed by.
        func isDecided(by other: Summary) -> Bool {
            if hasIdleMove { return false }
            if counts.touches > 0 { return counts.moves + other.counts.moves == 0 }
            return other.counts.moves == 0 || other.counts.inserts > 0 || other.counts.erases > counts.erases
        }
    }

    /// Marks what the grid would have changed. An insert or an erase changes everything that it meets except touches;
    /// only an erase can be discarded before it meets all, by the erase of the same element, and both show it by being
    /// discarded.
    private func setDirty(_ operations: Operations, with other: Operations) {
        let meetsAll = other.contains { $0.kind == .insert || ($0.kind == .erase && !$0.discarded) }
        let last = operations.lastIndex { $0.kind == .erase && $0.discarded } ?? -1
        for number in operations.indices
        where operations[number].discarded || (operations[number].kind != .touch && (meetsAll || number <= last)) {
            operations[number].dirty = true
        }
    }

    /// The size before an operation, with all the other side has changed: an element that both sides erased counts
    /// once.
    private func setPriorSizes(_ operations: Operations, _ start: UInt32, _ otherGrowth: Int) {
        var size = Int(start) + otherGrowth
        for number in operations.indices {
            let operation = operations[number]
            if operation.kind != .touch { operations[number].priorSize = UInt32(truncatingIfNeeded: size) }
            size += operation.kind == .erase && operation.discarded ? 0 : operation.growth
        }
    }

    private func isSmall(_ rows: Int, _ columns: Int) -> Bool {
        rows * columns <= gridFactor * (rows + columns)
    }

    // MARK: Blocks

    /// Merges runs that fit the size and each other, all of whose operations are live.
    private mutating func mergeBlock(_ major: Operations, _ minor: Operations, _ size: UInt32) {
        if major.isEmpty || minor.isEmpty { return }
        if isSmall(major.count, minor.count) || attempts < major.count + minor.count {
            return mergeGrid(major, minor)
        }
        attempts -= major.count + minor.count
        let mark = scratch.mark
        defer { scratch.release(mark) }
        let block = ListBlock(major: major, minor: minor, size: size, &scratch)
        var included = PartRegions(block, &scratch)
        orderInserts(block, &included)
        let parts = ListParts(block, included, &scratch)
        for part in 0..<parts.count {
            let (major, minor, size) = parts.list(part, block)
            mergeHalves(major, minor, size)
        }
        block.settleElements(except: { included.contains($0) }) { visits($0) }
        ListPlacement.place(block, parts, 0, &scratch)
        ListPlacement.place(block, parts, 1, &scratch)
    }

    private mutating func mergeGrid(_ major: Operations, _ minor: Operations) {
        if visits(major.count * minor.count) { ListRules.mergeGrid(major: major, minor: minor) }
    }

    /// Counts pairs; whether they may be visited.
    private mutating func visits(_ pairs: Int) -> Bool {
        visitedPairs += pairs
        return visitedPairs <= visitedPairsMax
    }

    /// How many operations of the minor side meet the major side at first, to see what is left of it.
    private static let frontCount = 4

    /// Merges runs of which the major one may be discarded soon: then the grid would cost little.
    private mutating func mergeMortal(_ major: Operations, _ minor: Operations, _ size: UInt32, _ isMortal: Bool) {
        guard isMortal, minor.count > 2 * Self.frontCount else { return mergeBlock(major, minor, size) }
        mergeInTwo(minor, cut: Self.frontCount, short: major, size) { (merger, first, major, _) in
            merger.mergeGrid(major, first)
        } then: { (merger, second, rest, size) in
            merger.mergeMortal(rest, second, size, rest.count * 2 < major.count)
        }
    }

    /// Cuts the longer run in two and merges one half after the other.
    private mutating func mergeHalves(_ major: Operations, _ minor: Operations, _ size: UInt32) {
        if major.isEmpty || minor.isEmpty { return }
        if isSmall(major.count, minor.count) || major.count + minor.count == 2 {
            return mergeGrid(major, minor)
        }
        let cutsMajor = major.count >= minor.count
        let merge = { (merger: inout ListMerger, long: Operations, short: Operations, size: UInt32) in
            merger.mergeBlock(cutsMajor ? long : short, cutsMajor ? short : long, size)
        }
        let long = cutsMajor ? major : minor
        mergeInTwo(long, cut: Self.cut(long), short: cutsMajor ? minor : major, size, first: merge, then: merge)
    }

    /// Merges a part of one run with the other run, then the rest with what is left of the other run.
    private mutating func mergeInTwo(
        _ long: Operations, cut: Int, short: Operations, _ size: UInt32,
        first: (inout ListMerger, Operations, Operations, UInt32) -> Void,
        then second: (inout ListMerger, Operations, Operations, UInt32) -> Void
    ) {
        let (front, back) = (Operations(rebasing: long[..<cut]), Operations(rebasing: long[cut...]))
        let grown = front.reduce(Int(size)) { $0 + $1.growth }
        first(&self, front, short, size)

        let mark = scratch.mark
        defer { scratch.release(mark) }
        let live = scratch.take(short.count, of: ListOperation.self)
        var count = 0
        for operation in short where !operation.discarded {
            live[count] = operation
            count += 1
        }
        second(&self, back, Operations(rebasing: live[..<count]), UInt32(truncatingIfNeeded: grown))
        count = 0
        for number in short.indices where !short[number].discarded {
            short[number] = live[count]
            count += 1
        }
    }

    /// The best place to cut: the middle, or not far from it a place where the tags descend.
    private static func cut(_ operations: Operations) -> Int {
        let descends = { place in place > 0 && operations[place - 1].tag > operations[place].tag }
        let middle = operations.count / 2
        for distance in 0..<operations.count / 4 {
            if descends(middle - distance) { return middle - distance }
            if descends(middle + distance) { return middle + distance }
        }
        return middle
    }

    // MARK: Inserts of both sides in one region

    /// Finds out what each insert has to its left; regions in which that does not succeed become parts.
    private mutating func orderInserts(_ block: ListBlock, _ parts: inout PartRegions) {
        let mark = scratch.mark
        defer { scratch.release(mark) }
        let lists = (
            RegionLists(block, block.sides[0], &scratch), RegionLists(block, block.sides[1], &scratch)
        )
        var capacity = 0
        for region in 0..<block.regionCount where block.isShared(region) {
            let operations = lists.0[region].count + lists.1[region].count
            capacity = max(capacity, Int(block.regions[region].removable) + operations)
        }
        if capacity == 0 { return }
        var merge = RegionMerge(block, capacity: capacity, &scratch)
        for region in 0..<block.regionCount where block.isShared(region) && !parts.contains(UInt32(region)) {
            if !merge.merge(region, lists.0[region], lists.1[region]) { parts.add(UInt32(region)) }
        }
    }
}
