import AnabranchTesting
import Testing

@testable import AnabranchCore

/// Long runs on one list against the grid of all pairs, operation by operation.
@Suite struct ListMergerTests {
    private static let smallBlocks = MergeThresholds(gridFactor: 2, attemptsPerThousandPairs: 200)

    @Test func wholeRunsAreMergedAsTheGridMergesThem() {
        for seed in Seeds.upTo(4000) {
            let sides = RandomSides(seed: seed)
            let expected = Self.merge(sides, .oneGrid)
            for thresholds in [MergeThresholds.finest, Self.smallBlocks, MergeThresholds()] {
                #expect(
                    Self.merge(sides, thresholds) == expected,
                    """
                    regions of a list are not merged as the grid of all pairs merges them. \(RuleForms.tieOfInserts)
                    \(Seeds.repeatCommand("wholeRunsAreMergedAsTheGridMergesThem", seed: seed))
                    """)
            }
        }
    }

    /// Of [t, s] the major side erases t after x1, the minor side s after y1. Neither is there when x2 meets y2, so the
    /// tags decide, although x2 stands right of s and y2 left of t.
    @Test func elementsThatAreGoneDoNotSeparate() {
        let major = Self.script([(.insert, 1), (.erase, 1), (.erase, 0), (.insert, 1)], size: 2, tag: 1)
        let minor = Self.script([(.insert, 1), (.erase, 1), (.erase, 1), (.insert, 0)], size: 2, tag: 2)
        let merged = Self.merge(Sides(major: major, minor: minor), .finest)
        #expect(merged?.major.map(\.index) == [2, 2, 1, 0])
        #expect(merged?.minor.map(\.index) == [0, 0, 0, 1])
    }

    @Test func movesOfOneElementLeaveTheNewerOne() {
        let major = [ListOperation(index: 0, to: 2, priorSize: 4, tag: 1, kind: .move)]
        let minor = [ListOperation(index: 0, to: 3, priorSize: 4, tag: 2, kind: .move)]
        let merged = Self.merge(Sides(major: major, minor: minor), .finest)
        #expect(merged?.major[0].discarded == true)
        #expect(merged?.minor[0].index == 2)
        #expect(merged?.minor[0].to == 3)
    }

    @Test func sidesThatDoNotFitAreLeftAlone() {
        let insert = Self.script([(.insert, 0)], size: 2, tag: 1)
        #expect(Self.merge(Sides(major: insert, minor: Self.script([(.insert, 0)], size: 3, tag: 2)), .oneGrid) == nil)
        #expect(Self.merge(Sides(major: insert, minor: Self.script([(.erase, 2)], size: 2, tag: 2)), .oneGrid) == nil)
    }

    @Test func startIndicesFollowElements() {
        var operations = Self.script([(.insert, 0), (.erase, 1), (.update, 1), (.update, 0)], size: 3, tag: 1)
        operations.append(ListOperation(index: 2, to: 0, priorSize: 3, tag: 1, kind: .move))
        operations.append(ListOperation(index: 0, priorSize: 0, tag: 1, kind: .nested))
        var merger = ListMerger()
        let storage = operations.storage
        let indices = merger.startIndices(of: storage.operations, with: storage.operations)
        #expect(indices == [.max, 0, 1, .max, 2, 2])
    }

    /// Six elements are typed; then one is inserted before the third, and the fifth is erased.
    @Test func runsAreCutWhereTheirOwnSideWorksInside() {
        let typed = (0..<6).map { (kind: ListOperation.Kind.insert, index: UInt32($0)) }
        let major = Self.script(typed + [(.insert, 2), (.erase, 5)], size: 3, tag: 1).storage
        let minor = Self.script([(.insert, 1), (.insert, 2)], size: 3, tag: 2).storage
        var merger = ListMerger()
        let counts = merger.joinRuns(major.operations, minor.operations)
        #expect(counts.major == 6 && counts.minor == 1)
        #expect(major.operations[0..<6].map(\.count) == [2, 2, 1, 1, 1, 1])
        #expect(major.operations[0..<6].map(\.index) == [0, 2, 4, 5, 2, 5])
        #expect(minor.operations[0].count == 2)
    }

    @Test func whatIsMovedOrChangedInsideIsNotJoined() {
        var operations = Self.script([(.insert, 0), (.insert, 1), (.insert, 2)], size: 3, tag: 1)
        operations.append(ListOperation(index: 0, to: 2, priorSize: 6, tag: 1, kind: .move))
        let (major, minor) = (operations.storage, Self.script([(.insert, 0), (.insert, 1)], size: 3, tag: 2).storage)
        var merger = ListMerger()
        let counts = merger.joinRuns(major.operations, minor.operations)
        #expect(counts.major == 4 && counts.minor == 2)
    }

    private static func script(
        _ steps: [(kind: ListOperation.Kind, index: UInt32)], size: UInt32, tag: UInt32
    ) -> [ListOperation] {
        var size = Int(size)
        return steps.map { step in
            let operation = ListOperation(index: step.index, priorSize: UInt32(size), tag: tag, kind: step.kind)
            size += operation.growth
            return operation
        }
    }

    private static func merge(_ sides: Sides, _ thresholds: MergeThresholds) -> Sides? {
        let (major, minor) = (sides.major.storage, sides.minor.storage)
        var merger = ListMerger(thresholds: thresholds)
        var budget = PairBudget(pairs: .max)
        budget.beginStep(pairs: .max)
        guard merger.begin(major: major.operations, minor: minor.operations), merger.advance(&budget) else {
            return nil
        }
        return Sides(major: Array(major.operations), minor: Array(minor.operations))
    }

    private static func merge(_ sides: RandomSides, _ thresholds: MergeThresholds) -> Sides? {
        merge(Sides(major: sides.major, minor: sides.minor), thresholds)
    }
}

