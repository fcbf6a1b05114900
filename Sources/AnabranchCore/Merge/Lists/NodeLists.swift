// Doubly linked lists of nodes that are identified by number, for the order in a region (`Spec/Transform.md`, section
// 13.3).

/// The next and the previous node of each node. A node is in one list only.
struct NodeLinks: BitwiseCopyable {
    static let none = UInt32.max

    let next: ScratchBuffer<UInt32>
    let previous: ScratchBuffer<UInt32>

    init(_ capacity: Int, _ memory: inout ScratchMemory) {
        next = memory.take(capacity)
        previous = memory.take(capacity)
    }

    /// Makes two nodes neighbours.
    @inline(__always)
    func join(_ left: UInt32, _ right: UInt32) {
        next[left] = right
        previous[right] = left
    }

    /// Puts a node directly before another one.
    @inline(__always)
    func insert(_ node: UInt32, before right: UInt32) {
        join(previous[right], node)
        join(node, right)
    }
}

/// Lists that belong to hosts, one each: their first and last nodes, `none` where a list is empty.
struct NodeLists: BitwiseCopyable {
    private static let none = NodeLinks.none

    let links: NodeLinks
    /// By host.
    let first: ScratchBuffer<UInt32>
    let last: ScratchBuffer<UInt32>

    /// - Parameter links: of all nodes; may be shared with other lists, since each node is in one.
    init(_ links: NodeLinks, _ capacity: Int, _ memory: inout ScratchMemory) {
        self.links = links
        first = memory.take(capacity)
        last = memory.take(capacity)
    }

    @inline(__always)
    func makeEmpty(_ host: UInt32) {
        first[host] = Self.none
        last[host] = Self.none
    }

    /// Adds a node to a host's list, after `left`, or in front if that is `none`.
    @inline(__always)
    func add(_ node: UInt32, to host: UInt32, after left: UInt32) {
        let right = left == Self.none ? first[host] : links.next[left]
        links.next[node] = right
        links.previous[node] = left
        if left == Self.none { first[host] = node } else { links.next[left] = node }
        if right == Self.none { last[host] = node } else { links.previous[right] = node }
    }

    @inline(__always)
    func remove(_ node: UInt32, from host: UInt32) {
        let (left, right) = (links.previous[node], links.next[node])
        if left == Self.none { first[host] = right } else { links.next[left] = right }
        if right == Self.none { last[host] = left } else { links.previous[right] = left }
    }

    /// Gives the list of a host to another one, whose own list is lost.
    @inline(__always)
    func move(from source: UInt32, to target: UInt32) {
        first[target] = first[source]
        last[target] = last[source]
        makeEmpty(source)
    }

    /// Puts the list of a host before the list of another one.
    func prepend(from source: UInt32, to target: UInt32) {
        guard first[source] != Self.none else { return }
        if first[target] == Self.none {
            last[target] = last[source]
        } else {
            links.join(last[source], first[target])
        }
        first[target] = first[source]
    }

    /// Calls back with the nodes of a host's list in order.
    func forEach(of host: UInt32, _ body: (UInt32) -> Void) {
        var node = first[host]
        while node != Self.none {
            let next = links.next[node]
            body(node)
            node = next
        }
    }
}
