import AnabranchTesting
import Testing

@testable import AnabranchCore

/// Edits of one list in a row, which are applied together, against the same in changesets of their own.
@Suite struct ListStretchTests {
    @Test func editsInARowDoWhatTheyDoOneByOne() throws {
        for seed in Seeds.upTo(400) {
            var random = SeededRandom(seed: seed)
            let steps = Self.steps(&random)
            let limit = random.isOne(in: 3) ? 600 + random.below(3000) : Int.max
            let together = try Outcome(of: [steps], objectBytesMax: limit)
            let apart = try Outcome(of: steps.map { [$0] }, objectBytesMax: limit)
            #expect(
                together == apart,
                "\(Seeds.repeatCommand("editsInARowDoWhatTheyDoOneByOne", seed: seed))")
        }
    }

    private struct Outcome: Equatable {
        var state: String
        /// The size that the object is known to have, and the one that it has.
        var size: [Int]
        /// The number of each step that failed, and the reason.
        var failures: [String] = []

        init(of changesets: [[Step]], objectBytesMax: Int) throws {
            var (graph, failures, first) = (try ApplyTests.graph(), [String](), 0)
            for steps in changesets {
                var arena = try Replay.decode(changeset(steps))
                _ = try graph.applyTransactions(
                    [0], of: &arena, refusing: [],
                    within: ApplyLimits(objectBytesMax: objectBytesMax, loadedBytesMax: .max)
                ) { error in
                    failures.append("\(first + (error.instruction ?? 0)): \(error.code)")
                    return true
                }
                first += steps.count
            }
            state = "\(try graph.json)"
            size = graph.objects.flatMap { $0.flatMap { entry in [entry.size, entry.fields?.size ?? 0] } }
            self.failures = failures
        }
    }

    /// Runs of inserts with other edits between, some of which cannot be applied.
    private static func steps(_ random: inout SeededRandom) -> [Step] {
        var counts = ["l": 2, "lm": 2, "la": 0]
        var (field, index) = ("l", 0)
        return (0..<random.below(300) + 1).map { _ in
            if random.isOne(in: 30) { (field, index) = (random.pick(["l", "lm", "la"]), 0) }
            let size = counts[field] ?? 0
            let value = Self.value(for: field, &random)
            let wrong = random.isOne(in: 40) ? random.pick([1, 2]) : 0
            if random.isOne(in: 8) { index = random.upTo(size) }
            let place = Place(field: field, path: [.index(UInt32(wrong > 1 ? size + wrong : min(index, size)))])
            switch random.below(size == 0 ? 10 : 16) {
            case 10, 11:
                index = min(index, size - 1)
                let place = Place(field: field, path: [.index(UInt32(index))])
                if wrong == 0 { counts[field] = size - 1 }
                return .erase(place, size: UInt32(size + wrong))
            case 12, 13:
                let place = Place(field: field, path: [.index(UInt32(random.below(size) + 9 * wrong))])
                return .update(place, value.payload, size: UInt32(size))
            case 14 where size > 1:
                let from = random.below(size)
                let place = Place(field: field, path: [.index(UInt32(from))])
                return .move(place, to: UInt32((from + 1) % size), size: UInt32(size + wrong))
            default:
                if wrong == 0, value.fits { (counts[field], index) = (size + 1, min(index, size) + 1) }
                return .insert(place, value.payload, size: UInt32(size + (wrong > 1 ? 0 : wrong)))
            }
        }
    }

    private static func value(for field: String, _ random: inout SeededRandom) -> (payload: Payload, fits: Bool) {
        let number = Int64(random.below(100))
        if random.isOne(in: 25) { return (field == "l" ? .text("a word") : .objectValue, false) }
        switch field {
        case "l": return (.int(number), true)
        case "la": return (.link("A", number % 3), true)
        default: return (random.pick([.int(number), .text("text \(number)"), .null, .list, .double(0.5)]), true)
        }
    }
}
