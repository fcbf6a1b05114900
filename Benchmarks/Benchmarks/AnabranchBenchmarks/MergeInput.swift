import AnabranchCore
import AnabranchTesting

/// The changesets of a case, made when they are first asked for.
final class MergeInput {
    private let mergeCase: BenchmarkCase
    private lazy var sides = mergeCase.tagged()

    init(_ mergeCase: BenchmarkCase) { self.mergeCase = mergeCase }

    private func local(_ arena: ChangesetArena) -> Range<ChangesetIndex> { arena.changesets.prefix(sides.local.count) }
    private func incoming(_ arena: ChangesetArena) -> Range<ChangesetIndex> {
        arena.changesets.dropFirst(sides.local.count)
    }

    func arena() throws -> ChangesetArena {
        var arena = ChangesetArena()
        for side in [sides.local, sides.incoming] {
            for (position, changeset) in side.enumerated() {
                try arena.decode(changeset.bytes, version: UInt64(position + 2), tag: changeset.tag)
            }
        }
        return arena
    }

    func merge(_ arena: inout ChangesetArena) throws {
        try arena.merge(local: Array(local(arena)), incoming: Array(incoming(arena)))
    }

    // MARK: States

    typealias States = (local: ObjectGraph, incoming: ObjectGraph)

    /// The states of both sides, before they learn of each other: a list of 100 elements, and each side's own changes.
    func states() throws -> States {
        var base = ObjectGraph()
        _ = try base.write(as: 2) { transaction in
            try transaction.addClass("Doc", key: "_id", .int)
            try transaction.addColumn("items", .int, collection: .list, to: "Doc")
            let list = try transaction.create("Doc", key: .int(1)).list("items")
            for _ in 0..<100 { try list.append(.int(0)) }
        }
        var states: States = (base, base)
        let arena = try arena()
        for place in local(arena) { try states.local.apply(place, of: arena) }
        for place in incoming(arena) { try states.incoming.apply(place, of: arena) }
        return states
    }

    /// Applies what the merge has made of each side to the state of the other.
    func exchange(_ arena: ChangesetArena, between states: inout States) throws {
        for place in local(arena) { try states.incoming.apply(place, of: arena) }
        for place in incoming(arena) { try states.local.apply(place, of: arena) }
    }
}
