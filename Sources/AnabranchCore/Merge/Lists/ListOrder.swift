/// Finds, for one region of a list, where the inserts of both sides stand relative to each other.
///
/// The two sides' operations are taken in one sequence in which, of two inserts that may meet at one place, the older
/// comes first. After each of them two documents are known, one a side. The document of a side holds what this side
/// sees: the elements it has not erased. Before each of its elements stand, as a group, the other side's inserts that
/// lie between it and its left neighbour, in the order which they have for this side. Inserts that were erased again
/// stay in their group, because their own instructions still want a place.
///
/// A new element comes directly left of the right neighbour that its side sees, hence right of the whole group there:
/// whatever it ties with is older. For the other side it comes directly right of its left neighbour among the elements
/// that neither side has erased, hence left of elements which its own side has erased: those do not separate it from
/// what comes later.
///
/// Only when an element disappears can something be in the wrong place: an insert right of it may be younger than the
/// death of an element left of it, and now nothing separates the two any more. `float` carries such inserts to the
/// left.
struct ListOrder: BitwiseCopyable {
    private static let none = UInt32.max
    static let front: UInt32 = 0
    static let end: UInt32 = 1
    static let firstBase: UInt32 = 2

    /// What one side sees.
    private struct Document: BitwiseCopyable {
        /// Neighbours of the elements in this document; of the other side's inserts: the neighbours in the group that
        /// are not erased.
        let next: Slab<UInt32>
        let previous: Slab<UInt32>
        /// The group before an element: its first and last insert that is not erased, and its first and last one.
        let first: Slab<UInt32>
        let last: Slab<UInt32>
        let head: Slab<UInt32>
        let tail: Slab<UInt32>
        /// The number of the operation with which this side erased the element, `none` if it did not.
        let death: Slab<UInt32>

        init(_ capacity: Int, _ scratch: inout ListScratch) {
            next = scratch.take(capacity)
            previous = scratch.take(capacity)
            first = scratch.take(capacity)
            last = scratch.take(capacity)
            head = scratch.take(capacity)
            tail = scratch.take(capacity)
            death = scratch.take(capacity)
        }

        @inline(__always)
        func add(_ node: UInt32) {
            first[node] = none
            last[node] = none
            head[node] = none
            tail[node] = none
            death[node] = none
        }
    }

    private let documents: Slab<Document>
    private var inserts: UInt32 = 0
    private var count: UInt32 = 0
    /// Of inserts: the side, the operation's number, and the neighbours in the group.
    private let side: Slab<UInt8>
    private let birth: Slab<UInt32>
    private let after: Slab<UInt32>
    private let before: Slab<UInt32>
    /// Groups as trees of inserts; the element a group stands before, and the age of its youngest insert, are at the
    /// root.
    private let parent: Slab<UInt32>
    private let owner: Slab<UInt32>
    private let youngest: Slab<UInt32>
    /// What may still be spent on walks, so that they cannot cost more than the region's grid.
    private var steps = 0

    /// - Parameter capacity: the most removable elements and inserts that a region has together.
    init(capacity: Int, _ scratch: inout ListScratch) {
        let nodes = capacity + Int(Self.firstBase)
        documents = scratch.take(2)
        documents[0] = Document(nodes, &scratch)
        documents[1] = Document(nodes, &scratch)
        side = scratch.take(nodes)
        birth = scratch.take(nodes)
        after = scratch.take(nodes)
        before = scratch.take(nodes)
        parent = scratch.take(nodes)
        owner = scratch.take(nodes)
        youngest = scratch.take(nodes)
    }

    /// Starts with a region that has so many removable elements.
    mutating func begin(base: Int, operations: Int) {
        inserts = Self.firstBase + UInt32(base)
        count = inserts
        steps = 16 * operations
        for document in documents {
            document.add(Self.front)
            document.add(Self.end)
            var last = Self.front
            for node in Self.firstBase..<inserts {
                document.add(node)
                join(document.next, document.previous, last, node)
                last = node
            }
            join(document.next, document.previous, last, Self.end)
        }
    }

    /// Adds an insert of a side left of the element `right` of its document; nil if that is too much work.
    @inline(__always)
    mutating func insert(_ own: Int, left right: UInt32, at time: UInt32) -> UInt32? {
        let (mine, theirs) = (documents[own], documents[1 - own])
        guard let left = leftNeighbour(mine, theirs, right) else { return nil }
        let node = count
        count += 1
        side[node] = UInt8(own)
        birth[node] = time
        mine.add(node)
        theirs.death[node] = Self.none

        link(mine.next, mine.previous, mine.previous[right], node, right)
        moveGroup(mine, from: right, to: node)

        if left >= inserts, side[left] == own {
            let host = owner[root(left)]
            addLive(theirs, host, node, after: left)
            addToGroup(theirs, host, node, after: left)
        } else {
            let host = theirs.next[left]
            addLive(theirs, host, node, after: Self.none)
            addToGroup(theirs, host, node, after: Self.none)
        }
        return node
    }

