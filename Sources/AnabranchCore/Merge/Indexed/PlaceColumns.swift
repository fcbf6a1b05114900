/// The columns of one place, most of which leave most rows alone: Updates and increments of a number, and values that
/// both sides make the same collection.
///
/// A row meets one by one only those that it discards or is discarded by, which a tree finds. What is left are sums: an
/// increment adds to the numbers before the column that discards it, and a number that no column discards gets all
/// increments that it has not discarded (`Spec/Transform.md`, rule R7). So a long run of increments against a long run
/// of numbers costs about its length, and not its square.
struct PlaceColumns: Sendable {
    /// The summary of the columns below a node of the tree.
    fileprivate struct Node: Sendable {
        var roles = PlaceRole()
        /// One more than the greatest rank of a number that is not a default; 0 if there is none.
        var newestNumber: UInt32 = 0
        /// The smallest rank of an increment.
        var oldestIncrement = UInt32.max

        static func joining(_ left: Node, _ right: Node) -> Node {
            Node(
                roles: left.roles.union(right.roles), newestNumber: max(left.newestNumber, right.newestNumber),
                oldestIncrement: min(left.oldestIncrement, right.oldestIncrement))
        }
    }

    /// The columns with which a row conflicts.
    struct Search: Sendable {
        fileprivate let roles: PlaceRole
        fileprivate var numbersFrom = UInt32.max
        fileprivate var incrementsBelow: UInt32 = 0

        fileprivate func finds(_ node: Node) -> Bool {
            !roles.isDisjoint(with: node.roles) || node.newestNumber >= numbersFrom
                || node.oldestIncrement < incrementsBelow
        }
    }

    /// The amount that rows have added to all numbers before a column.
    private struct Addition: Sendable {
        var sum: UInt64 = 0
        /// Adding zero changes nothing and makes nothing dirty; adding one and minus one does.
        var isChange = false
    }

    private let depth: UInt32
    /// The first of the sizes that Updates of an element state.
    private let size: UInt32?
    private let columns: [InstructionIndex]
    /// The root is 1, the children of i are 2i and 2i + 1, and the last ones are the columns.
    private var nodes: [Node]
    private let leafCount: Int
    /// The additions by column, and a last one for all columns. Empty until there is an addition.
    private var additions: [Addition] = []
    /// The sum of the live increments, and the number of those that are not zero.
    private var incrementSum: UInt64 = 0
    private var changingIncrements = 0

    /// - Parameters:
    ///   - columns: Live ones, in order.
    ///   - depth: The number of path elements that lead to the place.
    init(_ columns: [InstructionIndex], depth: UInt32, _ ranks: TagRanks, in arena: borrowing ChangesetArena) {
        self.depth = depth
        self.columns = columns
        var leafCount = 1
        while leafCount < columns.count { leafCount *= 2 }
        self.leafCount = leafCount
        size = Self.firstSize(of: columns, depth, in: arena)
        nodes = Array(repeating: Node(), count: 2 * leafCount)
        for (position, index) in columns.enumerated() {
            let column = arena[index]
            nodes[leafCount + position] = node(of: column, rank: ranks[column.owner], in: arena)
            if column.kind == .addInteger, column.pathCount == depth { count(column, by: 1) }
        }
        for parent in stride(from: leafCount - 1, to: 0, by: -1) { join(parent) }
    }

    private static func firstSize(
        of columns: [InstructionIndex], _ depth: UInt32, in arena: borrowing ChangesetArena
    ) -> UInt32? {
        for index in columns where arena[index].kind == .update && arena[index].pathCount == depth {
            if arena[index].isIndexed { return arena[index].priorSize }
        }
        return nil
    }

    private func node(of column: Instruction, rank: UInt32, in arena: borrowing ChangesetArena) -> Node {
        var node = Node(roles: arena.role(of: column, depth: depth, size: size))
        if node.roles == .number, !column.isDefault { node.newestNumber = rank + 1 }
        if node.roles == .increment { node.oldestIncrement = rank }
        return node
    }

    /// The number of pairs that finding a column counts for.
    var pairsOfSearch: Int { 1 + leafCount.trailingZeroBitCount / 4 }

    func search(for row: Instruction, rank: UInt32, in arena: borrowing ChangesetArena) -> Search {
        let role = arena.role(of: row, depth: depth, size: size)
        var search = Search(roles: role.conflicts)
        if role == .increment { search.numbersFrom = rank + 1 }
        if role == .number, !row.isDefault { search.incrementsBelow = rank + 1 }
        return search
    }

    /// The first live column at or after a position that a row conflicts with.
    func first(_ search: Search, from position: Int) -> (position: Int, column: InstructionIndex)? {
        guard position < columns.count else { return nil }
        var node = leafCount + position
        while !search.finds(nodes[node]) {
            // Up from right children, then to the right.
            while node & 1 == 1 {
                node /= 2
                if node == 0 { return nil }
            }
            node += 1
        }
        while node < leafCount {
            node *= 2
            if !search.finds(nodes[node]) { node += 1 }
        }
        return (node - leafCount, columns[node - leafCount])
    }

    /// Takes out a column that was discarded.
    mutating func remove(_ position: Int, in arena: borrowing ChangesetArena) {
        let column = arena[columns[position]]
        if column.kind == .addInteger, column.pathCount == depth { count(column, by: -1) }
        var node = leafCount + position
        nodes[node] = Node()
        node /= 2
        while node > 0 {
            join(node)
            node /= 2
        }
    }

    /// Merges a row with the columns that it does not conflict with, by sums.
    ///
    /// - Parameter end: The position of the column that has discarded the row; nil if it is through.
    mutating func add(_ row: inout Instruction, upTo end: Int?, in arena: inout ChangesetArena) {
        guard row.pathCount == depth else { return }
        if row.kind == .addInteger {
            if additions.isEmpty { additions = Array(repeating: Addition(), count: columns.count + 1) }
            additions[end ?? columns.count].sum &+= row.word0
            if row.word0 != 0 { additions[end ?? columns.count].isChange = true }
        } else if row.kind == .update, row.type == .int, end == nil, changingIncrements > 0 {
            row.word0 &+= incrementSum
            arena[row.owner].isDirty = true
        }
    }

    /// Writes what rows have added to the columns, when all rows are through.
    func finish(in arena: inout ChangesetArena) {
        guard !additions.isEmpty else { return }
        var addition = Addition()
        for position in columns.indices.reversed() {
            addition.sum &+= additions[position + 1].sum
            if additions[position + 1].isChange { addition.isChange = true }
            var column = arena[columns[position]]
            let isNumber = column.kind == .update && column.type == .int && column.pathCount == depth
            guard addition.isChange, isNumber, !column.isDiscarded else { continue }
            column.word0 &+= addition.sum
            arena.store(column, at: columns[position])
        }
    }

    private mutating func join(_ parent: Int) { nodes[parent] = .joining(nodes[2 * parent], nodes[2 * parent + 1]) }

    private mutating func count(_ increment: Instruction, by step: Int) {
        if step > 0 { incrementSum &+= increment.word0 } else { incrementSum &-= increment.word0 }
        if increment.word0 != 0 { changingIncrements += step }
    }
}
