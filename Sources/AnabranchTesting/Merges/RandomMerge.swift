package import AnabranchCore

/// A merge to try: the steps of both sides, and the document that both start from.
package struct RandomMerge {
    /// One instruction of a side before it is written: its action, and the seed of its place and value. The result
    /// depends on the steps before it, so that a side from which steps were removed is still well formed.
    package struct Step {
        package enum Action: CaseIterable {
            // On a list.
            case insert, erase, move, set, addToElement, below, clearList
            // On a list, next to where the step before has worked: runs, as users type and delete them.
            case type, delete, setNext
            // On other fields of an object.
            case setValue, setCounter, add, setInsert, setErase, clearSet, setEntry, clearDictionary, setMixed
            // On objects, classes and columns.
            case create, eraseObject, addTable, eraseTable, addColumn, addLink, eraseColumn
        }

        package var action: Action
        package var seed: UInt64
        package var tag: OriginTag
        package var startsChangeset: Bool
    }

    package struct Shape {
        /// The number of objects that the steps go to; `lists` is the number of lists in each of them.
        package var objects = 1
        package var lists = 1
        package var listSize = 0
        /// One in this many elements is a container, of those at the start and of inserted ones; nil: none is.
        package var containersOneIn: Int?
        /// True if payloads are of all types instead of integers alone.
        package var hasAllTypes = false
        package var hasNaN = false
        /// One in this many instructions has a wrong size or index; nil: none has.
        package var damagedOneIn: Int?
    }

    package let seed: UInt64
    package var shape = Shape()
    package var local: [Step] = []
    package var incoming: [Step] = []

    /// - Parameters:
    ///   - seed: everything follows from it and the limit.
    ///   - sizeMax: the largest number of instructions a side.
    package init(seed: UInt64, sizeMax: Int) {
        self.seed = seed
        var random = SeededRandom(scrambling: seed)
        let (rows, columns) = Self.sizes(sizeMax, &random)
        let mix = Mix.random(&random)
        shape = Shape(random: &random, mix: mix)
        let tags = TagPattern.allCases[random.below(TagPattern.allCases.count)]
        local = Self.steps(rows, mix.local, tags, ident: 2, &random)
        incoming = Self.steps(columns, mix.incoming, tags, ident: 3, &random)
    }

    package var cells: Int { local.count * incoming.count }

    /// True if both sides only insert, erase and set elements of lists, all with the right size and index.
    package var isOrdinaryList: Bool {
        shape.damagedOneIn == nil && !shape.hasNaN
            && (local + incoming).allSatisfy { [.insert, .erase, .set, .type, .delete, .setNext].contains($0.action) }
    }

    /// The sizes of both sides: mostly small, one in eight beyond 100 × 100, where shorter ones are more likely.
    private static func sizes(_ sizeMax: Int, _ random: inout SeededRandom) -> (rows: Int, columns: Int) {
        let range: ClosedRange<Int> =
            switch random.below(16) {
            case 0..<9: 1...9
            case 9..<14: 10...100
            default: 101...400
            }
        let bounds = min(range.lowerBound, sizeMax)...min(range.upperBound, sizeMax)
        func size() -> Int {
            min(Int.random(in: bounds, using: &random), Int.random(in: bounds, using: &random))
        }
        return (size(), size())
    }

    private static func steps(
        _ count: Int, _ actions: [Step.Action], _ tags: TagPattern, ident: ClientFileID, _ random: inout SeededRandom
    ) -> [Step] {
        let stepsPerChangeset = random.pick([1, 1, 4, 16, count])
        let tags = tags.tags(count, ident: ident, &random)
        var left = 0
        return tags.map { tag in
            let startsChangeset = left == 0
            left = startsChangeset ? random.below(stepsPerChangeset) : left - 1
            return Step(action: random.pick(actions), seed: random.next(), tag: tag, startsChangeset: startsChangeset)
        }
    }
}

extension RandomMerge.Shape {
    fileprivate init(random: inout SeededRandom, mix: Mix) {
        objects = random.pick([1, 1, 1, 2, 4])
        lists = random.pick([1, 1, 1, 2])
        listSize = random.pick([0, 1, 2, 3, 5, 8, 20, 100, 400])
        if mix.isNested {
            containersOneIn = random.pick([2, 3, 8])
        } else if random.isOne(in: 8) {
            containersOneIn = random.pick([4, 30])
        }
        hasAllTypes = random.isOne(in: 3)
        hasNaN = random.isOne(in: 20)
        damagedOneIn = random.isOne(in: 12) ? random.pick([3, 20, 200]) : nil
    }
}

/// The actions of both sides. An action that is listed twice is taken twice as often.
struct Mix {
    typealias Action = RandomMerge.Step.Action

    var local: [Action]
    var incoming: [Action]

    var isNested: Bool { local.contains(.below) || incoming.contains(.below) }

