public import AnabranchCore

/// A merge for the benchmark: the changesets of both sides by name.
public struct BenchmarkCase {
    /// The name that `anabranch-lab bench merge` prints: the family and the number of operations a side.
    public var name: String
    /// Milliseconds between the origin timestamps of two changesets of a side.
    var step = 2
    var make: () -> Sides

    struct Sides {
        var local: [ChangesetWriter]
        var incoming: [ChangesetWriter]
    }

    /// Makes the changesets of both sides, with their tags. The local side is that of client 2, the incoming one
    /// that of client 3.
    public func tagged() -> (local: [TaggedChangeset], incoming: [TaggedChangeset]) {
        let sides = make()
        return (tagged(sides.local, ident: 2, start: 1000), tagged(sides.incoming, ident: 3, start: 1001))
    }

    private func tagged(_ side: [ChangesetWriter], ident: ClientFileID, start: Int) -> [TaggedChangeset] {
        side.enumerated().map { position, changeset in
            let tag = OriginTag(timestamp: ChangesetTime(start + position * step), ident: ident)
            return TaggedChangeset(bytes: changeset.bytes, tag: tag)
        }
    }

    /// All cases in order.
    ///
    /// - Parameters:
    ///   - seed: selects the random streams; another seed gives the same families with other inputs.
    ///   - large: adds lists of 64,000 and 256,000 operations a side, and 64,000 objects.
    public static func all(seed: Int, large: Bool) -> [BenchmarkCase] {
        let lists = ListCases(seed: seed)
        let sizes = [1000, 4000, 16000]
        return lists.random(sizes + (large ? [64000, 256000] : []))
            + lists.movesAndTransactions(sizes)
            + lists.patterns([1000, 4000])
            + ObjectCases.objects(sizes + (large ? [64000] : []))
            + ObjectCases.erasedColumn([1000, 4000])
            + ObjectCases.addedSchema([100, 400, 1600])
    }
}

/// A changeset of a merge case.
public struct TaggedChangeset {
    /// The bytes, in the form of `Spec/Changeset.md`.
    public var bytes: [UInt8]
    /// The time at which it was made, and the client that made it.
    public var tag: OriginTag
}
