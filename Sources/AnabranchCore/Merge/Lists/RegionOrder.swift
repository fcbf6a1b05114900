/// Finds, for one region of a list, where the inserts of both sides stand relative to each other (`Spec/Transform.md`,
/// section 13.3).
///
/// The two sides' operations are taken in one sequence in which, of two inserts that may meet at one place, the older
/// comes first. After each of them two documents are known, one per side. The document of a side holds what this side
/// sees: the elements it has not erased. Before each of its elements stand, as a group, the other side's inserts that
/// lie between it and its left neighbour, in the order that they have for this side. Inserts that were erased again
/// stay in their group, because their own instructions still need a place.
///
/// A new element comes directly left of the right neighbour that its side sees, hence right of the whole group there:
/// all that it ties with is older. For the other side it comes directly right of its left neighbour among the elements
/// that neither side has erased, hence left of elements which its own side has erased: those do not separate it from
/// what comes later.
///
/// Only when an element disappears can something be in the wrong place: an insert right of it may be younger than the
/// operation that erased an element left of it, and now nothing separates the two any more. `moveLeft` takes such
/// inserts to the left.
struct RegionOrder: BitwiseCopyable {
    private static let none = NodeLinks.none
    static let front: UInt32 = 0
    static let end: UInt32 = 1
    static let firstBase: UInt32 = 2

    /// The elements that one side sees.
    private struct Document: BitwiseCopyable {
        /// The neighbours of elements in this document, from `front` to `end`; of the other side's inserts, the
        /// neighbours in the group that are not erased.
        let links: NodeLinks
        /// The group before each element: all its inserts, and those that are not erased.
        let groups: NodeLists
        let live: NodeLists
        /// The number of the operation with which this side erased the element, `none` if it did not.
        let erasedBy: ScratchBuffer<UInt32>

        /// - Parameter groupLinks: the neighbours of inserts in their groups, erased ones included.
        init(_ capacity: Int, groupLinks: NodeLinks, _ memory: inout ScratchMemory) {
            links = NodeLinks(capacity, &memory)
            groups = NodeLists(groupLinks, capacity, &memory)
            live = NodeLists(links, capacity, &memory)
            erasedBy = memory.take(capacity)
        }

        @inline(__always)
        func add(_ node: UInt32) {
            groups.makeEmpty(node)
            live.makeEmpty(node)
            erasedBy[node] = none
        }

        @inline(__always)
        func isErased(_ node: UInt32) -> Bool { erasedBy[node] != none }
    }

    private let documents: ScratchBuffer<Document>
    /// The first insert, and the end of the nodes.
    private var inserts: UInt32 = 0
    private var count: UInt32 = 0
    /// Of each insert, its side.
    private let side: ScratchBuffer<UInt8>
    /// Of each insert, the number of its operation.
    private let insertedBy: ScratchBuffer<UInt32>
    /// Of each insert, the number of elements that it inserts.
    private let sizes: ScratchBuffer<UInt32>
    /// Of each insert, its neighbours in the group.
    private let groupLinks: NodeLinks
    /// Groups as trees of inserts.
    private let parent: ScratchBuffer<UInt32>
    /// Of each root of a group, the element that the group stands before.
    private let owner: ScratchBuffer<UInt32>
    /// Of each root of a group, the largest `insertedBy`.
    private let youngest: ScratchBuffer<UInt32>
    /// The number of steps that walks may still take, so that they cannot cost more than the region's grid.
    private var steps = 0

    /// - Parameter capacity: the most removable elements and inserts that a region has together.
    init(capacity: Int, _ memory: inout ScratchMemory) {
        let nodes = capacity + Int(Self.firstBase)
        groupLinks = NodeLinks(nodes, &memory)
        documents = memory.take(2)
        documents[0] = Document(nodes, groupLinks: groupLinks, &memory)
        documents[1] = Document(nodes, groupLinks: groupLinks, &memory)
        side = memory.take(nodes)
        insertedBy = memory.take(nodes)
        sizes = memory.take(nodes)
        parent = memory.take(nodes)
        owner = memory.take(nodes)
        youngest = memory.take(nodes)
    }