    /// Erases an element of a side's document; false if that is too much work.
    @inline(__always)
    mutating func erase(_ own: Int, _ node: UInt32, at time: UInt32) -> Bool {
        let (mine, theirs) = (documents[own], documents[1 - own])
        mine.death[node] = time
        if node >= inserts { removeLive(theirs, owner[root(node)], node) }
        let (left, right) = (mine.previous[node], mine.next[node])
        mine.next[left] = right
        mine.previous[right] = left

        let group = mine.head[right]
        let mayFloat =
            group != Self.none && theirs.death[left] != Self.none && mine.last[node] == Self.none
            && youngest[root(group)] > theirs.death[left]
        prependGroup(mine, from: node, to: right)
        return !mayFloat || float(mine, theirs, before: right, from: group)
    }

    /// The nearest element left of `right`'s place in a side's document that neither side has erased.
    @inline(__always)
    private mutating func leftNeighbour(_ mine: Document, _ theirs: Document, _ right: UInt32) -> UInt32? {
        var element = right
        while true {
            if mine.last[element] != Self.none { return mine.last[element] }
            element = mine.previous[element]
            if theirs.death[element] == Self.none { return element }
            steps -= 1
            if steps < 0 { return nil }
        }
    }

    /// What an insert has left of it: inserts of the other side that remain at the end, and whether there are any,
    /// erased ones included (nil if that is not known).
    typealias Left = (remaining: Int32, any: Bool?)

    /// Calls back with each insert of a side in turn. Ends the merge: ages are forgotten.
    func forEachInsert(of own: Int, _ body: (Left) -> Void) {
        let (numbers, isBehind) = (birth, youngest)
        count(documents[1 - own], numbers)
        let hasErased = markBehindGroups(documents[own], isBehind)
        for node in inserts..<count where side[node] == own {
            let remaining = Int32(numbers[owner[root(node)]])
            let isErased = documents[own].death[node] != Self.none
            let any: Bool? = remaining > 0 ? true : !isErased ? isBehind[node] == 1 : hasErased ? nil : false
            body((remaining, any))
        }
    }

    /// Per element of a document, the number of its side's inserts before it.
    private func count(_ document: Document, _ numbers: Slab<UInt32>) {
        var (number, node) = (UInt32(0), Self.front)
        while node != Self.end {
            node = document.next[node]
            numbers[node] = number
            if node >= inserts { number += 1 }
        }
    }

    /// Per element of a document, 1 if the other side ever inserted something before it, else 0; returns whether it
    /// ever inserted something.
    private func markBehindGroups(_ document: Document, _ marks: Slab<UInt32>) -> Bool {
        var (mark, node) = (UInt32(0), Self.front)
        while node != Self.end {
            node = document.next[node]
            if document.head[node] != Self.none { mark = 1 }
            marks[node] = mark
        }
        return mark == 1
    }

    // MARK: Floating

    /// Carries inserts in the group before `right`, from `first` on, to the left over everything that was erased before
    /// they were inserted; false if that is too much work.
    private mutating func float(_ mine: Document, _ theirs: Document, before right: UInt32, from first: UInt32) -> Bool
    {
        var (node, leftmost) = (first, right)
        while node != Self.none {
            let next = after[node]
            var (host, left) = (right, before[node])
            while true {
                steps -= 1
                if steps < 0 { return false }
                if left != Self.none {
                    if theirs.death[left] >= birth[node] { break }
                    left = before[left]
                } else {
                    let element = mine.previous[host]
                    if theirs.death[element] >= birth[node] { break }
                    if host == leftmost { leftmost = element }
                    host = element
                    left = mine.tail[host]
                }
            }
            if host != right || left != before[node] {
                carry(mine, theirs, node, from: right, to: host, after: left)
            } else if theirs.death[node] == Self.none {
                break
            }
            node = next
        }
        return leftmost == right || regroup(mine, from: leftmost, through: right)
    }

    private func carry(
        _ mine: Document, _ theirs: Document, _ node: UInt32, from right: UInt32, to host: UInt32, after left: UInt32
    ) {
        if theirs.death[node] == Self.none {
            removeLive(mine, right, node)
            var live = left
            while live != Self.none, theirs.death[live] != Self.none { live = before[live] }
            addLive(mine, host, node, after: live)
        }
        unchain(mine, right, node)
        chain(mine, host, node, after: left)
    }

