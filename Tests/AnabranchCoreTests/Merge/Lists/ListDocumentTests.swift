import AnabranchTesting
import Testing

@testable import AnabranchCore

/// The replayed list against an array that does the same, with so many operations that leaves, groups and spans are split.
@Suite struct ListDocumentTests {
    private enum Pattern: CaseIterable { case anywhere, atTheFront, atTheEnd, atOnePlace }

    @Test func documentIsTheArrayThatDoesTheSame() {
        for seed in Seeds.upTo(8) {
            var random = SeededRandom(seed: seed)
            let size = random.pick([0, 1, 100, 20_000])
            let pattern = Pattern.allCases[Int(seed) % Pattern.allCases.count]
            let erasures = random.pick([0, 3, 45])
            let isEqual = Self.isEqual(size: size, operations: 50_000, erasures, pattern, &random)
            #expect(isEqual, "\(Seeds.repeatCommand("documentIsTheArrayThatDoesTheSame", seed: seed))")
        }
    }

    /// - Parameter erasures: how many of a hundred operations erase.
    private static func isEqual(
        size: Int, operations: Int, _ erasures: Int, _ pattern: Pattern, _ random: inout SeededRandom
    ) -> Bool {
        var scratch = ListScratch()
        var document = ListDocument(size: UInt32(size), operations: operations, &scratch)
        var names = (0..<ListName(size)).map { $0 }
        let fixed = Double.random(in: 0..<1, using: &random)
        for operation in 0..<operations {
            let isErasure = !names.isEmpty && Int.random(in: 0..<100, using: &random) < erasures
            let last = isErasure ? names.count - 1 : names.count
            let index =
                switch pattern {
                case .anywhere: Int.random(in: 0...last, using: &random)
                case .atTheFront: min(last, Int.random(in: 0..<3, using: &random))
                case .atTheEnd: max(0, last - Int.random(in: 0..<3, using: &random))
                case .atOnePlace: Int(Double(last) * fixed)
                }
            if isErasure {
                if document.remove(at: UInt32(index)) != names.remove(at: index) { return false }
            } else {
                let right = index < names.count ? names[index] : .end
                let name = ListName.own + ListName(operation)
                if document.insert(name, at: UInt32(index)) != right { return false }
                names.insert(name, at: index)
            }
        }
        return names.indices.allSatisfy { document.name(at: UInt32($0)) == names[$0] }
            && document.size == UInt32(names.count)
    }
}