    static func random(_ random: inout SeededRandom) -> Mix {
        let family = random.pick(families)
        let local = random.pick(family)
        return Mix(local: local, incoming: random.isOne(in: 2) ? local : random.pick(family))
    }

    /// Families are equally likely, but lists and runs stand in several of them.
    private static let families: [[[Action]]] = [
        lists, lists, lists, runs, runs, runs, moves, moves, nestedLists, nestedLists, values, setsAndDictionaries,
        objectsAndSchema,
        [Action.allCases],
    ]

    private static let lists: [[Action]] = [
        [.insert], [.insert, .erase], [.insert, .insert, .erase, .set], [.insert, .erase, .erase], [.erase, .set],
        [.insert, .insert, .insert, .insert, .set, .set, .erase, .erase],
    ]
    /// Runs of about as many operations as the actions that go on with one are more than the others.
    private static let runs: [[Action]] = [
        Array(repeating: .type, count: 9) + [.insert], Array(repeating: .type, count: 40) + [.insert],
        Array(repeating: .type, count: 20) + [.insert, .insert, .erase, .set],
        Array(repeating: .type, count: 12) + Array(repeating: .delete, count: 6) + [.insert, .erase],
        Array(repeating: .type, count: 8) + Array(repeating: .setNext, count: 8) + [.insert, .set],
        Array(repeating: .delete, count: 10) + [.erase, .erase, .insert], [.type],
        [.type, .type, .type, .insert, .move],
        Array(repeating: .type, count: 30) + [.insert, .below],
    ]
    private static let moves: [[Action]] = [
        [.move], [.insert, .move], [.insert, .erase, .set, .move],
        Array(repeating: .insert, count: 7) + [.erase, .erase, .move],
        Array(repeating: .insert, count: 60) + Array(repeating: .erase, count: 39) + [.move],
    ]
    private static let nestedLists: [[Action]] = [
        [.below], [.insert, .below], [.insert, .erase, .below], [.insert, .erase, .set, .below],
        [.insert, .erase, .move, .set, .below, .below],
        Array(repeating: .insert, count: 20) + Array(repeating: .erase, count: 10)
            + [.below, .clearList, .addToElement],
        [.setMixed, .below, .clearDictionary, .setEntry],
    ]
    private static let values: [[Action]] = [
        [.setValue], [.add], [.setCounter, .add], [.setValue, .setCounter, .add, .add, .setMixed],
        [.setValue, .add, .create, .eraseObject],
    ]
    private static let setsAndDictionaries: [[Action]] = [
        [.setInsert, .setErase], [.setInsert, .setInsert, .setErase, .clearSet], [.setEntry],
        [.setEntry, .setEntry, .setEntry, .clearDictionary],
        [.setInsert, .setErase, .setEntry, .eraseObject, .create],
    ]
    private static let objectsAndSchema: [[Action]] = [
        [.create, .eraseObject, .setValue, .insert], [.addTable, .addColumn, .addLink],
        [.addColumn, .addColumn, .setValue, .setValue, .setValue, .eraseColumn],
        [.create, .setValue, .insert, .setEntry, .addTable, .addColumn, .addLink, .eraseTable, .eraseColumn],
        Array(repeating: .create, count: 30) + Array(repeating: .setValue, count: 30) + [.addLink, .eraseTable],
    ]
}

/// The order of the origin tags along the sides.
enum TagPattern: CaseIterable {
    /// Each side has one, or both the same.
    case one, equal
    /// They never decrease on a side: at random, or always newer than the other side's step before.
    case monotone, interleaved
    case arbitrary
    /// As `arbitrary`, with changes of several authors on each side.
    case severalAuthors

    func tags(_ count: Int, ident: ClientFileID, _ random: inout SeededRandom) -> [OriginTag] {
        switch self {
        case .equal: return Array(repeating: OriginTag(timestamp: 7, ident: 2), count: count)
        case .one: return Array(repeating: OriginTag(timestamp: time(random.below(3)), ident: ident), count: count)
        case .interleaved: return (0..<count).map { OriginTag(timestamp: time($0), ident: ident) }
        case .monotone:
            return timestamps(count, &random).sorted().map { OriginTag(timestamp: $0, ident: ident) }
        case .arbitrary: return timestamps(count, &random).map { OriginTag(timestamp: $0, ident: ident) }
        case .severalAuthors:
            return timestamps(count, &random).map {
                OriginTag(timestamp: $0, ident: random.isOne(in: 2) ? ident : ident + 2)
            }
        }
    }

    private func timestamps(_ count: Int, _ random: inout SeededRandom) -> [ChangesetTime] {
        (0..<count).map { _ in time(random.upTo(count)) }
    }

    private func time(_ milliseconds: Int) -> ChangesetTime { ChangesetTime(milliseconds) }
}