    /// Makes the trees of some neighbouring groups anew.
    private mutating func regroup(_ mine: Document, from first: UInt32, through last: UInt32) -> Bool {
        var host = first
        while true {
            let root = mine.head[host]
            var node = root
            while node != Self.none {
                parent[node] = root
                youngest[root] = node == root ? birth[node] : max(youngest[root], birth[node])
                node = after[node]
                steps -= 1
            }
            if root != Self.none { owner[root] = host }
            if host == last { return steps >= 0 }
            host = mine.next[host]
        }
    }

    // MARK: Groups

    private func root(_ insert: UInt32) -> UInt32 {
        var node = insert
        while parent[node] != node {
            parent[node] = parent[parent[node]]
            node = parent[node]
        }
        return node
    }

    @inline(__always)
    private func addToGroup(_ document: Document, _ host: UInt32, _ node: UInt32, after left: UInt32) {
        let head = document.head[host]
        if head == Self.none {
            parent[node] = node
            owner[node] = host
            youngest[node] = birth[node]
        } else {
            let root = root(head)
            parent[node] = root
            youngest[root] = max(youngest[root], birth[node])
        }
        chain(document, host, node, after: left)
    }

    @inline(__always)
    private func moveGroup(_ document: Document, from source: UInt32, to target: UInt32) {
        guard document.head[source] != Self.none else { return }
        owner[root(document.head[source])] = target
        Self.move(document.first, from: source, to: target)
        Self.move(document.last, from: source, to: target)
        Self.move(document.head, from: source, to: target)
        Self.move(document.tail, from: source, to: target)
    }

    @inline(__always)
    private static func move(_ ends: Slab<UInt32>, from source: UInt32, to target: UInt32) {
        ends[target] = ends[source]
        ends[source] = none
    }

    private func prependGroup(_ document: Document, from source: UInt32, to target: UInt32) {
        let head = document.head[target]
        guard document.head[source] != Self.none else { return }
        guard head != Self.none else { return moveGroup(document, from: source, to: target) }
        let (from, to) = (root(document.head[source]), root(head))
        parent[from] = to
        youngest[to] = max(youngest[to], youngest[from])
        join(after, before, document.tail[source], head)
        document.head[target] = document.head[source]
        guard document.first[source] != Self.none else { return }
        if document.first[target] == Self.none {
            document.last[target] = document.last[source]
        } else {
            join(document.next, document.previous, document.last[source], document.first[target])
        }
        document.first[target] = document.first[source]
    }

    // MARK: Chains

    @inline(__always)
    private func join(_ next: Slab<UInt32>, _ previous: Slab<UInt32>, _ left: UInt32, _ right: UInt32) {
        next[left] = right
        previous[right] = left
    }

    @inline(__always)
    private func link(_ next: Slab<UInt32>, _ previous: Slab<UInt32>, _ left: UInt32, _ node: UInt32, _ right: UInt32) {
        join(next, previous, left, node)
        join(next, previous, node, right)
    }

    @inline(__always)
    private func addLive(_ document: Document, _ host: UInt32, _ node: UInt32, after left: UInt32) {
        add(node, after: left, document.next, document.previous, &document.first[Int(host)], &document.last[Int(host)])
    }

    @inline(__always)
    private func removeLive(_ document: Document, _ host: UInt32, _ node: UInt32) {
        remove(node, document.next, document.previous, &document.first[Int(host)], &document.last[Int(host)])
    }

    @inline(__always)
    private func chain(_ document: Document, _ host: UInt32, _ node: UInt32, after left: UInt32) {
        add(node, after: left, after, before, &document.head[Int(host)], &document.tail[Int(host)])
    }

    @inline(__always)
    private func unchain(_ document: Document, _ host: UInt32, _ node: UInt32) {
        remove(node, after, before, &document.head[Int(host)], &document.tail[Int(host)])
    }

    @inline(__always)
    private func add(
        _ node: UInt32, after left: UInt32, _ next: Slab<UInt32>, _ previous: Slab<UInt32>, _ first: inout UInt32,
        _ last: inout UInt32
    ) {
        let right = left == Self.none ? first : next[left]
        next[node] = right
        previous[node] = left
        if left == Self.none { first = node } else { next[left] = node }
        if right == Self.none { last = node } else { previous[right] = node }
    }

    @inline(__always)
    private func remove(
        _ node: UInt32, _ next: Slab<UInt32>, _ previous: Slab<UInt32>, _ first: inout UInt32, _ last: inout UInt32
    ) {
        let (left, right) = (previous[node], next[node])
        if left == Self.none { first = right } else { next[left] = right }
        if right == Self.none { last = left } else { previous[right] = left }
    }
}
