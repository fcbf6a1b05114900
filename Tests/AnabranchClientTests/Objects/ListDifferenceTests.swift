@testable import AnabranchClient
import Testing

@Suite struct ListDifferenceTests {
    /// All pairs of lists of up to five elements of three kinds.
    @Test func theStepsLeadFromOneListToTheOther() {
        let lists = (0...5).flatMap { count in
            (0..<Int(pow3(count))).map { number in (0..<count).map { number / pow3($0) % 3 } }
        }
        for old in lists where old.count < 5 {
            for new in lists {
                let difference = ListDifference(from: old, to: new)
                var list = old
                for step in difference.steps {
                    switch step {
                    case .remove(let index): list.remove(at: index)
                    case .insert(let index, let element): list.insert(new[element], at: index)
                    case .replace(let index, let before, let element):
                        #expect(list[index] == old[before])
                        list[index] = new[element]
                    }
                }
                #expect(list == new, "\(old) → \(new): \(difference.steps)")
                let kept = old.indices.filter { index in
                    !difference.removed.contains(index) && !difference.replaced.contains { $0.old == index }
                }
                let found = new.indices.filter { index in
                    !difference.inserted.contains(index) && !difference.replaced.contains { $0.new == index }
                }
                #expect(kept.map { old[$0] } == found.map { new[$0] })
                #expect(kept.count == longestCommon(old, new), "\(old) → \(new): \(difference.steps)")
            }
        }
    }

    @Test func longListsThatDifferInFewPlacesAreCompared() {
        let old = Array(0..<50_000)
        var new = old
        new.remove(at: 40_000)
        new.insert(-1, at: 10)
        #expect(ListDifference(from: old, to: new).steps == [.insert(at: 10, element: 10), .remove(at: 40_001)])
    }

    private func pow3(_ exponent: Int) -> Int { (0..<exponent).reduce(1) { power, _ in power * 3 } }

    private func longestCommon(_ left: [Int], _ right: [Int]) -> Int {
        guard let first = left.first else { return 0 }
        let without = longestCommon(Array(left.dropFirst()), right)
        guard let index = right.firstIndex(of: first) else { return without }
        return max(without, 1 + longestCommon(Array(left.dropFirst()), Array(right.dropFirst(index + 1))))
    }
}
