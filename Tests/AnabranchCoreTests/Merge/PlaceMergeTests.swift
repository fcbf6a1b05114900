import AnabranchTesting
import Testing

@testable import AnabranchCore

/// Long runs of instructions on one place, of which most leave each other alone or only add up.
@Suite struct PlaceMergeTests {
    private typealias Side = [(steps: [Step], tag: OriginTag)]

    @Test func runsOnOnePlaceBecomeWhatTheGridMakesOfThem() throws {
        let seeds = Seeds.upTo(1000)
        var refusals = 0
        for seed in seeds {
            let grid = try Self.outcome(seed: seed, .everyPair)
            if grid == .refused { refusals += 1 }
            for (thresholds, pairs) in [(MergeThresholds(), Int.max), (.finest, .max), (.finest, 3)] {
                let indexed = try Self.outcome(seed: seed, .indexed, thresholds, pairs: pairs)
                #expect(
                    grid == indexed, "\(Seeds.repeatCommand("runsOnOnePlaceBecomeWhatTheGridMakesOfThem", seed: seed))")
            }
        }
        #expect(seeds.count == 1 || (1..<seeds.count / 2).contains(refusals))
    }

    private static func outcome(
        seed: UInt64, _ strategy: MergeStrategy, _ thresholds: MergeThresholds = MergeThresholds(), pairs: Int = .max
    ) throws -> Outcome {
        var runs = PlaceRuns(seed: seed)
        let (local, incoming) = (runs.side(), runs.side())
        return try Self.outcome(local, incoming, Merge(strategy: strategy, thresholds: thresholds), pairs: pairs)
            .outcome
    }

    private static func outcome(
        _ local: Side, _ incoming: Side, _ merge: consuming Merge, pairs: Int = .max
    ) throws -> (outcome: Outcome, pairs: Int) {
        var arena = ChangesetArena()
        for (position, (steps, tag)) in (local + incoming).enumerated() {
            try arena.decode(changeset(steps), version: UInt64(position) + 1, tag: tag)
        }
        let left = merge.budget.left
        merge.begin(
            local: Array(arena.changesets.prefix(local.count)),
            incoming: Array(arena.changesets.dropFirst(local.count)), in: arena)
        do {
            while try !merge.advance(in: &arena, pairs: pairs) {}
        } catch {
            return (.refused, left - merge.budget.left)
        }
        return (Outcome(of: arena), left - merge.budget.left)
    }

    // MARK: Cost

    private static let older = OriginTag(timestamp: 10, ident: 2)
    private static let newer = OriginTag(timestamp: 20, ident: 3)

    private static func many(_ steps: Step..., tag: OriginTag) -> Side {
        [((0..<3000).flatMap { _ in steps }, tag)]
    }

    /// Sides that would visit nine million pairs or more.
    private static let longRuns: [(name: String, local: Side, incoming: Side)] = {
        let increment = Step.addInteger(.at("f"), 1)
        let number = Step.update(.at("f"), .int(5))
        let list = Step.update(.at("f"), .list)
        let entry = Step.update(.at("f", "k"), .int(1))
        let element = Step.update(.at("f", 0), .int(1))
        return [
            ("increments of a number", many(increment, tag: newer), many(number, tag: older)),
            ("numbers that get increments", many(number, tag: older), many(increment, tag: newer)),
            ("increments of null", many(increment, tag: newer), many(.update(.at("f"), .null), tag: older)),
            ("lists", many(list, tag: older), many(list, tag: newer)),
            ("lists and their clears", many(list, tag: older), many(.clear(.at("f"), .list), tag: newer)),
            ("lists and their elements", many(list, tag: older), many(element, tag: newer)),
            ("lists with their elements", many(list, element, tag: older), many(list, element, tag: newer)),
            (
                "dictionaries with their entries", many(.update(.at("f"), .dictionary), entry, tag: older),
                many(.update(.at("f"), .dictionary), entry, tag: newer)
            ),
            ("numbers and their increments", many(increment, number, tag: older), many(increment, number, tag: newer)),
            (
                "increments beside what is not a number",
                [(many(increment, tag: newer)[0].steps + [.update(.at("g"), .double(.nan))], newer)],
                many(number, tag: older)
            ),
            (
                "sets of what is not a number", many(.setInsert(.at("s"), .float(.nan)), tag: newer),
                many(.setInsert(.at("s"), .float(.nan)), tag: older)
            ),
            (
                "texts of a set", many(.setInsert(.at("s"), .text("x")), tag: older),
                many(.setInsert(.at("s"), .text("x")), tag: newer)
            ),
            (
                "texts of a set, the other way", many(.setErase(.at("s"), .text("x")), tag: newer),
                many(.setInsert(.at("s"), .text("x")), tag: older)
            ),
            (
                "links in a set", many(.setErase(.at("s"), .link("A", 1)), tag: newer),
                many(.setErase(.at("s"), .link("A", 2)), tag: older)
            ),
        ]
    }()

    @Test(arguments: longRuns.indices)
    func longRunsCostAboutTheirLength(_ number: Int) throws {
        let (name, local, incoming) = Self.longRuns[number]
        let length = (local + incoming).reduce(0) { $0 + $1.steps.count }
        let merged = try Self.outcome(local, incoming, Merge())
        #expect(merged.outcome != .refused && merged.pairs < 20 * length, "\(name): \(merged.pairs) pairs")
    }
}

