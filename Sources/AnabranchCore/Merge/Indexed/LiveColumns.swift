/// The live columns, which one row after another meets.
///
/// Rows skip discarded columns cheaply until so many were skipped that removing them pays; so a run of values for one
/// place costs its length and not its square.
struct LiveColumns: Sendable {
    /// In order, discarded ones among them.
    private(set) var indices: [InstructionIndex]
    /// The number of discarded ones that rows have passed over since they were last taken out.
    private var passed = 0
    private var hasDiscarded = false
    /// The number of pairs that rows have visited without discarding the column.
    private(set) var visitedInVain = 0

    init(_ columns: [InstructionIndex]) { indices = columns }

    /// Counts what a row has visited, and what of it was discarded before or now.
    @inline(__always)
    mutating func count(passed count: Int, discarded: Int, visited: Int) {
        visitedInVain += visited - count - discarded
        if discarded > 0 { hasDiscarded = true }
        passed += count
    }

    /// Takes out discarded columns if that pays: at the end of a row, when no position in `indices` is in use.
    @inline(__always)
    mutating func tidy(in arena: borrowing ChangesetArena) {
        if passed > indices.count / 2 { takeOutDiscarded(in: arena) }
    }

    private mutating func takeOutDiscarded(in arena: borrowing ChangesetArena) {
        indices.removeAll { arena[$0].isDiscarded }
        (passed, hasDiscarded) = (0, false)
    }

    /// Those that are not discarded. Valid only while all discards happen in rows that are merged with this value.
    func live(in arena: borrowing ChangesetArena) -> [InstructionIndex] {
        hasDiscarded ? indices.filter { !arena[$0].isDiscarded } : indices
    }
}