    /// Starts with a region that has `base` removable elements.
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
                document.links.join(last, node)
                last = node
            }
            document.links.join(last, Self.end)
        }
    }

    /// Adds an insert of a side left of the element `right` of its document; nil if that is too much work.
    @inline(__always)
    mutating func insert(_ own: Int, count size: UInt32, left right: UInt32, at time: UInt32) -> UInt32? {
        let (mine, theirs) = (documents[own], documents[1 - own])
        guard let left = leftNeighbour(mine, theirs, right) else { return nil }
        let node = count
        count += 1
        side[node] = UInt8(own)
        insertedBy[node] = time
        sizes[node] = size
        mine.add(node)
        theirs.erasedBy[node] = Self.none

        mine.links.insert(node, before: right)
        moveGroup(mine, from: right, to: node)

        if left >= inserts, side[left] == own {
            addToGroup(theirs, owner[root(left)], node, after: left)
        } else {
            addToGroup(theirs, theirs.links.next[left], node, after: Self.none)
        }
        if checksInvariants { checkInvariants() }
        return node
    }

    /// Erases an element of a side's document; false if that is too much work.
    @inline(__always)
    mutating func erase(_ own: Int, _ node: UInt32, at time: UInt32) -> Bool {
        let (mine, theirs) = (documents[own], documents[1 - own])
        mine.erasedBy[node] = time
        if node >= inserts { theirs.live.remove(node, from: owner[root(node)]) }
        let (left, right) = (mine.links.previous[node], mine.links.next[node])
        mine.links.join(left, right)

        let group = mine.groups.first[right]
        let mayMoveLeft =
            group != Self.none && theirs.isErased(left) && mine.live.last[node] == Self.none
            && youngest[root(group)] > theirs.erasedBy[left]
        prependGroup(mine, from: node, to: right)
        if checksInvariants, !mayMoveLeft { checkInvariants() }
        return !mayMoveLeft || moveLeft(mine, theirs, before: right, from: group)
    }

    /// The nearest element left of `right`'s place in a side's document that neither side has erased.
    @inline(__always)
    private mutating func leftNeighbour(_ mine: Document, _ theirs: Document, _ right: UInt32) -> UInt32? {
        var element = right
        while true {
            if mine.live.last[element] != Self.none { return mine.live.last[element] }
            element = mine.links.previous[element]
            if theirs.erasedBy[element] == Self.none { return element }
            steps -= 1
            if steps < 0 { return nil }
        }
    }

    // MARK: The result

    /// The inserts of the other side to the left of an insert: the number of those that remain at the end, and whether
    /// there are any, erased ones included (nil if that is not known).
    typealias Left = (remaining: Int32, any: Bool?)

    /// Calls back with each insert of a side in turn. Ends the merge: ages are forgotten.
    func forEachInsert(of own: Int, _ body: (Left) -> Void) {
        let (numbers, isBehind) = (insertedBy, youngest)
        count(documents[1 - own], numbers)
        let hasErased = markBehindGroups(documents[own], isBehind)
        for node in inserts..<count where side[node] == own {
            let remaining = Int32(numbers[owner[root(node)]])
            let isErased = documents[own].isErased(node)
            let any: Bool? = remaining > 0 ? true : !isErased ? isBehind[node] == 1 : hasErased ? nil : false
            body((remaining, any))
        }
    }

    /// Per element of a document, the number of elements that its side has inserted before it.
    private func count(_ document: Document, _ numbers: ScratchBuffer<UInt32>) {
        var (number, node) = (UInt32(0), Self.front)
        while node != Self.end {
            node = document.links.next[node]
            numbers[node] = number
            if node >= inserts { number += sizes[node] }
        }
    }

    /// Per element of a document, 1 if the other side ever inserted something before it, else 0; returns whether it
    /// ever inserted something.
    private func markBehindGroups(_ document: Document, _ marks: ScratchBuffer<UInt32>) -> Bool {
        var (mark, node) = (UInt32(0), Self.front)
        while node != Self.end {
            node = document.links.next[node]
            if document.groups.first[node] != Self.none { mark = 1 }
            marks[node] = mark
        }
        return mark == 1
    }

    // MARK: Inserts that move left

    /// Moves inserts in the group before `right`, from `first` on, to the left over everything that was erased before
    /// they were inserted; false if that is too much work.
    private mutating func moveLeft(
        _ mine: Document, _ theirs: Document, before right: UInt32, from first: UInt32
    ) -> Bool {
        var (node, leftmost) = (first, right)
        while node != Self.none {
            let next = groupLinks.next[node]
            var (host, left) = (right, groupLinks.previous[node])
            while true {
                steps -= 1
                if steps < 0 { return false }
                if left != Self.none {
                    if theirs.erasedBy[left] >= insertedBy[node] { break }
                    left = groupLinks.previous[left]
                } else {
                    let element = mine.links.previous[host]
                    if theirs.erasedBy[element] >= insertedBy[node] { break }
                    if host == leftmost { leftmost = element }
                    host = element
                    left = mine.groups.last[host]
                }
            }
            if host != right || left != groupLinks.previous[node] {
                moveInsert(mine, theirs, node, from: right, to: host, after: left)
            } else if !theirs.isErased(node) {
                break
            }
            node = next
        }
        return leftmost == right || regroup(mine, from: leftmost, through: right)
    }

    private func moveInsert(
        _ mine: Document, _ theirs: Document, _ node: UInt32, from right: UInt32, to host: UInt32, after left: UInt32
    ) {
        if !theirs.isErased(node) {
            mine.live.remove(node, from: right)
            var live = left
            while live != Self.none, theirs.isErased(live) { live = groupLinks.previous[live] }
            mine.live.add(node, to: host, after: live)
        }
        mine.groups.remove(node, from: right)
        mine.groups.add(node, to: host, after: left)
    }

    /// Rebuilds the trees of some neighbouring groups; false if that is too much work.
    private mutating func regroup(_ mine: Document, from first: UInt32, through last: UInt32) -> Bool {
        var host = first
        while true {
            let root = mine.groups.first[host]
            var size = 0
            mine.groups.forEach(of: host) { node in
                parent[node] = root
                youngest[root] = node == root ? insertedBy[node] : max(youngest[root], insertedBy[node])
                size += 1
            }
            steps -= size
            if root != Self.none { owner[root] = host }
            if host == last { return steps >= 0 }
            host = mine.links.next[host]
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

    /// Adds an insert that is not erased to the group before an element.
    @inline(__always)
    private func addToGroup(_ document: Document, _ host: UInt32, _ node: UInt32, after left: UInt32) {
        document.live.add(node, to: host, after: left)
        let first = document.groups.first[host]
        if first == Self.none {
            parent[node] = node
            owner[node] = host
            youngest[node] = insertedBy[node]
        } else {
            let root = root(first)
            parent[node] = root
            youngest[root] = max(youngest[root], insertedBy[node])
        }
        document.groups.add(node, to: host, after: left)
    }

    /// Gives a group to another element, which has none.
    @inline(__always)
    private func moveGroup(_ document: Document, from source: UInt32, to target: UInt32) {
        guard document.groups.first[source] != Self.none else { return }
        owner[root(document.groups.first[source])] = target
        document.live.move(from: source, to: target)
        document.groups.move(from: source, to: target)
    }

    private func prependGroup(_ document: Document, from source: UInt32, to target: UInt32) {
        let first = document.groups.first[target]
        guard document.groups.first[source] != Self.none else { return }
        guard first != Self.none else { return moveGroup(document, from: source, to: target) }
        let (from, to) = (root(document.groups.first[source]), root(first))
        parent[from] = to
        youngest[to] = max(youngest[to], youngest[from])
        document.groups.prepend(from: source, to: target)
        document.live.prepend(from: source, to: target)
    }

    // MARK: Invariants

    /// Above this number of nodes invariants are not looked at: it takes time in proportion to it for each operation.
    private static let checkedNodesMax = 100

    private func checkInvariants() {
        guard count <= Self.checkedNodesMax else { return }
        for own in 0...1 {
            let (mine, theirs) = (documents[own], documents[1 - own])
            var (host, length) = (Self.front, 0)
            while host != Self.end {
                let next = mine.links.next[host]
                invariant(mine.links.previous[next] == host, "the neighbours of \(next) disagree")
                invariant(next == Self.end || !mine.isErased(next), "\(next) is erased and in the document")
                length += 1
                invariant(length < Int(count), "the document is a circle")
                host = next
                checkGroup(mine, theirs, host)
            }
        }
    }

    private func checkGroup(_ mine: Document, _ theirs: Document, _ host: UInt32) {
        var (previous, live, largest) = (Self.none, mine.live.first[host], UInt32(0))
        mine.groups.forEach(of: host) { node in
            invariant(groupLinks.previous[node] == previous, "the neighbours of insert \(node) disagree")
            invariant(owner[root(node)] == host, "insert \(node) is in the group of \(host) and does not know")
            if !theirs.isErased(node) {
                invariant(live == node, "insert \(node) is not erased and not among those of \(host)")
                live = mine.links.next[node]
            }
            largest = max(largest, insertedBy[node])
            previous = node
        }
        invariant(live == Self.none && mine.groups.last[host] == previous, "the group of \(host) has another end")
        invariant(
            previous == Self.none || youngest[root(previous)] == largest, "the group of \(host) has another youngest")
    }
}