/// Sides with runs of equal instructions on one place, in a few changesets.
private struct PlaceRuns {
    private enum Kind: CaseIterable {
        case increment, number, null, text, list, dictionary, object, clearList, clearDictionary, clearSet, setChange
        case entry, incrementOfEntry, element, incrementOfElement, notANumber, otherNotANumber
    }

    private static let numbers: [Kind] = [.increment, .increment, .number, .number, .null]

    private var random: SeededRandom
    private let place: [FieldPath.Element]
    private let kinds: [Kind]
    private let hasOtherSizes: Bool

    init(seed: UInt64) {
        random = SeededRandom(scrambling: seed)
        place = random.pick([[], [], ["k"], [1]])
        hasOtherSizes = random.isOne(in: 8)
        let all = random.isOne(in: 2) ? Self.numbers : Self.numbers + Kind.allCases
        var kinds: [Kind] = []
        for _ in 0...random.below(6) { kinds.append(random.pick(all)) }
        self.kinds = kinds
    }

    mutating func side() -> [(steps: [Step], tag: OriginTag)] {
        let kinds = random.isOne(in: 2) ? kinds : [random.pick(kinds), random.pick(kinds)]
        return (0...random.below(4)).map { _ in
            var steps: [Step] = []
            for _ in 0...random.below(4) {
                let kind = random.pick(kinds)
                steps += (0...random.below(random.pick([1, 5, 40]))).map { _ in step(kind) }
            }
            return (steps, OriginTag(timestamp: ChangesetTime(random.below(3)), ident: random.pick([2, 2, 3])))
        }
    }

    private mutating func step(_ kind: Kind) -> Step {
        let path = FieldPath(field: "f", path: place)
        let increment = random.pick([1, 1, -1, 0, Int64.max, .min])
        switch kind {
        case .increment: return .addInteger(path, increment)
        case .number: return update(path, .int(random.pick([0, 1, .max])))
        case .null: return update(path, .null)
        case .text: return update(path, .text("x"))
        case .list: return update(path, .list)
        case .dictionary: return update(path, .dictionary)
        case .object: return update(path, .objectValue)
        case .clearList: return .clear(path, .list)
        case .clearDictionary: return .clear(path, .dictionary)
        case .clearSet: return .clear(path, .set)
        case .setChange: return random.isOne(in: 2) ? .setInsert(path, .int(1)) : .setErase(path, .int(1))
        case .entry: return update(inside("e"), .int(1))
        case .incrementOfEntry: return .addInteger(inside("e"), increment)
        case .element: return update(inside(0), .int(1))
        case .notANumber: return update(path, .double(.nan))
        case .otherNotANumber:
            let other = FieldPath(object: ObjectName(key: .int(Int64(1 + random.below(2)))), field: "g")
            return random.isOne(in: 3) ? .setInsert(other, .float(.nan)) : update(other, .float(.nan))
        case .incrementOfElement: return .addInteger(inside(0), increment)
        }
    }

    private func inside(_ element: FieldPath.Element) -> FieldPath { FieldPath(field: "f", path: place + [element]) }

    private mutating func update(_ path: FieldPath, _ value: Payload) -> Step {
        .update(path, value, isDefault: random.isOne(in: 6), size: hasOtherSizes && random.isOne(in: 40) ? 4 : 5)
    }
}
