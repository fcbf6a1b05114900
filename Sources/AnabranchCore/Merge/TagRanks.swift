/// The origin tags of the changesets of a merge as numbers in the same order: equal tags have equal ranks.
struct TagRanks: Sendable {
    private let changesets: [ChangesetIndex]
    /// By changeset of the arena; those that take no part have none. Empty until they are needed.
    private var ranks: [UInt32] = []

    init(of changesets: [ChangesetIndex] = []) { self.changesets = changesets }

    mutating func makeReady(in arena: borrowing ChangesetArena) {
        guard ranks.isEmpty, let last = changesets.max() else { return }
        ranks = Array(repeating: 0, count: last.position + 1)
        let ordered = changesets.map { (changeset: $0, tag: arena[$0].tag) }.sorted { $0.tag < $1.tag }
        var rank: UInt32 = 0
        var previous = ordered.first?.tag
        for (changeset, tag) in ordered {
            if tag != previous { rank += 1 }
            previous = tag
            ranks[changeset.position] = rank
        }
    }

    @inline(__always)
    subscript(changeset: ChangesetIndex) -> UInt32 { ranks[changeset.position] }
}