extension [ListOperation] {
    /// The operations where a merge can rewrite them.
    fileprivate var storage: ListOperationStorage {
        let storage = ListOperationStorage(count: count)
        for (number, operation) in enumerated() { storage.operations[number] = operation }
        return storage
    }
}

/// Two sides; what was discarded is only compared as such.
private struct Sides: Equatable {
    var major: [ListOperation]
    var minor: [ListOperation]

    static func == (left: Sides, right: Sides) -> Bool {
        let same = { (one: ListOperation, other: ListOperation) in
            one == other || (one.discarded && other.discarded)
        }
        return left.major.elementsEqual(right.major, by: same) && left.minor.elementsEqual(right.minor, by: same)
    }
}

/// Two runs on one list, with all mixes of operations, patterns of places and patterns of tags.
private struct RandomSides {
    private enum TagPattern: CaseIterable { case equal, bySide, interleaved, rising, jittering, arbitrary }
    private enum PlacePattern: CaseIterable { case anywhere, ends, wandering, mostlyLast }

    private(set) var major: [ListOperation] = []
    private(set) var minor: [ListOperation] = []
    private var random: SeededRandom

    init(seed: UInt64) {
        random = SeededRandom(seed: seed)
        let lengthMax = random.isOne(in: 40) ? 150 : random.isOne(in: 4) ? 40 : 9
        let size = random.pick([0, 1, 2, 3, 5, 8, 20, 60])
        let tags = random.pick(TagPattern.allCases)
        let places = random.pick(PlacePattern.allCases)
        // Nested edits and moves are left to the grid where they meet.
        let extra: ListOperation.Kind? = random.isOne(in: 2) ? nil : random.isOne(in: 2) ? .move : .nested
        major = side(0, .random(in: 1...lengthMax, using: &random), size, tags, places, extra)
        minor = side(1, .random(in: 1...lengthMax, using: &random), size, tags, places, extra)
    }

    private mutating func side(
        _ number: Int, _ count: Int, _ start: Int, _ tags: TagPattern, _ places: PlacePattern,
        _ extra: ListOperation.Kind?
    ) -> [ListOperation] {
        let mixes: [[ListOperation.Kind]] = [
            [.insert], [.insert, .insert, .erase], [.insert, .erase], [.insert, .erase, .update], [.erase, .update],
        ]
        var kinds = random.pick(mixes)
        if let extra, !random.isOne(in: 3) { kinds.append(extra) }
        let ranks = ranks(tags, count, number)
        var (size, last) = (start, start / 2)
        return ranks.map { rank in
            var kind = random.pick(kinds)
            if size == 0 || (kind == .move && size < 2) { kind = .insert }
            let limit = kind == .insert ? size + 1 : size
            last = index(places, limit, last)
            var operation = ListOperation(index: UInt32(last), priorSize: UInt32(size), tag: rank, kind: kind)
            if kind == .move {
                operation.to = UInt32(index(places, limit, last))
                if operation.to == operation.index, !random.isOne(in: 50) {
                    operation.to = (operation.to + 1) % UInt32(size)
                }
            }
            if kind == .update, random.isOne(in: 3) { operation.value = random.pick([.object, .list, .dictionary]) }
            if kind == .nested { operation.value = random.pick([.list, .dictionary]) }
            size += operation.growth
            return operation
        }
    }

    private mutating func ranks(_ pattern: TagPattern, _ count: Int, _ side: Int) -> [UInt32] {
        switch pattern {
        case .equal: return Array(repeating: 7, count: count)
        case .bySide: return Array(repeating: UInt32(2 * Int.random(in: 0...1, using: &random) + side), count: count)
        case .interleaved: return (0..<count).map { UInt32(2 * $0 + side) }
        case .jittering: return (0..<count).map { UInt32(2 * $0 + .random(in: 0...8, using: &random)) }
        case .rising, .arbitrary:
            let ranks = (0..<count).map { _ in UInt32.random(in: 0...UInt32(2 * count), using: &random) }
            return pattern == .rising ? ranks.sorted() : ranks
        }
    }

    private mutating func index(_ pattern: PlacePattern, _ limit: Int, _ last: Int) -> Int {
        switch pattern {
        case .anywhere: .random(in: 0..<limit, using: &random)
        case .ends: random.isOne(in: 3) ? random.pick([0, limit - 1]) : .random(in: 0..<limit, using: &random)
        case .wandering: max(0, min(limit - 1, last + .random(in: -2...2, using: &random)))
        case .mostlyLast: random.isOne(in: 10) ? .random(in: 0..<limit, using: &random) : limit - 1
        }
    }
}
