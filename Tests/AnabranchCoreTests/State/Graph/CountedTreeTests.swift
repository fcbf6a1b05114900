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
                    let count = generator.isOne(in: 50) ? Int.random(in: 1...600, using: &generator) : 1
                    if count == 1 {
                        tree.insert(Number(value: step), at: index)
                    } else {
                        tree.insert(count, at: index) { Number(value: step + $0) }
                    }
                    array.insert(contentsOf: step..<step + count, at: index)
                } else {
                    let index = Int.random(in: 0..<array.count, using: &generator)
                    let removed = tree.remove(at: index).value
                    #expect(removed == array.remove(at: index))
                }
                if !array.isEmpty, generator.isOne(in: 10) {
                    let index = Int.random(in: 0..<array.count, using: &generator)
                    tree.modify(at: index) { $0.value += 1 }
                    array[index] += 1
                    let element = tree.loadedElement(at: index)
                    #expect(element.value == array[index])
                }
                if generator.isOne(in: 500) { copies.append((tree, array)) }
            }
            for copy in copies + [(tree, array)] {
                let isEqual = copy.tree.map { $0.value } == copy.array && copy.tree.count == copy.array.count
                #expect(isEqual, "\(Seeds.repeatCommand("CountedTreeTests", seed: seed))")
            }
        }
    }

    /// Also one leaf more than a node takes, at each level.
    @Test(arguments: Array(1...70) + [1_025]) func storedLeavesMakeATreeThatShrinksToNothing(leafCount: Int) throws {
        var generator = SeededRandom(seed: UInt64(leafCount))
        let leaves = (0..<leafCount).map { leaf in
            (0..<Int.random(in: 1...4, using: &generator)).map { 4 * leaf + $0 }
        }
        let stored = leaves.flatMap { $0 }
        let ways: [(Int) -> Int] = [{ $0 - 1 }, { _ in 0 }, { Int.random(in: 0..<$0, using: &generator) }]
        for next in ways {
            var (tree, array) = (Shelf().tree(of: leaves), stored)
            #expect(try tree.map(\.value) == array)
            while !array.isEmpty {
                let index = next(array.count)
                #expect(try tree.remove(at: index).value == array.remove(at: index))
                guard leafCount <= 70 else { continue }
                #expect(try tree.map(\.value) == array)
            }
            #expect(tree.isEmpty)
        }
    }

    /// Nodes that are read when they are needed, beside copies that must not change; and a read that fails leaves the
    /// tree as it was.
    @Test func storedTreesAreEditedAsArrays() throws {
        for seed in Seeds.upTo(20) {
            let hint = Comment(rawValue: Seeds.repeatCommand("storedTreesAreEditedAsArrays", seed: seed))
            var random = SeededRandom(seed: seed)
            let shelf = Shelf()
            let leaves = (0..<random.below(300) + 1).map { leaf in (0..<random.below(4) + 1).map { 4 * leaf + $0 } }
            let start = shelf.tree(of: leaves), stored = leaves.flatMap { $0 }
            var (tree, array) = (start, stored)
            for step in 0..<600 where !array.isEmpty {
                shelf.readsLeft = random.isOne(in: 3) ? random.below(4) : .max
                let index = random.below(array.count)
                do {
                    switch random.below(4) {
                    case 0:
                        let count = random.below(40) + 2
                        try tree.insert(count, at: index) { StoredNumber(value: step + $0) }
                        array.insert(contentsOf: step..<step + count, at: index)
                    case 1:
                        try tree.insert(StoredNumber(value: step), at: index)
                        array.insert(step, at: index)
                    case 2:
                        #expect(try tree.remove(at: index).value == array[index], hint)
                        array.remove(at: index)
                    default:
                        try tree.modify(at: index) { $0.value += 1 }
                        array[index] += 1
                        #expect(try tree[index].value == array[index], hint)
                    }
                } catch {
                    // Then the tree is as it was.
                }
                shelf.readsLeft = .max
                if random.isOne(in: 20) { #expect(try tree.map(\.value) == array, hint) }
            }
            #expect(try tree.map(\.value) == array, hint)
            #expect(try start.map(\.value) == stored, hint)
        }
    }

    /// Of a million elements only a path is read, and with it the neighbours that a removal may need.
    @Test func onlyWhatIsNeededIsRead() throws {
        let shelf = Shelf()
        var tree = shelf.tree(of: (0..<100_000).map { [$0, $0, $0] })
        shelf.readsLeft = 5
        try tree.insert(StoredNumber(value: 7), at: 150_000)
        #expect(shelf.readsLeft >= 0 && shelf.readsLeft < 5)
        // The way is in memory now.
        shelf.readsLeft = 0
        try tree.modify(at: 150_000) { $0.value = 8 }
        #expect(throws: Shelf.Failure.self) { try tree.modify(at: 0) { $0.value = 8 } }
    }

    /// Each node is read when the cursor comes to it, once, and the cursor throws where one cannot be read.
    @Test(arguments: [0, 1, 2, 33, 1_025]) func aCursorWalksFromAnyIndexToTheEnd(leafCount: Int) throws {
        let shelf = Shelf()
        let tree = shelf.tree(of: (0..<leafCount).map { [2 * $0, 2 * $0 + 1] })
        for start in Set([0, 1, leafCount, leafCount + 1, 2 * leafCount - 1, 2 * leafCount]).sorted() {
            guard 0...tree.count ~= start else { continue }
            shelf.readsLeft = .max
            var cursor = try TreeCursor(tree, from: start)
            for value in start..<tree.count { #expect(try cursor.next()?.value == value) }
            for _ in 0..<2 { #expect(try cursor.next() == nil) }
            guard leafCount > 0 else { continue }
            let reads = Int.max - shelf.readsLeft
            shelf.readsLeft = reads - 1
            #expect(throws: Shelf.Failure.self) {
                var cursor = try TreeCursor(tree, from: start)
                while try cursor.next() != nil {}
            }
            #expect(reads <= shelf.nodeCount)
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
            let values = tree.map { $0.value }
            #expect(values == present.sorted(), "\(Seeds.repeatCommand("CountedTreeTests", seed: seed))")
        }
    }

    /// Small leaves and few elements, so that trees become deep.
    private struct Number: TreeElement {
        var value: Int
        var size: Int { 8 }
        var separator: NoSeparator { NoSeparator() }
        static var leafCountMax: Int { 4 }
    }

    private struct Sorted: TreeElement {
        var value: Int
        var size: Int { 8 }
        var separator: Int { value }
        static var leafCountMax: Int { 4 }
    }
}

/// An element of trees whose nodes are on a shelf.
private struct StoredNumber: TreeElement {
    var value: Int
    var size: Int { 8 }
    var separator: NoSeparator { NoSeparator() }
    static var leafCountMax: Int { 4 }

    static func node(
        _ stored: StoredNode<Shelf>, isKept: Bool
    ) throws(Shelf.Failure) -> TreeNode<StoredNumber> {
        try stored.source.node(stored)
    }
}

/// Nodes that are read one by one, and a limit to it.
private final class Shelf: @unchecked Sendable {
    struct Failure: Error {}

    typealias Node = TreeNode<StoredNumber>

    var readsLeft = Int.max
    var nodeCount: Int { leaves.count + inner.count }
    private var leaves: [UInt64: [Int]] = [:]
    private var inner: [UInt64: [StoredNode<Shelf>]] = [:]

    func tree(of leaves: [[Int]]) -> CountedTree<StoredNumber> {
        var level = leaves.map { leaf in
            let number = UInt64(self.leaves.count + 1)
            self.leaves[number] = leaf
            return StoredNode(
                number: number, source: self, count: leaf.count, size: 8 * leaf.count, isLeaf: true, isPlain: true)
        }
        while level.count > 1 {
            let children = level.map { Node.Child(node: Node($0), first: NoSeparator()) }
            level = Node.groups(of: children).map { group in
                let nodes = group.compactMap(\.node.stored), number = UInt64(self.leaves.count + inner.count + 1)
                inner[number] = nodes
                let count = nodes.reduce(0) { $0 + $1.count }
                return StoredNode(
                    number: number, source: self, count: count, size: 8 * count, isLeaf: false, isPlain: true)
            }
        }
        return CountedTree(root: level.first.map { Node($0) })
    }

    func node(_ stored: StoredNode<Shelf>) throws(Failure) -> Node {
        guard readsLeft > 0 else { throw Failure() }
        readsLeft -= 1
        if let leaf = leaves[stored.number] {
            return Node(leaf: ContiguousArray(leaf.map { StoredNumber(value: $0) }), as: stored)
        }
        let children = (inner[stored.number] ?? []).map { Node.Child(node: Node($0), first: NoSeparator()) }
        return Node(inner: children[...], as: stored)
    }
}
