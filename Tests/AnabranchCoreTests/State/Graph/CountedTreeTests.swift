import AnabranchTesting
import Testing

@testable import AnabranchCore

/// The tree against an array, with copies that must not change.
@Suite struct CountedTreeTests {
    @Test func randomEditsAreThoseOfAnArray() {
        for seed in Seeds.upTo(20) {
            var generator = SeededRandom(seed: seed)
            var tree = CountedTree<Number>()
            var array: [Int] = []
            var copies: [(tree: CountedTree<Number>, array: [Int])] = []
            // It grows to some thousands of elements and shrinks to none.
            for step in 0..<12_000 {
                let grows = Int.random(in: 0..<10, using: &generator) < (step < 6_000 ? 8 : 2)
                if grows || array.isEmpty {
                    let index = Int.random(in: 0...array.count, using: &generator)
                    tree.insert(Number(value: step), at: index)
                    array.insert(step, at: index)
                } else {
                    let index = Int.random(in: 0..<array.count, using: &generator)
                    #expect(tree.remove(at: index).value == array.remove(at: index))
                }
                if !array.isEmpty, generator.isOne(in: 10) {
                    let index = Int.random(in: 0..<array.count, using: &generator)
                    tree.modify(at: index) { $0.value += 1 }
                    array[index] += 1
                    #expect(tree[index].value == array[index])
                }
                if generator.isOne(in: 500) { copies.append((tree, array)) }
            }
            for copy in copies + [(tree, array)] {
                let isEqual = copy.tree.map(\.value) == copy.array && copy.tree.count == copy.array.count
                #expect(isEqual, "\(Seeds.repeatCommand("CountedTreeTests", seed: seed))")
            }
        }
    }

    /// Also one leaf more than a node takes, at each level.
    @Test(arguments: Array(1...70) + [1_025]) func storedLeavesMakeATreeThatShrinksToNothing(leafCount: Int) {
        var generator = SeededRandom(seed: UInt64(leafCount))
        let leaves = (0..<leafCount).map { leaf in
            let elements = (0..<Int.random(in: 1...4, using: &generator)).map { Number(value: 4 * leaf + $0) }
            return (number: UInt32(leaf + 1), elements: ContiguousArray(elements))
        }
        let stored = leaves.flatMap { $0.elements.map(\.value) }
        let ways: [(Int) -> Int] = [{ $0 - 1 }, { _ in 0 }, { Int.random(in: 0..<$0, using: &generator) }]
        for next in ways {
            var (tree, array) = (CountedTree(leaves: leaves), stored)
            #expect(tree.map(\.value) == array)
            while !array.isEmpty {
                let index = next(array.count)
                #expect(tree.remove(at: index).value == array.remove(at: index))
                guard leafCount <= 70 else { continue }
                #expect(tree.map(\.value) == array)
                var isEveryLeafInUse = true
                tree.forEachLeaf { isEveryLeafInUse = isEveryLeafInUse && !$0.elements.isEmpty }
                #expect(isEveryLeafInUse)
            }
            #expect(tree.isEmpty)
        }
    }

    /// Behind the last number come those that no leaf has, however many were used before.
    @Test(arguments: [UInt32.max, UInt32.max - 1, UInt32.max - 2, UInt32.max - 70] as [UInt32])
    func noTwoLeavesEverShareANumber(_ last: UInt32) {
        let leaves = [3, 4, 900, last].map { number in
            (number: number, elements: ContiguousArray((0..<4).map { Number(value: $0) }))
        }
        for seed in Seeds.upTo(10) {
            var random = SeededRandom(seed: seed)
            var tree = CountedTree(leaves: leaves)
            for step in 0..<400 {
                let copy = tree
                let index = random.below(tree.count)
                if random.isOne(in: 3) { tree.remove(at: index) } else { tree.insert(Number(value: step), at: index) }
                var numbers: [UInt32] = []
                tree.forEachLeaf { numbers.append($0.number) }
                #expect(
                    Set(numbers).count == numbers.count && !numbers.contains(0),
                    "\(Seeds.repeatCommand("noTwoLeavesEverShareANumber", seed: seed))")
                withExtendedLifetime(copy) {}
            }
        }
    }

    @Test func aSortedTreeFindsWhatItHolds() {
        for seed in Seeds.upTo(20) {
            var generator = SeededRandom(seed: seed)
            var tree = CountedTree<Sorted>()
            var present = Set<Int>()
            for _ in 0..<3_000 {
                let value = Int.random(in: 0..<1_000, using: &generator)
                let found = tree.find { $0 - value }
                #expect((found.element != nil) == present.contains(value), "seed \(seed)")
                if found.element == nil {
                    tree.insert(Sorted(value: value), at: found.index)
                    present.insert(value)
                } else if generator.isOne(in: 2) {
                    tree.remove(at: found.index)
                    present.remove(value)
                }
            }
            #expect(tree.map(\.value) == present.sorted(), "\(Seeds.repeatCommand("CountedTreeTests", seed: seed))")
        }
    }

    /// Small leaves and few elements, so that trees become deep.
    private struct Number: TreeElement {
        var value: Int
        var separator: NoSeparator { NoSeparator() }
        static var leafCountMax: Int { 4 }
    }

    private struct Sorted: TreeElement {
        var value: Int
        var separator: Int { value }
        static var leafCountMax: Int { 4 }
    }
}
