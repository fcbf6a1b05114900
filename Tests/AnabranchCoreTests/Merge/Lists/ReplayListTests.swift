import AnabranchTesting
import Testing

@testable import AnabranchCore

/// The replayed list against an array that does the same, with so many operations that leaves, groups and spans are
/// split.
@Suite struct ReplayListTests {
    private enum Pattern: CaseIterable { case anywhere, atTheFront, atTheEnd, atOnePlace }

    @Test func theListIsTheArrayThatDoesTheSame() {
        for seed in Seeds.upTo(8) {
            var random = SeededRandom(seed: seed)
            let size = random.pick([0, 1, 100, 20_000])
            let pattern = Pattern.allCases[Int(seed) % Pattern.allCases.count]
            let erasures = random.pick([0, 3, 45])
            let isEqual = Self.isEqual(size: size, operations: 50_000, erasures, pattern, &random)
            #expect(isEqual, "\(Seeds.repeatCommand("theListIsTheArrayThatDoesTheSame", seed: seed))")
        }
    }

    /// - Parameter erasures: how many of a hundred operations erase.
    private static func isEqual(
        size: Int, operations: Int, _ erasures: Int, _ pattern: Pattern, _ random: inout SeededRandom
    ) -> Bool {
        var memory = ScratchMemory()
        var list = ReplayList(size: UInt32(size), operations: operations, &memory)
        var elements = (0..<ElementID(size)).map { $0 }
        let fixed = Double.random(in: 0..<1, using: &random)
        for operation in 0..<operations {
            let isErasure = !elements.isEmpty && Int.random(in: 0..<100, using: &random) < erasures
            let last = isErasure ? elements.count - 1 : elements.count
            let index =
                switch pattern {
                case .anywhere: Int.random(in: 0...last, using: &random)
                case .atTheFront: min(last, Int.random(in: 0..<3, using: &random))
                case .atTheEnd: max(0, last - Int.random(in: 0..<3, using: &random))
                case .atOnePlace: Int(Double(last) * fixed)
                }
            if isErasure {
                if list.remove(at: UInt32(index)) != elements.remove(at: index) { return false }
            } else {
                let right = index < elements.count ? elements[index] : .end
                let element = ElementID.own + ElementID(operation)
                if list.insert(element, at: UInt32(index)) != right { return false }
                elements.insert(element, at: index)
            }
        }
        return elements.indices.allSatisfy { list.element(at: UInt32($0)) == elements[$0] }
            && list.size == UInt32(elements.count)
    }
}
